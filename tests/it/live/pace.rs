//! Writers with a pace: ConfigMaps that are created, updated and deleted through a kube-apiserver, each write with a counter. Judges nothing.

use std::{
    collections::BTreeSet,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use super::{
    floor::Floor,
    objects::{self, Creation},
    record::{self, Growing},
};
use crate::client::{Client, Request};

/// Writers at a time; each has objects of its own, so that none runs into another.
const WRITERS: usize = 8;
/// Writes of a hundred that delete.
const DELETES: u32 = 10;
/// How long a writer waits when the server has too much to do.
const BUSY: Duration = Duration::from_millis(200);

/// What is written.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// The objects are spread over these.
    pub(super) namespaces: &'static [&'static str],
    /// In all namespaces together.
    pub(super) objects: usize,
    /// Writes a second, all writers together; fewer when the machine gives no more.
    pub(super) rate: u32,
    pub(super) seed: u64,
}

/// Writers at work.
pub(super) struct Writers {
    stop: watch::Sender<bool>,
    tasks: JoinSet<io::Result<usize>>,
    newest: Arc<AtomicU64>,
    began: Instant,
}

impl Load {
    /// Creates everything, records from then on what is true, and starts writing, all through the floor's kube-apiserver.
    pub(super) async fn begin(self, floor: &Floor) -> Result<(Growing, Writers), Box<dyn std::error::Error>> {
        let client = floor.theirs();
        self.prepare(&client).await?;
        let truth = Growing::start(floor.etcd_at, "configmaps").await?;
        let written = record::revision(floor.etcd_at).await?;
        let writers = self.start(&client);
        writers.newest.fetch_max(written, Ordering::Relaxed);
        Ok((truth, writers))
    }

    /// Creates the namespaces and all objects.
    async fn prepare(&self, client: &Client) -> Result<(), Box<dyn std::error::Error>> {
        objects::create(client, self.namespaces.iter().map(|name| objects::namespace(name)).collect()).await?;
        let mut rng = StdRng::seed_from_u64(self.seed);
        objects::create(client, (0..self.objects).map(|nth| self.object(nth, 0, &mut rng)).collect()).await
    }

    /// Starts writing; the objects must be there.
    fn start(self, client: &Client) -> Writers {
        let (stop, stopped) = watch::channel(false);
        let (newest, mut tasks) = (Arc::<AtomicU64>::default(), JoinSet::new());
        for nth in 0..WRITERS {
            let writer = Writer {
                client: client.clone(),
                load: self,
                rng: StdRng::seed_from_u64(self.seed.wrapping_add(1 + nth as u64)),
                own: (nth..self.objects).step_by(WRITERS).map(|object| (object, true)).collect(),
                unsure: BTreeSet::new(),
                newest: Arc::clone(&newest),
            };
            tasks.spawn(writer.run(stopped.clone()));
        }
        Writers { stop, tasks, newest, began: Instant::now() }
    }

    /// The n-th object: its collection, and its JSON with the counter of its writer.
    fn object(&self, nth: usize, count: usize, rng: &mut StdRng) -> Creation {
        let namespace = self.namespaces[nth % self.namespaces.len()];
        let app = *["red", "blue", "green"].choose(rng).expect("not empty");
        let metadata = json!({"name": name(nth), "namespace": namespace, "labels": {"app": app}});
        let data = json!({"count": count.to_string(), "text": "x".repeat(100 + nth % 100)});
        (format!("/api/v1/namespaces/{namespace}/configmaps"), json!({"metadata": metadata, "data": data}))
    }
}

fn name(nth: usize) -> String {
    format!("paced-{nth}")
}

impl Writers {
    /// The newest revision whose write was acknowledged, moved by the writers.
    pub(super) fn newest(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.newest)
    }

    /// Ends them; how many writes were acknowledged, and how many that were in a second.
    pub(super) async fn stop(mut self) -> io::Result<(usize, f64)> {
        self.stop.send_replace(true);
        let seconds = self.began.elapsed().as_secs_f64();
        let mut made = 0;
        while let Some(ended) = self.tasks.join_next().await {
            made += ended??;
        }
        Ok((made, made as f64 / seconds))
    }
}

struct Writer {
    client: Client,
    load: Load,
    rng: StdRng,
    /// Its objects by number, and whether they are there.
    own: Vec<(usize, bool)>,
    /// Those of which the last write may have been done or not.
    unsure: BTreeSet<usize>,
    newest: Arc<AtomicU64>,
}

impl Writer {
    async fn run(mut self, stopped: watch::Receiver<bool>) -> io::Result<usize> {
        let mut turn = interval(Duration::from_secs(1) * WRITERS as u32 / self.load.rate);
        // What was missed is made up for, so that the rate is kept on average.
        turn.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut made = 0;
        while !*stopped.borrow() {
            turn.tick().await;
            made += usize::from(self.write(made).await?);
        }
        Ok(made)
    }

    /// One write; `false` when the server, or its etcd, has too much to do. Then it may have been done all the same: the next one of the object finds out.
    async fn write(&mut self, count: usize) -> io::Result<bool> {
        let at = self.rng.random_range(0..self.own.len());
        let (nth, there) = self.own[at];
        let (collection, object) = self.load.object(nth, count, &mut self.rng);
        let target = format!("{collection}/{}", name(nth));
        let body = object.to_string();
        let (method, target, body, stays) = match there {
            false => ("POST", &collection, Some(body.as_bytes()), true),
            true if self.rng.random_ratio(DELETES, 100) => ("DELETE", &target, None, false),
            true => ("PUT", &target, Some(body.as_bytes()), true),
        };
        let answer = self.client.ask(&Request { method, target, body }).await?;
        match answer.status {
            200 | 201 => {}
            429 | 500 | 503 | 504 => {
                self.unsure.insert(nth);
                tokio::time::sleep(BUSY).await;
                return Ok(false);
            }
            status @ (404 | 409) if self.unsure.remove(&nth) => {
                self.own[at].1 = status == 409;
                return Ok(false);
            }
            status => return Err(io::Error::other(format!("{method} {target}: {status} {}", String::from_utf8_lossy(&answer.body)))),
        }
        self.unsure.remove(&nth);
        self.own[at].1 = stays;
        if stays {
            let object: Value = serde_json::from_slice(&answer.body)?;
            let revision = object["metadata"]["resourceVersion"].as_str().and_then(|r| r.parse().ok());
            self.newest.fetch_max(revision.ok_or_else(|| io::Error::other(format!("{object} has no resourceVersion")))?, Ordering::Relaxed);
        }
        Ok(true)
    }
}
