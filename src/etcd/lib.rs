//! The only room that knows etcd's gRPC as a client: connections and failover, range, watch, progress, what etcd can do.
//!
//! It does not know what the keys mean, keeps no state of the data and resumes no watch.
//!
//! tonic's own balancing has no failover within a call (one dead endpoint of two fails a third of the calls), so there is one
//! channel per endpoint and [`Etcd`] turns from one to the next.

mod capability;
mod config;
mod endpoint;
mod error;
#[cfg(test)]
mod live_test;
mod pages;
mod range;
mod rotation;
mod session;
mod txn;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use proto::{Channel, CompactionRequest, StatusRequest};
use tonic::Code;

pub use config::{ConfigError, EtcdConfig};
pub use error::EtcdError;
pub use pages::{PAGE_BYTES, PAGE_GROWTH, PAGE_KEYS_FIRST, PAGE_KEYS_MAX, Pages};
pub use range::{Header, KeyValue, RangeAnswer, RangeRequest, RangeStream};
pub use txn::{KeyWrite, Outcome, Versioned};
pub use watch::{WatchKind, WatchMessage, WatchReceiver, WatchSender};

use capability::ProgressSupport;
use endpoint::{BACKOFF_JITTER, Connected, Endpoint};
use model::Revision;
use retry::Backoff;
use rotation::{REQUEST_TIMEOUT, Rotation};

/// Waits between two questions for an endpoint's version (spec list-watch §2.9).
const PROBE_BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(10), Duration::from_secs(15), BACKOFF_JITTER);

/// An etcd cluster as we use it. A clone is the same client.
///
/// Connections belong to the tokio runtime that first uses them: it must live as long as the client is used.
#[derive(Clone)]
pub struct Etcd {
    rotation: Arc<Rotation>,
    progress: Arc<ProgressSupport>,
}

impl Etcd {
    /// Checks the endpoints' syntax and reads the TLS files; the error is one line for a human. etcd need not be up: every
    /// endpoint is connected to when it is first needed.
    pub fn new(config: EtcdConfig) -> Result<Self, ConfigError> {
        let rotation = Rotation::new(config.check()?.into_iter().map(Endpoint::new).collect());
        Ok(Self { rotation: Arc::new(rotation), progress: Arc::default() })
    }

    /// A client of a server in this process: one endpoint that needs no address, no TLS and no user.
    #[must_use]
    pub fn embedded(channel: Channel) -> Self {
        let rotation = Rotation::new(vec![Endpoint::in_process(channel)]);
        Self { rotation: Arc::new(rotation), progress: Arc::default() }
    }

    /// No etcd, of a server whose objects come from elsewhere: every call fails at once as if it could not be reached.
    #[must_use]
    pub fn none() -> Self {
        Self { rotation: Arc::new(Rotation::none()), progress: Arc::new(ProgressSupport::always()) }
    }

    /// Reads keys; linearizable unless the request says `serializable`. Answers or fails within 60 s. An endpoint that is to blame
    /// for a failure is left, and the others are tried once each.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeAnswer, EtcdError> {
        let request = proto::RangeRequest::from(request);
        let read = |at: Connected| {
            let request = request.clone();
            async move { at.kv().range(request).await }
        };
        RangeAnswer::from_etcd(self.rotation.call(read).await?.into_inner())
    }

    /// The same, in pieces of about etcd's largest request, which etcd makes without counting the rest of the range for each. `None`: this etcd cannot
    /// (before 3.7). Opened or failed within 60 s, as any call.
    pub async fn range_stream(&self, request: RangeRequest) -> Result<Option<RangeStream>, EtcdError> {
        let request = proto::RangeRequest::from(request);
        let read = |at: Connected| {
            let request = request.clone();
            async move {
                match at.kv().range_stream(request).await {
                    Err(status) if status.code() == Code::Unimplemented => Ok(None),
                    opened => opened.map(|stream| Some(stream.into_inner())),
                }
            }
        };
        Ok(self.rotation.call(read).await?.map(RangeStream::new))
    }

    /// A linearizable read of a key that normally does not exist: etcd's newest revision and who it is (spec list-watch §2.9, step 1).
    pub async fn current(&self, key: &[u8]) -> Result<Header, EtcdError> {
        let request = RangeRequest { key: key.to_vec(), limit: 1, keys_only: true, ..RangeRequest::default() };
        self.range(request).await.map(|answer| answer.header)
    }

    /// A gRPC stream for watches, on the current endpoint. It is opened by its first `create`, since etcd says nothing before; so a
    /// dead endpoint shows in `create`. A caller that tries in a loop need not wait: a failed endpoint is left, and when all have
    /// failed this waits (50 ms to 2 s, jittered).
    pub async fn open_watch(&self) -> Result<(WatchSender, WatchReceiver), EtcdError> {
        watch::open(&self.rotation).await
    }

    /// Whether every endpoint that answered so far answers progress requests (versions 3.4.31 and up, without 3.5.0 to 3.5.12);
    /// no before the first answer, and for good once one is too old (spec list-watch §2.9).
    #[must_use]
    pub fn supports_progress(&self) -> bool {
        self.progress.is_supported()
    }

    /// Asks every endpoint for its version until each has answered once. The caller spawns it.
    pub async fn probe_capabilities(&self) {
        join_all(self.rotation.all().map(|endpoint| self.probe(endpoint))).await;
    }

    async fn probe(&self, endpoint: &Endpoint) {
        for failures in 0.. {
            match tokio::time::timeout(REQUEST_TIMEOUT, version(endpoint)).await {
                Ok(Ok(version)) => {
                    tracing::debug!(endpoint = endpoint.url, version, "etcd endpoint answered with its version");
                    return self.progress.learn(&version);
                }
                Ok(Err(error)) => tracing::debug!(endpoint = endpoint.url, %error, "etcd endpoint did not answer with its version"),
                Err(_) => tracing::debug!(endpoint = endpoint.url, "etcd endpoint did not answer with its version in time"),
            }
            tokio::time::sleep(PROBE_BACKOFF.wait(failures)).await;
        }
    }

    /// Forgets what is older than `revision`. `Compacted` when that has happened already, perhaps by a first try of this very call.
    pub async fn compact(&self, revision: Revision) -> Result<(), EtcdError> {
        let request = CompactionRequest { revision: revision.to_etcd(), physical: false };
        let compact = |at: Connected| async move { at.kv().compact(request).await };
        self.rotation.call(compact).await.map(|_| ())
    }

    /// The current endpoint is no good, for reasons the caller knows: the next call uses another one. Needless after an error of a
    /// call or a stream, which do it themselves; harmless too, since an endpoint that failed lately is passed over.
    pub fn rotate(&self) {
        self.rotation.rotate();
    }
}

/// Beside the endpoint's memory of failures: a probe must not make requests wait.
async fn version(endpoint: &Endpoint) -> Result<String, EtcdError> {
    let ask = |at: Connected| async move { at.maintenance().status(StatusRequest {}).await };
    let status = endpoint.connect().await?.run(ask).await.map_err(|e| EtcdError::from_status(&e))?;
    Ok(status.into_inner().version)
}
