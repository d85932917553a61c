//! Keeps the status of ResourceQuotas: what they limit and what is used. Writers charge what they add in their own transaction (`storage/write/quotas`); what
//! goes is found here, and what was there before the quota: kube-controller-manager's resourcequota-controller.
//!
//! A sum counts only if nobody has charged the quota since it was read: then its revision is another one, and it is summed up again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use admission::plugins::quota::{Counter, Sum};
use bytes::Bytes;
use futures_util::FutureExt;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::{
    Controllers,
    objects::{names, place_of, tree},
    time::moment,
};
use model::{Epoch, Object, Revision};
use registry::Resource;
use retry::Reminder;
use storage::write::{Part, failure::WriteError};

/// How often is looked for what has gone.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often everything is summed up again, as there.
const RESYNC_EVERY: Duration = Duration::from_secs(300);
/// How often the log has a line about failures.
const REMIND_EVERY: Duration = Duration::from_secs(10);
/// Objects that are read before others have their turn.
const OBJECTS_AT_ONCE: usize = 1_024;

/// Up to where a resource was seen.
type Seen = Option<(Epoch, Revision)>;

pub(super) async fn run(controllers: Arc<Controllers>) {
    let Some(quotas) = controllers.built_in("", "resourcequotas") else { return };
    let keeper = Keeper { controllers: &controllers, quotas };
    let published = &keeper.quotas.handle.published;
    let (mut seen_quotas, mut seen, mut dirty) = (None, BTreeMap::<(String, String), Seen>::new(), BTreeSet::<String>::new());
    let (mut reminder, mut synced) = (Reminder::every(REMIND_EVERY), Instant::now());
    loop {
        let has_any = keeper.all().next().is_some();
        tokio::select! {
            (_, keys) = published.next(&mut seen_quotas) => match keys {
                Some(keys) => dirty.extend(keys.iter().filter_map(names).map(|(namespace, _)| namespace.to_owned())),
                None => dirty.extend(keeper.namespaces()),
            },
            // At rest nothing is done.
            () = tokio::time::sleep(LOOK_EVERY), if has_any => dirty.extend(keeper.changed(&mut seen)),
        }
        if synced.elapsed() >= RESYNC_EVERY {
            synced = Instant::now();
            dirty.extend(keeper.namespaces());
        }
        for namespace in std::mem::take(&mut dirty) {
            if let Err(error) = keeper.keep(&namespace).await {
                if reminder.is_due() {
                    tracing::warn!(%error, namespace, "the status of quotas cannot be written; trying again");
                }
                dirty.insert(namespace);
            }
        }
    }
}

struct Keeper<'c> {
    controllers: &'c Controllers,
    quotas: Arc<Resource>,
}

impl Keeper<'_> {
    fn all(&self) -> impl Iterator<Item = Arc<Object>> + use<> {
        let known = self.quotas.handle.published.known();
        let all: Vec<_> = known.snapshot.store.scan(b"", b"").cloned().collect();
        all.into_iter()
    }

    fn namespaces(&self) -> BTreeSet<String> {
        self.all().map(|quota| quota.namespace().to_owned()).collect()
    }

    /// The resources that a quota counts, with how.
    fn counted(&self, sum: &Sum<'_>) -> Vec<(Arc<Resource>, Counter)> {
        let mut known = BTreeSet::new();
        let resources = self.controllers.resources.load();
        let namespaced = resources.iter().filter(|resource| resource.served.namespaced);
        let counted = namespaced.filter_map(|resource| {
            let (group, name) = (&*resource.served.group, &*resource.served.resource);
            let counter = Counter::of(group, name).filter(|counter| !sum.counted(counter).is_empty())?;
            // Versions of a resource are one.
            known.insert((group.to_owned(), name.to_owned())).then(|| (resource.clone(), counter))
        });
        counted.collect()
    }

    /// The namespaces with quotas in which something that they count has changed since the last look.
    fn changed(&self, seen: &mut BTreeMap<(String, String), Seen>) -> BTreeSet<String> {
        let namespaces = self.namespaces();
        let mut resources = BTreeMap::new();
        for quota in self.all().filter_map(|quota| tree(&self.quotas, &quota)) {
            for (resource, _) in self.counted(&Sum::of(&quota)) {
                resources.insert((resource.served.group.clone(), resource.served.resource.clone()), resource);
            }
        }
        seen.retain(|of, _| resources.contains_key(of));
        let mut changed = BTreeSet::new();
        for (of, resource) in resources {
            let seen = seen.entry(of).or_default();
            match resource.source().next(seen).now_or_never() {
                Some((_, Some(keys))) => {
                    let changed_in = keys.iter().filter_map(|key: &Bytes| names(key)).map(|(namespace, _)| namespace);
                    changed.extend(changed_in.filter(|namespace| namespaces.contains(*namespace)).map(str::to_owned));
                }
                Some((_, None)) => changed.extend(namespaces.iter().cloned()),
                None => {}
            }
        }
        changed
    }

    /// Brings the quotas of a namespace up to date.
    async fn keep(&self, namespace: &str) -> Result<(), WriteError> {
        for object in self.all().filter(|quota| quota.namespace() == namespace) {
            let Some(quota) = tree(&self.quotas, &object) else { continue };
            let mut sum = Sum::of(&quota);
            for (resource, counter) in self.counted(&sum) {
                sum.begin(&counter);
                self.add(&mut sum, &resource, &counter, namespace, object.revision).await?;
            }
            if sum.is_stored() {
                continue;
            }
            let mut new = quota.clone();
            new["status"] = json!({"hard": quota["spec"]["hard"], "used": sum.used()});
            new["metadata"]["resourceVersion"] = object.revision.0.to_string().into();
            match self.controllers.replace(&place_of(&self.quotas, &object), Part::Status, &new).await {
                // Another revision comes, and is looked at.
                Ok(_) | Err(WriteError::NotFound(_) | WriteError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds the objects of a resource, as they were when the quota was written or later.
    async fn add(
        &self,
        sum: &mut Sum<'_>,
        resource: &Arc<Resource>,
        counter: &Counter,
        namespace: &str,
        revision: Revision,
    ) -> Result<(), WriteError> {
        let known = self.controllers.caught_up(resource, revision).await?;
        let prefix = format!("{}{namespace}/", resource.served.storage.key_prefix(&self.controllers.prefix));
        for (count, object) in known.snapshot.store.scan(prefix.as_bytes(), b"").enumerate() {
            if count % OBJECTS_AT_ONCE == OBJECTS_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
            match counter {
                Counter::Objects(_) => sum.add(counter, &Value::Null, false),
                _ => {
                    let Some(object) = tree(resource, object) else { continue };
                    sum.add(counter, &object, is_lost(&object, OffsetDateTime::now_utc()));
                }
            }
        }
        Ok(())
    }
}

/// Whether a Pod should have been gone for its time of grace: its node may be lost.
fn is_lost(object: &Value, now: OffsetDateTime) -> bool {
    let metadata = &object["metadata"];
    let grace = metadata["deletionGracePeriodSeconds"].as_i64();
    let end = moment(&metadata["deletionTimestamp"]).zip(grace);
    end.is_some_and(|(end, grace)| end.checked_add(time::Duration::seconds(grace)).is_some_and(|end| now > end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_should_be_gone_is_lost() {
        let now = moment(&json!("2026-01-01T00:01:00Z")).expect("a time");
        let pod =
            |grace: Option<i64>| json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": grace}});
        assert_eq!([pod(Some(30)), pod(Some(29)), pod(None), json!({})].map(|pod| is_lost(&pod, now)), [false, true, false, false]);
        assert!(!is_lost(&pod(Some(i64::MAX)), now), "past the end of the calendar");
    }
}
