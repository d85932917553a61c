//! What answers may hold: an answer has its part of a budget before anything of it is read, until it is written or its client is gone.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::Stream;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::gateway::{JSON_BYTES_MAX, refused};
use super::intake::metered;
use super::refusal::Refusal;

/// Bytes that all answers of the listeners hold together, and those of the socket. One that is larger by itself waits until it is alone.
const ANSWERS_BYTES_MAX: usize = 128 << 20;
/// Bytes of the answers to the server that has the store in it, whose client has limits of its own.
const OWN_BYTES_MAX: usize = 1 << 30;
/// One connection has this part of each budget of its door at most.
const CONNECTION_PART: usize = 4;
/// Bytes of what a transaction or a deletion shows: its ranges may show the same keys again and again. A range alone shows each once.
pub(super) const TXN_ANSWER_BYTES_MAX: usize = 64 << 20;
/// How long an answer waits for its part.
const HOLD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take nothing of an answer that is there for it.
const STALL_MAX: Duration = Duration::from_secs(30);
/// Answers that hold no more have a budget of their own: a client that asks for little does not wait for large answers.
const SMALL_BYTES: usize = 64 << 10;
/// That budget is this part of the other one.
const SMALL_PART: usize = 4;
/// Bytes of an answer that are given to a connection at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks of streams that are not written yet may be this part of what answers hold.
const UNSENT_PART: usize = 2;
/// How often an answer is in memory: as a message, and encoded.
const COPIES: usize = 2;
/// Bytes of the messages that all requests of one door hold together.
const REQUESTS_BYTES_MAX: usize = 64 << 20;
/// Bytes that all watches of one door hold themselves: their ranges, and what they are.
const WATCHES_BYTES_MAX: usize = 64 << 20;
/// What a watch is without its range.
const WATCH_OVERHEAD: usize = 256;
/// What an answer takes that shows nothing.
const ANSWER_OVERHEAD: usize = 512;

/// A budget of bytes. A clone is the same one.
#[derive(Clone)]
struct Budget {
    room: Arc<Semaphore>,
    limit: usize,
}

impl Budget {
    fn of(limit: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(limit)), limit }
    }

    fn weight(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.limit)).expect("the limits fit")
    }

    async fn part(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.room.clone().acquire_many_owned(self.weight(bytes)).await.ok()
    }

    fn part_now(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.room.clone().try_acquire_many_owned(self.weight(bytes)).ok()
    }
}

/// The budgets of a door, or the shares that a connection may take of them.
#[derive(Clone)]
struct Budgets {
    answers: Budget,
    small_answers: Budget,
    requests: Budget,
    watches: Budget,
    unsent: Budget,
}

impl Budgets {
    /// All of them, divided by a number.
    fn divided(by: usize) -> Self {
        Self::of(ANSWERS_BYTES_MAX / by, REQUESTS_BYTES_MAX / by, WATCHES_BYTES_MAX / by)
    }

    fn of(answers: usize, requests: usize, watches: usize) -> Self {
        let small_answers = Budget::of(answers / SMALL_PART);
        let [answers, requests, watches, unsent] = [answers, requests, watches, answers / UNSENT_PART].map(Budget::of);
        Self { answers, small_answers, requests, watches, unsent }
    }

    fn for_answer(&self, bytes: usize) -> &Budget {
        if bytes <= SMALL_BYTES { &self.small_answers } else { &self.answers }
    }
}

/// Who pays: a door, and of it a connection's share.
#[derive(Clone)]
pub(super) struct Account {
    door: Budgets,
    share: Option<Share>,
}

/// A connection's share of its door's budgets, and what it waits for its client to do.
#[derive(Clone)]
pub(super) struct Share {
    budgets: Budgets,
    /// Since when a client takes nothing of an answer, or owes the rest of a message, by their numbers.
    overdue: Arc<Mutex<BTreeMap<u64, Instant>>>,
    next: Arc<AtomicU64>,
}

/// A part of a budget: free when it is dropped.
#[derive(Debug)]
pub(super) struct Hold {
    parts: [Option<OwnedSemaphorePermit>; 2],
}

impl Hold {
    /// Gives back what is more than an answer needs that shows so much.
    pub(super) fn shrink(&mut self, shown: usize) {
        let bytes = held(shown);
        for part in self.parts.iter_mut().flatten() {
            if let Some(needed) = part.split(bytes.min(part.num_permits())) {
                *part = needed;
            }
        }
    }
}

/// An answer with its part.
#[derive(Debug)]
pub(super) struct Held<T> {
    pub(super) answer: T,
    pub(super) hold: Hold,
}

impl Default for Account {
    fn default() -> Self {
        Self { door: Budgets::divided(1), share: None }
    }
}

impl Default for Share {
    fn default() -> Self {
        Self { budgets: Budgets::divided(CONNECTION_PART), overdue: Arc::default(), next: Arc::default() }
    }
}

impl Account {
    /// The account of the server that has the store in it.
    pub(super) fn own() -> Self {
        Self { door: Budgets::of(OWN_BYTES_MAX, OWN_BYTES_MAX, OWN_BYTES_MAX), share: None }
    }

    /// The same door for the connection of a request.
    pub(super) fn of<T>(&self, request: &tonic::Request<T>) -> Self {
        self.with(request.extensions().get::<Share>().cloned())
    }

    fn with(&self, share: Option<Share>) -> Self {
        Self { door: self.door.clone(), share }
    }

    /// Takes a part of a budget at once.
    fn take(&self, bytes: usize, budget: impl Fn(&Budgets) -> &Budget) -> Result<Hold, Refusal> {
        let own = match &self.share {
            Some(share) => Some(budget(&share.budgets).part_now(bytes).ok_or(Refusal::TooManyRequests)?),
            None => None,
        };
        let part = budget(&self.door).part_now(bytes).ok_or(Refusal::TooManyRequests)?;
        Ok(Hold { parts: [own, Some(part)] })
    }

    /// Takes a part of what requests may hold.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn take_in(&self, bytes: usize) -> Result<Hold, Refusal> {
        self.take(bytes, |budgets| &budgets.requests)
    }

    /// Takes a part of what watches may hold themselves, for one with a range of so many bytes.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn take_for_watch(&self, bytes: usize) -> Result<Hold, Refusal> {
        self.take(bytes.saturating_add(WATCH_OVERHEAD), |budgets| &budgets.watches)
    }

    /// A number for what its connection waits for.
    pub(super) fn number(&self) -> u64 {
        self.share.as_ref().map_or(0, Share::number)
    }

    /// Notes since when the connection waits for what has a number.
    pub(super) fn note(&self, number: u64, since: Option<Instant>) {
        if let Some(share) = &self.share {
            share.note(number, since);
        }
    }

    /// Waits for a part of the budget: first in the line of the connection, then in that of the door.
    ///
    /// # Errors
    /// There was none in time.
    pub(super) async fn hold(&self, shown: usize) -> Result<Hold, Refusal> {
        let bytes = held(shown);
        let part = self.wait(bytes, |budgets| budgets.for_answer(bytes));
        tokio::time::timeout(HOLD_TIMEOUT, part).await.ok().flatten().ok_or(Refusal::TooManyRequests)
    }

    async fn wait(&self, bytes: usize, budget: impl Fn(&Budgets) -> &Budget) -> Option<Hold> {
        let own = match &self.share {
            Some(share) => Some(budget(&share.budgets).part(bytes).await?),
            None => None,
        };
        let part = budget(&self.door).part(bytes).await?;
        Some(Hold { parts: [own, Some(part)] })
    }

    /// Takes a part of the budget at once.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn hold_now(&self, shown: usize) -> Result<Hold, Refusal> {
        let bytes = held(shown);
        self.take(bytes, |budgets| budgets.for_answer(bytes))
    }

    /// The same for what a transaction or a deletion shows.
    ///
    /// # Errors
    /// It is too much, or there is none.
    pub(super) fn hold_for_txn(&self, shown: usize) -> Result<Hold, Refusal> {
        check_txn_answer(shown)?;
        self.hold_now(shown)
    }
}

/// Refuses a transaction by what it shows.
pub(super) fn check_txn_answer(shown: usize) -> Result<(), Refusal> {
    if shown > TXN_ANSWER_BYTES_MAX { Err(Refusal::TooLarge) } else { Ok(()) }
}

fn held(shown: usize) -> usize {
    shown.saturating_mul(COPIES).saturating_add(ANSWER_OVERHEAD)
}

impl<T> Held<T> {
    /// The answer as gRPC's, which keeps the part until it is written.
    pub(super) fn into_response(self) -> tonic::Response<T> {
        let mut response = tonic::Response::new(self.answer);
        response.extensions_mut().insert(Arc::new(self.hold));
        response
    }

    #[must_use]
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Held<U> {
        Held { answer: change(self.answer), hold: self.hold }
    }
}

impl Share {
    /// Whether the client of a connection takes nothing of one of its answers.
    pub(super) fn is_stalled(&self) -> bool {
        self.overdue.lock().values().any(|since| since.elapsed() > STALL_MAX)
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn note(&self, number: u64, since: Option<Instant>) {
        let mut overdue = self.overdue.lock();
        match since {
            Some(since) => drop(overdue.insert(number, since)),
            None => drop(overdue.remove(&number)),
        }
    }
}

/// Charges what a request holds until there is an answer, and keeps the part of the answer until its body is written.
/// Notes since when its client takes nothing.
pub(super) async fn keep(State(door): State<Account>, request: Request, next: Next) -> Response {
    let share = request.extensions().get::<Share>().cloned().unwrap_or_default();
    let (request, held) = match metered(request, door.with(Some(share.clone())), JSON_BYTES_MAX) {
        Ok(metered) => metered,
        Err(status) => return refused(&status),
    };
    let mut response = next.run(request).await;
    drop(held);
    let hold = response.extensions_mut().remove::<Arc<Hold>>();
    response.map(|body| Body::new(Kept::new(body, door.with(Some(share)), hold)))
}

/// The body of an answer, in chunks.
struct Kept {
    body: Body,
    /// Of its last frame, what the connection has not asked for yet.
    rest: Bytes,
    account: Account,
    /// While it waits for its client.
    number: u64,
    /// The part of the whole answer; the chunks of a stream, which has none, have one each.
    hold: Option<Arc<Hold>>,
    waiting: Option<Pin<Box<dyn Future<Output = Option<Hold>> + Send>>>,
}

/// A chunk until it is written.
struct Chunk {
    bytes: Bytes,
    _hold: Option<Arc<Hold>>,
    account: Account,
    number: u64,
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.account.note(self.number, None);
    }
}

impl Kept {
    fn new(body: Body, account: Account, hold: Option<Arc<Hold>>) -> Self {
        let number = account.number();
        account.note(number, Some(Instant::now()));
        Self { body, rest: Bytes::new(), account, number, hold, waiting: None }
    }

    /// The part of the next chunk of a stream.
    fn poll_part(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<Option<Arc<Hold>>> {
        if self.hold.is_some() {
            return Poll::Ready(self.hold.clone());
        }
        if self.waiting.is_none() {
            if let Ok(part) = self.account.take(bytes, |budgets| &budgets.unsent) {
                return Poll::Ready(Some(Arc::new(part)));
            }
            let account = self.account.clone();
            self.waiting = Some(Box::pin(async move { account.wait(bytes, |budgets| &budgets.unsent).await }));
        }
        let waiting = self.waiting.as_mut().expect("it was just set");
        let part = ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(part.map(Arc::new))
    }
}

impl HttpBody for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // It is asked for more: the client takes what there is.
        self.account.note(self.number, None);
        while self.rest.is_empty() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let bytes = self.rest.len().min(CHUNK_BYTES);
        let hold = ready!(self.poll_part(cx, bytes));
        let (account, since) = (self.account.clone(), Some(Instant::now()));
        let number = account.number();
        account.note(number, since);
        account.note(self.number, since);
        let bytes = self.rest.split_to(bytes);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(Chunk { bytes, _hold: hold, account, number })))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.account.note(self.number, None);
    }
}

/// Messages of a stream, each with its part of a budget; the part of the last one is kept until the next one is asked for.
pub(super) struct Parts<S> {
    messages: S,
    last: Option<Arc<Hold>>,
}

impl<S> Parts<S> {
    pub(super) fn new(messages: S) -> Self {
        Self { messages, last: None }
    }
}

impl<T, S: Stream<Item = (T, Option<Arc<Hold>>)> + Unpin> Stream for Parts<S> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.last = None;
        let next = ready!(Pin::new(&mut self.messages).poll_next(cx));
        Poll::Ready(next.map(|(message, hold)| {
            self.last = hold;
            message
        }))
    }
}
