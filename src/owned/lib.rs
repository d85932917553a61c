//! Files of this program in directories where others may write, too. A file is created anew, for its owner only, and never through a name that somebody else
//! has prepared: no symbolic link is followed, no FIFO or device is opened, and a file of another user is refused with its name.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// Only the owner may read and write.
pub const PRIVATE: u32 = 0o600;

/// What every open has: a symbolic link at the end of the path is an error, and nothing waits for the other end of a FIFO.
const SAFE: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();

/// Creates a file; what is there already is an error.
///
/// # Errors
/// The name is taken, or the file cannot be created.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(PRIVATE).custom_flags(SAFE).open(path)?;
    // The process's umask has no say, and the name may belong to another file by now.
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// Creates a file in the place of one that an earlier process of this user has left. The old file itself is not written to.
///
/// # Errors
/// What is there is not a file of this user alone, or the file cannot be created.
pub fn replace(path: &Path, mode: u32) -> io::Result<File> {
    match fs::symlink_metadata(path) {
        Ok(found) => {
            check(path, &found, true)?;
            fs::remove_file(path)?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    create(path, mode)
}

/// Opens a file of this user to append to it, or creates it. One that others may write becomes private.
///
/// # Errors
/// What is there is not a file of this user alone, or it cannot be opened.
pub fn append(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Only root makes a device: an operator who names one means it.
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_char_device()) {
        return options.append(true).open(path);
    }
    let file = open_or_create(path, mode, options.append(true), true)?;
    let found = file.metadata()?.permissions().mode();
    if found & 0o022 != 0 {
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
    }
    Ok(file)
}

/// Opens a file for a lock on it, or creates it; its content does not matter, nor whose it is.
///
/// # Errors
/// What is there is no regular file, or it cannot be opened.
pub fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    open_or_create(path, PRIVATE, options.write(true), false)
}

/// Opens a file that an earlier process of this user has left; `None` if there is none.
///
/// # Errors
/// What is there is not a file of this user alone, or it cannot be opened.
pub fn left(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    open(path, options.write(true), true)
}

/// Returns whether the path still names this file.
#[must_use]
pub fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(found)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (own.dev(), own.ino()) == (found.dev(), found.ino())
}

fn open_or_create(path: &Path, mode: u32, options: &mut OpenOptions, is_own: bool) -> io::Result<File> {
    if let Some(file) = open(path, options, is_own)? {
        return Ok(file);
    }
    match options.create_new(true).mode(PRIVATE).custom_flags(SAFE).open(path) {
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(mode))?;
            Ok(file)
        }
        // Another process was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            open(path, options.create_new(false), is_own)?.ok_or_else(|| ErrorKind::NotFound.into())
        }
        Err(error) => Err(error),
    }
}

/// Opens what is there, looks at it before and after: a device must not even be opened, and the name may change in between.
fn open(path: &Path, options: &mut OpenOptions, is_own: bool) -> io::Result<Option<File>> {
    match fs::symlink_metadata(path) {
        Ok(found) => check(path, &found, is_own)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let file = options.custom_flags(SAFE).open(path)?;
    check(path, &file.metadata()?, is_own)?;
    Ok(Some(file))
}

/// Refuses what is not a regular file, and, if it must be our own, what another user has or what has another name.
fn check(path: &Path, found: &Metadata, is_own: bool) -> io::Result<()> {
    let kind = found.file_type();
    let fault = if kind.is_symlink() {
        "is a symbolic link"
    } else if kind.is_fifo() {
        "is a FIFO"
    } else if kind.is_dir() {
        "is a directory"
    } else if !kind.is_file() {
        "is no regular file"
    } else if is_own && found.uid() != geteuid().as_raw() {
        "belongs to another user"
    } else if is_own && found.nlink() > 1 {
        "has another name (a hard link)"
    } else {
        return Ok(());
    };
    Err(io::Error::other(format!("{} {fault}: it is not used; remove it, or name another file", path.display())))
}

#[cfg(test)]
mod tests;
