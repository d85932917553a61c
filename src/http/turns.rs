//! The task of a connection. Each time it runs is a turn: it polls those of its parts that were woken, and no others, and then writes what they brought, once.
//!
//! Its parts are hyper's connection, the watches that came on it over HTTP/2, and its chores: whatever closes it. Knows no request and no event.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use tokio::io::AsyncWrite;
use watch::dispatch::later;

use super::gather::Gather;

/// How long a turn may take; others have theirs then.
const TURN_MAX: Duration = Duration::from_millis(1);

/// Watches that are polled between two looks at the clock.
const WATCHES_BETWEEN: usize = 8;

/// How often a turn looks again at what has been woken meanwhile: a watch has the connection write, and that may give another watch room to go on.
const ROUNDS_MAX: usize = 4;

/// A stream whose answer is a watch, on its way to the task of its connection or in it.
pub(super) type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Which parts of a connection are to be polled, and whether its task knows.
#[derive(Debug)]
pub(super) struct Woken(Mutex<State>);

struct State {
    task: Option<Waker>,
    /// Places of watches.
    watches: Vec<usize>,
    /// Streams that are to become watches of this task.
    moved: Vec<Stream>,
    /// The task runs, or will.
    is_running: bool,
    /// The connection has ended.
    is_over: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("watches", &self.watches).field("is_running", &self.is_running).finish_non_exhaustive()
    }
}

impl Default for Woken {
    fn default() -> Self {
        // The first turn needs no wake.
        Self(Mutex::new(State { task: None, watches: Vec::new(), moved: Vec::new(), is_running: true, is_over: false }))
    }
}

impl Woken {
    /// This stream goes on in the task of the connection, if there still is one.
    pub(super) fn adopt(&self, stream: Stream) {
        let mut stream = Some(stream);
        self.mark(|state| {
            if !state.is_over {
                state.moved.extend(stream.take());
            }
        });
    }

    fn mark(&self, mark: impl FnOnce(&mut State)) {
        let task = {
            let mut state = self.lock();
            mark(&mut state);
            if std::mem::replace(&mut state.is_running, true) { None } else { state.task.clone() }
        };
        task.into_iter().for_each(later);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes one part.
struct Bell {
    woken: Arc<Woken>,
    /// The place of a watch; `None`: the connection or the chores, which have no list.
    watch: Option<usize>,
    is_due: AtomicBool,
}

impl Bell {
    fn new(woken: &Arc<Woken>, watch: Option<usize>) -> Arc<Self> {
        Arc::new(Self { woken: woken.clone(), watch, is_due: AtomicBool::new(true) })
    }

    fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// Whether it is due; it is about to be polled.
    fn take(&self) -> bool {
        self.is_due.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_due.swap(true, Ordering::AcqRel) {
            self.woken.mark(|state| state.watches.extend(self.watch));
        }
    }
}

/// A part with its bell.
struct Part<F> {
    work: F,
    bell: Arc<Bell>,
    waker: Waker,
}

impl<F> Part<F> {
    fn new(work: F, woken: &Arc<Woken>, watch: Option<usize>) -> Self {
        let bell = Bell::new(woken, watch);
        Self { work, waker: bell.clone().into(), bell }
    }
}

impl<F: Future> Part<Pin<&mut F>> {
    /// Polls it if it is due.
    fn poll(&mut self) -> Poll<F::Output> {
        if self.bell.take() { self.work.as_mut().poll(&mut Context::from_waker(&self.waker)) } else { Poll::Pending }
    }
}

impl Part<Stream> {
    /// Polls it; whether it has ended. A panic is its end, and told by whom it is contained.
    fn poll(&mut self) -> bool {
        self.bell.take();
        let work = self.work.as_mut();
        catch_unwind(AssertUnwindSafe(|| work.poll(&mut Context::from_waker(&self.waker)).is_ready())).unwrap_or(true)
    }
}

/// What a turn has come to.
pub(super) enum Turned<T, C> {
    /// The connection has ended.
    Over(T),
    /// The chores are done.
    Chores(C),
}

/// The parts of a connection.
pub(super) struct Turns<'a, C, IO> {
    woken: Arc<Woken>,
    io: Gather<IO>,
    connection: Part<Pin<&'a mut C>>,
    watches: Vec<Option<Part<Stream>>>,
    /// Places that are free.
    free: Vec<usize>,
    /// Watches that are to be polled, in the order of their wakes.
    due: VecDeque<usize>,
    /// In this turn writes are put together.
    gathers: bool,
    /// The client has not taken all of an earlier turn.
    has_unwritten: bool,
}

impl<'a, C: Future, IO: AsyncWrite + Unpin> Turns<'a, C, IO> {
    /// A connection that has no watch yet; what it writes goes through `io`.
    pub(super) fn new(connection: Pin<&'a mut C>, woken: &Arc<Woken>, io: Gather<IO>) -> Self {
        let connection = Part::new(connection, woken, None);
        let (watches, free, due, gathers, has_unwritten) = (Vec::new(), Vec::new(), VecDeque::new(), false, false);
        Self { woken: woken.clone(), io, connection, watches, free, due, gathers, has_unwritten }
    }

    /// hyper's connection, which will be polled.
    pub(super) fn connection(&mut self) -> Pin<&mut C> {
        self.connection.bell.wake_by_ref();
        self.connection.work.as_mut()
    }

    /// Runs until the connection ends or the chores are done. Writes are put together while `gathers` says so.
    pub(super) async fn run<W: Future>(&mut self, chores: Pin<&mut W>, gathers: impl Fn() -> bool) -> Turned<C::Output, W::Output> {
        let mut chores = Part::new(chores, &self.woken, None);
        poll_fn(|cx| {
            let turned = self.turn(cx, &mut chores, &gathers);
            if std::mem::take(&mut self.gathers) || self.has_unwritten {
                let finished = self.io.finish(&mut Context::from_waker(&self.connection.waker));
                self.has_unwritten = finished.is_pending();
                if matches!(finished, Poll::Ready(Err(_))) {
                    // hyper's next write will tell it.
                    self.connection.bell.wake_by_ref();
                }
            }
            turned
        })
        .await
    }

    fn turn<W: Future>(
        &mut self,
        cx: &Context<'_>,
        chores: &mut Part<Pin<&mut W>>,
        gathers: &impl Fn() -> bool,
    ) -> Poll<Turned<C::Output, W::Output>> {
        let began = Instant::now();
        for _ in 0..ROUNDS_MAX {
            if !self.look(cx, &chores.bell) {
                return Poll::Pending;
            }
            // What one watch has is written as it is.
            if !self.gathers && self.due.len() != 1 && gathers() {
                self.gathers = true;
                self.io.begin();
            }
            for looked in 1.. {
                let Some(place) = self.due.pop_front() else { break };
                self.poll_watch(place);
                if looked % WATCHES_BETWEEN == 0 && began.elapsed() >= TURN_MAX {
                    break;
                }
            }
            if let Poll::Ready(output) = self.connection.poll() {
                return Poll::Ready(Turned::Over(output));
            }
            if let Poll::Ready(output) = chores.poll() {
                return Poll::Ready(Turned::Chores(output));
            }
            if began.elapsed() >= TURN_MAX {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes what was woken and what has moved here. `false`: nothing, and whoever is woken from now on wakes the task.
    fn look(&mut self, cx: &Context<'_>, chores: &Bell) -> bool {
        let moved = {
            let mut state = self.woken.lock();
            if !state.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
                state.task = Some(cx.waker().clone());
            }
            self.due.extend(state.watches.drain(..));
            state.is_running = !self.due.is_empty() || !state.moved.is_empty() || self.connection.bell.is_due() || chores.is_due();
            if !state.is_running {
                return false;
            }
            std::mem::take(&mut state.moved)
        };
        for stream in moved {
            let place = self.free.pop().unwrap_or_else(|| {
                self.watches.push(None);
                self.watches.len() - 1
            });
            self.watches[place] = Some(Part::new(stream, &self.woken, Some(place)));
            self.due.push_back(place);
        }
        true
    }

    fn poll_watch(&mut self, place: usize) {
        // Another one may have the place of one that was woken and has ended: that is polled for nothing.
        let Some(watch) = self.watches.get_mut(place).and_then(Option::as_mut) else { return };
        if watch.poll() {
            self.watches[place] = None;
            self.free.push(place);
            self.shrink();
        }
    }

    /// What a crowd that has left took goes back.
    fn shrink(&mut self) {
        if self.free.len() == self.watches.len() {
            (self.watches, self.free) = (Vec::new(), Vec::new());
        }
    }
}

impl<C, IO> Drop for Turns<'_, C, IO> {
    fn drop(&mut self) {
        let moved = {
            let mut state = self.woken.lock();
            state.is_over = true;
            state.task = None;
            std::mem::take(&mut state.moved)
        };
        drop(moved);
    }
}
