//! Requests looked at before they wait for the writer: what is missing, too much or contradictory in itself.
//!
//! The checks, their order and their holes are those of etcd's `server/etcdserver/api/v3rpc/key.go`.

use std::collections::HashSet;

use proto::{Compare, DeleteRangeRequest, PutRequest, RequestOp, TxnRequest, compare::TargetUnion, request_op::Request};

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

pub(super) fn check_put(request: &PutRequest) -> Result<(), Refusal> {
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

pub(super) fn check_delete(request: &DeleteRangeRequest) -> Result<(), Refusal> {
    if request.key.is_empty() { Err(Refusal::EmptyKey) } else { Ok(()) }
}

pub(super) fn check_txn(request: &TxnRequest) -> Result<(), Refusal> {
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

pub(super) fn put_bytes(request: &PutRequest) -> usize {
    request.key.len() + request.value.len() + OVERHEAD_BYTES
}

pub(super) fn delete_bytes(request: &DeleteRangeRequest) -> usize {
    request.key.len() + request.range_end.len() + OVERHEAD_BYTES
}

pub(super) fn txn_bytes(request: &TxnRequest) -> usize {
    let value = |compare: &Compare| match &compare.target_union {
        Some(TargetUnion::Value(value)) => value.len(),
        _ => 0,
    };
    let compares: usize = request.compare.iter().map(|c| c.key.len() + c.range_end.len() + value(c) + OVERHEAD_BYTES).sum();
    let ops = request.success.iter().chain(&request.failure).map(|op| match &op.request {
        Some(Request::RequestRange(range)) => range.key.len() + range.range_end.len() + OVERHEAD_BYTES,
        Some(Request::RequestPut(put)) => put_bytes(put),
        Some(Request::RequestDeleteRange(delete)) => delete_bytes(delete),
        Some(Request::RequestTxn(txn)) => txn_bytes(txn),
        None => 0,
    });
    compares + ops.sum::<usize>() + OVERHEAD_BYTES
}

/// Only ranges: needs no writer.
pub(super) fn only_reads(request: &TxnRequest) -> bool {
    request.success.iter().chain(&request.failure).all(|op| matches!(op.request, Some(Request::RequestRange(_))))
}

/// Whether any branch puts something.
pub(super) fn puts(request: &TxnRequest) -> bool {
    request.success.iter().chain(&request.failure).any(|op| match &op.request {
        Some(Request::RequestPut(_)) => true,
        Some(Request::RequestTxn(txn)) => puts(txn),
        _ => false,
    })
}

/// How many operations show values: ranges, and those that show what was there before.
pub(super) fn shows(request: &TxnRequest) -> usize {
    let shown = request.success.iter().chain(&request.failure).map(|op| match &op.request {
        Some(Request::RequestRange(range)) => usize::from(!range.count_only && !range.keys_only),
        Some(Request::RequestPut(put)) => usize::from(put.prev_kv),
        Some(Request::RequestDeleteRange(delete)) => usize::from(delete.prev_kv),
        Some(Request::RequestTxn(txn)) => shows(txn),
        None => 0,
    });
    shown.sum()
}

fn check_ops(request: &TxnRequest, ops_max: usize) -> Result<(), Refusal> {
    let ops = request.compare.len().max(request.success.len()).max(request.failure.len());
    if ops > ops_max {
        return Err(Refusal::TooManyOps);
    }
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(Refusal::EmptyKey);
    }
    request.success.iter().chain(&request.failure).try_for_each(|op| match &op.request {
        Some(Request::RequestRange(range)) => check_range(range),
        Some(Request::RequestPut(put)) => check_put(put),
        Some(Request::RequestDeleteRange(delete)) => check_delete(delete),
        Some(Request::RequestTxn(txn)) => check_ops(txn, ops_max - ops),
        None => Err(Refusal::KeyNotFound),
    })
}

/// The keys that operations put and the ranges that they delete; refused where they overlap.
fn puts_and_deletes(ops: &[RequestOp]) -> Result<(HashSet<&[u8]>, Vec<KeyRange>), Refusal> {
    let mut deletes: Vec<KeyRange> = Vec::new();
    let mut puts = HashSet::new();
    let deleted = |deletes: &[KeyRange], key: &[u8]| deletes.iter().any(|range| range.contains(key));
    for op in ops {
        if let Some(Request::RequestDeleteRange(delete)) = &op.request {
            deletes.push(KeyRange::literal(&delete.key, &delete.range_end));
        }
    }
    for op in ops {
        let Some(Request::RequestTxn(txn)) = &op.request else { continue };
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
        let Some(Request::RequestPut(put)) = &op.request else { continue };
        if deleted(&deletes, &put.key) || !puts.insert(&put.key[..]) {
            return Err(Refusal::DuplicateKey);
        }
    }
    Ok((puts, deletes))
}

#[cfg(test)]
mod tests {
    use proto::RangeRequest;

    use super::*;

    fn put(key: &str) -> RequestOp {
        op(Request::RequestPut(PutRequest { key: key.into(), ..Default::default() }))
    }

    fn delete(key: &str, end: &str) -> RequestOp {
        op(Request::RequestDeleteRange(DeleteRangeRequest { key: key.into(), range_end: end.into(), ..Default::default() }))
    }

    fn nested(success: Vec<RequestOp>, failure: Vec<RequestOp>) -> RequestOp {
        op(Request::RequestTxn(TxnRequest { success, failure, ..Default::default() }))
    }

    fn op(request: Request) -> RequestOp {
        RequestOp { request: Some(request) }
    }

    fn check(success: Vec<RequestOp>) -> Result<(), Refusal> {
        check_txn(&TxnRequest { success, ..Default::default() })
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
        assert_eq!(check(vec![RequestOp::default()]), Err(Refusal::KeyNotFound));
        let many = |count: usize| (0..count).map(|n| put(&n.to_string())).collect::<Vec<_>>();
        assert_eq!(check(many(128)), Ok(()));
        assert_eq!(check(many(129)), Err(Refusal::TooManyOps));
        assert_eq!(check(vec![nested(many(127), vec![])]), Ok(()));
        assert_eq!(check(vec![nested(many(128), vec![])]), Err(Refusal::TooManyOps), "what is nested has what is left");
        let nameless = TxnRequest { compare: vec![Compare::default()], ..Default::default() };
        assert_eq!(check_txn(&nameless), Err(Refusal::EmptyKey));
        let unsorted = RangeRequest { key: b"a".to_vec(), sort_order: 9, ..Default::default() };
        assert_eq!(check(vec![op(Request::RequestRange(unsorted))]), Err(Refusal::InvalidSort));
    }

    #[test]
    fn sizes() {
        assert_eq!(check_size(REQUEST_BYTES_MAX), Ok(()));
        assert_eq!(check_size(REQUEST_BYTES_MAX + 1), Err(Refusal::TooLarge));
        assert!(matches!(check_size(MESSAGE_BYTES_MAX + 1), Err(Refusal::TooLargeMessage(..))));
    }
}
