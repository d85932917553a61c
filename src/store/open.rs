//! From a database's file to a working snapshot: checks whose it is, makes what is absent, reads the whole log once.

use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use imbl::Vector;
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, StorageBackend, TableError, WriteTransaction};

use super::error::StoreError;
use super::index::{Index, Superseded};
use super::lease::Leases;
use super::log::{FORMAT, LEASES, LOG, Log, META, META_CLUSTER, META_COMPACTED, META_FORMAT, META_MEMBER, META_REVISION};
use super::refusal::Fault;
use super::turn::Working;
use progress::{Progress, Unit};

/// etcd's revision before the first write.
const FIRST_REVISION: i64 = 1;
/// What etcd has as the compacted revision before the first compaction.
const NEVER_COMPACTED: i64 = -1;

/// A store that is open and that nobody uses yet.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) work: Working,
    pub(super) cluster_id: u64,
    pub(super) member_id: u64,
}

/// Opens or makes the database on `backend`; `path` is for the texts.
pub(super) fn open(path: &Path, backend: impl StorageBackend, cache_bytes: usize, now: Instant) -> Result<Opened, StoreError> {
    let wrong = |error: redb::Error| StoreError::database(path, error);
    // The log is read once anyway; so every page's checksum may be looked at too, rather than trusted.
    let database = Database::builder()
        .set_cache_size(cache_bytes)
        .set_check_integrity_on_open(true)
        .create_with_backend(backend)
        .map_err(|error| wrong(error.into()))?;
    let is_new =
        database.begin_read().map_err(|error| wrong(error.into()))?.list_tables().map_err(|error| wrong(error.into()))?.next().is_none();
    if is_new {
        initialise(&database).map_err(wrong)?;
    }
    let (work, ids) = load(&database, now).map_err(|problem| StoreError::corrupt(path, problem))?;
    let [cluster_id, member_id] = ids.map(i64::cast_unsigned);
    Ok(Opened { database, work, cluster_id, member_id })
}

fn initialise(database: &Database) -> Result<(), redb::Error> {
    let txn = database.begin_write()?;
    {
        txn.open_table(LOG)?;
        txn.open_table(LEASES)?;
    }
    identify(&txn, [random_id(), random_id()], FIRST_REVISION, NEVER_COMPACTED)?;
    txn.commit()?;
    Ok(())
}

/// Writes whose store it is, cluster and member, and how far it is.
pub(super) fn identify(txn: &WriteTransaction, [cluster, member]: [i64; 2], revision: i64, compacted: i64) -> Result<(), redb::Error> {
    let mut meta = txn.open_table(META)?;
    for (name, number) in
        [(META_FORMAT, FORMAT), (META_CLUSTER, cluster), (META_MEMBER, member), (META_REVISION, revision), (META_COMPACTED, compacted)]
    {
        meta.insert(name, number)?;
    }
    Ok(())
}

/// Not 0, which is nobody in etcd; positive, since some tools show it as a signed number.
pub(super) fn random_id() -> i64 {
    rand::random_range(1..=i64::MAX)
}

/// What is wrong, in words.
type Problem = String;

fn load(database: &Database, now: Instant) -> Result<(Working, [i64; 2]), Problem> {
    let told = |fault: Fault| fault.text().to_string();
    let read = database.begin_read().map_err(|error| error.to_string())?;
    let absent = |error: TableError| error.to_string();
    let (log, meta, lease_table) =
        (read.open_table(LOG).map_err(absent)?, read.open_table(META).map_err(absent)?, read.open_table(LEASES).map_err(absent)?);
    let number = |name: &str| match meta.get(name) {
        Ok(Some(number)) => Ok(number.value()),
        Ok(None) => Err(format!("it has no {name}")),
        Err(error) => Err(error.to_string()),
    };
    let format = number(META_FORMAT)?;
    if format != FORMAT {
        return Err(format!("its tables are of format {format}, this program knows {FORMAT}"));
    }
    let (revision, compacted) = (number(META_REVISION)?, number(META_COMPACTED)?);
    let (index, superseded, log_bytes) = read_log(&log, revision, log.len().ok()).map_err(told)?;
    let mut leases = Leases::default();
    for entry in lease_table.iter().map_err(|error| error.to_string())? {
        let (id, ttl) = entry.map_err(|error| error.to_string())?;
        leases.restore(id.value(), ttl.value(), now);
    }
    index.each(|(key, version)| leases.attach(version.lease, key));
    let work = Working { index, superseded, leases, revision, compacted, recent: Vector::new(), recent_bytes: 0, log_bytes, quota: 0 };
    Ok((work, [number(META_CLUSTER)?, number(META_MEMBER)?]))
}

/// Every change again, as it was applied; and the bytes of all. There are `count`.
fn read_log(log: &impl Log, revision: i64, count: Option<u64>) -> Result<(Index, Superseded, u64), Fault> {
    let (mut log_bytes, mut read, mut progress) = (0, 0, Progress::new("reading the store", Unit::Changes));
    let (mut index, mut superseded, mut at, mut beyond) = (Index::default(), Superseded::default(), 0, None);
    log.scan(i64::MIN, i64::MAX, |place, record| {
        log_bytes += record.stored_bytes();
        read += 1;
        progress.at(read, count);
        if place.main != at {
            superseded.end_revision();
            at = place.main;
        }
        if place.main > revision {
            beyond = Some(place.main);
        }
        // Keys that are written often share their bytes.
        let key = index.key(record.key).unwrap_or_else(|| Bytes::copy_from_slice(record.key));
        match record.put {
            Some((version, _)) => index.put(&key, version, &mut superseded),
            None => index.delete(&key, place, &mut superseded),
        }
        beyond.is_none()
    })?;
    superseded.end_revision();
    match beyond {
        Some(found) => Err(Fault::broken(format_args!("it has a change of revision {found}, but says that it ends at {revision}"))),
        None => Ok((index, superseded, log_bytes)),
    }
}
