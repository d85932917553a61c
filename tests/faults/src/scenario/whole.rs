//! Revisions that change many keys arrive whole: a lease revoke, a large transaction, and what etcd cuts into fragments.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use proto::{
    PutRequest,
    testing::{Client, put as putting, txn},
};
use tokio::time::sleep;

use crate::{
    etcd,
    object::{Draft, NAMESPACE_PREFIX, Resource},
    options::Options,
    proxy::Gate,
    stage::{Stage, Verdict},
    truth::Change,
    validate::Expiry,
    writer::{Store, Write},
};

/// Keys that one lease takes with it (issue: 1,500).
const LEASED: usize = 1500;
/// Objects of one transaction. etcd takes 128 operations by default, and one is the writer's marker.
const IN_TRANSACTION: usize = 100;
/// Payload of each object of the big transaction: together 1.1 MB, below etcd's request limit of 1.5 MiB.
const BIG_PAYLOAD: usize = 11_000;
/// etcd fragments a response above its request limit + 512 KiB (etcd `MaxRequestBytesWithOverhead`): with this limit above 576 KiB.
const SMALL_LIMIT: &str = "--max-request-bytes=65536";
/// Key that ends a direct watch.
const END: &str = "faults/end";

/// A lease revoke of 1,500 keys, and a transaction of 100, among everyday writes.
pub(super) async fn lease_and_transaction(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::single(options, dir).await?;
    let port = stage.store_ports()[0];
    let mut client = etcd::patient(port)?;
    let lease = put_leased(&stage, &mut client, "faults-1", LEASED).await?;
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    let mut store = Store::connect(&[port], stage.ledger.clone(), "faults/marker/whole".into())?;
    sleep(Duration::from_secs(1)).await;
    for round in 0..3 {
        store.commit_surely(drafts(&stage, &format!("whole-{round}"), 200)).await?;
    }
    let revision = revoke(&stage, &mut client, lease, LEASED).await?;
    stage.note("revoked", format!("{LEASED}@{revision}"));
    sleep(Duration::from_secs(1)).await;
    writers.stop().await?;
    stage.verdict(Expiry::Never).await
}

/// While the server is cut off: one revision of 1.1 MB in 100 puts, one of 5,000 deletes, and small ones between them. Then etcd starts
/// with a limit so small that it has to cut each into fragments.
pub(super) async fn fragments(options: &Options, dir: &Path) -> Result<Verdict> {
    const DELETED: usize = 5000;
    let mut stage = Stage::single(options, dir).await?;
    let port = stage.store_ports()[0];
    let mut client = etcd::patient(port)?;
    let lease = put_leased(&stage, &mut client, "faults-lease", DELETED).await?;
    stage.watch().await;
    let from = stage.ledger.now().1 + 1;
    let writers = stage.write(&stage.workload()).await?;
    sleep(Duration::from_secs(1)).await;
    stage.network(Gate::Broken)?;
    let mut store = Store::connect(&[port], stage.ledger.clone(), "faults/marker/fragments".into())?;
    store.commit_surely(drafts(&stage, "big", BIG_PAYLOAD)).await?;
    sleep(Duration::from_millis(500)).await;
    revoke(&stage, &mut client, lease, DELETED).await?;
    sleep(Duration::from_millis(500)).await;
    writers.stop().await?;
    let etcd = stage.store.single()?.0;
    etcd.stop().await?;
    etcd.set_flags(&[SMALL_LIMIT]);
    etcd.restart(&options.ports()).await?;
    client.put((END, "2")).await?;
    let direct = etcd::direct(port, from, END).await?;
    ensure!(direct.fragments > 0, "etcd did not fragment: this scenario shows nothing");
    stage.note("fragments", direct.fragments.to_string());
    stage.network(Gate::Open)?;
    stage.settle().await;
    let writers = stage.write(&stage.workload()).await?;
    sleep(Duration::from_secs(1)).await;
    writers.stop().await?;
    stage.verdict(Expiry::Never).await
}

fn drafts(stage: &Stage, name: &str, payload_bytes: usize) -> Vec<Write> {
    let draft = |i: usize| Draft {
        namespace: format!("{NAMESPACE_PREFIX}{}", i % 4),
        name: format!("{name}-{i:04}"),
        tier: u8::try_from(i % 3).expect("below three"),
        seq: stage.ledger.next_seq(),
        payload_bytes,
    };
    (0..IN_TRANSACTION).map(|i| Write::Put(draft(i))).collect()
}

/// Creates objects with long names that hang on one lease. etcd is calm: a failed write fails the scenario.
async fn put_leased(stage: &Stage, client: &mut Client, namespace: &str, count: usize) -> Result<i64> {
    let lease = client.grant(0, 3600).await?.id;
    for first in (0..count).step_by(IN_TRANSACTION) {
        let drafts: Vec<Draft> = (first..(first + IN_TRANSACTION).min(count))
            .map(|i| Draft {
                namespace: namespace.to_owned(),
                name: format!("leased-{i:05}-{}", "x".repeat(180)),
                tier: u8::try_from(i % 3).expect("below three"),
                seq: stage.ledger.next_seq(),
                payload_bytes: 20,
            })
            .collect();
        let put = |d: &Draft| {
            PutRequest { lease, ..putting(Resource::ConfigMaps.etcd_key(&d.namespace, &d.name), d.stored(Resource::ConfigMaps)) }.into()
        };
        let answer = client.txn(txn([], drafts.iter().map(put).collect::<Vec<_>>())).await?;
        let revision = answer.header.context("a transaction has a header")?.revision;
        stage.ledger.record(u64::try_from(revision)?, drafts.iter().map(Change::put).collect());
    }
    Ok(lease)
}

/// Revokes, and learns from etcd's own watch which revision it was: the answer's header may already be newer.
async fn revoke(stage: &Stage, client: &mut Client, lease: i64, count: usize) -> Result<u64> {
    let before = etcd::head(client).await?;
    client.revoke(lease).await?;
    client.put((END, "1")).await?;
    let direct = etcd::direct(stage.store_ports()[0], before + 1, END).await?;
    let mut by_revision: BTreeMap<u64, Vec<Change>> = BTreeMap::new();
    for (key, revision) in direct.deleted.iter().filter(|(k, _)| k.contains("/leased-")) {
        let (namespace, name) = key.trim_start_matches("/registry/configmaps/").split_once('/').context("a ConfigMap's key")?;
        by_revision.entry(*revision).or_default().push(Change::delete(namespace, name));
    }
    let (revision, changes) = by_revision.pop_first().context("the lease had keys")?;
    ensure!(by_revision.is_empty() && changes.len() == count, "etcd revoked {} keys of {count} at {revision}", changes.len());
    stage.ledger.record(revision, changes);
    Ok(revision)
}
