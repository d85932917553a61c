//! One gRPC watch stream with many watches: a loop that owns them, hears the client and follows the published snapshot.
//!
//! A client that does not read makes its own loop wait, nobody else: what it missed comes out of memory, later out of the log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use proto::{Event, WatchRequest, WatchResponse, watch_request::RequestUnion};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::budget::{Account, Hold, Parts};
use super::check::MESSAGE_BYTES_MAX;
use super::keys::KeyRange;
use super::refusal::{Fault, Refusal};
use super::service::Service;
use super::state::{Life, Shared, State};
use super::watch::{Piece, Wants, Watch, event_bytes};

/// Responses on their way to a client that reads.
const RESPONSES_WAITING_MAX: usize = 16;
/// Responses behind them; past it the client's requests wait too.
const PENDING_MAX: usize = 256;
/// Pieces without a word for the client before its requests are looked at again.
const STEPS_MAX: usize = 256;
/// Bytes that a piece may show before there is room for more: then it is read again.
const PIECE_SHOWN: usize = 24 << 10;
/// Watches of one stream. etcd has no limit; kube-apiserver needs some hundred.
const WATCHES_MAX: usize = 100_000;
/// Which watch a response is about when it is about none, or all.
const NO_WATCH: i64 = -1;
/// `WatchCreateRequest.FilterType`.
const NOPUT: i32 = 0;
const NODELETE: i32 = 1;

const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";
const EMPTY_RANGE: &str = "mvcc: watcher range is empty";

#[tonic::async_trait]
impl proto::watch_server::Watch for Service {
    type WatchStream = WatchResponses;

    async fn watch(&self, request: Request<Streaming<WatchRequest>>) -> Result<Response<Self::WatchStream>, Status> {
        let account = self.account.of(&request);
        Ok(Response::new(self.follow(request.into_inner(), account)?))
    }
}

impl Service {
    /// Answers what a client asks of its watches.
    pub(super) fn follow<R>(&self, requests: R, account: Account) -> Result<WatchResponses, Refusal>
    where
        R: Stream<Item = Result<WatchRequest, Status>> + Send + Unpin + 'static,
    {
        let (responses, receiver) = mpsc::channel(RESPONSES_WAITING_MAX);
        let stream = WatchStream {
            state: self.shared.state()?,
            shared: self.shared.clone(),
            watches: Vec::new(),
            next_id: 0,
            turn: 0,
            pending: VecDeque::new(),
            progress_asked: false,
            account,
            room: None,
            wanted: PIECE_SHOWN,
        };
        // Ends when the client hears no more, or the store is closed.
        tokio::spawn(stream.run(requests, responses));
        Ok(Parts::new(ReceiverStream::new(receiver)))
    }
}

struct WatchStream {
    shared: Arc<Shared>,
    /// The snapshot that the watches follow.
    state: Arc<State>,
    watches: Vec<Followed>,
    /// The id tried first for a watch that names none.
    next_id: i64,
    /// Whose piece comes next.
    turn: usize,
    /// To be sent, in this order.
    pending: VecDeque<(WatchResponse, Option<Arc<Hold>>)>,
    /// The client wants to know how far all watches are.
    progress_asked: bool,
    /// Who pays for its events.
    account: Account,
    /// Room for the next piece.
    room: Option<Hold>,
    /// How much the next piece may show.
    wanted: usize,
}

struct Followed {
    watch: Watch,
    /// Nothing was sent since the last tick: progress is news.
    is_quiet: bool,
    _hold: Hold,
}

/// What wakes the loop.
enum Action {
    Asked(WatchRequest),
    /// The client asks for nothing more; it may still listen.
    Silent,
    Published,
    Tick,
    Sent,
    /// There is room for a piece, or there was none in time.
    Room(Option<Hold>),
    End,
}

type Responses = mpsc::Sender<(Result<WatchResponse, Status>, Option<Arc<Hold>>)>;
/// The responses of a stream, each with its part of what answers may hold.
pub(super) type WatchResponses = Parts<ReceiverStream<(Result<WatchResponse, Status>, Option<Arc<Hold>>)>>;

impl WatchStream {
    async fn run<R>(mut self, mut requests: R, responses: Responses)
    where
        R: Stream<Item = Result<WatchRequest, Status>> + Send + Unpin,
    {
        let (mut changes, mut life) = (self.shared.changes(), self.shared.life());
        let mut tick = tokio::time::interval(jittered(self.shared.progress_interval));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tick.reset();
        let (mut silent, account) = (false, self.account.clone());
        loop {
            if self.pending.is_empty()
                && let Err(fault) = self.follow().await
            {
                let _ = responses.send((Err(self.shared.refuse(fault).into()), None)).await;
                return;
            }
            let action = tokio::select! {
                biased;
                _ = life.wait_for(|life| *life == Life::Closed) => Action::End,
                () = responses.closed() => return,
                permit = responses.reserve(), if !self.pending.is_empty() => {
                    let (Ok(permit), Some((response, hold))) = (permit, self.pending.pop_front()) else { return };
                    permit.send((Ok(response), hold));
                    Action::Sent
                }
                request = requests.next(), if !silent && self.pending.len() < PENDING_MAX => match request {
                    Some(Ok(request)) => Action::Asked(request),
                    None => Action::Silent,
                    Some(Err(_)) => return,
                },
                _ = changes.changed(), if self.is_idle() => Action::Published,
                _ = tick.tick() => Action::Tick,
                room = account.hold(self.wanted), if self.is_waiting() => Action::Room(room.ok()),
                () = std::future::ready(()), if self.pending.is_empty() && !self.is_idle() && !self.is_waiting() => Action::Sent,
            };
            match action {
                Action::Asked(request) => self.asked(request),
                Action::Silent => silent = true,
                Action::Tick => self.tick(),
                Action::Room(room) => self.room = room,
                Action::Published | Action::Sent => {}
                Action::End => {
                    let _ = responses.send((Err(Refusal::closed().into()), None)).await;
                    return;
                }
            }
        }
    }

    /// Nothing to send and nothing to find.
    fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.watches.iter().all(|followed| followed.watch.is_synced(self.state.revision))
    }

    /// A watch is behind, and there is no room for its next piece.
    fn is_waiting(&self) -> bool {
        self.room.is_none() && !self.is_idle() && self.pending.is_empty()
    }

    /// Pieces for the watches that are behind, until there is something to send; when none is behind, the progress that was asked for.
    async fn follow(&mut self) -> Result<(), Fault> {
        if let Ok(state) = self.shared.state() {
            self.state = state;
        }
        let mut steps = 0;
        while self.pending.is_empty() && steps < STEPS_MAX && self.step().await? {
            steps += 1;
        }
        Ok(())
    }

    /// The next piece for the next watch that is behind; false when none is.
    async fn step(&mut self) -> Result<bool, Fault> {
        let count = self.watches.len();
        let behind = (0..count).map(|step| (self.turn + step) % count).find(|at| !self.watches[*at].watch.is_synced(self.state.revision));
        let Some(at) = behind else {
            self.answer_progress();
            return Ok(false);
        };
        let Some(mut room) = self.room.take().or_else(|| self.account.hold_now(self.wanted).ok()) else { return Ok(false) };
        self.turn = at + 1;
        let watch = &self.watches[at].watch;
        let piece = if watch.is_light(&self.state) {
            watch.piece(&self.state)?
        } else {
            let (watch, state) = (watch.clone(), self.state.clone());
            self.shared.read_aside(move || watch.piece(&state)).await?
        };
        match piece {
            Piece::Events { events, next } => {
                let shown = events.iter().map(event_bytes).sum();
                if shown > self.wanted {
                    (self.turn, self.wanted) = (at, shown);
                    drop((room, events));
                    self.room = self.account.hold_now(shown).ok();
                    return Ok(self.room.is_some());
                }
                room.shrink(shown);
                // The next one may be as large.
                self.wanted = shown.max(PIECE_SHOWN);
                self.send(at, events, next, room);
            }
            Piece::Compacted => {
                let watch_id = self.watches.remove(at).watch.id;
                self.push(self.compacted(watch_id));
            }
        }
        Ok(true)
    }

    fn push(&mut self, response: WatchResponse) {
        self.pending.push_back((response, None));
    }

    fn send(&mut self, at: usize, events: Vec<Event>, next: i64, room: Hold) {
        let followed = &mut self.watches[at];
        followed.watch.next = next;
        if events.is_empty() {
            return;
        }
        followed.is_quiet = false;
        let (watch_id, fragments) = (followed.watch.id, followed.watch.wants.fragments);
        let whole = WatchResponse { watch_id, events, ..self.response(next - 1) };
        let responses = if fragments { fragmented(whole) } else { vec![whole] };
        let hold = Arc::new(room);
        self.pending.extend(responses.into_iter().map(|response| (response, Some(hold.clone()))));
    }

    fn asked(&mut self, request: WatchRequest) {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => {
                let mut wants = Wants {
                    puts: true,
                    deletes: true,
                    previous: create.prev_kv,
                    fragments: create.fragment,
                    progress: create.progress_notify,
                };
                for filter in create.filters {
                    match filter {
                        NOPUT => wants.puts = false,
                        NODELETE => wants.deletes = false,
                        _ => {}
                    }
                }
                // The smallest key is one zero byte.
                let key = if create.key.is_empty() { vec![0] } else { create.key };
                let range = KeyRange::new(&key, &create.range_end);
                self.create(create.watch_id, range, create.start_revision, wants);
            }
            Some(RequestUnion::CancelRequest(cancel)) => self.cancel(cancel.watch_id),
            Some(RequestUnion::ProgressRequest(_)) => self.progress_asked = !self.watches.is_empty(),
            // As etcd: an empty request says nothing.
            None => {}
        }
    }

    fn create(&mut self, id: i64, range: KeyRange, start: i64, wants: Wants) {
        let hold = self.account.take_for_watch(range.bytes());
        // The snapshot at this moment: a watch of what is new begins after it.
        if let Ok(state) = self.shared.state() {
            self.state = state;
        }
        let refusal = if start < 0 {
            Some(Refusal::Compacted.to_string())
        } else if range.is_empty() {
            Some(EMPTY_RANGE.to_owned())
        } else if id != 0 && self.position(id).is_some() {
            Some(DUPLICATE_ID.to_owned())
        } else if self.watches.len() >= WATCHES_MAX {
            Some(Refusal::TooManyRequests.to_string())
        } else {
            hold.as_ref().err().map(Refusal::to_string)
        };
        let (Ok(hold), None) = (hold, &refusal) else {
            let cancel_reason = refusal.unwrap_or_default();
            let refused =
                WatchResponse { watch_id: NO_WATCH, created: true, canceled: true, cancel_reason, ..self.response(self.state.revision) };
            return self.push(refused);
        };
        let id = if id == 0 { self.unused_id() } else { id };
        self.push(WatchResponse { watch_id: id, created: true, ..self.response(self.state.revision) });
        if start > 0 && start < self.state.compacted {
            return self.push(self.compacted(id));
        }
        let next = if start == 0 { self.state.revision + 1 } else { start };
        self.watches.push(Followed { watch: Watch { id, range, start, next, wants }, is_quiet: true, _hold: hold });
    }

    fn cancel(&mut self, id: i64) {
        if let Some(at) = self.position(id) {
            self.watches.remove(at);
            self.push(WatchResponse { watch_id: id, canceled: true, ..self.response(self.state.revision) });
        }
    }

    fn position(&self, id: i64) -> Option<usize> {
        self.watches.iter().position(|followed| followed.watch.id == id)
    }

    fn unused_id(&mut self) -> i64 {
        while self.position(self.next_id).is_some() {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }

    /// All watches are synced: says so, unless one waits for the future.
    fn answer_progress(&mut self) {
        let revision = self.state.revision;
        let asked = std::mem::take(&mut self.progress_asked);
        if asked && !self.watches.is_empty() && self.watches.iter().all(|followed| followed.watch.has_seen(revision)) {
            self.push(WatchResponse { watch_id: NO_WATCH, ..self.response(revision) });
        }
    }

    /// Unasked progress for watches that want it and were told nothing lately; not while the client does not read what it has.
    fn tick(&mut self) {
        let revision = self.state.revision;
        for at in 0..self.watches.len() {
            if self.pending.len() >= PENDING_MAX {
                return;
            }
            let followed = &mut self.watches[at];
            let quiet = std::mem::replace(&mut followed.is_quiet, true);
            if quiet && followed.watch.wants.progress && followed.watch.has_seen(revision) {
                let watch_id = followed.watch.id;
                self.push(WatchResponse { watch_id, ..self.response(revision) });
            }
        }
    }

    fn response(&self, revision: i64) -> WatchResponse {
        WatchResponse { header: Some(self.shared.header(revision)), ..Default::default() }
    }

    /// etcd's last word on a watch that is too old: no revision in the header, no reason.
    fn compacted(&self, watch_id: i64) -> WatchResponse {
        WatchResponse { watch_id, canceled: true, compact_revision: self.state.compacted, ..self.response(0) }
    }
}

/// Cuts a response at the size of a message; only the last part does not say that more comes.
fn fragmented(whole: WatchResponse) -> Vec<WatchResponse> {
    let mut parts: Vec<WatchResponse> = Vec::new();
    let mut bytes = 0;
    let WatchResponse { header, watch_id, events, .. } = whole;
    for event in events {
        bytes += event_bytes(&event);
        match parts.last_mut() {
            Some(part) if bytes < MESSAGE_BYTES_MAX => part.events.push(event),
            before => {
                if let Some(before) = before {
                    before.fragment = true;
                }
                bytes = event_bytes(&event);
                parts.push(WatchResponse { header, watch_id, events: vec![event], ..Default::default() });
            }
        }
    }
    parts
}

/// A tenth more at most, so that streams opened together do not speak together.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(1.0 + rand::random::<f64>() / 10.0)
}
