//! A defragmentation: the tables are copied into a new file, which takes the place of the old one. The store goes on meanwhile: the copy is made of what is
//! published, then of what came since, and only the last bit of that while the writer waits.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{Database, Durability, ReadableTable};

use super::directory::{self, Directory};
use super::log::{LEASES, LOG, Place, Record, stored_bytes};
use super::open::identify;
use super::refusal::{Fault, Refusal};
use super::state::{Shared, State};
use super::writer::What;
use progress::{Progress, Unit};

/// Bytes of changes in one commit.
const COMMIT_BYTES: usize = 32 << 20;
/// Revisions that the writer may copy, while it does nothing else.
const LAST_REVISIONS_MAX: i64 = 500;
/// How often what came since is copied beside the writer: each round is shorter than the one before, or the store is written to faster than it is copied.
const ROUNDS_MAX: u32 = 20;

/// A database that has everything up to a revision.
pub(super) struct Copy {
    database: Database,
    file: Temporary,
    /// 0: nothing yet.
    revision: i64,
    progress: Progress,
    /// Bytes of changes that are copied, and about how many there are.
    copied: u64,
    bytes: u64,
    /// Those of them that a later change had replaced when they were copied.
    history: u64,
}

/// The file of a copy, removed unless it takes the place of the store's.
struct Temporary {
    path: PathBuf,
    is_kept: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_kept {
            // What is left goes at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Why a copy did not take the place of the store's file.
pub(super) enum Unswapped {
    /// That file goes on as before.
    Kept(Arc<str>),
    /// Nobody knows which of both a crash would leave.
    Unsure(Fault),
}

/// Makes a new file of a store that has one; returns how many bytes of it are history, which the next compaction removes. Does not end with the client
/// that asked for it.
pub(super) async fn run(shared: Arc<Shared>) -> Result<Option<u64>, Refusal> {
    let Some(file) = shared.file.clone() else { return Ok(None) };
    let _turn = shared.defragmentations.clone().acquire_owned().await.map_err(|_| Refusal::closed())?;
    let cache_bytes = shared.cache_bytes;
    // What is compacted already is removed first. From then on nothing is removed from the log, so that the copy has what the log has.
    shared.ask(1, |reply| What::Sweep(false, reply)).await?;
    let copied = copy(&shared, file, cache_bytes).await;
    let swapped = match copied {
        Ok(copy) => shared.ask(1, |reply| What::Swap(Box::new(copy), reply)).await,
        Err(error) => Err(error),
    };
    shared.ask(1, |reply| What::Sweep(true, reply)).await?;
    swapped.map(Some)
}

async fn copy(shared: &Arc<Shared>, file: PathBuf, cache_bytes: usize) -> Result<Copy, Refusal> {
    let shared = shared.clone();
    let copying = tokio::task::spawn_blocking(move || {
        let mut copy = Copy::begin(&file, shared.size().in_use, cache_bytes)?;
        for _ in 0..ROUNDS_MAX {
            let state = shared.state()?;
            if copy.revision > 0 && state.revision - copy.revision <= LAST_REVISIONS_MAX {
                break;
            }
            copy.add(&state)?;
        }
        Ok(copy)
    });
    match copying.await {
        Ok(Ok(copy)) => Ok(copy),
        Ok(Err(Fault::Refused(refusal))) => Err(refusal),
        // The file that was being made; the store's own is well as far as anybody knows.
        Ok(Err(fault)) => Err(Refusal::NotDefragmented(fault.text())),
        Err(_) => Err(Refusal::NotDefragmented("it has ended by a fault of its own".into())),
    }
}

impl Copy {
    fn begin(file: &Path, bytes: u64, cache_bytes: usize) -> Result<Self, Fault> {
        let path = directory::temporary_beside(file);
        // A disk that is full ends the writes of the store itself.
        let (needed, free) = (bytes + bytes / 4 + COMMIT_BYTES as u64, directory::free_bytes(file).map_err(redb::StorageError::Io)?);
        if free < needed {
            return Err(Refusal::NotDefragmented(format!("it may need {needed} bytes, and the disk has only {free} left").into()).into());
        }
        let created = Directory::create_temporary(&path).map_err(redb::StorageError::Io)?;
        let file = Temporary { path, is_kept: false };
        let backend = FileBackend::new(created).map_err(Fault::storage)?;
        let database = Database::builder().set_cache_size(cache_bytes).create_with_backend(backend).map_err(Fault::storage)?;
        let progress = Progress::new("defragmenting the store", Unit::Bytes);
        Ok(Self { database, file, revision: 0, progress, copied: 0, bytes, history: 0 })
    }

    /// Adds the changes up to a snapshot.
    fn add(&mut self, state: &State) -> Result<(), Fault> {
        let mut from = (self.revision + 1, 0);
        let end = (state.revision + 1, 0);
        while from < end {
            let mut txn = self.database.begin_write().map_err(Fault::storage)?;
            txn.set_durability(Durability::Immediate).map_err(Fault::broken)?;
            let mut bytes = 0;
            {
                let mut log = txn.open_table(LOG)?;
                let mut next = end;
                for entry in state.log.range(from..end)? {
                    let (at, record) = entry?;
                    if bytes >= COMMIT_BYTES {
                        next = at.value();
                        break;
                    }
                    log.insert(at.value(), record.value())?;
                    if !is_newest(state, at.value(), record.value()) {
                        self.history += stored_bytes(record.value());
                    }
                    bytes += record.value().len();
                    self.copied += record.value().len() as u64;
                    self.progress.at(self.copied, Some(self.bytes));
                }
                from = next;
            }
            txn.commit().map_err(Fault::storage)?;
        }
        self.revision = state.revision;
        Ok(())
    }

    /// Adds what is missing and gives the copy the place of the file: only the writer may, between two commits. Returns what the store is in then, and
    /// how many bytes of it are history.
    pub(super) fn complete(mut self, state: &State, ids: [u64; 2], file: &Path) -> Result<(Database, u64), Unswapped> {
        let kept = |fault: Fault| Unswapped::Kept(fault.text());
        self.add(state).map_err(kept)?;
        self.finish(state, ids).map_err(kept)?;
        fs::rename(&self.file.path, file).map_err(|error| Unswapped::Kept(error.to_string().into()))?;
        self.file.is_kept = true;
        directory::sync_parent(file).map_err(|error| Unswapped::Unsure(redb::StorageError::Io(error).into()))?;
        Ok((self.database, self.history))
    }

    fn finish(&self, state: &State, ids: [u64; 2]) -> Result<(), Fault> {
        let mut txn = self.database.begin_write().map_err(Fault::storage)?;
        txn.set_durability(Durability::Immediate).map_err(Fault::broken)?;
        {
            // There even when it is empty.
            txn.open_table(LOG)?;
            let mut leases = txn.open_table(LEASES)?;
            for entry in state.leases.iter()? {
                let (id, ttl) = entry?;
                leases.insert(id.value(), ttl.value())?;
            }
        }
        identify(&txn, ids.map(u64::cast_signed), state.revision, state.compacted).map_err(Fault::storage)?;
        txn.commit().map_err(Fault::storage)
    }
}

/// Whether a record has the newest value of its key.
fn is_newest(state: &State, (main, sub): (i64, u32), record: &[u8]) -> bool {
    let place = Place { main, sub };
    Record::decode(place, record).is_some_and(|record| state.index.live(record.key).is_some_and(|newest| newest.place == place))
}
