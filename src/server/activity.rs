//! The activity of a connection, seen where its bytes pass: requests, answers, reads and writes.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::{
    answer::Alone,
    answer::LongRunning,
    connections::{CloseReason, Seat},
    heads,
};

/// Bytes that must be written within `--request-timeout` for an answer to go on: answers to pings, which any client can have, are fewer.
const STEP_BYTES: usize = 16 << 10;

/// An answer ends after so many times the limit, however it goes on: what it is made of may be long gone from the cache. (kube-apiserver ends every one after
/// one time.)
const LIMITS_MAX: u32 = 10;

/// How long an answer may take in all, in limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Longest {
    from: Instant,
    limits: u32,
}

impl Longest {
    /// Of an answer that begins now. One that keeps others waiting has its time from when it began to.
    pub(super) fn of(alone: Option<Alone>) -> Self {
        match alone {
            Some(Alone(since)) => Self { from: since, limits: 1 },
            None => Self { from: Instant::now(), limits: LIMITS_MAX },
        }
    }

    /// When it must have ended.
    pub(super) fn until(self, limit: Duration) -> Instant {
        self.from + limit * self.limits
    }
}

/// How long an answer may last. In the extensions of an answer on its way from the service to what is spoken on the connection.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    pub(super) longest: Longest,
    pub(super) long_running: Option<LongRunning>,
}

/// What a connection is doing, as its stream and its requests see it.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Requests whose answer is not written whole.
    open: AtomicUsize,
    /// Those of them that are being answered, watches apart.
    answers: AtomicUsize,
    /// Requests that came so far.
    requests: AtomicU64,
    /// Bytes read so far.
    bytes: AtomicU64,
    /// Moves when answers begin, go on and end.
    steps: AtomicU64,
    /// The whole preface of HTTP/2 came.
    speaks_h2: AtomicBool,
    /// No request comes any more: what the client sends is no head.
    is_last: AtomicBool,
    /// The last write had to wait for the client.
    is_blocked: AtomicBool,
    /// Told when `open` returns to 0.
    emptied: Notify,
    /// Told when an answer begins.
    begun: Notify,
    /// Of an HTTP/1.1 connection, which has one answer at a time.
    times: Times,
    /// What is told of what it breaks, and what counts its heads.
    owners: Option<(Arc<Seat>, Arc<heads::Account>)>,
}

impl Activity {
    /// Returns that of a new connection.
    pub(super) fn of(seat: &Arc<Seat>, heads: &Arc<heads::Account>) -> Arc<Self> {
        Arc::new(Self { owners: Some((seat.clone(), heads.clone())), ..Self::default() })
    }

    /// The whole preface of HTTP/2 came, and was no head.
    pub(super) fn begins_h2(&self) {
        self.speaks_h2.store(true, Ordering::Release);
        self.has_head(0);
    }

    /// Tells the connection to end.
    pub(super) fn leave(&self, reason: CloseReason) {
        if let Some((seat, _)) = &self.owners {
            seat.leave(reason);
        }
    }

    /// So much has come of a head that is not whole. False: there is no room for it, and the connection is to end.
    pub(super) fn has_head(&self, bytes: usize) -> bool {
        let fits = self.owners.as_ref().is_none_or(|(_, heads)| heads.partial(bytes));
        if !fits {
            self.leave(CloseReason::Heads);
        }
        fits
    }

    pub(super) fn speaks_h2(&self) -> bool {
        self.speaks_h2.load(Ordering::Acquire)
    }

    /// Whether the last write had to wait for the client.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked.load(Ordering::Acquire)
    }

    /// Requests whose answer is not written whole.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    pub(super) fn has_open(&self) -> bool {
        self.open() > 0
    }

    /// Requests that came so far.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Acquire)
    }

    /// No request comes any more: another protocol follows, or what is left is dropped.
    pub(super) fn takes_no_more(&self) {
        self.is_last.store(true, Ordering::Release);
    }

    /// Bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Waits until no request is open.
    pub(super) async fn emptied(&self) {
        while self.has_open() {
            self.emptied.notified().await;
        }
    }

    /// Returns when answers stand still: nothing of them was written for this long. Also those that hyper has whole, which no body can tell of. Of an HTTP/2
    /// connection: when its client takes nothing at all; single streams are ended by [`super::streams`].
    pub(super) async fn stalls(&self, limit: Duration) {
        loop {
            while self.answers.load(Ordering::Acquire) == 0 {
                match self.watch_until() {
                    // Nobody polls a watch that is not read, so it cannot end itself.
                    Some(until) => {
                        let is_over = timeout_at(until + limit, self.begun.notified()).await.is_err();
                        if is_over && self.watch_until() == Some(until) {
                            return;
                        }
                    }
                    None => self.begun.notified().await,
                }
            }
            let (seen, until) = (self.steps.load(Ordering::Acquire), Instant::now() + limit);
            while Instant::now() < until {
                let late = self.late_at(limit).map_or(until, |late| late.min(until));
                // Another answer has another time.
                drop(timeout_at(late, self.begun.notified()).await);
                if self.late_at(limit).is_some_and(|late| late <= Instant::now()) {
                    return;
                }
            }
            let stands_still = self.answers.load(Ordering::Acquire) > 0 && self.steps.load(Ordering::Acquire) == seen;
            if stands_still && (!self.speaks_h2() || self.is_blocked()) {
                return;
            }
        }
    }

    /// When the watch of an HTTP/1.1 connection is over.
    fn watch_until(&self) -> Option<Instant> {
        if self.speaks_h2() { None } else { self.times.until() }
    }

    /// When the answer of an HTTP/1.1 connection must have ended.
    fn late_at(&self, limit: Duration) -> Option<Instant> {
        if self.speaks_h2() || self.answers.load(Ordering::Acquire) == 0 { None } else { self.times.late_at(limit) }
    }

    fn step(&self) {
        self.steps.fetch_add(1, Ordering::AcqRel);
    }
}

/// How long the answer under way may take, and when it is over if it is a watch.
#[derive(Debug, Default)]
struct Times(Mutex<(Option<Longest>, Option<Instant>)>);

impl Times {
    /// An answer begins; a watch is over at `until`.
    fn begin(&self, longest: Longest, until: Option<Instant>) {
        *self.0.lock() = (Some(longest), until);
    }

    /// When the watch is over.
    fn until(&self) -> Option<Instant> {
        self.0.lock().1
    }

    /// The watch has ended.
    fn end(&self) {
        self.0.lock().1 = None;
    }

    /// When the answer must have ended.
    fn late_at(&self, limit: Duration) -> Option<Instant> {
        self.0.lock().0.map(|longest| longest.until(limit))
    }
}

/// Counts a request as open until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight {
    activity: Arc<Activity>,
    is_answer: AtomicBool,
}

impl InFlight {
    /// A request came.
    pub(super) fn new(activity: &Arc<Activity>) -> Self {
        activity.open.fetch_add(1, Ordering::AcqRel);
        activity.requests.fetch_add(1, Ordering::AcqRel);
        Self { activity: Arc::clone(activity), is_answer: AtomicBool::new(false) }
    }

    /// It is being answered: from now on it must go on. A watch is over at `until`.
    pub(super) fn answered(self, longest: Longest, until: Option<Instant>) -> Self {
        self.activity.times.begin(longest, until);
        self.is_answer.store(true, Ordering::Release);
        self.activity.answers.fetch_add(1, Ordering::AcqRel);
        self.activity.step();
        self.activity.begun.notify_one();
        self
    }

    /// It is a watch that has shown what was there: it may stand still.
    pub(super) fn rest(&self) {
        if self.is_answer.swap(false, Ordering::AcqRel) {
            self.activity.answers.fetch_sub(1, Ordering::AcqRel);
            self.activity.step();
        }
    }

    /// Whether it must go on. Somebody has asked for more of it: it does.
    pub(super) fn goes_on(&self) -> bool {
        let is_answer = self.is_answer.load(Ordering::Acquire);
        if is_answer {
            self.activity.step();
        }
        is_answer
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.rest();
        self.activity.times.end();
        if self.activity.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.activity.emptied.notify_one();
        }
    }
}

/// A stream whose reads and writes are felt by the activity. When a head that HTTP/1.1 begins with finds no room, it is read no more.
#[derive(Debug)]
pub(super) struct MonitoredIo<IO> {
    io: IO,
    activity: Arc<Activity>,
    /// Bytes written since the last step.
    written: usize,
    /// There is no room for more of a head.
    is_full: bool,
    /// What has come of a head that is not whole, over HTTP/1.1, and after how many requests.
    of_head: (usize, u64),
    /// What of a head is counted.
    counted: usize,
}

impl<IO> MonitoredIo<IO> {
    pub(super) fn new(io: IO, activity: Arc<Activity>) -> Self {
        Self { io, activity, written: 0, is_full: false, of_head: (0, 0), counted: 0 }
    }

    /// Counts what has come of a head that is not whole.
    fn count_head(&mut self, bytes: usize) {
        // The blocks of HTTP/2 are counted where its frames are read.
        if self.activity.is_last.load(Ordering::Acquire) || self.activity.speaks_h2() {
            return;
        }
        let requests = self.activity.requests();
        if requests != self.of_head.1 {
            (self.of_head, self.counted) = ((0, requests), 0);
        }
        // While a request is open, its body comes.
        if !self.activity.has_open() {
            self.of_head.0 += bytes;
        }
        if self.of_head.0 != self.counted {
            self.is_full |= !self.activity.has_head(self.of_head.0);
        }
        self.counted = self.of_head.0;
    }

    fn read(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.activity.bytes.fetch_add(bytes.len() as u64, Ordering::AcqRel);
        self.count_head(bytes.len());
    }

    fn wrote(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => self.activity.is_blocked.store(true, Ordering::Release),
            Poll::Ready(Ok(bytes)) => {
                self.activity.is_blocked.store(false, Ordering::Release);
                self.written += bytes;
                if self.written >= STEP_BYTES {
                    self.written = 0;
                    self.activity.step();
                }
            }
            Poll::Ready(Err(_)) => {}
        }
        written
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for MonitoredIo<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // Its seat has told the connection to end.
        if self.is_full {
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        self.read(&buf.filled()[before..]);
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for MonitoredIo<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.wrote(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::{accounted::AccountedBody, budget::Account};

    const LIMIT: Duration = Duration::from_secs(60);

    /// Of an answer that begins now.
    fn longest() -> Longest {
        Longest::of(None)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_open_until_it_is_written() {
        let activity = Arc::new(Activity::default());
        let mut body = AccountedBody::new(
            Full::new(Bytes::from_static(b"answer")),
            &Account::of_a_test(),
            (None, None),
            InFlight::new(&activity),
            Timing { longest: longest(), long_running: None },
        );
        let data = body.frame().await.expect("one").expect("infallible").into_data().expect("data");
        drop(body);
        let (part, rest) = (data.slice(..3), data.slice(3..));
        drop(data);
        drop(part);
        assert!(activity.has_open(), "a part is not written");
        let began = Instant::now();
        activity.stalls(LIMIT).await;
        assert_eq!(began.elapsed(), LIMIT);
        drop(rest);
        assert!(!activity.has_open());
        assert!(timeout(10 * LIMIT, activity.stalls(LIMIT)).await.is_err(), "there is no answer");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_must_go_on_until_it_has_shown_what_was_there() {
        let activity = Arc::new(Activity::default());
        let (began, may_rest) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let long = LongRunning { until: began + 100 * LIMIT, may_rest: may_rest.clone() };
        let mut body = AccountedBody::new(
            Full::new(Bytes::from_static(b"event")),
            &Account::of_a_test(),
            (None, None),
            InFlight::new(&activity),
            Timing { longest: longest(), long_running: Some(long) },
        );
        activity.stalls(LIMIT).await;
        assert_eq!(began.elapsed(), LIMIT);
        may_rest.store(true, Ordering::Relaxed);
        assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
        activity.stalls(LIMIT).await;
        assert_eq!(began.elapsed(), 101 * LIMIT, "and ends when its time is over");
        drop(body);
        assert!(timeout(1_000 * LIMIT, activity.stalls(LIMIT)).await.is_err(), "there is no answer");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_however_it_goes_on() {
        for is_alone in [false, true] {
            let alone = is_alone.then(|| Alone(Instant::now()));
            // Half of the time of one that is alone goes to making it.
            sleep(LIMIT / 2).await;
            let (longest, lasts) = (Longest::of(alone), if is_alone { LIMIT / 2 } else { LIMITS_MAX * LIMIT });
            let activity = Arc::new(Activity::default());
            let began = Instant::now();
            // An answer has ended while the activity was looked at, and another one begins.
            drop(InFlight::new(&activity).answered(longest, None));
            let _answer = InFlight::new(&activity).answered(longest, None);
            let steps = async {
                loop {
                    sleep(LIMIT / 4).await;
                    activity.step();
                }
            };
            tokio::select! {
                () = activity.stalls(LIMIT) => {}
                () = steps => {}
            }
            assert_eq!(began.elapsed(), lasts);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_http2_connection_ends_when_its_client_takes_nothing() {
        let activity = Arc::new(Activity::default());
        activity.speaks_h2.store(true, Ordering::Release);
        activity.is_blocked.store(true, Ordering::Release);
        let watch = InFlight::new(&activity).answered(longest(), None);
        watch.rest();
        assert!(timeout(10 * LIMIT, activity.stalls(LIMIT)).await.is_err(), "a watch may stand still");
        let answer = InFlight::new(&activity).answered(longest(), None);
        activity.is_blocked.store(false, Ordering::Release);
        assert!(timeout(10 * LIMIT, activity.stalls(LIMIT)).await.is_err(), "it waits for a window, which is for the streams to end");
        activity.is_blocked.store(true, Ordering::Release);
        let began = Instant::now();
        activity.stalls(LIMIT).await;
        assert_eq!(began.elapsed(), LIMIT);
        drop((watch, answer));
    }
}
