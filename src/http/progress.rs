//! Ends HTTP/2 answers that the client does not read. Knows no resource. ([`super::pulse`] ends whole connections, also of HTTP/1.1.)
//!
//! Of a stream nothing more is made; its reset comes behind what h2 has of it, a frame at most, so the connection takes no new streams from then on, and
//! closes, with all that it holds, when its others have ended.
//!
//! hyper does not look at a body while its client takes nothing, so no body can end itself. The task around it can: each HTTP/2 stream has one, which our
//! executor makes. What is answered inside of the task tells it how it goes on by a [`Progress`] that the task carries.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

use hyper::rt::Executor;
use tokio::{
    sync::Notify,
    task_local,
    time::{Instant, sleep, timeout_at},
};

use super::turns::{Stream, Woken};
use crate::telemetry::contained;

/// An answer ends after so many times the limit, however it goes on: what it is made of may be long gone from the cache. (kube-apiserver ends every one after
/// one time.)
pub(super) const LIMITS_MAX: u32 = 10;

task_local! {
    static CURRENT: Arc<Progress>;
}

/// How far the answer of a task is sent.
#[derive(Debug, Default)]
pub(super) struct Progress {
    is_answering: AtomicBool,
    /// Counts beginnings and frames.
    steps: AtomicU64,
    begun: Notify,
    times: Times,
    /// Of a connection: one of its streams was given up.
    gave_up: Notify,
    /// Of a connection: its task, which its watches move to.
    woken: Option<Arc<Woken>>,
}

/// When the answer under way began, and when it is over if it is a watch.
#[derive(Debug, Default)]
pub(super) struct Times(Mutex<(Option<Instant>, Option<Instant>)>);

impl Times {
    /// An answer begins now; a watch is over at `until`.
    pub(super) fn begin(&self, until: Option<Instant>) {
        *self.lock() = (Some(Instant::now()), until);
    }

    /// When the watch is over.
    pub(super) fn until(&self) -> Option<Instant> {
        self.lock().1
    }

    /// The watch has ended.
    pub(super) fn end(&self) {
        self.lock().1 = None;
    }

    /// Whether the answer takes longer than any may.
    pub(super) fn is_late(&self, limit: Duration) -> bool {
        self.lock().0.is_some_and(|since| since.elapsed() >= limit * LIMITS_MAX)
    }

    fn lock(&self) -> MutexGuard<'_, (Option<Instant>, Option<Instant>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    /// Runs `work` until its end, or until an answer inside of it has not gone on for this long; whether it came to its end.
    async fn watch<T>(self: Arc<Self>, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, mut stalls) = (pin!(CURRENT.scope(self.clone(), work)), pin!(self.stalls(limit)));
        // Whom the end of a wait in `stalls` wakes.
        let mut told: Option<Waker> = None;
        poll_fn(|cx| {
            let steps = self.steps.load(Ordering::Relaxed);
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            let is_told = told.as_ref().is_some_and(|told| told.will_wake(cx.waker()));
            if is_told && self.is_resting() && self.steps.load(Ordering::Relaxed) != steps {
                // Woken for an event: nothing else is asked for each.
                return Poll::Pending;
            }
            if !is_told {
                told = Some(cx.waker().clone());
            }
            stalls.as_mut().poll(cx).map(|()| None)
        })
        .await
    }

    /// Runs a connection, whose streams tell it when they are given up, and move to its task when they are watches.
    pub(super) fn of_connection<F: Future>(woken: &Arc<Woken>, work: F) -> impl Future<Output = F::Output> + use<F> {
        let progress = Self { woken: Some(woken.clone()), ..Self::default() };
        CURRENT.scope(Arc::new(progress), work)
    }

    /// Whether the answer is a watch that has shown what was there.
    fn is_resting(&self) -> bool {
        !self.is_answering.load(Ordering::Acquire) && self.times.until().is_some()
    }

    /// Waits until one of the streams of this task, which is a connection, is given up.
    pub(super) async fn given_up() {
        match CURRENT.try_with(Arc::clone) {
            Ok(progress) => progress.gave_up.notified().await,
            Err(_) => std::future::pending().await,
        }
    }

    async fn stalls(&self, limit: Duration) {
        loop {
            while !self.is_answering.load(Ordering::Acquire) {
                // A watch that may stand still, until its time is over: nobody polls it then, so it cannot end itself.
                match self.times.until() {
                    Some(until) => match timeout_at(until + limit, self.begun.notified()).await {
                        Ok(()) => {}
                        Err(_) => return,
                    },
                    None => self.begun.notified().await,
                }
            }
            let seen = self.steps.load(Ordering::Acquire);
            sleep(limit).await;
            let stands_still = || self.steps.load(Ordering::Acquire) == seen;
            if self.is_answering.load(Ordering::Acquire) && (stands_still() || self.times.is_late(limit)) {
                return;
            }
        }
    }
}

/// An answer that is being sent; dropped with its body.
#[derive(Debug)]
pub(super) struct Answering(Arc<Progress>);

impl Answering {
    /// The answer of this task begins; a watch is over at `until`. Outside of [`Progress::watch`] nobody looks at it.
    pub(super) fn begin(until: Option<Instant>) -> Option<Self> {
        let progress = CURRENT.try_with(Arc::clone).ok()?;
        progress.times.begin(until);
        progress.steps.fetch_add(1, Ordering::AcqRel);
        progress.is_answering.store(true, Ordering::Release);
        progress.begun.notify_one();
        Some(Self(progress))
    }

    /// It is a watch that has shown what was there: it may stand still.
    pub(super) fn rest(&self) {
        self.0.is_answering.store(false, Ordering::Release);
    }

    /// A frame was taken.
    pub(super) fn went_on(&self) {
        self.0.steps.fetch_add(1, Ordering::AcqRel);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.rest();
    }
}

/// Runs each HTTP/2 stream as a task, which ends when its answer does not go on. A watch that has shown what was there moves to the task of its connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    /// How long an answer may stand still.
    pub(super) limit: Duration,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let (limit, connection) = (self.limit, CURRENT.try_with(Arc::clone).ok());
        let progress = Arc::new(Progress::default());
        let (watched, of) = (progress.clone().watch(limit, contained(stream)), connection.clone());
        let mut stream: Option<Stream> = Some(Box::pin(async move {
            // The panic of a stream ends it alone.
            if let (None, Some(connection)) = (watched.await, of) {
                connection.gave_up.notify_one();
            }
        }));
        tokio::spawn(poll_fn(move |cx| {
            if stream.as_mut().is_none_or(|stream| stream.as_mut().poll(cx).is_ready()) {
                return Poll::Ready(());
            }
            match connection.as_ref().and_then(|connection| connection.woken.as_ref()).filter(|_| progress.is_resting()) {
                Some(woken) => {
                    stream.take().into_iter().for_each(|stream| woken.adopt(stream));
                    Poll::Ready(())
                }
                None => Poll::Pending,
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_stands_still_ends() {
        let began = Instant::now();
        let work = async {
            sleep(Duration::from_secs(500)).await;
            let answer = Answering::begin(None).expect("in a task that is watched");
            for _ in 0..10 {
                sleep(Duration::from_secs(50)).await;
                answer.went_on();
            }
            pending::<()>().await;
        };
        assert_eq!(Arc::<Progress>::default().watch(LIMIT, work).await, None);
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(1_060) && took <= Duration::from_secs(1_120), "{took:?}");
    }

    /// Sixteen KiB a minute kept a list of a gigabyte for two months.
    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_however_it_goes_on() {
        let began = Instant::now();
        let work = async {
            let answer = Answering::begin(None).expect("in a task that is watched");
            for _ in 0..1_000 {
                sleep(Duration::from_secs(10)).await;
                answer.went_on();
            }
        };
        assert_eq!(Arc::<Progress>::default().watch(LIMIT, work).await, None);
        assert_eq!(began.elapsed(), LIMIT * LIMITS_MAX);
    }

    /// hyper does not poll the body of a watch that nobody reads, so its own alarm never rang.
    #[tokio::test(start_paused = true)]
    async fn a_watch_may_stand_still_until_its_time_is_over() {
        let began = Instant::now();
        let work = async {
            drop(Answering::begin(Some(began + Duration::from_secs(3_000))));
            pending::<()>().await;
        };
        assert_eq!(Arc::<Progress>::default().watch(LIMIT, work).await, None);
        assert_eq!(began.elapsed(), Duration::from_secs(3_000) + LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_not_begun_or_is_over_may_take_its_time() {
        let work = async {
            drop(Answering::begin(None));
            sleep(Duration::from_secs(1_000)).await;
            // The next answer of the connection.
            let answer = Answering::begin(None);
            sleep(Duration::from_secs(59)).await;
            drop(answer);
            pending::<()>().await;
        };
        assert!(timeout(Duration::from_secs(5_000), Arc::<Progress>::default().watch(LIMIT, work)).await.is_err());
    }
}
