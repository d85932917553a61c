//! HTTP/1.1 to the server under test: one connection a request, bodies as lines. Knows nothing of Kubernetes but the path it is given.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpSocket, TcpStream},
    sync::watch,
};
use tokio_rustls::TlsConnector;

use crate::brake::{Braked, Manner, RECEIVE_BYTES};

/// The longest body that a list may have, bytes.
const BODY_LIMIT: usize = 256 << 20;
/// The longest line that a watch may have, bytes: etcd's values end at 1.5 MiB.
const LINE_LIMIT: usize = 8 << 20;
/// Connections from one source address: the kernel has 28,000 ports for one pair of addresses by default.
const PER_ADDRESS: usize = 20_000;

/// Where the server is and how one gets in.
#[derive(Clone)]
pub(crate) struct Door {
    port: u16,
    tls: Option<TlsConnector>,
    token: Option<String>,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("port", &self.port).field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl Door {
    /// Plain HTTP on loopback.
    #[must_use]
    pub(crate) fn plain(port: u16) -> Self {
        Self { port, tls: None, token: None }
    }

    /// HTTPS with a bearer token.
    #[must_use]
    pub(crate) fn tls(port: u16, config: ClientConfig, token: &str) -> Self {
        Self { port, tls: Some(TlsConnector::from(Arc::new(config))), token: Some(token.to_owned()) }
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

    async fn send<S>(&self, stream: S, target: &str) -> Result<Response<Incoming>>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        match &self.tls {
            None => self.ask(TokioIo::new(stream), target).await,
            Some(connector) => {
                let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
                self.ask(TokioIo::new(connector.connect(name, stream).await.context("TLS")?), target).await
            }
        }
    }

    /// Status and whole body of a GET, within `patience`.
    pub(crate) async fn get(&self, target: &str, patience: Duration) -> Result<(u16, Bytes)> {
        let whole = async {
            let response = self.open(target, 0).await?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), BODY_LIMIT).collect().await;
            Ok((status, body.map_err(|e| anyhow::anyhow!("body: {e}"))?.to_bytes()))
        };
        tokio::time::timeout(patience, whole).await.map_err(|_| anyhow::anyhow!("no answer within {patience:?}"))?
    }

    async fn ask<T>(&self, io: T, target: &str) -> Result<Response<Incoming>>
    where
        T: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.context("handshake")?;
        // Ends with the response body: hyper closes when the sender is gone and the body is read or dropped.
        tokio::spawn(connection);
        let mut request = Request::get(target).header("host", format!("127.0.0.1:{}", self.port)).header("accept", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        sender.send_request(request.body(Empty::<Bytes>::new())?).await.context("request")
    }
}

/// A body, line by line.
#[derive(Debug)]
pub(crate) struct Lines {
    body: Incoming,
    buffer: BytesMut,
    /// Bytes of `buffer` that are known to hold no newline.
    searched: usize,
}

impl Lines {
    /// Over a response whose headers were read.
    #[must_use]
    pub(crate) fn new(body: Incoming) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0 }
    }

    /// The next line without its newline; `None` at a clean end; an error when the connection broke.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') {
                let line = self.buffer.split_to(self.searched + at).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.searched > LINE_LIMIT {
                bail!("a line of more than {LINE_LIMIT} bytes");
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                None if self.buffer.is_empty() => return Ok(None),
                None => bail!("the body ended inside a line"),
            }
        }
    }
}
