//! Turns at work of which only so much is done at a time. Each asker has a queue of its own, and turns go round among the queues: who asks for much waits
//! behind what it has asked for itself, and nobody else does.
//!
//! The asker is that of the task ([`asked_by`]), so what waits deep inside of a request need not be told whose it is. What is not waited for is given in
//! [`Shares`].

mod shares;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

pub use shares::{Leaves, Share, Shares};

tokio::task_local! {
    static ASKER: Arc<str>;
}

/// Runs work on behalf of this asker.
pub fn asked_by<F: Future>(asker: Arc<str>, work: F) -> impl Future<Output = F::Output> {
    ASKER.scope(asker, work)
}

/// The asker of this task; the empty name is the server itself.
#[must_use]
pub fn asker() -> Arc<str> {
    ASKER.try_with(Arc::clone).unwrap_or_else(|_| "".into())
}

/// So many turns at a time.
pub struct Turns(Arc<Mutex<State>>);

/// A turn; it is over when this is dropped.
pub struct Turn(Arc<Mutex<State>>);

struct State {
    free: usize,
    /// Those who wait, by asker, each in the order in which they came. An asker without any is not here.
    queues: HashMap<Arc<str>, VecDeque<Waiter>>,
    /// The askers with a queue, in the order in which they come next.
    round: VecDeque<Arc<str>>,
    /// The number of the next who waits.
    next: u64,
}

struct Waiter {
    number: u64,
    begin: oneshot::Sender<Turn>,
}

impl Turns {
    /// So many at a time, at least one.
    #[must_use]
    pub fn new(at_once: usize) -> Self {
        let (queues, round) = Default::default();
        Self(Arc::new(Mutex::new(State { free: at_once.max(1), queues, round, next: 0 })))
    }

    /// Waits for a turn. Who gives up waiting leaves its queue at once. The caller bounds the time, and how many wait.
    pub async fn take(&self) -> Turn {
        let asker = asker();
        let (turn, _place) = {
            let mut state = locked(&self.0);
            // Nobody waits while a turn is free.
            if state.free > 0 {
                state.free -= 1;
                return Turn(self.0.clone());
            }
            let number = state.next;
            state.next += 1;
            let (begin, turn) = oneshot::channel();
            state.push(&asker, Waiter { number, begin });
            (turn, Place { state: &self.0, asker: &asker, number })
        };
        turn.await.expect("a turn is given to all who wait before the turns go")
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").field("free", &locked(&self.0).free).finish_non_exhaustive()
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turn")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // The lock is let go of first: a turn that nobody takes comes back here.
        let next = locked(&self.0).next_waiter();
        if let Some(waiter) = next {
            drop(waiter.begin.send(Turn(self.0.clone())));
        }
    }
}

impl State {
    fn push(&mut self, asker: &Arc<str>, waiter: Waiter) {
        let queue = self.queues.entry(asker.clone()).or_default();
        if queue.is_empty() {
            self.round.push_back(asker.clone());
        }
        queue.push_back(waiter);
    }

    /// Who comes next; when nobody waits, the turn is free.
    fn next_waiter(&mut self) -> Option<Waiter> {
        let Some(asker) = self.round.pop_front() else {
            self.free += 1;
            return None;
        };
        let queue = self.queues.get_mut(&asker)?;
        let waiter = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&asker);
        } else {
            self.round.push_back(asker);
        }
        waiter
    }

    fn leave(&mut self, asker: &str, number: u64) {
        let Some(queue) = self.queues.get_mut(asker) else { return };
        queue.retain(|waiter| waiter.number != number);
        if queue.is_empty() {
            self.queues.remove(asker);
            self.round.retain(|other| **other != *asker);
        }
    }
}

/// The place of one who waits; leaves the queue when it is dropped.
struct Place<'a> {
    state: &'a Mutex<State>,
    asker: &'a str,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        locked(self.state).leave(self.asker, self.number);
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock()
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, task::Poll};

    use super::*;

    /// Asks for a turn on behalf of somebody, and tells when it comes; the turn lasts until the task is told to end.
    fn ask(turns: &Arc<Turns>, asker: &str, told: &mpsc::Sender<String>) -> tokio::task::JoinHandle<()> {
        let (turns, name, told) = (turns.clone(), asker.to_owned(), told.clone());
        tokio::spawn(asked_by(asker.into(), async move {
            let _turn = turns.take().await;
            told.send(name).expect("somebody listens");
        }))
    }

    #[tokio::test]
    async fn turns_go_round() {
        let (turns, (told, heard)) = (Arc::new(Turns::new(1)), mpsc::channel());
        let first = turns.take().await;
        let mut tasks = Vec::new();
        for asker in ["greedy", "greedy", "greedy", "other", "greedy", "third", "other"] {
            tasks.push(ask(&turns, asker, &told));
            tokio::task::yield_now().await;
        }
        drop(first);
        for task in tasks {
            task.await.expect("no panic");
        }
        let order: Vec<String> = heard.try_iter().collect();
        assert_eq!(order, ["greedy", "other", "third", "greedy", "other", "greedy", "greedy"]);
        let state = locked(&turns.0);
        assert!(state.free == 1 && state.queues.is_empty() && state.round.is_empty());
    }

    #[tokio::test]
    async fn who_gives_up_leaves() {
        let turns = Turns::new(2);
        let (one, two) = (turns.take().await, turns.take().await);
        let mut waiting = Box::pin(turns.take());
        assert!(matches!(futures_poll(&mut waiting).await, Poll::Pending));
        assert_eq!(locked(&turns.0).queues.len(), 1);
        drop(waiting);
        assert!(locked(&turns.0).queues.is_empty() && locked(&turns.0).round.is_empty());
        // One to whom the turn was given, and who goes before it takes it, gives it back.
        let mut waiting = Box::pin(turns.take());
        assert!(matches!(futures_poll(&mut waiting).await, Poll::Pending));
        drop(one);
        drop(waiting);
        assert_eq!(locked(&turns.0).free, 1);
        drop(two);
        assert_eq!(locked(&turns.0).free, 2);
        assert_eq!(format!("{turns:?}"), "Turns { free: 2, .. }");
    }

    /// Polls once.
    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        std::future::poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx))).await
    }

    #[tokio::test]
    async fn the_server_itself_asks_under_no_name() {
        assert_eq!(&*asker(), "");
        assert_eq!(asked_by("a".into(), async { asker().to_string() }).await, "a");
    }
}
