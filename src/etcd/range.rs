//! A read of etcd, asked and answered in our words. Knows etcd's fields; a stream brings its connection along.

use bytes::Bytes;
use proto::{RangeResponse, RangeStreamResponse, ResponseHeader};
use tokio::time::timeout;
use tonic::Streaming;

use super::{EtcdError, rotation::REQUEST_TIMEOUT};
use model::Revision;

/// What to read. The default is nothing: name at least a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeRequest {
    /// The first key.
    pub key: Vec<u8>,
    /// The first key that is not read any more; empty reads the one key.
    pub end: Vec<u8>,
    /// The state to read; `None` is the newest.
    pub revision: Option<Revision>,
    /// At most so many keys, in the order of keys; 0 is all of them.
    pub limit: u32,
    /// Leave the values out.
    pub keys_only: bool,
    /// Leave the keys out too.
    pub count_only: bool,
    /// Let the member answer from its own state, which may be old, instead of asking the leader first.
    pub serializable: bool,
}

/// Where etcd was when it answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Header {
    /// The newest revision of the whole store, also when an older one was read.
    pub revision: Revision,
    /// Which cluster; another number is another cluster's data.
    pub cluster_id: u64,
    /// Which member of it.
    pub member_id: u64,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeAnswer {
    /// Where etcd was.
    pub header: Header,
    /// In the order of keys.
    pub kvs: Vec<KeyValue>,
    /// The limit cut keys off.
    pub more: bool,
    /// Keys in the range, without regard to the limit.
    pub count: u64,
}

/// One key as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The full key.
    pub key: Bytes,
    /// Empty when only keys were asked for.
    pub value: Bytes,
    /// When it was last written.
    pub mod_revision: Revision,
    /// When it was created.
    pub create_revision: Revision,
}

impl From<RangeRequest> for proto::RangeRequest {
    fn from(asked: RangeRequest) -> Self {
        Self {
            key: asked.key,
            range_end: asked.end,
            revision: asked.revision.map_or(0, Revision::to_etcd),
            limit: i64::from(asked.limit),
            keys_only: asked.keys_only,
            count_only: asked.count_only,
            serializable: asked.serializable,
            ..Self::default()
        }
    }
}

/// What is read in pieces, in the order of keys; all of one state.
pub struct RangeStream(Streaming<RangeStreamResponse>);

impl RangeStream {
    pub(super) fn new(stream: Streaming<RangeStreamResponse>) -> Self {
        Self(stream)
    }

    /// The next piece; `None` when that was all.
    ///
    /// # Errors
    /// As of any call; also when nothing comes for 60 s.
    pub async fn next(&mut self) -> Result<Option<Vec<KeyValue>>, EtcdError> {
        let piece = timeout(REQUEST_TIMEOUT, self.0.message()).await.map_err(|_| EtcdError::Deadline)?;
        let piece = piece.map_err(|status| EtcdError::from_status(&status))?;
        Ok(piece.map(|piece| key_values(piece.range_response.unwrap_or_default().kvs)))
    }
}

fn key_values(kvs: Vec<proto::KeyValue>) -> Vec<KeyValue> {
    let one = |kv: proto::KeyValue| KeyValue {
        key: Bytes::from(kv.key),
        value: Bytes::from(kv.value),
        mod_revision: Revision::from_etcd(kv.mod_revision),
        create_revision: Revision::from_etcd(kv.create_revision),
    };
    kvs.into_iter().map(one).collect()
}

impl RangeAnswer {
    pub(super) fn from_etcd(response: RangeResponse) -> Result<Self, EtcdError> {
        Ok(Self {
            kvs: key_values(response.kvs),
            header: Header::from_etcd(response.header)?,
            more: response.more,
            count: u64::try_from(response.count).unwrap_or(0),
        })
    }
}

impl Header {
    /// An answer without a header proves nothing about the revision, so it is no answer.
    pub(super) fn from_etcd(header: Option<ResponseHeader>) -> Result<Self, EtcdError> {
        let header = header.ok_or_else(|| EtcdError::Other("etcd sent an answer without a header".into()))?;
        Ok(Self { revision: Revision::from_etcd(header.revision), cluster_id: header.cluster_id, member_id: header.member_id })
    }
}
