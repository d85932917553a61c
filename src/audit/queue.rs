//! What waits for a backend: a queue with two limits, and the three modes. Whoever empties it takes [`Batches`].

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus::IntCounterVec;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::{Instant, sleep_until, timeout},
};

use crate::event::{Event, Level};

/// Bytes of events that wait for one backend. A single larger event waits alone.
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Events that wait for one backend in the blocking modes, in which each request waits for one at a time and watches end without waiting: as many as in the
/// mode batch by default.
const BLOCKING_EVENTS_MAX: usize = 10_000;

/// Events that are taken together in the blocking modes.
const BLOCKING_BATCH_MAX: usize = 400;

/// How long a request waits in the blocking modes until its event is written.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(30);

/// How long the end of the server waits for what is still to be written.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(5);

/// Plugins, as `apiserver_audit_error_total` names them.
const BUFFERED: &str = "buffered";
const TRUNCATE: &str = "truncate";

/// Whether a request waits until its events are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// It does not; what finds no room is lost and counted.
    Batch(Batching),
    /// It waits, and goes on when an event could not be written.
    Blocking,
    /// It waits, and is refused when its first event could not be written.
    BlockingStrict,
}

/// How events are put together in [`Mode::Batch`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batching {
    /// Events that may wait.
    pub buffer: usize,
    /// Events that are taken together.
    pub size_max: usize,
    /// How long the first of them waits for the others.
    pub wait_max: Duration,
    /// Batches a second, and how many of them may come at once; none for no limit.
    pub throttle: Option<(f32, u32)>,
}

/// What becomes of events that are too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Bytes of an event as JSON: the objects of a larger one are left out. If it still is larger, it is lost and counted.
    pub event_bytes_max: usize,
}

/// How a backend gets its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// A line of JSON.
    JsonLine,
    /// A line of text.
    TextLine,
    /// An item of a list.
    ListItem,
}

/// The way of events to one backend.
#[derive(Debug)]
pub struct Queue {
    /// As metrics name whoever empties it.
    plugin: &'static str,
    encoding: Encoding,
    mode: Mode,
    truncation: Option<Truncation>,
    sender: mpsc::Sender<Message>,
    room: Arc<Semaphore>,
    errors: IntCounterVec,
}

/// What comes out of a queue.
#[derive(Debug)]
pub(crate) enum Message {
    Event(Waiting),
    /// Everything before it is to be written, then this is notified.
    Flush(oneshot::Sender<()>),
}

/// An event that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) bytes: Vec<u8>,
    /// Notifies the waiting request whether it was written.
    pub(crate) written: Option<oneshot::Sender<bool>>,
    _room: OwnedSemaphorePermit,
}

impl Queue {
    /// A queue of this form, and its other end.
    pub(crate) fn new(
        plugin: &'static str,
        encoding: Encoding,
        mode: Mode,
        truncation: Option<Truncation>,
        errors: IntCounterVec,
    ) -> (Self, Batches) {
        let events_max = if let Mode::Batch(batching) = mode { batching.buffer } else { BLOCKING_EVENTS_MAX };
        let (sender, receiver) = mpsc::channel(events_max);
        let room = Arc::new(Semaphore::new(QUEUE_BYTES_MAX));
        for name in [plugin, BUFFERED, TRUNCATE] {
            drop(errors.with_label_values(&[name]));
        }
        (Self { plugin, encoding, mode, truncation, sender, room, errors }, Batches::new(receiver, mode))
    }

    /// The event as this backend wants it; none when it is too large.
    pub(crate) fn encode(&self, event: &Event) -> Option<Vec<u8>> {
        let json = |event: &Event, alone| {
            let mut bytes = Vec::with_capacity(1024);
            event.json_into(alone, &mut bytes);
            bytes
        };
        let encode = |event: &Event| match self.encoding {
            Encoding::JsonLine => [json(event, true), vec![b'\n']].concat(),
            Encoding::TextLine => (event.line() + "\n").into_bytes(),
            Encoding::ListItem => json(event, false),
        };
        let Some(Truncation { event_bytes_max }) = self.truncation else { return Some(encode(event)) };
        // With the newline that Go's encoder ends it with.
        let fits = |event: &Event| json(event, true).len() < event_bytes_max;
        if fits(event) {
            return Some(encode(event));
        }
        if event.level >= Level::Request {
            let event = event.truncated();
            if fits(&event) {
                return Some(encode(&event));
            }
        }
        self.lost(TRUNCATE, "event is too large even after truncating");
        None
    }

    fn lost(&self, plugin: &str, why: &str) {
        self.errors.with_label_values(&[plugin]).inc();
        tracing::error!(plugin, backend = self.plugin, why, "an audit event is lost");
    }

    /// Room for so many bytes, at once if there is some.
    fn permits(bytes: usize) -> u32 {
        u32::try_from(bytes.min(QUEUE_BYTES_MAX)).unwrap_or(u32::MAX)
    }

    /// Makes an event of at most so many bytes when there is room for it, and puts it in; and whether it was written then. Who stops waiting before there was
    /// room has lost the event.
    async fn wait(&self, bytes_max: usize, encode: impl FnOnce() -> Option<Vec<u8>>) -> Option<bool> {
        let mut unsent = Unsent(Some(self));
        let (written, outcome) = oneshot::channel();
        let mut room = self.room.clone().acquire_many_owned(Self::permits(bytes_max)).await.ok()?;
        let Some(bytes) = encode() else {
            unsent.0 = None;
            return Some(true);
        };
        drop(room.split(room.num_permits().saturating_sub(bytes.len())));
        self.sender.send(Message::Event(Waiting { bytes, written: Some(written), _room: room })).await.ok()?;
        unsent.0 = None;
        outcome.await.ok()
    }

    /// Sends the event that `encode` makes, if any, of at most so many bytes; in the blocking modes it is made when there is room for it, and is written then.
    /// False when it is not and the mode is strict.
    pub(crate) async fn send(&self, bytes_max: usize, encode: impl FnOnce() -> Option<Vec<u8>>) -> bool {
        if let Mode::Batch(_) = self.mode {
            encode().into_iter().for_each(|bytes| self.send_later(bytes));
            return true;
        }
        timeout(WRITE_WAIT_MAX, self.wait(bytes_max, encode)).await.ok().flatten().unwrap_or(false) || self.mode == Mode::Blocking
    }

    /// Sends an event on behalf of somebody who does not wait.
    pub(crate) fn send_later(&self, bytes: Vec<u8>) {
        let sent = self.room.clone().try_acquire_many_owned(Self::permits(bytes.len())).is_ok_and(|room| {
            let event = Message::Event(Waiting { bytes, written: None, _room: room });
            self.sender.try_send(event).is_ok()
        });
        if !sent {
            self.lost(BUFFERED, "audit buffer queue blocked");
        }
    }

    /// Waits until everything is written that is in the queue; not for ever.
    pub(crate) async fn close(&self) {
        let (told, flushed) = oneshot::channel();
        let flush = async {
            self.sender.send(Message::Flush(told)).await.ok()?;
            flushed.await.ok()
        };
        if timeout(CLOSE_WAIT_MAX, flush).await.ok().flatten().is_none() {
            tracing::error!(backend = self.plugin, "audit events were not written before the end");
        }
    }
}

/// An event that is not in the queue yet: when this is dropped, it is lost.
struct Unsent<'a>(Option<&'a Queue>);

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if let Some(queue) = self.0 {
            queue.lost(queue.plugin, "nobody waited until there was room for it");
        }
    }
}

/// The end of a queue where events come out, put together as the mode says.
#[derive(Debug)]
pub(crate) struct Batches {
    receiver: mpsc::Receiver<Message>,
    size_max: usize,
    /// None: what is there is taken at once.
    wait_max: Option<Duration>,
    throttle: Option<Mutex<Throttle>>,
}

impl Batches {
    fn new(receiver: mpsc::Receiver<Message>, mode: Mode) -> Self {
        let Mode::Batch(batching) = mode else {
            return Self { receiver, size_max: BLOCKING_BATCH_MAX, wait_max: None, throttle: None };
        };
        let throttle = batching.throttle.map(|(per_second, burst)| Mutex::new(Throttle::new(per_second, burst)));
        let wait_max = (batching.size_max > 1).then_some(batching.wait_max);
        Self { receiver, size_max: batching.size_max, wait_max, throttle }
    }

    /// The next batch; none when nobody sends any more.
    pub(crate) async fn next(&mut self) -> Option<Vec<Message>> {
        let mut batch = Vec::new();
        if self.receiver.recv_many(&mut batch, self.size_max).await == 0 {
            return None;
        }
        if let Some(wait_max) = self.wait_max {
            let until = Instant::now() + wait_max;
            while batch.len() < self.size_max && !batch.iter().any(|message| matches!(message, Message::Flush(_))) {
                let left = self.size_max - batch.len();
                tokio::select! {
                    got = self.receiver.recv_many(&mut batch, left) => if got == 0 { break },
                    () = sleep_until(until) => break,
                }
            }
        }
        if let Some(throttle) = &self.throttle {
            let at = throttle.lock().take(Instant::now());
            sleep_until(at).await;
        }
        Some(batch)
    }
}

/// So many batches a second on average, and a burst.
#[derive(Debug)]
struct Throttle {
    every: Duration,
    burst: u32,
    /// When all tokens are there again.
    full: Option<Instant>,
}

impl Throttle {
    fn new(per_second: f32, burst: u32) -> Self {
        Self { every: Duration::from_secs_f32(1.0 / per_second.max(1e-6)), burst, full: None }
    }

    /// Takes a token: when it is there.
    fn take(&mut self, now: Instant) -> Instant {
        let full = self.full.map_or(now, |full| full.max(now)) + self.every;
        self.full = Some(full);
        full.checked_sub(self.every * self.burst).map_or(now, |at| at.max(now))
    }
}

#[cfg(test)]
pub(crate) mod tests;
