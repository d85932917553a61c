//! Leases that end: their keys go in one revision, a kept-alive one stays, a detached key stays. Needs whole seconds, so it comes last.

use std::time::Duration;

use anyhow::Result;
use proto::{
    PutRequest, WatchCreateRequest,
    testing::{Range, get, put as putting, watch},
};
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
    let create = WatchCreateRequest { prev_kv: true, ..watch("leased/").prefix() };
    pair.ask(&Operation::Watch { stream: 0, create }).await?;
    for lease in 1000..1000 + LEASES {
        let put = |key: u32, lease_of: i64| Operation::Put(PutRequest { lease: lease_of, ..putting(format!("leased/{lease}/{key}"), "v") });
        pair.ask(&Operation::Grant { id: lease, ttl: TTL_SECONDS - lease % 2 }).await?;
        for key in 0..4 {
            pair.ask(&put(key, lease)).await?;
        }
        // One is detached, one moves to another key's lease that is not there, one is deleted before.
        pair.ask(&put(0, 0)).await?;
        pair.ask(&put(1, lease + 500)).await?;
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
    Operation::Range { range: get(prefix).prefix(), sort: None }
}

/// Waits until the lease has taken a key of its own with it on both sides; when one side does not let go, the questions that follow show it.
async fn ended(pair: &mut Pair, lease: i64) -> Result<()> {
    let key = format!("leased/{lease}/3");
    let deadline = Instant::now() + END;
    while Instant::now() < deadline {
        let (etcd, store) = tokio::join!(pair.etcd.calls.get(key.clone()), pair.store.calls.get(key.clone()));
        if etcd?.kvs.is_empty() && store?.kvs.is_empty() {
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
