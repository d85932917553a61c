//! Values that are made of files, and made anew when the files change: authorities, certificates, tokens, keys. Somebody else looks, now and then.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Bytes that one file may have; 100,000 tokens fit.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A file, and the flag that names it.
#[derive(Clone, Debug)]
pub struct Named {
    /// The flag.
    pub flag: &'static str,
    /// The file.
    pub path: PathBuf,
}

/// Why a file is of no use; one line with the flag.
#[derive(Debug, Error)]
#[error("{} {}: {what}", file.flag, file.path.display())]
pub struct FileError {
    file: Named,
    what: String,
}

impl FileError {
    /// Returns the error of a file, with what is wrong with it.
    #[must_use]
    pub fn new(file: Named, what: String) -> FileError {
        FileError { file, what }
    }

    /// Returns what is wrong, without the flag and the file.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }
}

/// What is wrong with the contents, and with which file: its number.
pub type Wrong = (usize, String);

/// What was in a file when it was read, or why it could not be read.
#[derive(Debug)]
pub struct FileRead {
    /// The file.
    pub path: PathBuf,
    /// Its bytes.
    pub content: io::Result<Vec<u8>>,
}

impl FileRead {
    /// Reads a file.
    #[must_use]
    pub fn of(path: &Path) -> FileRead {
        let read = || {
            let mut bytes = Vec::new();
            File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
            if bytes.len() as u64 > FILE_BYTES_MAX {
                return Err(io::Error::other(format!("larger than {FILE_BYTES_MAX} bytes")));
            }
            Ok(bytes)
        };
        FileRead { path: path.to_owned(), content: read() }
    }
}

/// Where a value comes from: files that may name others.
pub trait Origin<T>: Send + Sync {
    /// Reads all files that the value is made of now; none when they cannot be read twice.
    fn read(&self) -> Option<Vec<FileRead>>;

    /// Makes the value of what was read, and of the value before.
    ///
    /// # Errors
    /// A file could not be read, or is wrong.
    fn value(&self, contents: Vec<FileRead>, before: Option<&T>) -> Result<T, FileError>;
}

/// Files that flags name, all of them.
struct Flagged<T, P> {
    files: Vec<Named>,
    parse: P,
    value: PhantomData<fn() -> T>,
}

/// The value of some files.
pub struct Reloaded<T> {
    files: Vec<Named>,
    origin: Option<Box<dyn Origin<T>>>,
    value: ArcSwap<T>,
    generation: AtomicU64,
    seen: Mutex<Seen>,
}

type Fingerprint = [u8; 32];

/// What the files had in them.
struct Seen {
    /// When they were looked at last.
    last: Fingerprint,
    /// When they were taken or refused last.
    judged: Fingerprint,
}

/// A [`Reloaded`] of any type.
pub trait Reload {
    /// Looks at the files; whether there is a new value. What is read twice the same counts: half a file, or a certificate whose key comes a moment later, is
    /// waited for.
    ///
    /// # Errors
    /// The files have changed and are wrong: the value stays. It is told once.
    fn look(&self) -> Result<bool, FileError>;

    /// The files, with their flags.
    fn files(&self) -> &[Named];
}

impl<T> Reloaded<T> {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// One of them cannot be read, or makes no sense.
    pub fn load(files: Vec<Named>, parse: impl Fn(&[Vec<u8>]) -> Result<T, Wrong> + Send + Sync + 'static) -> Result<Self, FileError>
    where
        T: 'static,
    {
        Self::load_from(files.clone(), Flagged { files, parse, value: PhantomData })
    }

    /// Makes the value of an origin for the first time. `files` are those that flags name.
    ///
    /// # Errors
    /// One of its files cannot be read, or makes no sense.
    pub fn load_from(files: Vec<Named>, origin: impl Origin<T> + 'static) -> Result<Self, FileError> {
        let contents = origin.read().unwrap_or_default();
        let seen = fingerprint(&contents);
        let value = origin.value(contents, None)?;
        Ok(Self {
            files,
            origin: Some(Box::new(origin)),
            value: ArcSwap::from_pointee(value),
            generation: AtomicU64::new(0),
            seen: Mutex::new(Seen { last: seen, judged: seen }),
        })
    }

    /// Returns a value that is made of no file.
    #[cfg(feature = "testing")]
    pub fn of(value: T) -> Self {
        let seen = fingerprint(&[]);
        Self {
            files: Vec::new(),
            origin: None,
            value: ArcSwap::from_pointee(value),
            generation: AtomicU64::new(0),
            seen: Mutex::new(Seen { last: seen, judged: seen }),
        }
    }

    /// The value of now.
    pub fn now(&self) -> Arc<T> {
        self.value.load_full()
    }

    /// How often there has been a new value. Who reads this before the value knows that it is at least as new.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

impl<T> Reload for Reloaded<T> {
    fn look(&self) -> Result<bool, FileError> {
        let Some(origin) = &self.origin else { return Ok(false) };
        let Some(contents) = origin.read() else { return Ok(false) };
        let found = fingerprint(&contents);
        let mut seen = self.seen.lock();
        let is_at_rest = found == seen.last;
        seen.last = found;
        if !is_at_rest || found == seen.judged {
            return Ok(false);
        }
        seen.judged = found;
        self.value.store(Arc::new(origin.value(contents, Some(&self.value.load()))?));
        self.generation.fetch_add(1, Ordering::Release);
        Ok(true)
    }

    fn files(&self) -> &[Named] {
        &self.files
    }
}

impl<T: fmt::Debug> fmt::Debug for Reloaded<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Reloaded").field("files", &self.files).field("value", &self.value).finish_non_exhaustive()
    }
}

impl<T, P> Origin<T> for Flagged<T, P>
where
    P: Fn(&[Vec<u8>]) -> Result<T, Wrong> + Send + Sync,
{
    fn read(&self) -> Option<Vec<FileRead>> {
        Some(self.files.iter().map(|file| FileRead::of(&file.path)).collect())
    }

    fn value(&self, contents: Vec<FileRead>, _before: Option<&T>) -> Result<T, FileError> {
        let mut bytes = Vec::new();
        for (file, read) in self.files.iter().zip(contents) {
            bytes.push(read.content.map_err(|error| FileError::new(file.clone(), error.to_string()))?);
        }
        (self.parse)(&bytes).map_err(|(number, what)| FileError::new(self.files[number].clone(), what))
    }
}

fn fingerprint(contents: &[FileRead]) -> Fingerprint {
    let mut digest = Sha256::new();
    for FileRead { path, content } in contents {
        let path: Fingerprint = Sha256::digest(path.as_os_str().as_encoded_bytes()).into();
        let of_one: Fingerprint = match content {
            Ok(bytes) => Sha256::digest(bytes).into(),
            Err(error) => Sha256::digest(format!("error: {error}")).into(),
        };
        digest.update(path);
        digest.update(of_one);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::fs::{remove_file, write};

    use super::*;

    /// Two files, each with a number; the value is the product.
    fn product(contents: &[Vec<u8>]) -> Result<u64, Wrong> {
        let number = |(at, bytes): (usize, &Vec<u8>)| {
            let text = String::from_utf8_lossy(bytes);
            text.trim().parse::<u64>().map_err(|error| (at, error.to_string()))
        };
        contents.iter().enumerate().map(number).product()
    }

    #[test]
    fn what_is_read_twice_the_same_counts_and_what_is_wrong_is_told_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
        let files = || vec![Named { flag: "--a", path: a.clone() }, Named { flag: "--b", path: b.clone() }];
        write(&a, "2").expect("written");
        let missing = Reloaded::load(files(), product).expect_err("one is not there").to_string();
        assert!(missing.starts_with(&format!("--b {}: ", b.display())), "{missing}");
        write(&b, "3").expect("written");
        let it = Reloaded::load(files(), product).expect("both are there");
        let look = || it.look().map_err(|error| error.to_string());
        let state = || (*it.now(), it.generation());
        assert_eq!((look(), state()), (Ok(false), (6, 0)));
        // One after the other: neither alone counts.
        write(&a, "5").expect("written");
        assert_eq!((look(), state()), (Ok(false), (6, 0)));
        write(&b, "7").expect("written");
        assert_eq!((look(), state()), (Ok(false), (6, 0)));
        assert_eq!((look(), state()), (Ok(true), (35, 1)));
        assert_eq!((look(), state()), (Ok(false), (35, 1)));
        // A wrong one is told once, and again when it is wrong in another way.
        write(&b, "x").expect("written");
        assert_eq!(look(), Ok(false));
        assert_eq!(look(), Err(format!("--b {}: invalid digit found in string", b.display())));
        assert_eq!((look(), look(), state()), (Ok(false), Ok(false), (35, 1)));
        remove_file(&b).expect("removed");
        assert_eq!(look(), Ok(false));
        assert!(look().is_err_and(|line| line.contains("No such file")));
        assert_eq!((look(), state()), (Ok(false), (35, 1)));
        write(&b, "1").expect("written");
        assert_eq!((look(), look(), state()), (Ok(false), Ok(true), (5, 2)));
    }

    #[test]
    fn a_file_has_a_largest_size() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("large");
        File::create(&path).expect("made").set_len(FILE_BYTES_MAX + 1).expect("sparse");
        let error = Reloaded::load(vec![Named { flag: "--a", path }], product).expect_err("it is too large").to_string();
        assert!(error.ends_with("larger than 16777216 bytes"), "{error}");
    }
}
