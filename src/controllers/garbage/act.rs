//! Does with an object what was decided about it.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::{
    super::{
        objects::{Metadata, OwnerReference, place, place_of, tree},
        queue::After,
    },
    Shared, Work,
    decide::{self, Action, Dependents, FOREGROUND, ORPHAN, Owner, Stage, action, stage},
    index::Slot,
};
use model::Object;
use registry::Resource;
use storage::write::{
    Part,
    failure::WriteError,
    object_ref::ObjectRef,
    options::{DeleteOptions, Propagation},
};

/// Dependents that are let go at once.
const ORPHANS: usize = 32;
/// How often a change is tried anew because somebody else was faster.
const ATTEMPTS_MAX: usize = 8;
/// How long is waited for what the cache has to be taken in.
const TAKEN_IN_LIMIT: Duration = Duration::from_secs(3);

/// What a look at an object came to.
pub(super) struct Outcome {
    pub(super) after: After,
    /// Objects that are looked at next.
    pub(super) look_at: Vec<Work>,
}

const REST: Outcome = Outcome { after: After::Rest, look_at: Vec::new() };
const RETRY: Outcome = Outcome { after: After::Retry, look_at: Vec::new() };

/// Why nothing is known of an owner.
enum Unknown {
    /// Nothing is served of its kind, yet.
    Kind,
    /// It is there, and has not been taken in: nobody would notice when it goes.
    NotYet,
    /// It would be in a namespace, and the dependent is in none: that is never so.
    InNoNamespace,
    Failed(WriteError),
}

impl From<WriteError> for Unknown {
    fn from(error: WriteError) -> Self {
        Self::Failed(error)
    }
}

/// Where the owner of an object in this namespace is.
pub(super) fn place_of_owner(resource: &Arc<Resource>, namespace: &str, name: &str) -> ObjectRef {
    place(resource, if resource.served.namespaced { namespace } else { "" }, name)
}

impl Shared {
    /// Looks at an object as the cache has it, and does what there is to do.
    pub(super) async fn look(&self, (slot, key): &Work) -> Result<Outcome, WriteError> {
        let Some(resource) = self.resource(*slot) else { return Ok(REST) };
        let Some(object) = resource.handle.published.known().snapshot.store.find(key).cloned() else { return Ok(REST) };
        let Some(metadata) = Metadata::of(&object) else { return Ok(REST) };
        let item = Item { resource: &resource, object: &object, metadata: &metadata };
        let done = match stage(&metadata) {
            Stage::Leaving | Stage::Free => Ok(REST),
            Stage::Orphaning => self.orphan(&item).await,
            Stage::DeletingDependents => self.await_dependents(&item).await,
            Stage::Owned => self.collect(&item).await,
        };
        match done {
            // It is gone, or another version of it is looked at.
            Err(WriteError::NotFound(_)) => Ok(REST),
            Err(WriteError::Conflict { .. }) => Ok(RETRY),
            done => done,
        }
    }

    pub(super) fn resource(&self, slot: Slot) -> Option<Arc<Resource>> {
        self.followed.lock().get(slot as usize).map(|followed| followed.resource.clone())
    }

    /// The dependents of an object, which name its uid.
    fn dependents(&self, item: &Item<'_>) -> Vec<(Slot, Arc<Object>, Metadata)> {
        let index = self.index.lock();
        let all = index.dependents(item.object.uid_hash).filter_map(|(slot, object)| Some((slot, object.clone(), Metadata::of(object)?)));
        all.filter(|(.., metadata)| decide::names(metadata, &item.metadata.uid)).collect()
    }

    /// Waits until all is taken in that was written before this version of the object: who became its dependent before it was deleted is known then.
    async fn settled(&self, item: &Item<'_>) -> Result<(), WriteError> {
        let followed = self.followed.lock().clone();
        for (slot, followed) in followed.iter().enumerate().filter(|(_, followed)| followed.is_served) {
            let (resource, revision) = (&followed.resource, item.object.revision);
            // Each etcd has revisions of its own.
            let is_comparable = Arc::ptr_eq(resource.handle.published.fed(), item.resource.handle.published.fed());
            let known = if is_comparable { self.controllers.caught_up(resource, revision).await? } else { resource.source().known() };
            let (epoch, applied) = (known.snapshot.epoch, known.snapshot.applied);
            let is_taken_in = || {
                let now = self.followed.lock().get(slot).map(|followed| (followed.is_served, followed.taken_in));
                let is_enough = |(of, up_to)| of == epoch && (up_to >= applied || is_comparable && up_to >= revision);
                now.is_none_or(|(is_served, taken_in)| !is_served || taken_in.is_some_and(is_enough))
            };
            let waiting = async {
                loop {
                    let more = self.taken_in.notified();
                    if is_taken_in() {
                        return;
                    }
                    more.await;
                }
            };
            let behind = |_| WriteError::NotYet(format!("{} are not taken in yet", resource.served.resource));
            tokio::time::timeout(TAKEN_IN_LIMIT, waiting).await.map_err(behind)?;
        }
        Ok(())
    }

    /// Lets the dependents of an object go, and then the object.
    async fn orphan(&self, item: &Item<'_>) -> Result<Outcome, WriteError> {
        self.settled(item).await?;
        let uid = &item.metadata.uid;
        let mut let_go = stream::iter(self.dependents(item))
            .map(|(slot, dependent, _)| async move {
                let Some(resource) = self.resource(slot) else { return Ok(()) };
                match self.forget(&resource, &dependent, std::slice::from_ref(uid)).await {
                    Err(WriteError::NotFound(_)) => Ok(()),
                    done => done,
                }
            })
            .buffer_unordered(ORPHANS);
        while let Some(done) = let_go.next().await {
            done?;
        }
        self.release(item, ORPHAN).await
    }

    /// Lets an object go whose dependents are gone, or has them looked at.
    async fn await_dependents(&self, item: &Item<'_>) -> Result<Outcome, WriteError> {
        self.settled(item).await?;
        let blocking = self.dependents(item).into_iter().filter(|(.., metadata)| decide::blocks(metadata, &item.metadata.uid));
        let blocking: Vec<_> = blocking.collect();
        if blocking.is_empty() {
            return self.release(item, FOREGROUND).await;
        }
        let waiting = blocking.iter().filter(|(.., metadata)| !metadata.waits_for(FOREGROUND));
        let look_at = waiting.map(|(slot, object, _)| (*slot, bytes::Bytes::copy_from_slice(object.key()))).collect();
        Ok(Outcome { after: After::Rest, look_at })
    }

    /// Does with an object that has owners what is to be done.
    async fn collect(&self, item: &Item<'_>) -> Result<Outcome, WriteError> {
        let mut owners = Vec::with_capacity(item.metadata.owner_references.len());
        for reference in &item.metadata.owner_references {
            match self.owner(item, reference).await {
                Ok(owner) => owners.push(owner),
                Err(Unknown::Kind | Unknown::NotYet) => return Ok(RETRY),
                Err(Unknown::InNoNamespace) => return Ok(REST),
                Err(Unknown::Failed(error)) => return Err(error),
            }
        }
        let dependents = || {
            let all = self.dependents(item);
            let waiting = self.waiting.lock();
            Dependents { any: !all.is_empty(), one_waits: all.iter().any(|(_, object, _)| waiting.contains_key(&object.uid_hash)) }
        };
        match action(item.metadata, &owners, dependents) {
            Action::Keep => {}
            Action::Forget(uids) => self.forget(item.resource, item.object, &uids).await?,
            // Its owners may go then, and it is looked at with what is left of them.
            Action::DeleteInForeground { unblocks: true } if self.unblock(item).await? => return Ok(RETRY),
            Action::DeleteInForeground { .. } => self.delete(item, Propagation::Foreground).await?,
            Action::Delete(propagation) => self.delete(item, propagation).await?,
        }
        Ok(REST)
    }

    /// Finds out about an owner. What the cache does not have is asked of etcd, once for all dependents.
    async fn owner(&self, item: &Item<'_>, reference: &OwnerReference) -> Result<Owner, Unknown> {
        let namespace = item.object.namespace();
        if self.absent.lock().has(reference, namespace) {
            return Ok(Owner::Dangling);
        }
        let resources = self.controllers.resources.load_full();
        let Some(resource) = self.kinds.find(&resources, &reference.api_version, &reference.kind) else {
            return self.former_owner(reference, namespace).await;
        };
        if resource.served.namespaced && namespace.is_empty() {
            self.absentees.add(reference, &resource, item.resource, item.object);
            return Err(Unknown::InNoNamespace);
        }
        let place = place_of_owner(&resource, namespace, &reference.name);
        let state = |metadata: &Metadata| {
            let is_it = metadata.uid == reference.uid;
            is_it.then(|| if metadata.waits_for(FOREGROUND) { Owner::Waiting } else { Owner::Solid })
        };
        let cached = self.controllers.cached(&place).and_then(|owner| Some((state(&Metadata::of(&owner)?)?, owner)));
        if let Some((owner, object)) = cached {
            return if self.has_taken_in(&resource, &object) { Ok(owner) } else { Err(Unknown::NotYet) };
        }
        let found = if reference.name.is_empty() { None } else { self.controllers.writer.newest(&place).await? };
        if found.and_then(|owner| state(&Metadata::of_tree(&owner))).is_some() {
            return Err(Unknown::NotYet);
        }
        self.absentees.add(reference, &resource, item.resource, item.object);
        self.absent.lock().missed(reference, if resource.served.namespaced { namespace } else { "" });
        Ok(Owner::Dangling)
    }

    /// The same of an owner whose kind is not served any more: it may have gone with its definition. While it is stored, nothing is known of it.
    async fn former_owner(&self, reference: &OwnerReference, namespace: &str) -> Result<Owner, Unknown> {
        let resource =
            self.formerly(reference).filter(|resource| !resource.served.namespaced || !namespace.is_empty()).ok_or(Unknown::Kind)?;
        match self.controllers.writer.newest(&place_of_owner(&resource, namespace, &reference.name)).await? {
            Some(owner) if Metadata::of_tree(&owner).uid == reference.uid => Err(Unknown::Kind),
            _ => Ok(Owner::Dangling),
        }
    }

    /// Takes owners out of an object.
    async fn forget(&self, resource: &Arc<Resource>, object: &Arc<Object>, uids: &[String]) -> Result<(), WriteError> {
        let uids: HashSet<&str> = uids.iter().map(String::as_str).collect();
        let left = |metadata: &Value| {
            let all = metadata["ownerReferences"].as_array()?;
            let left: Vec<&Value> = all.iter().filter(|entry| !entry["uid"].as_str().is_some_and(|uid| uids.contains(uid))).collect();
            let owners = if left.is_empty() { Value::Null } else { json!(left) };
            (left.len() < all.len()).then(|| json!({"ownerReferences": owners}))
        };
        self.change(resource, object, left).await
    }

    /// Has an object block none of its owners; returns whether it was changed for that. A custom resource says so of all its owners, as kube-controller-manager
    /// has it, whose patch of these is another one.
    async fn unblock(&self, item: &Item<'_>) -> Result<bool, WriteError> {
        let says_all = item.resource.served.is_custom();
        let is_wrong = |blocks: Option<bool>| blocks == Some(true) || (says_all && blocks.is_none());
        let unblocked = |metadata: &Value| {
            let mut all = metadata["ownerReferences"].as_array()?.clone();
            let wrong = all.iter_mut().filter(|entry| is_wrong(entry["blockOwnerDeletion"].as_bool()));
            let count = wrong.map(|entry| entry["blockOwnerDeletion"] = false.into()).count();
            (count > 0).then(|| json!({"ownerReferences": all}))
        };
        let changes = item.metadata.owner_references.iter().any(|reference| is_wrong(reference.block_owner_deletion));
        if changes {
            self.change(item.resource, item.object, unblocked).await?;
        }
        Ok(changes)
    }

    /// Takes the finalizer away for which an object waits.
    async fn release(&self, item: &Item<'_>, finalizer: &str) -> Result<Outcome, WriteError> {
        let left = |metadata: &Value| {
            let all = metadata["finalizers"].as_array()?;
            let left: Vec<&Value> = all.iter().filter(|known| **known != finalizer).collect();
            (left.len() < all.len()).then(|| json!({"finalizers": left}))
        };
        self.change(item.resource, item.object, left).await?;
        Ok(REST)
    }

    /// Changes the metadata of an object, as it is when it is written: the same object, with the resourceVersion that was read.
    async fn change(
        &self,
        resource: &Arc<Resource>,
        object: &Arc<Object>,
        change: impl Fn(&Value) -> Option<Value>,
    ) -> Result<(), WriteError> {
        let place = place_of(resource, object);
        let mut current = tree(resource, object);
        let uid = current.as_ref().map(|current| current["metadata"]["uid"].clone()).unwrap_or_default();
        for attempt in 1.. {
            let Some(metadata) = current.as_ref().map(|current| &current["metadata"]).filter(|metadata| metadata["uid"] == uid) else {
                break;
            };
            let Some(mut new) = change(metadata) else { break };
            new["uid"] = uid.clone();
            new["resourceVersion"] = metadata["resourceVersion"].clone();
            match self.controllers.merge(&place, Part::Main, &json!({"metadata": new})).await {
                Err(WriteError::Conflict { .. }) if attempt < ATTEMPTS_MAX => current = self.controllers.writer.newest(&place).await?,
                done => return done.map(drop),
            }
        }
        Ok(())
    }

    /// Deletes an object, if it has the owners that were looked at: who writes something else of it again and again does not keep it.
    async fn delete(&self, item: &Item<'_>, propagation: Propagation) -> Result<(), WriteError> {
        let place = place_of(item.resource, item.object);
        let uid = Some(item.metadata.uid.clone());
        let resource_version = Some(item.metadata.resource_version.clone());
        let mut options = DeleteOptions { propagation: Some(propagation), uid, resource_version, ..DeleteOptions::default() };
        let done = self.controllers.writer.delete_by_server(&place, &options).await;
        if !matches!(done, Err(WriteError::Conflict { .. })) {
            return done.map(drop);
        }
        let now = self.controllers.writer.newest(&place).await?.map(|object| Metadata::of_tree(&object)).unwrap_or_default();
        if now.uid != item.metadata.uid || now.owner_references != item.metadata.owner_references {
            return done.map(drop);
        }
        options.resource_version = None;
        self.controllers.writer.delete_by_server(&place, &options).await.map(drop)
    }
}

/// An object that is looked at.
struct Item<'i> {
    resource: &'i Arc<Resource>,
    object: &'i Arc<Object>,
    metadata: &'i Metadata,
}
