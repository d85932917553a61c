//! What is deleted when its time has come. Times are the wall clock's, and are looked at again at least every minute: a clock that jumps is followed.

pub(super) mod bootstrap_tokens;
pub(super) mod jobs;
pub(super) mod requests;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde_json::Value;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::time::sleep_until;

use super::{
    Controllers,
    objects::{Metadata, place_of, tree},
    queue::{After, Queue},
};
use registry::Resource;
use retry::{Backoff, Reminder};
use storage::write::{
    failure::WriteError,
    options::{DeleteOptions, Propagation},
};

/// The longest wait for a moment: the clock may have been set.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Waits after failures.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(60), 0.2);
/// How often the log has a line about failures.
const REMIND_EVERY: Duration = Duration::from_secs(10);

/// What is deleted when.
struct Rule {
    /// When an object is to be deleted; none for one that stays, until it is changed.
    deadline: fn(&Value) -> Option<OffsetDateTime>,
    /// What becomes of what it owns.
    propagation: Option<Propagation>,
}

/// Deletes objects of a resource by a rule, for ever.
async fn run(controllers: &Controllers, resource: &Arc<Resource>, rule: &Rule) {
    let published = &resource.handle.published;
    let (mut seen, mut queue, mut reminder) = (None, Queue::<Bytes>::new(BACKOFF), Reminder::every(REMIND_EVERY));
    loop {
        while let Some(key) = queue.take(Instant::now()) {
            let after = match look(controllers, resource, rule, &key).await {
                Ok(after) => after,
                Err(error) => {
                    if reminder.is_due() {
                        let resource = &*resource.served.resource;
                        tracing::warn!(%error, resource, "an object whose time has come cannot be deleted; trying again");
                    }
                    After::Retry
                }
            };
            queue.done(&key, after, Instant::now());
        }
        let due = queue.next_due();
        tokio::select! {
            (snapshot, keys) = published.next(&mut seen) => {
                let keys = keys.unwrap_or_else(|| snapshot.store.scan(b"", b"").map(|object| Bytes::copy_from_slice(object.key())).collect());
                keys.into_iter().for_each(|key| queue.add(key, Instant::now()));
            }
            () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {}
        }
    }
}

async fn look(controllers: &Controllers, resource: &Arc<Resource>, rule: &Rule, key: &Bytes) -> Result<After, WriteError> {
    let known = resource.handle.published.known();
    let Some(object) = known.snapshot.store.find(key) else { return Ok(After::Rest) };
    let Some(whole) = tree(resource, object) else { return Ok(After::Rest) };
    let metadata = Metadata::of_tree(&whole);
    let Some(deadline) = (rule.deadline)(&whole).filter(|_| !metadata.is_being_deleted()) else { return Ok(After::Rest) };
    let left = Duration::try_from(deadline - OffsetDateTime::now_utc()).unwrap_or_default();
    if !left.is_zero() {
        return Ok(After::Wait(left.min(LOOK_AGAIN)));
    }
    // Another version of it may have more time.
    let (uid, resource_version) = (Some(metadata.uid), Some(metadata.resource_version));
    let options = DeleteOptions { propagation: rule.propagation, uid, resource_version, ..DeleteOptions::default() };
    controllers.delete(&place_of(resource, object), &options).await?;
    Ok(After::Rest)
}

/// A time that the API wrote.
pub(super) fn moment(text: &Value) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text.as_str()?, &Rfc3339).ok()
}

/// The conditions of an object.
fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten()
}
