//! One stream: its request until that is answered, then its answer.

use std::{
    cell::RefCell,
    convert::Infallible,
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{CONTENT_LENGTH, DATE},
};
use http_body::Body;
use tokio::{task::JoinHandle, time::Instant};

use super::{
    inbox::Inbox,
    ready::{Bell, ReadyQueue},
};
use crate::{
    activity::{Longest, Timing},
    answer::LongRunning,
};

thread_local! {
    /// The second since 1970 that it is, and how headers say it.
    static DATE_NOW: RefCell<(u64, HeaderValue)> = const { RefCell::new((0, HeaderValue::from_static(""))) };
}

/// A stream, from its request on.
#[derive(Debug)]
pub(super) struct Stream<B> {
    bell: Arc<Bell>,
    waker: Waker,
    /// What of its request's body was not taken.
    inbox: Option<Arc<Inbox>>,
    state: State<B>,
    /// Its answer has a head only.
    is_head: bool,
}

/// What a stream is doing.
#[derive(Debug)]
pub(super) enum State<B> {
    /// A task works on its answer.
    Works(Work<B>),
    /// It has one. Boxed: it is taken at once.
    Answered(Box<Response<B>>),
    Answers(Answer<B>),
    /// There will be no answer, or it is written.
    Over,
}

/// A task that ends with its stream.
#[derive(Debug)]
pub(super) struct Work<B>(pub(super) JoinHandle<Result<Response<B>, Infallible>>);

impl<B> Drop for Work<B> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer whose head is written.
#[derive(Debug)]
pub(super) struct Answer<B> {
    body: B,
    /// What of the last frame is not written.
    rest: Bytes,
    /// There is nothing after it.
    is_last: bool,
    /// It goes on when a window has room.
    waits: bool,
    /// It has gone on since it was last looked at.
    has_moved: bool,
    longest: Longest,
    /// Since when it has stood still, as far as was looked.
    still_since: Instant,
    /// Of a watch.
    long: Option<LongRunning>,
}

/// What a stream has to write.
#[derive(Debug)]
pub(super) enum Next {
    Head {
        status: StatusCode,
        headers: HeaderMap,
        is_end: bool,
    },
    /// Some of [`Stream::part`].
    Data,
    Trailers(HeaderMap),
    /// The end, with nothing before it.
    End,
    /// There is no end.
    Failed,
}

impl<B: Body<Data = Bytes> + Unpin> Stream<B>
where
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    pub(super) fn new(stream: u32, marks: &Arc<ReadyQueue>, inbox: Option<Arc<Inbox>>, state: State<B>, is_head: bool) -> Self {
        let bell = Bell::new(marks, stream);
        Self { waker: bell.clone().into(), bell, inbox, state, is_head }
    }

    /// Where the body of its request goes.
    pub(super) fn inbox(&self) -> Option<&Inbox> {
        self.inbox.as_deref()
    }

    /// What it has to write next. Pending: it is marked when it has something, or is told of [room](Self::has_room).
    pub(super) fn poll(&mut self) -> Poll<Next> {
        self.bell.take();
        let mut cx = Context::from_waker(&self.waker);
        loop {
            match &mut self.state {
                State::Works(Work(task)) => match ready!(Pin::new(task).poll(&mut cx)) {
                    Ok(Ok(response)) => self.state = State::Answered(Box::new(response)),
                    Err(_) => {
                        self.state = State::Over;
                        return Poll::Ready(Next::Failed);
                    }
                },
                State::Answered(_) => {
                    let State::Answered(response) = std::mem::replace(&mut self.state, State::Over) else { unreachable!("just seen") };
                    let (head, answer) = answered(*response, self.is_head);
                    self.state = answer.map_or(State::Over, State::Answers);
                    return Poll::Ready(head);
                }
                State::Answers(answer) => return answer.poll(&mut cx),
                State::Over => return Poll::Pending,
            }
        }
    }

    /// Some of what it has to write, as much as there is room for; and whether that is its end. `None`: it has to wait until a window [has
    /// room](Self::has_room).
    pub(super) fn part(&mut self, room: usize) -> Option<(Bytes, bool)> {
        let State::Answers(answer) = &mut self.state else { return None };
        answer.waits = room == 0;
        if answer.waits {
            return None;
        }
        answer.has_moved = true;
        let part = if room >= answer.rest.len() { std::mem::take(&mut answer.rest) } else { answer.rest.split_to(room) };
        Some((part, answer.is_last && answer.rest.is_empty()))
    }

    /// A window has room; whether it has waited for that.
    pub(super) fn has_room(&mut self) -> bool {
        if let State::Answers(answer) = &mut self.state { std::mem::take(&mut answer.waits) } else { false }
    }

    /// Until when it may stand still because it is a watch that has shown what was there.
    pub(super) fn rests_until(&self, limit: Duration) -> Option<Instant> {
        let State::Answers(answer) = &self.state else { return None };
        answer.long.as_ref().filter(|long| long.may_rest()).map(|long| long.until + limit)
    }

    /// Until when it may stand still; `None`: it may as long as it likes, for it has no answer yet. An answer is to go on within the limit, and to end after
    /// some limits. A watch that has shown what was there may stand still until its time is over.
    pub(super) fn patience(&mut self, now: Instant, limit: Duration) -> Option<Instant> {
        if let Some(until) = self.rests_until(limit) {
            return Some(until);
        }
        let State::Answers(answer) = &mut self.state else { return None };
        if std::mem::take(&mut answer.has_moved) {
            answer.still_since = now;
        }
        Some((answer.still_since + limit).min(answer.longest.until(limit)))
    }

    /// Whether its answer takes longer than any may, however it goes on. A watch may when it has shown what was there.
    pub(super) fn is_late(&self, now: Instant, limit: Duration) -> bool {
        let State::Answers(answer) = &self.state else { return false };
        self.rests_until(limit).is_none() && answer.longest.until(limit) <= now
    }
}

impl<B> Drop for Stream<B> {
    fn drop(&mut self) {
        self.inbox.iter().for_each(|inbox| inbox.gone());
    }
}

impl<B: Body<Data = Bytes> + Unpin> Answer<B>
where
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if self.waits {
            return Poll::Pending;
        }
        while self.rest.is_empty() {
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else { return Poll::Ready(Next::End) };
            let data = match frame.map(http_body::Frame::into_data) {
                Ok(Ok(data)) => data,
                Ok(Err(frame)) => return Poll::Ready(frame.into_trailers().map_or(Next::Failed, Next::Trailers)),
                Err(error) => {
                    tracing::debug!(error = error.into(), "an answer has failed");
                    return Poll::Ready(Next::Failed);
                }
            };
            (self.rest, self.is_last) = (data, self.body.is_end_stream());
            if self.rest.is_empty() && self.is_last {
                return Poll::Ready(Next::End);
            }
        }
        Poll::Ready(Next::Data)
    }
}

/// The head of an answer, as hyper makes it, and what comes after it.
fn answered<B: Body<Data = Bytes>>(response: Response<B>, is_head: bool) -> (Next, Option<Answer<B>>) {
    let (mut head, body) = response.into_parts();
    let headers = &mut head.headers;
    if !headers.contains_key(DATE) {
        headers.insert(DATE, date());
    }
    let is_end = is_head || body.is_end_stream();
    if let Some(length) = body.size_hint().exact().filter(|_| !is_end && !headers.contains_key(CONTENT_LENGTH)) {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    let timing = head.extensions.remove::<Timing>();
    let (longest, long) = timing.map_or_else(|| (Longest::of(None), None), |timing| (timing.longest, timing.long_running));
    let (rest, is_last, waits, has_moved, still_since) = (Bytes::new(), false, false, false, Instant::now());
    let answer = Answer { body, rest, is_last, waits, has_moved, longest, still_since, long };
    (Next::Head { status: head.status, headers: head.headers, is_end }, (!is_end).then_some(answer))
}

/// Now, as a header; it is written once a second.
fn date() -> HeaderValue {
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    DATE_NOW.with_borrow_mut(|known| {
        if known.0 != second {
            *known = (second, HeaderValue::from_str(&httpdate::fmt_http_date(now)).expect("a date is text"));
        }
        known.1.clone()
    })
}
