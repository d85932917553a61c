//! The objects that a server has by itself, as a kube-apiserver has them: made before the server is ready, and kept.

mod api_services;
mod availability;
mod flow_control;
mod identity;
mod legacy_tokens;
mod priority_classes;
mod service_cidr;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::sleep;

use super::{Controllers, authentication, kubernetes, namespaces, objects::place};
use cache::state::snapshot::Known;
use registry::Resource;
use retry::{Backoff, Reminder};
use storage::write::{
    Part, PatchKind, Syntax, WriteRequest, Written, failure::WriteError, object_ref::ObjectRef, options::WriteOptions,
    write_gate::Permission,
};

pub(super) use identity::release;

/// After this the server is ready without them.
const READY_AT_LATEST: Duration = Duration::from_secs(30);
/// Waits after failures.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(20), Duration::from_secs(1), 0.2);
/// How often the log has a line about failures.
const REMIND_EVERY: Duration = Duration::from_secs(10);
/// How long is waited for a resource to be loaded before that counts as a failure.
const LOADED_WITHIN: Duration = Duration::from_secs(1);

/// Recorded from kube-apiserver by `tests/fresh/compare.py --record`: a line for each object, in the order in which it makes them.
const RECORDED: &str = include_str!("own/recorded.jsonl");

/// Held by everything that must be there before the server is ready. The server is ready when the last one is dropped.
#[derive(Clone)]
pub(super) struct Unready {
    _flag: Arc<Flag>,
}

struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs for ever.
pub(super) async fn run(controllers: &Arc<Controllers>) {
    let unready = Unready { _flag: Arc::new(Flag(controllers.has_own_objects.clone())) };
    let make = async {
        // The others are in them.
        until_done(controllers, "the default namespaces", || namespaces::make(controllers)).await;
        tokio::join!(
            Box::pin(namespaces::run(controllers)),
            Box::pin(kubernetes::run(controllers, unready.clone())),
            Box::pin(service_cidr::run(controllers, unready.clone())),
            Box::pin(priority_classes::run(controllers, unready.clone())),
            Box::pin(flow_control::run(controllers, unready.clone())),
            Box::pin(api_services::run(controllers, unready)),
            Box::pin(authentication::run(controllers)),
            Box::pin(legacy_tokens::run(controllers)),
            Box::pin(identity::run(controllers)),
        );
    };
    tokio::join!(make, ready_at_latest(controllers));
}

/// A server that may not write to its etcd can still be read.
async fn ready_at_latest(controllers: &Controllers) {
    sleep(READY_AT_LATEST).await;
    if !controllers.has_own_objects.swap(true, Ordering::Relaxed) {
        tracing::warn!("ready without all objects that a server has by itself; still trying to write them");
    }
}

/// Repeats this until it succeeds, or a kube-apiserver has come, which makes its own.
pub(super) async fn until_done<F: Future<Output = Result<(), WriteError>>>(
    controllers: &Controllers,
    what: &str,
    mut attempt: impl FnMut() -> F,
) {
    let (mut failures, mut reminder) = (0_u32, Reminder::every(REMIND_EVERY));
    while controllers.write_gate.now() == Permission::Granted {
        let Err(error) = attempt().await else { return };
        failures += 1;
        // The first failures are those of a start: not everything is loaded yet.
        if failures > 10 && reminder.is_due() {
            tracing::warn!(%error, what, "cannot be written yet; trying again");
        }
        sleep(BACKOFF.wait(failures - 1)).await;
    }
}

/// The recorded objects of this kind.
fn recorded(kind: &str) -> Vec<Value> {
    let objects = RECORDED.lines().map(|line| serde_json::from_str::<Value>(line).expect("a test reads all lines"));
    objects.filter(|object| object["kind"] == kind).collect()
}

/// A write of the server in the name of this manager, kube-apiserver if it is empty.
fn request(target: ObjectRef, part: Part, manager: &str) -> WriteRequest<'static> {
    let options = WriteOptions { field_manager: manager.to_owned(), force: true, ..WriteOptions::default() };
    WriteRequest { part, options, ..WriteRequest::by_server(target) }
}

/// Writes of the start that are under way at once: the store commits them together, and each holds the trees of its object.
const WRITES_AT_ONCE: usize = 8;

/// Awaits all of these, [`WRITES_AT_ONCE`] at a time, and returns what they return in the same order.
pub(super) async fn a_few_at_once<F: Future>(all: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut waiting = all.into_iter().collect::<Vec<F>>().into_iter();
    let mut done = Vec::with_capacity(waiting.len());
    while waiting.len() > 0 {
        done.extend(join_all(waiting.by_ref().take(WRITES_AT_ONCE)).await);
    }
    done
}

impl Controllers {
    /// Waits until a resource is loaded.
    pub(super) async fn loaded(&self, resource: &Resource) -> Result<Known, WriteError> {
        let published = &resource.handle.published;
        let not_yet = |_| WriteError::NotYet(format!("{} are not loaded yet", resource.served.resource));
        published.wait_until(Known::is_ready, LOADED_WITHIN).await.map_err(not_yet)
    }

    /// Creates an object in the name of this manager, kube-apiserver if it is empty; returns whether it was not there.
    pub(super) async fn create_as(
        &self,
        manager: &str,
        resource: &Arc<Resource>,
        namespace: &str,
        object: &Value,
    ) -> Result<bool, WriteError> {
        let ask = request(place(resource, namespace, ""), Part::Main, manager);
        match self.writer.create(&ask, Syntax::Json, object.to_string().as_bytes(), &mut Vec::new()).await {
            Ok(_) => Ok(true),
            Err(WriteError::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates those of these objects that the cache does not have, all at once.
    pub(super) async fn create_missing(&self, manager: &str, resource: &Arc<Resource>, objects: Vec<Value>) -> Result<(), WriteError> {
        let known = self.loaded(resource).await?;
        let is_missing = |object: &&Value| {
            let name = object["metadata"]["name"].as_str().unwrap_or("");
            known.snapshot.store.find(&place(resource, "", name).key(&self.prefix)).is_none()
        };
        let created = objects.iter().filter(is_missing).map(|object| self.create_as(manager, resource, "", object));
        a_few_at_once(created).await.into_iter().try_for_each(|created| created.map(drop))
    }

    /// Applies a part of an object in the name of this manager, whoever had its fields before.
    async fn apply(&self, place: &ObjectRef, part: Part, object: &Value, manager: &str) -> Result<Written, WriteError> {
        let ask = request(place.clone(), part, manager);
        self.writer.patch(&ask, PatchKind::Apply, object.to_string().as_bytes(), &mut Vec::new()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_recorded_is_read() {
        let count = |kind| recorded(kind).len();
        assert_eq!([count("PriorityClass"), count("PriorityLevelConfiguration"), count("FlowSchema")], [2, 8, 11]);
        assert_eq!(RECORDED.lines().count(), 21);
    }
}
