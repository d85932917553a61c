//! The webhooks of one write: which may be asked, and what they have answered.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;

use super::{ConfiguredHook, bound::BoundPolicy};
use crate::write::{by::Client, failure::WriteError};
use admission::plugins::Notes;

/// Which kind of object is sent.
#[derive(Clone, Copy)]
pub(in crate::write) enum Form<'a> {
    /// An object of the resource, in the version that is stored.
    Object,
    /// An object of this group, version and kind, which a subresource takes.
    Other(&'static str, &'static str, &'static str),
    /// An object of a resource of which nothing is stored.
    Unstored(Unstored<'a>),
}

/// A resource of which nothing is stored, and its kind.
#[derive(Clone, Copy)]
pub struct Unstored<'a> {
    /// Group.
    pub group: &'a str,
    /// Version.
    pub version: &'a str,
    /// Plural name.
    pub resource: &'a str,
    /// Kind.
    pub kind: &'a str,
}

/// What a write may need to know of webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::write) enum Step {
    /// What becomes of an object.
    Mutation,
    /// Whether it may be stored.
    Validation,
    /// Whether it may be deleted.
    Deletion,
}

/// A question for all webhooks of a write.
#[derive(Clone, PartialEq)]
pub(in crate::write) struct Wanted {
    pub(super) step: Step,
    pub(super) old: Option<Value>,
    /// The object; of a deletion its options.
    pub(super) object: Value,
}

/// What came of a question.
pub(in crate::write) struct Done {
    pub(super) of: Wanted,
    /// The object as it is then.
    pub(super) outcome: Result<Value, WriteError>,
    pub(super) notes: Notes,
}

/// Those that may be asked, each with its place among all of its kind.
pub(super) type Hooks = Vec<(usize, Arc<ConfiguredHook>)>;

/// See the file's header.
pub(in crate::write) struct HookSession<'a> {
    pub(super) client: Client<'a>,
    pub(super) form: Form<'a>,
    pub(super) subresource: &'a str,
    /// The options of the write, without their kind.
    pub(super) options: Value,
    pub(super) dry_run: bool,
    /// It is one of a collection that is deleted: the request has no name.
    pub(super) is_of_many: bool,
    pub(super) mutating: Hooks,
    pub(super) validating: Hooks,
    /// Policies that may have something to say, with their bindings.
    pub(super) mutating_policies: Vec<Arc<BoundPolicy>>,
    pub(super) policies: Vec<Arc<BoundPolicy>>,
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    wanted: Option<Wanted>,
    done: HashMap<Step, Done>,
}

impl HookSession<'_> {
    /// Returns what came of a question, if it was asked; otherwise notes that it is wanted.
    pub(in crate::write) fn known(&self, step: Step, old: Option<&Value>, object: &Value) -> Option<(Result<Value, WriteError>, Notes)> {
        if step == Step::Validation && self.validating.is_empty() && self.policies.is_empty() {
            return Some((Ok(Value::Null), Notes::default()));
        }
        let state = &mut *self.state.lock();
        if let Some(done) = state.done.get(&step).filter(|done| done.of.old.as_ref() == old && done.of.object == *object) {
            return Some((done.outcome.clone(), done.notes.clone()));
        }
        state.wanted = Some(Wanted { step, old: old.cloned(), object: object.clone() });
        None
    }

    /// Returns whether any may change the object.
    pub(in crate::write) fn mutates(&self) -> bool {
        !self.mutating.is_empty() || !self.mutating_policies.is_empty()
    }

    /// Returns whether anything is wanted.
    pub(in crate::write) fn is_wanted(&self) -> bool {
        self.state.lock().wanted.is_some()
    }

    pub(in crate::write) fn take_wanted(&self) -> Option<Wanted> {
        self.state.lock().wanted.take()
    }

    pub(in crate::write) fn note(&self, done: Done) {
        self.state.lock().done.insert(done.of.step, done);
    }
}
