//! Sends requests to upstream as they come and gives its answers back as they come: nothing is collected, and who does not read is not read for.

use std::error::Error;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::{Authorization, Connector, Kubeconfig, Versions, deepest};
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode, Uri};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::percent_decode_str;
use thiserror::Error;

use super::given_up::{Owner, Sending, leave};
use super::headers::upgrade;
use super::identity::Manner;
use super::line::{Connecting, Connection, Line, Place, Streams};
use super::patience::GivenUp;
use super::replay::Replay;

/// Streams on one HTTP/2 connection from which on another connection is made, so that a few slow readers do not hold the others' window.
const STREAMS_WANTED: usize = 64;
/// Streams on one connection at most: what Go's HTTP/2 server allows if nobody says otherwise is 250.
const STREAMS_MAX: usize = 240;
/// Times that a request is sent which upstream has not looked at.
const TRIES_MAX: u32 = 4;
/// Connections.
const LINES_MAX: usize = 64;
/// All connections: those that requests share, and as many as there may be streams on these that have one of their own.
pub const CONNECTIONS_MAX: usize = LINES_MAX + LINES_MAX * STREAMS_MAX;
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
    #[error("the path cannot be handed on: {0}")]
    BadTarget(&'static str),
    /// Nothing was sent: as many requests are under way as may be.
    #[error("too many requests are handed on at once")]
    TooMany,
    /// Nothing was sent: this client has given up too many requests lately.
    #[error("this client has given up too many requests, please try again later")]
    GivenUp(Duration),
}

/// Who asks, as far as it matters for the way there.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// Who is charged for what is given up: a user's name, or the address of who has none.
    pub name: &'a str,
    /// Nobody is named to upstream.
    pub is_nobody: bool,
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

/// The body of an answer. What is left of it when it is dropped is read if it is short; else its stream is reset.
#[derive(Debug)]
pub struct Body {
    incoming: Option<Incoming>,
    place: Option<Place>,
    owner: Owner,
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
    connector_apart: Connector,
    /// Connections of HTTP/1.1: for requests that change the protocol of theirs, and to an upstream that speaks nothing else.
    single: legacy::Client<Connector, Replay<B>>,
    /// Of the former.
    singles: Arc<Streams>,
    /// What is under way on connections that take no more requests.
    retired: Mutex<Vec<Arc<Streams>>>,
    given_up: Arc<GivenUp>,
    /// It has said that whom we name is who asks.
    believed: AtomicBool,
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
    pub fn new(Settings { at, manner }: Settings) -> Result<Self, String> {
        Ok(Self {
            authorization: at.authorization(),
            lines: Mutex::default(),
            connector: at.connector(Versions::All)?,
            connector_apart: at.connector(Versions::Http1)?,
            single: client(at.connector(Versions::Http1)?),
            singles: Arc::default(),
            retired: Mutex::default(),
            given_up: Arc::default(),
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
        if self.manner == Manner::Impersonation
            && let Some(ours) = self.authorization.header().await.map_err(UpstreamError::Unreachable)?
        {
            request.headers_mut().insert(AUTHORIZATION, ours);
        }
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
        let (mut response, place) = loop {
            let Unanswered { error, is_unread } = match self.once(request, is_apart, &owner).await {
                Ok(answer) => break answer,
                Err(unanswered) => unanswered,
            };
            tries += 1;
            let again = if is_unread && tries < TRIES_MAX { source.again() } else { None };
            request = again.map(with).ok_or(error)?;
        };
        let has_changed = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if has_changed && !wants_upgrade {
            return Err(UpstreamError::Broken("it has changed the protocol without being asked".to_owned()));
        }
        let (upgraded, place) =
            if has_changed { (Some(Upgraded { io: hyper::upgrade::on(&mut response), _place: place }), None) } else { (None, Some(place)) };
        let response = response.map(|incoming| Body { incoming: Some(incoming), place, owner });
        Ok(Answer { response, upgraded })
    }

    /// Sends it over a line, or apart; or apart because upstream speaks no HTTP/2.
    async fn once(&self, request: Request<Replay<B>>, is_apart: bool, owner: &Owner) -> Result<(Response<Incoming>, Place), Unanswered> {
        let lost = |error| Unanswered { error, is_unread: false };
        let place = if is_apart {
            self.apart().map_err(lost)?
        } else {
            let (connecting, place) = self.line().map_err(lost)?;
            match connecting.await.map_err(|why| lost(UpstreamError::Unreachable(why)))? {
                Connection::Http1(_) => place,
                Connection::Http2(mut sender) => {
                    let sent = async move {
                        sender.try_send_request(request).await.map_err(|mut failed| Unanswered {
                            error: UpstreamError::Broken(deepest(failed.error())),
                            is_unread: failed.take_message().is_some() || is_unread(failed.error()),
                        })
                    };
                    return Sending::new(sent, place, owner).await;
                }
            }
        };
        let sent = self.single.request(request);
        let sent = async move {
            sent.await.map_err(|failed| {
                let why = deepest(&failed);
                lost(if failed.is_connect() { UpstreamError::Unreachable(why) } else { UpstreamError::Broken(why) })
            })
        };
        Sending::new(sent, place, owner).await
    }

    pub(crate) async fn authorization(&self) -> Result<Option<http::HeaderValue>, String> {
        self.authorization.header().await
    }

    pub(crate) fn connector_apart(&self) -> Connector {
        self.connector_apart.clone()
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

    /// A place for a request that has a connection of its own.
    fn apart(&self) -> Result<Place, UpstreamError> {
        if self.singles.open() >= LINES_MAX * STREAMS_MAX {
            return Err(UpstreamError::TooMany);
        }
        Ok(Place::take(&self.singles))
    }

    /// The connection with the fewest streams, or a new one while there may be more.
    fn line(&self) -> Result<(Connecting<B>, Place), UpstreamError> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter_mut().for_each(Line::rest);
        self.retire(&mut lines);
        let least = lines.iter().map(Line::streams).enumerate().min_by_key(|(_, streams)| *streams);
        let number = match least {
            Some((number, streams)) if streams < STREAMS_WANTED => number,
            Some((number, streams)) if lines.len() == LINES_MAX => {
                if streams >= STREAMS_MAX {
                    return Err(UpstreamError::TooMany);
                }
                number
            }
            _ => {
                lines.push(Line::new());
                lines.len() - 1
            }
        };
        Ok(lines[number].take(&self.connector, &self.at.url("")))
    }

    /// Lets those take no more requests on which many streams were reset. What is under way on them goes on.
    fn retire(&self, lines: &mut Vec<Line<B>>) {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.retain(|streams| streams.open() > 0);
        while retired.len() < LINES_MAX
            && let Some(worn) = lines.iter().position(Line::is_worn)
        {
            retired.push(lines.swap_remove(worn).retire());
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
        if let (false, Some(incoming), Some(place)) = (http_body::Body::is_end_stream(self), self.incoming.take(), self.place.take()) {
            leave(incoming, place, &self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use client::testing::{Reaction, Server};
    use http_body_util::{BodyExt, Full};
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::patience::GIVEN_UP_MAX;

    const BODY: Bytes = Bytes::from_static(b"abc");
    const SOON: Duration = Duration::from_secs(30);
    const JANE: Client<'_> = Client { name: "jane", is_nobody: false };
    const JOE: Client<'_> = Client { name: "joe", is_nobody: false };

    async fn server(protocols: &[&[u8]]) -> Server {
        Server::speaking(protocols, |asked| Reaction::Answer(200, "text/plain", asked.body.clone())).await
    }

    fn upstream(server: &Server) -> Arc<Upstream<Full<Bytes>>> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(server.kubeconfig("").as_bytes()).expect("written");
        let at = Kubeconfig::read("--upstream-kubeconfig", file.path()).expect("a kubeconfig");
        Arc::new(Upstream::new(Settings { at, manner: Manner::FrontProxy }).expect("an upstream"))
    }

    async fn echoed(upstream: &Upstream<Full<Bytes>>) -> Result<Bytes, String> {
        let request = Request::builder().uri("/a").body(Full::new(BODY)).expect("a request");
        let answer = upstream.send(request, JANE).await.map_err(|error| error.to_string())?;
        Ok(answer.response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes())
    }

    /// As many come at once as one connection takes, and a few of them leave: nobody is refused, and nobody makes a connection of his own.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_crowd_waits_for_one_connection() {
        let server = server(&[b"h2", b"http/1.1"]).await;
        for round in 1..=20 {
            let upstream = upstream(&server);
            let crowd: Vec<_> = (0..STREAMS_WANTED as u64)
                .map(|nth| {
                    let upstream = Arc::clone(&upstream);
                    let patience = if nth % 8 == 0 { Duration::from_micros(round * nth * 10) } else { SOON };
                    tokio::spawn(async move {
                        sleep(Duration::from_micros(round * nth)).await;
                        timeout(patience, echoed(&upstream))
                            .await
                            .unwrap_or_else(|_| if patience < SOON { Ok(BODY) } else { Err("no answer".to_owned()) })
                    })
                })
                .collect();
            for one in crowd {
                assert_eq!(one.await.expect("no panic"), Ok(BODY));
            }
            assert_eq!(server.connections() as u64, round);
        }
    }

    #[tokio::test]
    async fn a_lost_connection_is_made_anew() {
        let server = server(&[b"h2"]).await;
        let upstream = upstream(&server);
        for lost in 1..=5 {
            assert_eq!((echoed(&upstream).await, server.connections()), (Ok(BODY), lost));
            server.cut();
            // What is sent before the end is known is lost.
            while server.connections() == lost {
                let _ = echoed(&upstream).await;
            }
        }
    }

    #[tokio::test]
    async fn an_upstream_of_http1_is_asked_in_its_way() {
        let server = server(&[b"http/1.1"]).await;
        let upstream = upstream(&server);
        for _ in 0..5 {
            assert_eq!(echoed(&upstream).await, Ok(BODY));
        }
        // One to find out, one to ask on.
        assert_eq!(server.connections(), 2);
    }

    #[tokio::test]
    async fn nobody_there_is_found_again_and_again() {
        let server = server(&[b"h2"]).await;
        let upstream = upstream(&server);
        drop(server);
        for _ in 0..3 {
            assert!(echoed(&upstream).await.is_err_and(|why| why.contains("refused")));
        }
    }

    fn asked() -> Request<Full<Bytes>> {
        Request::builder().uri("/a").body(Full::new(BODY)).expect("a request")
    }

    fn open(upstream: &Upstream<Full<Bytes>>) -> usize {
        upstream.lines.lock().expect("no panic").iter().map(Line::streams).sum()
    }

    /// Each takes a while; all of those who have asked leave at once.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_is_given_up_keeps_its_place_until_upstream_is_done() {
        let server = Server::speaking(&[b"h2"], |asked| {
            Reaction::After(Duration::from_millis(700), Box::new(Reaction::Answer(200, "text/plain", asked.body.clone())))
        })
        .await;
        let upstream = upstream(&server);
        let crowd: Vec<_> = (0..100)
            .map(|_| {
                let upstream = Arc::clone(&upstream);
                tokio::spawn(async move { timeout(Duration::from_millis(300), upstream.send(asked(), JANE)).await.is_ok() })
            })
            .collect();
        for one in crowd {
            assert!(!one.await.expect("no panic"), "it was given up");
        }
        assert_eq!(open(&upstream), 100, "upstream is at work on them");
        let patience = Instant::now() + SOON;
        while open(&upstream) > 0 && Instant::now() < patience {
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!((open(&upstream), server.asked().len()), (0, 100), "each has ended");
        assert!(upstream.lines.lock().expect("no panic").iter().all(|line| !line.is_worn()));
    }

    /// Answers without an end can only be reset.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn resets_wear_no_connection_out() {
        let server = Server::speaking(&[b"h2"], |_| Reaction::Giant).await;
        let upstream = upstream(&server);
        let of_joe = upstream.send(asked(), JOE).await.expect("an answer");
        let has_worn = || upstream.lines.lock().expect("no panic").iter().any(Line::is_worn);
        // Each of somebody else: nobody has to pause.
        let patience = Instant::now() + SOON * 4;
        for nth in 0.. {
            if has_worn() || Instant::now() > patience {
                break;
            }
            let name = nth.to_string();
            drop(upstream.send(asked(), Client { name: &name, is_nobody: false }).await.expect("an answer"));
        }
        assert!(has_worn());
        let more = upstream.send(asked(), JOE).await.expect("an answer");
        assert!(!has_worn() && !upstream.retired.lock().expect("no panic").is_empty(), "it takes no more requests");
        let mut body = of_joe.response.into_body();
        assert!(body.frame().await.is_some_and(|frame| frame.is_ok()), "what is under way on it goes on");
        drop((more, body));
    }

    #[tokio::test]
    async fn who_has_given_up_too_much_pauses_and_others_do_not() {
        let server = server(&[b"h2"]).await;
        let upstream = upstream(&server);
        (0..GIVEN_UP_MAX * 4).for_each(|_| upstream.given_up.count("jane", Instant::now()));
        let refused = upstream.send(asked(), JANE).await;
        assert!(matches!(refused, Err(UpstreamError::GivenUp(pause)) if pause > Duration::from_secs(10)), "{refused:?}");
        assert_eq!(server.connections(), 0, "upstream hears nothing of it");
        upstream.send(asked(), JOE).await.expect("an answer");
    }
}
