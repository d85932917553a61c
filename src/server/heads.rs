//! The heads of requests: each byte is counted from when a head is read until nothing of it is left, by connection, by who sends it, and for the whole server.
//!
//! A connection may hold `BASE` bytes whoever else holds how much: what an honest client has under way. Past that a user, and the strangers of an address, may
//! hold half of what the server has left, so one greedy user gets a third of the limit, and those who come later find room.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use parking_lot::{Mutex, MutexGuard};
use prometheus::IntGauge;
use thiserror::Error;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::connections::Address;

/// Bytes of all heads past the [`BASE`] of each connection; more where single heads may be larger.
const ALL_BYTES_MAX: usize = 128 << 20;

/// Of the largest heads so many find room at least.
const LARGEST_MIN: usize = 64;

/// Bytes that a connection may hold beside that limit.
const BASE: usize = 16 << 10;

/// A user, or the strangers of an address, may hold this part of what is left.
const PART: usize = 2;

/// Bytes past their connections' [`BASE`] with which requests may wait until somebody else says whose they are, of one address from which nobody is known yet.
const WAITING_BYTES_MAX: usize = 128 << 10;

/// Requests of which that is asked at once, of one user, or of the strangers of one address.
const ASKED_MAX: usize = 256;

/// Requests that wait so, asked about or not. A user, and the strangers of an address, may be half of those that are left.
const WAITING_MAX: usize = 6 << 10;

/// How long a request waits until it is asked about.
const WAITING_TIME: Duration = Duration::from_secs(10);

/// What a place in a map of headers takes, used or not; a further value of a header, with the room for another; and a text besides itself.
const PLACE_BYTES: usize = 112;
const MORE_BYTES: usize = 2 * 72;
const TEXT_BYTES: usize = 16;

/// A head up to this size is left as it is: to look for what nobody needs would cost more.
const SMALL_BYTES: usize = 8 << 10;

/// What is kept of a request for as long as it lasts, and not counted: any watch costs several times as much.
const KEPT_FREE: usize = 2 << 10;

/// Why there is no room for a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Full {
    /// The client holds too much.
    #[error("the heads of this client's requests take too much memory, please try again later")]
    TooMuch,
    /// Too many of its requests wait.
    #[error("too many requests wait to be told who sent them, please try again later")]
    TooManyWait,
}

/// Whose heads are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Those of an address who have not proved who they are.
    Strangers(Address),
    /// A user's.
    User(Arc<str>),
}

/// All heads.
#[derive(Debug)]
pub struct Heads {
    limit: usize,
    table: Mutex<Table>,
    shown: IntGauge,
}

#[derive(Debug, Default)]
struct Table {
    all: usize,
    /// Only those who hold something.
    owners: HashMap<Owner, usize>,
    waiting: HashMap<Owner, Waiting>,
    /// Of all owners.
    waiting_count: usize,
}

#[derive(Debug)]
struct Waiting {
    count: usize,
    bytes: usize,
    asked: Arc<Semaphore>,
}

/// The heads of one connection.
#[derive(Debug)]
pub struct Account {
    heads: Arc<Heads>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    held: usize,
    /// Of these, what has come of a head that is not whole.
    partial: usize,
    owner: Owner,
}

/// Bytes of a head, or of what is made of it, until this is dropped.
#[derive(Debug)]
pub struct Held {
    account: Arc<Account>,
    bytes: AtomicUsize,
}

/// A head that has just been read, in the extensions of its request.
#[derive(Clone, Debug)]
pub struct Read {
    held: Arc<Held>,
    fits: bool,
}

/// A place among those who wait until somebody else says whose their request is.
#[derive(Debug)]
pub struct WaitingPlace {
    heads: Arc<Heads>,
    owner: Owner,
    bytes: usize,
    /// Once it may be asked about.
    asked: Option<OwnedSemaphorePermit>,
}

impl Heads {
    /// None yet. A single one has at most so many bytes.
    pub(super) fn new(header_bytes_max: usize, shown: IntGauge) -> Arc<Self> {
        Self::of(ALL_BYTES_MAX.max(header_bytes_max.saturating_mul(LARGEST_MIN)), shown)
    }

    fn of(limit: usize, shown: IntGauge) -> Arc<Self> {
        Arc::new(Self { limit, table: Mutex::default(), shown })
    }

    /// The account of a new connection.
    pub(super) fn account(self: &Arc<Self>, owner: Owner) -> Arc<Account> {
        Arc::new(Account { heads: self.clone(), state: Mutex::new(State { held: 0, partial: 0, owner }) })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    fn show(&self, table: &Table) {
        self.shown.set(i64::try_from(table.all).unwrap_or(i64::MAX));
    }

    /// What an owner holds has become more. False: it is too much, and nothing is done unless it `must`.
    fn more(&self, owner: &Owner, bytes: usize, must: bool) -> bool {
        let mut table = self.table();
        let own = table.owners.get(owner).copied().unwrap_or(0);
        let fits = own.saturating_add(bytes) <= self.limit.saturating_sub(table.all) / PART;
        if fits || must {
            table.all += bytes;
            table.owners.insert(owner.clone(), own + bytes);
            self.show(&table);
        }
        fits
    }

    fn less(&self, owner: &Owner, bytes: usize) {
        let mut table = self.table();
        table.all -= bytes;
        self.show(&table);
        let left = table.owners.get_mut(owner).map(|own| {
            *own -= bytes;
            *own
        });
        if left == Some(0) {
            table.owners.remove(owner);
            if table.owners.is_empty() {
                table.owners = HashMap::new();
            }
        }
    }
}

fn past_base(held: usize) -> usize {
    held.saturating_sub(BASE)
}

impl Account {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Counts the head of a request. One that has no room is counted too, for it is there.
    pub fn read<B>(self: &Arc<Self>, request: &Request<B>) -> Read {
        self.partial(0);
        let bytes = bytes_of(request.uri(), request.headers());
        let fits = self.add(bytes, true);
        Read { held: Arc::new(Held { account: self.clone(), bytes: bytes.into() }), fits }
    }

    /// So much has come of a head that is not whole. False: there is no room for it.
    pub(super) fn partial(&self, bytes: usize) -> bool {
        let before = std::mem::replace(&mut self.state().partial, bytes);
        self.release(before.saturating_sub(bytes));
        self.add(bytes.saturating_sub(before), true)
    }

    /// Room for what is kept of a request while it lasts; little is not counted.
    ///
    /// # Errors
    /// There is no room.
    pub fn keep(self: &Arc<Self>, bytes: usize) -> Result<Option<Held>, Full> {
        match bytes > KEPT_FREE {
            false => Ok(None),
            true if self.add(bytes, false) => Ok(Some(Held { account: self.clone(), bytes: bytes.into() })),
            true => Err(Full::TooMuch),
        }
    }

    /// The connection has become a user's, and so has what it holds.
    pub fn owned_by(&self, user: &str) {
        let mut state = self.state();
        if matches!(state.owner, Owner::User(_)) {
            return;
        }
        let (before, past) = (std::mem::replace(&mut state.owner, Owner::User(user.into())), past_base(state.held));
        if past > 0 {
            self.heads.less(&before, past);
            self.heads.more(&state.owner, past, true);
        }
    }

    /// A place to wait for somebody else who says whose a request is, of a head of this size. Comes when it may be asked about.
    ///
    /// # Errors
    /// There is no room, or it was not to be asked about in time.
    pub async fn wait(&self, head: &Held) -> Result<WaitingPlace, Full> {
        let (mut place, asked) = self.queue(head)?;
        let permit = timeout(WAITING_TIME, asked.acquire_owned()).await.map_err(|_| Full::TooManyWait)?;
        place.asked = Some(permit.expect("the semaphore is never closed"));
        Ok(place)
    }

    fn queue(&self, head: &Held) -> Result<(WaitingPlace, Arc<Semaphore>), Full> {
        let (owner, past) = {
            let state = self.state();
            (state.owner.clone(), past_base(state.held))
        };
        let bytes = head.bytes.load(Ordering::Relaxed).min(past);
        let bytes_max = if matches!(owner, Owner::Strangers(_)) { WAITING_BYTES_MAX } else { usize::MAX };
        let mut table = self.heads.table();
        let all = table.waiting_count;
        let (count, held) = table.waiting.get(&owner).map_or((0, 0), |waiting| (waiting.count, waiting.bytes));
        // Who waits alone may have a head as large as any.
        let has_room = count == 0 || count < WAITING_MAX.saturating_sub(all) / PART && held.saturating_add(bytes) <= bytes_max;
        if !has_room || all == WAITING_MAX {
            return Err(Full::TooManyWait);
        }
        table.waiting_count += 1;
        let new = || Waiting { count: 0, bytes: 0, asked: Arc::new(Semaphore::new(ASKED_MAX)) };
        let waiting = table.waiting.entry(owner.clone()).or_insert_with(new);
        (waiting.count, waiting.bytes) = (count + 1, held + bytes);
        let asked = waiting.asked.clone();
        Ok((WaitingPlace { heads: self.heads.clone(), owner, bytes, asked: None }, asked))
    }

    /// Holds more. False: that is too much, and nothing is done unless it `must`.
    fn add(&self, bytes: usize, must: bool) -> bool {
        let mut state = self.state();
        let held = state.held.saturating_add(bytes);
        let past = past_base(held) - past_base(state.held);
        let fits = past == 0 || self.heads.more(&state.owner, past, must);
        if fits || must {
            state.held = held;
        }
        fits
    }

    fn release(&self, bytes: usize) {
        let mut state = self.state();
        let held = state.held - bytes;
        let past = past_base(state.held) - past_base(held);
        if past > 0 {
            self.heads.less(&state.owner, past);
        }
        state.held = held;
    }

    #[cfg(test)]
    pub(super) fn of_a_test() -> Arc<Self> {
        Heads::of(1 << 30, gauge()).account(Owner::User("jane".into()))
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // The rest of a head does not come any more.
        self.partial(0);
    }
}

#[cfg(test)]
fn gauge() -> IntGauge {
    IntGauge::new("heads", "of a test").expect("a name")
}

impl Held {
    /// More is made of the head.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn grow(&self, bytes: usize) -> Result<(), Full> {
        if !self.account.add(bytes, false) {
            return Err(Full::TooMuch);
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Less of it is left.
    fn shrink_to(&self, bytes: usize) {
        let before = self.bytes.fetch_min(bytes, Ordering::Relaxed);
        self.account.release(before.saturating_sub(bytes));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.release(*self.bytes.get_mut());
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        drop(self.asked.take());
        let mut table = self.heads.table();
        table.waiting_count -= 1;
        let Some(waiting) = table.waiting.get_mut(&self.owner) else { return };
        waiting.count -= 1;
        waiting.bytes -= self.bytes;
        if waiting.count == 0 {
            table.waiting.remove(&self.owner);
        }
    }
}

impl Read {
    /// What counts the head, and of what is made of its request line.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn with(self, line_bytes: usize) -> Result<Arc<Held>, Full> {
        if !self.fits {
            return Err(Full::TooMuch);
        }
        self.held.grow(line_bytes)?;
        Ok(self.held)
    }

    /// Drops what nobody here looks at of a large head, and what it was read into with it.
    pub fn trim<B>(&self, request: &mut Request<B>, is_looked_at: impl Fn(&HeaderName) -> bool) {
        if bytes_of(request.uri(), request.headers()) <= SMALL_BYTES {
            return;
        }
        let mut kept = HeaderMap::new();
        for (name, value) in request.headers().iter().filter(|(name, _)| is_looked_at(name)) {
            let mut copy = HeaderValue::from_bytes(value.as_bytes()).expect("it was a value");
            copy.set_sensitive(value.is_sensitive());
            kept.append(name, copy);
        }
        *request.headers_mut() = kept;
        if let Ok(uri) = Uri::from_maybe_shared(Bytes::from(request.uri().to_string())) {
            *request.uri_mut() = uri;
        }
        self.held.shrink_to(bytes_of(request.uri(), request.headers()));
    }
}

/// What a head takes: its texts, and the map that has them, with the room that it has for others.
fn bytes_of(uri: &Uri, headers: &HeaderMap) -> usize {
    let text = |text: usize| text + TEXT_BYTES;
    let line = uri.path_and_query().map_or(0, |path| text(path.as_str().len()))
        + uri.authority().map_or(0, |authority| text(authority.as_str().len()));
    let map = headers.capacity() * PLACE_BYTES + (headers.len() - headers.keys_len()) * MORE_BYTES;
    line + map + headers.iter().map(|(name, value)| text(name.as_str().len()) + text(value.len())).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, COOKIE, RANGE};
    use proptest::prelude::*;

    use super::*;

    /// One whose head counts so many bytes.
    fn request(bytes: usize) -> Request<()> {
        let with = |value: usize| Request::get("/").header("x", "v".repeat(value)).body(()).expect("a request");
        with(bytes - bytes_of(with(0).uri(), with(0).headers()))
    }

    /// 128 MiB were counted, and 340 taken: the map of many short headers is three times as large as their texts with 128 bytes each.
    #[test]
    fn the_room_of_a_map_is_counted() {
        let mut headers = HeaderMap::new();
        for nth in 0..1_000 {
            headers.append(HeaderName::try_from(format!("x-{nth}")).expect("a name"), HeaderValue::from_static("v"));
            assert!(bytes_of(&Uri::default(), &headers) >= headers.capacity() * PLACE_BYTES + headers.len() * 2 * TEXT_BYTES);
        }
        assert!(PLACE_BYTES >= size_of::<HeaderName>() + size_of::<HeaderValue>() + 4 * size_of::<usize>());
        let names = bytes_of(&Uri::default(), &headers);
        (0..1_000).for_each(|_| _ = headers.append(COOKIE, HeaderValue::from_static("v")));
        assert!(bytes_of(&Uri::default(), &headers) >= names + 1_000 * MORE_BYTES);
    }

    fn user(heads: &Arc<Heads>, name: &str) -> Arc<Account> {
        heads.account(Owner::User(name.into()))
    }

    fn stranger(heads: &Arc<Heads>, last: u8) -> Arc<Account> {
        heads.account(Owner::Strangers(Address::of([192, 0, 2, last].into())))
    }

    /// Heads of 10 KiB, until one is refused.
    fn flood(account: &Arc<Account>) -> Vec<Arc<Held>> {
        std::iter::from_fn(|| account.read(&request(10 << 10)).with(0).ok()).collect()
    }

    #[test]
    fn a_head_is_counted_until_nothing_is_left_of_it() {
        let heads = Heads::of(1 << 20, gauge());
        let account = user(&heads, "jane");
        let held = account.read(&request(BASE)).with(5).expect("room");
        held.grow(100).expect("room");
        assert_eq!((account.state().held, heads.table().all, heads.shown.get()), (BASE + 105, 105, 105));
        let kept = account.keep(KEPT_FREE + 1).expect("room").expect("counted");
        assert!(account.keep(KEPT_FREE).expect("little needs no room").is_none());
        drop(held);
        assert_eq!((account.state().held, heads.table().all), (KEPT_FREE + 1, 0));
        drop(kept);
        assert!(account.state().held == 0 && heads.table().owners.is_empty());
    }

    /// 0.6 MB that strangers sent were 543 MiB.
    #[test]
    fn greedy_users_leave_room_for_others() {
        let heads = Heads::of(1 << 20, gauge());
        let connections: Vec<_> = (0..4).map(|_| user(&heads, "greedy")).collect();
        let held: Vec<_> = connections.iter().flat_map(flood).collect();
        let most = (1 << 20) / (PART + 1) + 4 * BASE;
        assert!((most / 2..=most).contains(&(held.len() * (10 << 10))), "{}", held.len());
        let many: Vec<_> = (0..100).map(|nth| flood(&user(&heads, &nth.to_string()))).collect();
        assert!(heads.table().all <= 1 << 20, "{}", heads.table().all);
        let late = user(&heads, "late");
        assert!(late.read(&request(BASE)).with(0).is_ok(), "the base is everybody's");
        assert_eq!(connections[0].read(&request(BASE)).with(0).expect_err("it has its share"), Full::TooMuch);
        drop((held, many));
        assert!(heads.table().all == 0 && heads.table().owners.is_empty());
    }

    #[test]
    fn what_has_come_of_a_head_is_counted() {
        let heads = Heads::of(1 << 20, gauge());
        let (account, other) = (stranger(&heads, 1), stranger(&heads, 1));
        assert!(account.partial(BASE + 1_000) && account.partial(BASE + 3_000));
        assert_eq!(heads.table().all, 3_000);
        let held = account.read(&request(BASE + 500)).with(0).expect("room");
        assert_eq!(heads.table().all, 500, "it has become a request's");
        assert!(!other.partial(1 << 20), "there is no room for it, but it is there");
        drop((held, other));
        assert!(account.partial(BASE + 7));
        drop(account);
        assert!(heads.table().all == 0 && heads.table().owners.is_empty(), "a connection that ends takes it along");
    }

    #[test]
    fn a_connection_s_heads_become_its_user_s() {
        let heads = Heads::of(1 << 20, gauge());
        let account = stranger(&heads, 1);
        let held = account.read(&request(100 << 10)).with(0).expect("room");
        account.owned_by("jane");
        account.owned_by("bob");
        let owners: Vec<_> = heads.table().owners.clone().into_iter().collect();
        assert_eq!(owners, [(Owner::User("jane".into()), (100 << 10) - BASE)]);
        drop(held);
        assert!(heads.table().owners.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_unknown_waits_with_much() {
        let heads = Heads::of(1 << 30, gauge());
        let (first, second) = (stranger(&heads, 1), stranger(&heads, 1));
        let large = first.read(&request(200 << 10)).with(0).expect("room");
        let base = second.read(&request(BASE)).with(0).expect("room");
        let small = second.read(&request(1 << 10)).with(0).expect("room");
        let alone = first.wait(&large).await.expect("a head as large as any waits alone");
        assert_eq!(second.wait(&small).await.expect_err("it is the same address"), Full::TooManyWait);
        assert!(stranger(&heads, 2).wait(&small).await.is_ok(), "another address waits");
        drop(alone);
        let waiting: Vec<_> = std::iter::from_fn(|| second.queue(&small).ok()).collect();
        assert_eq!(waiting.len(), WAITING_BYTES_MAX >> 10);
        let jane = user(&heads, "jane");
        let known: Vec<_> = std::iter::from_fn(|| jane.queue(&large).ok()).collect();
        assert_eq!(known.len(), (WAITING_MAX - waiting.len()) / (PART + 1), "whoever is known is limited in number");
        drop((waiting, known, base));
        assert!(heads.table().waiting.is_empty() && heads.table().waiting_count == 0);
    }

    /// The first clients of a server come all at once, often from one address, and nothing is known of any of them: they wait for their turn.
    #[tokio::test(start_paused = true)]
    async fn a_crowd_of_strangers_waits() {
        const CROWD: usize = 2_000;
        let heads = Heads::of(1 << 30, gauge());
        let waits = (0..CROWD).map(|_| {
            let account = stranger(&heads, 1);
            async move {
                let head = account.read(&request(4 << 10)).with(0).expect("room");
                let place = account.wait(&head).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop(place);
                Ok::<_, Full>(())
            }
        });
        let waited = futures_util::future::join_all(waits).await;
        assert_eq!(waited.iter().filter(|waited| waited.is_ok()).count(), CROWD);
        // Who is not asked about in time is told to come again.
        let account = stranger(&heads, 1);
        let head = account.read(&request(1 << 10)).with(0).expect("room");
        let asked: Vec<_> = futures_util::future::join_all((0..ASKED_MAX).map(|_| account.wait(&head))).await;
        let began = tokio::time::Instant::now();
        assert_eq!(account.wait(&head).await.expect_err("nobody is done"), Full::TooManyWait);
        assert_eq!((began.elapsed(), asked.len()), (WAITING_TIME, ASKED_MAX));
        drop(asked);
        assert!(heads.table().waiting.is_empty() && heads.table().waiting_count == 0);
    }

    #[test]
    fn a_large_head_loses_what_nobody_looks_at() {
        let is_looked_at = |name: &HeaderName| *name != COOKIE && *name != RANGE;
        let account = Account::of_a_test();
        let mut request = Request::get("https://host/api?x=1").body(()).expect("a request");
        request.headers_mut().insert(COOKIE, HeaderValue::from_static("c"));
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("a"));
        request.headers_mut().append(ACCEPT, HeaderValue::from_static("b"));
        let read = account.read(&request);
        read.trim(&mut request, is_looked_at);
        assert_eq!(request.headers().len(), 3, "it is small");
        request.headers_mut().insert(RANGE, HeaderValue::try_from("x".repeat(SMALL_BYTES)).expect("a value"));
        for name in ["impersonate-user", "sec-websocket-key", "x-forwarded-for"] {
            request.headers_mut().insert(name, HeaderValue::from_static("y"));
        }
        let read = account.read(&request);
        assert!(account.state().held > SMALL_BYTES);
        read.trim(&mut request, is_looked_at);
        assert_eq!(request.headers().get_all(ACCEPT).iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((request.headers().len(), request.uri().to_string()), (5, "https://host/api?x=1".to_owned()));
        assert_eq!(read.held.bytes.load(Ordering::Relaxed), bytes_of(request.uri(), request.headers()));
        assert!(account.state().held < 3 << 10, "{}", account.state().held);
    }

    proptest! {
        /// Whatever is read, made, let go of and proved: what is counted is what is held.
        #[test]
        fn all_is_counted(steps in prop::collection::vec((0..5_usize, 0..4_usize, 1..40_usize), 0..100)) {
            let heads = Heads::of(1 << 20, gauge());
            let accounts: Vec<_> = (0..4).map(|nth| stranger(&heads, nth / 2)).collect();
            let mut held: Vec<Vec<Arc<Held>>> = vec![Vec::new(); 4];
            for (step, who, size) in steps {
                match step {
                    0 | 1 => held[who].extend(accounts[who].read(&request(size << 10)).with(1)),
                    2 => drop(held[who].pop()),
                    3 => accounts[who].owned_by(&(size % 2).to_string()),
                    _ => drop(held[who].last().map(|held| held.grow(size << 10))),
                }
                let of = |account: &Arc<Account>| past_base(account.state().held);
                prop_assert_eq!(heads.table().all, accounts.iter().map(of).sum::<usize>());
                prop_assert_eq!(heads.table().all, heads.table().owners.values().sum::<usize>());
                for (account, held) in accounts.iter().zip(&held) {
                    prop_assert_eq!(account.state().held, held.iter().map(|held| held.bytes.load(Ordering::Relaxed)).sum::<usize>());
                }
            }
            held.clear();
            prop_assert!(heads.table().owners.is_empty());
        }
    }
}
