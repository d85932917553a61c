//! Groups whose last member has left. Their dispatcher forgets them at once: each holds a filter, for which others may be waiting.

use std::{
    sync::{Arc, Weak},
    task::{Poll, Waker},
};

use parking_lot::{Mutex, MutexGuard};

use super::group::Group;

/// Those of one resource that it does not know of yet.
#[derive(Default)]
pub(super) struct Left(Mutex<State>);

#[derive(Default)]
struct State {
    groups: Vec<Weak<Group>>,
    /// Of whoever is to look.
    waker: Option<Waker>,
}

impl Left {
    /// The last member of a group has left.
    pub(super) fn tell(&self, group: &Arc<Group>) {
        let waker = {
            let mut state = self.state();
            state.groups.push(Arc::downgrade(group));
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Whether there are any. When not, `waker` is woken once there are.
    pub(super) fn poll_any(&self, waker: &Waker) -> Poll<()> {
        let mut state = self.state();
        if !state.groups.is_empty() {
            return Poll::Ready(());
        }
        state.waker = Some(waker.clone());
        Poll::Pending
    }

    /// Takes them.
    pub(super) fn take(&self) -> Vec<Weak<Group>> {
        std::mem::take(&mut self.state().groups)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}
