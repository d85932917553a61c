//! Writes of kubelets on ours and on a kube-apiserver with the admission plugin NodeRestriction: both refuse the same ones, with the same bytes.
//!
//! Both serve the same etcd, so both see the same objects. Each write is asked of both as a dry run; one that both accept is then done, by each in turn.
//! `WATCHCACHE_TEST_KUBELET_WRITES` says how many (200), `WATCHCACHE_TEST_SEED` repeats a run.

mod cluster;
mod objects;
mod writes;

use std::{collections::BTreeMap, env, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{Outcome, floor::stand, peers::TOKEN, say};
use crate::{alone::Failure, client::Client};
use writes::{Play, Write};

/// How long a follower of etcd may take to know of a write, and how often that is waited for.
const LATE: Duration = Duration::from_millis(400);
const LATE_TIMES: usize = 8;

/// A kubelet, and whether the authorizers allow it everything.
pub(super) struct Kubelet {
    /// The name of the node; may be empty, and need not be there.
    pub(super) node: &'static str,
    headers: Vec<(String, String)>,
}

fn kubelets() -> Vec<Kubelet> {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let token = |node: &'static str| Kubelet { node, headers: vec![header("Authorization", &format!("Bearer {node}token"))] };
    let allowed = |node: &'static str| Kubelet {
        node,
        headers: vec![
            header("Authorization", &format!("Bearer {TOKEN}")),
            header("Impersonate-User", &format!("system:node:{node}")),
            header("Impersonate-Group", "system:nodes"),
            header("Impersonate-Group", "system:masters"),
        ],
    };
    vec![token("n1"), token("n1"), token("n2"), allowed("n1"), allowed("n2"), allowed("n9"), allowed("")]
}

async fn told(client: &Client, kubelet: &Kubelet, write: &Write, is_dry: bool) -> Result<(u16, String), Failure> {
    let mut headers = kubelet.headers.clone();
    headers.push(("Content-Type".to_owned(), write.media.to_owned()));
    let separator = if write.target.contains('?') { '&' } else { '?' };
    let target = if is_dry { format!("{}{separator}dryRun=All", write.target) } else { write.target.clone() };
    let answer = client.whole(write.method, &target, &headers, write.body.as_bytes()).await?;
    Ok((answer.status, String::from_utf8_lossy(&answer.body).into_owned()))
}

/// What both must say: of a refusal everything, of what is accepted the code.
fn comparable((status, body): &(u16, String)) -> (u16, &str) {
    (*status, if *status >= 400 { body } else { "" })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn kubelets_are_refused_alike() -> Outcome {
    let floor = stand().await?;
    let plainly = |error: Failure| error.to_string();
    let number = |name: &str, default: u64| env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (count, seed) = (number("WATCHCACHE_TEST_KUBELET_WRITES", 200), number("WATCHCACHE_TEST_SEED", rand::random()));
    let flags = ["--enable-admission-plugins=NodeRestriction"];
    let (restricting, theirs_at) = floor.site.apiserver_with("restricting", floor.etcd_at, &flags)?;
    let admin = floor.site.client(theirs_at);
    restricting.ready(&admin).await?;
    let (_secured, ours_at) = floor.secured("restricted").await?;
    let clients = [floor.site.client_of(theirs_at, "").without_token(), floor.site.client_of(ours_at, "").without_token()];
    cluster::make(&admin).await.map_err(plainly)?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let kubelets = kubelets();
    let mut play = Play::new(&admin, StdRng::seed_from_u64(seed));
    let (mut wrong, mut statuses, mut done, mut texts) = (Vec::new(), BTreeMap::<u16, u64>::new(), 0, BTreeMap::<String, u64>::new());
    for at in 0..count {
        let kubelet = &kubelets[play.rng.random_range(0..kubelets.len())];
        let write = play.write(kubelet.node).await.map_err(plainly)?;
        let mut both = Vec::new();
        for _ in 0..LATE_TIMES {
            both.clear();
            for client in &clients {
                both.push(told(client, kubelet, &write, true).await.map_err(plainly)?);
            }
            if comparable(&both[0]) == comparable(&both[1]) {
                break;
            }
            tokio::time::sleep(LATE).await;
        }
        let (status, body) = &both[0];
        *statuses.entry(*status).or_default() += 1;
        if *status == 403 {
            *texts.entry(sort_of(body)).or_default() += 1;
        }
        if comparable(&both[0]) != comparable(&both[1]) {
            let Write { method, target, body, .. } = &write;
            wrong.push(format!("n={} {method} {target} {body}:\n  theirs {:?}\n  ours {:?}", kubelet.node, both[0], both[1]));
        } else if *status < 300 && write.may_be_done {
            let client = &clients[usize::try_from(at % 2).unwrap_or_default()];
            done += u64::from(told(client, kubelet, &write, false).await.map_err(plainly)?.0 < 300);
        }
    }
    say(&format!(
        "live kubelets: seed {seed}, {count} writes, {statuses:?}, {} sorts of refusals, {done} done, {} differ",
        texts.len(),
        wrong.len()
    ));
    let accepted: u64 = statuses.range(..300).map(|(_, count)| count).sum();
    assert!(
        accepted * 10 > count && texts.len() * 20 > usize::try_from(count.min(600)).unwrap_or_default(),
        "a run in which all are answered alike shows nothing: {texts:?}"
    );
    if wrong.is_empty() { Ok(()) } else { Err(wrong[..wrong.len().min(10)].join("\n").into()) }
}

/// The beginning of a refusal's text, after the name of the object.
fn sort_of(body: &str) -> String {
    let text = body.split_once("is forbidden: ").map_or(body, |(_, text)| text);
    text.chars().take(48).collect()
}
