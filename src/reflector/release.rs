//! Of which releases upstream's API servers are. One of another release may show more of an object of the same revision, or less: what memory has of an older
//! one that was upgraded would stay so, for no event tells of it, and who reads an object here and writes it back would lose what is missing.
//!
//! So whenever a watch goes on before another release than memory was shown by, or other releases are behind upstream's address than before, everything is
//! listed and compared.

use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::end::End;
use super::event::Item;
use super::follower::Follower;
use super::load::{Made, Part, pages};
use cache::state::snapshot::Known;

/// How long a release counts after it was told last: servers behind one address answer in turn.
const SEEN_FOR: Duration = Duration::from_secs(120);
/// Releases that count at once.
const RELEASES_MAX: usize = 8;
/// Over this time resources are compared after a change: each is listed once.
const COMPARED_WITHIN: Duration = Duration::from_secs(20);
/// The least wait before that: a watch that ends sooner is a failure.
const COMPARED_AFTER: Duration = Duration::from_secs(2);

/// The releases that were told lately.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    seen: Mutex<Vec<(String, Instant)>>,
    /// How often others were seen than before.
    turn: watch::Sender<u64>,
}

/// By which release memory was shown, at which turn of releases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    release: Option<String>,
    turn: u64,
}

impl Releases {
    /// Notes that an API server has said that it is of this release.
    pub(crate) fn said(&self, release: &str, now: Instant) {
        let mut seen = self.seen.lock();
        let before = seen.len();
        let is_new = !seen.iter().any(|(other, _)| other == release);
        seen.retain(|(other, at)| other != release && now.saturating_duration_since(*at) < SEEN_FOR);
        let is_less = seen.len() + usize::from(!is_new) < before;
        if seen.len() == RELEASES_MAX {
            seen.remove(0);
        }
        seen.push((release.to_owned(), now));
        drop(seen);
        if is_new || is_less {
            self.turn.send_modify(|turn| *turn += 1);
        }
    }

    fn turn(&self) -> u64 {
        *self.turn.borrow()
    }

    /// Waits until others are seen than at this turn, and for a moment that is not everybody's.
    pub(crate) async fn turned(&self, shown: &Shown) {
        // The sender is this very object's.
        let _ = self.turn.subscribe().wait_for(|turn| *turn != shown.turn).await;
        sleep(COMPARED_AFTER + COMPARED_WITHIN.mul_f64(rand::random())).await;
    }
}

/// What `/version` says, as far as it matters.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

/// Returns the release that `/version` tells.
pub(crate) fn release(body: &Bytes) -> Option<String> {
    serde_json::from_slice(body).ok().map(|Version { git_version }| git_version)
}

impl Follower {
    /// Asks upstream by which release it shows this resource now; who does not say is believed to be the same.
    pub(crate) async fn shown_now(&self) -> Shown {
        let release = self.source.release(&self.place.path).await.or_else(|| self.shown.release.clone());
        Shown { release, turn: self.source.releases.turn() }
    }

    /// Checks that upstream still shows what it showed before, if it may be of another release.
    ///
    /// # Errors
    /// It does not: everything is to be loaded anew. Or upstream does not answer.
    pub(crate) async fn check_shown(&mut self) -> Result<(), End> {
        let now = self.shown_now().await;
        if now == self.shown {
            return Ok(());
        }
        let _turn = self.source.loads.acquire().await.expect("the semaphore is never closed");
        let mut compared = 0;
        let compare = |part: Part| {
            let Part::Objects(objects) = part else { return Ok(()) };
            let known = self.inbox.known();
            compared += objects.len();
            match objects.iter().find(|(item, made)| is_shown_otherwise(&known, item, made)) {
                Some((item, _)) => {
                    let key = String::from_utf8_lossy(&item.key);
                    Err(End::Anew(format!("upstream shows {key} otherwise than before: it is of another release")))
                }
                None => Ok(()),
            }
        };
        pages(&self.source, &self.place, compare).await?;
        tracing::info!(resource = %self.place.storage.path_name(), objects = compared, release = now.release, "upstream's releases have changed, and show what was known");
        self.shown = now;
        Ok(())
    }
}

/// Whether memory has the same revision of an object with another content.
fn is_shown_otherwise(known: &Known, item: &Item, made: &Made) -> bool {
    match (known.snapshot.store.find(&item.key), made) {
        (Some(ours), Ok(theirs)) => ours.revision == theirs.revision && ours.tail() != theirs.tail(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn others_than_before_are_noticed() {
        let (releases, began) = (Releases::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        for (release, seconds, turn) in [
            ("1.36", 0, 1),
            ("1.36", 100, 1),
            ("1.37", 110, 2),
            ("1.36", 115, 2),
            ("1.37", 230, 2),
            ("1.37", 240, 3),
            ("1.37", 500, 3),
            ("1.36", 501, 4),
        ] {
            releases.said(release, at(seconds));
            assert_eq!(releases.turn(), turn, "{release} after {seconds} s");
        }
        for number in 0..20 {
            releases.said(&number.to_string(), at(502));
        }
        assert_eq!(releases.seen.lock().len(), RELEASES_MAX);
    }

    #[test]
    fn a_release_is_the_version_of_a_build() {
        assert_eq!(release(&Bytes::from_static(br#"{"major":"1","gitVersion":"v1.36.3"}"#)).as_deref(), Some("v1.36.3"));
        assert_eq!(release(&Bytes::from_static(b"{}")), None);
    }
}
