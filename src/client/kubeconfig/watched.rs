//! A kubeconfig file and the files that it names, read together: a change of any of them counts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use go::yaml::reader;
use parking_lot::Mutex;
use reload::{FileError, FileRead, Named, Origin};

use super::file;
use super::{Files, Kubeconfig, utf8};

/// Bytes that a kubeconfig file, or a file that it names, may have.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The files of a kubeconfig, as a [`reload::Reloaded`] looks at them: the file that a flag names, and the authority, certificate
/// and key that this names. A
/// `tokenFile` is read when its token is sent.
pub struct KubeconfigFiles {
    file: Named,
    /// What the kubeconfig file said when it was read last, and which files it names.
    last: Mutex<Option<(Vec<u8>, Vec<PathBuf>)>>,
}

impl KubeconfigFiles {
    /// Of the file that a flag names, or the directory of a service account.
    #[must_use]
    pub fn of(flag: &'static str, path: &Path) -> KubeconfigFiles {
        KubeconfigFiles { file: Named { flag, path: path.to_owned() }, last: Mutex::default() }
    }
}

impl Origin<Kubeconfig> for KubeconfigFiles {
    fn read(&self) -> Option<Vec<FileRead>> {
        let path = &self.file.path;
        let mut last = self.last.lock();
        // What comes out of a pipe is gone.
        if last.is_some() && fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return None;
        }
        let read = ReadFiles::read(path, last.as_ref().map(|(text, names)| (&text[..], &names[..])));
        *last = Some((read.kubeconfig().unwrap_or_default(), read.names.clone()));
        Some(read.into_reads())
    }

    fn value(&self, contents: Vec<FileRead>, before: Option<&Kubeconfig>) -> Result<Kubeconfig, FileError> {
        Kubeconfig::of_files(&ReadFiles::of_reads(&self.file.path, contents), before)
            .map_err(|what| FileError::new(self.file.clone(), what))
    }
}

/// What was in files when they were read.
pub(super) struct ReadFiles {
    path: PathBuf,
    /// Where relative paths start.
    directory: PathBuf,
    is_service_account: bool,
    found: RefCell<BTreeMap<PathBuf, Result<Vec<u8>, String>>>,
    /// The files that the kubeconfig file names.
    names: Vec<PathBuf>,
}

impl ReadFiles {
    /// Reads the file and those that it names. `last` is what it said before, and which files that named.
    pub(super) fn read(path: &Path, last: Option<(&[u8], &[PathBuf])>) -> ReadFiles {
        let mut read = ReadFiles::empty(path);
        if read.is_service_account {
            read.names = vec![PathBuf::from("ca.crt")];
        } else if let Ok(text) = read.kubeconfig() {
            read.names = match last {
                Some((before, names)) if before == text => names.to_vec(),
                _ => names(&text),
            };
        }
        for name in read.names.clone() {
            let _ = Files::read(&read, &name);
        }
        read
    }

    fn empty(path: &Path) -> ReadFiles {
        let is_service_account = path.is_dir();
        // The whole path first: the folder of `kubeconfig` is the empty path, which has no absolute form.
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let directory = if is_service_account { whole } else { whole.parent().map_or_else(PathBuf::new, Path::to_owned) };
        ReadFiles { path: path.to_owned(), directory, is_service_account, found: RefCell::default(), names: Vec::new() }
    }

    fn of_reads(path: &Path, contents: Vec<FileRead>) -> ReadFiles {
        let found = contents.into_iter().map(|read| (read.path, read.content.map_err(|error| error.to_string()))).collect();
        ReadFiles { found: RefCell::new(found), ..ReadFiles::empty(path) }
    }

    fn into_reads(self) -> Vec<FileRead> {
        let reads = self.found.into_inner().into_iter();
        reads.map(|(path, content)| FileRead { path, content: content.map_err(io::Error::other) }).collect()
    }

    /// Whether it is the directory of a service account.
    pub(super) fn is_service_account(&self) -> bool {
        self.is_service_account
    }

    /// What is in the kubeconfig file.
    pub(super) fn kubeconfig(&self) -> Result<Vec<u8>, String> {
        self.once(self.path.clone())
    }

    fn once(&self, path: PathBuf) -> Result<Vec<u8>, String> {
        self.found.borrow_mut().entry(path).or_insert_with_key(|path| bytes_of(path)).clone()
    }
}

impl Files for ReadFiles {
    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        self.once(self.resolve(path))
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        if path.is_absolute() { path.to_owned() } else { clean(&self.directory.join(path)) }
    }

    fn kubeconfig_file(&self) -> &Path {
        &self.path
    }
}

/// The files that a kubeconfig file names for its current context.
fn names(text: &[u8]) -> Vec<PathBuf> {
    let chosen = reader::parse(&utf8(text.to_vec()))
        .map_err(|wrong| wrong.to_string())
        .and_then(|document| file::File::read(&document.value)?.chosen());
    let Ok(chosen) = chosen else { return Vec::new() };
    let named = [chosen.cluster.certificate_authority, chosen.user.client_certificate, chosen.user.client_key];
    named.into_iter().filter(|name| !name.is_empty()).map(PathBuf::from).collect()
}

/// Go's `filepath.Clean` of an absolute path: what stands before `..` goes, whether it is there or not.
pub(super) fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::ParentDir => _ = cleaned.pop(),
            Component::Normal(name) => cleaned.push(name),
            _ => {}
        }
    }
    cleaned
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX { Err(format!("more than {FILE_BYTES_MAX} bytes")) } else { Ok(bytes) }
}
