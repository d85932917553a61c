//! The memory that clients make the server hold, counted per connection and for the whole server.
//!
//! A connection may hold [`BASE`] bytes whoever else holds how much, so an honest one always gets on. Past that it may hold an eighth of what the server
//! has left ("dynamic thresholds" of shared switch buffers): one greedy connection gets a ninth of the limit, a thousand of them share it and still leave
//! room for the next one. So the server holds at most its limit and [`BASE`] for each connection.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use prometheus::IntGauge;
use tokio::time::Instant;

use fair::{Turn, Turns};

/// Bytes that a connection may hold beside the limit of the server: what one HTTP/2 stream or HTTP/1.1 connection has in flight at once.
pub const BASE: usize = 128 << 10;

/// A connection gets this part of what is left.
const PART: usize = 8;

/// What all connections hold past [`BASE`].
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// For the one answer of the server that may be larger than what is left.
    beyond: Turns,
    /// Shown in `/metrics`: the same as `used`.
    shown: IntGauge,
}

impl Budget {
    /// A budget of so many bytes, of which nothing is used.
    pub fn new(limit: usize, shown: IntGauge) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0), beyond: Turns::new(1), shown })
    }

    /// The account of a new connection.
    pub fn account(self: &Arc<Self>) -> Arc<Account> {
        Arc::new(Account {
            budget: self.clone(),
            held: AtomicUsize::new(0),
            sending: AtomicUsize::new(0),
            waiting: Mutex::default(),
            has_waiting: AtomicBool::new(false),
        })
    }

    fn left(&self) -> usize {
        self.limit.saturating_sub(self.used.load(Ordering::Relaxed))
    }
}

/// What one connection holds.
#[derive(Debug)]
pub struct Account {
    budget: Arc<Budget>,
    held: AtomicUsize,
    /// Of these, bytes that are on their way to the client; the others are what answers are made of.
    sending: AtomicUsize,
    /// Those that wait for room.
    waiting: Mutex<Waiting>,
    /// Whether any does: nobody else touches the lock.
    has_waiting: AtomicBool,
}

/// Who waits, each by a number of its own: as many as there are answers and requests of the connection.
#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// A place among those who wait for room: it is given up when this is dropped.
#[derive(Debug)]
pub struct Wait {
    account: Arc<Account>,
    number: Option<u64>,
}

impl Wait {
    /// For room of this account.
    pub fn of(account: &Arc<Account>) -> Self {
        Self { account: account.clone(), number: None }
    }

    /// Whether the next frame of an answer may be made. When not, `waker` is woken once there is room. A connection that has little on its way may always
    /// go on, whatever its answers are made of: else it would hold that for ever.
    pub fn poll_frame(&mut self, waker: &Waker) -> Poll<()> {
        let account = self.account.clone();
        self.ready(waker, || (account.sending.load(Ordering::SeqCst) < BASE || account.has_room()).then_some(()))
    }

    /// Whether another answer may be begun. When not, `waker` is woken once there is room.
    pub fn poll_room(&mut self, waker: &Waker) -> Poll<()> {
        let account = self.account.clone();
        self.ready(waker, || account.has_room().then_some(()))
    }

    fn ready<T>(&mut self, waker: &Waker, look: impl Fn() -> Option<T>) -> Poll<T> {
        if let Some(found) = look() {
            self.leave();
            return Poll::Ready(found);
        }
        {
            let mut waiting = self.account.waiting();
            let number = *self.number.get_or_insert_with(|| {
                waiting.next += 1;
                waiting.next
            });
            waiting.wakers.insert(number, waker.clone());
        }
        self.account.has_waiting.store(true, Ordering::SeqCst);
        // What was let go of before the waker was there has woken nobody.
        let found = look();
        if found.is_some() {
            self.leave();
        }
        found.map_or(Poll::Pending, Poll::Ready)
    }

    fn leave(&mut self) {
        if let Some(number) = self.number.take() {
            self.account.waiting().wakers.remove(&number);
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Account {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    /// Bytes that this connection may hold now.
    fn share(&self) -> usize {
        BASE.max(self.budget.left() / PART)
    }

    /// Takes this many bytes if the connection may hold them. One that holds nothing may hold more than its share, for one answer may be larger than that.
    pub fn try_take(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let share = self.share();
        let taken = self.held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |held| {
            (held == 0 || held.saturating_add(bytes) <= share).then(|| held.saturating_add(bytes))
        });
        taken.ok().map(|before| self.hold(before, bytes))
    }

    /// Takes this many bytes when there is room; waits until then. The caller bounds the time. What is larger than all that the server has left is
    /// taken by one connection at a time, until it is let go.
    pub async fn take(self: &Arc<Self>, bytes: usize) -> Reservation {
        let is_beyond = bytes > BASE.max(self.budget.left());
        let beyond = if is_beyond { Some(self.budget.beyond.take().await) } else { None };
        let beyond = beyond.map(|turn| (turn, Instant::now()));
        let mut wait = Wait::of(self);
        let mut hold = poll_fn(|cx| wait.ready(cx.waker(), || self.try_take(bytes))).await;
        hold.beyond = beyond;
        hold
    }

    /// Counts bytes that are held already.
    pub fn add(self: &Arc<Self>, bytes: usize) -> Reservation {
        let before = self.held.fetch_add(bytes, Ordering::AcqRel);
        self.hold(before, bytes)
    }

    /// The same for data on its way to the client, until its last copy is gone: whoever writes it lets go of it then, and of what is to last as long.
    pub(super) fn sending(self: &Arc<Self>, data: Bytes, with: impl Send + 'static) -> Bytes {
        self.sending.fetch_add(data.len(), Ordering::SeqCst);
        Bytes::from_owner(Sending { hold: self.add(data.len()), data, _with: with })
    }

    /// Whether another answer may be begun.
    pub fn has_room(&self) -> bool {
        self.held.load(Ordering::SeqCst) < self.share()
    }

    fn hold(self: &Arc<Self>, before: usize, bytes: usize) -> Reservation {
        self.count(past_base(before), past_base(before + bytes));
        Reservation { account: self.clone(), bytes, beyond: None }
    }

    /// Returns an account with a gibibyte.
    ///
    /// # Panics
    /// Never.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn of_a_test() -> Arc<Self> {
        Budget::new(1 << 30, IntGauge::new("held", "of a test").expect("a name")).account()
    }

    /// Returns the bytes that it holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    fn release(&self, bytes: usize) {
        let before = self.held.fetch_sub(bytes, Ordering::SeqCst);
        let after = before - bytes;
        self.count(past_base(before), past_base(after));
        // Half of what it may have is free: then all who wait are worth their wake. What is held comes down to nothing in the end, so nobody waits for ever.
        let is_enough = || after <= self.share() / 2 || self.sending.load(Ordering::SeqCst) <= BASE / 2;
        if self.has_waiting.load(Ordering::SeqCst) && is_enough() {
            self.has_waiting.store(false, Ordering::SeqCst);
            let wakers = std::mem::take(&mut self.waiting().wakers);
            wakers.into_values().for_each(Waker::wake);
        }
    }

    /// Tells the server what this connection holds past its base.
    fn count(&self, before: usize, after: usize) {
        if after > before {
            self.budget.used.fetch_add(after - before, Ordering::Relaxed);
            self.budget.shown.add((after - before) as i64);
        } else if before > after {
            self.budget.used.fetch_sub(before - after, Ordering::Relaxed);
            self.budget.shown.sub((before - after) as i64);
        }
    }
}

fn past_base(held: usize) -> usize {
    held.saturating_sub(BASE)
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    bytes: usize,
    /// Given back with the bytes; when it was taken.
    beyond: Option<(Turn, Instant)>,
}

impl Reservation {
    /// Since when it has kept others waiting that are larger than what is left, as it is itself.
    pub fn alone_since(&self) -> Option<Instant> {
        self.beyond.as_ref().map(|(_, since)| *since)
    }

    /// It has become this many bytes.
    pub fn resize(&mut self, bytes: usize) {
        if bytes >= self.bytes {
            let before = self.account.held.fetch_add(bytes - self.bytes, Ordering::AcqRel);
            self.account.count(past_base(before), past_base(before + bytes - self.bytes));
        } else {
            self.account.release(self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// Takes so many bytes out, or as many as there are, to be held by somebody else.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Reservation {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Reservation { account: self.account.clone(), bytes, beyond: None }
    }

    /// Returns a hold of nothing.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn of_a_test() -> Self {
        Account::of_a_test().add(0)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.account.release(self.bytes);
    }
}

/// Data on its way.
struct Sending<T> {
    data: Bytes,
    hold: Reservation,
    _with: T,
}

impl<T> AsRef<[u8]> for Sending<T> {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl<T> Drop for Sending<T> {
    fn drop(&mut self) {
        // Before the hold is released, which wakes those who look at it.
        self.hold.account.sending.fetch_sub(self.data.len(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::time::timeout;

    use super::*;

    fn budget(limit: usize) -> Arc<Budget> {
        Budget::new(limit, IntGauge::new("held", "of a test").expect("a name"))
    }

    #[test]
    fn greedy_connections_leave_room_for_others() {
        let budget = budget(1 << 30);
        let mut greedy = Vec::new();
        for _ in 0..1_000 {
            let account = budget.account();
            let mut holds = Vec::new();
            while let Some(hold) = account.try_take(64 << 10) {
                holds.push(hold);
            }
            greedy.push((account, holds));
        }
        assert!(budget.used.load(Ordering::Relaxed) < 1 << 30);
        let first: usize = greedy[0].1.iter().map(|hold| hold.bytes).sum();
        assert!((100 << 20..=128 << 20).contains(&first), "{first}");
        let late = budget.account();
        assert!(late.try_take(64 << 10).is_some_and(|_hold| late.try_take(64 << 10).is_some()), "the base is everybody's");
        drop(greedy);
        assert_eq!((budget.used.load(Ordering::Relaxed), budget.shown.get()), (0, 0));
    }

    #[test]
    fn what_is_larger_than_any_share_is_held_alone() {
        let account = budget(8 * BASE).account();
        let hold = account.try_take(100 * BASE).expect("nothing else is held");
        assert!(account.try_take(1).is_none());
        drop(hold);
        assert!(account.try_take(1).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_larger_than_what_is_left_is_held_by_one_at_a_time() {
        let budget = budget(BASE);
        let (first, second) = (budget.account(), budget.account());
        let second_s = || timeout(Duration::from_secs(1), second.take(2 * BASE));
        let (began, hold) = (Instant::now(), first.take(2 * BASE).await);
        assert!(second_s().await.is_err());
        assert_eq!(hold.alone_since(), Some(began));
        let base = timeout(Duration::from_secs(1), second.take(BASE)).await;
        assert!(base.is_ok_and(|hold| hold.alone_since().is_none()), "the base is everybody's");
        drop(hold);
        assert!(second_s().await.is_ok());
    }

    /// Requests that were given up while they waited left their wakers, and the tasks that these keep, until somebody else was woken.
    #[test]
    fn who_gives_up_leaves_nothing() {
        let account = budget(0).account();
        let held = account.add(2 * BASE);
        let woken = Arc::new(Woken::default());
        let mut wait = Wait::of(&account);
        for _ in 0..3 {
            assert!(wait.poll_room(&woken.clone().into()).is_pending());
        }
        for _ in 0..1_000 {
            assert!(Wait::of(&account).poll_room(Waker::noop()).is_pending());
        }
        assert_eq!(account.waiting().wakers.len(), 1, "it waits once");
        assert!(account.take(1).now_or_never().is_none() && account.waiting().wakers.len() == 1);
        drop(held);
        assert!(woken.0.load(Ordering::Relaxed) && account.waiting().wakers.is_empty());
        assert!(wait.poll_room(Waker::noop()).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_goes_on_when_data_is_let_go() {
        let account = budget(0).account();
        let data = account.sending(Bytes::from(vec![7; BASE]), ());
        let copy = data.slice(10..20);
        assert!(timeout(Duration::from_secs(1), account.take(1)).await.is_err());
        assert!(Wait::of(&account).poll_frame(Waker::noop()).is_pending());
        drop(data);
        assert!(timeout(Duration::from_secs(1), account.take(1)).await.is_err(), "a copy is left");
        let waiting = tokio::spawn({
            let account = account.clone();
            async move { account.take(BASE).await.bytes }
        });
        tokio::task::yield_now().await;
        drop(copy);
        assert_eq!(waiting.await.expect("no panic"), BASE);
        assert!(Wait::of(&account).poll_room(Waker::noop()).is_ready());
    }

    /// The server has nothing left: a list goes on all the same, a frame at a time, and no other begins.
    #[test]
    fn what_an_answer_is_made_of_does_not_keep_it_from_being_sent() {
        let account = budget(0).account();
        let list = account.add(20 * BASE);
        let mut wait = Wait::of(&account);
        assert!(wait.poll_frame(Waker::noop()).is_ready() && wait.poll_room(Waker::noop()).is_pending());
        let frame = account.sending(Bytes::from(vec![7; BASE]), ());
        let woken = Arc::new(Woken::default());
        assert!(wait.poll_frame(&woken.clone().into()).is_pending());
        drop(frame);
        assert!(woken.0.load(Ordering::Relaxed), "the next frame is made");
        drop(list);
        assert!(account.has_room());
    }

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_hold_may_become_smaller_and_larger() {
        let budget = budget(1 << 20);
        let account = budget.account();
        let mut hold = account.add(3 * BASE);
        hold.resize(BASE + 5);
        assert_eq!((account.held.load(Ordering::Relaxed), budget.shown.get()), (BASE + 5, 5));
        hold.resize(2 * BASE);
        assert_eq!(budget.shown.get(), BASE as i64);
        let part = hold.split(BASE);
        assert_eq!((hold.bytes, part.bytes, hold.split(2 * BASE).bytes, budget.shown.get()), (BASE, BASE, BASE, BASE as i64));
        drop(part);
        assert_eq!(account.held(), 0);
        drop(hold);
        assert_eq!((account.held.load(Ordering::Relaxed), budget.shown.get()), (0, 0));
    }
}
