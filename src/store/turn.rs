//! Requests applied one after another to the working snapshot and, at the same time, to one open write transaction. Commits nothing, waits for nothing.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use imbl::Vector;
use proto::{
    DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
    request_op::Request, response_op::Response,
};
use redb::{Table, WriteTransaction};

use super::budget::{Account, Held};
use super::check::{put_bytes, puts, shows, txn_bytes};
use super::index::{Index, Superseded};
use super::keys::KeyRange;
use super::lease::Leases;
use super::log::{Event, LEASES, LOG, Log, META, META_COMPACTED, META_REVISION, Place, Record, Version, stored_bytes};
use super::refusal::{Fault, Refusal};
use super::state::Batch;
use super::txn::{Path, branch, check_put, weigh_delete, weigh_put};
use super::view::View;

/// Revisions kept in memory for watches …
const RECENT_COUNT_MAX: usize = 8_192;
/// … and their bytes: five of the largest requests. Behind it a watch reads the log.
const RECENT_BYTES_MAX: usize = 8 << 20;

/// The writer's snapshot: ahead of the published one while a turn lasts.
pub(super) struct Working {
    pub(super) index: Index,
    pub(super) superseded: Superseded,
    pub(super) leases: Leases,
    pub(super) revision: i64,
    pub(super) compacted: i64,
    pub(super) recent: Vector<Arc<Batch>>,
    pub(super) recent_bytes: usize,
    /// What the changes in the log take there.
    pub(super) log_bytes: u64,
    /// How many there may be before nothing is put any more; 0 for no such limit.
    pub(super) quota: u64,
}

/// One write transaction's worth of requests.
pub(super) struct Turn<'a> {
    work: &'a mut Working,
    log: Table<'a, (i64, u32), &'static [u8]>,
    lease_table: Table<'a, i64, i64>,
    meta: Table<'a, &'static str, i64>,
    /// Changes of the request in hand: they are of the next revision.
    events: Vec<Event>,
    dirty: bool,
}

impl<'a> Turn<'a> {
    pub(super) fn begin(work: &'a mut Working, txn: &'a WriteTransaction) -> Result<Self, Fault> {
        let (log, lease_table, meta) = (txn.open_table(LOG)?, txn.open_table(LEASES)?, txn.open_table(META)?);
        Ok(Self { work, log, lease_table, meta, events: Vec::new(), dirty: false })
    }

    /// Whether there is something to commit.
    pub(super) fn end(mut self) -> Result<bool, Fault> {
        if self.dirty {
            self.meta.insert(META_REVISION, self.work.revision)?;
            self.meta.insert(META_COMPACTED, self.work.compacted)?;
        }
        Ok(self.dirty)
    }

    pub(super) fn put(&mut self, put: PutRequest, account: &Account) -> Result<Held<PutResponse>, Fault> {
        self.check_quota(put_bytes(&put))?;
        let (view, leases) = (self.view(), &self.work.leases);
        check_put(&view, &put, &|id| leases.has(id))?;
        let hold = account.hold_now(weigh_put(&view, &put))?;
        let answer = self.write_put(put)?;
        self.end_revision();
        Ok(Held { answer, hold })
    }

    pub(super) fn delete(&mut self, delete: &DeleteRangeRequest, account: &Account) -> Result<Held<DeleteRangeResponse>, Fault> {
        let hold = account.hold_for_txn(weigh_delete(&self.view(), delete))?;
        let answer = self.write_delete(delete)?;
        self.end_revision();
        Ok(Held { answer, hold })
    }

    pub(super) fn txn(&mut self, txn: TxnRequest, account: &Account) -> Result<Held<TxnResponse>, Fault> {
        if puts(&txn) {
            self.check_quota(txn_bytes(&txn))?;
        }
        let (view, leases) = (self.view(), &self.work.leases);
        let mut path = Path::choose(&view, &txn)?;
        let shown = path.check(&view, &txn, &|id| leases.has(id))?;
        // What it puts itself may be shown by each of its operations.
        let own = if puts(&txn) { txn_bytes(&txn).saturating_mul(shows(&txn)) } else { 0 };
        let hold = account.hold_for_txn(shown.saturating_add(own))?;
        let mut answer = self.write_txn(txn, &mut path)?;
        self.end_revision();
        answer.header = header(self.work.revision);
        Ok(Held { answer, hold })
    }

    /// From now on nothing before `revision` is read.
    pub(super) fn compact(&mut self, revision: i64) -> Result<(), Fault> {
        if revision <= self.work.compacted {
            return Err(Refusal::Compacted.into());
        }
        if revision > self.work.revision {
            return Err(Refusal::Future.into());
        }
        self.work.compacted = revision;
        self.dirty = true;
        Ok(())
    }

    /// Removes up to `count` changes that compaction has made superfluous; returns how many it were.
    pub(super) fn sweep(&mut self, count: usize) -> Result<u64, Fault> {
        let mut swept = 0;
        for _ in 0..count {
            let Some((key, place)) = self.work.superseded.pop(self.work.compacted) else { break };
            if let Some(removed) = self.log.remove((place.main, place.sub))? {
                self.work.log_bytes -= stored_bytes(removed.value());
            }
            self.work.index.forget(key, place);
            self.dirty = true;
            swept += 1;
        }
        Ok(swept)
    }

    pub(super) fn grant(&mut self, id: i64, ttl: i64, now: Instant) -> Result<(i64, i64), Fault> {
        self.check_quota(0)?;
        let (id, ttl) = self.work.leases.grant(id, ttl, now)?;
        self.lease_table.insert(id, ttl)?;
        self.dirty = true;
        Ok((id, ttl))
    }

    /// Deletes the lease and, in one revision, its keys.
    pub(super) fn revoke(&mut self, id: i64) -> Result<(), Fault> {
        for key in self.work.leases.revoke(id)? {
            self.remove(&key)?;
        }
        self.lease_table.remove(id)?;
        self.dirty = true;
        self.end_revision();
        Ok(())
    }

    pub(super) fn leases(&mut self) -> &mut Leases {
        &mut self.work.leases
    }

    pub(super) fn revision(&self) -> i64 {
        self.work.revision
    }

    /// Refuses what only adds to a log that is full; deletions and compactions make room.
    fn check_quota(&self, bytes: usize) -> Result<(), Refusal> {
        let is_full = self.work.quota != 0 && self.work.log_bytes + bytes as u64 > self.work.quota;
        if is_full { Err(Refusal::NoSpace) } else { Ok(()) }
    }

    /// What a request sees: its own changes too.
    fn view(&self) -> View<'_, Table<'a, (i64, u32), &'static [u8]>> {
        let revision = self.work.revision + i64::from(!self.events.is_empty());
        View { index: &self.work.index, log: &self.log, revision, compacted: self.work.compacted }
    }

    /// The place of the next change.
    fn place(&self) -> Place {
        let sub = u32::try_from(self.events.len()).expect("a request changes fewer keys than memory holds");
        Place { main: self.work.revision + 1, sub }
    }

    fn write_put(&mut self, put: PutRequest) -> Result<PutResponse, Fault> {
        let place = self.place();
        let old = self.work.index.live(&put.key).copied();
        let prev_kv = if put.prev_kv { self.view().current(&put.key)? } else { None };
        let value = match old {
            Some(old) if put.ignore_value => self.log.value(old.place)?,
            _ => put.value,
        };
        let old_lease = old.map_or(0, |old| old.lease);
        let lease = if put.ignore_lease { old_lease } else { put.lease };
        let (created, number) = old.map_or((place.main, 1), |old| (old.created, old.number + 1));
        let key = self.work.index.key(&put.key).unwrap_or_else(|| Bytes::from(put.key));
        let value = Bytes::from(value);
        let bytes = u32::try_from(value.len()).expect("a request is far below 4 GiB");
        let version = Version { place, created, number, lease, bytes };
        let record = Record { key: &key, put: Some((version, &value)) };
        self.append(place, &record)?;
        self.work.index.put(&key, version, &mut self.work.superseded);
        if old_lease != lease {
            self.work.leases.detach(old_lease, &key);
            self.work.leases.attach(lease, &key);
        }
        self.events.push(Event { key, put: Some((version, value)) });
        Ok(PutResponse { header: header(place.main), prev_kv })
    }

    fn write_delete(&mut self, delete: &DeleteRangeRequest) -> Result<DeleteRangeResponse, Fault> {
        let view = self.view();
        let (found, count) = view.find(&KeyRange::new(&delete.key, &delete.range_end), view.revision, usize::MAX);
        let previous = if delete.prev_kv { &found[..] } else { &[] };
        let prev_kvs = previous.iter().map(|(key, version)| view.key_value(key, version)).collect::<Result<_, _>>()?;
        for (key, _) in &found {
            self.remove(key)?;
        }
        let revision = self.work.revision + i64::from(!self.events.is_empty());
        Ok(DeleteRangeResponse { header: header(revision), deleted: i64::try_from(count).unwrap_or(i64::MAX), prev_kvs })
    }

    /// A key that may be there.
    fn remove(&mut self, key: &Bytes) -> Result<(), Fault> {
        let Some(old) = self.work.index.live(key).copied() else { return Ok(()) };
        let place = self.place();
        self.append(place, &Record { key, put: None })?;
        self.work.index.delete(key, place, &mut self.work.superseded);
        self.work.leases.detach(old.lease, key);
        self.events.push(Event { key: key.clone(), put: None });
        Ok(())
    }

    fn append(&mut self, place: Place, record: &Record<'_>) -> Result<(), Fault> {
        let bytes = record.encode();
        self.log.insert((place.main, place.sub), &bytes[..])?;
        self.work.log_bytes += stored_bytes(&bytes);
        Ok(())
    }

    /// Inner answers carry a revision and nothing else in their headers, nested transactions not even that: as etcd's.
    fn write_txn(&mut self, txn: TxnRequest, path: &mut Path) -> Result<TxnResponse, Fault> {
        let succeeded = path.step();
        let mut responses = Vec::with_capacity(branch(&txn, succeeded).len());
        for op in if succeeded { txn.success } else { txn.failure } {
            let response = match op.request {
                Some(Request::RequestRange(range)) => Some(Response::ResponseRange(self.view().range(&range)?)),
                Some(Request::RequestPut(put)) => Some(Response::ResponsePut(self.write_put(put)?)),
                Some(Request::RequestDeleteRange(delete)) => Some(Response::ResponseDeleteRange(self.write_delete(&delete)?)),
                Some(Request::RequestTxn(nested)) => Some(Response::ResponseTxn(self.write_txn(nested, path)?)),
                None => None,
            };
            responses.push(ResponseOp { response });
        }
        Ok(TxnResponse { header: header(0), succeeded, responses })
    }

    /// The request is done; if it changed something, that is a revision.
    fn end_revision(&mut self) {
        if self.events.is_empty() {
            return;
        }
        self.dirty = true;
        self.work.revision += 1;
        self.work.superseded.end_revision();
        let events = std::mem::take(&mut self.events);
        let bytes = events.iter().map(Event::bytes).sum();
        self.work.recent.push_back(Arc::new(Batch { revision: self.work.revision, events, bytes }));
        self.work.recent_bytes += bytes;
        while self.work.recent.len() > RECENT_COUNT_MAX || self.work.recent_bytes > RECENT_BYTES_MAX {
            let Some(oldest) = self.work.recent.pop_front() else { break };
            self.work.recent_bytes -= oldest.bytes;
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the generated types want an Option")]
pub(super) fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader { revision, ..Default::default() })
}
