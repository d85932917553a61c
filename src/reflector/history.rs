//! Whether upstream still has the history that memory goes on from. An etcd that was restored from a backup has another one, in which the same revisions are of
//! other changes.
//!
//! Before a watch goes on from K, upstream must say that it is at K at least: a LIST without a revision is consistent, so a server that is only late does not
//! say less. After a watch that broke off, its state at K is compared as well: how many objects there were, and the one that was written last.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::sleep;

use super::end::End;
use super::event::{Page, page};
use super::follower::Follower;
use super::source::NoAnswer;
use cache::state::snapshot::{Known, Snapshot};
use model::{Object, Revision};

/// How long the cacher may take to have what it was handed.
const APPLIED_LOOK: Duration = Duration::from_millis(5);
const APPLIED_LOOKS: usize = 400;

/// What upstream says of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    Same,
    Another,
    /// It does not say.
    Untold,
}

impl Follower {
    /// Checks that a watch can go on from what is known.
    ///
    /// # Errors
    /// It cannot, or upstream does not say.
    pub(crate) async fn check_history(&mut self, broke_off: bool) -> Result<(), End> {
        let known = self.machine.known();
        for is_second in [false, true] {
            match self.source.newest_of(&self.place).await {
                Ok(newest) if newest >= known => break,
                Ok(newest) if is_second => {
                    self.is_rewound = true;
                    return Err(End::InDoubt(format!(
                        "upstream is at {newest}, and was at {known} before: its etcd was restored from a backup"
                    )));
                }
                // Said twice it counts.
                Ok(_) => {}
                // Who answers from memory cannot say it, and who lets us only watch does not.
                Err(NoAnswer::Old) => return Ok(()),
                Err(NoAnswer::Failed(failure)) if matches!(failure.code, 400 | 403 | 405 | 422) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        if !broke_off {
            return Ok(());
        }
        match self.past(known).await? {
            Past::Same => Ok(()),
            Past::Another => {
                Err(End::InDoubt(format!("what upstream had at {known} is not what was known: its etcd was restored from a backup")))
            }
            Past::Untold => Err(End::InDoubt(format!("upstream no longer knows what it had at {known}"))),
        }
    }

    /// Compares what upstream had at this revision with memory.
    async fn past(&self, at: Revision) -> Result<Past, End> {
        let Some(Known { snapshot, .. }) = self.applied(at).await else { return Ok(Past::Untold) };
        let exact = format!("resourceVersion={at}&resourceVersionMatch=Exact");
        let first = match self.listed(&self.place.path, &format!("limit=1&{exact}")).await? {
            Ok(page) => page,
            Err(past) => return Ok(past),
        };
        let ours = snapshot.store.len() + snapshot.broken.len();
        let theirs = first.items.len() + first.remaining.unwrap_or(0);
        let is_counted = first.next.is_empty() || first.remaining.is_some();
        if is_counted && ours != theirs {
            return Ok(Past::Another);
        }
        let Some(last) = last_written(&snapshot) else { return Ok(Past::Same) };
        let (path, name) = self.place.path_of(last.key());
        let name = utf8_percent_encode(&name, NON_ALPHANUMERIC);
        Ok(match self.listed(&path, &format!("fieldSelector=metadata.name%3D{name}&{exact}")).await? {
            Ok(page) if page.items.iter().any(|item| item.key == last.key() && item.revision == last.revision) => Past::Same,
            Ok(_) => Past::Another,
            Err(past) => past,
        })
    }

    /// A list of the past; or what it means that there is none.
    async fn listed(&self, path: &str, query: &str) -> Result<Result<Page, Past>, End> {
        match self.source.list_at(&self.place, path, query).await {
            Ok(body) => Ok(Ok(page(&body, &self.place)?)),
            Err(NoAnswer::Failed(failure)) if failure.code == StatusCode::GONE.as_u16() => Ok(Err(Past::Untold)),
            // It has no such lists.
            Err(NoAnswer::Failed(failure)) if matches!(failure.code, 400 | 403 | 405 | 422) => Ok(Err(Past::Same)),
            Err(error) => Err(error.into()),
        }
    }

    /// Memory, when it has what was handed over up to this revision.
    async fn applied(&self, at: Revision) -> Option<Known> {
        for _ in 0..APPLIED_LOOKS {
            let known = self.inbox.known();
            if known.revision >= at {
                return Some(known);
            }
            sleep(APPLIED_LOOK).await;
        }
        None
    }
}

/// The object that was written last of those that are there.
fn last_written(snapshot: &Snapshot) -> Option<Arc<Object>> {
    snapshot.store.scan(b"", b"").max_by_key(|object| object.revision).cloned()
}
