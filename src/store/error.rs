//! Why a store does not open, or is not saved or restored. Each error is one line for a person, and nothing has been overwritten.

use std::io;
use std::path::{Path, PathBuf};

/// See the file's header.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory holds something else.
    #[error("data directory {}: it is not empty and not a store of ours ({found}); name another directory", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// What is there instead.
        found: String,
    },
    /// A newer program wrote it.
    #[error("data directory {}: its format is {found}, this program knows only up to {known}; use a newer program", path.display())]
    Newer {
        /// The directory.
        path: PathBuf,
        /// The version on disk.
        found: u64,
        /// Ours.
        known: u64,
    },
    /// Another process, or another store of this one, has it open.
    #[error("data directory {}: in use by another process", .0.display())]
    Locked(PathBuf),
    /// The file system or the permissions let nobody write.
    #[error("data directory {}: cannot be written: {problem}", path.display())]
    ReadOnly {
        /// The directory or file.
        path: PathBuf,
        /// The system's words.
        problem: String,
    },
    /// What is there cannot be trusted.
    #[error("data directory {}: damaged: {problem}; restore it from a backup, nothing has been changed", path.display())]
    Corrupt {
        /// The directory.
        path: PathBuf,
        /// What was found.
        problem: String,
    },
    /// Any other failure of the system.
    #[error("data directory {}: {problem}", path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// The system's words.
        problem: String,
    },
    /// There is no store in it.
    #[error("data directory {}: there is no store in it", .0.display())]
    Absent(PathBuf),
    /// A restore would have to overwrite what is there.
    #[error("data directory {}: there is a store in it already; name another directory, or move it away", .0.display())]
    Taken(PathBuf),
    /// A restore did not come to its end.
    #[error("data directory {}: a restore into it was cut off; restore once more", .0.display())]
    HalfRestored(PathBuf),
    /// It was closed meanwhile.
    #[error("{0}")]
    Closed(String),
    /// Another process has it open and cannot be reached.
    #[error("data directory {}: in use by another process, which has no socket there ({}); name where it listens (--endpoint), or stop it", path.display(), socket.display())]
    Hidden {
        /// The directory.
        path: PathBuf,
        /// Where its socket should be.
        socket: PathBuf,
    },
    /// A running store does not answer.
    #[error("the store at {address}: {problem}")]
    Unreachable {
        /// Where it should be.
        address: String,
        /// What was said instead.
        problem: String,
    },
    /// A backup cannot be made or used.
    #[error("backup {}: {problem}", path.display())]
    Backup {
        /// The backup.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// No thread for the writer.
    #[error("the store's writer cannot start: {0}")]
    Thread(io::Error),
}

impl StoreError {
    pub(super) fn io(path: &Path, error: &io::Error) -> Self {
        let (path, problem) = (path.to_owned(), error.to_string());
        match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Self::ReadOnly { path, problem },
            _ => Self::Io { path, problem },
        }
    }

    pub(super) fn backup(path: &Path, problem: impl std::fmt::Display) -> Self {
        Self::Backup { path: path.to_owned(), problem: one_line(&problem.to_string()) }
    }

    pub(super) fn corrupt(path: &Path, problem: impl std::fmt::Display) -> Self {
        Self::Corrupt { path: path.to_owned(), problem: one_line(&problem.to_string()) }
    }

    /// From what redb says of a file.
    pub(super) fn database(path: &Path, error: redb::Error) -> Self {
        match error {
            redb::Error::DatabaseAlreadyOpen => Self::Locked(path.to_owned()),
            // redb says InvalidData of a file that is none of its own.
            redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => Self::corrupt(path, error),
            redb::Error::Io(error) => Self::io(path, &error),
            error => Self::corrupt(path, error),
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
