//! A small etcd client for tests: a connection, the calls that tests make most, and the messages of those calls.
//!
//! Every other call is one of the generated clients', which are the fields of [`Client`].

use http::HeaderValue;
use http::uri::{InvalidUri, Uri};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};

use crate::auth_client::AuthClient;
use crate::cluster_client::ClusterClient;
use crate::kv_client::KvClient;
use crate::lease_client::LeaseClient;
use crate::maintenance_client::MaintenanceClient;
use crate::watch_client::WatchClient;
use crate::watch_request::RequestUnion;
use crate::{
    Channel, CompactionRequest, CompactionResponse, Compare, DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest,
    LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, RequestOp, StatusRequest, StatusResponse, TxnRequest, TxnResponse, WatchCancelRequest, WatchCreateRequest,
    WatchProgressRequest, WatchRequest, WatchResponse,
};

/// Requests of a watch stream that wait to be sent.
const REQUESTS_WAITING_MAX: usize = 100;

/// Every service of one etcd. A clone has the same connection.
#[derive(Clone, Debug)]
pub struct Client {
    /// Reads and writes.
    pub kv: KvClient<Channel>,
    /// Watches; [`Client::watch`] is simpler.
    pub watches: WatchClient<Channel>,
    /// Leases.
    pub leases: LeaseClient<Channel>,
    /// The member.
    pub maintenance: MaintenanceClient<Channel>,
    /// Its cluster.
    pub cluster: ClusterClient<Channel>,
    /// Users.
    pub auth: AuthClient<Channel>,
}

impl Client {
    /// A client of the etcd at a URL such as `http://127.0.0.1:2379`. It connects when it is first used, and again when it must.
    ///
    /// # Errors
    /// When the URL is none.
    pub fn connect(url: &str) -> Result<Self, InvalidUri> {
        Ok(Self::over(&Endpoint::from(url.parse::<Uri>()?)))
    }

    /// The same with time limits and the like of its own.
    #[must_use]
    pub fn over(endpoint: &Endpoint) -> Self {
        Self::new(Channel::new(endpoint.connect_lazy()))
    }

    /// A client over a channel. A member without a leader refuses its calls at once.
    #[must_use]
    pub fn new(channel: Channel) -> Self {
        let channel = channel.with_headers(|headers| drop(headers.insert("hasleader", HeaderValue::from_static("true"))));
        Self {
            kv: KvClient::new(channel.clone()),
            watches: WatchClient::new(channel.clone()),
            leases: LeaseClient::new(channel.clone()),
            maintenance: MaintenanceClient::new(channel.clone()),
            cluster: ClusterClient::new(channel.clone()),
            auth: AuthClient::new(channel),
        }
    }

    /// Reads one key.
    ///
    /// # Errors
    /// What etcd answers, as for all calls.
    pub async fn get(&mut self, key: impl Into<Vec<u8>>) -> Result<RangeResponse, Status> {
        self.range(get(key)).await
    }

    /// Reads keys.
    ///
    /// # Errors
    /// What etcd answers.
    pub async fn range(&mut self, range: RangeRequest) -> Result<RangeResponse, Status> {
        Ok(self.kv.range(range).await?.into_inner())
    }

    /// Writes a key.
    ///
    /// # Errors
    /// What etcd answers.
    pub async fn put(&mut self, put: impl Into<PutRequest>) -> Result<PutResponse, Status> {
        Ok(self.kv.put(put.into()).await?.into_inner())
    }

    /// Deletes one key.
    ///
    /// # Errors
    /// What etcd answers.
    pub async fn delete(&mut self, key: impl Into<Vec<u8>>) -> Result<DeleteRangeResponse, Status> {
        self.delete_range(delete(key)).await
    }

    /// Deletes keys.
    ///
    /// # Errors
    /// What etcd answers.
    pub async fn delete_range(&mut self, delete: DeleteRangeRequest) -> Result<DeleteRangeResponse, Status> {
        Ok(self.kv.delete_range(delete).await?.into_inner())
    }

    /// Runs a transaction.
    ///
    /// # Errors
    /// What etcd answers.
    pub async fn txn(&mut self, txn: TxnRequest) -> Result<TxnResponse, Status> {
        Ok(self.kv.txn(txn).await?.into_inner())
    }

    /// Forgets what is older than a revision.
    ///
    /// # Errors
    /// What etcd answers.
    pub async fn compact(&mut self, revision: i64, physical: bool) -> Result<CompactionResponse, Status> {
        Ok(self.kv.compact(CompactionRequest { revision, physical }).await?.into_inner())
    }

    /// Asks for a lease; with id 0 etcd chooses one.
    ///
    /// # Errors
    /// What etcd answers.
    pub async fn grant(&mut self, id: i64, ttl: i64) -> Result<LeaseGrantResponse, Status> {
        Ok(self.leases.lease_grant(LeaseGrantRequest { id, ttl }).await?.into_inner())
    }

    /// Ends a lease.
    ///
    /// # Errors
    /// What etcd answers.
    pub async fn revoke(&mut self, id: i64) -> Result<LeaseRevokeResponse, Status> {
        Ok(self.leases.lease_revoke(LeaseRevokeRequest { id }).await?.into_inner())
    }

    /// Renews a lease once; `None` when etcd says nothing.
    ///
    /// # Errors
    /// What etcd answers.
    pub async fn keep_alive(&mut self, id: i64) -> Result<Option<LeaseKeepAliveResponse>, Status> {
        let requests = tokio_stream::once(LeaseKeepAliveRequest { id });
        self.leases.lease_keep_alive(requests).await?.into_inner().message().await
    }

    /// Asks who the member is.
    ///
    /// # Errors
    /// What etcd answers.
    pub async fn status(&mut self) -> Result<StatusResponse, Status> {
        Ok(self.maintenance.status(StatusRequest {}).await?.into_inner())
    }

    /// Opens a stream with one watch on it.
    ///
    /// # Errors
    /// What etcd answers.
    pub async fn watch(&mut self, create: WatchCreateRequest) -> Result<WatchStream, Status> {
        let (requests, waiting) = mpsc::channel(REQUESTS_WAITING_MAX);
        let requests = WatchRequests(requests);
        // etcd says nothing before the first request.
        requests.create(create).await?;
        let answers = self.watches.watch(ReceiverStream::new(waiting)).await?.into_inner();
        Ok(WatchStream { requests, answers })
    }
}

/// A stream of watches.
#[derive(Debug)]
pub struct WatchStream {
    /// What is asked.
    pub requests: WatchRequests,
    /// What is answered.
    pub answers: Streaming<WatchResponse>,
}

impl WatchStream {
    /// The next answer; `None` when the stream has ended.
    ///
    /// # Errors
    /// What ended the stream.
    pub async fn message(&mut self) -> Result<Option<WatchResponse>, Status> {
        self.answers.message().await
    }
}

/// The half of a watch stream that asks.
#[derive(Clone, Debug)]
pub struct WatchRequests(mpsc::Sender<WatchRequest>);

impl WatchRequests {
    /// Begins a watch.
    ///
    /// # Errors
    /// When the stream has ended, as for all requests.
    pub async fn create(&self, create: WatchCreateRequest) -> Result<(), Status> {
        self.send(RequestUnion::CreateRequest(create)).await
    }

    /// Ends a watch.
    ///
    /// # Errors
    /// When the stream has ended.
    pub async fn cancel(&self, watch_id: i64) -> Result<(), Status> {
        self.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id })).await
    }

    /// Asks how far the watches are.
    ///
    /// # Errors
    /// When the stream has ended.
    pub async fn progress(&self) -> Result<(), Status> {
        self.send(RequestUnion::ProgressRequest(WatchProgressRequest {})).await
    }

    async fn send(&self, request: RequestUnion) -> Result<(), Status> {
        let sent = self.0.send(WatchRequest { request_union: Some(request) }).await;
        sent.map_err(|_| Status::unavailable("the watch stream has ended"))
    }
}

/// `client.put(("key", "value"))`.
impl<K: Into<Vec<u8>>, V: Into<Vec<u8>>> From<(K, V)> for PutRequest {
    fn from((key, value): (K, V)) -> Self {
        put(key, value)
    }
}

/// A put.
pub fn put(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> PutRequest {
    PutRequest { key: key.into(), value: value.into(), ..PutRequest::default() }
}

/// A read of one key.
pub fn get(key: impl Into<Vec<u8>>) -> RangeRequest {
    RangeRequest { key: key.into(), ..RangeRequest::default() }
}

/// A deletion of one key.
pub fn delete(key: impl Into<Vec<u8>>) -> DeleteRangeRequest {
    DeleteRangeRequest { key: key.into(), ..DeleteRangeRequest::default() }
}

/// A watch of one key, from now on.
pub fn watch(key: impl Into<Vec<u8>>) -> WatchCreateRequest {
    WatchCreateRequest { key: key.into(), ..WatchCreateRequest::default() }
}

/// Requests of more than one key.
pub trait Range: Sized {
    /// The first key, and the end of the range.
    fn bounds(&mut self) -> (&mut Vec<u8>, &mut Vec<u8>);

    /// Up to `end`, which is not part of it.
    #[must_use]
    fn until(mut self, end: impl Into<Vec<u8>>) -> Self {
        *self.bounds().1 = end.into();
        self
    }

    /// Every key from this one on.
    #[must_use]
    fn onwards(mut self) -> Self {
        let (key, end) = self.bounds();
        if key.is_empty() {
            key.push(0);
        }
        *end = vec![0];
        self
    }

    /// Every key that begins with this one; all keys when it is empty.
    #[must_use]
    fn prefix(mut self) -> Self {
        let (key, end) = self.bounds();
        end.clone_from(key);
        while end.pop_if(|last| *last == 0xff).is_some() {}
        match end.last_mut() {
            Some(last) => *last += 1,
            None => return self.onwards(),
        }
        self
    }
}

macro_rules! ranges {
    ($($request:ident),*) => {
        $(impl Range for $request {
            fn bounds(&mut self) -> (&mut Vec<u8>, &mut Vec<u8>) {
                (&mut self.key, &mut self.range_end)
            }
        })*
    };
}

ranges!(RangeRequest, DeleteRangeRequest, WatchCreateRequest, Compare);

/// `then` if everything of `compare` holds.
pub fn txn(compare: impl Into<Vec<Compare>>, then: impl Into<Vec<RequestOp>>) -> TxnRequest {
    TxnRequest { compare: compare.into(), success: then.into(), ..TxnRequest::default() }
}
