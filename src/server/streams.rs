//! An HTTP/2 connection: between its bytes and the service, its streams ([`http2::Server`] has the frames).
//!
//! A request runs as a task of its own until it is answered, if it has to wait. The body of its answer is polled here, in the connection's task, when it was
//! marked; what all streams have in a turn goes out in one write (decision 0030).

mod answer;
mod inbox;
mod output;
mod ready;

use std::{
    cell::Cell,
    collections::VecDeque,
    convert::Infallible,
    error::Error,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use append::append;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Body;
use http2::{Code, Event, Fault, Limits, Server};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::unconstrained,
    time::{Instant, Sleep, sleep_until},
};

use super::{activity::Activity, budget::Account, connections::CloseReason, request_body::RequestBody, rewind::Rewind};
use answer::{Next, State, Stream, Work};
use inbox::Inbox;
pub(crate) use inbox::StreamBody;
use output::Output;
use ready::ReadyQueue;
use telemetry::contained;

/// How long a turn may take; others have theirs then.
pub(super) const TURN_MAX: Duration = Duration::from_millis(1);

/// Streams that are polled between two looks at the clock.
const STREAMS_BETWEEN: usize = 8;

/// Events of what was read that are handled between two looks at the clock.
const EVENTS_BETWEEN: usize = 8;

/// What is read at a time, bytes: a TLS record. The room for it is the thread's.
const READ_BYTES: usize = 16 << 10;

/// Reads in a turn.
const READS_AT_ONCE: usize = 8;

/// A peer that says nothing and answers no PING is gone: asked every 30 s, as kube-apiserver does, while a stream is open.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Requests that a client may have left behind, which end soon but not at once, for each one that it may have at a time.
const LEFT_BEHIND: usize = 1;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Why a connection has ended.
type Failure = Box<dyn Error + Send + Sync>;

/// One connection.
pub(super) struct Streams<IO, S, B> {
    io: Rewind<IO>,
    service: S,
    activity: Arc<Activity>,
    server: Server<Stream<B>>,
    marks: Arc<ReadyQueue>,
    output: Output,
    /// Streams that are to be polled, in the order of their marks; few that have ended.
    due: VecDeque<u32>,
    /// Streams that wait for room in the windows, in the order in which they began to; none that has ended.
    waiting: VecDeque<u32>,
    /// Those that a client may have at once.
    streams_max: usize,
    /// How long an answer may stand still.
    limit: Duration,
    /// Bytes that the client has sent.
    heard: u64,
    /// What has come of a block of headers that is not whole.
    unfinished: usize,
    /// It is read no more: the connection was told to end.
    is_deaf: bool,
    born: Instant,
    /// When to look whether answers go on and the client is there; none while there are no streams.
    alarm: Option<Alarm>,
    /// The last bytes are in the output, and then it is over.
    ending: Option<Result<(), Fault>>,
}

struct Alarm {
    sleep: Pin<Box<Sleep>>,
    /// It wakes the connection.
    is_set: bool,
    /// When the client was last seen to have said something, and how many bytes of it had come by then.
    heard: (Instant, u64),
    /// When it was asked whether it is there.
    asked: Option<Instant>,
}

/// Whether the client has said more than was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    All,
    /// Others have their turn first, or the client has to read.
    More,
    /// It says nothing more.
    End,
}

impl<IO, S, Fut, B> Streams<IO, S, B>
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: Fn(Request<RequestBody>) -> Fut,
    Fut: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Failure>,
{
    /// A connection whose preface has come. Its requests are answered by `service`; an answer ends that stands still for so long.
    pub(super) fn new(
        io: Rewind<IO>,
        activity: &Arc<Activity>,
        account: &Arc<Account>,
        limits: Limits,
        limit: Duration,
        service: S,
    ) -> Self {
        let mut output = Output::new(account);
        let server = Server::new(limits, output.bytes());
        let (activity, streams_max) = (activity.clone(), limits.streams_max as usize);
        let (marks, due, waiting, alarm, ending) = (Arc::default(), VecDeque::new(), VecDeque::new(), None, None);
        let (heard, unfinished, is_deaf, born) = (0, 0, false, Instant::now());
        Self {
            io,
            service,
            activity,
            server,
            marks,
            output,
            due,
            waiting,
            streams_max,
            limit,
            heard,
            unfinished,
            is_deaf,
            born,
            alarm,
            ending,
        }
    }

    /// Takes no more requests. What is being answered goes on.
    pub(super) fn goodbye(&mut self) {
        self.server.goodbye(self.output.bytes());
    }

    /// Whether something waits for the client.
    pub(super) fn has_unwritten(&self) -> bool {
        !self.output.is_empty()
    }

    /// Runs until there is nothing to do, or others are to have their turn.
    ///
    /// # Errors
    /// The client is gone, or has broken a rule.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let began = Instant::now();
        let (server, output, due) = (&mut self.server, &mut self.output, &mut self.due);
        self.marks.collect(cx.waker(), |stream| due.push_back(stream), |(stream, bytes)| server.taken(stream, bytes, output.bytes()));
        let hears = self.ending.is_none() && !self.is_deaf;
        let heard = if hears { self.hear(began, cx)? } else { Heard::All };
        if heard == Heard::End {
            return Poll::Ready(Ok(()));
        }
        self.look_at_the_time(began, cx)?;
        loop {
            let is_whole = self.ending.is_some() || self.poll_due(began);
            if self.output.poll_written(&mut self.io, cx)?.is_pending() {
                self.set_alarm();
                self.look_at_the_time(began, cx)?;
                if heard == Heard::More && !self.output.is_too_much() {
                    cx.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
            if is_whole || began.elapsed() >= TURN_MAX {
                if !is_whole || heard == Heard::More {
                    cx.waker().wake_by_ref();
                }
                break;
            }
        }
        if self.ending.is_none() && self.server.is_over() {
            self.ending = Some(Ok(()));
        }
        let Some(ending) = self.ending else { return Poll::Pending };
        Pin::new(&mut self.io).poll_shutdown(cx).map(|shut| ending.map_err(Into::into).and(shut.map_err(Into::into)))
    }

    /// Takes what the client has sent.
    fn hear(&mut self, began: Instant, cx: &mut Context<'_>) -> Result<Heard, Failure> {
        let mut room = SPARE.take();
        room.resize(READ_BYTES, 0);
        self.server.wrote(self.output.take_written());
        let heard = self.hear_with(&mut room, began, cx);
        SPARE.set(room);
        heard
    }

    fn hear_with(&mut self, room: &mut [u8], began: Instant, cx: &mut Context<'_>) -> Result<Heard, Failure> {
        for _ in 0..READS_AT_ONCE {
            if self.output.is_too_much() || began.elapsed() >= TURN_MAX {
                break;
            }
            let mut read = ReadBuf::new(room);
            if Pin::new(&mut self.io).poll_read(cx, &mut read)?.is_pending() {
                return Ok(Heard::All);
            }
            let mut bytes = read.filled();
            self.heard += bytes.len() as u64;
            if bytes.is_empty() {
                return Ok(Heard::End);
            }
            for happened in 1.. {
                // What was read is worth much time to a client that begins and ends streams.
                if happened % EVENTS_BETWEEN == 0 && began.elapsed() >= TURN_MAX {
                    self.heard -= bytes.len() as u64;
                    self.io.unread(bytes);
                    return Ok(Heard::More);
                }
                let event = self.server.next(&mut bytes, began.duration_since(self.born), self.output.bytes());
                let event = event.and_then(|event| event.map(|event| self.happened(event, began)).transpose());
                match event {
                    Ok(Some(())) => {}
                    Ok(None) => break,
                    // The connection ends as any other does: a client of good will may come again at once.
                    Err(Fault::FLOOD) => {
                        self.activity.leave(CloseReason::Flood);
                        self.is_deaf = true;
                        return Ok(Heard::All);
                    }
                    Err(fault) => {
                        self.server.fail(fault, self.output.bytes());
                        self.ending = Some(Err(fault));
                        return Ok(Heard::All);
                    }
                }
            }
            let unfinished = self.server.unfinished();
            let is_new = std::mem::replace(&mut self.unfinished, unfinished) != unfinished;
            if is_new && !self.activity.has_head(unfinished) {
                self.is_deaf = true;
                return Ok(Heard::All);
            }
        }
        Ok(Heard::More)
    }

    fn happened(&mut self, event: Event<Stream<B>>, began: Instant) -> Result<(), Fault> {
        match event {
            Event::Request { stream, request, is_end } => self.begin(stream, request, is_end, began)?,
            Event::Data { stream, data, is_end } => {
                let inbox = self.server.get(stream).and_then(|own| own.inbox());
                if !inbox.is_some_and(|inbox| inbox.push(&data, is_end)) {
                    self.server.taken(stream, data.len(), self.output.bytes());
                }
            }
            Event::Trailers { stream, trailers } => {
                if let Some(inbox) = self.server.get(stream).and_then(|own| own.inbox()) {
                    inbox.finish(trailers);
                }
            }
            Event::Gone { stream, own } => {
                tracing::debug!(stream, "a client has cancelled a stream, or broken it");
                self.waiting.retain(|waiting| *waiting != stream);
                self.due.retain(|due| *due != stream);
                let_go(own);
            }
            Event::Room(Some(stream)) => {
                // If there is none on the connection, it keeps its place.
                let has_room = self.server.room(stream).is_some_and(|room| room > 0);
                if has_room && self.server.get(stream).is_some_and(Stream::has_room) {
                    self.waiting.retain(|waiting| *waiting != stream);
                    self.due.push_back(stream);
                }
            }
            Event::Room(None) => {
                let server = &mut self.server;
                self.due.extend(self.waiting.drain(..).filter(|stream| server.get(*stream).is_some_and(Stream::has_room)));
            }
        }
        Ok(())
    }

    fn begin(&mut self, stream: u32, request: Request<()>, is_end: bool, began: Instant) -> Result<(), Fault> {
        if self.activity.open() >= self.streams_max * (1 + LEFT_BEHIND) {
            return self.server.refuse(stream, self.output.bytes()).map(let_go);
        }
        let is_head = request.method() == Method::HEAD;
        let (inbox, body) = if is_end {
            (None, RequestBody::Nothing)
        } else {
            let (inbox, body) = Inbox::new(stream, &self.marks, http2::content_length(request.headers()));
            (Some(inbox), RequestBody::Stream(body))
        };
        let mut work = contained((self.service)(request.map(|()| body)));
        // Most requests without a body are answered from memory, and need no task. Of a crowd of them others have their turn.
        let polled = if is_end && began.elapsed() < TURN_MAX {
            caught(|| Pin::new(&mut work).poll(&mut Context::from_waker(Waker::noop())))
        } else {
            Ok(Poll::Pending)
        };
        let state = match polled {
            Ok(Poll::Ready(Ok(response))) => State::Answered(Box::new(response)),
            Ok(Poll::Pending) => State::Works(Work(tokio::spawn(work))),
            Err(Panicked) => {
                self.server.reset(stream, Code::INTERNAL_ERROR, self.output.bytes());
                return Ok(());
            }
        };
        self.server.keep(stream, Stream::new(stream, &self.marks, inbox, state, is_head));
        self.due.push_back(stream);
        self.set_alarm();
        Ok(())
    }

    /// Polls streams that are due until none is. False: the output is full, or others are to have their turn.
    fn poll_due(&mut self, began: Instant) -> bool {
        for polled in 1.. {
            if self.output.room() == 0 {
                return self.due.is_empty();
            }
            let Some(stream) = self.due.pop_front() else { return true };
            if self.poll_stream(stream) {
                self.due.push_back(stream);
            }
            if polled % STREAMS_BETWEEN == 0 && began.elapsed() >= TURN_MAX {
                return self.due.is_empty();
            }
        }
        true
    }

    /// Polls a stream, and puts what it has into the output. Whether it has more than fits.
    fn poll_stream(&mut self, stream: u32) -> bool {
        // A stream that has ended may have been marked before.
        while let Some(own) = self.server.get(stream) {
            let next = match caught(|| own.poll()) {
                Ok(Poll::Ready(next)) => next,
                Ok(Poll::Pending) => return false,
                Err(Panicked) => Next::Failed,
            };
            match next {
                Next::Head { status, headers, is_end } => {
                    self.server.answer(stream, status, &headers, is_end, self.output.bytes());
                    if is_end {
                        let_go(self.server.end(stream, self.output.bytes()));
                    }
                }
                Next::Data if self.output.room() == 0 => return true,
                Next::Data => self.put_part(stream),
                Next::Trailers(trailers) => {
                    self.server.trailers(stream, &trailers, self.output.bytes());
                    let_go(self.server.end(stream, self.output.bytes()));
                }
                Next::End => self.put(stream, &[], true),
                Next::Failed => let_go(self.server.reset(stream, Code::INTERNAL_ERROR, self.output.bytes())),
            }
        }
        false
    }

    /// Puts a frame of what a stream has into the output, if the windows have room for it.
    fn put_part(&mut self, stream: u32) {
        let room = self.server.room(stream).unwrap_or(0).min(self.output.room());
        match self.server.get(stream).and_then(|own| own.part(room)) {
            Some((part, is_end)) => self.put(stream, &part, is_end),
            None => self.waiting.push_back(stream),
        }
    }

    fn put(&mut self, stream: u32, part: &[u8], is_end: bool) {
        let out = self.output.bytes();
        self.server.data_head(stream, part.len(), is_end, out);
        append(part, out);
        if is_end {
            let_go(self.server.end(stream, out));
        }
    }

    /// A stream has begun: it is to be looked at.
    fn set_alarm(&mut self) {
        let now = Instant::now();
        let at = now + PING_INTERVAL.min(self.limit / 2);
        let alarm = self.alarm.get_or_insert_with(|| Alarm {
            sleep: Box::pin(sleep_until(at)),
            is_set: false,
            heard: (now, self.heard),
            asked: None,
        });
        if alarm.sleep.deadline() > at {
            alarm.set(at);
        }
    }

    /// Ends answers that stand still, and asks whether the client is there.
    ///
    /// # Errors
    /// It is not.
    fn look_at_the_time(&mut self, now: Instant, cx: &mut Context<'_>) -> Result<(), Failure> {
        let Some(mut alarm) = self.alarm.take() else { return Ok(()) };
        while !alarm.is_set || now >= alarm.sleep.deadline() {
            // It is to ring however much this task has done in its turn.
            if pin!(unconstrained(alarm.sleep.as_mut())).poll(cx).is_pending() {
                alarm.is_set = true;
                break;
            }
            if alarm.is_gone(now, self.heard) {
                return Err("the client has not answered a PING".into());
            }
            if alarm.asked == Some(now) {
                self.server.ask(self.output.bytes());
            }
            if self.is_unread(now) {
                return Err("the client takes nothing of what is written".into());
            }
            let Some(next) = self.give_up(now) else { return Ok(()) };
            let ping = alarm.asked.map_or(alarm.heard.0 + PING_INTERVAL, |asked| asked + PING_TIMEOUT);
            alarm.set(next.min(ping));
        }
        self.alarm = Some(alarm);
        Ok(())
    }

    /// Whether the client takes nothing for too long, and has no watch that may stand still.
    fn is_unread(&mut self, now: Instant) -> bool {
        let Some(since) = self.output.waits_since() else { return false };
        let limit = self.limit;
        now >= since + limit && !self.server.streams().any(|(_, own)| own.rests_until(limit).is_some_and(|until| until > now))
    }

    /// Ends streams that stand still for too long. When to look at the others again; `None`: there are none.
    fn give_up(&mut self, now: Instant) -> Option<Instant> {
        // A connection whose client takes nothing ends as a whole; one whose client takes little may have an answer that takes too long.
        let is_read = self.output.is_empty();
        let (mut next, mut late) = (now + PING_INTERVAL, Vec::new());
        let soon = now + self.limit / 2;
        for (stream, own) in self.server.streams() {
            match own.patience(now, self.limit) {
                Some(until) if until <= now && (is_read || own.is_late(now, self.limit)) => late.push(stream),
                Some(until) => next = next.min(until.max(soon)),
                None => next = next.min(soon),
            }
        }
        for stream in late {
            tracing::debug!(stream, "an answer is not read");
            self.waiting.retain(|waiting| *waiting != stream);
            let_go(self.server.reset(stream, Code::CANCEL, self.output.bytes()));
        }
        if !is_read {
            return Some(next.min(soon));
        }
        self.server.streams().next().map(|_| next)
    }
}

impl Alarm {
    fn set(&mut self, at: Instant) {
        self.sleep.as_mut().reset(at);
        self.is_set = false;
    }

    /// Whether the client, of which so many bytes have come, has not answered. Asks it if it has said nothing for long.
    fn is_gone(&mut self, now: Instant, bytes: u64) -> bool {
        if self.heard.1 != bytes {
            (self.heard, self.asked) = ((now, bytes), None);
        }
        match self.asked {
            Some(asked) => now >= asked + PING_TIMEOUT,
            None => {
                self.asked = (now >= self.heard.0 + PING_INTERVAL).then_some(now);
                false
            }
        }
    }
}

/// What is kept of a stream goes. A panic of that ends nothing else.
fn let_go<T>(own: Option<T>) {
    // It is told in the log.
    let _ = caught(|| drop(own));
}

/// A panic ends a stream alone.
struct Panicked;

fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked)
}

#[cfg(test)]
mod tests;
