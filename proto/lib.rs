//! etcd's gRPC API: its messages, its clients and its server traits, generated from `rpc.proto` and `kv.proto` beside this file and committed.
//!
//! A build compiles no `.proto` file. `tests/generated.rs` compares the committed code with them, and writes it anew:
//! `WATCHCACHE_GENERATE=1 cargo test --package watchcache-proto`.
//!
//! All bytes are `Vec<u8>`: as `Bytes` they would be slices of the message that they came in and keep all of it in memory.

pub mod codec;
#[allow(
    missing_docs,
    clippy::allow_attributes_without_reason,
    clippy::doc_lazy_continuation,
    reason = "generated: the texts are etcd's, where it has any"
)]
#[rustfmt::skip]
#[path = "generated/etcdserverpb.rs"]
pub mod etcdserverpb;
#[allow(missing_docs, reason = "generated: the texts are etcd's, where it has any")]
#[rustfmt::skip]
#[path = "generated/mvccpb.rs"]
pub mod mvccpb;
#[cfg(feature = "testing")]
pub mod testing;

pub use etcdserverpb::*;
pub use mvccpb::*;

use std::task::{Context, Poll};

use tonic::body::Body;
use tower::util::{BoxCloneSyncService, MapRequest};
use tower::{BoxError, Service, ServiceExt};

use compare::{CompareResult, CompareTarget, TargetUnion};
use request_op::Request;

type Inner = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, BoxError>;

/// A way to an etcd, over a network or within the process. A clone is the same way.
///
/// No alias of [`BoxCloneSyncService`]: its error's lifetime, as a parameter, would make futures that wait for a call not `Send` enough to be spawned.
#[derive(Clone, Debug)]
pub struct Channel(Inner);

impl Channel {
    /// Over whatever takes requests.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        Self(Inner::new(service.map_err(Into::into)))
    }

    /// The same way, whose requests have what `set` does to their headers.
    #[must_use]
    pub fn with_headers(self, set: impl Fn(&mut http::HeaderMap) + Clone + Send + Sync + 'static) -> Self {
        Self::new(MapRequest::new(self, move |mut request: http::Request<Body>| {
            set(request.headers_mut());
            request
        }))
    }
}

impl Service<http::Request<Body>> for Channel {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = <Inner as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.0.call(request)
    }
}

impl Compare {
    /// How `key` must compare with what `with` names.
    #[must_use]
    pub fn new(key: impl Into<Vec<u8>>, result: CompareResult, with: TargetUnion) -> Self {
        let target = match with {
            TargetUnion::Version(_) => CompareTarget::Version,
            TargetUnion::CreateRevision(_) => CompareTarget::Create,
            TargetUnion::ModRevision(_) => CompareTarget::Mod,
            TargetUnion::Value(_) => CompareTarget::Value,
            TargetUnion::Lease(_) => CompareTarget::Lease,
        };
        Self { key: key.into(), result: result.into(), target: target.into(), target_union: Some(with), ..Self::default() }
    }
}

impl From<RangeRequest> for RequestOp {
    fn from(range: RangeRequest) -> Self {
        Self { request: Some(Request::RequestRange(range)) }
    }
}

impl From<PutRequest> for RequestOp {
    fn from(put: PutRequest) -> Self {
        Self { request: Some(Request::RequestPut(put)) }
    }
}

impl From<DeleteRangeRequest> for RequestOp {
    fn from(delete: DeleteRangeRequest) -> Self {
        Self { request: Some(Request::RequestDeleteRange(delete)) }
    }
}

impl From<TxnRequest> for RequestOp {
    fn from(txn: TxnRequest) -> Self {
        Self { request: Some(Request::RequestTxn(txn)) }
    }
}
