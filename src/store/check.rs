//! Requests looked at before they wait for the writer: what is missing, too much or contradictory in itself. Knows nothing of what is stored.
//!
//! The checks, their order and their holes are those of etcd's `server/etcdserver/api/v3rpc/key.go`.

use std::collections::HashSet;

use etcd_client::proto::{PbDeleteRequest, PbPutRequest, PbTxnOpRequest, PbTxnRequest, PbTxnRequestOp};

use super::keys::KeyRange;
use super::refusal::Refusal;
use super::view::check_range;

/// Operations of a transaction, as etcd's `--max-txn-ops`.
const TXN_OPS_MAX: usize = 128;
/// Bytes of a request that writes, as etcd's `--max-request-bytes`.
pub(super) const REQUEST_BYTES_MAX: usize = 3 << 19;
/// Bytes of any request (etcd's `MaxRequestBytesWithOverhead`), and of a fragment of a watch response.
pub(super) const MESSAGE_BYTES_MAX: usize = REQUEST_BYTES_MAX + (512 << 10);
/// What etcd's raft log adds to a request, and protobuf to an operation: ids, tags, lengths.
const OVERHEAD_BYTES: usize = 16;

pub(super) fn check_put(request: &PbPutRequest) -> Result<(), Refusal> {
    if request.key.is_empty() {
        Err(Refusal::EmptyKey)
    } else if request.ignore_value && !request.value.is_empty() {
        Err(Refusal::ValueProvided)
    } else if request.ignore_lease && request.lease != 0 {
        Err(Refusal::LeaseProvided)
    } else {
        Ok(())
    }
}

pub(super) fn check_delete(request: &PbDeleteRequest) -> Result<(), Refusal> {
    if request.key.is_empty() { Err(Refusal::EmptyKey) } else { Ok(()) }
}

pub(super) fn check_txn(request: &PbTxnRequest) -> Result<(), Refusal> {
    check_ops(request, TXN_OPS_MAX)?;
    puts_and_deletes(&request.success)?;
    puts_and_deletes(&request.failure)?;
    Ok(())
}

/// Refuses by size.
pub(super) fn check_size(bytes: usize) -> Result<(), Refusal> {
    if bytes > MESSAGE_BYTES_MAX {
        Err(Refusal::TooLargeMessage(bytes, MESSAGE_BYTES_MAX))
    } else if bytes > REQUEST_BYTES_MAX {
        Err(Refusal::TooLarge)
    } else {
        Ok(())
    }
}

pub(super) fn put_bytes(request: &PbPutRequest) -> usize {
    request.key.len() + request.value.len() + OVERHEAD_BYTES
}

pub(super) fn delete_bytes(request: &PbDeleteRequest) -> usize {
    request.key.len() + request.range_end.len() + OVERHEAD_BYTES
}

pub(super) fn txn_bytes(request: &PbTxnRequest) -> usize {
    let value = |compare: &etcd_client::proto::PbCompare| match &compare.target_union {
        Some(etcd_client::proto::PbTargetUnion::Value(value)) => value.len(),
        _ => 0,
    };
    let compares: usize = request.compare.iter().map(|c| c.key.len() + c.range_end.len() + value(c) + OVERHEAD_BYTES).sum();
    let ops = request.success.iter().chain(&request.failure).map(|op| match &op.request {
        Some(PbTxnOpRequest::RequestRange(range)) => range.key.len() + range.range_end.len() + OVERHEAD_BYTES,
        Some(PbTxnOpRequest::RequestPut(put)) => put_bytes(put),
        Some(PbTxnOpRequest::RequestDeleteRange(delete)) => delete_bytes(delete),
        Some(PbTxnOpRequest::RequestTxn(txn)) => txn_bytes(txn),
        None => 0,
    });
    compares + ops.sum::<usize>() + OVERHEAD_BYTES
}

/// Only ranges: needs no writer.
pub(super) fn only_reads(request: &PbTxnRequest) -> bool {
    request.success.iter().chain(&request.failure).all(|op| matches!(op.request, Some(PbTxnOpRequest::RequestRange(_))))
}

fn check_ops(request: &PbTxnRequest, ops_max: usize) -> Result<(), Refusal> {
    let ops = request.compare.len().max(request.success.len()).max(request.failure.len());
    if ops > ops_max {
        return Err(Refusal::TooManyOps);
    }
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(Refusal::EmptyKey);
    }
    request.success.iter().chain(&request.failure).try_for_each(|op| match &op.request {
        Some(PbTxnOpRequest::RequestRange(range)) => check_range(range),
        Some(PbTxnOpRequest::RequestPut(put)) => check_put(put),
        Some(PbTxnOpRequest::RequestDeleteRange(delete)) => check_delete(delete),
        Some(PbTxnOpRequest::RequestTxn(txn)) => check_ops(txn, ops_max - ops),
        None => Err(Refusal::KeyNotFound),
    })
}

/// The keys that operations put and the ranges that they delete; refused where they overlap.
fn puts_and_deletes(ops: &[PbTxnRequestOp]) -> Result<(HashSet<&[u8]>, Vec<KeyRange>), Refusal> {
    let mut deletes: Vec<KeyRange> = Vec::new();
    let mut puts = HashSet::new();
    let deleted = |deletes: &[KeyRange], key: &[u8]| deletes.iter().any(|range| range.contains(key));
    for op in ops {
        if let Some(PbTxnOpRequest::RequestDeleteRange(delete)) = &op.request {
            deletes.push(KeyRange::literal(&delete.key, &delete.range_end));
        }
    }
    for op in ops {
        let Some(PbTxnOpRequest::RequestTxn(txn)) = &op.request else { continue };
        let (then_puts, then_deletes) = puts_and_deletes(&txn.success)?;
        let (else_puts, else_deletes) = puts_and_deletes(&txn.failure)?;
        if then_puts.iter().any(|key| puts.contains(key) || deleted(&deletes, key)) {
            return Err(Refusal::DuplicateKey);
        }
        // Only one of the two branches happens, so they may put the same key.
        if else_puts.iter().any(|key| puts.contains(key) || deleted(&deletes, key)) {
            return Err(Refusal::DuplicateKey);
        }
        puts.extend(then_puts);
        puts.extend(else_puts);
        deletes.extend(then_deletes);
        deletes.extend(else_deletes);
    }
    for op in ops {
        let Some(PbTxnOpRequest::RequestPut(put)) = &op.request else { continue };
        if deleted(&deletes, &put.key) || !puts.insert(&put.key[..]) {
            return Err(Refusal::DuplicateKey);
        }
    }
    Ok((puts, deletes))
}

#[cfg(test)]
mod tests {
    use etcd_client::proto::{PbCompare, PbRangeRequest};

    use super::*;

    fn put(key: &str) -> PbTxnRequestOp {
        op(PbTxnOpRequest::RequestPut(PbPutRequest { key: key.into(), ..Default::default() }))
    }

    fn delete(key: &str, end: &str) -> PbTxnRequestOp {
        op(PbTxnOpRequest::RequestDeleteRange(PbDeleteRequest { key: key.into(), range_end: end.into(), ..Default::default() }))
    }

    fn nested(success: Vec<PbTxnRequestOp>, failure: Vec<PbTxnRequestOp>) -> PbTxnRequestOp {
        op(PbTxnOpRequest::RequestTxn(PbTxnRequest { success, failure, ..Default::default() }))
    }

    fn op(request: PbTxnOpRequest) -> PbTxnRequestOp {
        PbTxnRequestOp { request: Some(request) }
    }

    fn check(success: Vec<PbTxnRequestOp>) -> Result<(), Refusal> {
        check_txn(&PbTxnRequest { success, ..Default::default() })
    }

    #[test]
    fn a_key_is_changed_once() {
        assert_eq!(check(vec![put("a"), put("b"), delete("c", "d")]), Ok(()));
        assert_eq!(check(vec![put("a"), put("a")]), Err(Refusal::DuplicateKey));
        assert_eq!(check(vec![put("a"), delete("a", "")]), Err(Refusal::DuplicateKey));
        assert_eq!(check(vec![delete("a", "z"), put("b")]), Err(Refusal::DuplicateKey));
        assert_eq!(check(vec![nested(vec![put("a")], vec![put("a")])]), Ok(()), "one of two branches");
        assert_eq!(check(vec![nested(vec![put("a")], vec![]), put("a")]), Err(Refusal::DuplicateKey));
        assert_eq!(check(vec![nested(vec![delete("a", "")], vec![]), put("a")]), Err(Refusal::DuplicateKey));
        assert_eq!(check(vec![nested(vec![put("a")], vec![]), nested(vec![], vec![put("a")])]), Err(Refusal::DuplicateKey));
    }

    #[test]
    fn what_is_missing_or_too_much() {
        assert_eq!(check(vec![put("")]), Err(Refusal::EmptyKey));
        assert_eq!(check(vec![PbTxnRequestOp::default()]), Err(Refusal::KeyNotFound));
        let many = |count: usize| (0..count).map(|n| put(&n.to_string())).collect::<Vec<_>>();
        assert_eq!(check(many(128)), Ok(()));
        assert_eq!(check(many(129)), Err(Refusal::TooManyOps));
        assert_eq!(check(vec![nested(many(127), vec![])]), Ok(()));
        assert_eq!(check(vec![nested(many(128), vec![])]), Err(Refusal::TooManyOps), "what is nested has what is left");
        let nameless = PbTxnRequest { compare: vec![PbCompare::default()], ..Default::default() };
        assert_eq!(check_txn(&nameless), Err(Refusal::EmptyKey));
        let unsorted = PbRangeRequest { key: b"a".to_vec(), sort_order: 9, ..Default::default() };
        assert_eq!(check(vec![op(PbTxnOpRequest::RequestRange(unsorted))]), Err(Refusal::InvalidSort));
    }

    #[test]
    fn sizes() {
        assert_eq!(check_size(REQUEST_BYTES_MAX), Ok(()));
        assert_eq!(check_size(REQUEST_BYTES_MAX + 1), Err(Refusal::TooLarge));
        assert!(matches!(check_size(MESSAGE_BYTES_MAX + 1), Err(Refusal::TooLargeMessage(..))));
    }
}
