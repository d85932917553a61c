//! The embedded store: etcd's own gRPC API over redb, for one node.
//!
//! ```text
//! request → service (check) → published snapshot                      → answer
//!                           → writer: turn → commit (fsync) → publish → answer, watch streams
//! ```
//!
//! Invariants: nothing is shown before it is durable (writer); a snapshot's index and log are of one commit (state); a watch is told of
//! every revision once, whole and in order (watch, stream); a storage that failed is not written to again (state).

mod archive;
mod budget;
mod check;
mod connection;
mod defragment;
mod directory;
mod error;
mod gateway;
mod index;
mod intake;
mod keys;
mod lease;
mod listen;
mod log;
mod open;
mod refusal;
mod remote;
mod restore;
mod retention;
mod save;
mod service;
mod service_lease;
mod service_other;
mod snapshot;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod turn;
mod txn;
mod unsynced;
mod view;
mod watch;
mod writer;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::StorageBackend;
use redb::backends::{FileBackend, InMemoryBackend};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch as watch_channel};

pub use error::StoreError;
pub use remote::Remote;
pub use restore::restore;
pub use save::{Backup, check_backup, save, send};
pub use service_other::ETCD_VERSION;
pub use state::Size;

use budget::Account;
use directory::Directory;
use retention::Retention;
use service::Service;
use state::{Facts, Life, Shared, WAITING_COUNT_MAX};
use unsynced::Unsynced;
use writer::{Bell, What, Writer};

/// How a store behaves.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// History that is kept; older revisions are compacted. Zero: only clients compact.
    pub auto_compaction_retention: Duration,
    /// How often a quiet watch that wants it is told how far the store is. Default 10 min, etcd's.
    pub progress_interval: Duration,
    /// What the member list says. Empty when it is only used in-process.
    pub client_urls: Vec<String>,
    /// Pages kept in memory, in bytes. Default 32 MiB: the system keeps the others, and what is read often is in the watch cache. A start replays the log, and
    /// is slow where that does not fit.
    pub cache_bytes: usize,
    /// Bytes of changes that are kept; when there are more, nothing is put until some are deleted and compacted. Zero: as many as the disk takes.
    pub quota_bytes: u64,
    /// Whether a write is answered before it is on the disk: a process that is killed loses nothing, a machine that stops may lose all.
    pub unsynced: bool,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            auto_compaction_retention: Duration::ZERO,
            progress_interval: Duration::from_secs(600),
            client_urls: Vec::new(),
            cache_bytes: 32 << 20,
            quota_bytes: 0,
            unsynced: false,
        }
    }
}

/// An open store. It runs until [`Store::close`] or until it is dropped; when its storage fails, only what can be read without it is still answered.
pub struct Store {
    service: Service,
}

impl Store {
    /// Opens the store in a directory, which is made when it is absent. Reads all of it once, blocking.
    ///
    /// # Errors
    /// Everything that keeps it from being used, in one line; nothing has been overwritten then.
    pub fn open(dir: &Path, config: StoreConfig) -> Result<Self, StoreError> {
        Self::open_claimed(Directory::claim(dir)?, config)
    }

    /// The same for a directory that has a store in it already.
    ///
    /// # Errors
    /// Those of [`Store::open`], and that there is none.
    pub fn open_existing(dir: &Path, config: StoreConfig) -> Result<Self, StoreError> {
        Self::open_claimed(Directory::claim_existing(dir)?, config)
    }

    fn open_claimed(mut directory: Directory, config: StoreConfig) -> Result<Self, StoreError> {
        let dir = &directory.path().to_owned();
        let file = directory.open_database()?;
        let backend = FileBackend::new(file).map_err(|error| StoreError::database(dir, error.into()))?;
        let opened = match config.unsynced {
            true => open::open(dir, Unsynced(backend), config.cache_bytes, Instant::now())?,
            false => open::open(dir, backend, config.cache_bytes, Instant::now())?,
        };
        directory.finish()?;
        let file = Some(directory.database());
        Self::start(opened, config, file, Some(directory))
    }

    /// The same in memory, until it is closed: nothing is durable, and nothing else needs it.
    ///
    /// # Errors
    /// What redb or the system says.
    pub fn open_in_memory(config: StoreConfig) -> Result<Self, StoreError> {
        Self::open_on(InMemoryBackend::new(), config)
    }

    /// The same on any storage, without a directory, a lock and a size: for tests with faults in it.
    ///
    /// # Errors
    /// What redb says of the storage.
    pub fn open_on(backend: impl StorageBackend, config: StoreConfig) -> Result<Self, StoreError> {
        let opened = open::open(Path::new("(no directory)"), backend, config.cache_bytes, Instant::now())?;
        Self::start(opened, config, None, None)
    }

    fn start(opened: open::Opened, config: StoreConfig, file: Option<PathBuf>, directory: Option<Directory>) -> Result<Self, StoreError> {
        let open::Opened { database, mut work, cluster_id, member_id } = opened;
        work.quota = config.quota_bytes;
        let path = directory.as_ref().map_or(PathBuf::from("(no directory)"), |directory| directory.path().to_owned());
        let token = Arc::default();
        let first = writer::snapshot(&database, &work, &token).map_err(|fault| StoreError::corrupt(&path, format_args!("{fault:?}")))?;
        let (asks, asked) = mpsc::channel(WAITING_COUNT_MAX);
        let facts = Facts {
            cluster_id,
            member_id,
            client_urls: config.client_urls,
            progress_interval: config.progress_interval.max(PROGRESS_MIN),
            file,
            quota: config.quota_bytes,
            cache_bytes: config.cache_bytes,
        };
        let shared = Arc::new(Shared::new(facts, first, work.log_bytes, asks));
        let period = config.auto_compaction_retention;
        let retention = (!period.is_zero()).then(|| Retention::new(period, Instant::now()));
        let writer = Writer::new(database, work, token, shared.clone(), asked, retention);
        let clock = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(StoreError::Thread)?;
        let bell = Bell(shared.clone());
        let run = move || {
            let _bell = bell;
            let closed = clock.block_on(writer.run());
            // The database is closed; the next one may have the directory.
            drop(directory);
            if let Some(reply) = closed {
                // Whoever closed may not wait.
                let _ = reply.send(Ok(()));
            }
        };
        std::thread::Builder::new().name("store".into()).spawn(run).map_err(StoreError::Thread)?;
        Ok(Self { service: Service { shared, account: Account::default() } })
    }

    /// The way of a command to this store.
    #[must_use]
    pub fn here(&self) -> Remote {
        Remote::new(self.channel(), "this process".to_owned())
    }

    /// A way for etcd's client to reach the store without a port.
    #[must_use]
    pub fn channel(&self) -> proto::Channel {
        listen::channel(&self.service)
    }

    /// Binds loopback addresses for [`Store::serve`].
    ///
    /// # Errors
    /// The system's, for the first address that cannot be had.
    pub async fn bind(addresses: &[SocketAddr]) -> std::io::Result<Vec<TcpListener>> {
        listen::bind(addresses).await
    }

    /// Serves etcd's gRPC, its probes and its JSON gateway over plain TCP until `stopped` is true. Whoever reaches a listener reads and writes everything.
    ///
    /// # Errors
    /// A listener's.
    pub async fn serve(&self, listeners: Vec<TcpListener>, stopped: watch_channel::Receiver<bool>) -> std::io::Result<()> {
        listen::serve(&self.service, listeners, stopped).await
    }

    /// Serves the same on `store.sock` in the data directory, for this user alone, until `stopped` is true: what a backup goes through while the store is
    /// open. A store without a directory has none. One line in the log tells when the file system takes no sockets, or a path that is too long for one.
    pub fn serve_socket(&self, stopped: watch_channel::Receiver<bool>) -> impl Future<Output = ()> + Send + use<> {
        let service = self.service.clone();
        async move {
            let Some(path) = service.shared.file.as_ref().and_then(|file| file.parent()).map(Directory::socket_in) else { return };
            if let Err(error) = listen::serve_socket(&service, &path, stopped).await {
                tracing::warn!(%error, path = %path.display(), "no socket of the embedded store: it can be backed up only when it is stopped, or over a listener");
            }
        }
    }

    /// Returns the newest revision, that of the last compaction (-1 before the first), and how many keys there are.
    ///
    /// # Errors
    /// When the store is closed.
    pub fn contents(&self) -> Result<(i64, i64, usize), StoreError> {
        let state = self.service.shared.state().map_err(|refusal| StoreError::Closed(refusal.to_string()))?;
        Ok((state.revision, state.compacted, state.index.count()))
    }

    /// Ends with the reason when the storage has failed. From then on every write is refused, and reads and watches show what was durable as far as it is
    /// in memory; a new process must look at what is on disk. Never ends on a store that is well or closed.
    pub async fn failed(&self) -> Arc<str> {
        let mut life = self.service.shared.life();
        let failed = life.wait_for(|life| matches!(life, Life::Failed { .. })).await;
        match failed.as_deref() {
            Ok(Life::Failed { why, .. }) => why.clone(),
            // The sender lives as long as `self`.
            _ => std::future::pending().await,
        }
    }

    /// Returns a way to ask how long the commit that is under way has taken, none while there is none: a disk that hangs fails nothing, and nothing is written.
    pub fn pulse(&self) -> impl Fn() -> Option<Duration> + Send + Sync + use<> {
        let shared = self.service.shared.clone();
        move || shared.writing_for()
    }

    /// Returns a way to ask what the store takes on disk.
    pub fn sizes(&self) -> impl Fn() -> Size + Send + Sync + use<> {
        let shared = self.service.shared.clone();
        move || shared.size()
    }

    /// Answers what has been asked, then closes the database. Requests from now on are refused. Later calls do nothing.
    pub async fn close(&self) {
        // An error says that nothing is written any more; then there is nothing to wait for.
        let _ = self.service.shared.ask(1, What::Close).await;
        self.service.shared.end(Life::Closed);
    }
}

impl Drop for Store {
    /// As [`Store::close`], without waiting.
    fn drop(&mut self) {
        self.service.shared.end(Life::Closed);
    }
}

/// Shortest period of unasked progress (etcd's `minWatchProgressInterval`).
const PROGRESS_MIN: Duration = Duration::from_millis(100);
