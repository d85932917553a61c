//! The watches that were answered 410 lately, so that people can see whose they were and by how much each came too late.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use super::open_watches::{Question, WatchClient, shown};
use intern::Interned;
use model::Revision;
use registry::Resource;
use server::ListenerKind;

/// How many are kept.
const KEPT_MAX: usize = 256;

/// The latest of them.
#[derive(Default)]
pub(super) struct ExpiredWatches {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// How many there were.
    total: u64,
    /// The newest last.
    latest: VecDeque<ExpiredWatch>,
}

/// A watch that was answered 410.
#[derive(Clone)]
pub(super) struct ExpiredWatch {
    /// Its number: the first one was 1.
    pub(super) number: u64,
    pub(super) at: SystemTime,
    pub(super) user: Box<str>,
    pub(super) impersonator: Option<Box<str>>,
    pub(super) address: SocketAddr,
    pub(super) listener: ListenerKind,
    /// Group, version and name of its resource.
    pub(super) resource: [Box<str>; 3],
    pub(super) question: Interned<Question>,
    pub(super) late: Lateness,
}

/// Where a watch was, and where history began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lateness {
    /// What it had seen, or said that it had.
    pub(super) seen: Revision,
    /// What history reached back to.
    pub(super) floor: Revision,
    /// Whether it was open before: history has left it behind, or was lost.
    pub(super) was_open: bool,
}

impl Lateness {
    /// Returns by how many revisions it came too late.
    pub(super) fn missed(self) -> u64 {
        self.floor.0.saturating_sub(self.seen.0)
    }
}

impl ExpiredWatches {
    /// Counts one, and notes it. The oldest makes room for it.
    pub(super) fn note(&self, client: &WatchClient, resource: &Resource, question: Interned<Question>, late: Lateness) {
        // kube-apiserver counts those that were too slow, not those that came too late.
        match late.was_open {
            true => resource.metrics.terminated_watchers.inc(),
            false => resource.metrics.watches_too_old.inc(),
        }
        let served = &resource.served;
        let numbered = |number| ExpiredWatch {
            number,
            at: SystemTime::now(),
            user: shown(&client.user.name),
            impersonator: client.impersonator.as_ref().map(|user| shown(&user.name)),
            address: client.conn.peer,
            listener: client.conn.listener,
            resource: [&served.group, &served.version, &served.resource].map(|text| text.as_str().into()),
            question,
            late,
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.total += 1;
        let watch = numbered(kept.total);
        if kept.latest.len() == KEPT_MAX {
            kept.latest.pop_front();
        }
        kept.latest.push_back(watch);
    }

    /// Returns how many there were, and the latest of them, the oldest first.
    pub(super) fn latest(&self) -> (u64, Vec<ExpiredWatch>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.total, kept.latest.iter().cloned().collect())
    }

    /// Returns how many there were.
    pub(super) fn total(&self) -> u64 {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).total
    }
}
