//! Asks etcd for its latest revision: a single-flight in which reads that arrive while a query is under way share the next one.
//!
//! A burst of fifty thousand watches asked fifty thousand times, and the answers were so many small frames at once that our HTTP/2 took etcd for an
//! attacker and broke off the connection. An answer is fresh for everybody who asked before its question was sent.

use std::{sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::timeout};

use etcd::{Etcd, EtcdError};
use model::Revision;

/// A query that is not answered for so long does not hold up the next one: its connection may be dead.
const NEXT_AFTER: Duration = Duration::from_millis(50);

pub(super) type Latest = Result<Revision, EtcdError>;

/// See the module.
pub(super) struct LatestRevision {
    query: Box<dyn Fn() -> BoxFuture<'static, Latest> + Send + Sync>,
    /// Held while a query is under way.
    in_flight: Semaphore,
    /// The next query, for those who wait for it.
    next: Mutex<Option<Shared<BoxFuture<'static, Latest>>>>,
}

impl LatestRevision {
    /// Asks this etcd, by a range without keys under this prefix.
    pub(super) fn of(etcd: Etcd, prefix: Arc<str>) -> Arc<Self> {
        Self::with(move || {
            let (etcd, prefix) = (etcd.clone(), prefix.clone());
            async move { etcd.current(prefix.as_bytes()).await.map(|header| header.revision) }
        })
    }

    pub(super) fn with<F: Future<Output = Latest> + Send + 'static>(query: impl Fn() -> F + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { query: Box::new(move || Box::pin(query())), in_flight: Semaphore::new(1), next: Mutex::default() })
    }

    /// Returns a revision that etcd had at this moment or later, by a linearizable read. Cancelling one call does not disturb the others.
    pub(super) async fn get(self: &Arc<Self>) -> Latest {
        let next = self.next.lock().get_or_insert_with(|| self.begin_next()).clone();
        next.await
    }

    /// Begins a query in a task of its own: whoever began it may leave, and others wait for it.
    fn begin_next(self: &Arc<Self>) -> Shared<BoxFuture<'static, Latest>> {
        let task = tokio::spawn(self.clone().run_next());
        let stopping = |_| Err(EtcdError::Unavailable("the server is stopping".to_owned()));
        task.map(move |latest| latest.unwrap_or_else(stopping)).boxed().shared()
    }

    /// Queries for all who have joined until the query before is done.
    async fn run_next(self: Arc<Self>) -> Latest {
        let _in_flight = timeout(NEXT_AFTER, self.in_flight.acquire()).await;
        *self.next.lock() = None;
        (self.query)().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures_util::future::{join_all, pending};
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn questions_are_few_and_answers_fresh() {
        let (revision, asked) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
        let newest = LatestRevision::with({
            let (revision, asked) = (revision.clone(), asked.clone());
            move || {
                asked.fetch_add(1, Ordering::Relaxed);
                let now = Revision(revision.load(Ordering::Relaxed));
                async move {
                    sleep(Duration::from_millis(2)).await;
                    Ok(now)
                }
            }
        });
        let reads = (0..5_000).map(|at| {
            let (newest, revision) = (newest.clone(), revision.clone());
            async move {
                sleep(Duration::from_micros(at * 10)).await;
                let before = revision.fetch_add(1, Ordering::Relaxed);
                assert!(newest.get().await.expect("an answer").0 > before, "older than its question");
            }
        });
        join_all(reads).await;
        let asked = asked.load(Ordering::Relaxed);
        assert!((10..100).contains(&asked), "{asked} questions in 50 ms");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_connection_holds_up_nobody_for_long() {
        let asked = AtomicU64::new(0);
        let newest = LatestRevision::with(move || {
            let first = asked.fetch_add(1, Ordering::Relaxed) == 0;
            async move { if first { pending().await } else { Ok(Revision(7)) } }
        });
        assert!(timeout(Duration::from_secs(1), newest.get()).await.is_err());
        let began = Instant::now();
        assert_eq!(newest.get().await, Ok(Revision(7)));
        assert!(began.elapsed() <= NEXT_AFTER + Duration::from_millis(1), "{:?}", began.elapsed());
    }
}
