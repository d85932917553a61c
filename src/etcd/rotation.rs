//! Several endpoints of one cluster and which of them is asked next. The client balances nothing: one is current until it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use tonic::Status;

use super::EtcdError;
use super::endpoint::{Connected, Endpoint};
use fair::Turns;

/// Longest life of one unary call over all endpoints: a request's own limit (spec list-watch §2.14). Above keepalive's 10 s, so that a
/// silent endpoint is found out and another one still asked.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Unary calls under way; others wait, within their time. Many small answers at once make h2 break off the connection (`too_many_data_frames`: some
/// 12,000 of 60 bytes that nobody has read yet).
const CALLS_AT_ONCE: usize = 1_024;

/// See the file's header.
pub(super) struct Rotation {
    endpoints: Vec<Arc<Endpoint>>,
    current: AtomicUsize,
    turns: Turns,
}

impl Rotation {
    /// Of at least one endpoint.
    pub(super) fn new(endpoints: Vec<Endpoint>) -> Self {
        assert!(!endpoints.is_empty(), "a checked configuration has an endpoint");
        Self { endpoints: endpoints.into_iter().map(Arc::new).collect(), current: AtomicUsize::new(0), turns: Turns::new(CALLS_AT_ONCE) }
    }

    /// Of no endpoint: every call fails.
    pub(super) fn none() -> Self {
        Self { endpoints: Vec::new(), current: AtomicUsize::new(0), turns: Turns::new(CALLS_AT_ONCE) }
    }

    /// A unary call on the current endpoint, then, while they are to blame, on the others once each.
    pub(super) async fn call<T, F>(&self, run: impl Fn(Connected) -> F) -> Result<T, EtcdError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        self.bounded(run, EtcdError::blames_endpoint).await
    }

    /// A call that must not happen twice: another endpoint is asked only after an error that proves that nothing was sent.
    pub(super) async fn call_once<T, F>(&self, run: impl Fn(Connected) -> F) -> Result<T, EtcdError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        self.bounded(run, EtcdError::was_not_sent).await
    }

    async fn bounded<T, F>(&self, run: impl Fn(Connected) -> F, goes_on: fn(&EtcdError) -> bool) -> Result<T, EtcdError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let asked = self.current.load(Ordering::Relaxed);
        let turn = async {
            let _turn = self.turns.take().await;
            self.try_while(run, goes_on).await
        };
        match timeout(REQUEST_TIMEOUT, turn).await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.leave(asked);
                Err(EtcdError::Deadline)
            }
        }
    }

    /// The endpoints in turn, as long as `goes_on` says that the next one may be asked after an error that blames the one before.
    async fn try_while<T, F>(&self, run: impl Fn(Connected) -> F, goes_on: fn(&EtcdError) -> bool) -> Result<T, EtcdError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut first_error = None;
        for index in self.order() {
            match self.endpoints[index].call(&run).await {
                Err(error) if error.blames_endpoint() => {
                    tracing::debug!(endpoint = self.endpoints[index].url, %error, "etcd endpoint failed");
                    self.leave(index);
                    if !goes_on(&error) {
                        return Err(error);
                    }
                    first_error.get_or_insert(error);
                }
                outcome => {
                    self.current.store(index, Ordering::Relaxed);
                    return outcome;
                }
            }
        }
        // Without an error there is no endpoint.
        Err(first_error.unwrap_or_else(|| EtcdError::Unavailable("there is no etcd".to_owned())))
    }

    /// The endpoint a stream should open on, and its place.
    ///
    /// # Errors
    /// There is no endpoint.
    pub(super) fn best(&self) -> Result<(usize, Arc<Endpoint>), EtcdError> {
        let index = *self.order().first().ok_or_else(|| EtcdError::Unavailable("there is no etcd".to_owned()))?;
        Ok((index, self.endpoints[index].clone()))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.endpoints.iter()
    }

    /// Makes the one after the current one current.
    pub(super) fn rotate(&self) {
        self.leave(self.current.load(Ordering::Relaxed));
    }

    /// Like `rotate`, unless somebody has left `index` already.
    pub(super) fn leave(&self, index: usize) {
        let next = (index + 1) % self.endpoints.len().max(1);
        let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// From the current one on; those that wait after a failure come last, the shortest wait first.
    fn order(&self) -> Vec<usize> {
        let (count, current) = (self.endpoints.len(), self.current.load(Ordering::Relaxed));
        let mut order: Vec<usize> = (0..count).map(|offset| (current + offset) % count).collect();
        order.sort_by_cached_key(|&index| self.endpoints[index].retry_at().filter(|_| self.endpoints[index].is_waiting()));
        order
    }
}

#[cfg(test)]
mod tests {

    use parking_lot::Mutex;

    use super::*;
    use crate::config::EtcdConfig;

    fn three() -> Rotation {
        let endpoints = ["http://a:1", "http://b:1", "http://c:1"].map(str::to_owned).to_vec();
        let addresses = EtcdConfig { endpoints, ..EtcdConfig::default() }.check().expect("valid");
        Rotation::new(addresses.into_iter().map(Endpoint::new).collect())
    }

    fn down() -> EtcdError {
        EtcdError::Unavailable("down".into())
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_endpoints_come_last_and_the_shortest_wait_first() {
        let rotation = three();
        assert_eq!(rotation.order(), [0, 1, 2]);
        rotation.rotate();
        assert_eq!(rotation.order(), [1, 2, 0]);
        for _ in 0..9 {
            rotation.endpoints[1].failed(&down());
        }
        assert_eq!(rotation.order(), [2, 0, 1]);
        rotation.endpoints[2].failed(&down());
        rotation.endpoints[0].failed(&down());
        assert_eq!(rotation.order()[2], 1, "nine failures wait longer than one");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(rotation.order(), [1, 2, 0], "all waits are over");
    }

    #[tokio::test(start_paused = true)]
    async fn leaving_twice_moves_once() {
        let rotation = three();
        rotation.leave(0);
        rotation.leave(0);
        assert_eq!(rotation.order(), [1, 2, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn every_endpoint_is_tried_once_and_the_one_that_answers_stays() {
        let rotation = three();
        let tries = Mutex::new(0);
        let fail_first = |good: u32| {
            let tries = &tries;
            move |_: Connected| async move {
                let mut tries = tries.lock();
                *tries += 1;
                if *tries == good { Ok(*tries) } else { Err(Status::unavailable("Connection refused")) }
            }
        };
        assert_eq!(rotation.call(fail_first(3)).await, Ok(3));
        assert_eq!(rotation.current.load(Ordering::Relaxed), 2);
        *tries.lock() = 0;
        assert!(matches!(rotation.call(fail_first(99)).await, Err(EtcdError::Unavailable(_))));
        assert_eq!(*tries.lock(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_never_ends_ends_at_the_deadline_and_the_next_goes_elsewhere() {
        let rotation = three();
        let outcome = rotation.call(|_| std::future::pending::<Result<(), Status>>()).await;
        assert_eq!(outcome, Err(EtcdError::Deadline));
        assert_eq!(rotation.order(), [1, 2, 0]);
    }
}
