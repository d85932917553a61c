//! etcd leases of objects that expire: Events live an hour. One lease serves many, for etcd pays for each (spec api-surface §10.5).

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Writer, failure::WriteError};
use catalogue::Served;

/// How long an Event lives after its last write (`--event-ttl`).
pub(super) const EVENT_TTL: Duration = Duration::from_secs(3600);

/// How long one lease is used for new objects: 60 s, or 5 % of the time they live if that is less. The lease lives so much longer.
const REUSE: Duration = Duration::from_secs(60);

/// Objects on one lease.
const OBJECTS_MAX: u32 = 1_000;

/// The lease in use.
#[derive(Default)]
pub(super) struct Leases {
    current: Mutex<Option<Lease>>,
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
    /// The lease for an object of this resource; 0 is none.
    pub(super) async fn lease_for(&self, served: &Served) -> Result<i64, WriteError> {
        if &*served.storage.id != "events" {
            return Ok(0);
        }
        if let Some(id) = self.leases.take(Instant::now()) {
            return Ok(id);
        }
        let reuse = REUSE.min(EVENT_TTL.mul_f64(0.05));
        let seconds = i64::try_from((EVENT_TTL + reuse).as_secs()).expect("an hour in seconds");
        let id = self.etcd(served).grant_lease(seconds).await?;
        self.leases.put(Lease { id, until: Instant::now() + reuse, objects: 1 });
        Ok(id)
    }
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
}
