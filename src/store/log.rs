//! The tables on disk, and how a change is written into one.

use bytes::Bytes;
use redb::{ReadableTable, TableDefinition};

use super::refusal::Fault;

/// Every change that still counts, by revision and its place within it.
pub(super) const LOG: TableDefinition<(i64, u32), &[u8]> = TableDefinition::new("log");
/// Numbers of the whole store, by the names below.
pub(super) const META: TableDefinition<&str, i64> = TableDefinition::new("meta");
/// Lease id → time to live in seconds.
pub(super) const LEASES: TableDefinition<i64, i64> = TableDefinition::new("leases");

/// The layout of the tables.
pub(super) const FORMAT: i64 = 1;
pub(super) const META_FORMAT: &str = "format";
/// As bits.
pub(super) const META_CLUSTER: &str = "cluster_id";
/// As bits.
pub(super) const META_MEMBER: &str = "member_id";
/// Not to be had from the log: the newest changes may be compacted away.
pub(super) const META_REVISION: &str = "revision";
pub(super) const META_COMPACTED: &str = "compacted";

const TOMBSTONE: u8 = 0;
const PUT: u8 = 1;
/// Kind, three numbers, length of the key.
const HEAD: usize = 1 + 3 * 8 + 4;

/// Bytes of a place as a key of the log.
const PLACE_BYTES: u64 = 8 + 4;

/// What a change takes in the log, without what pages and trees add to it.
pub(super) fn stored_bytes(record: &[u8]) -> u64 {
    PLACE_BYTES + record.len() as u64
}

/// Where a change is: etcd's revision pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) main: i64,
    pub(super) sub: u32,
}

/// A value of a key, without the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) place: Place,
    /// Revision of the key's creation.
    pub(super) created: i64,
    /// 1 at creation, one more with each put.
    pub(super) number: i64,
    /// 0 = none.
    pub(super) lease: i64,
    /// Bytes of the value.
    pub(super) bytes: u32,
}

/// One change, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) key: &'a [u8],
    /// `None`: the key was deleted.
    pub(super) put: Option<(Version, &'a [u8])>,
}

/// One change in memory, for watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) key: Bytes,
    /// `None`: the key was deleted.
    pub(super) put: Option<(Version, Bytes)>,
}

impl Event {
    pub(super) fn bytes(&self) -> usize {
        self.key.len() + self.put.as_ref().map_or(0, |(_, value)| value.len())
    }
}

impl<'a> Record<'a> {
    /// What it takes in the log.
    pub(super) fn stored_bytes(&self) -> u64 {
        let bytes = self.put.map_or(1 + self.key.len(), |(_, value)| HEAD + self.key.len() + value.len());
        PLACE_BYTES + bytes as u64
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let Some((version, value)) = self.put else {
            return [&[TOMBSTONE], self.key].concat();
        };
        let mut bytes = Vec::with_capacity(HEAD + self.key.len() + value.len());
        bytes.push(PUT);
        for number in [version.created, version.number, version.lease] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(u32::try_from(self.key.len()).expect("a request is far below 4 GiB").to_be_bytes());
        bytes.extend(self.key);
        bytes.extend(value);
        bytes
    }

    /// `None`: not written by us.
    pub(super) fn decode(place: Place, bytes: &'a [u8]) -> Option<Self> {
        match bytes.split_first()? {
            (&TOMBSTONE, key) => Some(Self { key, put: None }),
            (&PUT, rest) => {
                let (created, rest) = rest.split_first_chunk()?;
                let (number, rest) = rest.split_first_chunk()?;
                let (lease, rest) = rest.split_first_chunk()?;
                let (length, rest) = rest.split_first_chunk()?;
                let (key, value) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
                let [created, number, lease] = [created, number, lease].map(|bytes| i64::from_be_bytes(*bytes));
                let bytes = u32::try_from(value.len()).ok()?;
                Some(Self { key, put: Some((Version { place, created, number, lease, bytes }, value)) })
            }
            _ => None,
        }
    }

    pub(super) fn to_event(self) -> Event {
        Event { key: Bytes::copy_from_slice(self.key), put: self.put.map(|(version, value)| (version, Bytes::copy_from_slice(value))) }
    }
}

/// The log, in a read transaction or in the one that writes.
pub(super) trait Log {
    /// The value written at a place that the index knows.
    fn value(&self, place: Place) -> Result<Vec<u8>, Fault>;

    /// Shows the changes of `[from, to)` in order, until `show` says that it has enough.
    fn scan(&self, from: i64, to: i64, show: impl FnMut(Place, Record<'_>) -> bool) -> Result<(), Fault>;
}

impl<T: ReadableTable<(i64, u32), &'static [u8]>> Log for T {
    fn value(&self, place: Place) -> Result<Vec<u8>, Fault> {
        let found = self.get((place.main, place.sub))?;
        let bytes = found.as_ref().map(|guard| guard.value());
        match bytes.and_then(|bytes| Record::decode(place, bytes)).and_then(|record| record.put) {
            Some((_, value)) => Ok(value.to_vec()),
            None => Err(Fault::broken(format_args!("the log has no value at {}.{}, but the index does", place.main, place.sub))),
        }
    }

    fn scan(&self, from: i64, to: i64, mut show: impl FnMut(Place, Record<'_>) -> bool) -> Result<(), Fault> {
        for entry in self.range((from, 0)..(to, 0))? {
            let (key, bytes) = entry?;
            let (main, sub) = key.value();
            let place = Place { main, sub };
            let record = Record::decode(place, bytes.value())
                .ok_or_else(|| Fault::broken(format_args!("the log has a record at {main}.{sub} that cannot be read")))?;
            if !show(place, record) {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(key in ".{1,40}", value in ".{0,80}", created in 1_i64.., number in 1_i64.., lease: i64, put: bool) {
            let place = Place { main: created, sub: 3 };
            let version = Version { place, created, number, lease, bytes: value.len() as u32 };
            let record = Record { key: key.as_bytes(), put: put.then_some((version, value.as_bytes())) };
            let written = record.encode();
            prop_assert_eq!(Record::decode(place, &written), Some(record));
            prop_assert_eq!(record.stored_bytes(), stored_bytes(&written));
        }

        #[test]
        fn junk_is_no_panic(bytes: Vec<u8>) {
            let _ = Record::decode(Place::default(), &bytes);
        }
    }
}
