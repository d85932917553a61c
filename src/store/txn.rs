//! Transactions: which branch, whether it may, and what a read-only one answers. As etcd does it: all compares and checks see the state before.

use proto::{
    Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RequestOp, ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
    compare::TargetUnion, request_op::Request, response_op::Response,
};

use super::keys::KeyRange;
use super::log::Log;
use super::refusal::{Fault, Refusal};
use super::view::View;

/// `Compare.CompareTarget`.
const TARGET_VERSION: i32 = 0;
const TARGET_CREATE: i32 = 1;
const TARGET_MOD: i32 = 2;
const TARGET_VALUE: i32 = 3;
const TARGET_LEASE: i32 = 4;
/// `Compare.CompareResult`.
const EQUAL: i32 = 0;
const GREATER: i32 = 1;
const LESS: i32 = 2;
const NOT_EQUAL: i32 = 3;

/// What the answer of an operation takes that shows nothing.
const OP_OVERHEAD: usize = 192;

/// Which branch each transaction takes, the outer one first, then those nested in its branch.
#[derive(Debug, Default)]
pub(super) struct Path {
    taken: Vec<bool>,
    next: usize,
}

impl Path {
    pub(super) fn choose<L: Log>(view: &View<'_, L>, request: &TxnRequest) -> Result<Self, Fault> {
        let mut path = Self::default();
        path.add(view, request)?;
        Ok(path)
    }

    fn add<L: Log>(&mut self, view: &View<'_, L>, request: &TxnRequest) -> Result<(), Fault> {
        let mut holds = true;
        for compare in &request.compare {
            holds = holds && compares(view, compare)?;
        }
        self.taken.push(holds);
        for op in branch(request, holds) {
            if let Some(Request::RequestTxn(nested)) = &op.request {
                self.add(view, nested)?;
            }
        }
        Ok(())
    }

    /// The branch of the next transaction in the order of execution.
    pub(super) fn step(&mut self) -> bool {
        self.next += 1;
        self.taken[self.next - 1]
    }

    /// Refuses what would fail half-way; returns how many bytes the answer shows, at most. `has_lease` knows which leases there are.
    pub(super) fn check<L: Log>(
        &mut self,
        view: &View<'_, L>,
        request: &TxnRequest,
        has_lease: &impl Fn(i64) -> bool,
    ) -> Result<usize, Fault> {
        let shown = self.check_branch(view, request, has_lease)?;
        self.next = 0;
        Ok(shown)
    }

    fn check_branch<L: Log>(&mut self, view: &View<'_, L>, request: &TxnRequest, has_lease: &impl Fn(i64) -> bool) -> Result<usize, Fault> {
        let taken = self.step();
        let mut shown = 0;
        for op in branch(request, taken) {
            shown += OP_OVERHEAD;
            match &op.request {
                Some(Request::RequestRange(range)) => {
                    check_revision(view, range)?;
                    shown += view.weigh(range);
                }
                Some(Request::RequestPut(put)) => {
                    check_put(view, put, has_lease)?;
                    shown += weigh_put(view, put);
                }
                Some(Request::RequestTxn(nested)) => shown += self.check_branch(view, nested, has_lease)?,
                Some(Request::RequestDeleteRange(delete)) => shown += weigh_delete(view, delete),
                None => {}
            }
        }
        Ok(shown)
    }
}

pub(super) fn branch(request: &TxnRequest, holds: bool) -> &[RequestOp] {
    if holds { &request.success } else { &request.failure }
}

/// A lease that is not there, or a put that keeps what is not there.
pub(super) fn check_put<L: Log>(view: &View<'_, L>, put: &PutRequest, has_lease: &impl Fn(i64) -> bool) -> Result<(), Fault> {
    if put.lease != 0 && !has_lease(put.lease) {
        return Err(Refusal::LeaseNotFound.into());
    }
    if (put.ignore_value || put.ignore_lease) && view.index.live(&put.key).is_none() {
        return Err(Refusal::KeyNotFound.into());
    }
    Ok(())
}

/// Returns how many bytes of the previous value a put shows.
pub(super) fn weigh_put<L: Log>(view: &View<'_, L>, put: &PutRequest) -> usize {
    if put.prev_kv { view.weigh_all(&KeyRange::new(&put.key, b"")) } else { 0 }
}

/// Returns how many bytes of the previous values a deletion shows.
pub(super) fn weigh_delete<L: Log>(view: &View<'_, L>, delete: &DeleteRangeRequest) -> usize {
    if delete.prev_kv { view.weigh_all(&KeyRange::new(&delete.key, &delete.range_end)) } else { 0 }
}

/// Returns how many bytes a transaction of ranges alone shows.
pub(super) fn weigh_read_only<L: Log>(view: &View<'_, L>, request: &TxnRequest) -> Result<usize, Fault> {
    Path::choose(view, request)?.check(view, request, &|_| false)
}

/// A transaction of ranges alone.
pub(super) fn read_only<L: Log>(view: &View<'_, L>, request: &TxnRequest) -> Result<TxnResponse, Fault> {
    let mut path = Path::choose(view, request)?;
    path.check(view, request, &|_| false)?;
    let succeeded = path.step();
    let mut responses = Vec::new();
    for op in branch(request, succeeded) {
        if let Some(Request::RequestRange(range)) = &op.request {
            responses.push(ResponseOp { response: Some(Response::ResponseRange(view.range(range)?)) });
        }
    }
    let header = ResponseHeader { revision: view.revision, ..Default::default() };
    Ok(TxnResponse { header: Some(header), succeeded, responses })
}

fn check_revision<L: Log>(view: &View<'_, L>, range: &RangeRequest) -> Result<(), Fault> {
    match range.revision {
        0 => Ok(()),
        revision if revision > view.revision => Err(Refusal::Future.into()),
        revision if revision < view.compacted => Err(Refusal::Compacted.into()),
        _ => Ok(()),
    }
}

/// Every key of the compare's range must satisfy it; of no key, all numbers are 0 and no value is equal to any.
fn compares<L: Log>(view: &View<'_, L>, compare: &Compare) -> Result<bool, Fault> {
    let range = KeyRange::new(&compare.key, &compare.range_end);
    let (found, _) = view.find(&range, view.revision, usize::MAX);
    if found.is_empty() {
        return Ok(compare.target != TARGET_VALUE && compare_one(compare, &KeyValue::default()));
    }
    for (key, version) in found {
        let kv = if compare.target == TARGET_VALUE {
            view.key_value(&key, &version)?
        } else {
            KeyValue {
                create_revision: version.created,
                mod_revision: version.place.main,
                version: version.number,
                lease: version.lease,
                ..Default::default()
            }
        };
        if !compare_one(compare, &kv) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A target of another kind than it says, or none, is 0 or empty.
fn compare_one(compare: &Compare, kv: &KeyValue) -> bool {
    let wanted = &compare.target_union;
    let order = match (compare.target, wanted) {
        (TARGET_VALUE, Some(TargetUnion::Value(value))) => kv.value.cmp(value),
        (TARGET_VALUE, _) => kv.value[..].cmp(&[]),
        (TARGET_VERSION, Some(TargetUnion::Version(number))) => kv.version.cmp(number),
        (TARGET_VERSION, _) => kv.version.cmp(&0),
        (TARGET_CREATE, Some(TargetUnion::CreateRevision(number))) => kv.create_revision.cmp(number),
        (TARGET_CREATE, _) => kv.create_revision.cmp(&0),
        (TARGET_MOD, Some(TargetUnion::ModRevision(number))) => kv.mod_revision.cmp(number),
        (TARGET_MOD, _) => kv.mod_revision.cmp(&0),
        (TARGET_LEASE, Some(TargetUnion::Lease(number))) => kv.lease.cmp(number),
        (TARGET_LEASE, _) => kv.lease.cmp(&0),
        _ => std::cmp::Ordering::Equal,
    };
    match compare.result {
        EQUAL => order.is_eq(),
        NOT_EQUAL => order.is_ne(),
        GREATER => order.is_gt(),
        LESS => order.is_lt(),
        _ => true,
    }
}
