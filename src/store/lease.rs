//! Leases: who holds which keys, and until when. Time comes in as an argument; the writer alone has it, so that expiry is a change like others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::refusal::Refusal;

/// Shortest time to live in seconds: etcd's 1.5 election timeouts of 1 s, rounded up.
const TTL_MIN: i64 = 2;
/// Longest one (etcd's `MaxLeaseTTL`).
const TTL_MAX: i64 = 9_000_000_000;

/// All leases.
#[derive(Default)]
pub(super) struct Leases {
    held: BTreeMap<i64, Lease>,
    /// When each of them ends.
    ends: BTreeSet<(Instant, i64)>,
}

/// One of them.
pub(super) struct Lease {
    /// As granted, in seconds.
    pub(super) ttl: i64,
    end: Instant,
    keys: BTreeSet<Bytes>,
}

impl Leases {
    pub(super) fn has(&self, id: i64) -> bool {
        self.held.contains_key(&id)
    }

    /// A new lease; returns the time to live that it got. An `id` of 0 is chosen.
    pub(super) fn grant(&mut self, id: i64, ttl: i64, now: Instant) -> Result<(i64, i64), Refusal> {
        if ttl > TTL_MAX {
            return Err(Refusal::LeaseTtlTooLarge);
        }
        let id = if id == 0 { self.unused_id() } else { id };
        if self.has(id) {
            return Err(Refusal::LeaseExists);
        }
        let ttl = ttl.max(TTL_MIN);
        self.restore(id, ttl, now);
        Ok((id, ttl))
    }

    /// A lease that was granted before; its time begins anew, as in etcd after a change of leader.
    pub(super) fn restore(&mut self, id: i64, ttl: i64, now: Instant) {
        let end = after(now, ttl);
        self.held.insert(id, Lease { ttl, end, keys: BTreeSet::new() });
        self.ends.insert((end, id));
    }

    /// Its keys in order; the caller deletes them.
    pub(super) fn revoke(&mut self, id: i64) -> Result<Vec<Bytes>, Refusal> {
        let lease = self.held.remove(&id).ok_or(Refusal::LeaseNotFound)?;
        self.ends.remove(&(lease.end, id));
        Ok(lease.keys.into_iter().collect())
    }

    /// Begins the time anew; returns the time to live, 0 for a lease that is not there.
    pub(super) fn renew(&mut self, id: i64, now: Instant) -> i64 {
        let Some(lease) = self.held.get_mut(&id) else { return 0 };
        self.ends.remove(&(lease.end, id));
        lease.end = after(now, lease.ttl);
        self.ends.insert((lease.end, id));
        lease.ttl
    }

    /// A key has a lease; 0 is none.
    pub(super) fn attach(&mut self, id: i64, key: &Bytes) {
        if let Some(lease) = self.held.get_mut(&id) {
            lease.keys.insert(key.clone());
        }
    }

    /// It has it no more.
    pub(super) fn detach(&mut self, id: i64, key: &Bytes) {
        if let Some(lease) = self.held.get_mut(&id) {
            lease.keys.remove(key);
        }
    }

    pub(super) fn look(&self, id: i64) -> Option<&Lease> {
        self.held.get(&id)
    }

    pub(super) fn count(&self) -> usize {
        self.held.len()
    }

    /// Those that end first come first.
    pub(super) fn ids(&self) -> Vec<i64> {
        self.ends.iter().map(|(_, id)| *id).collect()
    }

    /// The first end.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// The lease that ended longest ago.
    pub(super) fn ended(&self, now: Instant) -> Option<i64> {
        self.ends.first().filter(|(end, _)| *end <= now).map(|(_, id)| *id)
    }

    fn unused_id(&self) -> i64 {
        loop {
            let id = rand::random::<i64>() & i64::MAX;
            if id != 0 && !self.has(id) {
                return id;
            }
        }
    }
}

impl Lease {
    /// Whole seconds left.
    pub(super) fn left(&self, now: Instant) -> i64 {
        i64::try_from(self.end.saturating_duration_since(now).as_secs()).unwrap_or(i64::MAX)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.keys.iter()
    }
}

fn after(now: Instant, ttl: i64) -> Instant {
    now + Duration::from_secs(u64::try_from(ttl).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life() {
        let now = Instant::now();
        let at = |seconds: u64| now + Duration::from_secs(seconds);
        let mut leases = Leases::default();
        assert_eq!(leases.grant(7, 1, now), Ok((7, TTL_MIN)));
        assert_eq!(leases.grant(7, 60, now), Err(Refusal::LeaseExists));
        assert_eq!(leases.grant(8, TTL_MAX + 1, now), Err(Refusal::LeaseTtlTooLarge));
        let (chosen, _) = leases.grant(0, 60, now).expect("an id is chosen");
        assert!(chosen > 0 && leases.has(chosen));
        leases.attach(7, &Bytes::from("b"));
        leases.attach(7, &Bytes::from("a"));
        leases.attach(7, &Bytes::from("c"));
        leases.detach(7, &Bytes::from("c"));
        assert_eq!((leases.ended(at(1)), leases.ended(at(2))), (None, Some(7)));
        assert_eq!(leases.renew(7, at(2)), TTL_MIN);
        assert_eq!(leases.renew(9, at(2)), 0);
        assert_eq!((leases.ended(at(3)), leases.ended(at(4))), (None, Some(7)));
        assert_eq!(leases.look(7).map(|lease| lease.left(at(3))), Some(1));
        assert_eq!(leases.ids(), [7, chosen]);
        assert_eq!(leases.revoke(7), Ok(vec![Bytes::from("a"), Bytes::from("b")]));
        assert_eq!(leases.revoke(7), Err(Refusal::LeaseNotFound));
        assert_eq!(leases.next_end(), Some(at(60)));
    }
}
