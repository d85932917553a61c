//! The embedded store's flags: of `watchcache store`, and of `serve` without an etcd.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args::{ServeArgs, StoreArgs};
use super::{Log, host_of, is_loopback, log, not_zero};

/// Where `serve` keeps its objects when nothing else is said.
const DATA_DIR: &str = "./watchcache-data";

/// The data directory that is none.
const MEMORY: &str = ":memory:";

/// Where files are in memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// The store inside `watchcache serve`.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// Its directory; of a store in memory, the one for keys and certificates that the server makes, which goes away with it.
    pub data_dir: PathBuf,
    /// Whether the objects are in memory only.
    pub in_memory: bool,
    /// Bytes of changes above which nothing is put; zero = no such limit.
    pub quota_bytes: u64,
}

/// Everything `watchcache store` runs with.
#[derive(Clone, Debug)]
pub struct StoreAlone {
    /// Where it listens; all of it loopback, at least one.
    pub listen: Vec<SocketAddr>,
    /// The same as typed, for the member list.
    pub client_urls: Vec<String>,
    /// Its directory.
    pub data_dir: PathBuf,
    /// Whether everything is in memory only.
    pub in_memory: bool,
    /// History that is kept; zero = until a client compacts. Default zero, as etcd's.
    pub auto_compaction_retention: Duration,
    /// Bytes of changes above which nothing is put; zero = no such limit.
    pub quota_bytes: u64,
    /// Period of unasked progress. Default 10 min, etcd's.
    pub progress_interval: Duration,
    /// Whether a write is answered before it is on the disk.
    pub unsynced: bool,
    /// Flags of etcd that were given and change nothing.
    pub ignored_flags: Vec<String>,
    pub log: Log,
    /// What the operator should know, one line each.
    pub warnings: Vec<String>,
}

pub(super) fn embedded(args: &ServeArgs) -> Embedded {
    Embedded { data_dir: args.data_dir.clone().unwrap_or_else(|| DATA_DIR.into()), in_memory: false, quota_bytes: args.quota_backend_bytes }
}

/// Whether the store is to be in memory. Then the directory becomes one in memory for what must be in files: keys and certificates that the server makes.
pub(super) fn in_memory(data_dir: &mut Option<PathBuf>) -> bool {
    let is_asked = data_dir.as_deref().is_some_and(|dir| dir == Path::new(MEMORY));
    if is_asked {
        let parent = Some(PathBuf::from(SHARED_MEMORY)).filter(|dir| dir.is_dir()).unwrap_or_else(std::env::temp_dir);
        *data_dir = Some(parent.join(format!("watchcache-{}-{:016x}", std::process::id(), rand::random::<u64>())));
    }
    is_asked
}

pub(super) fn check(args: StoreArgs) -> Result<StoreAlone, String> {
    let client_urls: Vec<String> = args.listen_client_urls.iter().map(|url| url.trim().trim_end_matches('/').to_owned()).collect();
    Ok(StoreAlone {
        listen: client_urls.iter().map(|url| address(url)).collect::<Result<_, _>>()?,
        client_urls,
        in_memory: args.data_dir == Path::new(MEMORY),
        data_dir: args.data_dir,
        auto_compaction_retention: args.auto_compaction_retention,
        quota_bytes: args.quota_backend_bytes,
        progress_interval: not_zero("--watch-progress-notify-interval", args.watch_progress_notify_interval)?,
        unsynced: false,
        ignored_flags: Vec::new(),
        log: log(&args.log)?,
        warnings: Vec::new(),
    })
}

/// Plain http on loopback: the store asks nobody who they are.
fn address(url: &str) -> Result<SocketAddr, String> {
    let wrong = |why: &str| format!("--listen-client-urls: {url:?} {why}");
    if url.starts_with("https://") {
        return Err(wrong("is https: the store speaks plain http only, on loopback"));
    }
    let host = host_of(url).ok_or_else(|| wrong("is not http://host:port"))?;
    if !is_loopback(host) {
        return Err(wrong("is not on loopback: whoever reaches the store reads every Secret, it asks nobody who they are"));
    }
    let port = url.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).ok_or_else(|| wrong("names no port"))?;
    let ip = host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    Ok(SocketAddr::new(ip, port))
}
