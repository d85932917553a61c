//! What is asked: one operation, and how one side answers it.

use etcd_client::{
    Client, CompactionOptions, DeleteOptions, Error, GetOptions, LeaseGrantOptions, LeaseTimeToLiveOptions, PutOptions, SortTarget, Txn,
    WatchOptions,
};

use super::answer::Answer;

/// One operation. Everything random in it is already decided, so that both sides are asked the same.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// A range; `sort` is what it is sorted by when not by key.
    Range {
        key: Vec<u8>,
        options: GetOptions,
        sort: Option<SortTarget>,
    },
    /// The same, answered in chunks (etcd 3.7).
    RangeStream {
        key: Vec<u8>,
        options: GetOptions,
    },
    Put {
        key: Vec<u8>,
        value: Vec<u8>,
        options: PutOptions,
    },
    Delete {
        key: Vec<u8>,
        options: DeleteOptions,
    },
    Txn(Txn),
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
        key: Vec<u8>,
        start: i64,
        options: WatchOptions,
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
            Self::RangeStream { .. } => "range stream",
            Self::Put { .. } => "put",
            Self::Delete { .. } => "delete",
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

async fn answer(client: &mut Client, operation: Operation) -> Result<Answer, Error> {
    Ok(match operation {
        Operation::Range { key, options, .. } => Answer::range(client.get(key, Some(options)).await?.0),
        Operation::RangeStream { key, options } => streamed(client, key, options).await?,
        Operation::Put { key, value, options } => Answer::put(client.put(key, value, Some(options)).await?.0),
        Operation::Delete { key, options } => Answer::delete(client.delete(key, Some(options)).await?.0),
        Operation::Txn(txn) => Answer::txn(client.txn(txn).await?.0),
        Operation::Compact { revision, physical } => {
            let options = if physical { CompactionOptions::new().with_physical() } else { CompactionOptions::new() };
            Answer::compact(client.compact(revision, Some(options)).await?.0)
        }
        Operation::Grant { id: 0, ttl } => {
            let granted = client.lease_grant(ttl, None).await?.0;
            client.lease_revoke(granted.id).await?;
            Answer::granted_any(granted)
        }
        Operation::Grant { id, ttl } => {
            let options = LeaseGrantOptions::new().with_id(id);
            Answer::granted(client.lease_grant(ttl, Some(options)).await?.0)
        }
        Operation::Revoke { id } => Answer::revoked(client.lease_revoke(id).await?.0),
        Operation::KeepAlive { id } => kept_alive(client, id).await?,
        Operation::TimeToLive { id, keys } => {
            let options = keys.then(|| LeaseTimeToLiveOptions::new().with_keys());
            Answer::time_to_live(client.lease_time_to_live(id, options).await?.0)
        }
        Operation::Leases => Answer::leases(client.leases().await?.0),
        Operation::Watch { .. } | Operation::CancelWatch { .. } | Operation::Progress { .. } | Operation::CloseStream { .. } => {
            Answer::Later
        }
    })
}

/// The client keeps the first answer to itself when the lease is there, so a second one is asked for.
async fn kept_alive(client: &mut Client, id: i64) -> Result<Answer, Error> {
    let (mut cacher, mut answers) = client.lease_keep_alive(id).await?;
    cacher.keep_alive().await?;
    let answer = answers.message().await?.map(|answer| answer.0);
    Ok(Answer::kept_alive(answer.unwrap_or_default()))
}

/// How many chunks there are is the server's own business; the pairs in order and the last chunk's members are compared.
async fn streamed(client: &mut Client, key: Vec<u8>, options: GetOptions) -> Result<Answer, Error> {
    let mut stream = client.kv_client().get_stream(key, Some(options)).await?;
    let mut whole = etcd_client::proto::PbRangeResponse::default();
    while let Some(chunk) = stream.message().await? {
        let chunk = chunk.0;
        whole.kvs.extend(chunk.kvs);
        (whole.header, whole.more, whole.count) = (chunk.header, chunk.more, chunk.count);
    }
    Ok(Answer::range(whole))
}
