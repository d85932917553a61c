//! Writers that go through API servers: each reads an object, changes it and writes it back, the one or the other through the replica or past it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use anyhow::Result;
use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    http::{Listener, Talk},
    object::{Draft, NAMESPACE_PREFIX, Resource, TIERS},
    stage::{NAMES, NAMESPACES, PAYLOAD_BYTES},
    truth::Ledger,
};

const WRITERS: usize = 8;
/// Share of writes that delete, percent.
const DELETES: u32 = 10;
/// How long an answer may take, and how long a writer waits after it was refused.
const ANSWER: Duration = Duration::from_secs(65);
const PAUSE: Duration = Duration::from_millis(200);
/// How far a writer may be behind its pace and still make up for it.
const CATCH_UP: Duration = Duration::from_millis(500);

/// What they have done.
#[derive(Debug, Default)]
pub(super) struct Written {
    through: usize,
    past: usize,
    conflicts: usize,
    /// By what was answered.
    pub(super) refused: HashMap<String, usize>,
}

impl Written {
    pub(super) fn notes(&self) -> [(&'static str, String); 4] {
        [
            ("written_through", self.through.to_string()),
            ("written_past", self.past.to_string()),
            ("conflicts", self.conflicts.to_string()),
            ("writes_refused", self.refused.values().sum::<usize>().to_string()),
        ]
    }
}

/// Running writers.
pub(super) struct Writers {
    stop: watch::Sender<bool>,
    tasks: JoinSet<Written>,
}

impl Writers {
    /// Starts them; `ways` are the one through the replica and the one past it.
    pub(super) fn start(ledgers: Vec<Arc<Ledger>>, ways: [Arc<Listener>; 2], rate: u32, seed: u64) -> Self {
        let (stop, mut tasks) = (watch::Sender::new(false), JoinSet::new());
        for nth in 0..WRITERS {
            let ways = ways.clone().map(|listener| Way { listener, talk: None });
            let (ledgers, rng) = (ledgers.clone(), StdRng::seed_from_u64(seed << 8 | nth as u64));
            let writer = Writer { nth, ledgers, ways, rng, written: Written::default() };
            tasks.spawn(writer.run(Duration::from_secs(WRITERS as u64) / rate.max(1), stop.subscribe()));
        }
        Self { stop, tasks }
    }

    pub(super) async fn stop(mut self) -> Result<Written> {
        self.stop.send_replace(true);
        let mut all = Written::default();
        while let Some(written) = self.tasks.join_next().await {
            let Written { through, past, conflicts, refused } = written?;
            (all.through, all.past, all.conflicts) = (all.through + through, all.past + past, all.conflicts + conflicts);
            for (why, count) in refused {
                *all.refused.entry(why).or_default() += count;
            }
        }
        Ok(all)
    }
}

/// A connection that is made anew when it breaks.
struct Way {
    listener: Arc<Listener>,
    talk: Option<Talk>,
}

impl Way {
    async fn ask(&mut self, method: &str, target: &str, body: Option<Value>) -> Result<(u16, Bytes), String> {
        let body = body.map(|body| ("application/json", Bytes::from(body.to_string())));
        let asked = async {
            let mut talk = match self.talk.take() {
                Some(talk) => talk,
                None => self.listener.talk().await?,
            };
            let answer = talk.whole(method, target, body).await?;
            self.talk = Some(talk);
            Ok::<_, anyhow::Error>(answer)
        };
        // Which of the many ways a connection may break is no matter.
        timeout(ANSWER, asked).await.map_err(|_| format!("{method}: no answer in time"))?.map_err(|_| format!("{method}: no connection"))
    }
}

struct Writer {
    nth: usize,
    ledgers: Vec<Arc<Ledger>>,
    ways: [Way; 2],
    rng: StdRng,
    written: Written,
}

impl Writer {
    async fn run(mut self, period: Duration, mut stop: watch::Receiver<bool>) -> Written {
        let mut due = Instant::now();
        loop {
            tokio::select! {
                biased;
                _stopped = stop.wait_for(|stopped| *stopped) => return self.written,
                () = sleep_until(due) => {}
            }
            if let Err(why) = self.write().await {
                *self.written.refused.entry(why).or_default() += 1;
                sleep(PAUSE).await;
            }
            due = (due + period).max(Instant::now() - CATCH_UP);
        }
    }

    async fn write(&mut self) -> Result<(), String> {
        let ledger = self.ledgers[self.rng.random_range(0..self.ledgers.len())].clone();
        let namespace = format!("{NAMESPACE_PREFIX}{}", self.rng.random_range(0..NAMESPACES));
        let name = format!("cm-{:04}", self.nth + self.rng.random_range(0..NAMES / WRITERS) * WRITERS);
        let tier = self.rng.random_range(0..u8::try_from(TIERS.len()).expect("three"));
        let (reads, writes) = (self.rng.random_range(0..2), self.rng.random_range(0..2));
        let resource = ledger.resource();
        let (collection, deletes, advances) = (resource.path(Some(&namespace)), self.rng.random_range(0..100) < DELETES, self.rng.random());
        let object = format!("{collection}/{name}");
        // Before it is read: the number tells which API servers there were for both.
        let draft = Draft { namespace, name, tier, seq: ledger.next_seq(), payload_bytes: PAYLOAD_BYTES };
        let (method, target, body) = match self.ways[reads].ask("GET", &object, None).await? {
            (404, _) => ("POST", collection, serde_json::from_slice(&draft.stored(resource)).ok()),
            (200, _) if deletes => ("DELETE", object, None),
            (200, read) => {
                let read = serde_json::from_slice(&read).map_err(|error| format!("GET: {error}"))?;
                let part = if resource == Resource::Autoscalers { "/status" } else { "" };
                ("PUT", object + part, Some(changed(read, &draft, resource, advances)))
            }
            (status, _) => return Err(format!("GET: {status}")),
        };
        match self.ways[writes].ask(method, &target, body).await? {
            (200 | 201, _) if writes == 0 => self.written.through += 1,
            (200 | 201, _) => self.written.past += 1,
            (404 | 409, _) => self.written.conflicts += 1,
            (status, body) => {
                let why: String = String::from_utf8_lossy(&body).chars().take(200).collect();
                return Err(format!("{method}: {status} {}", why.trim_end()));
            }
        }
        Ok(())
    }
}

/// What was read, with the labels and annotations of a draft; an autoscaler that advances gets a new condition, with a field that only the newer minor has.
fn changed(mut read: Value, draft: &Draft, resource: Resource, advances: bool) -> Value {
    let metadata = draft.metadata();
    for member in ["labels", "annotations"] {
        read["metadata"][member] = metadata[member].clone();
    }
    if resource == Resource::Autoscalers && advances {
        let condition = json!({"type": "ScalingActive", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": draft.seq & 0xffff});
        read["status"] = json!({"currentReplicas": 1, "desiredReplicas": 1, "currentMetrics": null, "conditions": [condition]});
    }
    read
}
