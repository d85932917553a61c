//! Writes of one key under a condition, as etcd transactions, and the leases that expiring keys hang on (spec api-surface §10.5).

use bytes::Bytes;
use proto::compare::{CompareResult, TargetUnion};
use proto::response_op::Response;
use proto::{Compare, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse};

use super::endpoint::Connected;
use super::{Etcd, EtcdError, Header, KeyValue, RangeAnswer};
use model::Revision;

/// What became of a conditional write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The condition held; it was written at this revision.
    Written(Revision),
    /// It did not hold: what is there instead, nothing when the key does not exist.
    Changed(Option<KeyValue>),
}

/// A write of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of etcd's own fields")]
pub enum KeyWrite {
    Put { key: Bytes, value: Bytes, lease: i64 },
    Delete { key: Bytes },
}

impl From<&KeyWrite> for RequestOp {
    fn from(write: &KeyWrite) -> Self {
        match write {
            KeyWrite::Put { key, value, lease } => {
                PutRequest { key: key.clone().into(), value: value.clone().into(), lease: *lease, ..PutRequest::default() }.into()
            }
            KeyWrite::Delete { key } => DeleteRangeRequest { key: key.clone().into(), ..DeleteRangeRequest::default() }.into(),
        }
    }
}

impl Etcd {
    /// Puts `value` if `key` was last written at `expected`; without one the key must not exist (to etcd, its revision is zero). `lease` 0 is none, and
    /// detaches any.
    ///
    /// # Errors
    /// See [`EtcdError`]. `Unavailable` and `Deadline` leave open whether it was written: this is never tried twice unless it was not sent.
    pub async fn put_if(&self, key: Bytes, value: Bytes, expected: Option<Revision>, lease: i64) -> Result<Outcome, EtcdError> {
        let put = PutRequest { key: key.clone().into(), value: value.into(), lease, ..PutRequest::default() };
        self.write_if(key, expected.unwrap_or_default(), put.into()).await
    }

    /// Deletes `key` if it was last written at `expected`.
    ///
    /// # Errors
    /// As [`Etcd::put_if`].
    pub async fn delete_if(&self, key: Bytes, expected: Revision) -> Result<Outcome, EtcdError> {
        let delete = DeleteRangeRequest { key: key.clone().into(), ..DeleteRangeRequest::default() };
        self.write_if(key, expected, delete.into()).await
    }

    /// Puts `value` if `key` has been written `version` times since it was created; zero means that it does not exist. The revision of etcd's answer
    /// comes with the outcome, also when nothing was written (the protocol of `compact_rev_key`, spec list-watch §10).
    ///
    /// # Errors
    /// As [`Etcd::put_if`].
    pub async fn put_if_version(&self, key: Bytes, value: Bytes, version: i64) -> Result<(Revision, Result<(), Versioned>), EtcdError> {
        let put = PutRequest { key: key.clone().into(), value: value.into(), ..PutRequest::default() };
        let response = self.transact(key, TargetUnion::Version(version), put.into()).await?;
        let revision = Header::from_etcd(response.header)?.revision;
        if response.succeeded {
            return Ok((revision, Ok(())));
        }
        let found = first_range(response).and_then(|range| range.kvs.into_iter().next());
        let found = found.map_or(Versioned::default(), |kv| Versioned { version: kv.version, value: Bytes::from(kv.value) });
        Ok((revision, Err(found)))
    }

    /// Does all of `writes` if each of these keys was last written at its revision, zero: does not exist. Otherwise returns what is there instead, key by key.
    ///
    /// # Errors
    /// As [`Etcd::put_if`].
    pub async fn write_all(
        &self,
        expected: &[(Bytes, Revision)],
        writes: &[KeyWrite],
    ) -> Result<Result<Revision, Vec<Option<KeyValue>>>, EtcdError> {
        let compare = expected
            .iter()
            .map(|(key, revision)| Compare::new(key.clone(), CompareResult::Equal, TargetUnion::ModRevision(revision.to_etcd())));
        let reads =
            expected.iter().map(|(key, _)| proto::RangeRequest { key: key.clone().into(), ..proto::RangeRequest::default() }.into());
        let txn =
            TxnRequest { compare: compare.collect(), success: writes.iter().map(RequestOp::from).collect(), failure: reads.collect() };
        let run = |at: Connected| {
            let txn = txn.clone();
            async move { at.kv().txn(txn).await }
        };
        let response = self.rotation.call_once(run).await?.into_inner();
        if response.succeeded {
            return Ok(Ok(Header::from_etcd(response.header)?.revision));
        }
        let header = response.header;
        let found = response.responses.into_iter().map(|response| match response.response {
            Some(Response::ResponseRange(mut range)) => {
                range.header = range.header.or(header);
                Ok(RangeAnswer::from_etcd(range)?.kvs.into_iter().next())
            }
            _ => Err(EtcdError::Other("etcd answered a transaction without the reads it was asked for".into())),
        });
        let found: Vec<Option<KeyValue>> = found.collect::<Result<_, _>>()?;
        if found.len() == expected.len() {
            Ok(Err(found))
        } else {
            Err(EtcdError::Other("etcd answered a transaction without all reads it was asked for".into()))
        }
    }

    /// A new lease of `seconds`; its id.
    ///
    /// # Errors
    /// As any call; a lease that was granted without our knowing it expires by itself.
    pub async fn grant_lease(&self, seconds: i64) -> Result<i64, EtcdError> {
        let lease = LeaseGrantRequest { ttl: seconds, id: 0 };
        let grant = |at: Connected| async move { at.lease().lease_grant(lease).await };
        Ok(self.rotation.call(grant).await?.into_inner().id)
    }

    async fn write_if(&self, key: Bytes, expected: Revision, write: RequestOp) -> Result<Outcome, EtcdError> {
        let response = self.transact(key, TargetUnion::ModRevision(expected.to_etcd()), write).await?;
        if response.succeeded {
            return Ok(Outcome::Written(Header::from_etcd(response.header)?.revision));
        }
        let header = response.header;
        let Some(mut range) = first_range(response) else {
            return Err(EtcdError::Other("etcd answered a transaction without the read it was asked for".into()));
        };
        // Inside a transaction only the whole has a header.
        range.header = range.header.or(header);
        Ok(Outcome::Changed(RangeAnswer::from_etcd(range)?.kvs.into_iter().next()))
    }

    /// `write`, if `key` is what is expected; else reads it.
    async fn transact(&self, key: Bytes, expected: TargetUnion, write: RequestOp) -> Result<TxnResponse, EtcdError> {
        let read = proto::RangeRequest { key: key.clone().into(), ..proto::RangeRequest::default() };
        let compare = Compare::new(key, CompareResult::Equal, expected);
        let txn = TxnRequest { compare: vec![compare], success: vec![write], failure: vec![read.into()] };
        let run = |at: Connected| {
            let txn = txn.clone();
            async move { at.kv().txn(txn).await }
        };
        Ok(self.rotation.call_once(run).await?.into_inner())
    }
}

/// What was found where another version was expected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versioned {
    /// How often the key was written since it was created; 0 when it does not exist.
    pub version: i64,
    /// Its value.
    pub value: Bytes,
}

fn first_range(response: TxnResponse) -> Option<RangeResponse> {
    match response.responses.into_iter().next()?.response? {
        Response::ResponseRange(range) => Some(range),
        _ => None,
    }
}
