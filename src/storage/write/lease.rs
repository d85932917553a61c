//! etcd leases of objects that expire: Events, after an hour unless `--event-ttl` says otherwise. One lease serves many, for etcd pays for each (spec
//! api-surface §10.5).

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Writer, failure::WriteError};
use catalogue::Served;

/// How long an Event lives after its last write, unless another time is given.
const EVENT_TTL: Duration = Duration::from_secs(3600);

/// How long one lease is used for new objects: 60 s, or 5 % of the time they live if that is less. The lease lives so much longer.
const REUSE: Duration = Duration::from_secs(60);

/// Objects on one lease.
const OBJECTS_MAX: u32 = 1_000;

/// The lease in use.
pub(super) struct Leases {
    current: Mutex<Option<Lease>>,
    /// How long an Event lives after its last write, in whole seconds; zero for ever.
    event_ttl: Duration,
}

impl Default for Leases {
    fn default() -> Self {
        Self { current: Mutex::new(None), event_ttl: EVENT_TTL }
    }
}

#[derive(Clone, Copy)]
struct Lease {
    id: i64,
    until: Instant,
    objects: u32,
}

impl Leases {
    /// The lease in use, with one more object on it; none when it is too old or full.
    fn take(&self, now: Instant) -> Option<i64> {
        let mut current = self.current.lock();
        let lease = current.as_mut().filter(|lease| now < lease.until && lease.objects < OBJECTS_MAX)?;
        lease.objects += 1;
        Some(lease.id)
    }

    fn put(&self, lease: Lease) {
        *self.current.lock() = Some(lease);
    }
}

impl Writer {
    /// Has Events live so long after their last write (`--event-ttl`); parts of a second do not count, and zero is for ever.
    #[must_use]
    pub fn keeping_events(self, ttl: Duration) -> Self {
        let leases = Leases { event_ttl: Duration::from_secs(ttl.as_secs()), ..Leases::default() };
        Self { leases, ..self }
    }

    /// The lease for an object of this resource; 0 is none.
    pub(super) async fn lease_for(&self, served: &Served) -> Result<i64, WriteError> {
        let ttl = self.leases.event_ttl;
        if &*served.storage.id != "events" || ttl.is_zero() {
            return Ok(0);
        }
        if let Some(id) = self.leases.take(Instant::now()) {
            return Ok(id);
        }
        let reuse = reused_for(ttl);
        let seconds = i64::try_from((ttl + reuse).as_secs()).unwrap_or(i64::MAX);
        let id = self.etcd(served).grant_lease(seconds).await?;
        self.leases.put(Lease { id, until: Instant::now() + reuse, objects: 1 });
        Ok(id)
    }
}

/// How long a lease of this time is used for new objects, in whole seconds.
fn reused_for(ttl: Duration) -> Duration {
    REUSE.min(Duration::from_secs(ttl.as_secs() / 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_serves_until_it_is_old_or_full() {
        let (leases, now) = (Leases::default(), Instant::now());
        assert_eq!(leases.take(now), None);
        leases.put(Lease { id: 7, until: now + REUSE, objects: OBJECTS_MAX - 1 });
        assert_eq!((leases.take(now), leases.take(now)), (Some(7), None));
        leases.put(Lease { id: 8, until: now + REUSE, objects: 1 });
        assert_eq!(leases.take(now + REUSE), None);
    }

    #[test]
    fn a_lease_is_used_for_a_twentieth_of_its_time() {
        let seconds = [3600, 1200, 100, 19].map(|ttl| reused_for(Duration::from_secs(ttl)).as_secs());
        assert_eq!(seconds, [60, 60, 5, 0]);
    }
}
