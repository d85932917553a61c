//! Reads: a range of keys at a revision, filtered, sorted and cut as etcd does it. The same for a published state and within a transaction.

use bytes::Bytes;
use proto::{KeyValue, RangeRequest, RangeResponse, ResponseHeader};

use super::index::Index;
use super::keys::KeyRange;
use super::log::{Log, Version};
use super::refusal::{Fault, Refusal};

/// `RangeRequest.SortOrder`.
const ORDER_NONE: i32 = 0;
const ORDER_ASCEND: i32 = 1;
const ORDER_DESCEND: i32 = 2;
/// `RangeRequest.SortTarget`.
const TARGET_KEY: i32 = 0;
const TARGET_VERSION: i32 = 1;
const TARGET_CREATE: i32 = 2;
const TARGET_MOD: i32 = 3;
const TARGET_VALUE: i32 = 4;

/// One consistent snapshot.
pub(super) struct View<'a, L> {
    pub(super) index: &'a Index,
    pub(super) log: &'a L,
    /// The newest revision that is seen.
    pub(super) revision: i64,
    /// -1 before the first compaction, as in etcd.
    pub(super) compacted: i64,
}

/// Refuses what cannot be read at all.
pub(super) fn check_range(request: &RangeRequest) -> Result<(), Refusal> {
    if request.key.is_empty() {
        return Err(Refusal::EmptyKey);
    }
    let known = (ORDER_NONE..=ORDER_DESCEND).contains(&request.sort_order) && (TARGET_KEY..=TARGET_VALUE).contains(&request.sort_target);
    if known { Ok(()) } else { Err(Refusal::InvalidSort) }
}

impl<L: Log> View<'_, L> {
    pub(super) fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Fault> {
        if request.revision > self.revision {
            return Err(Refusal::Future.into());
        }
        let at = if request.revision <= 0 { self.revision } else { request.revision };
        if at < self.compacted {
            return Err(Refusal::Compacted.into());
        }
        let range = KeyRange::new(&request.key, &request.range_end);
        let limit = usize::try_from(request.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let keep = match (request.count_only, limit_before_sort(request)) {
            (true, _) => 0,
            (false, true) => limit.saturating_add(1),
            (false, false) => usize::MAX,
        };
        let (found, count) = self.find(&range, at, keep);
        let mut kvs = self.fill(found, request)?;
        filter(&mut kvs, request);
        sort(&mut kvs, request);
        let more = kvs.len() > limit;
        kvs.truncate(limit);
        if request.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value.clear());
        }
        let header = ResponseHeader { revision: self.revision, ..Default::default() };
        Ok(RangeResponse { header: Some(header), kvs, more, count: i64::try_from(count).unwrap_or(i64::MAX) })
    }

    /// The first `keep` keys of a range, and how many there are.
    pub(super) fn find(&self, range: &KeyRange, at: i64, keep: usize) -> (Vec<(Bytes, Version)>, usize) {
        let (mut found, mut count) = (Vec::new(), 0);
        let show = |key: &Bytes, version: &Version| {
            count += 1;
            if found.len() < keep {
                found.push((key.clone(), *version));
            }
        };
        if at >= self.revision {
            self.index.each_live(range, show);
        } else {
            self.index.each_at(range, at, show);
        }
        (found, count)
    }

    pub(super) fn key_value(&self, key: &[u8], version: &Version) -> Result<KeyValue, Fault> {
        Ok(KeyValue { value: self.log.value(version.place)?, lease: version.lease, ..bare(key, version) })
    }

    /// A key as it is, for `prev_kv` and the like.
    pub(super) fn current(&self, key: &[u8]) -> Result<Option<KeyValue>, Fault> {
        self.index.live(key).map(|version| self.key_value(key, version)).transpose()
    }

    /// A key as it was after `revision`; `None` also when that is compacted.
    pub(super) fn earlier(&self, key: &Bytes, revision: i64) -> Result<Option<KeyValue>, Fault> {
        let found = if revision < self.compacted { None } else { self.index.at(key, revision) };
        found.map(|version| self.key_value(key, &version)).transpose()
    }

    /// etcd 3.7 answers `keys_only` from its index, which knows no leases, unless it must sort by value.
    fn fill(&self, found: Vec<(Bytes, Version)>, request: &RangeRequest) -> Result<Vec<KeyValue>, Fault> {
        let bare_keys = request.keys_only && request.sort_target != TARGET_VALUE;
        found.iter().map(|(key, version)| if bare_keys { Ok(bare(key, version)) } else { self.key_value(key, version) }).collect()
    }
}

fn bare(key: &[u8], version: &Version) -> KeyValue {
    KeyValue {
        key: key.to_vec(),
        create_revision: version.created,
        mod_revision: version.place.main,
        version: version.number,
        ..Default::default()
    }
}

/// etcd cuts before it reads values when nothing is left out and no order is asked for, even if it then sorts by a target (`rangeLimit`).
fn limit_before_sort(request: &RangeRequest) -> bool {
    let bounds = [request.min_mod_revision, request.max_mod_revision, request.min_create_revision, request.max_create_revision];
    let in_order = request.sort_order == ORDER_NONE || (request.sort_target == TARGET_KEY && request.sort_order == ORDER_ASCEND);
    in_order && bounds == [0; 4]
}

fn filter(kvs: &mut Vec<KeyValue>, request: &RangeRequest) {
    let within = |number: i64, least: i64, most: i64| (least == 0 || number >= least) && (most == 0 || number <= most);
    kvs.retain(|kv| {
        within(kv.mod_revision, request.min_mod_revision, request.max_mod_revision)
            && within(kv.create_revision, request.min_create_revision, request.max_create_revision)
    });
}

fn sort(kvs: &mut [KeyValue], request: &RangeRequest) {
    let compare = |a: &KeyValue, b: &KeyValue| match request.sort_target {
        TARGET_VERSION => a.version.cmp(&b.version),
        TARGET_CREATE => a.create_revision.cmp(&b.create_revision),
        TARGET_MOD => a.mod_revision.cmp(&b.mod_revision),
        TARGET_VALUE => a.value.cmp(&b.value),
        _ => a.key.cmp(&b.key),
    };
    match (request.sort_target, request.sort_order) {
        (_, ORDER_DESCEND) => kvs.sort_by(|a, b| compare(b, a)),
        (TARGET_KEY, _) => {}
        // A target without an order is ascending.
        _ => kvs.sort_by(compare),
    }
}
