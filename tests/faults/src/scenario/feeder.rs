//! The kube-apiserver that feeds the server stands still, answers by a trickle, breaks off in the middle, is killed and comes back: what is in memory is read
//! all the while, and watchers get what they missed.

use std::{path::Path, time::Duration};

use anyhow::Result;
use tokio::time::sleep;

use crate::{
    options::Options,
    proxy::Gate,
    stage::{Stage, Verdict},
    validate::Expiry,
};

/// Calm before and after a fault.
const CALM: Duration = Duration::from_secs(3);
/// Bytes a second, fewer than the writes make of events; and bytes after which a connection is over.
const SLOW: usize = 4_000;
const TORN: usize = 20_000;

/// History begins anew with a kube-apiserver, so watches may end with 410 then.
pub(super) async fn broken(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::single(options, dir).await?;
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    sleep(CALM).await;
    stage.feeder()?.pause()?;
    stage.wait_reading(options.cut()).await;
    stage.feeder()?.resume()?;
    for gate in [Gate::Slow(SLOW), Gate::Torn(TORN)] {
        sleep(CALM).await;
        stage.network(gate)?;
        stage.wait_reading(options.cut()).await;
        stage.network(Gate::Open)?;
    }
    sleep(CALM).await;
    stage.feeder()?.kill().await?;
    stage.wait_reading(options.cut()).await;
    stage.feeder()?.start().await?;
    sleep(CALM).await;
    writers.stop().await?;
    let cost = stage.feeder()?.cost()?;
    stage.note("feeder_rss_mib", cost.rss_mib.to_string());
    stage.verdict(Expiry::Anyhow).await
}
