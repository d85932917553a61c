//! Answers over HTTP/2 that are not read come to an end. Knows no resource. ([`super::pulse`] has whole connections, of HTTP/1.1 too.)
//!
//! Of a stream nothing more is made; its reset comes behind what h2 has of it, a frame at most, so the connection takes no new streams from then on, and
//! closes, with all that it holds, when its others have ended.
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

use crate::telemetry::contained;

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
    /// Of a connection: one of its streams was given up.
    gave_up: Notify,
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

    /// Runs a connection, whose streams tell it when they are given up.
    pub(super) async fn of_connection<T>(work: impl Future<Output = T>) -> T {
        CURRENT.scope(Arc::default(), work).await
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
        let (limit, connection) = (self.limit, CURRENT.try_with(Arc::clone).ok());
        tokio::spawn(async move {
            // The panic of a stream ends it alone.
            if let (None, Some(connection)) = (Progress::watch(limit, contained(stream)).await, connection) {
                connection.gave_up.notify_one();
            }
        });
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
