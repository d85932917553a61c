//! Runs the fuzz corpus: every file of `tests/corpus/<parser>`, long inputs and mutations of both, through a parser and its law.
//!
//! `WATCHCACHE_FUZZ_ITERATIONS` says how many mutations each parser gets, `WATCHCACHE_FUZZ_SEED` which; `tests/corpus/README.md` tells how to use it.

mod json;
mod mutate;

use std::{
    any::Any,
    env, fs,
    hash::{DefaultHasher, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

pub use json::any_json;
use mutate::Mutator;

/// Longest time of a CPU that one input may take, in a debug build. A busy machine does not count.
const TIME_MAX: Duration = Duration::from_secs(20);
/// How often is looked whether an input takes too long.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes of an input that is made long. What takes time in the square of its length takes minutes at this one.
const LONG_BYTES: usize = 256 << 10;
/// Bytes of stack that a parser has, as on a thread of the server.
const STACK_BYTES: usize = 2 << 20;
/// Mutations that each parser gets in `cargo test`.
const ITERATIONS: u64 = 1_000;

/// A parser and what must be true of it.
pub struct Subject {
    /// Its folder under `tests/corpus`.
    pub name: &'static str,
    /// Runs it on one input and asserts its law. Whether the input was accepted: mutations go on from those.
    pub law: fn(&[u8]) -> bool,
    /// What a mutation may put in, besides what it does to any parser.
    pub words: &'static [&'static str],
    /// Long inputs: what stands before, what is repeated, what stands after.
    pub long: &'static [[&'static str; 3]],
}

impl Subject {
    /// Runs everything.
    ///
    /// # Panics
    /// When the law is broken, the parser panics or an input takes too long. The input is kept in a file that is told.
    pub fn check(self) {
        let (done, outcome) = channel();
        let name = self.name;
        let running = Arc::new(Running::default());
        let worker = running.clone();
        let run = move || {
            worker.is_this_thread();
            drop(done.send(self.run(&worker)));
        };
        thread::Builder::new().stack_size(STACK_BYTES).spawn(run).expect("a thread");
        let mut watch = Watch::default();
        loop {
            match outcome.recv_timeout(LOOK) {
                Ok(Ok(())) => return,
                Ok(Err(why)) => panic!("{why}"),
                Err(RecvTimeoutError::Disconnected) => panic!("{name}: the run ended without an outcome"),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(input) = watch.overdue(&running) {
                        panic!("{name}: more than {TIME_MAX:?} for the input in {}", kept(name, &input).display());
                    }
                }
            }
        }
    }

    fn run(&self, running: &Running) -> Result<(), String> {
        let mut pool = Vec::new();
        for (path, input) in files(self.name) {
            self.one(&input, running).map_err(|why| format!("{}: {why}", path.display()))?;
            pool.push(input);
        }
        for [before, again, after] in self.long {
            let input = [before, again.repeat(LONG_BYTES / again.len()).as_str(), after].concat().into_bytes();
            let begins = format!("{before}{again}…{after}");
            self.one(&input, running).map_err(|why| format!("{}: {begins}: {why}", self.name))?;
        }
        let (seed, iterations) = (number("WATCHCACHE_FUZZ_SEED").unwrap_or(1), number("WATCHCACHE_FUZZ_ITERATIONS").unwrap_or(ITERATIONS));
        let mut mutator = Mutator::new(seed, self.words, pool);
        for iteration in 0..iterations {
            let input = mutator.next();
            let accepted = self.one(&input, running).map_err(|why| {
                let path = kept(self.name, &input);
                format!("{}: {why}\nseed {seed}, iteration {iteration}; the input is in {}", self.name, path.display())
            })?;
            if accepted {
                mutator.keep(input);
            }
        }
        Ok(())
    }

    fn one(&self, input: &[u8], running: &Running) -> Result<bool, String> {
        running.begins(input);
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.law)(input)));
        running.ends();
        outcome.map_err(|panic| words(&*panic))
    }
}

/// What is being run.
#[derive(Default)]
struct Running(Mutex<Now>);

#[derive(Default)]
struct Now {
    /// Where the system tells the time that the thread has used.
    clock: PathBuf,
    /// How many inputs there were.
    count: u64,
    input: Option<Vec<u8>>,
}

impl Running {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock()
    }

    fn is_this_thread(&self) {
        let thread = fs::read_link("/proc/thread-self").unwrap_or_default();
        self.now().clock = Path::new("/proc").join(thread).join("schedstat");
    }

    fn begins(&self, input: &[u8]) {
        let mut now = self.now();
        now.count += 1;
        now.input = Some(input.to_vec());
    }

    fn ends(&self) {
        self.now().input = None;
    }
}

/// Looks at what is being run from time to time.
#[derive(Default)]
struct Watch {
    /// The input that was there at the last look, and what its thread had used and which time it was when it was seen first.
    since: Option<(u64, Option<Duration>, Instant)>,
}

impl Watch {
    /// The input that is there since so long.
    fn overdue(&mut self, running: &Running) -> Option<Vec<u8>> {
        let now = running.now();
        let used = used(&now.clock);
        match self.since {
            Some((count, before, at)) if count == now.count => {
                let spent = used.zip(before).map_or_else(|| at.elapsed(), |(used, before)| used.saturating_sub(before));
                now.input.clone().filter(|_| spent > TIME_MAX)
            }
            _ => {
                self.since = Some((now.count, used, Instant::now()));
                None
            }
        }
    }
}

/// The time of a CPU that a thread has used, where the system tells it.
fn used(clock: &Path) -> Option<Duration> {
    fs::read_to_string(clock).ok()?.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// The files of a parser, by name.
fn files(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = root().join("tests/corpus").join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry of a folder that is there").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    let read = |path: &Path| fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// Keeps an input that broke something; where it is.
fn kept(name: &str, input: &[u8]) -> PathBuf {
    let folder = root().join("target/corpus");
    let path = folder.join(format!("{name}-{:016x}", hash(input)));
    fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}

fn hash(input: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(input);
    hasher.finish()
}

/// The project's folder.
///
/// # Panics
/// Never: this file is two levels below it.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("src/corpus is two levels below it")
}

/// Compares a page that is made of the code with the one in this folder's `docs/`. With `WATCHCACHE_WRITE_REFERENCE` in the environment it is written instead.
///
/// # Panics
/// When they differ, or the file cannot be read or written.
pub fn reference(page: &str, text: &str) {
    let file = root().join("docs/reference").join(page);
    if env::var_os("WATCHCACHE_WRITE_REFERENCE").is_some() {
        return fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
    let there = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let differ = there.lines().zip(text.lines()).find(|(there, made)| there != made);
    assert!(
        there == text,
        "docs/reference/{page} is not what the code says; WATCHCACHE_WRITE_REFERENCE=1 cargo test reference writes it anew. {differ:?}"
    );
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runner sees what it looks for.
    #[test]
    fn a_broken_law_is_told_with_its_input() {
        let subject = |law| Subject { name: "durations", law, words: &[], long: &[] };
        let running = Running::default();
        let told = subject(|input| panic!("{}", input.len())).run(&running).expect_err("every file breaks it");
        assert!(told.contains("tests/corpus/durations"), "{told}");
        let long = Subject { long: &[["(", "ab", ")"]], ..subject(|input| input.len() < LONG_BYTES) };
        assert_eq!(long.run(&running), Ok(()));
        running.is_this_thread();
        running.begins(b"slow");
        let mut watch = Watch::default();
        assert_eq!((watch.overdue(&running), watch.overdue(&running)), (None, None));
        let long_ago = |(count, _, _)| Some((count, None, Instant::now().checked_sub(2 * TIME_MAX)?));
        watch.since = watch.since.and_then(long_ago);
        assert_eq!(watch.overdue(&running), Some(b"slow".to_vec()));
        running.begins(b"the next");
        assert_eq!(watch.overdue(&running), None);
    }
}
