//! Sends requests to upstream as they come and gives its answers back as they come: nothing is collected, and who does not read is not read for.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::{Authorization, Connector, Kubeconfig, Versions, root_cause};
use fair::{Leaves, Share, Shares};
use http::{Request, Response, StatusCode, Uri};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use thiserror::Error;

use super::abandoned::Abandoned;
use super::headers::upgrade;
use super::identity::AuthMode;
use super::pooled_connection::{Connecting, Connection, PooledConnection, StreamPermit, Streams};
use super::replay::Replay;
use super::sending::{Owner, Sending, leave};

/// Streams on one HTTP/2 connection from which on another connection is made, so that a few slow readers do not hold the others' window.
const STREAMS_WANTED: usize = 64;
/// Streams on one connection at most: what Go's HTTP/2 server allows if nobody says otherwise is 250.
const STREAMS_MAX: usize = 240;
/// Times that a request is sent which upstream has not looked at.
const TRIES_MAX: u32 = 4;
/// Connections.
const CONNECTIONS_MAX: usize = 64;
/// Requests under way on connections that are shared, and as many on connections of their own. A client has at most seven times what is free of them, and what
/// lasts leaves a quarter free.
const REQUESTS_MAX: usize = CONNECTIONS_MAX * STREAMS_MAX;
/// All requests of nobody together have this part of the latter.
const NOBODYS_PART: usize = 10;
/// Connections that files are reserved for: those that requests share, and of those that have one of their own (upgrades, and requests of nobody) as many as
/// there are on a busy day. To reserve one for each place would leave clients half of the usual 20,000 files.
pub const CONNECTIONS_RESERVED: usize = CONNECTIONS_MAX + 1_024;
/// A connection without requests is closed after this time (Go's default for its clients).
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Headers of an answer over HTTP/1.1, and their bytes.
const HEADERS_MAX: usize = 512;
pub(crate) const HEADER_BYTES_MAX: usize = 1 << 20;

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
    #[error("the path cannot be forwarded: {0}")]
    BadTarget(&'static str),
    /// Nothing was sent: as many requests are under way as may be, or as this client may have.
    #[error("too many requests are forwarded at once")]
    TooMany,
    /// Nothing was sent: this client has given up too many requests lately.
    #[error("this client has given up too many requests, please try again later")]
    GivenUp(Duration),
}

/// The client of a request, as far as its connection depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// Who is charged for what is under way and what is given up: a user's name, or the address of who has none.
    pub name: &'a str,
    /// Nobody is named to upstream.
    pub is_nobody: bool,
    /// The answer has no end of its own.
    pub is_long: bool,
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
    _permit: StreamPermit,
}

/// The body of an answer. What is left of it when it is dropped is read if it is short; else its stream is reset.
#[derive(Debug)]
pub struct Body {
    incoming: Option<Incoming>,
    permit: Option<StreamPermit>,
    owner: Owner,
}

/// Where upstream is, and how requests to it are authenticated.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server, with our certificate or other credentials.
    pub at: Arc<Kubeconfig>,
    /// What these are good for. Where clients' own tokens are passed on they are for our own questions alone: what is forwarded goes over
    /// connections that show nobody.
    pub auth_mode: AuthMode,
}

/// See the file's header. `B` is the body of the requests.
pub struct Upstream<B> {
    at: Arc<Kubeconfig>,
    auth_mode: AuthMode,
    authorization: Arc<Authorization>,
    connections: Mutex<Vec<PooledConnection<B>>>,
    connector: Connector,
    connector_apart: Connector,
    /// For our own questions, with our own credentials.
    ours: Option<(Connector, Arc<Authorization>)>,
    /// Connections of HTTP/1.1: for requests that change the protocol of theirs, and to an upstream that speaks nothing else.
    single: legacy::Client<Connector, Replay<B>>,
    /// Of the former.
    singles: Arc<Streams>,
    /// Whose the requests are: on connections that are shared, on their own, and of these nobody's.
    shared: Arc<Shares>,
    apart: Arc<Shares>,
    nobodys: Arc<Shares>,
    /// What is under way on connections that take no more requests.
    retired: Mutex<Vec<Arc<Streams>>>,
    given_up: Arc<Abandoned>,
    /// It has been verified to honour the users that we name.
    verified: AtomicBool,
}

/// Why one sending of a request has no answer.
struct Unanswered {
    error: UpstreamError,
    /// It was not sent, or upstream says that it has not looked at it.
    is_unread: bool,
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
    pub fn new(Settings { at, auth_mode }: Settings) -> Result<Self, String> {
        let shows_nobody = auth_mode == AuthMode::OwnToken;
        let connector = |versions| if shows_nobody { at.connector_of_nobody(versions) } else { at.connector(versions) };
        let ours =
            (shows_nobody && at.has_identity()).then(|| Ok::<_, String>((at.connector(Versions::Http1)?, Arc::new(at.authorization()))));
        Ok(Self {
            ours: ours.transpose()?,
            authorization: Arc::new(at.authorization()),
            connections: Mutex::default(),
            connector: connector(Versions::All)?,
            connector_apart: connector(Versions::Http1)?,
            single: client(connector(Versions::Http1)?),
            singles: Arc::default(),
            shared: Shares::new(REQUESTS_MAX),
            apart: Shares::new(REQUESTS_MAX - REQUESTS_MAX / NOBODYS_PART),
            nobodys: Shares::new(REQUESTS_MAX / NOBODYS_PART),
            retired: Mutex::default(),
            given_up: Arc::default(),
            verified: AtomicBool::new(false),
            auth_mode,
            at,
        })
    }

    /// Returns the same with other settings. What is under way counts on for its clients; a server that was verified stays so, whatever our
    /// credentials are now.
    ///
    /// # Errors
    /// As of [`Upstream::new`].
    pub fn anew(&self, settings: Settings) -> Result<Self, String> {
        let new = Self::new(settings)?;
        new.set_verified(self.is_verified() && self.auth_mode == new.auth_mode && self.at.server() == new.at.server());
        Ok(Self {
            shared: self.shared.clone(),
            apart: self.apart.clone(),
            nobodys: self.nobodys.clone(),
            given_up: self.given_up.clone(),
            ..new
        })
    }

    /// Returns how requests are authenticated.
    #[must_use]
    pub fn auth_mode(&self) -> AuthMode {
        self.auth_mode
    }

    /// Whether upstream honours our impersonation. Until that is verified nothing is forwarded, because it could run with our own rights.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        self.verified.load(Ordering::Relaxed)
    }

    /// Sets whether that is verified.
    pub fn set_verified(&self, verified: bool) {
        self.verified.store(verified, Ordering::Relaxed);
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> Uri {
        self.at.url("")
    }

    /// Sends a request whose headers say all that upstream is to know but our own credentials; waits for the head of the answer. Its URI is a path with a
    /// query. Requests of nobody go over HTTP/1.1: a kube-apiserver takes no more requests on an HTTP/2 connection that has brought one (its
    /// `UnauthenticatedHTTP2DOSMitigation`). What upstream says it has not looked at is sent again.
    ///
    /// A request that is given up keeps its place until upstream is done with it; who gives up many at once has to pause.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn send(&self, mut request: Request<B>, client: Client<'_>) -> Result<Answer, UpstreamError> {
        if let Some(pause) = self.given_up.pause(client.name, Instant::now()) {
            return Err(UpstreamError::GivenUp(pause));
        }
        let owner = Owner { client: client.name.into(), given_up: Arc::clone(&self.given_up) };
        *request.uri_mut() = self.target(request.uri())?;
        let sent = match self.auth_mode {
            AuthMode::Impersonation => Some(self.authorization.apply(request.headers_mut()).await.map_err(UpstreamError::Unreachable)?),
            _ => None,
        };
        let wants_upgrade = upgrade(request.headers()).is_some();
        let is_apart = wants_upgrade || client.is_nobody;
        let (head, body) = request.into_parts();
        let body = Replay::new(body);
        let source = body.source();
        let with = |body| {
            let mut request = Request::new(body);
            (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) =
                (head.method.clone(), head.uri.clone(), head.headers.clone());
            request
        };
        let (mut request, mut tries) = (with(body), 0);
        let (mut response, permit) = loop {
            let share = self.share(client, is_apart, wants_upgrade)?;
            let Unanswered { error, is_unread } = match self.once(request, is_apart, share, &owner).await {
                Ok(answer) => break answer,
                Err(unanswered) => unanswered,
            };
            tries += 1;
            let again = if is_unread && tries < TRIES_MAX { source.again() } else { None };
            request = again.map(with).ok_or(error)?;
        };
        if let Some(sent) = sent.filter(|_| response.status() == StatusCode::UNAUTHORIZED) {
            // The body may be gone, so this answer counts; the next request is sent with what comes.
            let authorization = self.authorization.clone();
            tokio::spawn(async move { authorization.renew(&sent).await });
        }
        let has_changed = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if has_changed && !wants_upgrade {
            return Err(UpstreamError::Broken("it has changed the protocol without being asked".to_owned()));
        }
        let (upgraded, permit) = if has_changed {
            (Some(Upgraded { io: hyper::upgrade::on(&mut response), _permit: permit }), None)
        } else {
            (None, Some(permit))
        };
        let response = response.map(|incoming| Body { incoming: Some(incoming), permit, owner });
        Ok(Answer { response, upgraded })
    }

    /// Sends it over a line, or apart; or apart because upstream speaks no HTTP/2.
    async fn once(
        &self,
        request: Request<Replay<B>>,
        is_apart: bool,
        share: Share,
        owner: &Owner,
    ) -> Result<(Response<Incoming>, StreamPermit), Unanswered> {
        let lost = |error| Unanswered { error, is_unread: false };
        let permit = if is_apart {
            StreamPermit::take(&self.singles, share)
        } else {
            let (connecting, permit) = self.connection(share).map_err(lost)?;
            match connecting.await.map_err(|why| lost(UpstreamError::Unreachable(why)))? {
                Connection::Http1(_) => permit,
                Connection::Http2(mut sender) => {
                    let sent = async move {
                        sender.try_send_request(request).await.map_err(|mut failed| Unanswered {
                            error: UpstreamError::Broken(root_cause(failed.error())),
                            is_unread: failed.take_message().is_some() || is_unread(failed.error()),
                        })
                    };
                    return Sending::new(sent, permit, owner).await;
                }
            }
        };
        let sent = self.single.request(request);
        let sent = async move {
            sent.await.map_err(|failed| {
                let why = root_cause(&failed);
                lost(if failed.is_connect() { UpstreamError::Unreachable(why) } else { UpstreamError::Broken(why) })
            })
        };
        Sending::new(sent, permit, owner).await
    }

    /// How a connection for our own questions is made, and what is sent along.
    pub(crate) fn ours(&self) -> (Connector, Option<Arc<Authorization>>) {
        match &self.ours {
            Some((connector, authorization)) => (connector.clone(), Some(authorization.clone())),
            None if self.auth_mode == AuthMode::Impersonation => (self.connector_apart.clone(), Some(self.authorization.clone())),
            None => (self.connector_apart.clone(), None),
        }
    }

    pub(crate) fn server(&self) -> String {
        self.at.server().to_owned()
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

    /// What a request takes of what all clients may have under way.
    fn share(&self, client: Client<'_>, is_apart: bool, wants_upgrade: bool) -> Result<Share, UpstreamError> {
        let shares = match (client.is_nobody, is_apart) {
            (true, _) => &self.nobodys,
            (false, true) => &self.apart,
            (false, false) => &self.shared,
        };
        let leaves = if client.is_long || wants_upgrade { Leaves::Quarter } else { Leaves::Nothing };
        shares.take(client.name, 1, leaves).ok_or(UpstreamError::TooMany)
    }

    /// The connection with the fewest streams, or a new one while there may be more.
    fn connection(&self, share: Share) -> Result<(Connecting<B>, StreamPermit), UpstreamError> {
        let mut connections = self.connections.lock();
        connections.iter_mut().for_each(PooledConnection::close_idle);
        self.retire(&mut connections);
        let least = connections.iter().map(PooledConnection::streams).enumerate().min_by_key(|(_, streams)| *streams);
        let number = match least {
            Some((number, streams)) if streams < STREAMS_WANTED => number,
            Some((number, streams)) if connections.len() == CONNECTIONS_MAX => {
                if streams >= STREAMS_MAX {
                    return Err(UpstreamError::TooMany);
                }
                number
            }
            _ => {
                connections.push(PooledConnection::new());
                connections.len() - 1
            }
        };
        Ok(connections[number].take(&self.connector, &self.at.url(""), share))
    }

    /// Lets those take no more requests on which many streams were reset. What is under way on them goes on.
    fn retire(&self, connections: &mut Vec<PooledConnection<B>>) {
        let mut retired = self.retired.lock();
        retired.retain(|streams| streams.open() > 0);
        while retired.len() < CONNECTIONS_MAX
            && let Some(worn) = connections.iter().position(PooledConnection::is_worn)
        {
            retired.push(connections.swap_remove(worn).retire());
        }
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

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let frame = std::task::ready!(Pin::new(incoming).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.incoming = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let (false, Some(incoming), Some(permit)) = (http_body::Body::is_end_stream(self), self.incoming.take(), self.permit.take()) {
            leave(incoming, permit, &self.owner);
        }
    }
}

#[cfg(test)]
mod tests;
