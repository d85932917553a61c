//! The connection between the server and etcd is cut while writes go on; a compaction passes by meanwhile.

use std::{path::Path, time::Duration};

use anyhow::Result;
use tokio::time::sleep;

use crate::{
    etcd,
    options::Options,
    proxy::Gate,
    stage::{Stage, Verdict},
    validate::Expiry,
};

/// Calm before and after a fault.
const CALM: Duration = Duration::from_secs(3);

/// A cut that heals: the watchers get what they missed, with no 410.
pub(super) async fn cut(options: &Options, dir: &Path, how: Gate) -> Result<Verdict> {
    let mut stage = Stage::single(options, dir).await?;
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    sleep(CALM).await;
    stage.network(how)?;
    stage.wait_reading(options.cut()).await;
    stage.network(Gate::Open)?;
    sleep(CALM).await;
    writers.stop().await?;
    stage.verdict(Expiry::Never).await
}

/// What the server missed is compacted away: it has to start anew, and its watchers have to know. Who feeds it has forgotten it, too, having been started
/// again.
pub(super) async fn compaction(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::single(options, dir).await?;
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    sleep(CALM).await;
    stage.network(Gate::Broken)?;
    sleep(options.cut()).await;
    let is_fed = stage.is_fed();
    if is_fed {
        stage.feeder()?.kill().await?;
    }
    let (_, before) = stage.ledger.now();
    let compacted = etcd::compact(stage.store_ports()[0]).await?;
    stage.note("compacted", format!("{compacted}/{before}"));
    sleep(Duration::from_millis(500)).await;
    if is_fed {
        stage.feeder()?.start().await?;
    }
    stage.network(Gate::Open)?;
    sleep(CALM).await;
    writers.stop().await?;
    stage.verdict(if is_fed { Expiry::Anyhow } else { Expiry::BelowFloor }).await
}
