//! The loop of a write: what is there, what should be there, one transaction, again when somebody else was faster (spec api-surface §10.5).
//!
//! Optimistic: the first look is at the cache. Whatever is decided from it and not written (an error, no change) is decided again on etcd's own state,
//! for the cache may be behind.

use bytes::Bytes;
use serde_json::Value;

use super::{
    Writer,
    failure::WriteError,
    place::{Current, Place, StoredValue},
    tree,
};
use codec::stored;
use etcd::{EtcdError, Outcome};
use model::Revision;

/// What a look at the object came to.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// It is as it should be.
    Keep,
    /// It should be this.
    Put(Value),
    /// It should be gone. What the answer shows, when that is not the object as it was.
    Remove(Option<Value>),
}

/// What was done.
#[derive(Debug, PartialEq)]
pub(super) enum Done {
    /// Nothing: the object is this.
    Kept(Value),
    /// The object is this now.
    Put {
        /// With the revision of the write, but for a dry run.
        tree: Value,
        /// It did not exist before.
        created: bool,
        /// What etcd has now; none of a dry run.
        stored: Option<StoredValue>,
    },
    /// The object is gone.
    Removed {
        /// As it was.
        was: Value,
        /// What the answer shows, when that is something else.
        shown: Option<Value>,
        /// Revision of the deletion; that of the object in a dry run.
        revision: Revision,
    },
}

/// The first look at the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// At the cache.
    Cache,
    /// At etcd: when the decision is not ours to repeat.
    Etcd,
}

impl Writer {
    /// Changes one object as `decide` says; a dry run does all but the transaction. `is_large`: to decide takes long even where the object is small.
    pub(super) async fn change(
        &self,
        place: &Place,
        look: Look,
        dry_run: bool,
        is_large: bool,
        mut decide: impl FnMut(Option<&Current>) -> Result<Decision, WriteError>,
    ) -> Result<Done, WriteError> {
        // A dry run has no transaction that would find out that the cache is behind.
        let cached = if look == Look::Cache && !dry_run { self.cached(place).await } else { None };
        let (mut current, mut is_fresh) = match cached {
            Some(current) => (Some(current), false),
            None => (self.fresh(place).await?, true),
        };
        loop {
            let is_large = is_large || current.as_ref().is_some_and(|current| current.is_large);
            let decision = self.offload.take(is_large, || decide(current.as_ref())).await;
            if !is_fresh && !matches!(decision, Ok(Decision::Put(_) | Decision::Remove(_))) {
                (current, is_fresh) = (self.fresh(place).await?, true);
                continue;
            }
            let decision = decision?;
            if dry_run {
                return Ok(rehearsed(decision, current));
            }
            match self.carry_out(place, decision, current, is_large).await? {
                Ok(done) => return Ok(done),
                Err(found) => (current, is_fresh) = (found, true),
            }
        }
    }

    /// One transaction; or what was found instead of what the decision was made on.
    async fn carry_out(
        &self,
        place: &Place,
        decision: Decision,
        current: Option<Current>,
        is_large: bool,
    ) -> Result<Result<Done, Option<Current>>, WriteError> {
        let expected = current.as_ref().map_or(Revision::ZERO, |c| c.revision);
        let mut value = None;
        let outcome = match &decision {
            Decision::Keep => Outcome::Written(expected),
            Decision::Put(tree) => {
                let lease = self.lease_for(place.served()).await?;
                let encoded = self.offload.take(is_large, || encoded(place, tree)).await;
                self.put_if(place, value.insert(encoded).clone(), expected, lease).await?
            }
            Decision::Remove(_) if current.is_none() => return Err(WriteError::NotFound(place.named())),
            Decision::Remove(_) => self.delete_if(place, expected).await?,
        };
        Ok(match outcome {
            Outcome::Written(revision) => {
                let stored = value.map(|value| StoredValue { key: place.key(&self.prefix), value, revision });
                Ok(done(decision, current, revision, stored))
            }
            Outcome::Changed(Some(found)) => Err(Some(self.decoded(place, found).await?)),
            Outcome::Changed(None) => Err(None),
        })
    }

    /// Puts the object if it was last written at this revision; 0 means that it must not exist.
    pub(super) async fn put_if(&self, place: &Place, value: Bytes, expected: Revision, lease: i64) -> Result<Outcome, EtcdError> {
        let metrics = &place.resource.metrics;
        let asking = if expected == Revision::ZERO { metrics.etcd_create() } else { metrics.etcd_update() };
        let outcome = self.etcd(place.served()).put_if(place.key(&self.prefix), value, expected, lease).await?;
        asking.succeeded();
        Ok(outcome)
    }

    /// Deletes the object if it was last written at this revision.
    pub(super) async fn delete_if(&self, place: &Place, expected: Revision) -> Result<Outcome, EtcdError> {
        let asking = place.resource.metrics.etcd_delete();
        let outcome = self.etcd(place.served()).delete_if(place.key(&self.prefix), expected).await?;
        asking.succeeded();
        Ok(outcome)
    }
}

/// What a decision came to at this revision.
fn done(decision: Decision, current: Option<Current>, revision: Revision, stored: Option<StoredValue>) -> Done {
    let created = current.is_none();
    let was = current.map(|c| c.tree).unwrap_or_default();
    match decision {
        Decision::Keep => Done::Kept(was),
        Decision::Put(tree) => Done::Put { tree: at_revision(tree, revision), created, stored },
        Decision::Remove(shown) => Done::Removed { was, shown, revision },
    }
}

/// What a dry run answers: the revision stays what it is, and what does not exist has none.
fn rehearsed(decision: Decision, current: Option<Current>) -> Done {
    let revision = current.as_ref().map_or(Revision::ZERO, |c| c.revision);
    match done(decision, current, revision, None) {
        Done::Put { tree, created: true, stored } => Done::Put { tree: without_revision(tree), created: true, stored },
        done => done,
    }
}

/// The value that etcd gets.
pub(super) fn encoded(place: &Place, tree: &Value) -> Bytes {
    let served = place.served();
    let object = tree.as_object().expect("every tree that is written was made an object");
    stored::encode(&served.storage, &served.stored_as, object).into()
}

/// The object as it is shown after a write at this revision.
pub(super) fn at_revision(mut tree: Value, revision: Revision) -> Value {
    tree::member(&mut tree, "metadata").insert("resourceVersion".into(), revision.0.to_string().into());
    tree
}

pub(super) fn without_revision(mut tree: Value) -> Value {
    tree::member(&mut tree, "metadata").remove("resourceVersion");
    tree
}
