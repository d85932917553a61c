//! Attacks for as long as one likes, three at once and then one of the others in its turn, while the everyday watchers watch: they see everything, and memory
//! stays where it is.

use std::{path::Path, time::Duration};

use anyhow::Result;
use tokio::time::{Instant, sleep};

use crate::{
    attack::{self, Target},
    options::Options,
    stage::{Stage, Verdict},
    validate::{Expiry, Guarantee},
};

/// How long watchers and writers take to find their pace.
const BEGINNING: Duration = Duration::from_secs(5);
/// Length of one round of attacks, after which each lets go and begins anew.
const ROUND: Duration = Duration::from_secs(20);

pub(super) async fn soak(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::single(options, dir).await?;
    attack::seed_large(stage.store_ports()[0], options.attacks.large_objects()).await?;
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    sleep(BEGINNING).await;
    let before = stage.server.cost()?.rss_mib;
    stage.server.forget_peak()?;
    let (plain, secure) = (stage.server.listener.clone(), stage.server.secure.clone());
    let end = Instant::now() + Duration::from_secs(options.attacks.soak_seconds);
    let (mut rounds, mut others) = (0, Vec::new());
    while Instant::now() < end {
        let time = ROUND.min(end - Instant::now());
        let target = Target { plain: plain.clone(), secure: secure.clone(), is_fed: stage.is_fed(), sizes: options.attacks.clone(), time };
        let last = attack::three_at_once(&target).await;
        stage.server.alive()?;
        let time = ROUND.min(end.saturating_duration_since(Instant::now()));
        if !time.is_zero() {
            let name = attack::in_turn(rounds, &Target { time, ..target }).await?;
            if !others.contains(&name) {
                others.push(name);
            }
        }
        rounds += 1;
        if Instant::now() >= end {
            last.into_iter().for_each(|(name, value)| stage.note(name, value));
        }
        stage.server.alive()?;
    }
    let peak = stage.server.cost()?.peak_mib;
    sleep(options.attacks.recovery()).await;
    stage.note("rounds", rounds.to_string());
    stage.note("in_turn", others.len().to_string());
    stage.note("mib", format!("{before}/{peak}/{}", stage.server.cost()?.rss_mib));
    if peak > before + options.attacks.attack_mib {
        stage.blame(Guarantee::Bounded, format!("the server grew from {before} to {peak} MiB"));
    }
    writers.stop().await?;
    stage.verdict(Expiry::Never).await
}
