//! Requests at the limits of size, and revisions that are larger than a message. Fixed, not random: each would slow a random run down.

use anyhow::Result;
use etcd_client::{GetOptions, PutOptions, Txn, TxnOp, WatchOptions};

use super::{Pair, operation::Operation};

/// `--max-request-bytes` of an etcd as it comes.
const REQUEST_BYTES_MAX: usize = 1_572_864;
/// Pairs and bytes of each, of a revision that fits into a request but, with the pairs before it, not into a message.
const PAIRS: usize = 100;
const PAIR_BYTES: usize = 13_000;

pub(super) async fn run(pair: &mut Pair) -> Result<()> {
    let put = |key: &str, bytes: usize| Operation::Put { key: key.into(), value: vec![b'x'; bytes], options: PutOptions::new() };
    let read = |key: &str| Operation::Range { key: key.into(), options: GetOptions::new(), sort: None };
    // A little below the limit, above it, and above what the transport takes (etcd adds 512 KiB).
    for bytes in [REQUEST_BYTES_MAX - 4096, REQUEST_BYTES_MAX + 1, REQUEST_BYTES_MAX + 600_000] {
        pair.ask(&put("large", bytes)).await?;
        pair.ask(&read("large")).await?;
    }
    pair.close_streams();
    for (stream, fragment) in [(0, false), (1, true)] {
        let options = WatchOptions::new().with_prefix().with_prev_key();
        let options = if fragment { options.with_fragment() } else { options };
        pair.ask(&Operation::Watch { stream, key: b"wide/".to_vec(), start: 0, options }).await?;
    }
    for round in 0..3 {
        let puts: Vec<TxnOp> = (0..PAIRS).map(|n| TxnOp::put(format!("wide/{n:03}"), vec![b'0' + round; PAIR_BYTES], None)).collect();
        pair.ask(&Operation::Txn(Txn::new().and_then(puts))).await?;
        pair.ask(&Operation::Progress { stream: 1 }).await?;
    }
    pair.ask(&Operation::RangeStream { key: b"wide/".to_vec(), options: GetOptions::new().with_prefix() }).await?;
    let options = etcd_client::DeleteOptions::new().with_prefix().with_prev_key();
    pair.ask(&Operation::Delete { key: b"wide/".to_vec(), options }).await?;
    pair.ask(&Operation::Progress { stream: 0 }).await?;
    Ok(())
}
