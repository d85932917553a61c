//! etcd, or the embedded store, is restored from an older backup on the same address: what came after the backup never happened.

use std::{path::Path, path::PathBuf, time::Duration};

use anyhow::{Result, ensure};
use tokio::time::sleep;

use crate::{
    options::Options,
    proxy::Gate,
    stage::{Stage, Verdict},
    validate::Expiry,
};

/// Writes after the backup, that the restore undoes.
const UNDONE: Duration = Duration::from_secs(4);
/// Writes after the restore, while the server connects again.
const BEFORE_IT_IS_NOTICED: Duration = Duration::from_millis(500);
/// Writes after the restore: fewer, so that revisions stay below the old ones.
const AFTER: Duration = Duration::from_secs(2);
/// The longest that revisions may take to pass the old ones.
const PASSING_MAX: Duration = Duration::from_secs(120);

/// The server is connected when revisions go back. First it has to notice although nobody writes anything newer than it knows.
pub(super) async fn seen(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::single(options, dir).await?;
    let backup = until_undone(&mut stage).await?;
    let old = stage.ledger.now().1;
    swap(&mut stage, &backup).await?;
    let writers = stage.write(&stage.workload()).await?;
    sleep(BEFORE_IT_IS_NOTICED).await;
    writers.stop().await?;
    // Who comes back with a revision of the old history that the new one has passed cannot be told from others: everybody is told first.
    stage.settle().await;
    let writers = stage.write(&stage.workload()).await?;
    sleep(AFTER).await;
    writers.stop().await?;
    stage.note("heads", format!("{old}/{}", stage.ledger.now().1));
    stage.verdict(Expiry::Anyhow).await
}

/// The server is cut off until revisions have passed the old ones: only the content tells that this is another history.
pub(super) async fn unseen(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::single(options, dir).await?;
    let backup = until_undone(&mut stage).await?;
    let old = stage.ledger.now().1;
    stage.network(Gate::Broken)?;
    swap(&mut stage, &backup).await?;
    let writers = stage.write(&stage.workload()).await?;
    let passing = async {
        while stage.ledger.now().1 < old + 50 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PASSING_MAX, passing).await?;
    stage.network(Gate::Open)?;
    sleep(AFTER).await;
    writers.stop().await?;
    stage.note("heads", format!("{old}/{}", stage.ledger.now().1));
    stage.verdict(Expiry::Anyhow).await
}

/// The same on the embedded store, saved while it is written to: it begins so far ahead that no revision is seen twice.
pub(super) async fn store(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::on_store(options, dir).await?;
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    sleep(AFTER).await;
    let (backup, kept) = stage.store.single()?.0.save().await?;
    sleep(UNDONE).await;
    writers.stop().await?;
    stage.settle().await;
    let old = stage.ledger.now().1;
    let ports = stage.options.ports();
    end_feeder(&mut stage).await?;
    stage.store.single()?.0.stop().await?;
    stage.store.single()?.0.restore_saved(&backup).await?;
    stage.ledger.restored(kept);
    stage.store.single()?.0.restart(&ports).await?;
    start_feeder(&mut stage).await?;
    let begins = crate::etcd::head(&mut crate::etcd::patient(ports.etcd(0))?).await?;
    let writers = stage.write(&stage.workload()).await?;
    sleep(AFTER).await;
    writers.stop().await?;
    ensure!(kept < old && begins > old, "saved at {kept}, {old} was seen, and it began again at {begins}");
    stage.note("heads", format!("{kept}/{old}/{begins}/{}", stage.ledger.now().1));
    stage.verdict(Expiry::Anyhow).await
}

/// Watchers, writes, a backup, more writes that every watcher sees.
async fn until_undone(stage: &mut Stage) -> Result<PathBuf> {
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    sleep(AFTER).await;
    writers.stop().await?;
    let ports = stage.options.ports();
    let etcd = stage.store.single()?.0;
    etcd.stop().await?;
    let backup = etcd.back_up()?;
    let kept = stage.ledger.now().1;
    etcd.restart(&ports).await?;
    let writers = stage.write(&stage.workload()).await?;
    sleep(UNDONE).await;
    writers.stop().await?;
    stage.settle().await;
    stage.note("backup", kept.to_string());
    std::fs::write(stage.dir.join("kept"), kept.to_string())?;
    Ok(backup)
}

async fn swap(stage: &mut Stage, backup: &Path) -> Result<()> {
    let kept = std::fs::read_to_string(stage.dir.join("kept"))?.parse()?;
    let ports = stage.options.ports();
    end_feeder(stage).await?;
    stage.store.single()?.0.stop().await?;
    stage.store.single()?.0.restore(backup)?;
    stage.ledger.restored(kept);
    stage.store.single()?.0.restart(&ports).await?;
    start_feeder(stage).await
}

/// A kube-apiserver does not notice that its etcd is restored: whoever restores it ends the kube-apiserver before.
async fn end_feeder(stage: &mut Stage) -> Result<()> {
    if stage.is_fed() { stage.feeder()?.kill().await } else { Ok(()) }
}

async fn start_feeder(stage: &mut Stage) -> Result<()> {
    if stage.is_fed() { stage.feeder()?.start().await } else { Ok(()) }
}
