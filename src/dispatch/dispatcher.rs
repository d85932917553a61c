//! The keeper's side: turns a batch's events into frames in the logs of the groups that match.

use std::{collections::HashMap, sync::Arc, task::Waker};

use bytes::Bytes;

use super::{
    group::{Frame, Group, GroupKey, GroupLimits},
    interest::Interest,
};
use crate::{
    codec::form::Form,
    model::{Event, Object, Outcome, Revision},
};

/// All groups of one resource. Owned by its keeper.
#[derive(Default)]
pub struct Dispatcher {
    groups: HashMap<GroupKey, Arc<Group>>,
    interest: Interest,
    limits: GroupLimits,
    /// Frames of the batch at hand, by group: (group, frames). Kept for its allocation.
    pending: Vec<(Arc<Group>, Vec<Frame>)>,
}

/// Members to wake once the picture is published. Waking is what dropping it does not do: call [`Wake::now`].
#[must_use = "members sleep until they are woken"]
#[derive(Default)]
pub struct Wake(Vec<Waker>);

impl Wake {
    /// Wakes them.
    pub fn now(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

impl Dispatcher {
    /// No groups yet; each one's log will have these limits.
    #[must_use]
    pub fn new(limits: GroupLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The group for a key, made when it is new; `applied` is the revision the replica is at.
    pub fn group(&mut self, key: GroupKey, form: Arc<Form>, applied: Revision) -> Arc<Group> {
        if let Some(group) = self.groups.get(&key) {
            return group.clone();
        }
        let group = Arc::new(Group::new(key.clone(), form, applied, self.limits));
        self.interest.add(&group);
        self.groups.insert(key, group.clone());
        group
    }

    /// Writes events, in order, to the logs of the groups that match. `published` is the revision readers can already load.
    ///
    /// Each event is encoded once per form and outcome, whatever the number of groups and members (guarantee Encoded once).
    pub fn dispatch(&mut self, events: &[Arc<Event>], published: Revision) -> Wake {
        let mut slots: HashMap<*const Group, usize> = HashMap::new();
        for event in events {
            let mut encoded = Encoded::default();
            let pending = &mut self.pending;
            self.interest.candidates(event, |group| {
                let Some(outcome) = group.key().filter.outcome(event) else { return };
                let frame = Frame { revision: event.revision, bytes: encoded.bytes(group.form(), outcome, event) };
                let slot = *slots.entry(Arc::as_ptr(group)).or_insert_with(|| {
                    pending.push((group.clone(), Vec::new()));
                    pending.len() - 1
                });
                pending[slot].1.push(frame);
            });
        }
        let mut wake = Wake::default();
        for (group, frames) in self.pending.drain(..) {
            group.append(frames.into_iter(), published);
            group.waiting(&mut wake.0);
        }
        wake
    }

    /// Ends every stream: a reset, an undecodable value, shutdown.
    pub fn end_all(&mut self) -> Wake {
        let mut wake = Wake::default();
        for (_, group) in self.groups.drain() {
            group.end(&mut wake.0);
        }
        self.interest = Interest::default();
        wake
    }

    /// Forgets groups without members and frames that nobody needs.
    pub fn tidy(&mut self, published: Revision) {
        let interest = &mut self.interest;
        self.groups.retain(|key, group| {
            // One reference is here, one in the index: a subscriber that was just handed the group holds a third.
            let keep = group.tidy(published) || Arc::strong_count(group) > 2;
            if !keep {
                interest.remove(key);
            }
            keep
        });
    }

    /// Number of groups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// The encodings of one event made so far.
#[derive(Default)]
struct Encoded(Vec<(*const Form, Outcome, Bytes)>);

impl Encoded {
    fn bytes(&mut self, form: &Arc<Form>, outcome: Outcome, event: &Event) -> Bytes {
        let at = Arc::as_ptr(form);
        if let Some((_, _, bytes)) = self.0.iter().find(|(f, o, _)| *f == at && *o == outcome) {
            return bytes.clone();
        }
        let bytes = form.event(outcome.into(), body(event, outcome), event.revision);
        self.0.push((at, outcome, bytes.clone()));
        bytes
    }
}

/// The object an event of this outcome shows: the one before for DELETED, else the one after.
pub(super) fn body(event: &Event, outcome: Outcome) -> &Object {
    let object = match outcome {
        Outcome::Added | Outcome::Modified => event.new.as_deref(),
        Outcome::Deleted => event.old.as_deref(),
    };
    object.expect("an outcome is decided by the object it shows")
}
