//! Leases that end: their keys go in one revision, a kept-alive one stays, a detached key stays. Needs whole seconds, so it comes last.

use std::time::Duration;

use anyhow::Result;
use etcd_client::{GetOptions, PutOptions, WatchOptions};
use tokio::time::{Instant, sleep};

use super::{Pair, operation::Operation};

/// Leases that are let go, one after another, for two that end in the same second end in any order.
const LEASES: i64 = 5;
/// What they are granted: so much that none ends while it is asked about, where a machine stands still for six seconds.
const TTL_SECONDS: i64 = 14;
/// From the grant to the keep-alive, and from there to the look at what is left: together longer than the lease, each much shorter.
const BEFORE: Duration = Duration::from_millis(7_500);
const AFTER: Duration = Duration::from_millis(7_500);
/// Longest time from the last keep-alive to the end: the lease, etcd's rounds of 500 ms, a slow machine.
const END: Duration = Duration::from_secs(60);

pub(super) async fn run(pair: &mut Pair) -> Result<()> {
    pair.close_streams();
    let options = WatchOptions::new().with_prefix().with_prev_key();
    pair.ask(&Operation::Watch { stream: 0, key: b"leased/".to_vec(), start: 0, options }).await?;
    for lease in 1000..1000 + LEASES {
        let attached = PutOptions::new().with_lease(lease);
        let put = |key: String, options: PutOptions| Operation::Put { key: key.into_bytes(), value: b"v".to_vec(), options };
        pair.ask(&Operation::Grant { id: lease, ttl: TTL_SECONDS - lease % 2 }).await?;
        for key in 0..4 {
            pair.ask(&put(format!("leased/{lease}/{key}"), attached.clone())).await?;
        }
        // One is detached, one moves to another key's lease that is not there, one is deleted before.
        pair.ask(&put(format!("leased/{lease}/0"), PutOptions::new())).await?;
        pair.ask(&put(format!("leased/{lease}/1"), PutOptions::new().with_lease(lease + 500))).await?;
        pair.ask(&Operation::TimeToLive { id: lease, keys: true }).await?;
        if lease % 2 == 0 {
            sleep(BEFORE).await;
            pair.ask(&Operation::KeepAlive { id: lease }).await?;
            sleep(AFTER).await;
            pair.ask(&read("leased/")).await?;
        }
        ended(pair, lease).await?;
        pair.ask(&Operation::TimeToLive { id: lease, keys: true }).await?;
        pair.ask(&Operation::Revoke { id: lease }).await?;
        pair.ask(&Operation::KeepAlive { id: lease }).await?;
        pair.ask(&read("leased/")).await?;
    }
    pair.ask(&Operation::Leases).await?;
    Ok(())
}

fn read(prefix: &str) -> Operation {
    Operation::Range { key: prefix.into(), options: GetOptions::new().with_prefix(), sort: None }
}

/// Waits until the lease has taken a key of its own with it on both sides; when one side does not let go, the questions that follow show it.
async fn ended(pair: &mut Pair, lease: i64) -> Result<()> {
    let key = format!("leased/{lease}/3");
    let deadline = Instant::now() + END;
    while Instant::now() < deadline {
        let (etcd, store) = tokio::join!(pair.etcd.calls.get(key.clone(), None), pair.store.calls.get(key.clone(), None));
        if etcd?.kvs().is_empty() && store?.kvs().is_empty() {
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
