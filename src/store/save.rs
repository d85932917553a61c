//! `watchcache store backup`: asks a store for a snapshot and writes it into a file, which has its name only when it is whole, checked and synced.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::archive::{ArchiveReader, Part, Unusable};
use super::directory;
use super::error::StoreError;
use super::remote::Remote;
use progress::{Progress, Unit};

/// What is beside the file until it is whole, as etcdctl calls it.
const PART: &str = ".part";
/// Bytes of the file that are read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// What a backup has in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The revision that it is of.
    pub revision: i64,
    /// Keys.
    pub keys: u64,
    /// Leases.
    pub leases: u64,
    /// The store's cluster id.
    pub cluster_id: u64,
    /// Seconds since 1970 at which it was made.
    pub made_at: u64,
    /// The file's size.
    pub bytes: u64,
}

/// Writes a backup of a store into `file`, which is replaced when the new one is complete.
///
/// # Errors
/// In one line; the file is then as it was.
pub async fn save(store: &mut Remote, file: &Path) -> Result<Backup, StoreError> {
    let at = |error: io::Error| StoreError::backup(file, error);
    let part = Unfinished::create(file).map_err(at)?;
    receive(store, file, &part).await?;
    part.file.sync_all().map_err(at)?;
    // As it is in the file, not as it came.
    let backup = check_backup(&part.path)?;
    part.keep(file).map_err(at)?;
    Ok(backup)
}

async fn receive(store: &mut Remote, file: &Path, part: &Unfinished) -> Result<(), StoreError> {
    let mut pieces = store.snapshot().await?;
    let (mut done, mut out, mut progress) = (0, &part.file, Progress::new("saving", Unit::Bytes));
    while let Some(piece) = pieces.message().await.map_err(|status| store.refused(&status))? {
        if done == 0 {
            room(file, &part.path, piece.remaining_bytes)?;
        }
        out.write_all(&piece.blob).map_err(|error| StoreError::backup(file, error))?;
        done += piece.blob.len() as u64;
        progress.at(done, Some(done + piece.remaining_bytes));
    }
    Ok(())
}

/// Writes a backup of a store to somebody who keeps it: whether it is whole, only he can say ([`check_backup`]).
///
/// # Errors
/// In one line; what was written is worth nothing then.
pub async fn send(store: &mut Remote, mut to: impl Write) -> Result<(), StoreError> {
    let gone = |error: io::Error| StoreError::backup(Path::new("-"), error);
    let mut pieces = store.snapshot().await?;
    let (mut done, mut progress) = (0, Progress::new("saving", Unit::Bytes));
    while let Some(piece) = pieces.message().await.map_err(|status| store.refused(&status))? {
        to.write_all(&piece.blob).map_err(gone)?;
        done += piece.blob.len() as u64;
        progress.at(done, Some(done + piece.remaining_bytes));
    }
    to.flush().map_err(gone)
}

/// Refuses what would fill the disk, on which the store itself may be.
fn room(file: &Path, part: &Path, bytes: u64) -> Result<(), StoreError> {
    let Ok(free) = directory::free_bytes(part) else { return Ok(()) };
    match bytes > free {
        true => Err(StoreError::backup(file, format_args!("it may need {bytes} bytes, and the disk has only {free} left"))),
        false => Ok(()),
    }
}

/// Reads all of a backup and says what is in it.
///
/// # Errors
/// Why it cannot be used.
pub fn check_backup(file: &Path) -> Result<Backup, StoreError> {
    read_backup(file, "checking", |_| Ok(()))
}

/// Shows all parts of a backup. Only when this returns is it sure that they are what was saved.
pub(super) fn read_backup(
    file: &Path,
    what: &'static str,
    mut show: impl FnMut(Part<'_>) -> Result<(), StoreError>,
) -> Result<Backup, StoreError> {
    let unusable = |error: Unusable| StoreError::backup(file, error);
    let from = File::open(file).map_err(|error| unusable(error.into()))?;
    let total = from.metadata().map_err(|error| unusable(error.into()))?.len();
    let mut archive = ArchiveReader::begin(io::BufReader::with_capacity(BUFFER_BYTES, from)).map_err(unusable)?;
    let head = *archive.head();
    let mut progress = Progress::new(what, Unit::Bytes);
    while let Some(part) = archive.next().map_err(unusable)? {
        show(part)?;
        progress.at(archive.bytes(), Some(total));
    }
    Ok(Backup {
        revision: head.revision,
        keys: head.keys,
        leases: head.leases,
        cluster_id: head.cluster_id,
        made_at: head.made_at,
        bytes: archive.bytes(),
    })
}

/// The file while it is not whole; removed unless it is kept.
struct Unfinished {
    file: File,
    path: PathBuf,
}

impl Unfinished {
    /// Creates it, in the place of one that a killed backup has left; not of one that is being written, nor of what somebody else has prepared.
    fn create(file: &Path) -> io::Result<Self> {
        let mut path = file.as_os_str().to_owned();
        path.push(PART);
        let path = PathBuf::from(path);
        // Its lock is held until the new one has its own.
        let left = owned::left(&path)?;
        if let Some(left) = &left {
            lock(left, &path)?;
        }
        let file = owned::replace(&path, owned::PRIVATE)?;
        lock(&file, &path)?;
        Ok(Self { file, path })
    }

    fn keep(mut self, file: &Path) -> io::Result<()> {
        fs::rename(&self.path, file)?;
        self.path.clear();
        directory::sync_parent(file)
    }
}

/// Locks a file that is to stay at its path.
fn lock(file: &File, path: &Path) -> io::Result<()> {
    let busy = || io::Error::other(format!("another process is making it: {}", path.display()));
    match file.try_lock() {
        Ok(()) if owned::is_at(file, path) => Ok(()),
        Ok(()) | Err(TryLockError::WouldBlock) => Err(busy()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            // What is left is overwritten by the next one.
            let _ = fs::remove_file(&self.path);
        }
    }
}
