//! CustomResourceDefinitions: names accepted, established, cleaned up after (spec api-surface §11.2). What to do is decided in `write::definition`.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::Upkeep;
use crate::{
    cache::view::Known,
    etcd::RangeRequest,
    read::target::Resource,
    write::{
        definition::{Step, next},
        failure::WriteError,
        options::DeleteOptions,
        place::Place,
    },
};

/// How often definitions that are being deleted are looked at again while their instances go (spec api-surface §11.2).
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Wait before another try when a step has failed.
const RETRY: Duration = Duration::from_secs(1);

pub(super) async fn run(upkeep: &Upkeep) {
    let group = "apiextensions.k8s.io";
    let Some(resource) = upkeep.shelf.load().find(group, "v1", "customresourcedefinitions").cloned() else { return };
    let published = resource.handle.published.clone();
    loop {
        let changed = published.changed();
        let known = published.known();
        let wait = match look(upkeep, &resource, &known).await {
            Ok(()) => LOOK_EVERY,
            Err(error) => {
                tracing::warn!(%error, "a definition could not be brought further");
                RETRY
            }
        };
        // Whether it was a change or the time: the next look tells.
        let _ = tokio::time::timeout(wait, changed).await;
    }
}

/// Brings every definition one step further, if it has one to go.
async fn look(upkeep: &Upkeep, resource: &Arc<Resource>, known: &Known) -> Result<(), WriteError> {
    if !known.is_ready() {
        return Ok(());
    }
    let all: Vec<Value> = known
        .view
        .store
        .scan(b"", b"")
        .filter_map(|object| {
            let mut json = Vec::new();
            resource.forms.whole().form.object_into(object, &mut json);
            // One that is too deep for a tree is not served either: the registry says so.
            serde_json::from_slice(&json).ok()
        })
        .collect();
    for definition in &all {
        step(upkeep, resource, definition, &all).await?;
    }
    Ok(())
}

async fn step(upkeep: &Upkeep, resource: &Arc<Resource>, definition: &Value, all: &[Value]) -> Result<(), WriteError> {
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
    let name = text("/metadata/name");
    let others: Vec<&Value> = all.iter().filter(|other| other.pointer("/metadata/name").and_then(Value::as_str) != Some(&name)).collect();
    let instances = match definition.pointer("/metadata/deletionTimestamp") {
        Some(_) => Some(has_instances(upkeep, &text("/spec/group"), &text("/spec/names/plural")).await?),
        None => None,
    };
    let place = Place { resource: resource.clone(), namespace: None, name };
    match next(definition, &others, instances, &upkeep.writer.now()) {
        None => Ok(()),
        Some(Step::DeleteInstances) => delete_instances(upkeep, &text("/spec/group"), &text("/spec/names/plural")).await,
        // Decided again on what etcd has: the picture may be behind.
        Some(Step::UpdateStatus(_) | Step::Finish(_)) => {
            let now = upkeep.writer.now();
            let whole = |object: &Value| match next(object, &others, instances, &now)? {
                Step::UpdateStatus(whole) | Step::Finish(whole) => Some(whole),
                Step::DeleteInstances => None,
            };
            upkeep.writer.amend(&place, whole).await
        }
    }
}

/// Whether etcd has any object of the resource, whoever serves it.
async fn has_instances(upkeep: &Upkeep, group: &str, plural: &str) -> Result<bool, WriteError> {
    let key = format!("{}{group}/{plural}/", upkeep.prefix).into_bytes();
    let end = [&key[..key.len() - 1], b"0"].concat();
    let answer = upkeep.etcd.range(RangeRequest { key, end, limit: 1, count_only: true, ..RangeRequest::default() }).await?;
    Ok(answer.count > 0)
}

/// Deletes what the cache has of the resource; what finalizers hold goes later, and is looked at again.
async fn delete_instances(upkeep: &Upkeep, group: &str, plural: &str) -> Result<(), WriteError> {
    let shelf = upkeep.shelf.load_full();
    let Some(resource) = shelf.resources().find(|r| r.served.custom && r.served.group == group && r.served.resource == plural).cloned()
    else {
        return Err(WriteError::NotYet(format!("{plural}.{group} is not served, and still has objects")));
    };
    let known = resource.handle.published.known();
    upkeep.writer.delete_each(&resource, known.view.store.scan(b"", b""), &DeleteOptions::default()).await
}
