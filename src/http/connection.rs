//! One connection from its first byte to its last: hyper with our limits, and a watch over connections that ask for nothing. Knows no route.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::listen::ConnInfo;
use super::websocket::Handshake;
use crate::config::Connections;
use crate::telemetry::contained;

/// Unsent bytes that one HTTP/2 stream may hold: one frame buffer of design §8. With the streams of a connection this bounds its memory.
const STREAM_SEND_BYTES_MAX: usize = 128 << 10;

/// A peer that answers no HTTP/2 ping is gone: asked every 30 s, as kube-apiserver does.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// After a goodbye, how long a connection without open requests may take to notice.
const GOODBYE: Duration = Duration::from_secs(1);

/// Each stream of HTTP/2 is a task, and its panic ends it alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        tokio::spawn(contained(stream));
    }
}

/// hyper's builder with our limits; made once, shared by all connections.
pub(super) fn builder(limits: &Connections) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(Streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        // Slow heads are `tired`'s: hyper's own timer would also end idle keep-alive connections, and does not run before the first byte.
        .header_read_timeout(None)
        .max_buf_size(limits.header_bytes_max);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(limits.streams_max)
        .max_send_buf_size(STREAM_SEND_BYTES_MAX)
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX));
    builder
}

/// Serves one connection until either side ends it, it is idle or slow for too long, or `stop` turns true and its requests are done. When it has become
/// a WebSocket, until the watch ends that it is for: it stays one of the connections that are counted, and that a stop waits for.
pub(super) async fn serve<IO, F, Fut, B>(
    io: IO,
    builder: &auto::Builder<Streams>,
    limits: &Connections,
    info: Arc<ConnInfo>,
    service: F,
    stop: watch::Receiver<bool>,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>, Arc<ConnInfo>) -> Fut,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let followed = Followed::default();
    requests(io, builder, limits, info, service, stop, &followed).await;
    let handshake = followed.lock().expect("no holder panics").take();
    if let Some(socket) = handshake.and_then(|handshake| handshake.socket()) {
        // Boxed: few connections need room for it.
        Box::pin(socket.run()).await;
    }
}

/// What follows the requests of a connection.
type Followed = Arc<Mutex<Option<Handshake>>>;

async fn requests<IO, F, Fut, B>(
    io: IO,
    builder: &auto::Builder<Streams>,
    limits: &Connections,
    info: Arc<ConnInfo>,
    service: F,
    mut stop: watch::Receiver<bool>,
    followed: &Followed,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>, Arc<ConnInfo>) -> Fut,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let pulse = Arc::new(Pulse::default());
    let io = TokioIo::new(Felt { io, pulse: Arc::clone(&pulse) });
    let service = service_fn(|request| {
        let open = Open::new(&pulse);
        let answer = service(request, Arc::clone(&info));
        let followed = Arc::clone(followed);
        async move {
            let answer = answer.await;
            if let Some(handshake) = answer.extensions().get::<Handshake>() {
                *followed.lock().expect("no holder panics") = Some(handshake.clone());
            }
            Ok::<_, Infallible>(answer.map(|body| Held { body, _open: open }))
        }
    });
    let mut connection = pin!(builder.serve_connection_with_upgrades(io, service));
    tokio::select! {
        result = connection.as_mut() => return ended(&info, result),
        why = tired(&pulse, limits) => tracing::debug!(peer = %info.peer, why, "closing a connection"),
        _ = stop.wait_for(|stopped| *stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    loop {
        if let Ok(result) = timeout(GOODBYE, connection.as_mut()).await {
            return ended(&info, result);
        }
        if pulse.open.load(Ordering::Acquire) == 0 {
            return;
        }
    }
}

fn ended(info: &ConnInfo, result: Result<(), Box<dyn Error + Send + Sync>>) {
    if let Err(error) = result {
        tracing::debug!(peer = %info.peer, error, "connection ended");
    }
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
        while pulse.open.load(Ordering::Acquire) > 0 {
            pulse.emptied.notified().await;
        }
        let started = pulse.requests.load(Ordering::Acquire);
        if started != requests {
            (requests, bytes) = (started, pulse.bytes.load(Ordering::Acquire));
            (idle_since, head_since) = (Instant::now(), None);
        }
        sleep(tick).await;
        if pulse.open.load(Ordering::Acquire) > 0 || pulse.requests.load(Ordering::Acquire) != requests {
            continue;
        }
        let now = Instant::now();
        if !pulse.speaks_h2() {
            if pulse.bytes.load(Ordering::Acquire) > bytes {
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

/// What a connection is doing, as its stream and its requests see it.
#[derive(Debug, Default)]
struct Pulse {
    /// Requests whose answer is not sent whole.
    open: AtomicUsize,
    /// Requests that came so far.
    requests: AtomicU64,
    /// Bytes read so far.
    bytes: AtomicU64,
    /// Whether the first byte was that of an HTTP/2 preface, which no HTTP/1.1 method that we serve shares.
    preface: AtomicBool,
    /// Told when `open` returns to 0.
    emptied: Notify,
}

impl Pulse {
    /// The whole preface of 24 bytes came.
    fn speaks_h2(&self) -> bool {
        self.preface.load(Ordering::Acquire) && self.bytes.load(Ordering::Acquire) >= 24
    }

    fn read(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.bytes.fetch_add(bytes.len() as u64, Ordering::AcqRel) == 0 && bytes.starts_with(b"PRI") {
            self.preface.store(true, Ordering::Release);
        }
    }
}

/// Counts a request as open until it is dropped.
#[derive(Debug)]
struct Open(Arc<Pulse>);

impl Open {
    fn new(pulse: &Arc<Pulse>) -> Open {
        pulse.open.fetch_add(1, Ordering::AcqRel);
        pulse.requests.fetch_add(1, Ordering::AcqRel);
        Open(Arc::clone(pulse))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.emptied.notify_one();
        }
    }
}

/// A body that keeps its request open until it is sent.
#[derive(Debug)]
struct Held<B> {
    body: B,
    _open: Open,
}

impl<B: Body + Unpin> Body for Held<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream whose reads are felt by the pulse.
#[derive(Debug)]
struct Felt<IO> {
    io: IO,
    pulse: Arc<Pulse>,
}

impl<IO: AsyncRead + Unpin> AsyncRead for Felt<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        self.pulse.read(&buf.filled()[before..]);
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Felt<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
