//! A client that lists once and then follows, as an informer does: when its stream ends, it goes on from the last revision that it has.

use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::Semaphore, time::sleep};

use super::writer::END;
use crate::{
    client::{Client, Witness},
    guarantees::{Asked, Filter, History, Seen, Start},
};

/// How long it waits after what did not succeed; client-go waits about as long.
const PAUSE: Duration = Duration::from_millis(800);
/// How long a stream may be silent: longer than the test lasts.
const SILENCE: Duration = Duration::from_secs(3600);

pub(super) struct Watcher {
    nth: usize,
    witness: Witness,
    /// The last revision that it has.
    seen: u64,
    lived: Lived,
}

/// What watchers lived through, besides events.
#[derive(Default)]
pub(super) struct Lived {
    /// Streams that ended as HTTP wants it.
    pub(super) ended: usize,
    /// Streams that broke off.
    pub(super) cut: usize,
    /// Watches for which there was no connection, or no answer.
    pub(super) unreached: usize,
    /// HTTP errors and ERROR events by code.
    pub(super) refused: BTreeMap<u16, usize>,
    /// Lists after the first.
    pub(super) relists: usize,
    /// From the end of a stream until the next one was accepted.
    pub(super) gaps: Vec<Duration>,
}

impl Lived {
    pub(super) fn add(&mut self, other: Self) {
        self.ended += other.ended;
        self.cut += other.cut;
        self.unreached += other.unreached;
        self.relists += other.relists;
        self.gaps.extend(other.gaps);
        for (code, count) in other.refused {
            *self.refused.entry(code).or_default() += count;
        }
    }
}

impl Watcher {
    pub(super) fn new(nth: usize, client: Client, namespace: &str) -> Self {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        Self { nth, witness: Witness::new(&format!("watcher {nth}"), client, &path, &[], Filter::all()), seen: 0, lived: Lived::default() }
    }

    /// Follows until the end comes; tells `begun` when its first watch is accepted.
    pub(super) async fn follow(mut self, begun: Arc<Semaphore>) -> io::Result<(usize, History, Lived)> {
        self.list().await?;
        let mut ended: Option<Instant> = None;
        loop {
            match self.witness.watch(Start::At(self.seen)).await {
                Ok(true) => {}
                Ok(false) => {
                    self.refused().await?;
                    continue;
                }
                Err(_) => {
                    self.lived.unreached += 1;
                    sleep(PAUSE).await;
                    continue;
                }
            }
            match ended {
                None => begun.add_permits(1),
                Some(ended) => self.lived.gaps.push(ended.elapsed()),
            }
            if self.read().await {
                self.witness.settle(self.seen);
                return Ok((self.nth, self.witness.history, self.lived));
            }
            ended = Some(Instant::now());
            if self.witness.expired() {
                self.refused().await?;
            }
        }
    }

    /// Reads a stream; whether the end has come.
    async fn read(&mut self) -> bool {
        loop {
            let (mut revision, mut is_end) = (self.seen, false);
            let read = self.witness.read_until(SILENCE, |seen| {
                revision = seen.change().map(|change| change.item.revision).or(seen.bookmark()).unwrap_or(0).max(revision);
                is_end = seen.change().is_some_and(|change| change.item.key.ends_with(END));
                true
            });
            let read = read.await;
            self.seen = revision;
            // Their bytes are in the history too.
            self.witness.lines.clear();
            match read {
                Ok(true) if is_end => return true,
                Ok(true) => {}
                Ok(false) => {
                    self.lived.ended += 1;
                    return false;
                }
                Err(_) => {
                    self.witness.leave();
                    self.lived.cut += 1;
                    return false;
                }
            }
        }
    }

    /// Does what is to be done when the last answer was no.
    async fn refused(&mut self) -> io::Result<()> {
        let Some(Seen::Refused { code, .. } | Seen::Error { code, .. }) =
            self.witness.history.seen.iter().rev().find(|seen| !matches!(seen, Seen::Ended { .. })).cloned()
        else {
            return Ok(());
        };
        *self.lived.refused.entry(code).or_default() += 1;
        if code == 410 {
            self.lived.relists += 1;
            return self.list().await;
        }
        sleep(PAUSE).await;
        Ok(())
    }

    async fn list(&mut self) -> io::Result<()> {
        loop {
            if let Some(revision) = self.witness.list(Asked::Any, None).await? {
                self.seen = revision;
                return Ok(());
            }
            // Too many list at once.
            self.witness.history.seen.clear();
            sleep(PAUSE).await;
        }
    }
}
