//! Commands about a stopped store that are killed half-way: a file or directory that has its name is whole, and what was there before is as it was.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rand::{Rng, rngs::StdRng};
use tokio::{process::Command, time::sleep};

use super::{
    BUMP,
    load::Log,
    tools::{Tools, unheard},
};

/// Kills each command so often, and looks at what is left; `file` is a backup of the store that `log` is of.
pub(super) async fn run(kills: u32, tools: &Tools, root: &Path, file: &Path, log: &Log, rng: &mut StdRng) -> Result<()> {
    let whole = format!("a whole store at revision {}", log.head());
    let (saved, restored) = (root.join("killed-backup"), root.join("killed-restore"));
    let times = [
        timed(tools.backup(&saved)).await?,
        timed(tools.restore_command(file, &restored, BUMP)).await?,
        timed(tools.defragment_command()).await?,
    ];
    let told = tools.check(&restored).await?;
    let mut cut = [0; 2];
    for _ in 0..kills {
        std::fs::remove_file(&saved)?;
        killed(tools.backup(&saved), times[0], rng).await?;
        cut[0] += u32::from(!saved.exists());
        if saved.exists() {
            tools.check_backup(&saved).await?;
        }
        // The next one is not in the way of what is left.
        ensure!(tools.backup(&saved).output().await?.status.success(), "a backup after one that was killed");
        ensure!(tools.check_backup(&saved).await?.contains(&format!("revision {} ", log.head())), "of another revision");

        std::fs::remove_dir_all(&restored)?;
        killed(tools.restore_command(file, &restored, BUMP), times[1], rng).await?;
        if let Err(error) = tools.check(&restored).await {
            let line = error.to_string();
            ensure!(line.contains("there is no store in it") || line.contains("a restore into it was cut off"), "{line}");
            cut[1] += 1;
            tools.restore(file, &restored, BUMP).await.context("a restore after one that was killed")?;
        }
        let again = tools.check(&restored).await?;
        ensure!(contents(&again) == contents(&told), "{again} after {told}");

        killed(tools.defragment_command(), times[2], rng).await?;
        let told = tools.check(tools.data()).await?;
        ensure!(told.contains(&whole), "{told}");
    }
    println!("killed: {kills} backups ({} without a file), {kills} restores ({} cut off), {kills} defragmentations", cut[0], cut[1]);
    Ok(())
}

/// What a check says but for sizes.
fn contents(told: &str) -> Option<&str> {
    told.split(" keys, ").next()
}

async fn timed(mut command: Command) -> Result<Duration> {
    let began = Instant::now();
    let output = command.output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(began.elapsed())
}

/// Starts it and kills it some time before it would have ended.
async fn killed(mut command: Command, whole: Duration, rng: &mut StdRng) -> Result<()> {
    let mut child = unheard(&mut command)?;
    sleep(whole.mul_f64(rng.random_range(0.0..1.05))).await;
    child.kill().await?;
    Ok(())
}
