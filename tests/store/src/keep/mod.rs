//! `keep`: a store is saved, restored and defragmented under writers, by its own commands and by etcd's clients; what is restored is compared with what was
//! acknowledged.

mod kills;
mod load;
mod tools;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use etcd_client::{Client, GetOptions, WatchOptions};
use rand::{SeedableRng, rngs::StdRng};
use tokio::time::sleep;

use crate::{connection::connect, cost::cpu_seconds, server::Server};
use load::{Content, Load, Log};
use tools::{Tools, Way};

/// How far above a backup a restored store begins.
const BUMP: i64 = 1_000_000;
/// Keys that are compared at once.
const PAGE: i64 = 200;
/// Parts of a run that are told apart by what a write took.
const QUIET: usize = 0;

/// What is saved, how, and how fast it is written to meanwhile.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The server's binary.
    #[arg(long)]
    server: PathBuf,
    /// etcdctl.
    #[arg(long)]
    etcdctl: PathBuf,
    /// Writes a second.
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// Writing before, between and after backups, seconds.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// What the store holds before, MiB.
    #[arg(long, default_value_t = 20)]
    mib: usize,
    /// Commands that are killed half-way, of each kind.
    #[arg(long, default_value_t = 8)]
    kills: u32,
    /// First of two ports on loopback.
    #[arg(long, default_value_t = 21794)]
    port: u16,
    /// Seed of the writes and the kills; random without.
    #[arg(long)]
    seed: Option<u64>,
    /// Folder of everything; a temporary one without, kept when something is found.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Saves and compares; whether everything was as it should be.
pub(crate) async fn run(options: &Options) -> Result<bool> {
    let seed = options.seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    let mut temporary = tempfile::Builder::new().prefix("watchcache-keep-").tempdir()?;
    let root = options.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    let outcome = play(options, &root, seed).await;
    if outcome.is_err() {
        temporary.disable_cleanup(true);
        println!("everything: {}", root.display());
    }
    outcome.map(|()| true)
}

async fn play(options: &Options, root: &Path, seed: u64) -> Result<()> {
    let (url, data) = (format!("http://127.0.0.1:{}", options.port), root.join("store"));
    ensure!(!data.exists(), "{} exists", data.display());
    let tools = Tools::new(&options.server, &options.etcdctl, &url, &data);
    let server = Server::start(&options.server, &data, &url, &root.join("store.log")).await?;
    let mut load = Load::fill(&url, options.mib, seed).await?;
    let mut client = Client::connect([&url], None).await?;
    let size = client.status().await?;
    println!("{} revisions, {} bytes", load.log().head(), size.db_size());
    load.start(options.rate).await?;
    let pause = Duration::from_secs(options.seconds);
    sleep(pause).await;
    let mut backups = Vec::new();
    for (number, way) in Way::ALL.into_iter().enumerate() {
        let file = root.join(format!("backup-{way:?}"));
        let (began, before) = (Instant::now(), [cpu_seconds(server.id())?, tools::children_seconds()?]);
        load.part(number + 1);
        tools.save(way, &file).await?;
        load.part(QUIET);
        let spent = [cpu_seconds(server.id())? - before[0], tools::children_seconds()? - before[1]];
        println!(
            "{way:?}: {} bytes in {:.2} s, {:.2} s of a processor in the server, {:.2} s in the command",
            std::fs::metadata(&file)?.len(),
            began.elapsed().as_secs_f64(),
            spent[0],
            spent[1]
        );
        backups.push(file);
        sleep(pause).await;
    }
    for (number, way) in Way::ALL.into_iter().enumerate() {
        let (began, before) = (Instant::now(), client.status().await?.db_size());
        load.part(Way::ALL.len() + 1 + number);
        tools.defragment(way).await?;
        load.part(QUIET);
        println!(
            "{way:?}: defragmented in {:.2} s, {before} bytes before, {} now",
            began.elapsed().as_secs_f64(),
            client.status().await?.db_size()
        );
        sleep(pause).await;
    }
    let (log, latencies) = load.stop().await?;
    println!("| meanwhile | writes | p50 ms | p99 ms | max ms |\n|---|---|---|---|---|");
    let names = ["nothing".to_owned()].into_iter().chain(Way::ALL.map(|way| format!("backup by {way:?}")));
    for (part, name) in names.chain(Way::ALL.map(|way| format!("defragmentation by {way:?}"))).enumerate() {
        println!("| {name} | {} |", latencies.row(part));
    }
    compare(&url, &log, log.head(), log.head()).await?;
    for file in &backups {
        restored(options, &tools, root, file, &log).await?;
    }
    // Not only dropped: it has the directory until it is gone.
    server.kill().await?;
    kills::run(options.kills, &tools, root, &backups[0], &log, &mut StdRng::seed_from_u64(seed)).await
}

/// Restores a backup beside the store and compares what is there with what was acknowledged.
async fn restored(options: &Options, tools: &Tools, root: &Path, file: &Path, log: &Log) -> Result<()> {
    let (data, url) = (root.join("restored"), format!("http://127.0.0.1:{}", options.port + 1));
    let began = Instant::now();
    let told = tools.restore(file, &data, BUMP).await?;
    let seconds = began.elapsed().as_secs_f64();
    let server = Server::start(&options.server, &data, &url, &root.join("restored.log")).await?;
    let head = crate::connection::head(&mut connect(&url)?).await?;
    let revision = head - BUMP;
    compare(&url, log, revision, head).await?;
    println!("{}: revision {revision}, {} keys as acknowledged, restored in {seconds:.2} s", file.display(), log.state(revision).len());
    ensure!(told.contains(&format!("revision {revision} ")), "another revision was told: {told}");
    // Whoever saw more of the old store is told to begin anew.
    let mut client = Client::connect([&url], None).await?;
    for seen in [revision, log.head(), head - 1] {
        let options = WatchOptions::new().with_prefix().with_start_revision(seen + 1 - i64::from(seen + 1 == head));
        let mut watch = client.watch("", Some(options)).await?;
        let ended = loop {
            match watch.message().await? {
                Some(answer) if answer.canceled() => break answer,
                Some(answer) if answer.events().is_empty() => {}
                other => bail!("a watch from revision {seen} went on: {other:?}"),
            }
        };
        ensure!(ended.compact_revision() == head, "it was told to begin at {}", ended.compact_revision());
    }
    let next = client.put("after", "1", None).await?.header().map_or(0, etcd_client::ResponseHeader::revision);
    ensure!(next == head + 1, "the next revision is {next}");
    server.kill().await?;
    std::fs::remove_dir_all(&data)?;
    Ok(())
}

/// Compares all keys, their revisions, versions and values with those of the log.
async fn compare(url: &str, log: &Log, revision: i64, head: i64) -> Result<()> {
    let mut client = Client::connect([url], None).await?;
    let wanted = log.state(revision);
    let (mut wanted, mut from) = (wanted.iter(), vec![0]);
    loop {
        let page = client.get(from.clone(), Some(GetOptions::new().with_from_key().with_limit(PAGE))).await?;
        ensure!(page.header().map(etcd_client::ResponseHeader::revision) == Some(head), "another head: {:?}", page.header());
        for kv in page.kvs() {
            let Some((key, content)) = wanted.next() else { bail!("{:?} should not be there", kv.key_str()) };
            let found =
                Content { created: kv.create_revision(), changed: kv.mod_revision(), version: kv.version(), value: kv.value().into() };
            ensure!(kv.key() == *key && found == *content, "{:?} at {revision} is not as it was acknowledged", kv.key_str());
        }
        match page.kvs().last() {
            Some(last) if page.more() => from = [last.key(), &[0]].concat(),
            _ => break,
        }
    }
    match wanted.next() {
        Some((key, _)) => bail!("{} is not there at {revision}", key.escape_ascii()),
        None => Ok(()),
    }
}
