//! What is answered, without the members that name a member, and the explained differences by name.

use proto::{
    CompactionResponse, DeleteRangeResponse, KeyValue, LeaseGrantResponse, LeaseKeepAliveResponse, LeaseLeasesResponse,
    LeaseRevokeResponse, LeaseTimeToLiveResponse, PutResponse, RangeResponse, ResponseHeader, ResponseOp, TxnResponse,
    range_request::SortTarget, response_op::Response,
};
use tonic::Status;

use super::operation::Operation;

/// Seconds by which the remaining time of a lease may differ: both count whole seconds, from moments a call apart; a call may take seconds on a busy machine.
const TTL_SECONDS: i64 = 5;

/// One side's answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Range(RangeResponse),
    Put(PutResponse),
    Delete(DeleteRangeResponse),
    Txn(TxnResponse),
    Compact(CompactionResponse),
    Granted(LeaseGrantResponse),
    Revoked(LeaseRevokeResponse),
    KeptAlive(LeaseKeepAliveResponse),
    TimeToLive(LeaseTimeToLiveResponse),
    Leases(LeaseLeasesResponse),
    /// gRPC's code by its name, and the text byte for byte.
    Refused {
        code: String,
        message: String,
    },
    /// The answer comes on a watch stream.
    Later,
}

impl Answer {
    pub(super) fn range(mut answer: RangeResponse) -> Self {
        nameless(&mut answer.header);
        Self::Range(answer)
    }

    pub(super) fn put(mut answer: PutResponse) -> Self {
        nameless(&mut answer.header);
        Self::Put(answer)
    }

    pub(super) fn delete(mut answer: DeleteRangeResponse) -> Self {
        nameless(&mut answer.header);
        Self::Delete(answer)
    }

    pub(super) fn txn(mut answer: TxnResponse) -> Self {
        nameless_txn(&mut answer);
        Self::Txn(answer)
    }

    pub(super) fn compact(mut answer: CompactionResponse) -> Self {
        nameless(&mut answer.header);
        Self::Compact(answer)
    }

    pub(super) fn granted(mut answer: LeaseGrantResponse) -> Self {
        nameless(&mut answer.header);
        Self::Granted(answer)
    }

    /// A lease whose id the server chose: that there is one is all that can be compared.
    pub(super) fn granted_any(mut answer: LeaseGrantResponse) -> Self {
        answer.id = i64::from(answer.id > 0);
        Self::granted(answer)
    }

    pub(super) fn revoked(mut answer: LeaseRevokeResponse) -> Self {
        nameless(&mut answer.header);
        Self::Revoked(answer)
    }

    pub(super) fn kept_alive(mut answer: LeaseKeepAliveResponse) -> Self {
        nameless(&mut answer.header);
        Self::KeptAlive(answer)
    }

    /// The keys of a lease are a set: etcd answers them in the order of a Go map.
    pub(super) fn time_to_live(mut answer: LeaseTimeToLiveResponse) -> Self {
        nameless(&mut answer.header);
        answer.keys.sort();
        Self::TimeToLive(answer)
    }

    /// The leases are a set: etcd answers them by the moment they end, which a keep-alive moves by parts of a second.
    pub(super) fn leases(mut answer: LeaseLeasesResponse) -> Self {
        nameless(&mut answer.header);
        answer.leases.sort_by_key(|lease| lease.id);
        Self::Leases(answer)
    }

    pub(super) fn refused(status: &Status) -> Self {
        Self::Refused { code: format!("{:?}", status.code()), message: status.message().to_owned() }
    }
}

impl Answer {
    /// The revision in its header.
    pub(super) fn revision(&self) -> Option<i64> {
        let header = match self {
            Self::Range(answer) => &answer.header,
            Self::Put(answer) => &answer.header,
            Self::Delete(answer) => &answer.header,
            Self::Txn(answer) => &answer.header,
            Self::Compact(answer) => &answer.header,
            Self::Revoked(answer) => &answer.header,
            _ => &None,
        };
        header.as_ref().map(|header| header.revision)
    }
}

/// A difference that is known and why it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Explained {
    /// etcd sorts with Go's unstable sort: pairs that are equal in what they are sorted by come in any order.
    TiesOfASort,
    /// The seconds that a lease has left, counted from moments a call apart.
    SecondsLeft,
    /// A message beyond the transport's limit is refused by the gRPC library, in its own words.
    TransportLimit,
    /// etcd 3.7's `RangeStream` is not served: its clients fall back to ranges, as with an etcd 3.6.
    NoRangeStream,
    /// etcd keeps a watch that a compaction has ended until its client cancels it; the store forgets it. Such streams are left: not compared further.
    CompactedWatchKept,
    /// etcd does not answer a progress request while a watch of the stream begins at the next revision; the store does. Such requests are not sent.
    ProgressAtStart,
}

/// Whether the two answers are the same; `Err` when they are not, `Ok(Some(_))` when a known reason explains the difference.
pub(super) fn compare(operation: &Operation, etcd: &Answer, store: &Answer) -> Result<Option<Explained>, ()> {
    match (operation, etcd, store) {
        _ if etcd == store => Ok(None),
        (Operation::Range { sort: Some(by), .. }, Answer::Range(a), Answer::Range(b)) if without_ties(a, *by) == without_ties(b, *by) => {
            Ok(Some(Explained::TiesOfASort))
        }
        (Operation::RangeStream(_), _, Answer::Refused { code, .. }) if code == "Unimplemented" => Ok(Some(Explained::NoRangeStream)),
        (_, Answer::TimeToLive(a), Answer::TimeToLive(b)) if a.ttl.abs_diff(b.ttl) <= TTL_SECONDS.unsigned_abs() => {
            let same = LeaseTimeToLiveResponse { ttl: a.ttl, ..b.clone() } == *a;
            same.then_some(Some(Explained::SecondsLeft)).ok_or(())
        }
        (_, Answer::Refused { message, .. }, Answer::Refused { .. }) if message.starts_with("grpc: received message larger than max") => {
            Ok(Some(Explained::TransportLimit))
        }
        _ => Err(()),
    }
}

/// The same answer with equal pairs in the order of their keys. Of the last group of a cut answer only the value that is sorted by is kept, for which
/// of its pairs fit is the sort's choice.
fn without_ties(answer: &RangeResponse, by: SortTarget) -> RangeResponse {
    let mut answer = answer.clone();
    let last = answer.kvs.last().map(|kv| sorted_by(kv, by));
    for group in answer.kvs.chunk_by_mut(|a, b| sorted_by(a, by) == sorted_by(b, by)) {
        group.sort_by(|a, b| a.key.cmp(&b.key));
    }
    if answer.more {
        for kv in answer.kvs.iter_mut().filter(|kv| Some(sorted_by(kv, by)) == last) {
            *kv = KeyValue { value: sorted_by(kv, by), ..KeyValue::default() };
        }
    }
    answer
}

fn sorted_by(kv: &KeyValue, by: SortTarget) -> Vec<u8> {
    match by {
        SortTarget::Key => kv.key.clone(),
        SortTarget::Version => kv.version.to_be_bytes().to_vec(),
        SortTarget::Create => kv.create_revision.to_be_bytes().to_vec(),
        SortTarget::Mod => kv.mod_revision.to_be_bytes().to_vec(),
        SortTarget::Value => kv.value.clone(),
    }
}

/// Cluster, member and term differ between any two; the revision stays.
pub(super) fn nameless(header: &mut Option<ResponseHeader>) {
    if let Some(header) = header {
        (header.cluster_id, header.member_id, header.raft_term) = (0, 0, 0);
    }
}

fn nameless_txn(answer: &mut TxnResponse) {
    nameless(&mut answer.header);
    for ResponseOp { response } in &mut answer.responses {
        match response {
            Some(Response::ResponseRange(range)) => nameless(&mut range.header),
            Some(Response::ResponsePut(put)) => nameless(&mut put.header),
            Some(Response::ResponseDeleteRange(delete)) => nameless(&mut delete.header),
            Some(Response::ResponseTxn(inner)) => nameless_txn(inner),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::testing::get;

    use super::*;

    fn kv(key: &str, version: i64) -> KeyValue {
        KeyValue { key: key.into(), version, ..KeyValue::default() }
    }

    fn sorted(kvs: Vec<KeyValue>, more: bool) -> Answer {
        Answer::Range(RangeResponse { kvs, more, ..RangeResponse::default() })
    }

    #[test]
    fn ties_of_a_sort_are_explained_and_nothing_else_is() {
        let by_version = Operation::Range { range: get("k"), sort: Some(SortTarget::Version) };
        let unsorted = Operation::Range { range: get("k"), sort: None };
        let (a, b) = (sorted(vec![kv("a", 1), kv("b", 1)], false), sorted(vec![kv("b", 1), kv("a", 1)], false));
        assert_eq!(compare(&by_version, &a, &b), Ok(Some(Explained::TiesOfASort)));
        assert_eq!(compare(&unsorted, &a, &b), Err(()));
        assert_eq!(compare(&by_version, &a, &sorted(vec![kv("a", 1), kv("b", 2)], false)), Err(()));
        let (cut, other_cut) = (sorted(vec![kv("a", 1), kv("b", 2)], true), sorted(vec![kv("a", 1), kv("c", 2)], true));
        assert_eq!(compare(&by_version, &cut, &other_cut), Ok(Some(Explained::TiesOfASort)));
        assert_eq!(compare(&by_version, &cut, &sorted(vec![kv("x", 1), kv("c", 2)], true)), Err(()));
    }

    #[test]
    fn an_error_is_its_code_and_its_text() {
        let refused = |code: &str, message: &str| Answer::Refused { code: code.to_owned(), message: message.to_owned() };
        let (a, b) = (refused("NotFound", "x"), refused("NotFound", "y"));
        assert_eq!(compare(&Operation::Leases, &a, &b), Err(()));
        assert_eq!(compare(&Operation::Leases, &a, &refused("Internal", "x")), Err(()));
        assert_eq!(compare(&Operation::Leases, &a, &a.clone()), Ok(None));
    }
}
