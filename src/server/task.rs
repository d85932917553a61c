//! The task of a connection. Each time it runs is a turn: it polls those of its two parts that were woken, what is spoken on the connection and its chores,
//! which are whatever closes it.

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

use wake::Marks;

use super::streams::TURN_MAX;

/// How often a turn looks again at what has been woken meanwhile.
const ROUNDS_MAX: usize = 4;

/// Wakes one part.
#[derive(Debug)]
struct Bell {
    task: Arc<Marks<()>>,
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
        // One wake for all that a batch of events has for this connection.
        if !self.is_due.swap(true, Ordering::AcqRel) {
            self.task.mark(|()| ());
        }
    }
}

/// A part with its bell.
struct Part<'a, F> {
    work: Pin<&'a mut F>,
    bell: Arc<Bell>,
    waker: Waker,
}

impl<'a, F: Future> Part<'a, F> {
    fn new(work: Pin<&'a mut F>, task: &Arc<Marks<()>>) -> Self {
        let bell = Arc::new(Bell { task: task.clone(), is_due: AtomicBool::new(true) });
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
    task: Arc<Marks<()>>,
    connection: Part<'a, C>,
}

impl<'a, C: Future> ConnTask<'a, C> {
    pub(super) fn new(connection: Pin<&'a mut C>) -> Self {
        let task = Arc::default();
        Self { connection: Part::new(connection, &task), task }
    }

    /// What is spoken on the connection; it will be polled.
    pub(super) fn connection(&mut self) -> Pin<&mut C> {
        self.connection.bell.wake_by_ref();
        self.connection.work.as_mut()
    }

    /// Runs until the connection ends or the chores are done.
    pub(super) async fn run<W: Future>(&mut self, chores: Pin<&mut W>) -> Step<C::Output, W::Output> {
        let mut chores = Part::new(chores, &self.task);
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
        self.task.look(cx.waker(), |()| self.connection.bell.is_due() || chores.is_due())
    }
}
