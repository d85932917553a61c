//! `kill`: SIGKILL to the real binary at random moments under writers, a watcher and a reader; what they were told must be there afterwards.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, anyhow, ensure};
use proto::{DefragmentRequest, testing::Client};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::time::sleep;

use crate::{
    clients::{self, Told},
    connection::{connect, connect_for_streams},
    history::History,
    server::Server,
};

/// How long the writers write before the kill, at least and at most, milliseconds.
const LIFE_MS: std::ops::Range<u64> = 20..1500;
/// Violations that are printed.
const PRINTED: usize = 20;

/// What is killed, how often.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The server's binary.
    #[arg(long)]
    server: PathBuf,
    /// Kills.
    #[arg(long, default_value_t = 50)]
    rounds: u32,
    /// Concurrent writers.
    #[arg(long, default_value_t = 8)]
    writers: u32,
    /// Port of the store on loopback.
    #[arg(long, default_value_t = 21790)]
    port: u16,
    /// Seed of the moments and the writes; random without.
    #[arg(long)]
    seed: Option<u64>,
    /// Folder of the data directory and the log; a temporary one without, kept when something is found.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Kills and checks; whether nothing was lost.
pub(crate) async fn run(options: &Options) -> Result<bool> {
    let seed = options.seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    let mut temporary = tempfile::Builder::new().prefix("watchcache-kill-").tempdir()?;
    let root = options.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    let data = root.join("store");
    ensure!(!data.exists(), "{} exists: its history would be somebody else's", data.display());
    let (url, log) = (format!("http://127.0.0.1:{}", options.port), root.join("store.log"));
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut history, mut told, mut found) = (History::default(), Told::default(), Vec::new());
    let (mut kills, mut acknowledged, mut shown, mut defragmented) = (0, 0, 0, 0);
    while found.is_empty() {
        let server = Server::start(&options.server, &data, &url, &log).await?;
        found = check(&url, &mut history, &told).await?;
        if kills == options.rounds || !found.is_empty() {
            break;
        }
        told = Told::default();
        let life = Duration::from_millis(rng.random_range(LIFE_MS));
        let running = clients::start(connections(options.writers, &url)?, history.head(), rng.random(), &told);
        // The store is in another file each time.
        let defragmenting = tokio::spawn(defragment(connect(&url)?));
        sleep(life).await;
        server.kill().await?;
        defragmented += defragmenting.await?;
        clients::end(running).await;
        kills += 1;
        let (more_acknowledged, more_shown) = told.counts();
        (acknowledged, shown) = (acknowledged + more_acknowledged, shown + more_shown);
    }
    println!(
        "{kills} kills, {defragmented} defragmentations, {acknowledged} acknowledged changes, {shown} shown to watchers and readers, head {}",
        history.head()
    );
    found.iter().take(PRINTED).for_each(|violation| println!("  {violation}"));
    println!("violations: {}", found.len());
    if !found.is_empty() {
        temporary.disable_cleanup(true);
        println!("data and log: {}", root.display());
    }
    Ok(found.is_empty())
}

/// Defragments until the store is gone; how often.
async fn defragment(mut client: Client) -> u32 {
    let mut count = 0;
    while client.maintenance.defragment(DefragmentRequest {}).await.is_ok() {
        count += 1;
    }
    count
}

async fn check(url: &str, history: &mut History, told: &Told) -> Result<Vec<String>> {
    let mut client = connect_for_streams(url)?;
    clients::check(&mut client, history, told).await.map_err(|error| anyhow!("the store that is back cannot be read: {error}"))
}

/// A watcher's, a reader's, and one for each writer.
fn connections(writers: u32, url: &str) -> Result<Vec<Client>> {
    let mut connections = vec![connect_for_streams(url)?];
    for _ in 0..=writers {
        connections.push(connect(url)?);
    }
    Ok(connections)
}
