//! Sends requests to upstream as they come and gives its answers back as they come: nothing is collected, and who does not read is not read for.

use std::error::Error;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode, Uri};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::percent_decode_str;
use remote::{Authorization, Connector, Kubeconfig, Versions};
use thiserror::Error;

use super::headers::upgrade;
use super::identity::Manner;
use super::replay::{Replay, Source};

/// Streams on one HTTP/2 connection from which on another connection is made, so that a few slow readers do not hold the others' window.
const STREAMS_WANTED: usize = 64;
/// Streams on one connection at most: what Go's HTTP/2 server allows if nobody says otherwise is 250.
const STREAMS_MAX: usize = 240;
/// Times that a request is sent which upstream has not looked at.
const TRIES_MAX: u32 = 4;
/// Connections.
const LINES_MAX: usize = 64;
/// What upstream may send of one answer before it is read; as much as one of our own streams may hold (design §8).
const STREAM_WINDOW: u32 = 128 << 10;
/// The same of a whole connection: that all of its streams stand still holds up none of them.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * 256;
/// A connection without requests is closed after this time (Go's default for its clients).
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// A quiet HTTP/2 connection is pinged after this time, and is lost without an answer (client-go's numbers).
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Headers of an answer, and their bytes.
const HEADERS_MAX: usize = 512;
const HEADER_BYTES_MAX: usize = 1 << 20;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum UpstreamError {
    /// Nothing was sent: there is no connection.
    #[error("{0}")]
    Unreachable(String),
    /// Something may have been sent, and may have been carried out.
    #[error("{0}")]
    Broken(String),
    /// Nothing was sent: the path leads nowhere, or past upstream.
    #[error("the path cannot be handed on: {0}")]
    BadTarget(&'static str),
    /// Nothing was sent: as many requests are under way as may be.
    #[error("too many requests are handed on at once")]
    TooMany,
}

/// Upstream's answer.
#[derive(Debug)]
pub struct Answer {
    /// Its head and body.
    pub response: Response<Body>,
    /// Its connection, when it has changed the protocol as it was asked to.
    pub upgraded: Option<Upgraded>,
}

/// A connection whose protocol has changed.
#[derive(Debug)]
pub struct Upgraded {
    /// The connection, once the head of the answer is read.
    pub io: OnUpgrade,
    _place: Place,
}

/// The body of an answer. Its stream is given up when it is dropped.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    _place: Option<Place>,
}

/// Where upstream is, and how it learns who asks.
#[derive(Debug)]
pub struct Settings {
    /// The server, with our certificate or other credentials.
    pub at: Kubeconfig,
    /// What these are good for.
    pub manner: Manner,
}

/// See the file's header. `B` is the body of the requests.
pub struct Upstream<B> {
    at: Kubeconfig,
    manner: Manner,
    authorization: Authorization,
    lines: Mutex<Vec<Line<B>>>,
    connector: Connector,
    /// For requests that change the protocol of their connection.
    single: legacy::Client<Connector, Replay<B>>,
    /// Of those.
    singles: Arc<AtomicUsize>,
    /// It has said that whom we name is who asks.
    believed: AtomicBool,
}

/// A client that has one HTTP/2 connection, or several of HTTP/1.1.
struct Line<B> {
    client: legacy::Client<Connector, Replay<B>>,
    streams: Arc<AtomicUsize>,
}

/// One of the streams of a line.
#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(streams: &Arc<AtomicUsize>) -> Place {
        streams.fetch_add(1, Ordering::Relaxed);
        Place(Arc::clone(streams))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<B> Upstream<B>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// No connection is made yet.
    ///
    /// # Errors
    /// When our certificate and its key do not fit.
    pub fn new(Settings { at, manner }: Settings) -> Result<Self, String> {
        Ok(Self {
            authorization: at.authorization(),
            lines: Mutex::default(),
            connector: at.connector(Versions::All)?,
            single: client(at.connector(Versions::Http1)?),
            singles: Arc::default(),
            believed: AtomicBool::new(false),
            manner,
            at,
        })
    }

    /// How it learns who asks.
    #[must_use]
    pub fn manner(&self) -> Manner {
        self.manner
    }

    /// Whether it has said that whom we name is who asks. Until then nothing is sent in anybody's name, which might be ours there.
    #[must_use]
    pub fn is_believed(&self) -> bool {
        self.believed.load(Ordering::Relaxed)
    }

    /// What it has said.
    pub fn believe(&self, believed: bool) {
        self.believed.store(believed, Ordering::Relaxed);
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> Uri {
        self.at.url("")
    }

    /// Sends a request whose headers say all that upstream is to know but our own credentials; waits for the head of the answer. Its URI is a path with a query.
    /// Requests of nobody go over HTTP/1.1: a kube-apiserver takes no more requests on an HTTP/2 connection that has brought one (its
    /// `UnauthenticatedHTTP2DOSMitigation`). What upstream says it has not looked at is sent again.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn send(&self, mut request: Request<B>, of_nobody: bool) -> Result<Answer, UpstreamError> {
        *request.uri_mut() = self.target(request.uri())?;
        if self.manner == Manner::Impersonation
            && let Some(ours) = self.authorization.header().await.map_err(UpstreamError::Unreachable)?
        {
            request.headers_mut().insert(AUTHORIZATION, ours);
        }
        let wants_upgrade = upgrade(request.headers()).is_some();
        let is_apart = wants_upgrade || of_nobody;
        let (head, body) = request.into_parts();
        let mut body = Some(Replay::new(body));
        let source = body.as_ref().map(Replay::source);
        let mut tries = 0;
        let (mut response, place) = loop {
            let (client, place) = if is_apart { self.single()? } else { self.line()? };
            let mut request = Request::new(body.take().ok_or_else(|| UpstreamError::Broken("it was given up".to_owned()))?);
            (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) =
                (head.method.clone(), head.uri.clone(), head.headers.clone());
            let error = match client.request(request).await {
                Ok(response) => break (response, place),
                Err(error) => error,
            };
            tries += 1;
            body = source.as_ref().filter(|_| tries < TRIES_MAX && is_unread(&error)).and_then(Source::again);
            if body.is_none() {
                let why = deepest(&error);
                return Err(if error.is_connect() { UpstreamError::Unreachable(why) } else { UpstreamError::Broken(why) });
            }
        };
        let has_changed = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if has_changed && !wants_upgrade {
            return Err(UpstreamError::Broken("it has changed the protocol without being asked".to_owned()));
        }
        let (upgraded, place) =
            if has_changed { (Some(Upgraded { io: hyper::upgrade::on(&mut response), _place: place }), None) } else { (None, Some(place)) };
        Ok(Answer { response: response.map(|incoming| Body { incoming, _place: place }), upgraded })
    }

    /// The same path and query there.
    fn target(&self, uri: &Uri) -> Result<Uri, UpstreamError> {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        if !path.starts_with('/') {
            return Err(UpstreamError::BadTarget("it does not begin with a slash"));
        }
        let is_dots = |part: &str| matches!(&*percent_decode_str(part).decode_utf8_lossy(), "." | "..");
        if self.at.url("").path().len() > 1 && uri.path().split('/').any(is_dots) {
            return Err(UpstreamError::BadTarget("it has parts that are dots"));
        }
        format!("{}{path}", self.at.server()).parse().map_err(|_| UpstreamError::BadTarget("it is too long"))
    }

    fn single(&self) -> Result<(legacy::Client<Connector, Replay<B>>, Place), UpstreamError> {
        if self.singles.load(Ordering::Relaxed) >= LINES_MAX * STREAMS_MAX {
            return Err(UpstreamError::TooMany);
        }
        Ok((self.single.clone(), Place::take(&self.singles)))
    }

    /// The connection with the fewest streams, or a new one while there may be more.
    fn line(&self) -> Result<(legacy::Client<Connector, Replay<B>>, Place), UpstreamError> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let least = lines.iter().map(|line| line.streams.load(Ordering::Relaxed)).enumerate().min_by_key(|(_, streams)| *streams);
        let number = match least {
            Some((number, streams)) if streams < STREAMS_WANTED => number,
            Some((number, streams)) if lines.len() == LINES_MAX => {
                if streams >= STREAMS_MAX {
                    return Err(UpstreamError::TooMany);
                }
                number
            }
            _ => {
                lines.push(Line { client: client(self.connector.clone()), streams: Arc::default() });
                lines.len() - 1
            }
        };
        let line = &lines[number];
        Ok((line.client.clone(), Place::take(&line.streams)))
    }
}

fn client<B>(connector: Connector) -> legacy::Client<Connector, Replay<B>>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(STREAMS_WANTED)
        .http1_max_headers(HEADERS_MAX)
        .http1_max_buf_size(HEADER_BYTES_MAX)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_header_list_size(HEADER_BYTES_MAX as u32)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .build(connector)
}

/// Whether upstream says that it has not looked at the request: its stream came after the last one that a GOAWAY tells, or was refused (RFC 9113 §8.7).
fn is_unread(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let is_gone = error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
            return is_gone || error.is_reset() && error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        }
        next = error.source();
    }
    false
}

fn deepest(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.incoming).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
