//! `watchcache store restore`: a new data directory from a backup. Its revisions begin so far above those of the backup that none is seen twice,
//! and all before are compacted: whoever knew the old store has to list anew.

use std::path::Path;
use std::time::Instant;

use redb::backends::FileBackend;
use redb::{Database, Durability};

use super::archive::Part;
use super::directory::Directory;
use super::error::StoreError;
use super::log::{LEASES, LOG};
use super::open::{self, identify, random_id};
use super::save::{Backup, check_backup, read_backup};

/// Bytes of changes in one commit.
const COMMIT_BYTES: usize = 32 << 20;
/// Pages kept in memory while it is written and checked.
const CACHE_BYTES: usize = 64 << 20;

/// Makes the data directory `dir` from a backup; its revision is `bump` above the backup's. Returns what was in the backup, and the new revision.
///
/// # Errors
/// In one line; the directory is then as it was.
pub fn restore(file: &Path, dir: &Path, bump: u64) -> Result<(Backup, i64), StoreError> {
    restore_in_commits(file, dir, bump, COMMIT_BYTES)
}

/// The same with so many bytes of changes in one commit.
pub(super) fn restore_in_commits(file: &Path, dir: &Path, bump: u64, commit_bytes: usize) -> Result<(Backup, i64), StoreError> {
    // Before anything is made; it is looked at again while it is restored.
    let backup = check_backup(file)?;
    let revision = i64::try_from(bump).ok().and_then(|bump| backup.revision.checked_add(bump)).filter(|revision| *revision < REVISION_MAX);
    let revision =
        revision.ok_or_else(|| StoreError::backup(file, format_args!("{} and {bump} are no revision together", backup.revision)))?;
    let mut directory = Directory::claim_for_restore(dir)?;
    match fill(file, &mut directory, revision, commit_bytes) {
        Ok(()) => Ok((backup, revision)),
        Err(error) => {
            directory.clear();
            Err(error)
        }
    }
}

/// Clients keep revisions in signed and unsigned numbers, and add to them.
const REVISION_MAX: i64 = i64::MAX / 2;

fn fill(file: &Path, directory: &mut Directory, revision: i64, commit_bytes: usize) -> Result<(), StoreError> {
    let temporary = directory.temporary_database();
    let wrong = |error: redb::Error| StoreError::database(&temporary, error);
    let created = Directory::create_temporary(&temporary).map_err(|error| StoreError::io(&temporary, &error))?;
    let backend = FileBackend::new(created).map_err(|error| wrong(error.into()))?;
    let database = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend).map_err(|error| wrong(error.into()))?;
    let backup = write(file, &database, revision, commit_bytes, &wrong)?;
    drop(database);
    check(&temporary, revision, &backup)?;
    directory.put_database()?;
    Ok(())
}

fn write(
    file: &Path,
    database: &Database,
    revision: i64,
    commit_bytes: usize,
    wrong: &impl Fn(redb::Error) -> StoreError,
) -> Result<Backup, StoreError> {
    let begin = || -> Result<redb::WriteTransaction, redb::Error> {
        let mut txn = database.begin_write()?;
        txn.set_durability(Durability::Immediate)?;
        Ok(txn)
    };
    // None only between two: a second one waits for the end of the first.
    let mut txn = Some(begin().map_err(wrong)?);
    let mut bytes = 0;
    let backup = read_backup(file, "restoring", |part| {
        let open = txn.as_ref().expect("one is open between two parts");
        let put = || -> Result<usize, redb::Error> {
            Ok(match part {
                Part::Lease { id, ttl } => {
                    open.open_table(LEASES)?.insert(id, ttl)?;
                    0
                }
                Part::Change { place, record } => {
                    let record = record.encode();
                    open.open_table(LOG)?.insert((place.main, place.sub), &record[..])?;
                    record.len()
                }
            })
        };
        bytes += put().map_err(wrong)?;
        if bytes >= commit_bytes
            && let Some(full) = txn.take()
        {
            full.commit().map_err(|error| wrong(error.into()))?;
            bytes = 0;
            txn = Some(begin().map_err(wrong)?);
        }
        Ok(())
    })?;
    let txn = txn.expect("one is open after the last part");
    let end = || -> Result<(), redb::Error> {
        // An empty backup has opened neither.
        txn.open_table(LOG)?;
        txn.open_table(LEASES)?;
        // Another store than the one that was saved, for whoever asks: as etcd does it.
        identify(&txn, [random_id(), random_id()], revision, revision)?;
        Ok(txn.commit()?)
    };
    end().map_err(wrong)?;
    Ok(backup)
}

/// Opens it as a server will, and compares what is in it.
fn check(temporary: &Path, revision: i64, backup: &Backup) -> Result<(), StoreError> {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(temporary).map_err(|error| StoreError::io(temporary, &error))?;
    let backend = FileBackend::new(file).map_err(|error| StoreError::database(temporary, error.into()))?;
    let opened = open::open(temporary, backend, CACHE_BYTES, Instant::now())?;
    let found = (opened.work.revision, opened.work.index.count() as u64, opened.work.leases.ids().len() as u64);
    if found != (revision, backup.keys, backup.leases) {
        return Err(StoreError::corrupt(
            temporary,
            format_args!("it has {found:?} and should have {:?}", (revision, backup.keys, backup.leases)),
        ));
    }
    Ok(())
}
