//! Changes that the server itself makes to objects that are there.

use serde_json::Value;

use super::{
    SERVER, Writer,
    custom::Judge,
    failure::WriteError,
    managed::{FieldManager, Manager},
    object_ref::{Current, ObjectRef},
    part::Part,
    step::{Answers, Decider, Stop},
    transaction::{Change, Decision, ReadFrom, WriteOutcome},
    tree, updated,
};
use model::Revision;

impl Writer {
    /// Changes an object that is there, on behalf of the server itself, if `change` says to what: the object as it is then. One that is gone needs no
    /// change. Nobody becomes the manager of what changes.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn amend(
        &self,
        target: &ObjectRef,
        change: impl Fn(&Value) -> Option<Value>,
    ) -> Result<Option<(Revision, Value)>, WriteError> {
        let decider = Decider::new(&self.offload, self.admit(target, false, 0).await, target.answers(None));
        let how = Change { read_from: ReadFrom::Etcd, ..Change::of(target) };
        let done = self.change(how, decider, |current, answers| amended(target, current, answers, None, &change)).await?;
        Ok(with_revision(done))
    }

    /// Changes an object as [`Self::amend`] does, and notes the server as the manager of what it changes, through the subresource of this part.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn amend_part(
        &self,
        target: &ObjectRef,
        part: Part,
        change: impl Fn(&Value) -> Option<Value> + Send + Sync,
    ) -> Result<Option<(Revision, Value)>, WriteError> {
        let decider = Decider::new(&self.offload, self.admit(target, false, 0).await, target.answers(None));
        let how = Change { read_from: ReadFrom::Etcd, keeps_managed: true, ..Change::of(target) };
        let managers = FieldManager::new(self, target, Manager { name: SERVER.to_owned(), subresource: part.subresource(), part });
        let done = self.change(how, decider, |current, answers| amended(target, current, answers, Some(&managers), &change)).await?;
        Ok(with_revision(done))
    }
}

/// What the server itself makes of an object.
fn amended(
    target: &ObjectRef,
    current: Option<&Current>,
    answers: &Answers<'_>,
    managers: Option<&FieldManager<'_>>,
    change: impl Fn(&Value) -> Option<Value>,
) -> Result<Decision, Stop> {
    let Some(current) = current else { return Ok(Decision::Leave) };
    let Some(mut object) = change(&current.tree) else { return Ok(Decision::Leave) };
    if let Some(managers) = managers {
        managers.updated(answers, &current.tree, &mut object)?;
    }
    Ok(updated(target, Judge::default(), Part::Server, current, object, &mut Vec::new())?)
}

/// The object that is there after a change, and of which revision it is.
fn with_revision(done: WriteOutcome) -> Option<(Revision, Value)> {
    let object = match done {
        WriteOutcome::Kept(tree) | WriteOutcome::Put { tree, .. } => tree,
        WriteOutcome::Removed { .. } => return None,
    };
    let revision = tree::text(&object, &["metadata", "resourceVersion"]).parse().ok();
    revision.map(|revision| (Revision(revision), object))
}
