//! Decides which connections are accepted and which are closed: one table for both listeners.
//!
//! A connection is a stranger's until it has proved whose it is. Strangers are few, have little time, and are the first to go; so what anybody can open
//! never keeps out those who are known. Neither one address nor one user can take every place, and loopback keeps a few for the operator and his probes.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use prometheus::{IntCounterVec, IntGauge};
use tokio::{
    sync::Notify,
    task::AbortHandle,
    time::{Instant, sleep},
};

use telemetry::Metrics;

/// Strangers have one place in so many.
const STRANGERS_PART: usize = 10;

/// Loopback keeps one place in so many, [`RESERVE_MIN`] at least: an operator and a probe.
const RESERVE_PART: usize = 100;
const RESERVE_MIN: usize = 2;

/// A newcomer is not counted among the strangers for so long, while there are places at all: of a crowd that comes at once (all clients, after a restart)
/// those who came first would else go before their handshakes are over.
const ARRIVAL: Duration = Duration::from_millis(100);

/// How long a stranger's connection is kept after a health endpoint was asked on it: load balancers ask every 10 s, and need not connect each time.
const PROBE_KEPT: Duration = Duration::from_secs(15);

/// Requests that a stranger's connection may carry without proving whose it is.
pub(super) const STRANGER_REQUESTS_MAX: u64 = 100;

/// How many connections there may be, of whom.
#[derive(Clone, Copy, Debug)]
struct Places {
    all: usize,
    strangers: usize,
    /// Of `all`, for loopback only.
    reserve: usize,
    /// For one address, and for one user: three quarters, for a load balancer is one address too.
    share: usize,
}

impl Places {
    fn of(all: usize) -> Self {
        let reserve = (all / RESERVE_PART).max(RESERVE_MIN).min(all / 2);
        Self { all, strangers: (all / STRANGERS_PART).max(1), reserve, share: (all * 3).div_ceil(4) }
    }
}

/// Why a connection is closed, or not let in; the label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Every place is taken by somebody known.
    Full,
    /// Its address has its share.
    AddressShare,
    /// Its user has his share.
    UserShare,
    /// A stranger made room for a newcomer.
    Displaced,
    /// It did not prove in time whose it is.
    Unproven,
    /// A stranger asked `STRANGER_REQUESTS_MAX` times.
    Requests,
    /// It sent more control frames than requests and answers explain, or too many pings of a WebSocket.
    Flood,
    /// What had come of the head of a request had no room.
    Heads,
    /// It did not read its answers.
    Unread,
}

impl CloseReason {
    fn label(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::AddressShare => "address_share",
            Self::UserShare => "user_share",
            Self::Displaced => "displaced",
            Self::Unproven => "unproven",
            Self::Requests => "requests",
            Self::Flood => "flood",
            Self::Heads => "heads",
            Self::Unread => "unread",
        }
    }
}

/// What counts as one address: of IPv6 the network of 64 bits, which one machine has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address(IpAddr);

impl Address {
    /// Returns the one that this peer has.
    pub fn of(peer: IpAddr) -> Self {
        match peer.to_canonical() {
            IpAddr::V6(ip) if !ip.is_loopback() => Self(IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)))),
            ip => Self(ip),
        }
    }

    fn is_loopback(self) -> bool {
        self.0.is_loopback()
    }
}

/// Whose a connection is.
#[derive(Debug)]
enum Whose {
    /// Nobody's yet.
    Strangers {
        since: Instant,
        /// Closed at this time.
        until: Instant,
    },
    User(Arc<str>),
    /// Came through the plain listener.
    Local,
}

/// One open connection; `H` ends it.
#[derive(Debug)]
struct Open<H> {
    address: Address,
    whose: Whose,
    handle: Option<H>,
}

/// The table. Connections have numbers that rise with time.
#[derive(Debug)]
struct Table<H> {
    places: Places,
    next: u64,
    open: BTreeMap<u64, Open<H>>,
    /// Those of strangers, with their addresses.
    strangers: BTreeMap<u64, Address>,
    stranger_addresses: HashMap<Address, usize>,
    addresses: HashMap<Address, usize>,
    users: HashMap<Arc<str>, usize>,
    locals: usize,
}

impl<H> Table<H> {
    fn new(places: Places) -> Self {
        Self {
            places,
            next: 0,
            open: BTreeMap::new(),
            strangers: BTreeMap::new(),
            stranger_addresses: HashMap::new(),
            addresses: HashMap::new(),
            users: HashMap::new(),
            locals: 0,
        }
    }

    /// Gives a newcomer a place; the stranger that had to go for it, if one had to. A stranger has this time to prove whose he is.
    fn admit(&mut self, peer: IpAddr, is_local: bool, now: Instant, time: Duration) -> Result<(u64, Option<Open<H>>), CloseReason> {
        let address = Address::of(peer);
        let places = if address.is_loopback() { self.places.all } else { self.places.all - self.places.reserve };
        let goes = if self.addresses.get(&address).is_some_and(|count| *count >= self.places.share) {
            let own = self.strangers.iter().find(|(_, of)| **of == address).map(|(id, _)| *id);
            Some(own.ok_or(CloseReason::AddressShare)?)
        } else if self.open.len() >= places {
            Some(self.first_to_go().ok_or(CloseReason::Full)?)
        } else if !is_local && self.has_all_strangers(now) {
            self.first_to_go()
        } else {
            None
        };
        let displaced = goes.and_then(|id| self.remove(id));
        let id = self.next;
        self.next += 1;
        *self.addresses.entry(address).or_default() += 1;
        let whose = if is_local {
            self.locals += 1;
            Whose::Local
        } else {
            self.strangers.insert(id, address);
            *self.stranger_addresses.entry(address).or_default() += 1;
            Whose::Strangers { since: now, until: now + time }
        };
        self.open.insert(id, Open { address, whose, handle: None });
        Ok((id, displaced))
    }

    /// Whether as many strangers as may be are there for longer than [`ARRIVAL`].
    fn has_all_strangers(&self, now: Instant) -> bool {
        // They are in the order of their coming.
        let last = self.strangers.keys().nth(self.places.strangers - 1).and_then(|id| self.open.get(id));
        matches!(last, Some(Open { whose: Whose::Strangers { since, .. }, .. }) if now.duration_since(*since) >= ARRIVAL)
    }

    /// Takes out the strangers that are too many now that their arrival is over.
    fn surplus(&mut self, now: Instant) -> Vec<Open<H>> {
        let mut surplus = Vec::new();
        while self.strangers.len() > self.places.strangers && self.has_all_strangers(now) {
            surplus.extend(self.first_to_go().and_then(|id| self.remove(id)));
        }
        surplus
    }

    /// The oldest stranger of those addresses that have most strangers: a crowd from one address displaces itself.
    fn first_to_go(&self) -> Option<u64> {
        let most = self.stranger_addresses.values().max()?;
        self.strangers.iter().find(|(_, address)| self.stranger_addresses.get(address) == Some(most)).map(|(id, _)| *id)
    }

    /// A stranger's connection has become a user's. One that has an owner keeps him.
    fn prove(&mut self, id: u64, user: &str) -> Result<(), CloseReason> {
        let Some(open) = self.open.get_mut(&id).filter(|open| matches!(open.whose, Whose::Strangers { .. })) else { return Ok(()) };
        let user: Arc<str> = match self.users.get_key_value(user) {
            Some((_, count)) if *count >= self.places.share => return Err(CloseReason::UserShare),
            Some((user, _)) => user.clone(),
            None => user.into(),
        };
        let address = open.address;
        open.whose = Whose::User(user.clone());
        *self.users.entry(user).or_default() += 1;
        self.no_stranger(id, address);
        Ok(())
    }

    /// A stranger has this long at least.
    fn extend(&mut self, id: u64, to: Instant) {
        if let Some(Open { whose: Whose::Strangers { until, .. }, .. }) = self.open.get_mut(&id) {
            *until = to.max(*until);
        }
    }

    /// Takes out the strangers whose time is over.
    fn overdue(&mut self, now: Instant) -> Vec<Open<H>> {
        let is_over = |id: &u64| matches!(self.open.get(id), Some(Open { whose: Whose::Strangers { until, .. }, .. }) if *until <= now);
        let over: Vec<u64> = self.strangers.keys().copied().filter(is_over).collect();
        over.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    fn remove(&mut self, id: u64) -> Option<Open<H>> {
        let open = self.open.remove(&id)?;
        one_less(&mut self.addresses, &open.address);
        match &open.whose {
            Whose::Strangers { .. } => self.no_stranger(id, open.address),
            Whose::User(user) => one_less(&mut self.users, user),
            Whose::Local => self.locals -= 1,
        }
        Some(open)
    }

    fn no_stranger(&mut self, id: u64, address: Address) {
        self.strangers.remove(&id);
        one_less(&mut self.stranger_addresses, &address);
    }
}

fn one_less<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    let count = counts.get_mut(key).expect("what is open is counted");
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}

/// The connections of both listeners.
#[derive(Debug)]
pub(super) struct Connections {
    table: Mutex<Table<AbortHandle>>,
    /// How long a stranger may take from the accept to the proof.
    proof_max: Duration,
    strangers: IntGauge,
    known: IntGauge,
    local: IntGauge,
    closed: IntCounterVec,
}

impl Connections {
    /// A table of `count_max` places, all of them free.
    pub(super) fn new(count_max: usize, proof_max: Duration, metrics: &Metrics) -> Arc<Self> {
        let open = |kind: &str| metrics.connections.with_label_values(&[kind]);
        Arc::new(Self {
            table: Mutex::new(Table::new(Places::of(count_max))),
            proof_max,
            strangers: open("stranger"),
            known: open("known"),
            local: open("local"),
            closed: metrics.connections_closed.clone(),
        })
    }

    /// A place for a newcomer, for as long as its seat lives. `None`: it is to be closed at once.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr, is_local: bool) -> Option<Arc<Seat>> {
        let admitted = {
            let mut table = self.table();
            let admitted = table.admit(peer, is_local, Instant::now(), self.proof_max);
            self.show(&table);
            admitted
        };
        match admitted {
            Ok((id, displaced)) => {
                self.close(displaced, CloseReason::Displaced);
                let is_known = AtomicBool::new(is_local);
                Some(Arc::new(Seat { connections: self.clone(), id, is_known, leaving: OnceLock::new(), left: Notify::new() }))
            }
            Err(reason) => {
                self.count(reason);
                None
            }
        }
    }

    /// Closes strangers whose time is over, and those that are too many, for ever.
    pub(super) async fn sweep(&self) -> Infallible {
        let every = (self.proof_max / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        loop {
            sleep(every).await;
            let (overdue, surplus) = {
                let (mut table, now) = (self.table(), Instant::now());
                let gone = (table.overdue(now), table.surplus(now));
                self.show(&table);
                gone
            };
            self.close(overdue, CloseReason::Unproven);
            self.close(surplus, CloseReason::Displaced);
        }
    }

    /// Ends tasks whose connections have left the table: nothing more is sent.
    fn close(&self, gone: impl IntoIterator<Item = Open<AbortHandle>>, reason: CloseReason) {
        for open in gone {
            self.count(reason);
            if let Some(task) = open.handle {
                task.abort();
            }
        }
    }

    fn count(&self, reason: CloseReason) {
        self.closed.with_label_values(&[reason.label()]).inc();
    }

    fn table(&self) -> MutexGuard<'_, Table<AbortHandle>> {
        self.table.lock()
    }

    fn show(&self, table: &Table<AbortHandle>) {
        let (strangers, local) = (table.strangers.len(), table.locals);
        self.strangers.set(strangers as i64);
        self.local.set(local as i64);
        self.known.set((table.open.len() - strangers - local) as i64);
    }
}

/// The place of one connection, given back when it is dropped.
#[derive(Debug)]
pub struct Seat {
    connections: Arc<Connections>,
    id: u64,
    is_known: AtomicBool,
    /// Why the connection is to end; read when `left` was told.
    leaving: OnceLock<CloseReason>,
    left: Notify,
}

impl Seat {
    /// This task serves the connection: it is aborted when the stranger has to go.
    pub(super) fn served_by(&self, task: AbortHandle) {
        if let Some(open) = self.connections.table().open.get_mut(&self.id) {
            open.handle = Some(task);
            return;
        }
        // It had to go already.
        task.abort();
    }

    /// Whether nobody has proved whose the connection is.
    pub fn is_strangers(&self) -> bool {
        !self.is_known.load(Ordering::Relaxed)
    }

    /// A handshake proved that the connection is this user's. One past his share stays a stranger's, so that its first request is told why it ends.
    pub fn certified(&self, user: &str) {
        let _ = self.own(user);
    }

    /// A request proved that the connection is this user's, if it was a stranger's.
    ///
    /// # Errors
    /// He has his share of connections; this one ends after its answer.
    pub fn prove(&self, user: &str) -> Result<(), CloseReason> {
        if !self.is_strangers() {
            return Ok(());
        }
        self.own(user).inspect_err(|reason| self.leave(*reason))
    }

    fn own(&self, user: &str) -> Result<(), CloseReason> {
        let mut table = self.connections.table();
        table.prove(self.id, user)?;
        self.connections.show(&table);
        self.is_known.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// A health endpoint was asked: a stranger may stay for the next time.
    pub fn probed(&self) {
        if self.is_strangers() {
            self.connections.table().extend(self.id, Instant::now() + PROBE_KEPT);
        }
    }

    /// Somebody else is asked whose it is: a stranger may wait this long for the answer.
    pub fn asked_about(&self, time: Duration) {
        if self.is_strangers() {
            self.connections.table().extend(self.id, Instant::now() + time);
        }
    }

    /// The connection is to end: what is answered already may still be sent.
    pub fn leave(&self, reason: CloseReason) {
        if self.leaving.set(reason).is_ok() {
            self.connections.count(reason);
            self.left.notify_one();
        }
    }

    /// Waits until the connection is to end.
    pub(super) async fn left(&self) -> CloseReason {
        loop {
            if let Some(reason) = self.leaving.get() {
                return *reason;
            }
            self.left.notified().await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.remove(self.id);
        self.connections.show(&table);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// A table whose handles are names of connections.
    fn table(all: usize) -> Table<u64> {
        Table::new(Places::of(all))
    }

    /// Lets somebody in; its number, and who had to go.
    fn admit(table: &mut Table<u64>, peer: IpAddr) -> Result<(u64, Option<u64>), CloseReason> {
        admit_at(table, peer, Instant::now())
    }

    fn admit_at(table: &mut Table<u64>, peer: IpAddr, now: Instant) -> Result<(u64, Option<u64>), CloseReason> {
        let (id, gone) = table.admit(peer, false, now, TEN)?;
        table.open.get_mut(&id).expect("it is open").handle = Some(id);
        Ok((id, gone.and_then(|open| open.handle)))
    }

    fn known(table: &mut Table<u64>, peer: IpAddr, user: &str) -> Result<u64, CloseReason> {
        let (id, _) = admit(table, peer)?;
        table.prove(id, user).map(|()| id)
    }

    #[test]
    fn strangers_are_few_and_a_crowd_displaces_itself() {
        let mut table = table(40);
        let honest = admit(&mut table, ip(9)).expect("free").0;
        let crowd: Vec<u64> = (0..3).map(|_| admit(&mut table, ip(1)).expect("free").0).collect();
        for (nth, gone) in (1..).zip(crowd) {
            assert_eq!(admit_at(&mut table, ip(1), Instant::now() + nth * ARRIVAL).expect("another goes").1, Some(gone));
            assert_eq!(table.strangers.len(), 4);
        }
        assert!(table.strangers.contains_key(&honest));
    }

    #[test]
    fn a_crowd_that_arrives_has_the_places_that_are_free_for_a_while() {
        let mut table = table(40);
        let now = Instant::now();
        let crowd: Vec<u64> = (0..30).map(|_| admit_at(&mut table, ip(1), now).expect("free").0).collect();
        assert_eq!(
            admit_at(&mut table, ip(1), now).expect("it has its share").1,
            Some(crowd[0]),
            "an address at its share displaces itself"
        );
        assert!(table.surplus(now + ARRIVAL / 2).is_empty());
        let gone: Vec<u64> = table.surplus(now + ARRIVAL).into_iter().filter_map(|open| open.handle).collect();
        assert_eq!(gone, crowd[1..27]);
        assert_eq!(table.strangers.len(), 4);
    }

    #[test]
    fn strangers_go_first_and_known_clients_stay() {
        let mut table = table(20);
        let users: Vec<u64> = (0..18u8).map(|n| known(&mut table, ip(n), &n.to_string()).expect("free")).collect();
        assert_eq!(admit(&mut table, ip(200)), Err(CloseReason::Full), "the rest is for loopback");
        let stranger = admit(&mut table, LOOPBACK).expect("reserved").0;
        assert_eq!(admit(&mut table, ip(201)).map(|(_, gone)| gone), Ok(Some(stranger)));
        assert!(users.iter().all(|id| table.open.contains_key(id)));
    }

    #[test]
    fn an_address_and_a_user_have_their_shares() {
        let mut table = table(20);
        for _ in 0..15 {
            known(&mut table, ip(1), "jane").expect("free");
        }
        assert_eq!(admit(&mut table, ip(1)), Err(CloseReason::AddressShare));
        assert_eq!(known(&mut table, ip(2), "jane"), Err(CloseReason::UserShare));
        assert!(known(&mut table, ip(2), "bob").is_ok());
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let of = |text: &str| Address::of(text.parse().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert!(of("::1").is_loopback() && of("::ffff:127.0.0.1").is_loopback() && !of("::2").is_loopback());
    }

    #[test]
    fn strangers_have_their_time_and_probes_more() {
        let mut table = table(100);
        let (silent, probe) = (admit(&mut table, ip(1)).expect("free").0, admit(&mut table, ip(2)).expect("free").0);
        known(&mut table, ip(3), "jane").expect("free");
        table.extend(probe, Instant::now() + 2 * TEN);
        let over =
            |table: &mut Table<u64>, after| table.overdue(Instant::now() + after).into_iter().filter_map(|o| o.handle).collect::<Vec<_>>();
        assert_eq!(over(&mut table, TEN / 2), [0; 0]);
        assert_eq!(over(&mut table, TEN + TEN / 2), [silent]);
        assert_eq!(over(&mut table, 3 * TEN), [probe]);
        assert_eq!(table.open.len(), 1);
    }

    proptest! {
        /// However they come and go: no more than there are places, and all counts are those of what is open.
        #[test]
        fn the_limits_hold(all in 1usize..30, steps in proptest::collection::vec((0u8..5, 0u8..4, 0usize..40), 0..200)) {
            let mut table = table(all);
            let places = table.places;
            for (step, who, which) in steps {
                let peer = if who == 0 { LOOPBACK } else { ip(who) };
                let one = table.open.keys().copied().nth(which);
                match (step, one) {
                    (0 | 1, _) => drop(table.admit(peer, who == 0 && step == 1, Instant::now() + (step + who) as u32 * ARRIVAL / 2, TEN)),
                    (2, Some(id)) => drop(table.prove(id, &who.to_string())),
                    (3, Some(id)) => drop(table.remove(id)),
                    _ => {}
                }
                let count = |test: &dyn Fn(&Open<u64>) -> bool| table.open.values().filter(|open| test(open)).count();
                prop_assert!(table.open.len() <= places.all);
                prop_assert_eq!(count(&|open| matches!(open.whose, Whose::Strangers { .. })), table.strangers.len());
                prop_assert_eq!(count(&|open| matches!(open.whose, Whose::Local)), table.locals);
                prop_assert!(table.addresses.values().chain(table.users.values()).all(|count| *count <= places.share));
                prop_assert_eq!(table.addresses.values().sum::<usize>(), table.open.len());
                prop_assert_eq!(table.stranger_addresses.values().sum::<usize>(), table.strangers.len());
                prop_assert_eq!(table.users.values().sum::<usize>() + table.strangers.len() + table.locals, table.open.len());
            }
            table.surplus(Instant::now() + TEN);
            prop_assert!(table.strangers.len() <= places.strangers);
        }
    }
}
