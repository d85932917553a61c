//! The versions that are kept though nobody watches them: all together they have a number of bytes, within which those that were asked for last stay.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use model::GivenUp;

/// Bytes of the objects of all versions that nobody watches.
const UNWATCHED_BYTES_MAX: usize = 64 << 20;
/// The same while `--memory-budget` is exceeded.
const UNWATCHED_BYTES_SCARCE: usize = 1 << 20;
/// A version that was asked for stays so long, for those who asked to come back.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// What is known of all versions of a registry.
pub struct KeptVersions {
    versions: Mutex<Vec<Weak<Version>>>,
    given_up: watch::Receiver<GivenUp>,
}

/// A version, as others that want room see it.
pub(crate) struct Version {
    pub(crate) begin: Notify,
    pub(crate) last: Mutex<Instant>,
    /// Told when it is to be forgotten.
    pub(crate) evicted: Notify,
    held: Mutex<Held>,
    /// Those who are about to read it.
    readers: AtomicUsize,
}

/// Somebody reads a version, which stays until this is dropped.
pub struct Reading(Arc<Version>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Held {
    bytes: usize,
    is_watched: bool,
}

impl Version {
    /// Returns whether somebody reads it, or has asked for it a moment ago.
    pub(crate) fn is_wanted(&self) -> bool {
        self.readers.load(Ordering::Relaxed) > 0 || self.last.lock().elapsed() < READ_WITHIN
    }

    /// Keeps it for somebody who is about to read it, however long that takes.
    pub(crate) fn read(self: &Arc<Self>) -> Reading {
        self.readers.fetch_add(1, Ordering::Relaxed);
        Reading(self.clone())
    }
}

impl KeptVersions {
    /// None yet. While something is given up there is little room.
    #[must_use]
    pub fn new(given_up: watch::Receiver<GivenUp>) -> Arc<Self> {
        Arc::new(Self { versions: Mutex::default(), given_up })
    }

    pub(crate) fn version(&self) -> Arc<Version> {
        let version = Arc::new(Version {
            begin: Notify::new(),
            last: Mutex::new(Instant::now()),
            evicted: Notify::new(),
            held: Mutex::default(),
            readers: AtomicUsize::new(0),
        });
        let mut versions = self.versions.lock();
        versions.retain(|known| known.strong_count() > 0);
        versions.push(Arc::downgrade(&version));
        version
    }

    /// Notes what a version holds, and tells those to forget theirs that were asked for longest ago, while there is more than there is room for.
    pub(crate) fn note(&self, version: &Version, bytes: usize, is_watched: bool) {
        *version.held.lock() = Held { bytes, is_watched };
        let is_scarce = *self.given_up.borrow() > GivenUp::Nothing;
        let bytes_max = if is_scarce { UNWATCHED_BYTES_SCARCE } else { UNWATCHED_BYTES_MAX };
        let mut unwatched: Vec<(Instant, usize, Arc<Version>)> = Vec::new();
        for version in self.versions.lock().iter().filter_map(Weak::upgrade) {
            let held = version.held.lock();
            if held.bytes > 0 && !held.is_watched {
                let last = *version.last.lock();
                unwatched.push((last, held.bytes, version.clone()));
            }
        }
        let mut all: usize = unwatched.iter().map(|(_, bytes, _)| bytes).sum();
        unwatched.sort_by_key(|(last, ..)| *last);
        for (_, bytes, version) in unwatched {
            if all <= bytes_max {
                return;
            }
            if version.is_wanted() {
                continue;
            }
            all -= bytes;
            version.evicted.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_evicted(version: &Version) -> bool {
        let mut evicted = std::pin::pin!(version.evicted.notified());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        evicted.as_mut().poll(&mut context).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_were_asked_for_longest_ago_are_forgotten() {
        let (given_up, receiver) = watch::channel(GivenUp::Nothing);
        let kept = KeptVersions::new(receiver);
        let mut versions = Vec::new();
        for nth in 0..5 {
            let version = kept.version();
            kept.note(&version, UNWATCHED_BYTES_MAX / 4, nth == 0);
            versions.push(version);
            tokio::time::advance(READ_WITHIN).await;
        }
        assert!(!versions.iter().any(|version| is_evicted(version)), "there is room for four that nobody watches");
        let last = kept.version();
        kept.note(&last, 1, false);
        assert_eq!(versions.iter().map(|version| is_evicted(version)).collect::<Vec<_>>(), [false, true, false, false, false]);
        let reading = versions[2].read();
        kept.note(&versions[1], 0, false);
        given_up.send_replace(GivenUp::Messages);
        kept.note(&last, 1, false);
        assert_eq!(versions.iter().map(|version| is_evicted(version)).collect::<Vec<_>>(), [false, false, false, true, true]);
        drop(reading);
        kept.note(&last, 1, false);
        assert!(is_evicted(&versions[2]), "it stays only while somebody reads it");
    }
}
