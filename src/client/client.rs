//! Sends a request to another server and takes its whole answer, or one that goes on line by line, over HTTP/1.1, within limits. Connections are kept.
//!
//! hyper-util's pool races for connections where both versions are offered, and refuses some of those that lose.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::connector::{Connector, Versions};
use super::credentials::{Authorization, SentCredentials};
use super::kubeconfig::{Identity, Kubeconfig};
use super::login::{Derived, Login};
use super::trust::{Trust, settings};
use x509::handshake;

/// A connection without requests is closed after this time (Go's default for its clients).
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// What an answer shows of the text that came with an error (client-go's number).
const ERROR_TEXT_BYTES_MAX: usize = 2048;

/// What one client may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the request to the last byte of the answer, the wait for a turn included.
    pub timeout: Duration,
    /// Bytes of an answer's body.
    pub answer_bytes_max: usize,
    /// Requests at once; others wait for their turn.
    pub concurrent_max: usize,
}

/// Why there is no answer. One line; the client may choose what to do, see [`super::retried`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    /// It was not sent, for want of credentials.
    #[error("{0}")]
    Credentials(String),
    /// The time is over.
    #[error("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    TimedOut,
    /// The connection was lost after it had been made.
    #[error("{0}")]
    Lost(String),
    /// There is no connection, or what comes is no HTTP.
    #[error("{0}")]
    Failed(String),
    /// The answer has more bytes than [`Limits::answer_bytes_max`].
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    /// There is no room for the answer now, of [`Client::post_counted`].
    #[error("there is no room for the answer")]
    NoRoom,
}

/// A whole answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// What comes of a question whose answer goes on.
pub enum Streamed {
    /// It has begun.
    Ndjson(NdjsonStream),
    /// There is another one, with a status that means an error.
    Refused(Answer),
}

/// An answer that goes on, line by line.
pub struct NdjsonStream {
    headers: HeaderMap,
    body: Incoming,
    buffer: BytesMut,
    line_bytes_max: usize,
}

impl NdjsonStream {
    /// The headers of the answer.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The next line, without its end; none after the last one. What follows the last end of a line is none. Waits as long as the server is silent.
    ///
    /// # Errors
    /// The connection is lost, or a line is too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.buffer[looked..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(looked + end + 1).freeze();
                return Ok(Some(line.slice(..looked + end)));
            }
            looked = self.buffer.len();
            if looked > self.line_bytes_max {
                return Err(CallError::TooLarge(self.line_bytes_max));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.buffer.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
                Some(Err(error)) => return Err(CallError::Lost(root_cause(&error))),
                None => return Ok(None),
            }
        }
    }
}

/// Connections, and who we are on them.
struct Link {
    http: legacy::Client<Connector, Full<Bytes>>,
    authorization: Authorization,
}

enum Links {
    /// These for ever.
    Fixed(Arc<Link>),
    /// Those of a login as it is now.
    Login(Derived<Link>),
}

/// See the file's header.
pub struct Client {
    link: Links,
    limits: Limits,
    turns: Semaphore,
    /// What requests name as their host, if that is not where they are sent.
    host: Option<HeaderValue>,
}

impl Link {
    fn over(connector: Connector, authorization: Authorization, limits: Limits) -> Link {
        let http = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(limits.concurrent_max)
            .build(connector);
        Link { http, authorization }
    }
}

impl Links {
    fn now(&self) -> Arc<Link> {
        match self {
            Links::Fixed(link) => link.clone(),
            Links::Login(link) => link.now(),
        }
    }
}

impl Client {
    /// A client of the server of a kubeconfig file, as it is read once.
    ///
    /// # Errors
    /// When its certificate and key do not fit.
    pub fn of(config: &Kubeconfig, limits: Limits) -> Result<Client, String> {
        Ok(Client::over(config.connector(Versions::Http1)?, config.authorization(), limits))
    }

    /// A client of the server of a kubeconfig file, which follows the file. Its requests go to [`Login::url`].
    ///
    /// # Errors
    /// When its certificate and key do not fit.
    pub fn following(login: &Arc<Login>, limits: Limits) -> Result<Client, String> {
        let link = Derived::new(login.clone(), move |config, _| {
            Ok(Link::over(config.connector(Versions::Http1)?, config.authorization(), limits))
        });
        Ok(Client::with(Links::Login(link?), limits))
    }

    /// A client of HTTPS servers that these are trusted for, without credentials.
    ///
    /// # Errors
    /// When a certificate is none.
    pub fn trusting(trust: &Trust, limits: Limits) -> Result<Client, String> {
        Client::known(trust, &Identity::default(), limits)
    }

    /// A client of HTTPS servers that these are trusted for, at which it is this one.
    ///
    /// # Errors
    /// When a certificate is none.
    pub fn known(trust: &Trust, identity: &Identity, limits: Limits) -> Result<Client, String> {
        let connector = Connector::of_tls(settings(trust, identity.certificate.as_deref())?, None);
        Ok(Client::over(connector, identity.authorization(), limits))
    }

    /// A client of the Service of this name and port, wherever it is found: its certificate has to be of that name, and requests name it as their host.
    ///
    /// # Errors
    /// When a certificate is none, or the name cannot be a host's.
    pub fn of_service(trust: &Trust, (name, port): (&str, u16), identity: &Identity, limits: Limits) -> Result<Client, String> {
        let server_name = ServerName::try_from(name.to_owned()).map_err(|error| format!("{name}: {error}"))?;
        let connector = Connector::of_tls(settings(trust, identity.certificate.as_deref())?, Some(server_name));
        let host = HeaderValue::from_str(&format!("{name}:{port}")).map_err(|error| format!("{name}: {error}"))?;
        let client = Client::over(connector, identity.authorization(), limits);
        Ok(Client { host: Some(host), ..client })
    }

    fn over(connector: Connector, authorization: Authorization, limits: Limits) -> Client {
        Client::with(Links::Fixed(Arc::new(Link::over(connector, authorization, limits))), limits)
    }

    fn with(link: Links, limits: Limits) -> Client {
        Client { link, limits, turns: Semaphore::new(limits.concurrent_max), host: None }
    }

    /// Posts JSON.
    ///
    /// # Errors
    /// When no answer came; one with a status that means an error is an answer.
    pub async fn post(&self, url: &Uri, json: Bytes) -> Result<Answer, CallError> {
        self.call(Method::POST, url, json).await
    }

    /// Posts JSON; `count` is called with the number of bytes of each part of the answer's body that comes, and may say that there is no room for it.
    ///
    /// # Errors
    /// As of [`Client::post`].
    pub async fn post_counted(&self, url: &Uri, json: Bytes, count: &mut (dyn FnMut(usize) -> bool + Send)) -> Result<Answer, CallError> {
        let sent = async {
            let _turn = self.turns.acquire().await;
            let (head, mut body) = self.send(Method::POST, url, json).await?.into_parts();
            let mut whole = BytesMut::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| self.failure(&error, &Method::POST, url))?;
                let Ok(data) = frame.into_data() else { continue };
                if whole.len() + data.len() > self.limits.answer_bytes_max {
                    return Err(CallError::TooLarge(self.limits.answer_bytes_max));
                }
                if !count(data.len()) {
                    return Err(CallError::NoRoom);
                }
                whole.extend_from_slice(&data);
            }
            Ok(Answer { status: head.status, headers: head.headers, body: whole.freeze() })
        };
        timeout(self.limits.timeout, sent).await.unwrap_or(Err(CallError::TimedOut))
    }

    /// Gets JSON.
    ///
    /// # Errors
    /// As of [`Client::post`].
    pub async fn get(&self, url: &Uri) -> Result<Answer, CallError> {
        self.call(Method::GET, url, Bytes::new()).await
    }

    /// Gets an answer that goes on, a watch: of these limits, the time is for its head, and the bytes are those of a line. It takes no turn.
    ///
    /// # Errors
    /// As of [`Client::post`].
    pub async fn stream(&self, url: &Uri) -> Result<Streamed, CallError> {
        let begun = async {
            let answer = self.send(Method::GET, url, Bytes::new()).await?;
            if answer.status().is_success() {
                let (head, body) = answer.into_parts();
                return Ok(Streamed::Ndjson(NdjsonStream {
                    headers: head.headers,
                    body,
                    buffer: BytesMut::new(),
                    line_bytes_max: self.limits.answer_bytes_max,
                }));
            }
            self.whole(answer, &Method::GET, url).await.map(Streamed::Refused)
        };
        timeout(self.limits.timeout, begun).await.unwrap_or(Err(CallError::TimedOut))
    }

    async fn call(&self, method: Method, url: &Uri, body: Bytes) -> Result<Answer, CallError> {
        let sent = async {
            let _turn = self.turns.acquire().await;
            let answer = self.send(method.clone(), url, body).await?;
            self.whole(answer, &method, url).await
        };
        timeout(self.limits.timeout, sent).await.unwrap_or(Err(CallError::TimedOut))
    }

    /// Sends it; once more where the server refuses our credentials (401) and there are others now.
    async fn send(&self, method: Method, url: &Uri, body: Bytes) -> Result<Response<Incoming>, CallError> {
        let link = self.link.now();
        let (answer, sent) = self.send_over(&link, method.clone(), url, body.clone()).await?;
        if answer.status() == StatusCode::UNAUTHORIZED && link.authorization.renew(&sent).await {
            return Ok(self.send_over(&link, method, url, body).await?.0);
        }
        Ok(answer)
    }

    async fn send_over(
        &self,
        link: &Link,
        method: Method,
        url: &Uri,
        body: Bytes,
    ) -> Result<(Response<Incoming>, SentCredentials), CallError> {
        let mut request = request(method.clone(), url, body);
        let sent = link.authorization.apply(request.headers_mut()).await.map_err(CallError::Credentials)?;
        request.headers_mut().extend(self.host.clone().map(|host| (HOST, host)));
        let answer = link.http.request(request).await.map_err(|error| self.failure(&error, &method, url))?;
        Ok((answer, sent))
    }

    async fn whole(&self, answer: Response<Incoming>, method: &Method, url: &Uri) -> Result<Answer, CallError> {
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, self.limits.answer_bytes_max).collect().await;
        let body = body.map_err(|error| self.failure(&*error, method, url))?;
        Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
    }

    /// What an error of hyper means.
    fn failure(&self, error: &(dyn Error + 'static), method: &Method, url: &Uri) -> CallError {
        if error.is::<LengthLimitError>() {
            return CallError::TooLarge(self.limits.answer_bytes_max);
        }
        let verb = if method == Method::POST { "Post" } else { "Get" };
        let text = format!("{verb} {:?}: {}", url.to_string(), root_cause(error));
        if is_lost(error) { CallError::Lost(text) } else { CallError::Failed(text) }
    }
}

fn request(method: Method, url: &Uri, body: Bytes) -> Request<Full<Bytes>> {
    let is_post = method == Method::POST;
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = url.clone();
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("watchcache/", env!("CARGO_PKG_VERSION"))));
    if is_post {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    request
}

/// The text of a body that may be cut; none when it is empty, or not a text.
fn text_of(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let is_text = !text.chars().any(|one| one.is_control() && !one.is_whitespace());
    let text = text.trim();
    (is_text && !text.is_empty()).then(|| text.to_owned())
}

/// The innermost cause of an error of hyper, which says what happened; those around it say where. Why a certificate is not trusted is told as Go tells it.
#[must_use]
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    // An `io::Error` is no source of the one that it is in: that one's source is its own.
    let mut within = last;
    while let Some(inner) = within.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        within = inner;
    }
    match within.downcast_ref::<rustls::Error>().and_then(handshake::refusal) {
        Some(why) => format!("tls: failed to verify certificate: {why}"),
        None => last.to_string(),
    }
}

/// Whether the connection was there and is no more, so that another one may do: Kubernetes' `IsConnectionReset` and `IsHTTP2ConnectionLost`.
fn is_lost(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe);
        }
        if error.downcast_ref::<hyper::Error>().is_some_and(|error| error.is_canceled() || error.is_timeout()) {
            return true;
        }
        next = error.source();
    }
    false
}

impl Answer {
    /// Whether its body is what was asked for (client-go's range of statuses).
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..=206).contains(&self.status.as_u16())
    }

    /// How long the server asks us to wait; only whole seconds count, as in client-go.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
    }

    /// What a status that is no success says, in client-go's words; a `Status` object in the body has words of its own.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        if self.is_success() {
            return None;
        }
        let status: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        if status["kind"] == "Status"
            && let Some(message) = status["message"].as_str()
        {
            return Some(message.to_owned());
        }
        let text = text_of(&self.body[..self.body.len().min(ERROR_TEXT_BYTES_MAX)]).unwrap_or_else(|| "unknown".to_owned());
        Some(match self.status.as_u16() {
            400 => "the server rejected our request for an unknown reason".to_owned(),
            401 => "the server has asked for the client to provide credentials".to_owned(),
            403 => text,
            404 => "the server could not find the requested resource".to_owned(),
            405 => "the server does not allow this method on the requested resource".to_owned(),
            409 => "the server reported a conflict".to_owned(),
            422 => "the server rejected our request due to an error in our request".to_owned(),
            429 => "the server has received too many requests and has asked us to try again later".to_owned(),
            503 => "the server is currently unable to handle the request".to_owned(),
            504 => "the server was unable to return a response in the time allotted, but may still be processing the request".to_owned(),
            500.. => format!("an error on the server ({}) has prevented the request from succeeding", go::quote::quoted(&text)),
            code => format!("the server responded with the status code {code} but did not return more information"),
        })
    }
}
