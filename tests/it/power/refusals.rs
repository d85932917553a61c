//! Data directories that the real binary must not touch: it says one line, ends, and every byte is as it was.

use std::{
    collections::BTreeMap,
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use redb::{Database, ReadableTable, TableDefinition};

use crate::live::free_address;

/// How long a start may take until it listens or refuses.
const START: Duration = Duration::from_secs(600);

/// A directory of a store that has something, and the file of it.
struct Kept {
    dir: tempfile::TempDir,
    file: PathBuf,
}

impl Kept {
    /// Lets the binary make one.
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let data = dir.path().join("data");
        let mut running = Running::start(&data);
        running.listens();
        fill(running.port);
        running.kill();
        let file = walk(&data).into_iter().max_by_key(|(_, bytes)| bytes.len()).expect("a store has a file").0;
        Self { file, dir }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }
}

/// So much that no part of the file is empty.
fn fill(port: u16) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut client = proto::testing::Client::connect(&format!("http://127.0.0.1:{port}")).expect("a URL");
        for n in 0..300 {
            client.put((format!("key/{n:03}"), vec![b'v'; 10_000])).await.expect("a put");
        }
    });
}

/// The binary on a directory, killed at the end.
struct Running {
    child: Child,
    port: u16,
}

impl Running {
    fn start(data: &Path) -> Self {
        let port = free_address().expect("a free port").port();
        let child = command(data, port).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
        Self { child, port }
    }

    fn listens(&mut self) {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(began.elapsed() < START && self.child.try_wait().expect("a child").is_none(), "the store does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(data: &Path, port: u16) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.arg("store").arg("--data-dir").arg(data).arg("--listen-client-urls").arg(format!("http://127.0.0.1:{port}"));
    command.stdin(Stdio::null());
    command
}

/// Every file with its bytes; a lock file is nobody's data, nor is a socket.
fn walk(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(walk(&path));
        } else if path.is_file() && !path.to_string_lossy().to_lowercase().ends_with("lock") {
            files.insert(path.clone(), fs::read(&path).expect("a file of the test"));
        }
    }
    files
}

/// The binary must end by itself with one line that has all the words, and leave every byte.
fn refused(data: &Path, words: &[&str]) {
    let before = walk(data);
    let line = last_words(data);
    assert_eq!(line.trim_end().lines().count(), 1, "one line: {line}");
    for word in words {
        assert!(line.contains(word), "{word:?} is not in: {line}");
    }
    assert!(before == walk(data), "a file was changed: {line}");
}

fn last_words(data: &Path) -> String {
    let began = Instant::now();
    let mut child = command(data, free_address().expect("a free port").port())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    while child.try_wait().expect("a child").is_none() {
        if began.elapsed() > START {
            let _ = child.kill();
            panic!("the store runs on {}", data.display());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let Output { status, stderr, stdout } = child.wait_with_output().expect("a child");
    let (stderr, stdout) = (String::from_utf8_lossy(&stderr), String::from_utf8_lossy(&stdout));
    assert!(!status.success(), "it must fail");
    assert!(!stderr.contains("panicked") && !stdout.contains("panicked"), "a panic is no line: {stderr}{stdout}");
    // The log on standard output may tell more; the line is what it ends with on standard error.
    stderr.into_owned()
}

#[test]
fn a_directory_of_somebody_else_is_left_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join("notes.txt"), "not a store").expect("a file of the test");
    refused(dir.path(), &[&dir.path().display().to_string()]);
}

#[test]
fn a_file_is_no_directory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("file");
    fs::write(&file, "x").expect("a file of the test");
    refused(&file, &[&file.display().to_string()]);
    assert_eq!(fs::read(&file).expect("it is still there"), b"x");
}

#[test]
fn a_directory_in_use_is_refused_and_its_owner_goes_on() {
    let kept = Kept::new();
    let mut owner = Running::start(&kept.data());
    owner.listens();
    let line = last_words(&kept.data());
    assert_eq!(line.trim_end().lines().count(), 1, "one line: {line}");
    assert!(line.contains("use") || line.contains("lock"), "{line}");
    assert!(owner.child.try_wait().expect("a child").is_none(), "the owner ended");
    TcpStream::connect(("127.0.0.1", owner.port)).expect("the owner listens");
}

#[test]
fn a_newer_format_is_refused() {
    let kept = Kept::new();
    let format = kept.data().join("format");
    let text = fs::read_to_string(&format).expect("a store says its format");
    fs::write(&format, text.replace(char::is_numeric, "9")).expect("a newer one");
    refused(&kept.data(), &["format is 9"]);
}

#[test]
fn newer_tables_are_refused() {
    let kept = Kept::new();
    let newer = edit_format(&kept.file, |format| format + 1);
    let line = last_words(&kept.data());
    assert_eq!(line.trim_end().lines().count(), 1, "one line: {line}");
    assert!(line.contains(&format!("format {newer}")), "{line}");
    // redb marks a file that it has opened; the tables are as they were, and the program that knows them goes on.
    edit_format(&kept.file, |format| format - 1);
    let mut running = Running::start(&kept.data());
    running.listens();
}

/// Changes the number in the database that says how its tables are made; the new one.
fn edit_format(file: &Path, edit: fn(i64) -> i64) -> i64 {
    let meta: TableDefinition<&str, i64> = TableDefinition::new("meta");
    let database = Database::open(file).expect("the store's database");
    let write = database.begin_write().expect("a transaction");
    let format = {
        let mut table = write.open_table(meta).expect("the table of numbers");
        let format = edit(table.get("format").expect("a look-up").expect("the format").value());
        table.insert("format", format).expect("a write");
        format
    };
    write.commit().expect("a commit");
    format
}

#[test]
fn a_broken_file_is_refused() {
    for (what, damage) in [
        ("cut in half", cut as fn(&Path)),
        ("cut to a few bytes", cut_short),
        ("noise at its start", noise_at_start),
        ("noise everywhere", noise),
    ] {
        let kept = Kept::new();
        damage(&kept.file);
        super::say(&format!("refusals: {what}"));
        let before = walk(&kept.data());
        let line = last_words(&kept.data());
        assert_eq!(line.trim_end().lines().count(), 1, "{what}, one line: {line}");
        assert!(line.contains(&kept.data().display().to_string()), "{what}, the directory is named: {line}");
        assert!(before == walk(&kept.data()), "{what}: the file was changed: {line}");
    }
}

fn cut(file: &Path) {
    let bytes = fs::read(file).expect("the store's file");
    fs::write(file, &bytes[..bytes.len() / 2]).expect("a damage");
}

fn cut_short(file: &Path) {
    let bytes = fs::read(file).expect("the store's file");
    fs::write(file, &bytes[..100]).expect("a damage");
}

fn noise_at_start(file: &Path) {
    let mut bytes = fs::read(file).expect("the store's file");
    rand::Rng::fill(&mut rand::rng(), &mut bytes[..512]);
    fs::write(file, bytes).expect("a damage");
}

/// The header stays as it was.
fn noise(file: &Path) {
    let mut bytes = fs::read(file).expect("the store's file");
    rand::Rng::fill(&mut rand::rng(), &mut bytes[4096..]);
    fs::write(file, bytes).expect("a damage");
}

#[test]
fn a_place_where_nothing_can_be_written_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("data");
    fs::create_dir(&data).expect("a directory");
    fs::set_permissions(&data, std::os::unix::fs::PermissionsExt::from_mode(0o500)).expect("read-only");
    // The superuser writes everywhere but in the kernel's own trees.
    let data = if fs::write(data.join("probe"), "").is_ok() { PathBuf::from("/sys/watchcache-data") } else { data };
    refused(&data, &[&data.display().to_string()]);
}
