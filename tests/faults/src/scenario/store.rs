//! etcd dies and comes back; of three members the leader dies, or the one that the server follows loses its peers.

use std::{path::Path, time::Duration};

use anyhow::Result;
use tokio::time::sleep;

use crate::{
    options::Options,
    stage::{Stage, Verdict},
    validate::Expiry,
};

/// Calm between two faults.
const CALM: Duration = Duration::from_secs(2);

/// SIGKILL under writes and a start on the same data, three times, away for longer each time.
pub(super) async fn etcd_killed(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::single(options, dir).await?;
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    for away in [0, 1, 3] {
        sleep(CALM).await;
        stage.store.single()?.0.kill().await?;
        stage.wait_reading(Duration::from_secs(away)).await;
        stage.store.single()?.0.restart(&options.ports()).await?;
    }
    sleep(CALM).await;
    writers.stop().await?;
    stage.verdict(Expiry::Never).await
}

/// SIGKILL to the leader of three; the others elect a new one; the old one comes back.
pub(super) async fn leader_killed(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::three(options, dir).await?;
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    sleep(CALM).await;
    let leader = stage.store.three()?.leader().await?;
    stage.note("leader", format!("m{leader}"));
    stage.store.three()?.kill(leader).await?;
    stage.wait_reading(options.cut()).await;
    stage.store.three()?.restart(leader).await?;
    sleep(CALM).await;
    writers.stop().await?;
    stage.verdict(Expiry::Never).await
}

/// The member that the server follows is cut off from its peers in both directions, yet still takes connections: it is silent, and the
/// server has to go elsewhere while it stays so.
pub(super) async fn member_isolated(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::three(options, dir).await?;
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    let followed = stage.store.three()?.busiest(CALM).await;
    stage.note("isolated", format!("m{followed}"));
    stage.store.three()?.isolate(followed);
    stage.wait_reading(options.cut()).await;
    writers.stop().await?;
    let caught_up = stage.settle().await;
    stage.note("isolated_settled", format!("{}ms", caught_up.as_millis()));
    stage.store.three()?.heal();
    let writers = stage.write(&stage.workload()).await?;
    sleep(CALM).await;
    writers.stop().await?;
    stage.verdict(Expiry::Never).await
}
