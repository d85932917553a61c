//! Writes of one key under a condition, as etcd transactions, and the leases that expiring keys hang on (spec api-surface §10.5).

use bytes::Bytes;
use etcd_client::proto::{PbTxnOpResponse, PbTxnResponse};
use etcd_client::{Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, Txn, TxnOp};

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

impl Etcd {
    /// Puts `value` if `key` was last written at `expected`; zero means that the key must not exist. `lease` 0 is none, and detaches any.
    ///
    /// # Errors
    /// See [`EtcdError`]. `Unavailable` and `Deadline` leave open whether it was written: this is never tried twice unless it was not sent.
    pub async fn put_if(&self, key: Bytes, value: Bytes, expected: Revision, lease: i64) -> Result<Outcome, EtcdError> {
        let put = TxnOp::put(key.clone(), value, Some(PutOptions::new().with_lease(lease)));
        self.write_if(key, expected, put).await
    }

    /// Deletes `key` if it was last written at `expected`.
    ///
    /// # Errors
    /// As [`Etcd::put_if`].
    pub async fn delete_if(&self, key: Bytes, expected: Revision) -> Result<Outcome, EtcdError> {
        let delete = TxnOp::delete(key.clone(), Some(DeleteOptions::new()));
        self.write_if(key, expected, delete).await
    }

    /// Puts `value` if `key` has been written `version` times since it was created; zero means that it does not exist. The revision of etcd's answer
    /// comes with the outcome, also when nothing was written (the protocol of `compact_rev_key`, spec list-watch §10).
    ///
    /// # Errors
    /// As [`Etcd::put_if`].
    pub async fn put_if_version(&self, key: Bytes, value: Bytes, version: i64) -> Result<(Revision, Result<(), Versioned>), EtcdError> {
        let txn = Txn::new()
            .when([Compare::version(key.clone(), CompareOp::Equal, version)])
            .and_then([TxnOp::put(key.clone(), value, None)])
            .or_else([TxnOp::get(key, Some(GetOptions::new()))]);
        let response = self.transact(txn).await?;
        let revision = Header::from_etcd(response.header)?.revision;
        if response.succeeded {
            return Ok((revision, Ok(())));
        }
        let found = first_range(response).and_then(|range| range.kvs.into_iter().next());
        let found = found.map_or(Versioned::default(), |kv| Versioned { version: kv.version, value: Bytes::from(kv.value) });
        Ok((revision, Err(found)))
    }

    /// A new lease of `seconds`; its id.
    ///
    /// # Errors
    /// As any call; a lease that was granted without our knowing it expires by itself.
    pub async fn grant_lease(&self, seconds: i64) -> Result<i64, EtcdError> {
        let grant = |mut at: Connected| async move { at.client.lease_grant(seconds, None).await };
        Ok(self.rotation.call(grant).await?.id())
    }

    async fn write_if(&self, key: Bytes, expected: Revision, write: TxnOp) -> Result<Outcome, EtcdError> {
        let txn = Txn::new()
            .when([Compare::mod_revision(key.clone(), CompareOp::Equal, expected.to_etcd())])
            .and_then([write])
            .or_else([TxnOp::get(key, Some(GetOptions::new()))]);
        let response = self.transact(txn).await?;
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

    async fn transact(&self, txn: Txn) -> Result<PbTxnResponse, EtcdError> {
        let run = |mut at: Connected| {
            let txn = txn.clone();
            async move { at.kv.txn(txn).await }
        };
        Ok(self.rotation.call_once(run).await?.0)
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

fn first_range(response: PbTxnResponse) -> Option<etcd_client::proto::PbRangeResponse> {
    match response.responses.into_iter().next()?.response? {
        PbTxnOpResponse::ResponseRange(range) => Some(range),
        _ => None,
    }
}
