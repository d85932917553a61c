//! The body of a watch, event by event, and how large a list may be that is made at once.

use std::{
    cell::Cell,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame};
use server::{LongRunning, heads::Held, websocket};
use tokio::time::{Instant, Sleep};

use super::{authorize::Rights, expired_watches::Lateness, inflight::OpenWatch, open_watches::Listed, status::Status};
use auth::access::{Permission, Refused, about};
use cache::dispatch::{Step, Subscription};
use codec::{Encoder, Unencodable, append};
use model::Revision;
use registry::Resource;
use storage::read::{failure::ReadError, serve::List};
use telemetry::{RequestTimer, Scope};

/// Looks at what is pending when a watch's time is over: at the snapshot, at its bookmark, at the ring and at the log.
const LAST_STEPS: usize = 4;

/// Bytes joined into one frame: what is pending for a watcher goes out in one write, and a list flows in pieces of this size.
pub(super) const FRAME_BYTES: usize = 128 << 10;

/// Events that a thread keeps room for between two watches.
const ROOM_MAX: usize = 1 << 10;

/// A bookmark is due this often (spec list-watch §4.5).
pub(super) const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// The last bookmark goes out this long before the deadline (spec list-watch §4.5: 3.0–0.75 s).
pub(super) const LAST_BOOKMARK_BEFORE: Duration = Duration::from_secs(2);

/// A plain bookmark follows the annotated one after this time, if the revision has advanced (spec list-watch §4.5: ≈ 1.3 s).
pub(super) const BOOKMARK_AFTER_ANNOTATED: Duration = Duration::from_millis(1_100);

/// Whether a list is about as large as one frame at most: then it is sent with its length, and made at once.
#[must_use]
pub(super) fn is_small(list: &List) -> bool {
    let mut bytes = 0;
    list.objects.iter().all(|object| {
        bytes += object.tail_len() + 64;
        bytes < FRAME_BYTES
    })
}

/// A watch's body.
pub(super) struct WatchBody {
    /// Among the open ones; first, for it names a seat that the source has.
    listed: Option<Listed>,
    source: WatchSource,
    resource: Arc<Resource>,
    form: Arc<Encoder>,
    /// Whether an event has been written.
    begun: bool,
    /// Whether the history had what it needs when it began: if it ends for want of history later, it was too slow.
    found: bool,
    /// See [`WatchTimes::mute`].
    mute: bool,
    deadline: Instant,
    bookmarks: Bookmarks,
    alarm: Pin<Box<Sleep>>,
    timer: RequestTimer,
    /// When the request came and what it spans, until the annotated bookmark is written: `apiserver_watch_list_duration_seconds`.
    watch_list: Option<(Instant, Scope)>,
    /// Whether what was there at the beginning is shown.
    may_rest: Arc<AtomicBool>,
    /// Its right to go on; none where nobody can take it away.
    permission: Option<Permission>,
    /// Whether the deadline is when what proves who asks counts no more.
    expires: bool,
    /// What counts its user.
    _kept: Option<Held>,
    /// What counts it among the open watches.
    _open: Option<OpenWatch>,
}

/// Events to send.
#[derive(Default)]
struct Pending {
    events: Vec<Bytes>,
    /// Of which they are the parts, if they are initial ones.
    whole: Option<Bytes>,
}

thread_local! {
    /// Room for the events of whatever watch is polled on this thread: a watch has none while nothing is pending.
    static ROOM: Cell<Vec<Bytes>> = const { Cell::new(Vec::new()) };
}

enum WatchSource {
    Stream(Box<Subscription>),
    Failed(ReadError),
    Over,
}

/// When the next plain bookmark is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bookmarks {
    /// The client did not ask, or the last one is out.
    None,
    /// After the annotated one has been written.
    AfterAnnotated,
    /// At this time.
    At(Instant),
}

/// How a watch runs.
pub(super) struct WatchTimes {
    /// When the request came.
    pub(super) began: Instant,
    /// How long the stream may last from then on.
    pub(super) length: Duration,
    /// Whether the client wants bookmarks.
    pub(super) bookmarks: bool,
    /// Whether an annotated one ends the initial events.
    pub(super) annotated: bool,
    /// What the request spans.
    pub(super) scope: Scope,
    /// How it is written.
    pub(super) form: Arc<Encoder>,
    /// Whether nothing but a failure can be shown: the client asked for each object as a list. kube-apiserver ends such a stream at its first event.
    pub(super) mute: bool,
}

impl WatchBody {
    /// A stream of a subscription.
    #[must_use]
    pub(super) fn stream(subscription: Box<Subscription>, resource: Arc<Resource>, times: &WatchTimes, timer: RequestTimer) -> Self {
        Self::new(WatchSource::Stream(subscription), resource, times, timer)
    }

    /// One ERROR event, then the end.
    #[must_use]
    pub(super) fn failed(error: ReadError, resource: Arc<Resource>, times: &WatchTimes, timer: RequestTimer) -> Self {
        Self::new(WatchSource::Failed(error), resource, times, timer)
    }

    fn new(source: WatchSource, resource: Arc<Resource>, times: &WatchTimes, mut timer: RequestTimer) -> Self {
        timer.set_code(200);
        let deadline = times.began + times.length;
        let bookmarks = match (times.bookmarks, times.annotated) {
            (false, _) => Bookmarks::None,
            (true, true) => Bookmarks::AfterAnnotated,
            (true, false) => next_bookmark(times.began, BOOKMARK_EVERY, deadline),
        };
        let mut body = Self {
            listed: None,
            source,
            resource,
            form: times.form.clone(),
            begun: false,
            found: false,
            mute: times.mute,
            deadline,
            bookmarks,
            alarm: Box::pin(tokio::time::sleep_until(deadline)),
            timer,
            watch_list: times.annotated.then_some((times.began, times.scope)),
            may_rest: Arc::default(),
            permission: None,
            expires: false,
            _kept: None,
            _open: None,
        };
        body.set_alarm();
        body
    }

    /// The same, which people can see among the open ones.
    #[must_use]
    pub(super) fn listed(mut self, listed: Listed) -> Self {
        self.listed = Some(listed);
        self
    }

    /// The same, which ends when these rights do.
    #[must_use]
    pub(super) fn with_rights(mut self, rights: Rights) -> Self {
        (self.permission, self._kept, self._open) = (rights.permission, rights.kept, rights.open);
        if let Some(expires) = rights.expires.filter(|expires| *expires < self.deadline) {
            self.deadline = expires;
            self.expires = true;
            self.set_alarm();
        }
        self
    }

    /// How long it lasts, and from when on it may stand still.
    pub(super) fn long_running(&self) -> LongRunning {
        LongRunning { until: self.deadline, may_rest: self.may_rest.clone() }
    }

    fn set_alarm(&mut self) {
        let at = match self.bookmarks {
            Bookmarks::At(at) => at.min(self.deadline),
            Bookmarks::None | Bookmarks::AfterAnnotated => self.deadline,
        };
        if self.alarm.deadline() != at {
            self.alarm.as_mut().reset(at);
        }
    }

    /// Joins what is pending into one frame. A single event is passed on as it is shared.
    fn frame(&mut self, pending: &mut Pending) -> Frame<Bytes> {
        let requests = &self.resource.requests;
        let Pending { events, whole } = pending;
        requests.watch_events.inc_by(events.len() as u64);
        events.iter().for_each(|event| requests.watch_events_sizes.observe(event.len() as f64));
        let bytes = if events.len() == 1 {
            events.pop().expect("one is there")
        } else if let Some(whole) = whole.take().filter(|whole| are_all_of(whole, events)) {
            whole
        } else {
            let mut joined = Vec::with_capacity(events.iter().map(Bytes::len).sum());
            events.iter().for_each(|event| append(event, &mut joined));
            joined.into()
        };
        self.timer.add_bytes(bytes.len());
        self.listed.iter().for_each(|listed| listed.sent(bytes.len()));
        Frame::data(bytes)
    }

    /// Whether what is pending may be sent.
    fn send(&mut self, pending: &mut Pending) -> Poll<bool> {
        if self.mute {
            self.source = WatchSource::Over;
            pending.events.clear();
        }
        self.tell_columns(pending);
        Poll::Ready(!self.mute)
    }

    fn fail(&mut self, error: ReadError, pending: &mut Pending) -> Poll<bool> {
        self.end_with(&Status::from(error), pending)
    }

    /// A last event that says why there are no more.
    fn end_with(&mut self, status: &Status, pending: &mut Pending) -> Poll<bool> {
        match self.form.error(&status.to_json()) {
            Ok(frame) => {
                self.source = WatchSource::Over;
                pending.events.push(frame);
                self.tell_columns(pending);
                Poll::Ready(true)
            }
            Err(why) => self.cut(&why, pending),
        }
    }

    /// What cannot be encoded ends the stream cleanly, after what came before it: kube-apiserver tells its log, and not the client.
    fn cut(&mut self, why: &Unencodable, pending: &mut Pending) -> Poll<bool> {
        self.resource.encoders.log_unencodable(why);
        self.end(pending)
    }

    /// The end, after what is pending.
    fn end(&mut self, pending: &mut Pending) -> Poll<bool> {
        self.source = WatchSource::Over;
        if pending.events.is_empty() { Poll::Ready(false) } else { self.send(pending) }
    }

    fn expire(&mut self, seen: Revision, floor: Revision, pending: &mut Pending) -> Poll<bool> {
        self.listed.iter().for_each(|listed| listed.expired(Lateness { seen, floor, was_open: self.found }));
        self.fail(ReadError::WatchExpired { asked: seen, floor }, pending)
    }

    /// A Table's columns are in the first event of a stream only; the frames, which are shared, have none.
    fn tell_columns(&mut self, pending: &mut Pending) {
        if let Some(first) = pending.events.first_mut().filter(|_| !self.begun) {
            *first = self.form.first_event(first);
            self.begun = true;
        }
    }

    /// Something was written: was it the end of the initial events?
    fn wrote(&mut self, initial_over: bool) {
        if !initial_over || (self.watch_list.is_none() && self.bookmarks != Bookmarks::AfterAnnotated) {
            return;
        }
        let now = Instant::now();
        if let Some((began, scope)) = self.watch_list.take() {
            self.resource.requests.watch_list_duration(scope).observe((now - began).as_secs_f64());
        }
        if self.bookmarks == Bookmarks::AfterAnnotated {
            // However short the watch: kube-apiserver sends this one also when there is no time for the last one before the deadline.
            self.bookmarks = Bookmarks::At(now + BOOKMARK_AFTER_ANNOTATED);
            self.set_alarm();
        }
    }

    /// The time is over: a last frame of what is pending, however late this is called. So a server that had no time for a short watch until now shows
    /// what was there all the while; kube-apiserver leaves that to chance.
    fn last(&mut self, pending: &mut Pending) -> Poll<bool> {
        let WatchSource::Stream(mut subscription) = std::mem::replace(&mut self.source, WatchSource::Over) else {
            return Poll::Ready(false);
        };
        for _ in 0..LAST_STEPS {
            let step = subscription.step(FRAME_BYTES, &mut pending.events, Waker::noop());
            count_looks(&self.resource, &mut subscription);
            self.found |= !matches!(step, Step::Expired { .. });
            match step {
                Step::Expired { seen, floor } => return self.expire(seen, floor, pending),
                Step::Unencodable(why) => return self.cut(&why, pending),
                Step::More if pending.events.iter().map(Bytes::len).sum::<usize>() < FRAME_BYTES => {}
                Step::More | Step::Pending | Step::Waiting | Step::Ended => break,
            }
        }
        self.wrote(subscription.is_past_initial());
        self.end(pending)
    }

    /// Waits for events; they are pending then. `false` at the end of the stream.
    fn poll_pending(&mut self, pending: &mut Pending, cx: &mut Context<'_>) -> Poll<bool> {
        let mut polled = if self.is_cut() { self.last(pending) } else { self.poll_events(pending, cx) };
        // Looked at again now that its waker is registered.
        if polled.is_pending() && self.is_cut() {
            polled = self.last(pending);
        }
        if let (Some(listed), WatchSource::Stream(subscription)) = (&self.listed, &self.source) {
            listed.moved(subscription, pending.events.len());
        }
        polled
    }

    /// Whether somebody has ended it.
    fn is_cut(&self) -> bool {
        self.listed.as_ref().is_some_and(Listed::is_cut)
    }

    fn poll_events(&mut self, pending: &mut Pending, cx: &mut Context<'_>) -> Poll<bool> {
        let this = self;
        let refused = this.permission.as_ref().and_then(|permission| permission.poll_refused(cx));
        let refused = refused.map(|(opened, why)| match why {
            Refused::Forbidden(reason) => Some(Status::access_denied(&opened.info.attributes(&opened.user), reason)),
            Refused::NotActing(question, reason) => {
                let asker = opened.impersonator.as_ref().map_or(&opened.user, |impersonator| &impersonator.user);
                Some(Status::access_denied(&about(&opened.info, asker, question), reason))
            }
            Refused::Unauthorized => Some(Status::unauthorized()),
            Refused::Moved => None,
        });
        match (refused, matches!(this.source, WatchSource::Over)) {
            (Some(Some(status)), false) => return this.end_with(&status, pending),
            // As if its time were over.
            (Some(None), false) => return this.last(pending),
            _ => {}
        }
        let subscription = match &mut this.source {
            WatchSource::Stream(subscription) => subscription,
            WatchSource::Over => return Poll::Ready(false),
            WatchSource::Failed(_) => {
                let WatchSource::Failed(error) = std::mem::replace(&mut this.source, WatchSource::Over) else { unreachable!("just seen") };
                return this.fail(error, pending);
            }
        };
        let mut due = false;
        if this.alarm.as_mut().poll(cx).is_ready() {
            if Instant::now() >= this.deadline {
                if this.expires {
                    return this.end_with(&Status::unauthorized(), pending);
                }
                return this.last(pending);
            }
            due = true;
        }
        // The revision first, the log after: what the bookmark says was sent, was sent (guarantee Bookmarkable).
        let candidate = if due { subscription.bookmark_candidate() } else { None };
        let step = subscription.step(FRAME_BYTES, &mut pending.events, cx.waker());
        pending.whole = subscription.take_whole();
        count_looks(&this.resource, subscription);
        this.found |= !matches!(step, Step::Expired { .. });
        let initial_over = subscription.is_past_initial();
        if initial_over {
            this.may_rest.store(true, Ordering::Relaxed);
        }
        match step {
            Step::More if pending.events.is_empty() => {
                // Much was looked at and nothing matched: let others run.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Step::More => {
                this.wrote(initial_over);
                this.send(pending)
            }
            Step::Pending => {
                if due {
                    let send = candidate.filter(|revision| subscription.bookmark(*revision));
                    this.bookmarks = next_bookmark(Instant::now(), BOOKMARK_EVERY, this.deadline);
                    this.set_alarm();
                    match send.map(|revision| this.form.bookmark(revision, false)) {
                        Some(Ok(bookmark)) => {
                            pending.events.push(bookmark);
                            return this.send(pending);
                        }
                        Some(Err(why)) => return this.cut(&why, pending),
                        None => {}
                    }
                    // The alarm was set anew and must know our waker.
                    cx.waker().wake_by_ref();
                }
                this.wrote(initial_over);
                Poll::Pending
            }
            Step::Waiting => Poll::Pending,
            Step::Ended => this.end(pending),
            Step::Expired { seen, floor } => this.expire(seen, floor, pending),
            Step::Unencodable(why) => this.cut(&why, pending),
        }
    }
}

/// Counts the objects and events that were looked at. A watch that is live looks at none, and all threads count in the same place.
fn count_looks(resource: &Resource, subscription: &mut Subscription) {
    let looked_at = subscription.take_processed();
    if looked_at > 0 {
        resource.metrics.init_events.inc_by(looked_at);
    }
}

/// Whether these parts are all of it: no other event is between them, and none was written anew.
fn are_all_of(whole: &Bytes, parts: &[Bytes]) -> bool {
    let end = parts.iter().try_fold(whole.as_ptr(), |at, part| (part.as_ptr() == at).then(|| part.as_ptr_range().end));
    end == Some(whole.as_ptr_range().end)
}

/// The next due time: after `pause`, or shortly before the deadline if that is earlier; none once that is past.
fn next_bookmark(now: Instant, pause: Duration, deadline: Instant) -> Bookmarks {
    let last = deadline.checked_sub(LAST_BOOKMARK_BEFORE).filter(|last| *last > now);
    last.map_or(Bookmarks::None, |last| Bookmarks::At(last.min(now + pause)))
}

impl Body for WatchBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut pending = Pending { events: ROOM.take(), whole: None };
        let polled = self.poll_pending(&mut pending, cx).map(|more| more.then(|| Ok(self.frame(&mut pending))));
        debug_assert!(polled.is_ready() || pending.events.is_empty(), "what is pending is sent");
        pending.events.clear();
        if pending.events.capacity() <= ROOM_MAX {
            ROOM.set(pending.events);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.source, WatchSource::Over)
    }
}

/// A watch's events one by one, for a stream with frames of its own. As in kube-apiserver, which loses sight of such a connection, it counts neither in
/// `apiserver_watch_events_*` (spec list-watch §4.10) nor in `apiserver_watch_list_duration_seconds`, and as a request under code 0.
pub(super) struct Events(WatchBody);

impl Events {
    /// Those of this watch.
    #[must_use]
    pub(super) fn new(mut body: WatchBody) -> Self {
        body.watch_list = None;
        body.timer.set_code(0);
        Self(body)
    }
}

impl websocket::Events for Events {
    fn deadline(&self) -> Instant {
        self.0.deadline
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<Bytes>>> {
        let mut pending = Pending::default();
        let is_more = ready!(self.0.poll_pending(&mut pending, cx));
        self.0.listed.iter().for_each(|listed| listed.sent(pending.events.iter().map(Bytes::len).sum()));
        Poll::Ready(is_more.then_some(pending.events))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::time::timeout;

    use super::*;
    use cache::dispatch::{test_subscription, test_subscription_of, test_unencodable};
    use model::{Kind, test_object};
    use registry::test_resource;
    use telemetry::Verb;

    /// The frames of a watch whose time was over before anybody had looked at it, as text.
    async fn frames_of_a_late_watch(objects: usize, annotated: bool) -> Vec<String> {
        let resource = Arc::new(test_resource("", "configmaps"));
        let (scope, form) = (Scope::Namespace, resource.encoders.whole().encoder.clone());
        let times = WatchTimes { began: Instant::now(), length: Duration::ZERO, bookmarks: annotated, annotated, scope, form, mute: false };
        let timer = resource.requests.request(Verb::Watch, scope);
        let subscription = Box::new(test_subscription(objects, annotated));
        let mut body = WatchBody::stream(subscription, resource, &times, timer);
        tokio::time::advance(Duration::from_secs(1)).await;
        let mut frames = Vec::new();
        while let Some(Ok(frame)) = BodyExt::frame(&mut body).await {
            frames.push(String::from_utf8_lossy(&frame.into_data().expect("data")).into_owned());
        }
        frames
    }

    #[test]
    fn parts_are_all_of_it_or_joined() {
        let whole = Bytes::from_static(b"abc");
        let parts = |ranges: &[(usize, usize)]| ranges.iter().map(|(start, end)| whole.slice(*start..*end)).collect::<Vec<_>>();
        assert!(are_all_of(&whole, &parts(&[(0, 1), (1, 3)])) && are_all_of(&whole, &parts(&[(0, 3)])));
        assert!(!are_all_of(&whole, &parts(&[(0, 1), (1, 2)])) && !are_all_of(&whole, &parts(&[(1, 3)])) && !are_all_of(&whole, &[]));
        let others = [vec![Bytes::from(b"a".to_vec())], parts(&[(1, 3)])].concat();
        assert!(!are_all_of(&whole, &others), "the first was written anew");
        let more = [parts(&[(0, 1), (1, 3)]), vec![Bytes::from_static(b"d")]].concat();
        assert!(!are_all_of(&whole, &more), "one more follows");
    }

    /// The client is told nothing, as kube-apiserver tells it nothing.
    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_encoded_ends_the_stream_cleanly() {
        let resource = Arc::new(test_resource("", "configmaps"));
        let form = resource.encoders.whole().encoder.in_protobuf("v1", "ConfigMap", "ConfigMapList", true).expect("protobuf knows it");
        let (scope, began, length) = (Scope::Namespace, Instant::now(), Duration::from_secs(9));
        let times = WatchTimes { began, length, bookmarks: true, annotated: true, scope, form: Arc::new(form.clone()), mute: false };
        let first = test_object("a", 2);
        let told = form.event(Kind::Added, &first, first.revision).expect("a ConfigMap");
        let objects = vec![first, test_unencodable("b", 3), test_object("c", 4)];
        let subscription = Box::new(test_subscription_of(objects, form, true));
        let body = WatchBody::stream(subscription, resource.clone(), &times, resource.requests.request(Verb::Watch, scope));
        assert_eq!(BodyExt::collect(body).await.expect("infallible").to_bytes(), told);
        assert_eq!(began, Instant::now(), "at once");
    }

    /// A machine stood still for a second, and a watch of one second showed nothing of what was there all the while.
    #[tokio::test(start_paused = true)]
    async fn what_was_there_is_shown_although_the_time_is_over() {
        assert_eq!(frames_of_a_late_watch(0, false).await, [""; 0]);
        let frames = frames_of_a_late_watch(2, true).await;
        let kinds: Vec<&str> = frames.concat().lines().map(|line| if line.contains("BOOKMARK") { "BOOKMARK" } else { "ADDED" }).collect();
        assert_eq!((frames.len(), &kinds[..]), (1, &["ADDED", "ADDED", "BOOKMARK"][..]), "{frames:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_rests_is_woken_when_its_time_is_over() {
        let resource = Arc::new(test_resource("", "configmaps"));
        let (scope, form, began) = (Scope::Namespace, resource.encoders.whole().encoder.clone(), Instant::now());
        let length = 2 * BOOKMARK_EVERY;
        let times = WatchTimes { began, length, bookmarks: true, annotated: true, scope, form, mute: false };
        let timer = resource.requests.request(Verb::Watch, scope);
        let body = WatchBody::stream(Box::new(test_subscription(2, true)), resource, &times, timer);
        let bytes = timeout(2 * length, BodyExt::collect(body)).await.expect("it ends").expect("infallible").to_bytes();
        assert_eq!((began.elapsed(), bytes.iter().filter(|byte| **byte == b'\n').count()), (length, 3), "two objects and one bookmark");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_whose_time_is_over_shows_one_frame_at_most() {
        let frames = frames_of_a_late_watch(5_000, false).await;
        let bytes = frames.concat().len();
        assert!(frames.len() == 1 && (FRAME_BYTES..2 * FRAME_BYTES).contains(&bytes), "{} of {bytes} bytes", frames.len());
    }
}
