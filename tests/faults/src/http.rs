//! Connections to the server under test, and HTTP/1.1 over them: bodies as lines, or as frames with their length before them. Knows nothing of Kubernetes but
//! the path it is given.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Response, body::Incoming, client::conn::http1::SendRequest, header};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, client::Resumption, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpSocket, TcpStream},
    sync::watch,
};
use tokio_rustls::TlsConnector;

use crate::{
    brake::{Braked, Manner, RECEIVE_BYTES},
    wire::Encoding,
};

/// The longest body that a list may have, bytes.
const BODY_LIMIT: usize = 256 << 20;
/// The longest line that a watch may have, bytes: etcd's values end at 1.5 MiB.
const LINE_LIMIT: usize = 8 << 20;
/// Connections from one source address: the kernel has 28,000 ports for one pair of addresses by default.
const PER_ADDRESS: usize = 20_000;

/// A connection, with TLS or without.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}
/// A connection of whatever kind the listener has.
pub(crate) type Io = Box<dyn Connection>;

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1
    Http1,
    /// HTTP/2: by ALPN, or known beforeforward a plain listener.
    Http2,
}

/// Where the server is and how one gets in.
#[derive(Clone)]
pub(crate) struct Listener {
    port: u16,
    tls: Option<Tls>,
    token: Option<String>,
    /// On whose behalf a front proxy comes: the user and his only group.
    brought: Option<[String; 2]>,
    /// As whom one acts.
    acting: Option<String>,
    /// What answers are wanted in.
    encoding: Encoding,
}

#[derive(Clone)]
struct Tls {
    http1: TlsConnector,
    http2: TlsConnector,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("port", &self.port).field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl Listener {
    /// Plain HTTP on loopback.
    #[must_use]
    pub(crate) fn plain(port: u16) -> Self {
        Self { port, tls: None, token: None, brought: None, acting: None, encoding: Encoding::Json }
    }

    /// HTTPS with a bearer token.
    #[must_use]
    pub(crate) fn tls(port: u16, mut config: ClientConfig, token: &str) -> Self {
        // A new connection is a whole handshake.
        config.resumption = Resumption::disabled();
        let http1 = TlsConnector::from(Arc::new(config.clone()));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let http2 = TlsConnector::from(Arc::new(config));
        let token = Some(token.to_owned());
        Self { port, tls: Some(Tls { http1, http2 }), token, brought: None, acting: None, encoding: Encoding::Json }
    }

    /// The same for whom this token names.
    #[must_use]
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The same for somebody who acts as this user.
    #[must_use]
    pub(crate) fn acting_as(&self, user: &str) -> Self {
        Self { acting: Some(user.to_owned()), ..self.clone() }
    }

    /// The same for a front proxy, who has a certificate instead of a token and comes on behalf of this user.
    #[must_use]
    pub(crate) fn bringing(&self, user: &str, group: &str) -> Self {
        Self { brought: Some([user, group].map(str::to_owned)), ..self.without_token() }
    }

    /// The same for somebody who wants answers in this.
    #[must_use]
    pub(crate) fn in_encoding(&self, encoding: Encoding) -> Self {
        Self { encoding, ..self.clone() }
    }

    /// The same for somebody without credentials.
    #[must_use]
    pub(crate) fn without_token(&self) -> Self {
        Self { token: None, ..self.clone() }
    }

    /// `https` behind TLS.
    #[must_use]
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Host and port.
    #[must_use]
    pub(crate) fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The bearer token, where one is needed.
    #[must_use]
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// A bare connection; the n-th of many comes from a source address that has ports left.
    pub(crate) async fn connect(&self, nth: usize) -> Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        if let Ok(host @ 1..) = u8::try_from(nth / PER_ADDRESS) {
            socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, host + 1), 0)))?;
        }
        let stream = socket.connect(SocketAddr::from(([127, 0, 0, 1], self.port))).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Sends a GET on a new connection and returns what the server answers, once its headers are here.
    pub(crate) async fn open(&self, target: &str, nth: usize) -> Result<Response<Incoming>> {
        let stream = self.connect(nth).await.context("connect")?;
        self.send(stream, target).await
    }

    /// The same as a reader with bad manners, who has a small buffer and resets its connection instead of closing it.
    pub(crate) async fn open_badly(&self, target: &str, manner: Manner, signal: watch::Receiver<bool>) -> Result<Response<Incoming>> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(RECEIVE_BYTES)?;
        socket.set_zero_linger()?;
        let stream = socket.connect(SocketAddr::from(([127, 0, 0, 1], self.port))).await.context("connect")?;
        self.send(Braked::new(stream, manner, signal), target).await
    }

    /// A connection, through the TLS handshake where there is one; `nth` as in [`Listener::connect`].
    pub(crate) async fn reach(&self, nth: usize, protocol: Protocol) -> Result<Io> {
        self.over(self.connect(nth).await.context("connect")?, protocol).await
    }

    /// An HTTP/1.1 connection that many requests may use, one after the other.
    pub(crate) async fn talk(&self) -> Result<Talk> {
        self.over_http1(self.connect(0).await.context("connect")?).await
    }

    async fn send<S: Connection + 'static>(&self, stream: S, target: &str) -> Result<Response<Incoming>> {
        self.over_http1(stream).await?.ask("GET", target, None).await
    }

    async fn over<S: Connection + 'static>(&self, stream: S, protocol: Protocol) -> Result<Io> {
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let connector = if protocol == Protocol::Http1 { &tls.http1 } else { &tls.http2 };
        let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
        Ok(Box::new(connector.connect(name, stream).await.context("TLS")?))
    }

    async fn over_http1<S: Connection + 'static>(&self, stream: S) -> Result<Talk> {
        let io = self.over(stream, Protocol::Http1).await?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await.context("handshake")?;
        // Ends with the last response body: hyper closes when the sender is gone and the body is read or dropped.
        tokio::spawn(connection);
        Ok(Talk {
            sender,
            authority: self.authority(),
            token: self.token.clone(),
            brought: self.brought.clone(),
            acting: self.acting.clone(),
            encoding: self.encoding,
        })
    }

    /// Status and whole body of a GET, within `patience`.
    pub(crate) async fn get(&self, target: &str, patience: Duration) -> Result<(u16, Bytes)> {
        self.whole("GET", target, None, patience).await
    }

    /// The same of any request, as of [`Talk::ask`].
    pub(crate) async fn whole(&self, method: &str, target: &str, body: Option<(&str, Bytes)>, patience: Duration) -> Result<(u16, Bytes)> {
        let whole = async { self.talk().await?.whole(method, target, body).await };
        tokio::time::timeout(patience, whole).await.map_err(|_| anyhow::anyhow!("no answer within {patience:?}"))?
    }
}

/// An HTTP/1.1 connection.
#[derive(Debug)]
pub(crate) struct Talk {
    sender: SendRequest<Full<Bytes>>,
    authority: String,
    token: Option<String>,
    brought: Option<[String; 2]>,
    acting: Option<String>,
    encoding: Encoding,
}

impl Talk {
    /// Sends a request, with a body of a media type if it has one; what the server answers, once its headers are here.
    pub(crate) async fn ask(&mut self, method: &str, target: &str, body: Option<(&str, Bytes)>) -> Result<Response<Incoming>> {
        let mut request = Request::builder().method(method).uri(target).header(header::HOST, &self.authority);
        request = request.header(header::ACCEPT, self.encoding.media_type());
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some([user, group]) = &self.brought {
            request = request.header("X-Remote-User", user).header("X-Remote-Group", group);
        }
        if let Some(user) = &self.acting {
            request = request.header("Impersonate-User", user);
        }
        if let Some((media, _)) = &body {
            request = request.header(header::CONTENT_TYPE, *media);
        }
        self.sender.ready().await.context("the connection is over")?;
        let body = body.map(|(_, bytes)| bytes).unwrap_or_default();
        self.sender.send_request(request.body(Full::new(body))?).await.context("request")
    }

    /// The same with the whole body of the answer; status and body.
    pub(crate) async fn whole(&mut self, method: &str, target: &str, body: Option<(&str, Bytes)>) -> Result<(u16, Bytes)> {
        let response = self.ask(method, target, body).await?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), BODY_LIMIT).collect().await;
        Ok((status, body.map_err(|e| anyhow::anyhow!("body: {e}"))?.to_bytes()))
    }
}

/// A body, event by event.
#[derive(Debug)]
pub(crate) struct Lines {
    body: Incoming,
    encoding: Encoding,
    buffer: BytesMut,
    /// Bytes of `buffer` that are known to hold no newline.
    searched: usize,
}

impl Lines {
    /// Over a response whose headers were read.
    #[must_use]
    pub(crate) fn new(body: Incoming) -> Self {
        Self::encoded(body, Encoding::Json)
    }

    /// The same of a response in this encoding.
    #[must_use]
    pub(crate) fn encoded(body: Incoming, encoding: Encoding) -> Self {
        Self { body, encoding, buffer: BytesMut::new(), searched: 0 }
    }

    /// The next line without its newline, or frame without its length; `None` at a clean end; an error when the connection broke.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(event) = self.take() {
                return Ok(Some(event));
            }
            if self.buffer.len() > LINE_LIMIT {
                bail!("an event of more than {LINE_LIMIT} bytes");
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                None if self.buffer.is_empty() => return Ok(None),
                None => bail!("the body ended inside an event"),
            }
        }
    }

    /// The first event of the buffer, if it is whole.
    fn take(&mut self) -> Option<Bytes> {
        if self.encoding == Encoding::Protobuf {
            let length = u32::from_be_bytes(*self.buffer.first_chunk()?) as usize;
            if self.buffer.len() < 4 + length {
                return None;
            }
            self.buffer.advance(4);
            return Some(self.buffer.split_to(length).freeze());
        }
        let Some(at) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + at).freeze();
        self.buffer.advance(1);
        self.searched = 0;
        Some(line)
    }
}
