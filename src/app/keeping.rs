//! The commands about a store that end when they are done: backup, restore, check, defragmentation; and the figures of one that serves.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::runtime::Builder;

use crate::config::{StoreCommand, Which};
use store::{Backup, Progress, Remote, Size, Store, StoreConfig, StoreError};
use telemetry::Metrics;

/// Pages that a command keeps in memory, in bytes.
const CACHE_BYTES: usize = 64 << 20;
/// How often the figures are looked at.
const SIZE_LOOK: Duration = Duration::from_secs(5);
/// How often a bar moves, and a line is written.
const BAR_PERIOD: Duration = Duration::from_millis(100);
const LINE_PERIOD: Duration = Duration::from_secs(1);
/// Places of a bar.
const BAR: usize = 30;

/// Does what the command says and tells what came of it.
///
/// # Errors
/// In one line.
pub fn keep_store(command: StoreCommand) -> Result<String, StoreError> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(StoreError::Thread)?;
    let mut bar = Bar::new();
    let outcome = runtime.block_on(async {
        let mut progress = |progress: Progress| bar.show(progress);
        match command {
            StoreCommand::Backup { file, store } if file == Path::new("-") => {
                let mut opened = Opened::new(&store)?;
                let sent = store::send(&mut opened.remote, io::stdout(), &mut progress).await;
                opened.close().await;
                sent.map(|()| String::new())
            }
            StoreCommand::Backup { file, store } => {
                let mut opened = Opened::new(&store)?;
                let backup = store::save(&mut opened.remote, &file, &mut progress).await;
                opened.close().await;
                backup.map(|backup| format!("saved {} into {}\n", contents(&backup), file.display()))
            }
            StoreCommand::Restore { file, data_dir, bump_revision } => {
                let (backup, revision) = store::restore(&file, &data_dir, bump_revision, &mut progress)?;
                Ok(format!("restored {} into {}, which begins at revision {revision}\n", contents(&backup), data_dir.display()))
            }
            StoreCommand::Check { file: Some(file), .. } => {
                let backup = store::check_backup(&file, &mut progress)?;
                Ok(format!("{}: a whole backup of {}\n", file.display(), contents(&backup)))
            }
            StoreCommand::Check { file: None, data_dir } => check(&data_dir).await,
            StoreCommand::Defragment { store } => {
                let mut opened = Opened::new(&store)?;
                let sizes = sizes_around(&mut opened.remote).await;
                opened.close().await;
                sizes.map(|[before, after]| format!("{before} bytes before, {after} bytes now\n"))
            }
        }
    });
    bar.end();
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

async fn sizes_around(remote: &mut Remote) -> Result<[u64; 2], StoreError> {
    let before = remote.size().await?.file;
    remote.defragment().await?;
    Ok([before, remote.size().await?.file])
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

/// Tells on standard error how far something is: a bar on a terminal, else a line now and then.
struct Bar {
    is_terminal: bool,
    began: Instant,
    shown: Option<Instant>,
}

impl Bar {
    fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), began: Instant::now(), shown: None }
    }

    fn show(&mut self, progress: Progress) {
        let now = Instant::now();
        let period = if self.is_terminal { BAR_PERIOD } else { LINE_PERIOD };
        if self.shown.unwrap_or(self.began) + period > now {
            return;
        }
        self.shown = Some(now);
        let text = text(progress, now - self.began, self.is_terminal);
        // Nobody who reads it is needed.
        let _ = if self.is_terminal { write!(io::stderr(), "\r{text}\x1b[K") } else { writeln!(io::stderr(), "{text}") };
    }

    fn end(&self) {
        if self.is_terminal && self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn text(Progress { what, done, total }: Progress, time: Duration, with_bar: bool) -> String {
    let percent = usize::try_from(done.saturating_mul(100) / total.max(1)).unwrap_or(100).min(100);
    let full = BAR * percent / 100;
    let bar = if with_bar { format!(" [{}{}]", "#".repeat(full), " ".repeat(BAR - full)) } else { String::new() };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!("{what}{bar} {percent} %, {:.1} of about {:.1} MiB, {} s", mib(done), mib(total), time.as_secs())
}

/// Tells the metrics what the store takes on disk, for as long as the process lasts.
pub(super) async fn measure(sizes: impl Fn() -> Size + Send, metrics: Arc<Metrics>) {
    let number = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    loop {
        let Size { file, in_use, quota } = sizes();
        metrics.store_size.set(number(file));
        metrics.store_free.set(number(file.saturating_sub(in_use)));
        metrics.store_quota.set(number(quota));
        tokio::time::sleep(SIZE_LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_at_the_end_and_no_longer() {
        let at = |done, total| text(Progress { what: "saving", done, total }, Duration::from_secs(3), true);
        assert_eq!(at(0, 0), format!("saving [{}] 0 %, 0.0 of about 0.0 MiB, 3 s", " ".repeat(30)));
        assert_eq!(at(1 << 20, 4 << 20), format!("saving [{}{}] 25 %, 1.0 of about 4.0 MiB, 3 s", "#".repeat(7), " ".repeat(23)));
        assert!(at(9, 3).starts_with(&format!("saving [{}] 100 %", "#".repeat(30))));
    }
}
