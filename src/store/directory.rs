//! The data directory: made, recognised, locked. Knows which files are there, not what is in the database.
//!
//! ```text
//! lock         held as long as the store is open
//! format       one line: whose directory this is and which version; "new" until the database is there
//! store.redb   the database
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::StoreError;

const LOCK: &str = "lock";
const FORMAT_FILE: &str = "format";
/// Written beside `format`, then renamed over it.
const FORMAT_TEMPORARY: &str = "format.new";
const DATABASE: &str = "store.redb";
/// How the line in `format` begins.
const TITLE: &str = "watchcache store";
/// Layout of the directory and the database.
const VERSION: u64 = 1;
/// Only the owner: there are Secrets in it.
const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A data directory that is ours alone.
pub(super) struct Directory {
    path: PathBuf,
    /// The lock ends with it.
    _lock: File,
    /// No database was ever finished in it.
    is_new: bool,
}

impl Directory {
    /// Makes the directory when it is absent, and locks it. A directory of something else is not touched.
    pub(super) fn claim(path: &Path) -> Result<Self, StoreError> {
        let at = |error: io::Error| StoreError::io(path, &error);
        let mode = match fs::metadata(path) {
            Ok(found) if !found.is_dir() => return Err(StoreError::Foreign { path: path.to_owned(), found: "it is a file".into() }),
            Ok(found) => found.permissions().mode(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(path).map_err(at)?;
                DIR_MODE
            }
            Err(error) => return Err(at(error)),
        };
        recognise(path)?;
        warn_of_others(path, mode);
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(path.join(LOCK)).map_err(at)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::Locked(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(at(error)),
        }
        // Under the lock: another process may have been faster.
        let is_new = recognise(path)?;
        let directory = Self { path: path.to_owned(), _lock: lock, is_new };
        if is_new {
            directory.write_format(" new").map_err(at)?;
            // A database that was begun and never used.
            remove_if_there(&directory.database()).map_err(at)?;
        } else if !directory.database().is_file() {
            return Err(StoreError::corrupt(path, format_args!("{DATABASE} is not there, but {FORMAT_FILE} says that it was")));
        }
        Ok(directory)
    }

    /// The database's file, readable and writable; made when the directory is new.
    pub(super) fn open_database(&self) -> Result<File, StoreError> {
        let path = self.database();
        let opened = OpenOptions::new().read(true).write(true).create(self.is_new).truncate(false).mode(FILE_MODE).open(&path);
        opened.map_err(|error| StoreError::io(&path, &error))
    }

    /// The database is there for good: from now on its absence is a loss.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        if self.is_new {
            self.write_format("").map_err(|error| StoreError::io(&self.path, &error))?;
            self.is_new = false;
        }
        Ok(())
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn write_format(&self, suffix: &str) -> io::Result<()> {
        let temporary = self.path.join(FORMAT_TEMPORARY);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&temporary)?;
        writeln!(file, "{TITLE} {VERSION}{suffix}")?;
        file.sync_all()?;
        fs::rename(&temporary, self.path.join(FORMAT_FILE))?;
        sync_directory(&self.path)
    }
}

/// Whether the directory waits for its first database; refuses one of somebody else.
fn recognise(path: &Path) -> Result<bool, StoreError> {
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
    Ok(words.next() == Some("new"))
}

/// Without a format: nothing but what we make before it.
fn only_ours(path: &Path) -> io::Result<Result<bool, StoreError>> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if name != LOCK && name != FORMAT_TEMPORARY {
            return Ok(Err(foreign(path, &name.to_string_lossy())));
        }
    }
    Ok(Ok(true))
}

fn foreign(path: &Path, name: &str) -> StoreError {
    StoreError::Foreign { path: path.to_owned(), found: format!("{name:?}") }
}

fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(path)?;
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => sync_directory(parent),
        None => sync_directory(Path::new(".")),
    }
}

/// What is named in it stays named after a power loss.
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
