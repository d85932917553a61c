//! `bench`: puts from more and more writers, each target in turn in one run. Knows addresses and process ids, not what answers there.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;

use crate::{connection::connect, cost::cpu_seconds};

/// Writers that share a connection: a hundred connections are no more work for a server, but for the load generator.
const WRITERS_PER_CONNECTION: usize = 16;
/// Keys of a writer.
const KEYS: usize = 1000;
/// Load before a measurement, not counted.
const WARM_UP: Duration = Duration::from_secs(1);

/// What is loaded, how much and how long.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// NAME=URL, once for each target: etcd=http://127.0.0.1:2379
    #[arg(long = "target", required = true, value_parser = target)]
    targets: Vec<(String, String)>,
    /// Process ids of the targets, in the same order, for the processor time.
    #[arg(long = "pid")]
    pids: Vec<u32>,
    /// Concurrent writers, one measurement for each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 256])]
    writers: Vec<usize>,
    /// Length of a measurement, seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How often each target has its turn.
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Bytes of a value.
    #[arg(long, default_value_t = 1024)]
    value_bytes: usize,
}

fn target(text: &str) -> Result<(String, String), String> {
    text.split_once('=').map(|(name, url)| (name.to_owned(), url.to_owned())).ok_or_else(|| "want NAME=URL".to_owned())
}

/// Measures and prints the table.
pub(crate) async fn run(options: &Options) -> Result<bool> {
    ensure!(options.pids.is_empty() || options.pids.len() == options.targets.len(), "one --pid for each --target, or none");
    println!("| writers | target | puts/s | p50 ms | p99 ms | server CPU µs/put |");
    println!("|---|---|---|---|---|---|");
    for writers in &options.writers {
        let mut measured: Vec<Measured> = options.targets.iter().map(|_| Measured::default()).collect();
        for _ in 0..options.rounds {
            for (at, (name, url)) in options.targets.iter().enumerate() {
                let pid = options.pids.get(at).copied();
                measured[at].add(one(options, url, *writers, pid).await.with_context(|| format!("{name} at {url}"))?);
            }
        }
        for ((name, _), measured) in options.targets.iter().zip(&mut measured) {
            println!("| {writers} | {name} | {} |", measured.row());
        }
    }
    Ok(true)
}

/// What one target did, all its turns together.
#[derive(Debug, Default)]
struct Measured {
    /// From sending a put to its answer, microseconds.
    latencies: Vec<u32>,
    seconds: f64,
    cpu_seconds: Option<f64>,
}

impl Measured {
    fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.seconds += other.seconds;
        self.cpu_seconds = other.cpu_seconds.map(|cpu| cpu + self.cpu_seconds.unwrap_or(0.0));
    }

    fn row(&mut self) -> String {
        self.latencies.sort_unstable();
        let count = self.latencies.len();
        let at = |percent: usize| f64::from(*self.latencies.get(count * percent / 100).unwrap_or(&0)) / 1000.0;
        let cpu = self.cpu_seconds.map_or("–".to_owned(), |cpu| format!("{:.0}", cpu * 1e6 / count.max(1) as f64));
        format!("{:.0} | {:.2} | {:.2} | {cpu}", count as f64 / self.seconds, at(50), at(99))
    }
}

async fn one(options: &Options, url: &str, writers: usize, pid: Option<u32>) -> Result<Measured> {
    load(options, url, writers, WARM_UP).await?;
    let before = pid.map(cpu_seconds).transpose()?;
    let start = Instant::now();
    let latencies = load(options, url, writers, Duration::from_secs(options.seconds)).await?;
    let seconds = start.elapsed().as_secs_f64();
    let cpu = pid.map(cpu_seconds).transpose()?;
    Ok(Measured { latencies, seconds, cpu_seconds: cpu.zip(before).map(|(after, before)| after - before) })
}

async fn load(options: &Options, url: &str, writers: usize, length: Duration) -> Result<Vec<u32>> {
    let mut clients = Vec::new();
    for _ in 0..writers.div_ceil(WRITERS_PER_CONNECTION) {
        clients.push(connect(url)?);
    }
    let deadline = Instant::now() + length;
    let mut set: JoinSet<Result<Vec<u32>>> = JoinSet::new();
    for writer in 0..writers {
        let mut client = clients[writer % clients.len()].clone();
        let mut value = vec![0_u8; options.value_bytes];
        rand::Rng::fill(&mut rand::rng(), &mut value[..]);
        set.spawn(async move {
            let mut latencies = Vec::new();
            for turn in 0.. {
                let sent = Instant::now();
                if sent >= deadline {
                    break;
                }
                client.put((format!("bench/{writer:03}/{:04}", turn % KEYS), value.clone())).await?;
                latencies.push(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
            Ok(latencies)
        });
    }
    let mut all = Vec::new();
    while let Some(latencies) = set.join_next().await {
        all.extend(latencies??);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_of_all_turns() {
        let mut measured = Measured::default();
        measured.add(Measured { latencies: vec![3000, 1000], seconds: 1.0, cpu_seconds: Some(0.001) });
        measured.add(Measured { latencies: vec![2000, 4000], seconds: 1.0, cpu_seconds: Some(0.003) });
        assert_eq!(measured.row(), "2 | 3.00 | 4.00 | 1000");
    }

    #[test]
    fn a_target_has_a_name() {
        assert_eq!(target("a=http://x"), Ok(("a".to_owned(), "http://x".to_owned())));
        assert!(target("http").is_err());
    }
}
