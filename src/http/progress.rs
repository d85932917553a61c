//! Answers over HTTP/2 that are not read come to an end: their streams are reset. Knows no resource. ([`super::pulse`] has whole connections.)
//!
//! hyper does not look at a body while its client takes nothing, so no body can end itself. The task around it can: each HTTP/2 stream has one, which our
//! executor makes. What is answered inside of the task tells it how it goes on by a [`Progress`] that the task carries.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::rt::Executor;
use tokio::{sync::Notify, task_local, time::sleep};

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
}

impl Progress {
    /// Runs `work` until its end, or until an answer inside of it has not gone on for this long; whether it came to its end.
    pub(super) async fn watch<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let progress = Arc::new(Self::default());
        tokio::select! {
            biased;
            done = CURRENT.scope(progress.clone(), work) => Some(done),
            () = progress.stalls(limit) => None,
        }
    }

    async fn stalls(&self, limit: Duration) {
        loop {
            while !self.is_answering.load(Ordering::Acquire) {
                self.begun.notified().await;
            }
            let seen = self.steps.load(Ordering::Acquire);
            sleep(limit).await;
            if self.is_answering.load(Ordering::Acquire) && self.steps.load(Ordering::Acquire) == seen {
                return;
            }
        }
    }
}

/// An answer that is being sent; dropped with its body.
#[derive(Debug)]
pub(super) struct Answering(Arc<Progress>);

impl Answering {
    /// The answer of this task begins. Outside of [`Progress::watch`] nobody looks at it.
    pub(super) fn begin() -> Option<Self> {
        let progress = CURRENT.try_with(Arc::clone).ok()?;
        progress.steps.fetch_add(1, Ordering::AcqRel);
        progress.is_answering.store(true, Ordering::Release);
        progress.begun.notify_one();
        Some(Self(progress))
    }

    /// A frame was taken.
    pub(super) fn went_on(&self) {
        self.0.steps.fetch_add(1, Ordering::AcqRel);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.is_answering.store(false, Ordering::Release);
    }
}

/// Runs each HTTP/2 stream as a task, which ends when its answer does not go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    /// How long an answer may stand still.
    pub(super) limit: Duration,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let limit = self.limit;
        // A stream that is dropped before its end is reset.
        tokio::spawn(async move { Progress::watch(limit, stream).await });
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::{Instant, timeout};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_stands_still_ends() {
        let began = Instant::now();
        let work = async {
            sleep(Duration::from_secs(500)).await;
            let answer = Answering::begin().expect("in a task that is watched");
            for _ in 0..10 {
                sleep(Duration::from_secs(50)).await;
                answer.went_on();
            }
            pending::<()>().await;
        };
        assert_eq!(Progress::watch(LIMIT, work).await, None);
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(1_060) && took <= Duration::from_secs(1_120), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_not_begun_or_is_over_may_take_its_time() {
        let work = async {
            drop(Answering::begin());
            sleep(Duration::from_secs(1_000)).await;
            // The next answer of the connection.
            let answer = Answering::begin();
            sleep(Duration::from_secs(59)).await;
            drop(answer);
            pending::<()>().await;
        };
        assert!(timeout(Duration::from_secs(5_000), Progress::watch(LIMIT, work)).await.is_err());
    }
}
