//! The task of a connection. Each time it runs is a turn: it polls those of its two parts that were woken, what is spoken on the connection and its chores, which
//! are whatever closes it.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Instant,
};

use parking_lot::Mutex;

use wake::later;

use super::streams::TURN_MAX;

/// How often a turn looks again at what has been woken meanwhile.
const ROUNDS_MAX: usize = 4;

/// Whether a connection's task knows that a part of it is to be polled.
#[derive(Debug)]
struct Woken(Mutex<State>);

#[derive(Debug)]
struct State {
    task: Option<Waker>,
    /// The task runs, or will.
    is_running: bool,
}

/// Wakes one part.
#[derive(Debug)]
struct Bell {
    woken: Arc<Woken>,
    is_due: AtomicBool,
}

impl Bell {
    fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_due.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let mut state = self.woken.0.lock();
            if std::mem::replace(&mut state.is_running, true) { None } else { state.task.clone() }
        };
        // One wake for all that a batch of events has for this connection.
        task.into_iter().for_each(later);
    }
}

/// A part with its bell.
struct Part<'a, F> {
    work: Pin<&'a mut F>,
    bell: Arc<Bell>,
    waker: Waker,
}

impl<'a, F: Future> Part<'a, F> {
    fn new(work: Pin<&'a mut F>, woken: &Arc<Woken>) -> Self {
        let bell = Arc::new(Bell { woken: woken.clone(), is_due: AtomicBool::new(true) });
        Self { work, waker: bell.clone().into(), bell }
    }

    /// Polls it if it is due.
    fn poll(&mut self) -> Poll<F::Output> {
        let is_due = self.bell.is_due.swap(false, Ordering::AcqRel);
        if is_due { self.work.as_mut().poll(&mut Context::from_waker(&self.waker)) } else { Poll::Pending }
    }
}

/// What a turn has come to.
pub(super) enum Step<T, C> {
    /// The connection has ended.
    Over(T),
    /// The chores are done.
    Chores(C),
}

/// A connection, and whether it is to be polled.
pub(super) struct ConnTask<'a, C> {
    woken: Arc<Woken>,
    connection: Part<'a, C>,
}

impl<'a, C: Future> ConnTask<'a, C> {
    pub(super) fn new(connection: Pin<&'a mut C>) -> Self {
        // The first turn needs no wake.
        let woken = Arc::new(Woken(Mutex::new(State { task: None, is_running: true })));
        Self { connection: Part::new(connection, &woken), woken }
    }

    /// What is spoken on the connection; it will be polled.
    pub(super) fn connection(&mut self) -> Pin<&mut C> {
        self.connection.bell.wake_by_ref();
        self.connection.work.as_mut()
    }

    /// Runs until the connection ends or the chores are done.
    pub(super) async fn run<W: Future>(&mut self, chores: Pin<&mut W>) -> Step<C::Output, W::Output> {
        let mut chores = Part::new(chores, &self.woken);
        poll_fn(|cx| self.turn(cx, &mut chores)).await
    }

    fn turn<W: Future>(&mut self, cx: &Context<'_>, chores: &mut Part<'_, W>) -> Poll<Step<C::Output, W::Output>> {
        let began = Instant::now();
        for _ in 0..ROUNDS_MAX {
            if !self.look(cx, &chores.bell) {
                return Poll::Pending;
            }
            if let Poll::Ready(output) = self.connection.poll() {
                return Poll::Ready(Step::Over(output));
            }
            if let Poll::Ready(output) = chores.poll() {
                return Poll::Ready(Step::Chores(output));
            }
            if began.elapsed() >= TURN_MAX {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether a part is due. If not, whoever is woken from now on wakes the task.
    fn look(&self, cx: &Context<'_>, chores: &Bell) -> bool {
        let mut state = self.woken.0.lock();
        if !state.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            state.task = Some(cx.waker().clone());
        }
        state.is_running = self.connection.bell.is_due() || chores.is_due();
        state.is_running
    }
}
