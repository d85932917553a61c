//! What is asked: one operation, and how one side answers it.

use proto::{
    DeleteRangeRequest, LeaseLeasesRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest, RangeResponse, TxnRequest,
    WatchCreateRequest, range_request::SortTarget, testing::Client,
};
use tonic::Status;

use super::answer::Answer;

/// One operation. Everything random in it is already decided, so that both sides are asked the same.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// A range; `sort` is what it is sorted by when not by key.
    Range {
        range: RangeRequest,
        sort: Option<SortTarget>,
    },
    /// The same, answered in chunks (etcd 3.7).
    RangeStream(RangeRequest),
    Put(PutRequest),
    Delete(DeleteRangeRequest),
    Txn(TxnRequest),
    Compact {
        revision: i64,
        physical: bool,
    },
    /// `id` 0 lets the server choose: the lease is revoked at once, for the two would choose differently.
    Grant {
        id: i64,
        ttl: i64,
    },
    Revoke {
        id: i64,
    },
    KeepAlive {
        id: i64,
    },
    TimeToLive {
        id: i64,
        keys: bool,
    },
    Leases,
    /// A watch on one of the streams; the stream is opened when it is not.
    Watch {
        stream: usize,
        create: WatchCreateRequest,
    },
    CancelWatch {
        stream: usize,
        watch: i64,
    },
    Progress {
        stream: usize,
    },
    /// The client goes away, and all watches of the stream with it.
    CloseStream {
        stream: usize,
    },
}

impl Operation {
    /// Its name in the count of operations.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Range { .. } => "range",
            Self::RangeStream(_) => "range stream",
            Self::Put(_) => "put",
            Self::Delete(_) => "delete",
            Self::Txn(_) => "txn",
            Self::Compact { .. } => "compact",
            Self::Grant { .. } => "lease grant",
            Self::Revoke { .. } => "lease revoke",
            Self::KeepAlive { .. } => "lease keep-alive",
            Self::TimeToLive { .. } => "lease time to live",
            Self::Leases => "leases",
            Self::Watch { .. } => "watch",
            Self::CancelWatch { .. } => "watch cancel",
            Self::Progress { .. } => "watch progress",
            Self::CloseStream { .. } => "watch stream closed",
        }
    }
}

/// Asks one side. Watch operations belong to [`super::watches`] and are answered with [`Answer::Later`].
pub(super) async fn ask(client: &mut Client, operation: &Operation) -> Answer {
    answer(client, operation.clone()).await.unwrap_or_else(|error| Answer::refused(&error))
}

async fn answer(client: &mut Client, operation: Operation) -> Result<Answer, Status> {
    Ok(match operation {
        Operation::Range { range, .. } => Answer::range(client.range(range).await?),
        Operation::RangeStream(range) => streamed(client, range).await?,
        Operation::Put(put) => Answer::put(client.put(put).await?),
        Operation::Delete(delete) => Answer::delete(client.delete_range(delete).await?),
        Operation::Txn(txn) => Answer::txn(client.txn(txn).await?),
        Operation::Compact { revision, physical } => Answer::compact(client.compact(revision, physical).await?),
        Operation::Grant { id: 0, ttl } => {
            let granted = client.grant(0, ttl).await?;
            client.revoke(granted.id).await?;
            Answer::granted_any(granted)
        }
        Operation::Grant { id, ttl } => Answer::granted(client.grant(id, ttl).await?),
        Operation::Revoke { id } => Answer::revoked(client.revoke(id).await?),
        Operation::KeepAlive { id } => Answer::kept_alive(client.keep_alive(id).await?.unwrap_or_default()),
        Operation::TimeToLive { id, keys } => {
            Answer::time_to_live(client.leases.lease_time_to_live(LeaseTimeToLiveRequest { id, keys }).await?.into_inner())
        }
        Operation::Leases => Answer::leases(client.leases.lease_leases(LeaseLeasesRequest {}).await?.into_inner()),
        Operation::Watch { .. } | Operation::CancelWatch { .. } | Operation::Progress { .. } | Operation::CloseStream { .. } => {
            Answer::Later
        }
    })
}

/// How many chunks there are is the server's own business; the pairs in order and the last chunk's members are compared.
async fn streamed(client: &mut Client, range: RangeRequest) -> Result<Answer, Status> {
    let mut stream = client.kv.range_stream(range).await?.into_inner();
    let mut whole = RangeResponse::default();
    while let Some(chunk) = stream.message().await? {
        let chunk = chunk.range_response.unwrap_or_default();
        whole.kvs.extend(chunk.kvs);
        (whole.header, whole.more, whole.count) = (chunk.header, chunk.more, chunk.count);
    }
    Ok(Answer::range(whole))
}
