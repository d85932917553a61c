//! The commands about a store that end when they are done: backup, restore, check, defragmentation; and the figures of one that serves.

use std::io;
use std::path::Path;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::runtime::Builder;

use crate::config::{StoreCommand, Which};
use progress::{Progress, Unit};
use store::{Backup, Remote, Size, Store, StoreConfig, StoreError};
use telemetry::{Log, LogFormat, Metrics};

/// Pages that a command keeps in memory, in bytes.
const CACHE_BYTES: usize = 64 << 20;
/// What the log of a command has: how far it is, and what is wrong beside its own outcome.
const DIRECTIVES: &str = "error,watchcache_progress=info";

/// Does what the command says and tells what came of it.
///
/// # Errors
/// In one line.
pub fn keep_store(command: StoreCommand) -> Result<String, StoreError> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(StoreError::Thread)?;
    // Without a log nobody is told how far it is.
    let _ = telemetry::start_log(&Log { format: LogFormat::Text, directives: DIRECTIVES.to_owned() });
    let outcome = runtime.block_on(async {
        match command {
            StoreCommand::Backup { file, store } if file == Path::new("-") => {
                let mut opened = Opened::new(&store)?;
                let sent = store::send(&mut opened.remote, io::stdout()).await;
                opened.close().await;
                sent.map(|()| String::new())
            }
            StoreCommand::Backup { file, store } => {
                let mut opened = Opened::new(&store)?;
                let backup = store::save(&mut opened.remote, &file).await;
                opened.close().await;
                backup.map(|backup| format!("saved {} into {}\n", contents(&backup), file.display()))
            }
            StoreCommand::Restore { file, data_dir, bump_revision } => {
                let (backup, revision) = store::restore(&file, &data_dir, bump_revision)?;
                Ok(format!("restored {} into {}, which begins at revision {revision}\n", contents(&backup), data_dir.display()))
            }
            StoreCommand::Check { file: Some(file), .. } => {
                let backup = store::check_backup(&file)?;
                Ok(format!("{}: a whole backup of {}\n", file.display(), contents(&backup)))
            }
            StoreCommand::Check { file: None, data_dir } => check(&data_dir).await,
            StoreCommand::Defragment { store } => {
                let mut opened = Opened::new(&store)?;
                let is_elsewhere = opened.store.is_none();
                let defragmented = defragment(&mut opened.remote, is_elsewhere).await;
                opened.close().await;
                defragmented
            }
        }
    });
    telemetry::flush_log();
    outcome
}

/// Opens the store as a server does, which reads all of it.
async fn check(data_dir: &Path) -> Result<String, StoreError> {
    let store = Store::open_existing(data_dir, settings())?;
    let (contents, size) = (store.contents(), store.sizes()());
    store.close().await;
    let (revision, compacted, keys) = contents?;
    let Size { file, in_use, .. } = size;
    let dir = data_dir.display();
    Ok(format!(
        "{dir}: a whole store at revision {revision}, compacted at {compacted}, {keys} keys, {file} bytes, {in_use} of them in use\n"
    ))
}

/// Defragments; returns the line that says what came of it. Another process tells how far it is in its own log: here, how long it takes.
async fn defragment(remote: &mut Remote, is_elsewhere: bool) -> Result<String, StoreError> {
    let before = remote.size().await?.file;
    let mut progress = Progress::new("another process defragments its store", Unit::Bytes);
    let history = {
        let defragmenting = remote.defragment();
        tokio::pin!(defragmenting);
        loop {
            tokio::select! {
                outcome = &mut defragmenting => break outcome?,
                () = tokio::time::sleep(progress::EVERY), if is_elsewhere => drop(progress.at(0, None)),
            }
        }
    };
    let after = remote.size().await?.file;
    let history = match history {
        None | Some(0) => String::new(),
        Some(history) => format!(", {history} of them history that is kept until the next compaction"),
    };
    Ok(format!("{before} bytes before, {after} bytes now{history}\n"))
}

fn contents(backup: &Backup) -> String {
    let Backup { revision, keys, leases, bytes, .. } = backup;
    let made = i64::try_from(backup.made_at).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok()?.format(&Rfc3339).ok());
    let made = made.map_or(String::new(), |at| format!(" of {at}"));
    format!("revision {revision}{made} ({keys} keys, {leases} leases, {bytes} bytes)")
}

fn settings() -> StoreConfig {
    StoreConfig { cache_bytes: CACHE_BYTES, ..StoreConfig::default() }
}

/// The way to a store, which this process has opened when no other one had.
struct Opened {
    remote: Remote,
    store: Option<Store>,
}

impl Opened {
    fn new(which: &Which) -> Result<Self, StoreError> {
        if let Some(endpoint) = &which.endpoint {
            return Ok(Self { remote: Remote::at(endpoint)?, store: None });
        }
        match Store::open_existing(&which.data_dir, settings()) {
            Ok(store) => Ok(Self { remote: store.here(), store: Some(store) }),
            Err(StoreError::Locked(dir)) => Ok(Self { remote: Remote::of(&dir)?, store: None }),
            Err(error) => Err(error),
        }
    }

    async fn close(self) {
        if let Some(store) = self.store {
            store.close().await;
        }
    }
}

/// Has the metrics say what the store takes on disk, each time that they are asked for.
pub(super) fn measure(sizes: impl Fn() -> Size + Send + Sync + 'static, metrics: &Metrics) {
    metrics.sample(move |metrics| {
        let Size { file, in_use, quota, memory } = sizes();
        metrics.store_size.set_bytes(file);
        metrics.store_free.set_bytes(file.saturating_sub(in_use));
        metrics.store_quota.set_bytes(quota);
        metrics.store_memory.set_bytes(memory);
    });
}
