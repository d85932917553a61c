//! Quotas in a write: they are charged in the transaction that writes the object, so that nobody takes the same rest twice, whoever else uses the etcd. In one
//! server the writers of a namespace take turns, for otherwise all but one of them would find its quotas changed.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use super::{
    Writer,
    failure::WriteError,
    object_ref::{Current, ObjectRef},
    plugins::PluginSession,
    services::Session,
    transaction, tree,
};
use admission::plugins::{
    Denial, Lookup, Plugin, Write,
    quota::{self, Counter},
};
use etcd::{KeyWrite, Outcome};
use model::Revision;

/// The storage of quotas.
const QUOTAS: &str = "resourcequotas";
/// Namespaces whose turns are kept while nobody waits for them.
const IDLE_MAX: usize = 1_024;

/// The turns of the writers of each namespace.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    async fn take(&self, namespace: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock();
            if turns.len() > IDLE_MAX {
                turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            }
            turns.entry(namespace.to_owned()).or_default().clone()
        };
        turn.lock_owned().await
    }
}

/// The quotas of a write's namespace, and what it adds to them.
#[derive(Default)]
pub(super) struct Charging {
    /// None as long as they are not read.
    quotas: Option<Vec<Stored>>,
    charges: Vec<quota::Charge>,
    is_wanted: bool,
    /// Held until the write is done.
    turn: Option<OwnedMutexGuard<()>>,
}

/// A quota as etcd has it.
struct Stored {
    name: String,
    tree: Value,
    revision: Revision,
}

/// A quota as it is written with an object.
pub(super) struct Charged {
    pub(super) key: Bytes,
    pub(super) expected: Revision,
    pub(super) value: Bytes,
}

impl Writer {
    /// Whether quotas may count an object that is written.
    pub(super) fn has_quotas(&self, target: &ObjectRef) -> bool {
        let served = target.served();
        let Some(namespace) = &target.namespace else { return false };
        // An object in another etcd cannot be written with its quotas.
        let is_one = std::ptr::eq(self.etcd(served), self.etcds.of(QUOTAS)) && self.host.is_none();
        if !is_one || !self.admitting.plugins.has(Plugin::ResourceQuota) || Counter::of(&served.group, &served.resource).is_none() {
            return false;
        }
        let Some(resource) = self.looked_up(Lookup::ResourceQuota) else { return false };
        let prefix = format!("{}{namespace}/", resource.served.storage.key_prefix(&self.prefix));
        resource.handle.published.known().snapshot.store.scan(prefix.as_bytes(), b"").next().is_some()
    }

    /// Puts an object, with what goes with it: what a Service takes, and the quotas that it is charged to.
    pub(super) async fn put_with(
        &self,
        target: &ObjectRef,
        value: Bytes,
        expected: Option<Revision>,
        lease: i64,
        (services, plugins): (Option<&Session<'_>>, Option<&PluginSession<'_>>),
    ) -> Result<Outcome, WriteError> {
        let charged = plugins.map(PluginSession::charged).unwrap_or_default();
        let outcome = match services {
            Some(services) => services.put(target, value, expected, lease, &charged).await?.map_or_else(Outcome::Changed, Outcome::Written),
            None if charged.is_empty() => return Ok(self.put_if(target, value, expected, lease).await?),
            None => self.put_charged(target, value, expected, lease, &charged).await?,
        };
        if let (Outcome::Changed(_), Some(plugins)) = (&outcome, plugins) {
            plugins.forget_quotas();
        }
        Ok(outcome)
    }

    async fn put_charged(
        &self,
        target: &ObjectRef,
        value: Bytes,
        expected: Option<Revision>,
        lease: i64,
        charged: &[Charged],
    ) -> Result<Outcome, WriteError> {
        let metrics = &target.resource.metrics;
        let asking = if expected.is_none() { metrics.etcd_create() } else { metrics.etcd_update() };
        let key = target.key(&self.prefix);
        let mut all = vec![(key.clone(), expected.unwrap_or(Revision::ZERO))];
        let mut writes = vec![KeyWrite::Put { key, value, lease }];
        add(charged, &mut all, &mut writes);
        let outcome = self.etcd(target.served()).write_all(&all, &writes).await?;
        asking.succeeded();
        Ok(match outcome {
            Ok(revision) => Outcome::Written(revision),
            Err(found) => Outcome::Changed(found.into_iter().next().flatten()),
        })
    }

    async fn stored_quotas(&self, namespace: &str) -> Result<Vec<Stored>, WriteError> {
        let Some(resource) = self.looked_up(Lookup::ResourceQuota) else { return Ok(Vec::new()) };
        let at = ObjectRef { resource, namespace: Some(namespace.to_owned()), name: String::new() };
        let mut quotas = Vec::new();
        let each = |current: Current| {
            let name = tree::text(&current.tree, &["metadata", "name"]).to_owned();
            quotas.push(Stored { name, tree: current.tree, revision: current.revision });
        };
        self.each_stored(&at, each).await?;
        Ok(quotas)
    }
}

/// Adds quotas to a transaction.
pub(super) fn add(charged: &[Charged], expected: &mut Vec<(Bytes, Revision)>, writes: &mut Vec<KeyWrite>) {
    for Charged { key, expected: revision, value } in charged {
        expected.push((key.clone(), *revision));
        writes.push(KeyWrite::Put { key: key.clone(), value: value.clone(), lease: 0 });
    }
}

impl PluginSession<'_> {
    /// Charges an object that is to be written, when its quotas are known; otherwise asks for them.
    pub(super) fn charge(&self, write: &Write<'_>, object: &Value) -> Result<(), Denial> {
        if !self.has_quotas || !quota::concerns(write, object) {
            return Ok(());
        }
        let charging = &mut *self.charging.lock();
        charging.charges.clear();
        let Some(quotas) = &charging.quotas else {
            charging.is_wanted = true;
            return Ok(());
        };
        let trees: Vec<&Value> = quotas.iter().map(|quota| &quota.tree).collect();
        charging.charges = quota::charge(&self.writer.admitting.plugins.settings.limited, write, object, &trees)?;
        Ok(())
    }

    /// Whether the last decision lacked the quotas.
    pub(super) fn lacks_quotas(&self) -> bool {
        self.charging.lock().is_wanted
    }

    /// Lets others of the namespace go on: the quotas are read again before the object is charged.
    pub(super) fn give_up_turn(&self) {
        *self.charging.lock() = Charging::default();
    }

    /// Reads the quotas if the last decision lacked them; false when it did not.
    pub(super) async fn load_quotas(&self, namespace: &str) -> Result<bool, WriteError> {
        let has_turn = {
            let charging = &mut *self.charging.lock();
            if !std::mem::take(&mut charging.is_wanted) {
                return Ok(false);
            }
            charging.turn.is_some()
        };
        if !has_turn && !self.dry_run {
            let turn = self.writer.admitting.turns.take(namespace).await;
            self.charging.lock().turn = Some(turn);
        }
        let quotas = self.writer.stored_quotas(namespace).await?;
        self.charging.lock().quotas = Some(quotas);
        Ok(true)
    }

    /// The quotas as they are written with the object.
    fn charged(&self) -> Vec<Charged> {
        let charging = &*self.charging.lock();
        let (Some(quotas), Some(resource)) = (&charging.quotas, self.writer.looked_up(Lookup::ResourceQuota)) else { return Vec::new() };
        let charged = charging.charges.iter().map(|charge| {
            let Stored { name, tree, revision } = &quotas[charge.quota];
            let mut tree = tree.clone();
            tree::set(&mut tree, &["status", "used"], charge.used.clone());
            let namespace = Some(tree::text(&tree, &["metadata", "namespace"]).to_owned());
            let place = ObjectRef { resource: resource.clone(), namespace, name: name.clone() };
            let value = transaction::encoded(&place, &tree);
            Charged { key: place.key(&self.writer.prefix), expected: *revision, value }
        });
        charged.collect()
    }

    /// Has the quotas read again: somebody has changed them.
    fn forget_quotas(&self) {
        self.charging.lock().quotas = None;
    }
}
