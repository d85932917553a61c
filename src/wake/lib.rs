//! Wakes many at once: those that share a task first mark themselves, then the task is woken, once.

use std::{cell::RefCell, task::Waker};

thread_local! {
    /// Of the batch that this thread wakes: who waits until all are marked. `None` outside of a batch.
    static LATER: RefCell<Option<Vec<Waker>>> = const { RefCell::new(None) };
}

/// Members to wake once the snapshot is published. Waking is what dropping it does not do: call [`Wake::now`].
#[must_use = "members sleep until they are woken"]
#[derive(Default)]
pub struct Wake(pub Vec<Waker>);

impl Wake {
    /// Wakes them, and then those that [`later`] was told of meanwhile.
    pub fn now(self) {
        if self.0.is_empty() {
            return;
        }
        LATER.set(Some(Vec::new()));
        self.0.into_iter().for_each(Waker::wake);
        LATER.take().into_iter().flatten().for_each(Waker::wake);
    }
}

/// Wakes: at once, or when all of the batch are marked that is being woken on this thread.
pub fn later(waker: Waker) {
    let at_once = LATER.with_borrow_mut(|batch| match batch {
        Some(batch) => {
            batch.push(waker);
            None
        }
        None => Some(waker),
    });
    at_once.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake as Bell;

    use parking_lot::Mutex;

    use super::*;

    /// Writes down when it is woken.
    struct Told(&'static str, Arc<Mutex<Vec<&'static str>>>);

    impl Bell for Told {
        fn wake(self: Arc<Self>) {
            self.1.lock().push(self.0);
        }
    }

    /// One of a task: marks itself, then has the task woken.
    struct Member(Arc<Told>);

    impl Bell for Member {
        fn wake(self: Arc<Self>) {
            self.0.1.lock().push("marked");
            later(self.0.clone().into());
        }
    }

    #[test]
    fn who_shares_a_task_is_marked_before_it_runs() {
        let order = Arc::<Mutex<Vec<&str>>>::default();
        let task = Arc::new(Told("task", order.clone()));
        let member = || Waker::from(Arc::new(Member(task.clone())));
        Wake(vec![member(), Waker::from(Arc::new(Told("alone", order.clone()))), member()]).now();
        assert_eq!(*order.lock(), ["marked", "alone", "marked", "task", "task"]);
        order.lock().clear();
        member().wake();
        assert_eq!(*order.lock(), ["marked", "task"], "outside of a batch at once");
    }
}
