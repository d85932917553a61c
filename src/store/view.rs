//! Reads: a range of keys at a revision, filtered, sorted and cut as etcd does it. The same for a published state and within a transaction.

use std::cmp::Ordering;

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

/// What a key and its value take in an answer besides their bytes.
const KV_OVERHEAD: usize = 96;
/// What a key takes in the list of those that are found.
const LISTED_BYTES: usize = 48;

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
        let at = self.revision_of(request)?;
        let range = KeyRange::new(&request.key, &request.range_end);
        let limit = limit(request);
        let keep = if request.count_only { 0 } else { kept(request) };
        let (mut found, count) = self.find(&range, at, keep);
        found.retain(|(_, version)| is_within(version, request));
        let by_value = request.sort_target == TARGET_VALUE;
        let mut more = found.len() > limit;
        if !by_value {
            // What is not shown is not read.
            sort(&mut found, request, |a, b| compare(a, b, request.sort_target));
            found.truncate(limit);
        }
        let mut kvs = self.fill(found, request)?;
        if by_value {
            sort(&mut kvs, request, |a, b| a.value.cmp(&b.value));
            more = kvs.len() > limit;
            kvs.truncate(limit);
        }
        if request.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value.clear());
        }
        let header = ResponseHeader { revision: self.revision, ..Default::default() };
        Ok(RangeResponse { header: Some(header), kvs, more, count: i64::try_from(count).unwrap_or(i64::MAX) })
    }

    /// Refuses a revision that cannot be read.
    fn revision_of(&self, request: &RangeRequest) -> Result<i64, Refusal> {
        if request.revision > self.revision {
            return Err(Refusal::Future);
        }
        let at = if request.revision <= 0 { self.revision } else { request.revision };
        if at < self.compacted { Err(Refusal::Compacted) } else { Ok(at) }
    }

    /// Returns how many bytes a range shows, at most, with what a list of its keys takes. No value is read for it.
    pub(super) fn weigh(&self, request: &RangeRequest) -> usize {
        let Ok(at) = self.revision_of(request) else { return 0 };
        if request.count_only {
            return 0;
        }
        let (keep, bare_keys) = (kept(request), bare_keys(request));
        let (mut listed, mut bytes, mut largest) = (0, 0, 0);
        self.each(&KeyRange::new(&request.key, &request.range_end), at, |key, version| {
            if is_within(version, request) {
                listed += 1;
                let shown = KV_OVERHEAD + key.len() + if bare_keys { 0 } else { version.bytes as usize };
                bytes += shown;
                largest = largest.max(shown);
            }
            listed < keep
        });
        let by_value = request.sort_target == TARGET_VALUE;
        let shown = if by_value { bytes } else { bytes.min(limit(request).saturating_mul(largest)) };
        shown + listed * LISTED_BYTES
    }

    /// Returns how many bytes the keys of a range take that a deletion shows.
    pub(super) fn weigh_all(&self, range: &KeyRange) -> usize {
        let mut bytes = 0;
        self.each(range, self.revision, |key, version| {
            bytes += LISTED_BYTES + KV_OVERHEAD + key.len() + version.bytes as usize;
            true
        });
        bytes
    }

    /// The first `keep` keys of a range, and how many there are.
    pub(super) fn find(&self, range: &KeyRange, at: i64, keep: usize) -> (Vec<(Bytes, Version)>, usize) {
        let (mut found, mut count) = (Vec::new(), 0);
        self.each(range, at, |key, version| {
            count += 1;
            if found.len() < keep {
                found.push((key.clone(), *version));
            }
            true
        });
        (found, count)
    }

    fn each(&self, range: &KeyRange, at: i64, show: impl FnMut(&Bytes, &Version) -> bool) {
        if at >= self.revision {
            self.index.each_live(range, show);
        } else {
            self.index.each_at(range, at, show);
        }
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

    fn fill(&self, found: Vec<(Bytes, Version)>, request: &RangeRequest) -> Result<Vec<KeyValue>, Fault> {
        let bare_keys = bare_keys(request);
        found.iter().map(|(key, version)| if bare_keys { Ok(bare(key, version)) } else { self.key_value(key, version) }).collect()
    }
}

/// etcd 3.7 answers `keys_only` from its index, which knows no leases, unless it must sort by value.
fn bare_keys(request: &RangeRequest) -> bool {
    request.keys_only && request.sort_target != TARGET_VALUE
}

fn limit(request: &RangeRequest) -> usize {
    usize::try_from(request.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX)
}

/// How many of the keys that are found are looked at.
fn kept(request: &RangeRequest) -> usize {
    if limit_before_sort(request) { limit(request).saturating_add(1) } else { usize::MAX }
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

fn is_within(version: &Version, request: &RangeRequest) -> bool {
    let within = |number: i64, least: i64, most: i64| (least == 0 || number >= least) && (most == 0 || number <= most);
    within(version.place.main, request.min_mod_revision, request.max_mod_revision)
        && within(version.created, request.min_create_revision, request.max_create_revision)
}

fn compare(a: &(Bytes, Version), b: &(Bytes, Version), target: i32) -> Ordering {
    match target {
        TARGET_VERSION => a.1.number.cmp(&b.1.number),
        TARGET_CREATE => a.1.created.cmp(&b.1.created),
        TARGET_MOD => a.1.place.main.cmp(&b.1.place.main),
        _ => a.0.cmp(&b.0),
    }
}

fn sort<T>(found: &mut [T], request: &RangeRequest, compare: impl Fn(&T, &T) -> Ordering) {
    match (request.sort_target, request.sort_order) {
        (_, ORDER_DESCEND) => found.sort_by(|a, b| compare(b, a)),
        (TARGET_KEY, _) => {}
        // A target without an order is ascending.
        _ => found.sort_by(compare),
    }
}
