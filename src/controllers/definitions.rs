//! CustomResourceDefinitions: names accepted, established, cleaned up after (spec api-surface §11.2). What to do is decided in `catalogue::definition`.
//!
//! Each definition is looked at when it was written, when a name it waits for may have become free, while it is being deleted, and some time after a
//! failure: `queue` tells which is next. At rest nothing is done.

mod queue;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde_json::Value;
use tokio::time::{sleep_until, timeout};

use super::Controllers;
use cache::state::snapshot::Known;
use catalogue::definition::{Names, NamesInUse, Step, Stuck, next, stuck};
use etcd::RangeRequest;
use model::Object;
use queue::{After, Queue};
use registry::Resource;
use retry::Reminder;
use storage::write::{By, Part, failure::WriteError, object_ref::ObjectRef, options::DeleteOptions};

/// How long objects that a webhook converts are deleted before other definitions have their turn.
const CONVERTED_AT_ONCE: Duration = Duration::from_secs(10);

/// After this a definition says that its instances are still there, as kube-apiserver's does.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// How long is waited for the definitions to be loaded before that is asked anew.
const READY_POLL: Duration = Duration::from_secs(10);

/// How often the log has a line about definitions whose status cannot be written.
const REMIND_EVERY: Duration = Duration::from_secs(10);

pub(super) async fn run(controllers: &Controllers) {
    let Some(resource) = controllers.resources.load().definitions().cloned() else { return };
    let published = resource.handle.published.clone();
    let mut queue = Queue::default();
    let mut reminder = Reminder::every(REMIND_EVERY);
    // Since when the instances of definitions are being deleted.
    let mut deleting = HashMap::<Bytes, Instant>::new();
    loop {
        // One that nobody writes becomes ready without a new snapshot.
        while published.wait_until(Known::is_ready, READY_POLL).await.is_err() {}
        let changed = published.changed();
        queue.follow(&published.known(), Instant::now());
        // All names are known before any is given away.
        for object in queue.unread() {
            let (group, names) = controllers.writer.run_offloaded(object.tail_len(), || Names::read(&json(&object))).await;
            queue.read(&object, group, names, Instant::now());
        }
        let Some((at, object)) = queue.first() else {
            changed.await;
            continue;
        };
        if at > Instant::now() {
            tokio::select! {
                () = changed => {}
                () = sleep_until(at.into()) => {}
            }
            continue;
        }
        let outcome = step(controllers, &resource, &object, queue.taken(object.key())).await;
        if !matches!(outcome, Ok(After::Deleting) | Err(_)) {
            deleting.remove(object.key());
        }
        let (after, failure) = match outcome {
            Ok(After::Deleting) => {
                deleting.retain(|key, _| published.known().snapshot.store.find(key).is_some());
                let since = *deleting.entry(Bytes::copy_from_slice(object.key())).or_insert_with(Instant::now);
                if since.elapsed() >= GONE_WITHIN {
                    deleting.remove(object.key());
                    tell(controllers, &resource, &object, Stuck::Left).await;
                }
                (After::Deleting, None)
            }
            Ok(after) => (after, None),
            Err(error) => {
                tell(controllers, &resource, &object, Stuck::Failed(&error.to_string())).await;
                (After::Failed, Some(error))
            }
        };
        queue.done(object.key(), after, Instant::now());
        if let Some(error) = failure
            && reminder.is_due()
        {
            let (definition, failing) = (object.name(), queue.failing());
            tracing::warn!(%error, definition, failing, "the status of a definition cannot be written; trying again later");
        }
    }
}

/// Writes why a definition that is being deleted is still there. It is tried again anyhow.
async fn tell(controllers: &Controllers, resource: &Arc<Resource>, object: &Object, why: Stuck<'_>) {
    let place = ObjectRef { resource: resource.clone(), namespace: None, name: object.name().to_owned() };
    let now = controllers.writer.now();
    if let Err(error) = controllers.writer.amend_part(&place, Part::Status, |definition| stuck(definition, why, &now)).await {
        tracing::debug!(%error, definition = object.name(), "cannot write why a definition is still there");
    }
}

/// The object without its type head, which is known.
fn json(object: &Object) -> Vec<u8> {
    [b"{", &*object.tail()].concat()
}

/// Brings a definition one step further, if it has one to go.
async fn step(controllers: &Controllers, resource: &Arc<Resource>, object: &Object, taken: &NamesInUse) -> Result<After, WriteError> {
    let size = object.tail_len();
    // One that is too deep for a tree is not served either: the registry says so.
    let Some(definition) = controllers.writer.run_offloaded(size, || serde_json::from_slice::<Value>(&json(object)).ok()).await else {
        return Ok(After::Rest);
    };
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    let instances = match definition.pointer("/metadata/deletionTimestamp") {
        Some(_) => Some(has_instances(controllers, &group, &plural).await?),
        None => None,
    };
    let now = controllers.writer.now();
    match controllers.writer.run_offloaded(size, || next(&definition, taken, instances, &now)).await {
        None if is_refused(&definition) => Ok(After::Refused),
        None => Ok(After::Rest),
        Some(Step::DeleteInstances) => {
            delete_instances(controllers, &group, &plural).await?;
            Ok(if has_instances(controllers, &group, &plural).await? { After::Deleting } else { After::Again })
        }
        // Decided again on what etcd has: the snapshot may be behind. What was written comes back as a change.
        Some(Step::UpdateStatus(_) | Step::Finish(_)) => {
            let place = ObjectRef { resource: resource.clone(), namespace: None, name: object.name().to_owned() };
            let whole = |object: &Value| match next(object, taken, instances, &now)? {
                Step::UpdateStatus(whole) | Step::Finish(whole) => Some(whole),
                Step::DeleteInstances => None,
            };
            let written = controllers.writer.amend_part(&place, Part::Status, whole).await?;
            Ok(written.map_or(After::Rest, |(revision, object)| After::Written(revision, Names::accepted(&object))))
        }
    }
}

/// Whether it waits for a name.
fn is_refused(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| condition["type"] == "NamesAccepted" && condition["status"] == "False")
}

/// Whether etcd has any object of the resource, whoever serves it.
async fn has_instances(controllers: &Controllers, group: &str, plural: &str) -> Result<bool, WriteError> {
    let key = format!("{}{group}/{plural}/", controllers.prefix).into_bytes();
    let end = [&key[..key.len() - 1], b"0"].concat();
    let answer = controllers.etcd.range(RangeRequest { key, end, limit: 1, count_only: true, ..RangeRequest::default() }).await?;
    Ok(answer.count > 0)
}

/// Deletes what the cache has of the resource; what finalizers hold goes later, and is looked at again.
async fn delete_instances(controllers: &Controllers, group: &str, plural: &str) -> Result<(), WriteError> {
    let resources = controllers.resources.load_full();
    let is_of = |r: &&Arc<Resource>| r.served.is_custom() && r.served.group == group && r.served.resource == plural;
    // Through a version that asks no webhook, if there is one.
    let Some(resource) = resources.iter().find(is_of).map(|resource| resources.unconverted(resource).clone()) else {
        return Err(WriteError::NotYet(format!("{plural}.{group} is not served, and still has objects")));
    };
    let known = resource.source().known();
    let options = DeleteOptions::default();
    let (by, mut warnings) = (By::default(), Vec::new());
    let deleted = controllers.writer.delete_each(&resource, known.snapshot.store.scan(b"", b""), &options, &by, &mut warnings);
    // A webhook that does not answer holds up no other definition.
    let late = || WriteError::NotYet(format!("the objects of {plural}.{group} are not deleted yet"));
    if resource.shown.is_some() { timeout(CONVERTED_AT_ONCE, deleted).await.map_err(|_| late())? } else { deleted.await }
}
