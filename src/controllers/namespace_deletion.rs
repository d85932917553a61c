//! Empties namespaces that are being deleted, and lets them go: kube-controller-manager's namespace-controller.
//!
//! Pods go first; while one is left, nothing else is touched. What finalizers or a kubelet hold is waited for, and looked at again.

mod conditions;
mod content;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use tokio::time::sleep_until;

use super::{
    Controllers,
    objects::{Metadata, place, text},
    queue::{After, Queue},
};
use conditions::Found;
use registry::Resource;
use retry::{Backoff, Reminder};
use storage::write::{Part, failure::WriteError, object_ref::ObjectRef};

/// How long after a write of a namespace that is being deleted it is emptied: another server may not know yet that nothing new may come. As there.
const GRACE_SHARED: Duration = Duration::from_secs(5);
/// The same when nobody else serves: writes that had begun are done.
const GRACE_ALONE: Duration = Duration::from_millis(500);
/// Namespaces that are emptied at once, as there.
const WORKERS: usize = 10;
/// Waits after failures, as there.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(5), Duration::from_secs(60), 0.0);
/// How often the log has a line about namespaces that cannot be emptied.
const REMIND_EVERY: Duration = Duration::from_secs(10);
/// How often our finalizer is taken away anew because somebody else was faster.
const ATTEMPTS_MAX: usize = 8;
/// The finalizer of a namespace that stands for its content.
const FINALIZER: &str = "kubernetes";

/// How a look at a namespace ended.
enum Left {
    /// There is nothing more to do.
    Nothing,
    /// What is left is gone in so many seconds, it is hoped.
    Estimate(u64),
}

pub(super) async fn run(controllers: Arc<Controllers>) {
    let Some(namespaces) = controllers.built_in("", "namespaces") else { return };
    let grace = if controllers.shares_etcd { GRACE_SHARED } else { GRACE_ALONE };
    let (mut queue, mut running, mut seen) = (Queue::<String>::new(BACKOFF), FuturesUnordered::new(), None);
    let mut reminder = Reminder::every(REMIND_EVERY);
    let published = namespaces.handle.published.clone();
    loop {
        while running.len() < WORKERS
            && let Some(name) = queue.take(Instant::now())
        {
            let (controllers, namespaces) = (&controllers, &namespaces);
            running.push(async move {
                let left = empty(controllers, namespaces, &name).await;
                (name, left)
            });
        }
        let due = queue.next_due().filter(|_| running.len() < WORKERS);
        tokio::select! {
            (snapshot, keys) = published.next(&mut seen) => {
                let now = Instant::now();
                let mut look = |object: &Arc<model::Object>| {
                    if Metadata::of(object).is_some_and(|metadata| metadata.is_being_deleted()) {
                        queue.add(object.name().to_owned(), now + grace);
                    }
                };
                match keys {
                    Some(keys) => keys.iter().filter_map(|key| snapshot.store.find(key)).for_each(&mut look),
                    None => snapshot.store.scan(b"", b"").for_each(&mut look),
                }
            }
            Some((name, left)) = running.next() => {
                let after = match left {
                    Ok(Left::Nothing) => After::Rest,
                    Ok(Left::Estimate(seconds)) => After::Wait(Duration::from_secs(seconds / 2 + 1)),
                    Err(why) => {
                        if reminder.is_due() {
                            tracing::warn!(namespace = name, why, failing = queue.failing() + 1, "a namespace cannot be emptied; trying again");
                        }
                        After::Retry
                    }
                };
                queue.done(&name, after, Instant::now());
            }
            () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {}
        }
    }
}

/// Brings a namespace that is being deleted as far as it goes.
async fn empty(controllers: &Controllers, namespaces: &Arc<Resource>, name: &str) -> Result<Left, String> {
    let place = place(namespaces, "", name);
    let told = |error: WriteError| error.to_string();
    let Some(namespace) = controllers.writer.newest(&place).await.map_err(told)? else { return Ok(Left::Nothing) };
    let metadata = Metadata::of_tree(&namespace);
    let finalizers: Vec<&str> = namespace["spec"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(deleted_at) = metadata.deletion_timestamp.as_deref() else { return Ok(Left::Nothing) };
    if text(&namespace, "/status/phase") != "Terminating" {
        let patch = json!({"metadata": {"uid": metadata.uid}, "status": {"phase": "Terminating"}});
        return match controllers.merge(&place, Part::Status, &patch).await {
            // Its own event has it looked at again.
            Ok(_) | Err(WriteError::NotFound(_)) => Ok(Left::Estimate(0)),
            Err(error) => Err(told(error)),
        };
    }
    if finalizers.is_empty() {
        return Ok(Left::Nothing);
    }
    let (found, estimate) = content::delete_all(controllers, name, deleted_at).await;
    tell(controllers, &place, &namespace, &found).await?;
    if !found.errors.is_empty() {
        return Err(found.errors.join(", "));
    }
    if estimate > 0 {
        return Ok(Left::Estimate(estimate));
    }
    finalize(controllers, &place, &metadata.uid).await.map_err(told)
}

/// Writes the conditions, if they say something new.
async fn tell(controllers: &Controllers, place: &ObjectRef, namespace: &Value, found: &Found) -> Result<(), String> {
    let before = namespace.pointer("/status/conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let Some(conditions) = conditions::updated(before, found, &controllers.writer.now()) else { return Ok(()) };
    let patch = json!({"metadata": {"uid": namespace["metadata"]["uid"]}, "status": {"conditions": conditions}});
    match controllers.merge(place, Part::Status, &patch).await {
        Ok(_) | Err(WriteError::NotFound(_)) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Takes our finalizer away, and nothing else: what `/finalize` gets is all of the namespace but its status.
async fn finalize(controllers: &Controllers, place: &ObjectRef, uid: &str) -> Result<Left, WriteError> {
    for attempt in 1.. {
        let Some(namespace) = controllers.writer.newest(place).await?.filter(|namespace| text(namespace, "/metadata/uid") == uid) else {
            break;
        };
        let finalizers = namespace["spec"]["finalizers"].as_array().into_iter().flatten();
        let left: Vec<&Value> = finalizers.filter(|finalizer| **finalizer != FINALIZER).collect();
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": namespace["metadata"], "spec": {"finalizers": left}});
        match controllers.replace(place, Part::Finalizers, &body).await {
            Err(WriteError::Conflict { .. }) if attempt < ATTEMPTS_MAX => {}
            Ok(_) | Err(WriteError::NotFound(_)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(Left::Nothing)
}
