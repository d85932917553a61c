//! Requests at the limits of size, and revisions that are larger than a message. Fixed, not random: each would slow a random run down.

use anyhow::Result;
use proto::{
    DeleteRangeRequest, RequestOp, WatchCreateRequest,
    testing::{Range, delete, get, put as putting, txn, watch},
};

use super::{Pair, operation::Operation};

/// `--max-request-bytes` of an etcd as it comes.
const REQUEST_BYTES_MAX: usize = 1_572_864;
/// Pairs and bytes of each, of a revision that fits into a request but, with the pairs before it, not into a message.
const PAIRS: usize = 100;
const PAIR_BYTES: usize = 13_000;

pub(super) async fn run(pair: &mut Pair) -> Result<()> {
    let put = |key: &str, bytes: usize| Operation::Put(putting(key, vec![b'x'; bytes]));
    let read = |key: &str| Operation::Range { range: get(key), sort: None };
    // A little below the limit, above it, and above what the transport takes (etcd adds 512 KiB).
    for bytes in [REQUEST_BYTES_MAX - 4096, REQUEST_BYTES_MAX + 1, REQUEST_BYTES_MAX + 600_000] {
        pair.ask(&put("large", bytes)).await?;
        pair.ask(&read("large")).await?;
    }
    pair.close_streams();
    for (stream, fragment) in [(0, false), (1, true)] {
        let create = WatchCreateRequest { prev_kv: true, fragment, ..watch("wide/").prefix() };
        pair.ask(&Operation::Watch { stream, create }).await?;
    }
    for round in 0..3 {
        let puts: Vec<RequestOp> = (0..PAIRS).map(|n| putting(format!("wide/{n:03}"), vec![b'0' + round; PAIR_BYTES]).into()).collect();
        pair.ask(&Operation::Txn(txn([], puts))).await?;
        pair.ask(&Operation::Progress { stream: 1 }).await?;
    }
    pair.ask(&Operation::RangeStream(get("wide/").prefix())).await?;
    pair.ask(&Operation::Delete(DeleteRangeRequest { prev_kv: true, ..delete("wide/").prefix() })).await?;
    pair.ask(&Operation::Progress { stream: 0 }).await?;
    Ok(())
}
