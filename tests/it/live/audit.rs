//! The same requests, the same policy: the audit logs of ours and of kube-apiserver have the same events, byte for byte but for times, ids and revisions.
//!
//! Deliberate differences are named in `DELIBERATE` and told in `docs/conformance.md`.

mod requests;
mod told;

use std::{collections::BTreeMap, env, fs, path::Path, path::PathBuf, process::Command, time::Duration};

use serde_json::Value;

use self::{
    requests::{Asked, Who},
    told::symbolic,
};
use super::{Outcome, free_address, peers::Site, say};
use crate::client::Client;

/// How long the last events may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Differences that are printed; all are counted.
const PRINTED: usize = 12;

/// A deliberate difference: its word in `docs/conformance.md`, and whether two events differ by it alone.
type Deliberate = (&'static str, fn(&Asked, &Value, &Value) -> bool);

const DELIBERATE: &[Deliberate] = &[
    ("causes", |_, theirs, ours| without_causes(theirs) == without_causes(ours)),
    // This kube-apiserver stores JSON. Some of these are a 422 besides.
    ("nulls", |_, theirs, ours| without_causes(&without_empty_rules(theirs)) == without_causes(&without_empty_rules(ours))),
    // kube-apiserver loses it: it cannot print what was sent.
    ("patch-no-json", |asked, theirs, ours| {
        let is_patch = asked.method == "PATCH" && serde_json::from_slice::<Value>(&asked.body).is_err();
        is_patch && theirs.is_null() && ours["responseStatus"]["code"] == 400
    }),
];

/// An event without the causes of its 422.
fn without_causes(event: &Value) -> Value {
    let mut event = event.clone();
    for answer in ["responseStatus", "responseObject"] {
        event[answer]["details"]["causes"].take();
    }
    event
}

/// An event in which the rules of a Role without any are null.
fn without_empty_rules(event: &Value) -> Value {
    fn mend(object: &mut Value) {
        object.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten().for_each(mend);
        if let Some(rules) = object.get_mut("rules").filter(|rules| rules.as_array().is_some_and(Vec::is_empty)) {
            *rules = Value::Null;
        }
    }
    let mut event = event.clone();
    ["requestObject", "responseObject"].iter().for_each(|object| event.get_mut(object).into_iter().for_each(mend));
    event
}

/// The clients of one server, by who asks.
struct Clients {
    admin: Client,
    jane: Client,
    stranger: Client,
    nobody: Client,
}

impl Clients {
    fn of(site: &Site, address: std::net::SocketAddr) -> Self {
        let client = |token: &str| site.client_of(address, token);
        Self { admin: site.client(address), jane: client("janetoken"), stranger: client("unknown"), nobody: client("").without_token() }
    }

    /// The status; none when nothing came.
    async fn ask(&self, asked: &Asked, id: &str) -> Option<u16> {
        let client = match asked.who {
            Who::Admin => &self.admin,
            Who::Jane => &self.jane,
            Who::Stranger => &self.stranger,
            Who::Nobody => &self.nobody,
        };
        let mut headers: Vec<(String, String)> = asked.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        headers.push(("Audit-ID".to_owned(), id.to_owned()));
        if !headers.iter().any(|(name, _)| name == "User-Agent") {
            headers.push(("User-Agent".to_owned(), "show/1".to_owned()));
        }
        client.whole(asked.method, &asked.target, &headers, &asked.body).await.ok().map(|answer| answer.status)
    }
}

/// The events of each id in their order, comparable.
fn events(log: &Path) -> BTreeMap<String, Vec<String>> {
    let mut events: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in fs::read_to_string(log).unwrap_or_default().lines() {
        let id = serde_json::from_str::<Value>(line).ok().and_then(|event| event["auditID"].as_str().map(str::to_owned));
        if let Some(id) = id.filter(|id| id.starts_with("show-")) {
            events.entry(id).or_default().push(without_latency(&symbolic(line)));
        }
    }
    events
}

/// kube-apiserver tells of a slow request where its time went.
fn without_latency(line: &str) -> String {
    let Some((before, annotations)) = line.split_once("\"annotations\":{") else { return line.to_owned() };
    let kept: Vec<&str> = annotations.trim_end_matches('}').split(",\"").collect();
    let kept: Vec<&str> = kept.into_iter().filter(|note| !note.contains("apiserver.latency.k8s.io/")).collect();
    format!("{before}\"annotations\":{{{}}}}}", kept.join(",\""))
}

/// Every deliberate difference is explained.
#[test]
fn deliberate_differences_are_told() {
    let text = include_str!("../../../docs/conformance.md");
    for (word, _) in DELIBERATE {
        assert!(text.contains(&format!("| `{word}` |")), "docs/conformance.md does not tell of {word:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn audit_logs_are_the_same() -> Outcome {
    let programs =
        env::var_os("WATCHCACHE_TEST_PEERS").ok_or("WATCHCACHE_TEST_PEERS does not name a folder with etcd and kube-apiserver")?;
    let site = Site::prepare(&PathBuf::from(programs))?;
    let policy = site.path().join("policy.yaml");
    fs::write(&policy, include_str!("audit/policy.yaml"))?;
    let log = |name: &str| site.path().join(name);
    let flags = |log: &Path| [format!("--audit-policy-file={}", policy.display()), format!("--audit-log-path={}", log.display())];

    let (_etcd, etcd_at) = site.etcd()?;
    let [their_policy, their_path] = flags(&log("theirs.log"));
    let (theirs, theirs_at) =
        site.apiserver_with("kube-apiserver", etcd_at, &["--storage-media-type=application/json", &their_policy, &their_path])?;
    let ours_at = free_address()?;
    let file = |name: &str| site.path().join(name).display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.args([
        "serve",
        "--controllers=",
        "--insecure-port",
        "0",
        "--bind-address",
        "127.0.0.1",
        "--secure-port",
        &ours_at.port().to_string(),
    ]);
    command.args(["--data-dir", &file("store"), "--tls-cert-file", &file("server.crt"), "--tls-private-key-file", &file("server.key")]);
    command.args(["--client-ca-file", &file("ca.crt"), "--token-auth-file", &file("tokens.csv")]);
    command.args(["--service-account-key-file", &file("accounts.pub"), "--service-account-signing-key-file", &file("accounts.key")]);
    command.args(flags(&log("ours.log")));
    let ours = site.start("watchcache", command)?;
    let (theirs_of, ours_of) = (Clients::of(&site, theirs_at), Clients::of(&site, ours_at));
    theirs.ready(&theirs_of.admin).await?;
    ours.ready(&ours_of.admin).await?;

    let requests = requests::requests();
    let mut wrong = Vec::new();
    for (at, asked) in requests.iter().enumerate() {
        let id = format!("show-{at:03}");
        let (left, right) = tokio::join!(theirs_of.ask(asked, &id), ours_of.ask(asked, &id));
        if left != right || left.is_none() {
            wrong.push(format!("{id} {} {}: answered with {left:?} there, {right:?} here", asked.method, asked.target));
        }
    }
    // Theirs tells the end of a watch after its answer.
    let (mut left, mut right) = (BTreeMap::new(), BTreeMap::new());
    let began = std::time::Instant::now();
    while began.elapsed() < PATIENCE {
        (left, right) = (events(&log("theirs.log")), events(&log("ours.log")));
        let count = |events: &BTreeMap<String, Vec<String>>| events.values().map(Vec::len).sum::<usize>();
        if count(&left) == count(&right) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let (mut count, mut deliberate) = (0, BTreeMap::<&str, usize>::new());
    for (at, asked) in requests.iter().enumerate() {
        let id = format!("show-{at:03}");
        let [theirs, ours] = [&left, &right].map(|events| events.get(&id).cloned().unwrap_or_default());
        for at in 0..theirs.len().max(ours.len()) {
            count += 1;
            let (theirs, ours) = (theirs.get(at).map_or("", String::as_str), ours.get(at).map_or("", String::as_str));
            if theirs == ours {
                continue;
            }
            let [their_event, our_event] = [theirs, ours].map(|line| serde_json::from_str::<Value>(line).unwrap_or_default());
            match DELIBERATE.iter().find(|(_, fits)| fits(asked, &their_event, &our_event)) {
                Some((word, _)) => *deliberate.entry(word).or_default() += 1,
                None => wrong.push(format!("{id} {} {}\n  theirs: {theirs}\n  ours:   {ours}", asked.method, asked.target)),
            }
        }
    }
    say(&format!(
        "live audit: {} requests, {count} events, {} differ by intention {deliberate:?}, {} differ",
        requests.len(),
        deliberate.values().sum::<usize>(),
        wrong.len()
    ));
    wrong.iter().take(PRINTED).for_each(|text| say(text));
    if count < 500 {
        return Err("there are too few events".into());
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} differ", wrong.len()).into()) }
}
