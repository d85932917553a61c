//! Values that are made of files, and made anew when the files change: authorities, certificates, tokens, keys. Somebody else looks, now and then.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
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

/// What is wrong with the contents, and with which file: its number.
pub type Wrong = (usize, String);

type Parse<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, Wrong> + Send + Sync>;

/// The value of some files.
pub struct Reloaded<T> {
    files: Vec<Named>,
    parse: Parse<T>,
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
    pub fn load(files: Vec<Named>, parse: impl Fn(&[Vec<u8>]) -> Result<T, Wrong> + Send + Sync + 'static) -> Result<Self, FileError> {
        let contents = read(&files);
        let seen = fingerprint(&contents);
        let value = value(&files, contents, &parse)?;
        Ok(Self {
            files,
            parse: Box::new(parse),
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
            parse: Box::new(|_| Err((0, "there is no file".to_owned()))),
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
        let contents = read(&self.files);
        let found = fingerprint(&contents);
        let mut seen = self.seen.lock();
        let is_at_rest = found == seen.last;
        seen.last = found;
        if !is_at_rest || found == seen.judged {
            return Ok(false);
        }
        seen.judged = found;
        self.value.store(Arc::new(value(&self.files, contents, &self.parse)?));
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

fn read(files: &[Named]) -> Vec<io::Result<Vec<u8>>> {
    let read_one = |file: &Named| {
        let mut bytes = Vec::new();
        File::open(&file.path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::other(format!("larger than {FILE_BYTES_MAX} bytes")));
        }
        Ok(bytes)
    };
    files.iter().map(read_one).collect()
}

fn fingerprint(contents: &[io::Result<Vec<u8>>]) -> Fingerprint {
    let mut digest = Sha256::new();
    for content in contents {
        let of_one: Fingerprint = match content {
            Ok(bytes) => Sha256::digest(bytes).into(),
            Err(error) => Sha256::digest(format!("error: {error}")).into(),
        };
        digest.update(of_one);
    }
    digest.finalize().into()
}

fn value<T>(files: &[Named], contents: Vec<io::Result<Vec<u8>>>, parse: impl Fn(&[Vec<u8>]) -> Result<T, Wrong>) -> Result<T, FileError> {
    let mut bytes = Vec::new();
    for (file, content) in files.iter().zip(contents) {
        bytes.push(content.map_err(|error| FileError { file: file.clone(), what: error.to_string() })?);
    }
    parse(&bytes).map_err(|(number, what)| FileError { file: files[number].clone(), what })
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
