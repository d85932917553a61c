//! How many requests are under way at once, and how many of them one user may have (`--max-requests-inflight`, `--max-mutating-requests-inflight`); the same of
//! open watches, by their memory (`--watches-bytes-limit`).
//!
//! kube-apiserver counts in the same way when its priority and fairness is off (`WithMaxInFlightLimit`), but knows no users. Here a user may have as many
//! requests as `SHARE` times the places that are free: alone seven of eight, beside another one that wants all each a little less than half. So whoever floods
//! the server leaves a place for everybody else, and nobody waits in a queue, but where upstream is asked about each request while it has its place. Of the
//! memory of watches a quarter is left to users who have few.

use parking_lot::Mutex;
use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use fair::{Leaves, Share, Shares};
use http::Method;
use tokio::time::{Instant, sleep};

use super::settings::MaxInflight;
use auth::User;

/// How many times the free places one user may have.
const SHARE: usize = 7;

/// Requests that wait for a place; a user may have `SHARE` times those that are left.
const WAITING_MAX: usize = 4_096;

/// How long one waits; a kube-apiserver's queues hold one as long.
const WAITING_TIME: Duration = Duration::from_secs(15);

/// Between two looks of one that waits, or up to twice that.
const LOOK: Duration = Duration::from_millis(50);

/// What a watch counts: it rests with 3 KB, and takes so much when many begin at once (docs/performance.md; `burst-watches` in docs/guarantees.md).
const WATCH_BYTES: usize = 10 << 10;

/// The places of all requests.
pub struct Inflight {
    reads: Option<Arc<Places>>,
    writes: Option<Arc<Places>>,
    watches: Arc<Shares>,
    waiting: Arc<Shares>,
}

impl Inflight {
    /// No place is taken.
    #[must_use]
    pub fn new(max: MaxInflight) -> Self {
        let places = |max| (max > 0).then(|| Arc::new(Places { max, taken: Mutex::default() }));
        Self {
            reads: places(max.reads),
            writes: places(max.writes),
            watches: Shares::new(max.watches_bytes),
            waiting: Shares::new(WAITING_MAX),
        }
    }

    /// Returns the bytes that open watches count.
    pub(super) fn watches_bytes(&self) -> usize {
        self.watches.all()
    }

    /// A place for a request of this user, if there is one; nothing where there is no limit.
    pub(super) fn admit(&self, method: &Method, user: &Arc<User>) -> Result<Option<Place>, Full> {
        let places = if matches!(*method, Method::GET | Method::HEAD) { &self.reads } else { &self.writes };
        match places {
            Some(places) => places.take(user).map(Some).ok_or(Full),
            None => Ok(None),
        }
    }

    /// The same, waited for until then at most.
    pub(super) async fn admit_until(&self, method: &Method, user: &Arc<User>, until: Instant) -> Result<Option<Place>, Full> {
        let first = self.admit(method, user);
        if first.is_ok() {
            return first;
        }
        let _waiting = self.waiting.take(&user.name, 1, Leaves::Nothing).ok_or(Full)?;
        let until = until.min(Instant::now() + WAITING_TIME);
        loop {
            sleep(LOOK.mul_f64(1.0 + rand::random::<f64>())).await;
            let place = self.admit(method, user);
            if place.is_ok() || Instant::now() >= until {
                return place;
            }
        }
    }

    /// A watch of this user, if there is room for it; who is `exempt` gets it in any case.
    pub(super) fn admit_watch(&self, user: &User, is_exempt: bool) -> Result<OpenWatch, Full> {
        let share = match is_exempt {
            true => self.watches.take_anyway(&user.name, WATCH_BYTES),
            false => self.watches.take(&user.name, WATCH_BYTES, Leaves::QuarterWhenLarge).ok_or(Full)?,
        };
        Ok(OpenWatch(Arc::new(share)))
    }
}

/// Counts a watch until it has ended.
#[derive(Clone, Debug)]
pub(super) struct OpenWatch(#[expect(dead_code, reason = "held for its drop")] Arc<Share>);

/// No place is free, or the user has too many.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// The places of reads, or of writes.
#[derive(Debug)]
struct Places {
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Only users who have a place.
    users: HashMap<Name, usize>,
}

/// A user is known by the name.
#[derive(Debug)]
struct Name(Arc<User>);

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl Places {
    fn take(self: &Arc<Self>, user: &Arc<User>) -> Option<Place> {
        let taken = &mut *self.taken.lock();
        let name = Name(Arc::clone(user));
        let has = taken.users.get(&name).copied().unwrap_or(0);
        if has >= SHARE * (self.max - taken.all) {
            return None;
        }
        taken.all += 1;
        taken.users.insert(name, has + 1);
        Some(Place(Arc::new(Held { places: Arc::clone(self), user: Arc::clone(user) })))
    }
}

/// The place of one request, until its answer is sent.
#[derive(Clone, Debug)]
pub(super) struct Place(#[expect(dead_code, reason = "held for its drop")] Arc<Held>);

#[derive(Debug)]
struct Held {
    places: Arc<Places>,
    user: Arc<User>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let taken = &mut *self.places.taken.lock();
        let name = Name(Arc::clone(&self.user));
        taken.all -= 1;
        match taken.users.get_mut(&name) {
            Some(has) if *has > 1 => *has -= 1,
            _ => drop(taken.users.remove(&name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn user(name: &str) -> Arc<User> {
        Arc::new(User { name: name.to_owned(), ..User::default() })
    }

    /// Takes as many places as there are for this user.
    fn flood(inflight: &Inflight, method: &Method, name: &str) -> Vec<Place> {
        std::iter::from_fn(|| inflight.admit(method, &user(name)).ok().flatten()).take(1000).collect()
    }

    /// Whoever finds no place waits for one, within limits.
    #[tokio::test(start_paused = true)]
    async fn a_crowd_waits_for_places() {
        let inflight = Inflight::new(MaxInflight { reads: 400, writes: 1, watches_bytes: 0 });
        let jane = user("jane");
        let until = Instant::now() + Duration::from_secs(60);
        let crowd = (0..3_000).map(|_| async {
            let place = inflight.admit_until(&Method::GET, &jane, until).await?;
            sleep(Duration::from_millis(500)).await;
            drop(place);
            Ok::<_, Full>(())
        });
        let answered = futures_util::future::join_all(crowd).await;
        assert!(answered.iter().all(Result::is_ok), "{}", answered.iter().filter(|answer| answer.is_err()).count());
        let _taken = flood(&inflight, &Method::GET, "jane");
        let began = Instant::now();
        let more = futures_util::future::join_all((0..WAITING_MAX).map(|_| inflight.admit_until(&Method::GET, &jane, until))).await;
        assert!(more.iter().all(Result::is_err) && began.elapsed() < WAITING_TIME + 3 * LOOK);
        let _waiting: Vec<_> = std::iter::from_fn(|| inflight.waiting.take("jane", 1, Leaves::Nothing)).collect();
        let began = Instant::now();
        assert_eq!(inflight.admit_until(&Method::GET, &jane, until).await.err(), Some(Full));
        assert_eq!(began.elapsed(), Duration::ZERO, "there is no room to wait");
        assert!(inflight.admit_until(&Method::GET, &user("bob"), until).await.is_ok());
    }

    #[test]
    fn a_flood_leaves_places_for_others() {
        let inflight = Inflight::new(MaxInflight { reads: 400, writes: 1, watches_bytes: 0 });
        let first = flood(&inflight, &Method::GET, "a");
        assert_eq!(first.len(), 350);
        let second = flood(&inflight, &Method::GET, "b");
        assert_eq!(second.len(), 44);
        // As the first one's requests end, both come to the same share.
        drop(first);
        assert_eq!(flood(&inflight, &Method::GET, "a").len() + second.len(), 44 + 312);
        assert!(inflight.admit(&Method::GET, &user("a")).is_ok());
    }

    #[test]
    fn reads_and_writes_have_places_of_their_own() {
        let inflight = Inflight::new(MaxInflight { reads: 1, writes: 1, watches_bytes: 0 });
        let read = inflight.admit(&Method::GET, &user("a")).expect("a place");
        assert_eq!(inflight.admit(&Method::HEAD, &user("b")).err(), Some(Full));
        let write = inflight.admit(&Method::PATCH, &user("b")).expect("a place");
        assert_eq!(inflight.admit(&Method::DELETE, &user("c")).err(), Some(Full));
        assert!(read.is_some() && write.is_some());
        drop(read);
        assert!(inflight.admit(&Method::GET, &user("b")).is_ok());
        let without = Inflight::new(MaxInflight { reads: 0, writes: 1, watches_bytes: 0 });
        assert!(without.admit(&Method::GET, &user("a")).expect("no limit").is_none());
    }

    /// What the watches of one user take is not limited by a small number, but it leaves room for others'.
    #[test]
    fn watches_are_limited_by_their_memory() {
        const AGENTS: usize = 50_000;
        let inflight = Inflight::new(MaxInflight { reads: 400, writes: 200, watches_bytes: 4 << 30 });
        let watches = |user: &str, count: usize| {
            let user = User { name: user.to_owned(), ..User::default() };
            let watches: Vec<_> = (0..count).map_while(|_| inflight.admit_watch(&user, false).ok()).collect();
            watches
        };
        let agents = watches("system:serviceaccount:kube-system:agent", AGENTS);
        assert_eq!(agents.len(), AGENTS, "5,000 nodes with ten each share an account");
        let kubelets: Vec<_> = (0..10_000).map(|nth| watches(&format!("system:node:{nth}"), 20)).collect();
        assert!(kubelets.iter().all(|watches| watches.len() == 20));
        drop((agents, kubelets));
        assert_eq!(inflight.watches.all(), 0);
        let greedy = watches("greedy", 1_000_000).len() * WATCH_BYTES;
        assert!(greedy > 2 << 30 && greedy < 3 << 30, "{greedy}");
        let held: Vec<_> = (0..30).map(|nth| watches(&nth.to_string(), 1_000_000)).collect();
        assert_eq!(watches("controller", 300).len(), 300, "a quarter is for those who have few");
        assert!(inflight.watches.all() <= 4 << 30);
        let administrator = User { name: "admin".to_owned(), ..User::default() };
        let anyway: Vec<_> = (0..1_000).map_while(|_| inflight.admit_watch(&administrator, true).ok()).collect();
        assert_eq!(anyway.len(), 1_000);
        drop((held, anyway));
    }

    proptest! {
        /// Whatever is taken and given back: never more than there are, all is given back, and whoever has nothing gets a place if one is free.
        #[test]
        fn places_are_counted(max in 1..20_usize, steps in prop::collection::vec((0..6_usize, any::<bool>()), 0..200)) {
            let inflight = Inflight::new(MaxInflight { reads: max, writes: 0, watches_bytes: 0 });
            let mut held: Vec<Vec<Place>> = vec![Vec::new(); 6];
            for (who, takes) in steps {
                let all: usize = held.iter().map(Vec::len).sum();
                if !takes {
                    held[who].pop();
                    continue;
                }
                match inflight.admit(&Method::GET, &user(&who.to_string())) {
                    Ok(place) => held[who].extend(place),
                    Err(Full) => prop_assert!(all == max || held[who].len() >= SHARE * (max - all)),
                }
                prop_assert!(held.iter().map(Vec::len).sum::<usize>() <= max);
            }
            held.clear();
            let places = inflight.reads.as_ref().expect("a limit");
            let taken = places.taken.lock();
            prop_assert!(taken.all == 0 && taken.users.is_empty());
        }
    }
}
