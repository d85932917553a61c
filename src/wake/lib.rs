//! Wakes many at once: those that share a task first mark themselves, then the task is woken, once.

use std::{cell::RefCell, task::Waker};

use parking_lot::Mutex;

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

/// What is marked for a task, by whoever has something for it: the first mark wakes the task, the others find that it knows.
#[derive(Debug, Default)]
pub struct Marks<M>(Mutex<Marked<M>>);

#[derive(Debug, Default)]
struct Marked<M> {
    task: Option<Waker>,
    /// The task runs, or will look.
    is_told: bool,
    marks: M,
}

impl<M> Marks<M> {
    /// Marks something, and wakes the task if it does not know yet that there is something; [`later`], if a batch is being woken.
    pub fn mark(&self, mark: impl FnOnce(&mut M)) {
        let task = {
            let mut marked = self.0.lock();
            mark(&mut marked.marks);
            if std::mem::replace(&mut marked.is_told, true) { None } else { marked.task.clone() }
        };
        task.into_iter().for_each(later);
    }

    /// Looks at what is marked, for the task with this waker. Whoever marks from now on wakes it, unless `look` says that it will look again anyway.
    pub fn look(&self, task: &Waker, look: impl FnOnce(&mut M) -> bool) -> bool {
        let mut marked = self.0.lock();
        if !marked.task.as_ref().is_some_and(|known| known.will_wake(task)) {
            marked.task = Some(task.clone());
        }
        marked.is_told = look(&mut marked.marks);
        marked.is_told
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake as Bell;

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

    #[test]
    fn the_first_mark_wakes_until_somebody_has_looked() {
        let order = Arc::<Mutex<Vec<&str>>>::default();
        let task = Waker::from(Arc::new(Told("task", order.clone())));
        let marks = Marks::<Vec<u8>>::default();
        marks.mark(|marks| marks.push(1));
        let mut seen = Vec::new();
        assert!(!marks.look(&task, |marks| !std::mem::replace(&mut seen, std::mem::take(marks)).is_empty()));
        assert_eq!((seen, order.lock().len()), (vec![1], 0), "before there was a task");
        marks.mark(|marks| marks.push(2));
        marks.mark(|marks| marks.push(3));
        assert_eq!(*order.lock(), ["task"]);
        assert!(marks.look(&task, |marks| marks.len() == 2), "it will look again");
        marks.mark(|marks| marks.push(4));
        assert_eq!(*order.lock(), ["task"]);
        assert!(!marks.look(&task, |_| false));
        marks.mark(|_| ());
        assert_eq!(*order.lock(), ["task", "task"]);
    }
}
