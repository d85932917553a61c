//! One etcd endpoint: a lazy client, and a memory of its failures so that a dead one is asked seldom and by one caller at a time.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use parking_lot::{Mutex, MutexGuard};
use proto::Channel;
use proto::kv_client::KvClient;
use proto::lease_client::LeaseClient;
use proto::maintenance_client::MaintenanceClient;
use proto::watch_client::WatchClient;
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Status};

use super::config::Address;
use super::session::Session;
use super::{EtcdError, PAGE_BYTES};
use retry::Backoff;

/// Waits before a failed endpoint is tried again. The longest is short, because requests wait for it when every endpoint is down and one connection attempt is
/// cheap.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(2), BACKOFF_JITTER);
/// A wait is shortened by up to a half, so that many servers do not return in step.
pub(super) const BACKOFF_JITTER: f64 = -0.5;
/// Largest message of a watch, in bytes: what etcd's Go client accepts (spec list-watch §6.1). gRPC's own default of 4 MiB is less than one page of 10,000
/// keys.
const ANSWER_BYTES_LIMIT: usize = i32::MAX as usize;
/// Largest answer to a read or a write, in bytes: that of a page whose values turn out to be four times as large as those before. A larger page is refused
/// before any of it is read, and asked for again in smaller ones.
const READ_BYTES_LIMIT: usize = 4 * PAGE_BYTES;
/// What hyper, h2, rustls and Linux say of a connection that the peer closed, in small letters.
const CLOSED: [&str; 4] = ["connection closed", "closed connection", "connection reset", "broken pipe"];
/// What that means most likely when it comes before the first answer.
const CLOSED_HINT: &str = "closed by etcd after the TLS handshake: it may want a client certificate, --etcd-certfile, or not trust ours";
/// The header by which a call asks for a leader (etcd's `rpctypes.MetadataRequireLeaderKey`).
const REQUIRE_LEADER: &str = "hasleader";
/// What the logs call an endpoint without an address.
const IN_PROCESS: &str = "in-process";

/// The way to one endpoint; cheap to clone.
#[derive(Clone)]
pub(super) struct Connected {
    channel: Channel,
    /// When we come with user and password.
    session: Option<Arc<Session>>,
}

impl Connected {
    pub(super) fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone()).max_decoding_message_size(READ_BYTES_LIMIT)
    }

    pub(super) fn watch(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_LIMIT)
    }

    pub(super) fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    pub(super) fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel.clone())
    }

    /// A fresh token, for what etcd does not check at the call itself: it refuses the watches of a stream with an expired token one by
    /// one, inside the stream. Nothing without a user.
    pub(super) async fn refresh_token(&self) -> Result<(), EtcdError> {
        match &self.session {
            Some(session) => session.log_in().await.map_err(|e| EtcdError::from_status(&e)),
            None => Ok(()),
        }
    }

    /// Runs a call, and once more with a new token when etcd does not take the one we have.
    pub(super) async fn run<T, F: Future<Output = Result<T, Status>>>(self, call: impl Fn(Self) -> F) -> Result<T, Status> {
        let Some(session) = self.session.clone() else { return call(self).await };
        let token = session.token();
        match call(self.clone()).await {
            Err(status) if status.code() == Code::Unauthenticated => {
                session.replace(&token).await?;
                call(self).await
            }
            outcome => outcome,
        }
    }
}

/// See the file's header. The client belongs to the tokio runtime that first used it.
pub(super) struct Endpoint {
    pub(super) url: String,
    user: Option<(String, String)>,
    way: Way,
    connected: tokio::sync::OnceCell<Connected>,
    health: Mutex<Health>,
    /// Held by the one caller that tries a failed endpoint again.
    trial: tokio::sync::Mutex<()>,
}

/// How an endpoint is reached.
enum Way {
    /// Over the network.
    Address(Box<tonic::transport::Endpoint>),
    /// A server in this process.
    InProcess(Channel),
}

/// Failures in a row, since the last answer.
#[derive(Default)]
struct Health {
    failures: u32,
    last: Option<Failure>,
    /// It has answered at least once.
    answered: bool,
}

struct Failure {
    error: EtcdError,
    at: Instant,
    retry_at: Instant,
}

impl Endpoint {
    pub(super) fn new(address: Address) -> Self {
        Self::reached_by(Way::Address(Box::new(address.endpoint)), address.url, address.user)
    }

    /// A server in this process.
    pub(super) fn in_process(channel: Channel) -> Self {
        Self::reached_by(Way::InProcess(channel), IN_PROCESS.to_owned(), None)
    }

    fn reached_by(way: Way, url: String, user: Option<(String, String)>) -> Self {
        Self { url, user, way, connected: tokio::sync::OnceCell::new(), health: Mutex::default(), trial: tokio::sync::Mutex::default() }
    }

    /// One call, whose outcome is remembered. A failed endpoint is tried by one caller, after its wait; whoever waited for that
    /// caller gets the same error instead of an attempt of its own.
    pub(super) async fn call<T, F: Future<Output = Result<T, Status>>>(&self, run: impl Fn(Connected) -> F) -> Result<T, EtcdError> {
        let asked = Instant::now();
        let mut trial = None;
        if self.retry_at().is_some() {
            trial = Some(self.trial.lock().await);
            if let Some(error) = self.failure_since(asked) {
                return Err(error);
            }
        }
        match self.retry_at() {
            Some(at) => sleep_until(at).await,
            None => drop(trial.take()),
        }
        let outcome = match self.connect().await {
            Ok(connected) => connected.run(run).await.map_err(|e| EtcdError::from_status(&e)),
            Err(error) => Err(error),
        };
        let outcome = outcome.map_err(|error| self.explained(error));
        self.learn(outcome.as_ref().err());
        outcome
    }

    /// In TLS 1.3 a server judges our certificate when the handshake is over on our side; its alert is often lost with the connection that it closes.
    fn explained(&self, error: EtcdError) -> EtcdError {
        let is_closed = |text: &str| CLOSED.iter().any(|closed| text.to_lowercase().contains(closed));
        match error {
            EtcdError::Unavailable(text) if self.url.starts_with("https://") && !self.health().answered && is_closed(&text) => {
                EtcdError::Unavailable(format!("{text} ({CLOSED_HINT})"))
            }
            error => error,
        }
    }

    /// The way to the endpoint. Without a user this needs no etcd; with one, etcd is asked for a token the first time.
    pub(super) async fn connect(&self) -> Result<Connected, EtcdError> {
        let connect = || async {
            let channel = match &self.way {
                Way::Address(endpoint) => over_network(endpoint),
                Way::InProcess(channel) => channel.clone(),
            };
            let Some((name, password)) = &self.user else { return Ok(Connected { channel, session: None }) };
            let session = Arc::new(Session::new(name, password, channel.clone()));
            let connected = Connected { channel: session.signing(channel), session: Some(session) };
            connected.refresh_token().await?;
            Ok(connected)
        };
        self.connected.get_or_try_init(connect).await.cloned()
    }

    /// True while the endpoint waits after a failure.
    pub(super) fn is_waiting(&self) -> bool {
        self.retry_at().is_some_and(|at| at > Instant::now())
    }

    /// When it may be tried again; `None` when the last call was answered.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.health().last.as_ref().map(|f| f.retry_at)
    }

    /// Any answer is a sign of life; only an error that blames the endpoint is a failure.
    fn learn(&self, error: Option<&EtcdError>) {
        match error {
            Some(error) if error.blames_endpoint() => self.failed(error),
            _ => *self.health() = Health { answered: true, ..Health::default() },
        }
    }

    /// One more failure in a row.
    pub(super) fn failed(&self, error: &EtcdError) {
        let now = Instant::now();
        let mut health = self.health();
        let wait = BACKOFF.wait(health.failures);
        health.failures = health.failures.saturating_add(1);
        health.last = Some(Failure { error: error.clone(), at: now, retry_at: now + wait });
    }

    fn failure_since(&self, asked: Instant) -> Option<EtcdError> {
        self.health().last.as_ref().filter(|f| f.at > asked).map(|f| f.error.clone())
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock()
    }
}

/// Connects when it is first used, and again when the connection ended. A member without a leader refuses our calls at once.
fn over_network(endpoint: &tonic::transport::Endpoint) -> Channel {
    Channel::new(endpoint.connect_lazy()).with_headers(|headers| drop(headers.insert(REQUIRE_LEADER, HeaderValue::from_static("true"))))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::config::EtcdConfig;

    fn endpoint() -> Endpoint {
        let config = EtcdConfig { endpoints: vec!["http://127.0.0.1:1".into()], ..EtcdConfig::default() };
        Endpoint::new(config.check().expect("valid").remove(0))
    }

    fn refused() -> Status {
        Status::unavailable("Connection refused")
    }

    #[test]
    fn waits_double_up_to_the_limit_and_keep_their_jitter() {
        for failures in 0..100 {
            let wait = BACKOFF.wait(failures);
            let full = (50 << failures.min(20)).min(2_000);
            assert!(wait.as_millis() <= full && wait.as_millis() + 1 >= full / 2, "{failures}: {wait:?} of {full} ms");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_endpoint_is_tried_by_one_caller_and_the_others_share_its_error() {
        let endpoint = Arc::new(endpoint());
        let tried = Arc::new(AtomicU32::new(0));
        let call = |endpoint: Arc<Endpoint>, tried: Arc<AtomicU32>| async move {
            endpoint
                .call(|_| async {
                    tried.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Err::<(), _>(refused())
                })
                .await
        };
        assert!(call(endpoint.clone(), tried.clone()).await.is_err());
        assert!(endpoint.is_waiting());
        let callers: Vec<_> = (0..50).map(|_| tokio::spawn(call(endpoint.clone(), tried.clone()))).collect();
        for caller in callers {
            assert!(matches!(caller.await.expect("no panic"), Err(EtcdError::Unavailable(_))));
        }
        assert_eq!(tried.load(Ordering::Relaxed), 2, "the first, and one trial for all fifty");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_clears_the_failures() {
        let endpoint = endpoint();
        let _ = endpoint.call(|_| async { Err::<(), _>(refused()) }).await;
        assert!(endpoint.retry_at().is_some());
        endpoint.call(|_| async { Ok(()) }).await.expect("answered");
        assert!(endpoint.retry_at().is_none());
        endpoint.learn(Some(&EtcdError::Compacted));
        assert!(endpoint.retry_at().is_none(), "an answer that is an error is an answer");
    }
}
