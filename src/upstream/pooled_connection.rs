//! One HTTP/2 connection to upstream: made when a request first needs it, and again when it is over. Whoever needs it meanwhile waits for the same one.
//!
//! A pool that races for connections and finds out only then that one was enough now and then refuses requests of those that lost.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::{Connector, root_cause};
use fair::Share;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use http::Uri;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::replay::Replay;
use super::upstream::{HEADER_BYTES_MAX, IDLE_TIMEOUT};

/// What upstream may send of one answer before it is read; as much as one of our own streams may hold.
const STREAM_WINDOW: u32 = 128 << 10;
/// The same of a whole connection: that all of its streams stand still holds up none of them.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * 256;
/// A quiet connection is pinged after this time, and is lost without an answer (client-go's numbers).
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an upstream that speaks only HTTP/1.1 is assumed to go on so.
const HTTP1_FOR: Duration = Duration::from_secs(60);

/// Streams of one connection that are reset, until it takes no more requests: servers end a connection on which too many are (Envoy 500, nginx and Go by how
/// many are at work at once, h2 what comes too late for 1,024), and with it what others have on it.
pub(crate) const RESETS_MAX: usize = 100;

/// See the file's header. `B` is the body of the requests.
pub(crate) struct PooledConnection<B> {
    connection: Option<Connecting<B>>,
    streams: Arc<Streams>,
    used: Instant,
}

/// A connection in the making, or made, or why there is none.
pub(crate) type Connecting<B> = Shared<BoxFuture<'static, Result<Connection<B>, String>>>;

/// What was found at the other end.
pub(crate) enum Connection<B> {
    Http2(SendRequest<Replay<B>>),
    /// It speaks no HTTP/2, as was found out then.
    Http1(Instant),
}

impl<B> Clone for Connection<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Http2(sender) => Self::Http2(sender.clone()),
            Self::Http1(since) => Self::Http1(*since),
        }
    }
}

/// The streams of a connection.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: AtomicUsize,
    /// Of its connection, as far as it was we who reset them.
    reset: AtomicUsize,
}

impl Streams {
    /// Requests that are under way.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// A permit for a stream of a connection, which counts for its client.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    streams: Arc<Streams>,
    _share: Share,
}

impl StreamPermit {
    pub(crate) fn take(streams: &Arc<Streams>, share: Share) -> StreamPermit {
        streams.open.fetch_add(1, Ordering::Relaxed);
        StreamPermit { streams: Arc::clone(streams), _share: share }
    }

    /// Notes that its stream was reset.
    pub(crate) fn was_reset(&self) {
        self.streams.reset.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.streams.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<B> PooledConnection<B>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// No connection is made yet.
    pub(crate) fn new() -> Self {
        Self { connection: None, streams: Arc::default(), used: Instant::now() }
    }

    /// Requests that are under way.
    pub(crate) fn streams(&self) -> usize {
        self.streams.open()
    }

    /// Whether so many of its streams were reset that its connection should take no more. Those that are under way go on.
    pub(crate) fn is_worn(&self) -> bool {
        self.streams.reset.load(Ordering::Relaxed) >= RESETS_MAX
    }

    /// What is left of it when it takes no more requests.
    pub(crate) fn retire(self) -> Arc<Streams> {
        self.streams
    }

    /// Returns a permit, and the connection to wait for: the one there is, if it can still be used.
    pub(crate) fn take(&mut self, connector: &Connector, server: &Uri, share: Share) -> (Connecting<B>, StreamPermit) {
        self.used = Instant::now();
        let usable = self.connection.clone().filter(|connection| match connection.peek() {
            None => true,
            Some(Ok(Connection::Http2(sender))) => !sender.is_closed(),
            Some(Ok(Connection::Http1(since))) => since.elapsed() < HTTP1_FOR,
            Some(Err(_)) => false,
        });
        let connection = usable.unwrap_or_else(|| {
            // Permits of the lost one are given back to the counts that they were taken of.
            self.streams.reset.store(0, Ordering::Relaxed);
            // A task of its own: who began it may leave, and others wait for it.
            let made = tokio::spawn(connect(connector.clone(), server.clone()));
            let made = async { made.await.unwrap_or_else(|_| Err("the connection was given up".to_owned())) };
            made.boxed().shared()
        });
        self.connection = Some(connection.clone());
        (connection, StreamPermit::take(&self.streams, share))
    }

    /// Closes a connection that nobody has used for a while.
    pub(crate) fn close_idle(&mut self) {
        if self.streams() == 0 && self.used.elapsed() > IDLE_TIMEOUT {
            self.connection = None;
        }
    }
}

async fn connect<B>(mut connector: Connector, server: Uri) -> Result<Connection<B>, String>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let made = connector.connect(server).await.map_err(|error| root_cause(&*error))?;
    if !made.is_http2 {
        return Ok(Connection::Http1(Instant::now()));
    }
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .handshake(made.stream)
        .await
        .map_err(|error| root_cause(&error))?;
    // Each of its requests learns of its end.
    tokio::spawn(connection);
    Ok(Connection::Http2(sender))
}
