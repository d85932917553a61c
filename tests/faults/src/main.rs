//! Breaks the world around a watch cache (its store, its network, itself) while watchers watch, and validates what they saw.
//! Talks HTTP to the server and gRPC to etcd; knows nothing else of either.

mod attack;
mod brake;
mod etcd;
mod feeder;
mod history;
mod http;
mod object;
mod options;
mod pki;
mod process;
#[path = "../../it/guarantees/promise.rs"]
mod promise;
mod proxy;
mod reflector;
mod scenario;
mod stage;
mod subject;
mod truth;
mod validate;
mod wire;
mod writer;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    attack::Attack,
    options::{Options, Scenario, Subject},
    stage::Verdict,
    validate::{Guarantee, Violation},
};

/// Kinds of refusals that are printed of one scenario; the count is of all.
const PRINTED: usize = 8;
/// Violations that are printed of one guarantee; the count is of all.
const EXAMPLES: usize = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let played = async { play(&options).await };
    // At a signal everything is dropped, and with it every child killed.
    let outcome = tokio::select! {
        outcome = played => outcome,
        name = asked_to_stop() => Err(anyhow::anyhow!("stopped by {name}")),
    };
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("{failed} scenarios failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Plays what was asked; how many scenarios failed.
async fn play(options: &Options) -> Result<usize> {
    let open_files = process::raise_open_files();
    let needed = options.idle as u64 + 1000;
    anyhow::ensure!(open_files >= needed, "{open_files} open files are allowed, {needed} needed: raise the limit or lower --idle");
    let (root, temporary) = match &options.dir {
        Some(dir) => (dir.clone(), None),
        None => {
            let dir = tempfile::Builder::new().prefix("watchcache-faults-").tempdir()?;
            (dir.path().to_owned(), Some(dir))
        }
    };
    let is_fed = options.subject == Subject::WatchcacheUpstream;
    let faults = if is_fed { &Scenario::FED[..] } else { &Scenario::FAULTS[..] };
    let scenarios = match options.scenario {
        Scenario::All => [faults, &Scenario::CROWDS[..]].concat(),
        Scenario::Faults => faults.to_vec(),
        Scenario::Crowds => Scenario::CROWDS.to_vec(),
        Scenario::Attacks => Attack::ALL.into_iter().filter(|attack| !is_fed || attack.is_soon_fed()).map(Scenario::Attack).collect(),
        one => vec![one],
    };
    let mut failed = 0;
    for scenario in scenarios {
        failed += usize::from(!one(scenario, options, &root).await?);
    }
    if let (Some(dir), true) = (temporary, failed > 0) {
        eprintln!("logs: {}", dir.keep().display());
    }
    Ok(failed)
}

/// Plays one scenario and prints its line; whether it went well.
async fn one(scenario: Scenario, options: &Options, root: &Path) -> Result<bool> {
    let start = Instant::now();
    let dir: PathBuf = root.join(scenario.name());
    // Old data would be somebody else's truth.
    match std::fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("clear {}", dir.display()));
        }
        _ => {}
    }
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let seconds = |start: Instant| start.elapsed().as_secs_f64();
    let played = match scenario {
        Scenario::Attack(attack) => attack::play(attack, options, &dir).await.map(|report| {
            println!("{}", report.lines(seconds(start)));
            if options.attacks.table {
                println!("{}", report.row());
            }
            report.is_well()
        }),
        _ => scenario::play(scenario, options, &dir).await.map(|verdict| {
            print_verdict(scenario, &verdict, seconds(start));
            verdict.violations.is_empty()
        }),
    };
    match played {
        Ok(well) => Ok(well),
        Err(error) => {
            println!("{} FAILED seconds={:.1} {error:#}", scenario.name(), seconds(start));
            Ok(false)
        }
    }
}

fn print_verdict(scenario: Scenario, verdict: &Verdict, seconds: f64) {
    let notes: Vec<String> = verdict.notes.iter().map(|(name, value)| format!(" {name}={value}")).collect();
    let refused: usize = verdict.refused.values().sum();
    println!(
        "{} clients={} events={} ends={} resumes={} expired={} refused={refused} violations={} p50={}ms p99={}ms max={}ms seconds={seconds:.1}{}",
        scenario.name(),
        verdict.clients,
        verdict.events,
        verdict.ends,
        verdict.resumes,
        verdict.expired,
        verdict.violations.len(),
        verdict.delay_ms(50),
        verdict.delay_ms(99),
        verdict.delay_ms(100),
        notes.concat(),
    );
    let mut refusals: Vec<_> = verdict.refused.iter().collect();
    refusals.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    for (why, count) in refusals.iter().take(PRINTED) {
        println!("  refused {count} times: {why}");
    }
    let mut by_guarantee: BTreeMap<Guarantee, Vec<&Violation>> = BTreeMap::new();
    for violation in &verdict.violations {
        by_guarantee.entry(violation.guarantee).or_default().push(violation);
    }
    for (guarantee, violations) in by_guarantee {
        println!("  {guarantee:?} broken {} times: {}", violations.len(), guarantee.sentence());
        for violation in violations.iter().take(EXAMPLES) {
            println!("    {violation}");
        }
    }
}

async fn asked_to_stop() -> &'static str {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
