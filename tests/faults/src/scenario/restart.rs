//! The server itself goes and comes back; its watchers resume where they were.

use std::{path::Path, time::Duration};

use anyhow::Result;
use tokio::time::sleep;

use crate::{
    options::Options,
    stage::{Stage, Verdict},
    writer::Workload,
};

/// Calm before and after a restart.
const CALM: Duration = Duration::from_secs(3);

/// SIGTERM: streams end between revisions, with their terminating chunk.
pub(super) async fn terminated(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::single(options, dir).await?;
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    sleep(CALM).await;
    stage.server.restart().await?;
    sleep(CALM).await;
    writers.stop().await?;
    let expiry = stage.expiry_of_restart();
    stage.verdict(expiry).await
}

/// SIGKILL. No transactions of several keys here: a stream torn inside a revision cannot be resumed by the protocol, whoever serves it.
pub(super) async fn crashed(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::single(options, dir).await?;
    stage.watch().await;
    let writers = stage.write(&Workload { transactions: 0, ..stage.workload() }).await?;
    sleep(CALM).await;
    stage.server.crash().await?;
    sleep(CALM).await;
    writers.stop().await?;
    let expiry = stage.expiry_of_restart();
    stage.verdict(expiry).await
}
