//! One connection from its first byte to its last: its protocols with our limits, and what ends connections that ask for nothing or read nothing.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Version, header::CONNECTION};
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use parking_lot::Mutex;
use rand::Rng;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep};

use super::settings::Limits;
use super::{
    accounted::AccountedBody,
    activity::{Activity, InFlight, Longest, MonitoredIo, Timing},
    answer::{Alone, Extras, Request, Service},
    conn::Conn,
    connections::{CloseReason, STRANGER_REQUESTS_MAX},
    linger::linger,
    protocol::{Answer, Handover, Protocol, ProtocolConfig, may_leave},
    request_body::RequestBody,
    rewind::Rewind,
    task::{ConnTask, Step},
    upgraded::Handshake,
};

/// What a client may send of one body before it is read: kube-apiserver's 256 KiB. 5 MB/s at 50 ms.
const STREAM_WINDOW: u32 = 256 << 10;

/// What a client may send of all bodies of a connection before they are read: two of them at full speed. Bodies are read as they come, so this is what is
/// held when a machine is late, not what is held for each connection.
const CONNECTION_WINDOW: u32 = 512 << 10;

/// Streams that a client may break by its faults before its connection is closed (h2's number).
const FAULTS_MAX: u32 = 1_024;

/// What each header of a request counts at least, bytes: HTTP/2 counts 32 besides name and value (RFC 9113 §6.5.2), and HTTP/1.1 is to take as many.
const HEADER_BYTES_LEAST: usize = 32;

/// More headers than this no `HeaderMap` holds, and making room for more panics.
const HEADERS_MAX: usize = 24_576;

/// After a goodbye, how long a connection without open requests may take to notice.
const GOODBYE: Duration = Duration::from_secs(1);

/// How connections are spoken on within these limits.
pub(super) fn protocols(limits: &Limits) -> ProtocolConfig {
    let mut http1 = http1::Builder::new();
    http1
        .timer(TokioTimer::new())
        // Slow heads are `tired`'s: hyper's own timer would also end idle keep-alive connections, and does not run before the first byte.
        .header_read_timeout(None)
        .max_headers((limits.header_bytes_max / HEADER_BYTES_LEAST).min(HEADERS_MAX))
        .max_buf_size(limits.header_bytes_max);
    let http2 = http2::Limits {
        streams_max: limits.streams_max,
        header_bytes_max: limits.header_bytes_max,
        stream_window: STREAM_WINDOW,
        connection_window: CONNECTION_WINDOW,
        faults_max: FAULTS_MAX,
    };
    ProtocolConfig { http1, http2, answers_stand_max: limits.unread_max }
}

/// Serves one connection until either side ends it, it is idle or slow for too long, or `stop` turns true and its requests are done. When it has become
/// a WebSocket, until the watch ends that it is for: it stays one of the connections that are counted, and that a stop waits for.
///
/// Ten thousand connections have ten thousand of these futures, so it is no larger than it must be: what an `async fn` is given has a place in it beside
/// what it is made into.
pub(super) fn serve<'a, IO, S>(
    io: IO,
    protocols: &'a ProtocolConfig,
    limits: &'a Limits,
    info: Arc<Conn>,
    service: S,
) -> impl Future<Output = ()> + use<'a, IO, S>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    let (activity, followed) = (Activity::of(&info.seat, &info.heads), Followed::default());
    let io = Rewind::new(MonitoredIo::new(io, Arc::clone(&activity)));
    let served = Served { io, activity, followed, info };
    async move {
        let ended = requests(&served, protocols, limits, service).await;
        served.activity.takes_no_more();
        served.info.heads.partial(0);
        let handshake = served.followed.lock().take().filter(|_| ended == Ended::Written);
        if let Some(followed) = handshake.and_then(|handshake| handshake.followed()) {
            // Boxed: few connections need room for it.
            Box::pin(followed.run(served.io.clone(), &served.info)).await;
        }
        if ended != Ended::Cut {
            let lingering = Box::pin(linger(served.io));
            tokio::select! {
                () = lingering => {}
                _ = served.info.seat.left() => {}
            }
        }
    }
}

/// What follows the requests of a connection.
type Followed = Arc<Mutex<Option<Handshake>>>;

/// What a connection has from its first byte to its last.
struct Served<IO> {
    io: Rewind<MonitoredIo<IO>>,
    activity: Arc<Activity>,
    followed: Followed,
    info: Arc<Conn>,
}

/// How the requests of a connection have ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// All that was to be written is: another protocol may follow.
    Written,
    /// One side has broken a rule, or the client is gone. What was written may say why.
    Failed,
    /// The client has had its time.
    Cut,
}

/// Answers the requests of a connection.
async fn requests<IO, S>(served: &Served<IO>, protocols: &ProtocolConfig, limits: &Limits, service: S) -> Ended
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    let Served { io, activity, followed, info } = served;
    let goodbye = &*info.goodbye;
    let handover = Handover::default();
    let service = |request: http::Request<RequestBody>| {
        let head = info.heads.read(&request);
        let (open, is_h2) = (InFlight::new(activity), request.version() == Version::HTTP_2);
        let leaves = may_leave(&request).then(|| handover.clone());
        if info.seat.is_strangers() && activity.requests() > STRANGER_REQUESTS_MAX {
            info.seat.leave(CloseReason::Requests);
        }
        let remains = request.body().remains();
        let answer = service.answer(Request { http: request, head });
        let (followed, unread) = (Arc::clone(followed), Arc::clone(&info.unread));
        if is_h2 && limits.goaway_chance > 0.0 && rand::rng().random::<f64>() < limits.goaway_chance {
            goodbye.notify_one();
        }
        async move {
            let super::Answer { http: mut answer, extras: Extras { made, alone, guard, long_running, upgrade } } = answer.await;
            if let Some(remains) = remains
                && !Box::pin(remains.drain()).await
            {
                // hyper closes the connection, but would say so too late.
                answer.headers_mut().entry(CONNECTION).or_insert(HeaderValue::from_static("close"));
            }
            if let Some(handshake) = upgrade {
                *followed.lock() = Some(handshake);
            }
            let leaves = leaves.filter(|_| long_running.is_some());
            let alone = made.as_ref().and_then(|made| made.alone_since()).map(Alone).or(alone);
            let timing = Timing { longest: Longest::of(alone), long_running };
            answer.extensions_mut().insert(timing.clone());
            let body = |body| AccountedBody::new(body, &unread, (made, guard), open, timing);
            Ok::<_, Infallible>(Answer::of(answer.map(body), leaves))
        }
    };
    let connection = pin!(Protocol::new(protocols, io.clone(), activity, &info.unread, handover.clone(), service));
    let mut task = ConnTask::new(connection);
    let mut stalls = pin!(activity.stalls(limits.unread_max));
    let mut stop = info.stop.clone();
    let (mut must_end, mut is_last) = (false, false);
    loop {
        let chores = async {
            tokio::select! {
                why = tired(activity, limits) => Chore::Tired(why),
                why = info.seat.left() => Chore::Left(why),
                () = goodbye.notified(), if !is_last => Chore::Goodbye,
                _ = stop.wait_for(|stopped| *stopped) => Chore::Stop,
                () = stalls.as_mut() => Chore::Unread,
            }
        };
        let chore = match task.run(pin!(chores)).await {
            Step::Over(result) => return ended(info, result),
            Step::Chores(chore) => chore,
        };
        match chore {
            Chore::Tired(why) => tracing::debug!(peer = %info.peer, why, "closing a connection"),
            Chore::Left(why) => {
                must_end = true;
                tracing::debug!(peer = %info.peer, ?why, "closing a connection");
            }
            Chore::Goodbye => {
                is_last = true;
                task.connection().graceful_shutdown();
                continue;
            }
            Chore::Stop => {}
            Chore::Unread => return unread(info),
        }
        break;
    }
    task.connection().graceful_shutdown();
    loop {
        let chores = pin!(async {
            tokio::select! {
                () = sleep(GOODBYE) => Chore::Goodbye,
                () = stalls.as_mut() => Chore::Unread,
            }
        });
        match task.run(chores).await {
            Step::Over(result) => return ended(info, result),
            Step::Chores(Chore::Unread) => return unread(info),
            Step::Chores(_) if must_end || !(activity.has_open() || task.connection().has_unwritten()) => return Ended::Cut,
            Step::Chores(_) => {}
        }
    }
}

/// Why a connection takes no more requests, or ends.
enum Chore {
    /// See [`tired`].
    Tired(&'static str),
    Left(CloseReason),
    Goodbye,
    Stop,
    /// Its answers stand still.
    Unread,
}

fn unread(info: &Conn) -> Ended {
    info.seat.leave(CloseReason::Unread);
    tracing::debug!(peer = %info.peer, "closing a connection: its answer is not read");
    Ended::Cut
}

fn ended(info: &Conn, result: Result<(), Box<dyn Error + Send + Sync>>) -> Ended {
    let Err(error) = result else { return Ended::Written };
    tracing::debug!(peer = %info.peer, error, "connection ended");
    Ended::Failed
}

/// Returns when a connection should be closed: no whole head in time, or nothing asked for too long.
///
/// It looks twice per header timeout while no request is open, and not at all while one is: an idle watch costs nothing.
async fn tired(activity: &Activity, limits: &Limits) -> &'static str {
    let tick = (limits.header_timeout / 2).min(limits.idle_timeout);
    let mut idle_since = Instant::now();
    // The first head begins with the connection; a later one with its first byte.
    let mut head_since = Some(idle_since);
    let (mut bytes, mut requests) = (0, 0);
    loop {
        activity.emptied().await;
        let started = activity.requests();
        if started != requests {
            (requests, bytes) = (started, activity.bytes());
            (idle_since, head_since) = (Instant::now(), None);
        }
        sleep(tick).await;
        if activity.has_open() || activity.requests() != requests {
            continue;
        }
        let now = Instant::now();
        if !activity.speaks_h2() {
            if activity.bytes() > bytes {
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
