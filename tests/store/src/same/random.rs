//! Which operations are sent: random ones over few keys, leases and watches, so that they meet. Knows of the servers only the revisions they answered.

use proto::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
    compare::{CompareResult, TargetUnion},
    range_request::{SortOrder, SortTarget},
    testing::{Range, delete, get, put, watch},
    watch_create_request::FilterType,
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::{answer::Answer, operation::Operation};

/// Keys of the usual form; with prefixes and odd bytes there are some sixty.
const KEYS: u32 = 40;
/// Leases asked for, granted or not.
const LEASES: i64 = 12;
/// Watch streams open at a time.
const STREAMS: usize = 4;
/// Longer than any run, so that leases end only where the end is what is compared.
const TTL_SECONDS_MIN: i64 = 7200;
/// `--max-txn-ops` of an etcd as it comes.
const TXN_OPERATIONS_MAX: usize = 128;

/// The source of operations: one seed, one list, as long as the answers are the same.
pub(super) struct Random {
    rng: StdRng,
    head: i64,
    compacted: i64,
    values: u64,
    /// What the transaction that is being made may have.
    txn: TxnKind,
}

/// etcd 3.7.3 panics, and panics again at its next start, at a put with `ignore_value` or `ignore_lease` of a key that a range without an end deleted in
/// the same transaction: its search for duplicate keys takes the end for a key. So a transaction has the one or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TxnKind {
    IgnoringPuts,
    OpenDeletions,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: StdRng::seed_from_u64(seed), head: 1, compacted: 0, values: 0, txn: TxnKind::IgnoringPuts }
    }

    /// Takes the revisions out of an answer.
    pub(super) fn learn(&mut self, operation: &Operation, answer: &Answer) {
        self.head = self.head.max(answer.revision().unwrap_or(0));
        if let (Operation::Compact { revision, .. }, Answer::Compact(_)) = (operation, answer) {
            self.compacted = *revision;
        }
    }

    /// The next one, out of a thousand.
    pub(super) fn operation(&mut self) -> Operation {
        match self.rng.random_range(0..1000) {
            0..280 => Operation::Put(self.put()),
            280..570 => self.range(),
            570..600 => self.range_stream(),
            600..680 => Operation::Delete(self.deletion()),
            680..860 => self.whole_txn(),
            860..867 => Operation::Compact { revision: self.revision(), physical: self.one_in(2) },
            867..882 => self.grant(),
            882..892 => Operation::Revoke { id: self.lease() },
            892..902 => Operation::KeepAlive { id: self.lease() },
            902..917 => Operation::TimeToLive { id: self.lease(), keys: self.one_in(2) },
            917..920 => Operation::Leases,
            920..970 => self.watch(),
            970..985 => Operation::CancelWatch { stream: self.stream(), watch: self.rng.random_range(-1..20) },
            985..997 => Operation::Progress { stream: self.stream() },
            _ => Operation::CloseStream { stream: self.stream() },
        }
    }

    fn put(&mut self) -> PutRequest {
        let mut put = PutRequest { prev_kv: self.one_in(3), ..put(self.key(), self.value()) };
        if self.one_in(5) {
            put.lease = self.lease();
        }
        if self.one_in(12) {
            put.ignore_value = true;
            // A value beside it is an error.
            if !self.one_in(6) {
                put.value = Vec::new();
            }
        }
        put.ignore_lease = self.one_in(12);
        put
    }

    fn range(&mut self) -> Operation {
        let mut range = self.range_of();
        let mut sort = None;
        if self.one_in(3) {
            let by = *[SortTarget::Key, SortTarget::Version, SortTarget::Create, SortTarget::Mod, SortTarget::Value]
                .choose(&mut self.rng)
                .expect("five targets");
            let order = *[SortOrder::None, SortOrder::Ascend, SortOrder::Descend].choose(&mut self.rng).expect("three orders");
            range.set_sort_target(by);
            range.set_sort_order(order);
            // etcd sorts by a target without an order upwards.
            sort = (by != SortTarget::Key).then_some(by);
        }
        // Without values nobody can tell what was sorted by them.
        range.keys_only = self.one_in(6) && sort != Some(SortTarget::Value);
        range.count_only = self.one_in(8);
        if self.one_in(6) {
            self.filter(&mut range);
        }
        Operation::Range { range, sort }
    }

    /// etcd 3.7 streams a range without sort and filters.
    fn range_stream(&mut self) -> Operation {
        let range = self.range_of();
        Operation::RangeStream(RangeRequest { keys_only: self.one_in(6), ..range })
    }

    /// Key, extent, revision, limit.
    fn range_of(&mut self) -> RangeRequest {
        let mut range = match self.rng.random_range(0..8) {
            0 | 1 => get(self.key()),
            2 => get(self.key()).onwards(),
            3 => get("").onwards(),
            4 => get(self.key()).until(self.key()),
            _ => get(self.prefix()).prefix(),
        };
        if self.one_in(3) {
            range.revision = self.revision();
        }
        if self.one_in(3) {
            range.limit = self.rng.random_range(-1..12);
        }
        range.serializable = self.one_in(4);
        range
    }

    fn filter(&mut self, range: &mut RangeRequest) {
        let bound = match self.rng.random_range(0..4) {
            0 => &mut range.min_mod_revision,
            1 => &mut range.max_mod_revision,
            2 => &mut range.min_create_revision,
            _ => &mut range.max_create_revision,
        };
        *bound = self.revision();
    }

    fn deletion(&mut self) -> DeleteRangeRequest {
        let one = DeleteRangeRequest { prev_kv: self.one_in(2), ..delete(self.key()) };
        match self.rng.random_range(0..40) {
            0..4 => one.until(self.key()),
            4..6 => one.prefix(),
            6 => one.onwards(),
            7 => DeleteRangeRequest { key: Vec::new(), ..one }.onwards(),
            _ => one,
        }
    }

    fn whole_txn(&mut self) -> Operation {
        self.txn = if self.one_in(3) { TxnKind::OpenDeletions } else { TxnKind::IgnoringPuts };
        Operation::Txn(self.txn(0))
    }

    fn txn(&mut self, depth: usize) -> TxnRequest {
        let compare = (0..self.rng.random_range(0..4)).map(|_| self.compare()).collect();
        let success = self.txn_operations(depth);
        let failure = self.txn_operations(depth);
        TxnRequest { compare, success, failure }
    }

    fn txn_operations(&mut self, depth: usize) -> Vec<RequestOp> {
        if depth == 0 && self.rng.random_range(0..60) == 0 {
            let count = TXN_OPERATIONS_MAX + self.rng.random_range(0..2);
            return (0..count).map(|n| put(format!("many/{n:03}"), "m").into()).collect();
        }
        let count = self.rng.random_range(0..5);
        (0..count).map(|_| self.txn_operation(depth)).collect()
    }

    fn txn_operation(&mut self, depth: usize) -> RequestOp {
        match (self.rng.random_range(0..12), self.txn) {
            (0..6, TxnKind::IgnoringPuts) => self.put().into(),
            (0..6, TxnKind::OpenDeletions) => PutRequest { prev_kv: true, ..put(self.key(), self.value()) }.into(),
            (6..9, _) => self.range_of().into(),
            (9 | 10, TxnKind::IgnoringPuts) => DeleteRangeRequest { prev_kv: true, ..delete(self.key()) }.into(),
            (9 | 10, TxnKind::OpenDeletions) => self.deletion().into(),
            _ if depth < 2 => self.txn(depth + 1).into(),
            _ => put(self.key(), self.value()).into(),
        }
    }

    fn compare(&mut self) -> Compare {
        let key = self.key();
        let is = *[CompareResult::Equal, CompareResult::NotEqual, CompareResult::Greater, CompareResult::Less]
            .choose(&mut self.rng)
            .expect("four operators");
        let with = match self.rng.random_range(0..6) {
            0 => TargetUnion::Version(self.rng.random_range(0..4)),
            // Zero asks whether the key is there.
            1 => TargetUnion::CreateRevision(0),
            2 => TargetUnion::CreateRevision(self.revision()),
            3 => TargetUnion::ModRevision(self.revision()),
            4 => TargetUnion::Value(self.value()),
            _ => TargetUnion::Lease(self.lease()),
        };
        let compare = Compare::new(key, is, with);
        match self.rng.random_range(0..8) {
            0 => compare.prefix(),
            1 => compare.until(self.key()),
            _ => compare,
        }
    }

    fn grant(&mut self) -> Operation {
        let ttl = match self.rng.random_range(0..12) {
            0 => 9_000_000_001,
            1 => -1,
            // The smallest that an etcd grants is larger: a lease that nobody sees end.
            2 => return Operation::Grant { id: 0, ttl: 1 },
            _ => TTL_SECONDS_MIN + self.rng.random_range(0..10_000),
        };
        // Those that are raised to the smallest would end within the run.
        if ttl < 0 { Operation::Grant { id: 0, ttl } } else { Operation::Grant { id: self.lease(), ttl } }
    }

    fn watch(&mut self) -> Operation {
        let mut create = match self.rng.random_range(0..6) {
            0 => watch(self.key()),
            1 => watch(self.key()).onwards(),
            2 => watch(self.key()).until(self.key()),
            3 => watch("").onwards(),
            _ => watch(self.prefix()).prefix(),
        };
        if self.one_in(2) {
            create.start_revision = self.revision();
        }
        create.prev_kv = self.one_in(2);
        create.fragment = self.one_in(4);
        if self.one_in(5) {
            let filters: &[FilterType] = match self.rng.random_range(0..3) {
                0 => &[FilterType::Noput],
                1 => &[FilterType::Nodelete],
                _ => &[FilterType::Noput, FilterType::Nodelete],
            };
            create.filters = filters.iter().map(|filter| (*filter).into()).collect();
        }
        if self.one_in(6) {
            create.watch_id = self.rng.random_range(1..20);
        }
        Operation::Watch { stream: self.stream(), create }
    }

    /// Now and then none at all, or odd bytes.
    fn key(&mut self) -> Vec<u8> {
        match self.rng.random_range(0..100) {
            0 => Vec::new(),
            1 => vec![0],
            2 => vec![0xff],
            3 => vec![b'k', 0xff, 0xff],
            4..24 => format!("a/{}/{}", self.rng.random_range(0..3), self.rng.random_range(0..4)).into_bytes(),
            _ => format!("k{:02}", self.rng.random_range(0..KEYS)).into_bytes(),
        }
    }

    fn prefix(&mut self) -> Vec<u8> {
        let prefixes: [&[u8]; 7] = [b"k", b"k1", b"a/", b"a/1/", b"many/", &[0xff], b""];
        prefixes.choose(&mut self.rng).expect("some prefixes").to_vec()
    }

    fn value(&mut self) -> Vec<u8> {
        self.values += 1;
        match self.rng.random_range(0..20) {
            0 => Vec::new(),
            1..4 => b"same".to_vec(),
            4 => vec![0xff; self.rng.random_range(0..3000)],
            _ => format!("v{}", self.values).into_bytes(),
        }
    }

    /// Now, in the past, compacted, in the future, and what is none.
    fn revision(&mut self) -> i64 {
        let (head, compacted) = (self.head, self.compacted);
        match self.rng.random_range(0..20) {
            0 => -1,
            1 => 0,
            2 => head,
            3 => head + 1,
            4 => head + self.rng.random_range(2..30),
            5 => compacted,
            6 => compacted + 1,
            7 => self.rng.random_range(0..=compacted),
            8..14 => self.rng.random_range((head - 60).max(compacted)..=head),
            _ => self.rng.random_range(compacted..=head),
        }
    }

    fn lease(&mut self) -> i64 {
        self.rng.random_range(0..=LEASES)
    }

    fn stream(&mut self) -> usize {
        self.rng.random_range(0..STREAMS)
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_range(0..n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_list_of_operations() {
        let list = |seed| {
            let mut random = Random::new(seed);
            (0..500).map(|_| format!("{:?}", random.operation())).collect::<Vec<_>>()
        };
        assert_eq!(list(7), list(7));
        assert_ne!(list(7), list(8));
    }
}
