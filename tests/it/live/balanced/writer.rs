//! Writers with a pace, through the balancer: each has objects of its own, so that what etcd has of them is what was acknowledged, no more and no less.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    io,
    time::{Duration, Instant},
};

use rand::Rng;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::{
    client::{Client, Request},
    guarantees::Truth,
    live::objects,
};

/// Writers at a time.
const WRITERS: usize = 16;
/// Objects of one namespace.
const OBJECTS: usize = 8;
/// Writes of a hundred that delete.
const DELETES: u32 = 10;
/// The name of the object that is written last into a namespace.
pub(super) const END: &str = "/the-end";

/// What is written.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) namespaces: Vec<String>,
    /// Writes a second, all writers together.
    pub(super) rate: u32,
}

/// Writers at work.
pub(super) struct Writers {
    stop: watch::Sender<bool>,
    tasks: JoinSet<Written>,
    began: Instant,
}

/// One write that was acknowledged.
pub(super) struct Done {
    /// `namespace/name`
    key: String,
    /// The revision and the counter of what was written; none of a deletion.
    made: Option<(u64, usize)>,
}

/// What was written.
#[derive(Default)]
pub(super) struct Written {
    /// In order, of each object.
    pub(super) done: Vec<Done>,
    /// Answers that are no acknowledgement, and requests without an answer.
    pub(super) failed: BTreeMap<String, usize>,
    /// Objects of which nobody knows whether the last write was done.
    unsure: BTreeSet<String>,
    pub(super) took: Vec<Duration>,
    pub(super) per_second: f64,
}

impl Load {
    /// Creates all objects.
    pub(super) async fn prepare(&self, client: &Client) -> Result<(), Box<dyn Error>> {
        let all = self.objects().into_iter().map(|key| (collection(&key), object(&key, 0)));
        objects::create(client, all.collect()).await
    }

    /// Starts writing.
    pub(super) fn start(&self, client: &Client) -> Writers {
        let (stop, stopped) = watch::channel(false);
        let (mut tasks, objects) = (JoinSet::new(), self.objects());
        for nth in 0..WRITERS {
            let own = objects.iter().skip(nth).step_by(WRITERS).map(|key| (key.clone(), true)).collect();
            tasks.spawn(write(client.clone(), own, self.rate, stopped.clone()));
        }
        Writers { stop, tasks, began: Instant::now() }
    }

    fn objects(&self) -> Vec<String> {
        self.namespaces.iter().flat_map(|namespace| (0..OBJECTS).map(move |nth| format!("{namespace}/paced-{nth}"))).collect()
    }
}

impl Writers {
    /// Ends them; what they have written.
    pub(super) async fn stop(mut self) -> Result<Written, Box<dyn Error>> {
        self.stop.send_replace(true);
        let (seconds, mut all) = (self.began.elapsed().as_secs_f64(), Written::default());
        while let Some(written) = self.tasks.join_next().await {
            let written = written?;
            all.done.extend(written.done);
            all.unsure.extend(written.unsure);
            all.took.extend(written.took);
            for (why, count) in written.failed {
                *all.failed.entry(why).or_default() += count;
            }
        }
        all.per_second = all.done.len() as f64 / seconds;
        Ok(all)
    }
}

impl Written {
    /// What was acknowledged and is not in the truth, or is there and was not acknowledged.
    pub(super) fn lost(&self, truth: &Truth) -> Vec<String> {
        let mut acknowledged: BTreeMap<&str, Vec<Option<(u64, usize)>>> = BTreeMap::new();
        for done in &self.done {
            acknowledged.entry(&done.key).or_default().push(done.made);
        }
        let mut lost = Vec::new();
        for (key, acknowledged) in acknowledged {
            // The first is how it was before.
            let written = truth.versions(key).into_iter().skip(1);
            let written: Vec<_> = written.map(|(_, item)| item.map(|item| (item.revision, counter(&item.body)))).collect();
            let mut left = written.iter();
            let all_there = acknowledged.iter().all(|one| left.any(|other| other == one));
            if !all_there || (written.len() > acknowledged.len() && !self.unsure.contains(key)) {
                lost.push(format!("{key}: acknowledged {acknowledged:?}, written {written:?}"));
            }
        }
        lost
    }
}

/// Writes the last object of each namespace.
pub(super) async fn end(client: &Client, namespaces: &[String]) -> Result<(), Box<dyn Error>> {
    let last = namespaces.iter().map(|namespace| format!("{namespace}{END}"));
    objects::create(client, last.map(|key| (collection(&key), object(&key, 0))).collect()).await
}

/// One writer: its objects, and whether they are there.
async fn write(client: Client, mut own: Vec<(String, bool)>, rate: u32, stopped: watch::Receiver<bool>) -> Written {
    let mut turn = interval(Duration::from_secs(1) * WRITERS as u32 / rate);
    // What was missed is made up for, so that the rate is kept on average.
    turn.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut written, start) = (Written::default(), Instant::now());
    while !*stopped.borrow() && !own.is_empty() {
        turn.tick().await;
        let at = rand::random_range(0..own.len());
        let count = written.done.len() + 1;
        let (key, there) = own[at].clone();
        let (collection, body) = (collection(&key), object(&key, count).to_string());
        let target = format!("{collection}/{}", name(&key));
        let (method, target, body, stays) = match there {
            false => ("POST", &collection, Some(body.as_bytes()), true),
            true if rand::rng().random_ratio(DELETES, 100) => ("DELETE", &target, None, false),
            true => ("PUT", &target, Some(body.as_bytes()), true),
        };
        let began = Instant::now();
        let made = acknowledged(&client, &Request { method, target, body }).await;
        match made {
            Ok(revision) => {
                written.took.push(began.elapsed());
                own[at].1 = stays;
                written.done.push(Done { key, made: revision.filter(|_| stays).map(|revision| (revision, count)) });
            }
            Err(why) => {
                let (asked, took) = (began - start, began.elapsed());
                *written.failed.entry(format!("{method} {target} {asked:.1?} after the start, after {took:.1?}: {why}")).or_default() += 1;
                written.unsure.insert(key);
                own.swap_remove(at);
            }
        }
    }
    written
}

/// The revision of what was written, or why nobody knows.
async fn acknowledged(client: &Client, request: &Request<'_>) -> Result<Option<u64>, String> {
    let answer = client.ask(request).await.map_err(|error: io::Error| error.to_string())?;
    let body = || String::from_utf8_lossy(&answer.body).into_owned();
    if !matches!(answer.status, 200 | 201) {
        return Err(format!("{} {}", answer.status, body()));
    }
    let object: Value = serde_json::from_slice(&answer.body).map_err(|_| body())?;
    Ok(object["metadata"]["resourceVersion"].as_str().and_then(|revision| revision.parse().ok()))
}

fn object(key: &str, count: usize) -> Value {
    json!({"metadata": {"name": name(key)}, "data": {"count": count.to_string(), "text": "x".repeat(200)}})
}

/// The counter in an object.
fn counter(body: &[u8]) -> usize {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    object["data"]["count"].as_str().and_then(|count| count.parse().ok()).unwrap_or(usize::MAX)
}

fn name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or_default()
}

fn collection(key: &str) -> String {
    format!("/api/v1/namespaces/{}/configmaps", key.split('/').next().unwrap_or_default())
}
