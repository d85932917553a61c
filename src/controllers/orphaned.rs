//! Objects of an aggregated server whose namespaces the host does not have, as a restored backup leaves them. Reports them, and deletes them where
//! `--delete-orphaned-objects` is given.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::stream::{self, StreamExt};

use super::{
    Controllers, Extension,
    objects::{Metadata, deletion, place_of},
};
use model::Object;
use registry::Resource;
use retry::Reminder;
use storage::write::{failure::WriteError, options::Propagation};

/// Between two looks at whether all is known: the host's namespaces, and every resource.
const KNOWN_EVERY: Duration = Duration::from_secs(1);
/// Between two looks while nothing is orphaned.
const LOOK_EVERY: Duration = Duration::from_secs(600);
/// Between two looks while something is. An object is deleted by the second look that finds its namespace missing.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Objects that are looked at before others have their turn.
const OBJECTS_AT_ONCE: usize = 4096;
/// Objects that are deleted at once.
const DELETES: usize = 16;
/// Namespaces and resources that the report names.
const NAMED_MAX: usize = 10;
/// How often the log has a line about failures.
const REMIND_EVERY: Duration = Duration::from_secs(60);
/// Whose share of the questions to the host the looks take.
const ASKER: &str = "system:watchcache:orphaned-objects";

/// Objects by their namespace, which the host does not have.
type Orphaned = BTreeMap<String, Vec<(Arc<Resource>, Arc<Object>)>>;

/// Runs for ever.
pub(super) async fn run(controllers: &Controllers, extension: &Extension) {
    while !is_known(controllers, extension) {
        tokio::time::sleep(KNOWN_EVERY).await;
    }
    let (mut before, mut reminder) = (BTreeSet::new(), Reminder::every(REMIND_EVERY));
    loop {
        let found = look(controllers, extension).await;
        let text = (!found.is_empty()).then(|| report(&found));
        if let Some(report) = &text
            && extension.orphaned.load().as_ref().is_none_or(|old| **old != *report)
        {
            tracing::warn!(
                deletes = extension.deletes_orphaned,
                "objects of namespaces that the host does not have: {report}; --delete-orphaned-objects deletes them"
            );
        }
        extension.orphaned.store(text.map(Arc::new));
        let missing: BTreeSet<String> = found.keys().cloned().collect();
        if extension.deletes_orphaned {
            let going = found.into_iter().filter(|(namespace, _)| before.contains(namespace)).flat_map(|(_, objects)| objects);
            let failures = delete(controllers, going.collect()).await;
            if let Some(error) = failures.first()
                && reminder.is_due()
            {
                tracing::warn!(%error, failing = failures.len(), "orphaned objects cannot be deleted; trying again");
            }
        }
        tokio::time::sleep(if missing.is_empty() { LOOK_EVERY } else { LOOK_AGAIN }).await;
        before = missing;
    }
}

/// Returns whether the host's namespaces have been listed and every resource is loaded.
fn is_known(controllers: &Controllers, extension: &Extension) -> bool {
    extension.namespaces.wrong().is_none() && controllers.resources.load().iter().all(|resource| resource.source().known().is_ready())
}

/// Returns the objects whose namespaces the host does not have now. A namespace about which the host gives no answer counts as one that it has.
async fn look(controllers: &Controllers, extension: &Extension) -> Orphaned {
    let served = controllers.resources.load_full();
    let mut stored: BTreeMap<_, &Arc<Resource>> = BTreeMap::new();
    for resource in served.iter().filter(|resource| resource.served.storage.namespaced) {
        stored.entry(resource.served.storage.id.clone()).or_insert_with(|| served.unconverted(resource));
    }
    let mut missing = BTreeMap::<String, bool>::new();
    let mut found = Orphaned::new();
    for resource in stored.into_values() {
        let snapshot = resource.source().known().snapshot;
        for (count, object) in snapshot.store.scan(b"", b"").enumerate() {
            if count % OBJECTS_AT_ONCE == OBJECTS_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
            let namespace = object.namespace();
            let is_missing = match missing.get(namespace) {
                Some(is_missing) => *is_missing,
                None => {
                    let answer = extension.namespaces.phase(namespace, ASKER.into()).await;
                    *missing.entry(namespace.to_owned()).or_insert(matches!(answer, Ok(None)))
                }
            };
            if is_missing {
                found.entry(namespace.to_owned()).or_default().push((resource.clone(), object.clone()));
            }
        }
    }
    found
}

/// Returns how many objects of which resources are in which namespaces.
fn report(found: &Orphaned) -> String {
    let mut counts = BTreeMap::<String, usize>::new();
    for (resource, _) in found.values().flatten() {
        *counts.entry(resource.served.storage.path_name()).or_default() += 1;
    }
    let counted = counts.iter().map(|(name, count)| format!("{count} {name}"));
    format!("{}, in {}", first(counted, counts.len()), first(found.keys().cloned(), found.len()))
}

/// Returns the first of these, and how many more there are.
fn first(texts: impl Iterator<Item = String>, count: usize) -> String {
    let named: Vec<String> = texts.take(NAMED_MAX).collect();
    let more = count.saturating_sub(NAMED_MAX);
    if more == 0 { named.join(", ") } else { format!("{} and {more} more", named.join(", ")) }
}

/// Deletes these as the garbage collector does: finalizers are waited for, and an object that was made again in the meantime stays. Returns what failed.
async fn delete(controllers: &Controllers, going: Vec<(Arc<Resource>, Arc<Object>)>) -> Vec<WriteError> {
    let count = going.len();
    let mut done = stream::iter(going)
        .map(|(resource, object)| async move {
            let Some(metadata) = Metadata::of(&object).filter(|metadata| !metadata.is_being_deleted()) else { return Ok(()) };
            controllers.delete(&place_of(&resource, &object), &deletion(Propagation::Background, Some(metadata.uid))).await
        })
        .buffer_unordered(DELETES);
    let mut failures = Vec::new();
    while let Some(done) = done.next().await {
        failures.extend(done.err());
    }
    if count > failures.len() {
        tracing::info!(objects = count - failures.len(), "deleted orphaned objects");
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_the_first_ones() {
        let names = || (0..NAMED_MAX + 2).map(|n| n.to_string());
        assert_eq!(first(names().take(2), 2), "0, 1");
        assert_eq!(first(names(), NAMED_MAX + 2), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
    }
}
