//! Which key was written where: etcd's tree index as two persistent maps, so that a clone is a snapshot. Holds no values, does no I/O.

use std::collections::VecDeque;

use bytes::Bytes;
use imbl::OrdMap;

use super::keys::KeyRange;
use super::log::{Place, Version};

/// Every key at every revision that is not compacted.
#[derive(Clone, Default)]
pub(super) struct Index {
    /// The newest values.
    live: OrdMap<Bytes, Version>,
    /// All changes; `None` is a deletion.
    history: OrdMap<At, Option<Version>>,
}

/// A key, then when: the order of the history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct At {
    key: Bytes,
    place: Place,
}

/// Changes that a later one has made superfluous, in the order in which compaction may drop them. Only the writer has it.
#[derive(Default)]
pub(super) struct Superseded {
    /// A store compacted at the number or later does without the change.
    queue: VecDeque<(i64, Bytes, Place)>,
    /// Deletions of the revision being applied: they are needed until a revision later.
    tombstones: Vec<(Bytes, Place)>,
}

impl Index {
    pub(super) fn live(&self, key: &[u8]) -> Option<&Version> {
        self.live.get(key)
    }

    /// A key that is there, as its shared bytes.
    pub(super) fn key(&self, key: &[u8]) -> Option<Bytes> {
        self.live.get_key_value(key).map(|(key, _)| key.clone())
    }

    /// How many keys there are.
    pub(super) fn count(&self) -> usize {
        self.live.len()
    }

    /// A key as it was after `revision`.
    pub(super) fn at(&self, key: &Bytes, revision: i64) -> Option<Version> {
        let last = At { key: key.clone(), place: Place { main: revision, sub: u32::MAX } };
        let (at, version) = self.history.get_prev(&last)?;
        if at.key == key { *version } else { None }
    }

    /// Shows every key of the range with its newest value, in order of keys, until `show` says that it has enough.
    pub(super) fn each_live(&self, range: &KeyRange, mut show: impl FnMut(&Bytes, &Version) -> bool) {
        if let Some(key) = range.one() {
            if let Some((key, version)) = self.live.get_key_value(key) {
                show(key, version);
            }
        } else if !range.is_empty() {
            self.live.range::<_, [u8]>(range.bounds()).all(|(key, version)| show(key, version));
        }
    }

    /// Shows every key of the range that was there after `revision`, in order of keys, until `show` says that it has enough. Costs a few searches a key,
    /// whatever its history.
    pub(super) fn each_at(&self, range: &KeyRange, revision: i64, mut show: impl FnMut(&Bytes, &Version) -> bool) {
        if range.is_empty() {
            return;
        }
        let mut from = At { key: Bytes::copy_from_slice(range.start()), place: Place { main: i64::MIN, sub: 0 } };
        while let Some((found, _)) = self.history.get_next(&from) {
            if !range.ends_after(&found.key) {
                return;
            }
            if self.at(&found.key, revision).is_some_and(|version| !show(&found.key, &version)) {
                return;
            }
            from = At { key: found.key.clone(), place: Place { main: i64::MAX, sub: u32::MAX } };
        }
    }

    /// Shows every key that is there.
    pub(super) fn each(&self, show: impl FnMut((&Bytes, &Version))) {
        self.live.iter().for_each(show);
    }

    pub(super) fn put(&mut self, key: &Bytes, version: Version, superseded: &mut Superseded) {
        self.history.insert(At { key: key.clone(), place: version.place }, Some(version));
        if let Some(old) = self.live.insert(key.clone(), version) {
            superseded.queue.push_back((version.place.main, key.clone(), old.place));
        }
    }

    /// The key must be there.
    pub(super) fn delete(&mut self, key: &Bytes, place: Place, superseded: &mut Superseded) {
        self.history.insert(At { key: key.clone(), place }, None);
        if let Some(old) = self.live.remove(key) {
            superseded.queue.push_back((place.main, key.clone(), old.place));
        }
        superseded.tombstones.push((key.clone(), place));
    }

    pub(super) fn forget(&mut self, key: Bytes, place: Place) {
        self.history.remove(&At { key, place });
    }
}

impl Superseded {
    /// No more changes of the revision come.
    pub(super) fn end_revision(&mut self) {
        self.queue.extend(self.tombstones.drain(..).map(|(key, place)| (place.main + 1, key, place)));
    }

    /// The next change that a store compacted at `compacted` need not keep.
    pub(super) fn pop(&mut self, compacted: i64) -> Option<(Bytes, Place)> {
        self.is_due(compacted).then(|| self.queue.pop_front().expect("the front was looked at")).map(|(_, key, place)| (key, place))
    }

    /// How many there are of these.
    pub(super) fn due(&self, compacted: i64) -> usize {
        self.queue.partition_point(|(after, ..)| *after <= compacted)
    }

    /// Whether there is one.
    pub(super) fn is_due(&self, compacted: i64) -> bool {
        self.queue.front().is_some_and(|(after, ..)| *after <= compacted)
    }
}
