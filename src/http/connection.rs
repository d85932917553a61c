//! One connection from its first byte to its last: hyper with our limits, and what ends connections that ask for nothing or read nothing. Knows no route.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use rand::Rng;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep};

use super::{
    budget::Hold,
    connections::{Reason, STRANGER_REQUESTS_MAX},
    counted::{Counted, LongRunning},
    gather::Gather,
    inflight::Place,
    listen::ConnInfo,
    progress::{Progress, Streams},
    pulse::{Felt, Open, Pulse, Sent},
    spoken::{Answer, Builder, Handover, Spoken, may_leave},
    turns::{Turned, Turns, Woken},
    upgraded::Handshake,
};
use crate::config::Connections;

/// Unsent bytes that one HTTP/2 stream may hold: one frame buffer of design §8. With the streams of a connection this bounds its memory.
const STREAM_SEND_BYTES_MAX: usize = 128 << 10;

/// What a client may send of one body before it is read: kube-apiserver's 256 KiB. 5 MB/s at 50 ms.
const STREAM_WINDOW: u32 = 256 << 10;

/// What a client may send of all bodies of a connection before they are read: two of them at full speed. Bodies are read as they come, so this is what h2
/// holds when a machine is late, not what it holds for each connection.
const CONNECTION_WINDOW: u32 = 512 << 10;

/// Streams that a client may break by its faults before its connection is closed: h2's own number.
const FAULTS_MAX: usize = 1_024;

/// What each header of a request counts at least, bytes: HTTP/2 counts 32 besides name and value (RFC 9113 §6.5.2), and HTTP/1.1 is to take as many.
const HEADER_BYTES_LEAST: usize = 32;

/// More headers than this no `HeaderMap` holds, and making room for more panics.
const HEADERS_MAX: usize = 24_576;

/// A peer that answers no HTTP/2 ping is gone: asked every 30 s, as kube-apiserver does.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// After a goodbye, how long a connection without open requests may take to notice.
const GOODBYE: Duration = Duration::from_secs(1);

/// hyper's builders with our limits.
pub(super) fn builder(limits: &Connections) -> Builder {
    let mut builder = Builder { http1: http1::Builder::new(), http2: http2::Builder::new(Streams { limit: limits.unread_max }) };
    builder
        .http1
        .timer(TokioTimer::new())
        // Slow heads are `tired`'s: hyper's own timer would also end idle keep-alive connections, and does not run before the first byte.
        .header_read_timeout(None)
        .max_headers((limits.header_bytes_max / HEADER_BYTES_LEAST).min(HEADERS_MAX))
        .max_buf_size(limits.header_bytes_max);
    builder
        .http2
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(limits.streams_max)
        // A client may cancel at once whatever it may ask at once.
        .max_pending_accept_reset_streams(limits.streams_max as usize)
        .max_local_error_reset_streams(FAULTS_MAX)
        .max_send_buf_size(STREAM_SEND_BYTES_MAX)
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX));
    builder
}

/// Serves one connection until either side ends it, it is idle or slow for too long, or `stop` turns true and its requests are done. When it has become
/// a WebSocket, until the watch ends that it is for: it stays one of the connections that are counted, and that a stop waits for.
///
/// Ten thousand connections have ten thousand of these futures, so it is no larger than it must be: what an `async fn` is given has a place in it beside
/// what it is made into.
pub(super) fn serve<'a, IO, F, Fut, B>(
    io: IO,
    builder: &'a Builder,
    limits: &'a Connections,
    info: Arc<ConnInfo>,
    service: F,
) -> impl Future<Output = ()> + use<'a, IO, F, Fut, B>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>, Arc<ConnInfo>) -> Fut,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (pulse, woken, followed) = (Arc::<Pulse>::default(), Arc::<Woken>::default(), Followed::default());
    let io = Gather::new(Felt::new(io, Arc::clone(&pulse), Arc::clone(&info.seat)), &info.unread);
    let served = Served { io, pulse, woken: woken.clone(), followed, info };
    Progress::of_connection(&woken, async move {
        let is_whole = requests(&served, builder, limits, service).await;
        let handshake = served.followed.lock().expect("no holder panics").take().filter(|_| is_whole);
        if let Some(followed) = handshake.and_then(|handshake| handshake.followed()) {
            // Boxed: few connections need room for it.
            Box::pin(followed.run(served.io.clone(), &served.info)).await;
        }
    })
}

/// What follows the requests of a connection.
type Followed = Arc<Mutex<Option<Handshake>>>;

/// What a connection has from its first byte to its last.
struct Served<IO> {
    io: Gather<Felt<IO>>,
    pulse: Arc<Pulse>,
    woken: Arc<Woken>,
    followed: Followed,
    info: Arc<ConnInfo>,
}

/// Whether all that was to be written is: then another protocol may follow.
async fn requests<IO, F, Fut, B>(served: &Served<IO>, builder: &Builder, limits: &Connections, service: F) -> bool
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>, Arc<ConnInfo>) -> Fut,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let Served { io, pulse, woken, followed, info } = served;
    let goodbye = &*info.goodbye;
    let handover = Handover::default();
    let service = service_fn(|request| {
        let (open, is_h2) = (Open::new(pulse), request.version() == Version::HTTP_2);
        let leaves = may_leave(&request).then(|| handover.clone());
        if info.seat.is_strangers() && pulse.requests() > STRANGER_REQUESTS_MAX {
            info.seat.leave(Reason::Requests);
        }
        let answer = service(request, Arc::clone(info));
        let (followed, unread) = (Arc::clone(followed), Arc::clone(&info.unread));
        if is_h2 && limits.goaway_chance > 0.0 && rand::rng().random::<f64>() < limits.goaway_chance {
            goodbye.notify_one();
        }
        async move {
            let mut answer = answer.await;
            let long = answer.extensions_mut().remove::<LongRunning>();
            let made = answer.extensions_mut().remove::<Arc<Hold>>();
            let place = answer.extensions_mut().remove::<Place>();
            if let Some(handshake) = answer.extensions().get::<Handshake>() {
                *followed.lock().expect("no holder panics") = Some(handshake.clone());
            }
            let leaves = leaves.filter(|_| long.is_some());
            let body = |body| Sent::new(Counted::new(body, &unread, made, long.clone(), place), open, long);
            Ok::<_, Infallible>(Answer::of(answer.map(body), leaves))
        }
    });
    let connection = pin!(Spoken::new(builder, io.clone(), pulse, handover.clone(), service));
    let mut turns = Turns::new(connection, woken, io.clone());
    // HTTP/1.1 has one answer at a time.
    let gathers = || pulse.speaks_h2();
    let mut stalls = pin!(pulse.stalls(limits.unread_max));
    let mut stop = info.stop.clone();
    let (mut must_end, mut is_last) = (false, false);
    loop {
        let chores = async {
            tokio::select! {
                why = tired(pulse, limits) => Chore::Tired(why),
                why = info.seat.left() => Chore::Left(why),
                () = Progress::given_up() => Chore::GivenUp,
                () = goodbye.notified(), if !is_last => Chore::Goodbye,
                _ = stop.wait_for(|stopped| *stopped) => Chore::Stop,
                () = stalls.as_mut() => Chore::Unread,
            }
        };
        let chore = match turns.run(pin!(chores), gathers).await {
            Turned::Over(result) => return ended(info, result),
            Turned::Chores(chore) => chore,
        };
        match chore {
            Chore::Tired(why) => tracing::debug!(peer = %info.peer, why, "closing a connection"),
            Chore::Left(why) => {
                must_end = true;
                tracing::debug!(peer = %info.peer, ?why, "closing a connection");
            }
            Chore::GivenUp => {
                pulse.gave_up();
                tracing::debug!(peer = %info.peer, "no more requests on a connection: an answer is not read");
            }
            Chore::Goodbye => {
                is_last = true;
                turns.connection().graceful_shutdown();
                continue;
            }
            Chore::Stop => {}
            Chore::Unread => return unread(info),
        }
        break;
    }
    turns.connection().graceful_shutdown();
    loop {
        let chores = pin!(async {
            tokio::select! {
                () = sleep(GOODBYE) => Chore::Goodbye,
                () = stalls.as_mut() => Chore::Unread,
            }
        });
        match turns.run(chores, gathers).await {
            Turned::Over(result) => return ended(info, result),
            Turned::Chores(Chore::Unread) => return unread(info),
            Turned::Chores(_) if must_end || !(pulse.has_open() || io.has_unwritten()) => return false,
            Turned::Chores(_) => {}
        }
    }
}

/// Why a connection takes no more requests, or ends.
enum Chore {
    /// See [`tired`].
    Tired(&'static str),
    Left(Reason),
    /// One of its streams was given up.
    GivenUp,
    Goodbye,
    Stop,
    /// Its answers stand still.
    Unread,
}

fn unread(info: &ConnInfo) -> bool {
    info.seat.leave(Reason::Unread);
    tracing::debug!(peer = %info.peer, "closing a connection: its answer is not read");
    false
}

fn ended(info: &ConnInfo, result: Result<(), Box<dyn Error + Send + Sync>>) -> bool {
    if let Err(error) = &result {
        tracing::debug!(peer = %info.peer, error, "connection ended");
    }
    result.is_ok()
}

/// Returns when a connection should be closed: no whole head in time, or nothing asked for too long.
///
/// It looks twice per header timeout while no request is open, and not at all while one is: an idle watch costs nothing.
async fn tired(pulse: &Pulse, limits: &Connections) -> &'static str {
    let tick = (limits.header_timeout / 2).min(limits.idle_timeout);
    let mut idle_since = Instant::now();
    // The first head begins with the connection; a later one with its first byte.
    let mut head_since = Some(idle_since);
    let (mut bytes, mut requests) = (0, 0);
    loop {
        pulse.emptied().await;
        let started = pulse.requests();
        if started != requests {
            (requests, bytes) = (started, pulse.bytes());
            (idle_since, head_since) = (Instant::now(), None);
        }
        sleep(tick).await;
        if pulse.has_open() || pulse.requests() != requests {
            continue;
        }
        let now = Instant::now();
        if !pulse.speaks_h2() {
            if pulse.bytes() > bytes {
                head_since.get_or_insert(now);
            }
            if head_since.is_some_and(|since| now - since >= limits.header_timeout) {
                return "no whole request head in time";
            }
        }
        if now - idle_since >= limits.idle_timeout {
            return "idle";
        }
    }
}
