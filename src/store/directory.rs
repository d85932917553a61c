//! The data directory: made, recognised, locked. Knows which files are there, not what is in the database.
//!
//! ```text
//! lock         held as long as the store is open
//! format       one line: whose directory this is and which version; "new" until the database is there, "restoring" until a restore is complete
//! store.redb   the database
//! store.sock   where the commands of this machine reach the store while it is open
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::StoreError;

const LOCK: &str = "lock";
const FORMAT_FILE: &str = "format";
/// Written beside `format`, then renamed over it.
const FORMAT_TEMPORARY: &str = "format.new";
const DATABASE: &str = "store.redb";
/// A database that is being made, by a restore or a defragmentation, to take the place of `store.redb`.
const DATABASE_TEMPORARY: &str = "store.redb.new";
const SOCKET: &str = "store.sock";
/// How the line in `format` begins.
const TITLE: &str = "watchcache store";
/// How it ends before there is a database …
const NEW: &str = "new";
/// … and while a restore makes one.
const RESTORING: &str = "restoring";
/// Layout of the directory and the database.
const VERSION: u64 = 1;
/// Only the owner: there are Secrets in it.
const DIR_MODE: u32 = 0o700;

/// A data directory that is ours alone.
pub(super) struct Directory {
    path: PathBuf,
    /// The lock ends with it.
    _lock: File,
    /// No database was ever finished in it.
    is_new: bool,
    /// It was not there before.
    is_made: bool,
}

impl Directory {
    /// Makes the directory when it is absent, and locks it. A directory of something else is not touched.
    pub(super) fn claim(path: &Path) -> Result<Self, StoreError> {
        let at = |error: io::Error| StoreError::io(path, &error);
        let mut is_made = false;
        let mode = match fs::metadata(path) {
            Ok(found) if !found.is_dir() => return Err(StoreError::Foreign { path: path.to_owned(), found: "it is a file".into() }),
            Ok(found) => found.permissions().mode(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(path).map_err(at)?;
                is_made = true;
                DIR_MODE
            }
            Err(error) => return Err(at(error)),
        };
        recognise(path)?;
        warn_of_others(path, mode);
        let lock = lock(path)?;
        // Under the lock: another process may have been faster.
        let is_new = match recognise(path)? {
            Content::Nothing => true,
            Content::Store => false,
            Content::Restoring => return Err(StoreError::HalfRestored(path.to_owned())),
        };
        let directory = Self { path: path.to_owned(), _lock: lock, is_new, is_made };
        if is_new {
            directory.write_format(NEW).map_err(at)?;
            // A database that was begun and never used.
            remove_if_there(&directory.database()).map_err(at)?;
        } else if !directory.database().is_file() {
            return Err(StoreError::corrupt(path, format_args!("{DATABASE} is not there, but {FORMAT_FILE} says that it was")));
        }
        Ok(directory)
    }

    /// Locks the directory of a store; one that holds none is not changed.
    pub(super) fn claim_existing(path: &Path) -> Result<Self, StoreError> {
        match fs::metadata(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io(path, &error)),
            Ok(found) if found.is_dir() && recognise(path)? != Content::Nothing => Self::claim(path),
            _ => Err(StoreError::Absent(path.to_owned())),
        }
    }

    /// Makes the directory for a restore, or takes an empty one, or one in which a restore was cut off. Until [`Directory::finish`] nobody else opens it.
    pub(super) fn claim_for_restore(path: &Path) -> Result<Self, StoreError> {
        let at = |error: io::Error| StoreError::io(path, &error);
        let is_made = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Ok(found) if !found.is_dir() => return Err(StoreError::Foreign { path: path.to_owned(), found: "it is a file".into() }),
            found => found.map(|_| false).map_err(at)?,
        };
        if is_made {
            make(path).map_err(at)?;
        }
        let free = |content| if content == Content::Store { Err(StoreError::Taken(path.to_owned())) } else { Ok(()) };
        let seen = recognise(path)?;
        if let Content::Store = seen {
            // In use, or only there.
            lock(path)?;
        }
        free(seen)?;
        let lock = lock(path)?;
        free(recognise(path)?)?;
        let directory = Self { path: path.to_owned(), _lock: lock, is_new: true, is_made };
        directory.write_format(RESTORING).map_err(at)?;
        [directory.database(), directory.temporary_database()].iter().try_for_each(|left| remove_if_there(left)).map_err(at)?;
        Ok(directory)
    }

    /// Removes what a restore has made in a directory that has nothing else; the directory too, if it was not there before.
    pub(super) fn clear(self) {
        for name in [DATABASE, DATABASE_TEMPORARY, FORMAT_TEMPORARY, FORMAT_FILE, LOCK] {
            // What is left is told by the error that led here.
            let _ = fs::remove_file(self.path.join(name));
        }
        if self.is_made {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Makes the file of a database that is to take the place of the other one.
    pub(super) fn create_temporary(path: &Path) -> io::Result<File> {
        owned::replace(path, owned::PRIVATE)
    }

    /// Puts the database of a restore into its place: from now on the directory holds a store.
    pub(super) fn put_database(&mut self) -> Result<(), StoreError> {
        let at = |error: io::Error| StoreError::io(&self.path, &error);
        let temporary = self.temporary_database();
        File::open(&temporary).and_then(|file| file.sync_all()).map_err(at)?;
        fs::rename(&temporary, self.database()).map_err(at)?;
        sync_directory(&self.path).map_err(at)?;
        self.finish()
    }

    /// The database's file, readable and writable; made when the directory is new.
    pub(super) fn open_database(&self) -> Result<File, StoreError> {
        let path = self.database();
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let or_made = opened.or_else(|error| match self.is_new && error.kind() == io::ErrorKind::NotFound {
            true => owned::create(&path, owned::PRIVATE),
            false => Err(error),
        });
        or_made.map_err(|error| StoreError::io(&path, &error))
    }

    /// The database is there for good: from now on its absence is a loss. What a process left beside it that was killed is not needed any more.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        remove_if_there(&self.temporary_database()).map_err(|error| StoreError::io(&self.path, &error))?;
        if self.is_new {
            self.write_format("").map_err(|error| StoreError::io(&self.path, &error))?;
            self.is_new = false;
        }
        Ok(())
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    pub(super) fn temporary_database(&self) -> PathBuf {
        temporary_beside(&self.database())
    }

    pub(super) fn socket(&self) -> PathBuf {
        Self::socket_in(&self.path)
    }

    /// Where the store of a directory is reached.
    pub(super) fn socket_in(path: &Path) -> PathBuf {
        path.join(SOCKET)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn write_format(&self, state: &str) -> io::Result<()> {
        let temporary = self.path.join(FORMAT_TEMPORARY);
        let mut file = owned::replace(&temporary, owned::PRIVATE)?;
        let line = [TITLE, &VERSION.to_string(), state].join(" ");
        writeln!(file, "{}", line.trim_end())?;
        file.sync_all()?;
        fs::rename(&temporary, self.path.join(FORMAT_FILE))?;
        sync_directory(&self.path)
    }
}

impl Drop for Directory {
    /// While nobody else can have the directory: the next one makes its own socket there.
    fn drop(&mut self) {
        let _ = fs::remove_file(self.socket());
    }
}

/// What is in a directory of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// It waits for its first database.
    Nothing,
    Store,
    /// A restore is at work, or was cut off.
    Restoring,
}

/// Takes the lock of a directory.
fn lock(path: &Path) -> Result<File, StoreError> {
    let at = |error: io::Error| StoreError::io(path, &error);
    let lock = owned::lock_file(&path.join(LOCK)).map_err(at)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(at(error)),
    }
}

/// Says what is in the directory; refuses one of somebody else.
fn recognise(path: &Path) -> Result<Content, StoreError> {
    let at = |error: io::Error| StoreError::io(path, &error);
    let text = match fs::read_to_string(path.join(FORMAT_FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return only_ours(path).map_err(at)?,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(foreign(path, FORMAT_FILE)),
        Err(error) => return Err(at(error)),
    };
    let rest = text.trim_end().strip_prefix(TITLE).ok_or_else(|| foreign(path, FORMAT_FILE))?;
    let mut words = rest.split_whitespace();
    let version: u64 = words.next().and_then(|word| word.parse().ok()).ok_or_else(|| foreign(path, FORMAT_FILE))?;
    if version > VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found: version, known: VERSION });
    }
    Ok(match words.next() {
        Some(NEW) => Content::Nothing,
        Some(RESTORING) => Content::Restoring,
        _ => Content::Store,
    })
}

/// Without a format: nothing but what we make before it.
fn only_ours(path: &Path) -> io::Result<Result<Content, StoreError>> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if name != LOCK && name != FORMAT_TEMPORARY {
            return Ok(Err(foreign(path, &name.to_string_lossy())));
        }
    }
    Ok(Ok(Content::Nothing))
}

fn foreign(path: &Path, name: &str) -> StoreError {
    StoreError::Foreign { path: path.to_owned(), found: format!("{name:?}") }
}

fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(path)?;
    sync_parent(path)
}

/// Where a database is made that is to take the place of this one.
pub(super) fn temporary_beside(database: &Path) -> PathBuf {
    database.with_file_name(DATABASE_TEMPORARY)
}

/// Bytes that the disk of a file or directory has left for us.
pub(super) fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// What has a new name keeps it after a power loss.
pub(super) fn sync_parent(file: &Path) -> io::Result<()> {
    match file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => sync_directory(parent),
        None => sync_directory(Path::new(".")),
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn warn_of_others(path: &Path, mode: u32) {
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), mode = format!("{:o}", mode & 0o777), "other users may read the data directory: run chmod 700 on it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &Path) -> String {
        match Directory::claim(path) {
            Ok(_) => "claimed".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_absent_one_is_made_for_the_owner_alone() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("a/b");
        let mut directory = Directory::claim(&path).expect("made");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o700);
        assert!(refusal(&path).contains("in use by another process"));
        directory.open_database().expect("made");
        directory.finish().expect("written");
        drop(directory);
        assert_eq!(refusal(&path), "claimed");
        fs::remove_file(path.join(DATABASE)).expect("there");
        assert!(refusal(&path).contains("store.redb is not there"));
    }

    #[test]
    fn a_begun_one_begins_anew() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let directory = Directory::claim(place.path()).expect("empty");
        fs::write(directory.database(), "half").expect("written");
        drop(directory);
        let directory = Directory::claim(place.path()).expect("never finished");
        assert!(!directory.database().exists());
    }

    #[test]
    fn what_is_not_ours_is_not_touched() {
        let place = tempfile::tempdir().expect("a temporary directory");
        for (name, text, want) in [
            ("letter.txt", "hello", "not empty and not a store of ours (\"letter.txt\")"),
            (FORMAT_FILE, "etcd 3", "not a store of ours"),
            (FORMAT_FILE, "watchcache store 2", "its format is 2, this program knows only up to 1"),
        ] {
            let path = place.path().join(name);
            fs::write(&path, text).expect("written");
            let line = refusal(place.path());
            assert!(line.contains(want) && !line.contains('\n'), "{line}");
            assert_eq!(fs::read_dir(place.path()).expect("there").count(), 1, "nothing was made beside {name}");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
            fs::remove_file(path).expect("there");
        }
        let file = place.path().join("file");
        fs::write(&file, "").expect("written");
        assert!(refusal(&file).contains("it is a file"));
    }
}
