//! The loop of a write: what is there, what should be there, one transaction, again when somebody else was faster (spec api-surface §10.5).
//!
//! Optimistic: the object is first read from the cache. Whatever is decided from it and not written (an error, no change) is decided again on etcd's own state,
//! for the cache may be behind.

use bytes::Bytes;
use serde_json::Value;

use super::{
    Writer,
    failure::WriteError,
    managed,
    object_ref::{Current, ObjectRef, StoredValue},
    plugins::PluginSession,
    services::{Session, is_service},
    step::{Answers, Decider, Stop},
    tree,
};
use codec::stored;
use etcd::{EtcdError, Outcome};
use go::quote::quoted;
use model::Revision;

/// What should become of the object.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// Nothing is written, whatever is stored.
    Leave,
    /// It is this already. It is written only if other bytes are stored than would be stored now: those of another version, or in another form.
    Keep(Value),
    /// It should be this.
    Put(Value),
    /// It should be gone. What the answer shows, when that is not the object as it was.
    Remove(Option<Value>),
}

/// The outcome of a write.
#[derive(Debug, PartialEq)]
pub(super) enum WriteOutcome {
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

/// Where the object is first read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadFrom {
    /// The cache.
    Cache,
    /// etcd: when the decision cannot be repeated.
    Etcd,
}

/// One change of an object.
pub(super) struct Change<'a> {
    pub(super) target: &'a ObjectRef,
    pub(super) read_from: ReadFrom,
    /// All but the transaction is done.
    pub(super) dry_run: bool,
    /// To decide takes long even where the object is small.
    pub(super) is_large: bool,
    /// What the decision allocates with.
    pub(super) services: Option<&'a Session<'a>>,
    /// What changes and judges the object.
    pub(super) plugins: Option<&'a PluginSession<'a>>,
    /// The decision keeps up managed fields: what is too large for etcd with them is decided again without.
    pub(super) keeps_managed: bool,
}

impl<'a> Change<'a> {
    /// A change of an object that is first read from the cache.
    pub(super) fn of(target: &'a ObjectRef) -> Self {
        Self { target, read_from: ReadFrom::Cache, dry_run: false, is_large: false, services: None, plugins: None, keeps_managed: false }
    }
}

impl Writer {
    /// Changes one object as `decide` says.
    pub(super) async fn change(
        &self,
        change: Change<'_>,
        mut decider: Decider<'_>,
        mut decide: impl FnMut(Option<&Current>, &Answers<'_>) -> Result<Decision, Stop>,
    ) -> Result<WriteOutcome, WriteError> {
        let Change { target, read_from, dry_run, is_large, services, plugins, keeps_managed } = change;
        // A dry run has no transaction that would find out that the cache is behind. What is stored of a converted object only etcd says.
        let from_cache = read_from == ReadFrom::Cache && !dry_run && target.resource.shown.is_none();
        let cached = if from_cache { self.cached(target).await } else { None };
        let (mut current, mut is_fresh) = match cached {
            Some(current) => (Some(current), false),
            None => (self.fresh(target).await?, true),
        };
        loop {
            let is_large = is_large || current.as_ref().is_some_and(|current| current.is_large);
            let decision = decider.decide(is_large, |answers| decide(current.as_ref(), answers)).await?;
            // A webhook is not asked about what may have changed long ago: it would be asked again.
            if !is_fresh && plugins.is_some_and(PluginSession::withdraw_question) {
                (current, is_fresh) = (self.fresh(target).await?, true);
                continue;
            }
            if decider.loaded(target, (services, plugins)).await? {
                continue;
            }
            if !is_fresh && !matches!(decision, Ok(Decision::Put(_) | Decision::Remove(_))) {
                (current, is_fresh) = (self.fresh(target).await?, true);
                continue;
            }
            let decision = decision?;
            if dry_run {
                let decision = match decision {
                    Decision::Put(tree) => Decision::Put(self.as_if_written(target, tree).await?),
                    Decision::Keep(tree) if target.resource.shown.is_some() => Decision::Put(self.as_if_written(target, tree).await?),
                    Decision::Keep(_) => Decision::Leave,
                    other => other,
                };
                return Ok(dry_run_outcome(decision, current));
            }
            match self.commit(target, decision, current, is_large, (services, plugins)).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(found)) => (current, is_fresh) = (found, true),
                Err(error) if keeps_managed && managed::is_too_large(&error) && !decider.answers.without_managed => {
                    decider.answers.without_managed = true;
                    (current, is_fresh) = (self.fresh(target).await?, true);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Commits a decision in one transaction; or returns what was found instead of what the decision was made on. Bytes that are stored already are not
    /// written again.
    async fn commit(
        &self,
        target: &ObjectRef,
        decision: Decision,
        current: Option<Current>,
        is_large: bool,
        with: (Option<&Session<'_>>, Option<&PluginSession<'_>>),
    ) -> Result<Result<WriteOutcome, Option<Current>>, WriteError> {
        let (outcome, value) = match (&decision, &current) {
            (Decision::Leave, _) => return Ok(Ok(kept(current))),
            (Decision::Keep(tree) | Decision::Put(tree), before) => {
                let value = self.encoded(target, tree, is_large).await?;
                if before.as_ref().is_some_and(|before| before.stored.as_ref() == Some(&value)) {
                    return Ok(Ok(kept(current)));
                }
                let lease = self.lease_for(target.served()).await?;
                let expected = before.as_ref().map(|before| before.revision);
                (self.put_with(target, value.clone(), expected, lease, with).await?, Some(value))
            }
            (Decision::Remove(_), None) => return Err(WriteError::NotFound(target.subject())),
            (Decision::Remove(_), Some(current)) => (self.delete_current(target, current).await?, None),
        };
        Ok(match outcome {
            Outcome::Written(revision) => {
                let stored = value.map(|value| StoredValue { key: target.key(&self.prefix), value, revision });
                Ok(done(decision, current, revision, stored))
            }
            Outcome::Changed(Some(found)) => Err(Some(self.decoded(target, found).await?)),
            Outcome::Changed(None) => Err(None),
        })
    }

    /// Puts the object if it was last written at this revision; without one it must not exist.
    pub(super) async fn put_if(
        &self,
        target: &ObjectRef,
        value: Bytes,
        expected: Option<Revision>,
        lease: i64,
    ) -> Result<Outcome, EtcdError> {
        let metrics = &target.resource.metrics;
        let asking = if expected.is_none() { metrics.etcd_create() } else { metrics.etcd_update() };
        let outcome = self.etcd(target.served()).put_if(target.key(&self.prefix), value, expected, lease).await?;
        asking.succeeded();
        self.note(target, &outcome);
        Ok(outcome)
    }

    /// Notes what was written, for the plugins that look it up.
    fn note(&self, target: &ObjectRef, outcome: &Outcome) {
        if let Outcome::Written(revision) = outcome {
            self.admitting.note_written(target.served(), *revision);
        }
    }

    /// Deletes this object, with what goes with it.
    async fn delete_current(&self, target: &ObjectRef, current: &Current) -> Result<Outcome, WriteError> {
        if !is_service(target.served()) {
            return Ok(self.delete_if(target, current.revision).await?);
        }
        let asking = target.resource.metrics.etcd_delete();
        let outcome = self.delete_service(target, current).await?;
        asking.succeeded();
        Ok(outcome.map_or_else(Outcome::Changed, Outcome::Written))
    }

    /// Deletes the object if it was last written at this revision, and nothing that goes with it.
    pub(super) async fn delete_if(&self, target: &ObjectRef, expected: Revision) -> Result<Outcome, EtcdError> {
        let asking = target.resource.metrics.etcd_delete();
        let outcome = self.etcd(target.served()).delete_if(target.key(&self.prefix), expected).await?;
        asking.succeeded();
        self.note(target, &outcome);
        Ok(outcome)
    }
}

impl Writer {
    /// Puts what must not exist yet; or returns what does. It is nothing where what goes with the object was changed by somebody else.
    pub(super) async fn put_new(
        &self,
        target: &ObjectRef,
        object: &Value,
        is_large: bool,
        with: (Option<&Session<'_>>, Option<&PluginSession<'_>>),
    ) -> Result<Result<StoredValue, Option<Current>>, WriteError> {
        let lease = self.lease_for(target.served()).await?;
        let value = self.encoded(target, object, is_large).await?;
        match self.put_with(target, value.clone(), None, lease, with).await? {
            Outcome::Written(revision) => Ok(Ok(StoredValue { key: target.key(&self.prefix), value, revision })),
            Outcome::Changed(Some(kv)) => Ok(Err(Some(self.decoded(target, kv).await?))),
            Outcome::Changed(None) if with.0.is_some() || with.1.is_some() => Ok(Err(None)),
            Outcome::Changed(None) => Err(WriteError::Raw(format!("etcd says that {} neither exists nor is absent", quoted(&target.name)))),
        }
    }
}

impl Decider<'_> {
    /// Reads what the last decision lacked, and asks whom it has to ask; returns false when it lacked nothing. Nothing is held meanwhile.
    pub(super) async fn loaded(
        &mut self,
        target: &ObjectRef,
        (services, plugins): (Option<&Session<'_>>, Option<&PluginSession<'_>>),
    ) -> Result<bool, WriteError> {
        if let Some(services) = services
            && services.load(target).await?
        {
            return Ok(true);
        }
        let Some(plugins) = plugins else { return Ok(false) };
        let loaded = Box::pin(plugins.load(target));
        if plugins.waits() { self.outside(loaded).await } else { loaded.await }
    }
}

/// The outcome of a decision that was committed at this revision.
fn done(decision: Decision, current: Option<Current>, revision: Revision, stored: Option<StoredValue>) -> WriteOutcome {
    let created = current.is_none();
    match decision {
        Decision::Leave => kept(current),
        Decision::Keep(tree) | Decision::Put(tree) => WriteOutcome::Put { tree: at_revision(tree, revision), created, stored },
        Decision::Remove(shown) => WriteOutcome::Removed { was: tree_of(current), shown, revision },
    }
}

/// The outcome when nothing is written.
fn kept(current: Option<Current>) -> WriteOutcome {
    WriteOutcome::Kept(tree_of(current))
}

fn tree_of(current: Option<Current>) -> Value {
    current.map(|current| current.tree).unwrap_or_default()
}

/// The outcome of a dry run: the revision stays what it is, and what does not exist has none.
fn dry_run_outcome(decision: Decision, current: Option<Current>) -> WriteOutcome {
    let revision = current.as_ref().map_or(Revision::ZERO, |c| c.revision);
    match done(decision, current, revision, None) {
        WriteOutcome::Put { tree, created: true, stored } => WriteOutcome::Put { tree: without_revision(tree), created: true, stored },
        done => done,
    }
}

/// The value that etcd gets.
pub(super) fn encoded(target: &ObjectRef, tree: &Value) -> Bytes {
    let served = target.served();
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
