//! A file that is moved aside when it is full, with the names and the rules of kube-apiserver's: `audit.log` becomes `audit-2026-01-02T03-04-05.678.log`.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::mpsc::{SyncSender, sync_channel},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use flate2::{Compression, write::GzEncoder};
use go::timestamp;

use crate::log::Rotation;

const DAY: Duration = Duration::from_secs(86_400);
const GZ: &str = ".gz";

/// The file. Each write is a whole line.
pub(crate) struct RotatingFile {
    path: PathBuf,
    rotation: Option<Rotation>,
    open: Option<Open>,
    /// Asks the thread that looks after old files.
    mill: Option<SyncSender<()>>,
}

struct Open {
    file: File,
    size: u64,
}

impl RotatingFile {
    /// Makes the file if it is not there, readable for its owner only.
    pub(crate) fn prepare(path: PathBuf, rotation: Option<Rotation>) -> io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.map_or(Ok(()), |folder| DirBuilder::new().recursive(true).mode(0o700).create(folder))?;
        let file = owned::append(&path, owned::PRIVATE)?;
        let open = Open { size: file.metadata()?.len(), file };
        let mill = rotation.filter(|rotation| rotation.backups_max > 0 || rotation.days_max > 0 || rotation.compress);
        let mill = mill.map(|rotation| start_mill(path.clone(), rotation)).transpose()?;
        let file = Self { path, rotation, open: Some(open), mill };
        file.look_after_old_files();
        Ok(file)
    }

    fn look_after_old_files(&self) {
        // One look that is still to come is enough.
        self.mill.as_ref().map(|mill| mill.try_send(()));
    }

    /// Moves the file aside, and begins a new one with the same permissions.
    fn rotate(&mut self) -> io::Result<()> {
        self.open = None;
        let mode = match fs::metadata(&self.path) {
            Ok(found) => {
                fs::rename(&self.path, free_backup(&self.path, SystemTime::now()))?;
                found.permissions().mode() & 0o777
            }
            Err(_) => owned::PRIVATE,
        };
        self.begin(mode)?;
        self.look_after_old_files();
        Ok(())
    }

    fn begin(&mut self, mode: u32) -> io::Result<()> {
        let file = owned::append(&self.path, mode)?;
        self.open = Some(Open { size: file.metadata()?.len(), file });
        Ok(())
    }
}

impl Write for RotatingFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let bytes = line.len() as u64;
        if let Some(Rotation { bytes_max, .. }) = self.rotation {
            if bytes > bytes_max {
                return Err(io::Error::other(format!("write length {bytes} exceeds maximum file size {bytes_max}")));
            }
            if self.open.as_ref().is_some_and(|open| open.size + bytes > bytes_max) {
                self.rotate()?;
            }
        }
        if self.open.is_none() {
            self.begin(owned::PRIVATE)?;
        }
        let Some(open) = &mut self.open else { return Err(io::ErrorKind::NotFound.into()) };
        let outcome = open.file.write_all(line);
        match outcome {
            Ok(()) => open.size += bytes,
            // No torn line stays before the next one.
            Err(_) => drop(open.file.set_len(open.size)),
        }
        outcome.map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What stands before and behind the time in the name of an old file.
fn around(path: &Path) -> (String, String) {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match name.rfind('.') {
        Some(dot) => (format!("{}-", &name[..dot]), name[dot..].to_owned()),
        None => (format!("{name}-"), String::new()),
    }
}

/// `2006-01-02T15-04-05.000`.
fn stamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut text = Vec::new();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    timestamp::text_into(seconds, Some(since.subsec_nanos().cast_signed()), &mut text);
    let text = String::from_utf8_lossy(&text).replace(':', "-");
    // Without the quote before it, and what is behind the milliseconds.
    text.chars().skip(1).take(STAMP.len()).collect()
}

/// The form of a stamp: digits where it has zeros.
const STAMP: &str = "0000-00-00T00-00-00.000";

fn is_stamp(text: &str) -> bool {
    let fits = |(c, encoding): (char, char)| if encoding == '0' { c.is_ascii_digit() } else { c == encoding };
    text.len() == STAMP.len() && text.chars().zip(STAMP.chars()).all(fits)
}

/// A name for what is moved aside now that no other file has.
fn free_backup(path: &Path, now: SystemTime) -> PathBuf {
    let (before, behind) = around(path);
    let name = |later: u64| path.with_file_name(format!("{before}{}{behind}", stamp(now + Duration::from_millis(later))));
    (0..1000).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(0))
}

/// Starts the thread that compresses and removes old files, each time it is asked.
fn start_mill(path: PathBuf, rotation: Rotation) -> io::Result<SyncSender<()>> {
    let (ask, asked) = sync_channel(1);
    thread::Builder::new().name("audit-mill".into()).spawn(move || {
        while asked.recv().is_ok() {
            if let Err(error) = mill(&path, &rotation, SystemTime::now()) {
                tracing::warn!(%error, "old audit logs cannot be looked after");
            }
        }
    })?;
    Ok(ask)
}

/// Removes the old files that are too many or too old, and compresses the others.
fn mill(path: &Path, rotation: &Rotation, now: SystemTime) -> io::Result<()> {
    let (before, behind) = around(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut old: Vec<(String, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let rest = name.strip_prefix(&before).map(|rest| rest.strip_suffix(GZ).unwrap_or(rest));
        if let Some(stamp) = rest.and_then(|rest| rest.strip_suffix(&behind)).filter(|rest| is_stamp(rest)) {
            old.push((stamp.to_owned(), entry.path()));
        }
    }
    // Newest first; a file and its compressed form count once.
    old.sort_unstable_by(|a, b| b.cmp(a));
    let cutoff = (rotation.days_max > 0).then(|| now.checked_sub(DAY * rotation.days_max).map(stamp)).flatten();
    let mut kept: Vec<String> = Vec::new();
    for (stamp, file) in old {
        if kept.last() != Some(&stamp) {
            kept.push(stamp.clone());
        }
        let is_too_many = rotation.backups_max > 0 && kept.len() > rotation.backups_max;
        if is_too_many || cutoff.as_ref().is_some_and(|cutoff| stamp < *cutoff) {
            fs::remove_file(&file)?;
        } else if rotation.compress && !file.to_string_lossy().ends_with(GZ) {
            compress(&file)?;
        }
    }
    Ok(())
}

/// Compresses a file beside it, then removes it. What an earlier try has left is written anew.
fn compress(file: &Path) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(GZ);
    let to = PathBuf::from(name);
    let written = (|| {
        let mut from = File::open(file)?;
        let mode = from.metadata()?.permissions().mode();
        let to = owned::replace(&to, mode & 0o777)?;
        let mut gzip = GzEncoder::new(to, Compression::default());
        io::copy(&mut from, &mut gzip)?;
        gzip.finish().map(drop)
    })();
    match written {
        Ok(()) => fs::remove_file(file),
        Err(error) => {
            // Half of it is of no use.
            let _ = fs::remove_file(&to);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests;
