//! The same events: watches on ours and on kube-apiserver from the same revision, while thousands of changes are made.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};

use super::{Outcome, floor::stand, objects, record, say};
use crate::{
    client::{Client, Request, Witness},
    guarantees::{self, Asked, Filter, Limits, Seen, Start, Truth},
};

/// Changes that are made, in all.
const CHANGES: usize = 5_000;
/// Writers at a time; each has objects of its own, so that none runs into another.
const WRITERS: usize = 8;
/// Objects of each kind that a writer has.
const OBJECTS: usize = 12;
/// How long a watch may take to show the last change after it was made.
const PATIENCE: Duration = Duration::from_secs(120);
/// After so long without an event a watch is taken to have none pending.
const QUIET: Duration = Duration::from_millis(500);
/// The same at the end, when an event that is still to come would be taken for a lost one; also how long is waited for one too many.
const QUIET_AT_LAST: Duration = Duration::from_secs(5);
/// Times a watch may be opened again.
const STRETCHES: usize = 1_000;
/// The client that resumes does so after this many events.
const RESUME_EVERY: usize = 40;

/// One watch that is compared.
struct Case {
    path: &'static str,
    /// The part of etcd's keys after `/registry/`.
    stored: &'static str,
    selectors: &'static [(&'static str, &'static str)],
    selects: fn(&str, &Value) -> bool,
}

const CASES: [Case; 13] = [
    Case { path: "/api/v1/configmaps", stored: "configmaps", selectors: &[], selects: |_, _| true },
    Case {
        path: "/api/v1/namespaces/wp-a/configmaps",
        stored: "configmaps",
        selectors: &[("labelSelector", "app=red")],
        selects: |key, o| in_a(key) && label(o, "app") == Some("red"),
    },
    Case {
        path: "/api/v1/configmaps",
        stored: "configmaps",
        selectors: &[("labelSelector", "app!=red")],
        selects: |_, o| label(o, "app") != Some("red"),
    },
    Case {
        path: "/api/v1/configmaps",
        stored: "configmaps",
        selectors: &[("labelSelector", "tier in (gold, silver),app notin (blue)")],
        selects: |_, o| matches!(label(o, "tier"), Some("gold" | "silver")) && label(o, "app") != Some("blue"),
    },
    Case {
        path: "/api/v1/configmaps",
        stored: "configmaps",
        selectors: &[("labelSelector", "canary,!frozen")],
        selects: |_, o| label(o, "canary").is_some() && label(o, "frozen").is_none(),
    },
    Case {
        path: "/api/v1/namespaces/wp-a/configmaps",
        stored: "configmaps",
        selectors: &[("fieldSelector", "metadata.name=configmaps-0-0")],
        selects: |key, _| key == "wp-a/configmaps-0-0",
    },
    Case {
        path: "/api/v1/configmaps",
        stored: "configmaps",
        selectors: &[("fieldSelector", "metadata.namespace!=wp-a"), ("labelSelector", "tier=gold")],
        selects: |key, o| !in_a(key) && label(o, "tier") == Some("gold"),
    },
    Case {
        path: "/api/v1/pods",
        stored: "pods",
        selectors: &[("fieldSelector", "spec.nodeName=node-1")],
        selects: |_, o| o["spec"]["nodeName"] == "node-1",
    },
    Case {
        path: "/api/v1/pods",
        stored: "pods",
        selectors: &[("fieldSelector", "status.phase=Running,spec.nodeName!=")],
        selects: |_, o| o["status"]["phase"] == "Running" && o["spec"]["nodeName"].is_string(),
    },
    Case { path: "/api/v1/namespaces/wp-b/secrets", stored: "secrets", selectors: &[], selects: |key, _| key.starts_with("wp-b/") },
    Case {
        path: "/api/v1/secrets",
        stored: "secrets",
        selectors: &[("fieldSelector", "type=ex.io/other")],
        selects: |_, o| o["type"] == "ex.io/other",
    },
    Case {
        path: "/apis/ex.io/v1/widgets",
        stored: "ex.io/widgets",
        selectors: &[("labelSelector", "app=red")],
        selects: |_, o| label(o, "app") == Some("red"),
    },
    Case {
        path: "/apis/ex.io/v2/namespaces/wp-b/widgets",
        stored: "ex.io/widgets",
        selectors: &[],
        selects: |key, _| key.starts_with("wp-b/"),
    },
];

fn in_a(key: &str) -> bool {
    key.starts_with("wp-a/")
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

impl Case {
    fn witness(&self, name: &str, client: Client) -> Witness {
        let selects = self.selects;
        let filter = Filter::new(format!("{:?}", self.selectors), selects);
        Witness::new(name, client, self.path, self.selectors, filter)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn watch_parity() -> Outcome {
    let floor = stand().await?;
    let (ours, theirs) = (floor.ours(), floor.theirs());
    objects::define(&theirs).await?;
    objects::create(&theirs, vec![objects::namespace("wp-a"), objects::namespace("wp-b")]).await?;
    objects::served(&ours, "/apis/ex.io/v2/widgets").await?;
    let seed = rand::random();
    say(&format!("live watch_parity: seed {seed}"));
    // A few objects before the watches begin, so that the first events are not all arrivals.
    churn(&theirs, seed, 200).await?;
    let from = record::revision(floor.etcd_at).await?;

    let (done, goal) = watch::channel(None);
    let mut watches = Vec::new();
    for case in &CASES {
        let pair = [case.witness("theirs", theirs.clone()), case.witness("ours", ours.clone())];
        let [left, right] = pair.map(|witness| tokio::spawn(follow(witness, Start::At(from), from, usize::MAX, goal.clone())));
        let resuming =
            tokio::spawn(follow(case.witness("ours, resuming", ours.clone()), Start::At(from), from, RESUME_EVERY, goal.clone()));
        let fresh = [("ours, streamed", Start::Marked), ("ours, from any", Start::Unmarked)];
        let [marked, unmarked] =
            fresh.map(|(name, start)| tokio::spawn(follow(case.witness(name, ours.clone()), start, from, usize::MAX, goal.clone())));
        watches.push((case, left, right, [resuming, marked, unmarked]));
    }
    // All have begun when each has read nothing for a moment; a late one would still start at `from`.
    tokio::time::sleep(QUIET).await;
    let began = Instant::now();
    let made = churn(&theirs, seed.wrapping_add(1), CHANGES).await?;
    say(&format!("live watch_parity: {made} changes in {:?}", began.elapsed()));
    let head = record::revision(floor.etcd_at).await?;
    // A receiver that is gone is a watch that failed; its task says why.
    let _ = done.send(Some(head));

    let mut report = Report::default();
    let mut truths: HashMap<&str, Truth> = HashMap::new();
    for (case, left, right, others) in watches {
        if !truths.contains_key(case.stored) {
            truths.insert(case.stored, record::truth(floor.etcd_at, case.stored, from).await?);
        }
        report.case(case, &truths[case.stored], left, right, others).await?;
    }
    say(&format!(
        "live watch_parity: {made} changes, {} selectors, {} events and {} bytes compared, {} differences, {} broken guarantees",
        CASES.len(),
        report.events,
        report.bytes,
        report.differences,
        report.broken
    ));
    if report.differences + report.broken > 0 || report.events < CHANGES {
        return Err("the watches are not the same, or showed too little".into());
    }
    Ok(())
}

/// What came of all cases.
#[derive(Default)]
struct Report {
    events: usize,
    bytes: usize,
    differences: usize,
    broken: usize,
}

type Followed = JoinHandle<std::io::Result<Witness>>;

impl Report {
    async fn case(&mut self, case: &Case, truth: &Truth, theirs: Followed, ours: Followed, others: [Followed; 3]) -> Outcome {
        let (theirs, ours) = (theirs.await??, ours.await??);
        self.events += theirs.lines.len();
        self.bytes += theirs.lines.iter().map(Vec::len).sum::<usize>();
        if let Some(at) = (0..theirs.lines.len().max(ours.lines.len())).find(|at| theirs.lines.get(*at) != ours.lines.get(*at)) {
            self.differences += 1;
            let show = |lines: &[Vec<u8>]| lines.get(at).map_or("nothing".into(), |line| String::from_utf8_lossy(line).into_owned());
            say(&format!(
                "live watch_parity: {} {:?}: event {at}\n  ours   {}\n  theirs {}",
                case.path,
                case.selectors,
                show(&ours.lines),
                show(&theirs.lines)
            ));
        }
        let mut judged = vec![theirs, ours];
        for other in others {
            judged.push(other.await??);
        }
        for witness in &judged {
            for violation in guarantees::broken(&witness.history, truth, &Limits::default()) {
                self.broken += 1;
                say(&format!("live watch_parity: {violation}"));
            }
        }
        Ok(())
    }
}

/// Lists, then watches until everything up to the goal can have come, and a moment longer. Goes on from what it has seen after every
/// `stretch` events, and when the server ends the watch (it may, when this client is slow); lists anew when it cannot go on.
async fn follow(
    mut witness: Witness,
    mut start: Start,
    from: u64,
    stretch: usize,
    mut goal: watch::Receiver<Option<u64>>,
) -> std::io::Result<Witness> {
    if start == Start::At(from) {
        witness.list(Asked::Exactly(from), None).await?;
    }
    let mut seen = from;
    for _ in 0..STRETCHES {
        if !witness.watch(start).await? {
            return Ok(witness);
        }
        let mut left = stretch;
        let mut note = |event: &Seen| {
            seen = seen.max(event.change().map(|c| c.item.revision).or(event.bookmark()).unwrap_or(0));
            left = left.saturating_sub(usize::from(event.change().is_some()));
            left == 0
        };
        let done = loop {
            if witness.read_until(Duration::from_millis(100), &mut note).await? || !witness.is_open() {
                break false;
            }
            if goal.borrow_and_update().is_some() {
                break !witness.read_until(QUIET, &mut note).await? && witness.is_open();
            }
        };
        if done {
            break;
        }
        let ended = !witness.is_open();
        witness.leave();
        start = match start {
            Start::At(_) if !witness.expired() => Start::At(seen),
            _ if ended => Start::At(witness.list(Asked::Any, None).await?.unwrap_or(seen)),
            _ => Start::At(seen),
        };
    }
    let head = goal.wait_for(Option::is_some).await.ok().and_then(|g| *g).unwrap_or(0);
    catch_up(&mut witness, head).await?;
    Ok(witness)
}

/// Waits until the server has shown that it is at `head`, then reads what is left.
async fn catch_up(witness: &mut Witness, head: u64) -> std::io::Result<()> {
    let mut proof = witness.twin();
    let began = tokio::time::Instant::now();
    while proof.list(Asked::AtLeast(head), None).await?.is_none() && began.elapsed() < PATIENCE {}
    while witness.read_until(QUIET_AT_LAST, |_| true).await? {}
    witness.settle(head);
    witness.leave();
    witness.history.seen.extend(proof.history.seen);
    witness.settle(head);
    Ok(())
}

/// Makes `count` changes, spread over the writers; returns how many were answered with success.
async fn churn(client: &Client, seed: u64, count: usize) -> Result<usize, Box<dyn std::error::Error>> {
    let writers = stream::iter(0..WRITERS).map(|writer| async move {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(writer as u64));
        for n in 0..count / WRITERS {
            change(client, &mut rng, writer, n).await?;
        }
        Ok::<usize, Box<dyn std::error::Error>>(count / WRITERS)
    });
    let mut made = 0;
    let mut writers = writers.buffer_unordered(WRITERS);
    while let Some(writer) = writers.next().await {
        made += writer?;
    }
    Ok(made)
}

/// One change of one of the writer's objects: mostly an update, now and then a deletion; what is not there is created.
async fn change(client: &Client, rng: &mut StdRng, writer: usize, n: usize) -> Outcome {
    let namespace = ["wp-a", "wp-b"][rng.random_range(0..2)];
    let resource = *["configmaps", "configmaps", "configmaps", "pods", "secrets", "widgets"].choose(rng).expect("not empty");
    let root = if resource == "widgets" { ["/apis/ex.io/v1", "/apis/ex.io/v2"][rng.random_range(0..2)] } else { "/api/v1" };
    let name = format!("{resource}-{writer}-{}", rng.random_range(0..OBJECTS));
    let collection = format!("{root}/namespaces/{namespace}/{resource}");
    let target = format!("{collection}/{name}");
    let labels = labels(rng);
    let text = format!("{n} {}", objects::AWKWARD);
    let answer = match rng.random_range(0..100) {
        0..12 => {
            objects::asked(client, &Request { method: "DELETE", target: &format!("{target}?gracePeriodSeconds=0"), body: None }).await?
        }
        12..40 if resource == "pods" => {
            let phase = *["Pending", "Running", "Failed"].choose(rng).expect("not empty");
            patch(client, &format!("{target}/status"), &json!({"status": {"phase": phase, "message": text}})).await?
        }
        _ => patch(client, &target, &json!({"metadata": {"labels": labels, "annotations": {"n": text}}})).await?,
    };
    match answer.status {
        200 => Ok(()),
        404 => {
            let (_, mut object) = objects::pod(namespace, &name, n.is_multiple_of(2).then_some(["node-1", "node-2"][n / 2 % 2]));
            match resource {
                "pods" => {}
                "widgets" => object = json!({"apiVersion": &root[6..], "kind": "Widget", "spec": {"size": n}}),
                "secrets" => object = json!({"stringData": {"n": text}, "type": (["Opaque", "ex.io/other"][n % 2])}),
                _ => object = json!({"data": {"n": text}}),
            }
            object["metadata"] = json!({"name": name, "labels": labels.as_object().map(|l| l.iter().filter(|(_, v)| !v.is_null()).collect::<std::collections::BTreeMap<_, _>>())});
            objects::create(client, vec![(collection, object)]).await
        }
        status => Err(format!("{target}: {status} {}", String::from_utf8_lossy(&answer.body)).into()),
    }
}

async fn patch(client: &Client, target: &str, patch: &Value) -> std::io::Result<crate::client::Answer> {
    objects::asked(client, &Request { method: "PATCH", target, body: Some(patch.to_string().as_bytes()) }).await
}

/// A merge patch of labels: null takes one away.
fn labels(rng: &mut StdRng) -> Value {
    let app = *["red", "blue", "green"].choose(rng).expect("not empty");
    let tier = [json!("gold"), json!("silver"), json!("tin"), Value::Null].choose(rng).expect("not empty").clone();
    let mut flag = || if rng.random_bool(0.4) { json!("yes") } else { Value::Null };
    json!({"app": app, "tier": tier, "canary": flag(), "frozen": flag()})
}
