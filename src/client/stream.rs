//! Connections as they are made: to the server itself, or through a proxy; and their end, when we are somebody else.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

use super::proxy::{Proxy, ProxyKind};

type BoxError = Box<dyn Error + Send + Sync>;

/// Makes connections without TLS to servers, which it may begin over them.
#[derive(Clone)]
pub(crate) struct Dialer {
    tcp: HttpConnector,
    proxy: Option<(Arc<Proxy>, Arc<ClientConfig>)>,
}

/// A connection before its own TLS.
pub enum Wire {
    Tcp {
        stream: TokioIo<TcpStream>,
        is_forwarded: bool,
    },
    /// To a proxy that speaks TLS.
    Tls {
        stream: Box<TokioIo<TlsStream<TcpStream>>>,
        is_forwarded: bool,
    },
}

impl Dialer {
    pub(crate) fn new(tcp: HttpConnector) -> Dialer {
        Dialer { tcp, proxy: None }
    }

    /// The same through a proxy, whose certificate is judged as the server's is.
    pub(crate) fn through(self, proxy: Option<&Arc<Proxy>>, tls: &ClientConfig) -> Dialer {
        let proxy = proxy.map(|proxy| {
            let mut tls = tls.clone();
            tls.alpn_protocols.clear();
            (proxy.clone(), Arc::new(tls))
        });
        Dialer { proxy, ..self }
    }
}

impl Service<Uri> for Dialer {
    type Response = Wire;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Wire, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let Some((proxy, tls)) = self.proxy.clone() else {
            let made = self.tcp.call(server);
            return Box::pin(async move { Ok(Wire::Tcp { stream: made.await?, is_forwarded: false }) });
        };
        let made = self.tcp.call(proxy.address.clone());
        Box::pin(async move {
            let mut stream = made.await.map_err(|error| format!("proxy {}: {}", proxy.address, super::root_cause(&error)))?.into_inner();
            let is_forwarded = proxy.forwards(&server);
            if proxy.kind != ProxyKind::Https {
                if !is_forwarded {
                    proxy.tunnel(&mut stream, &server).await?;
                }
                return Ok(Wire::Tcp { stream: TokioIo::new(stream), is_forwarded });
            }
            let name = ServerName::try_from(proxy.host.clone())?;
            let stream = TlsConnector::from(tls).connect(name, stream).await;
            let mut stream = stream.map_err(|error| format!("proxy {}: {error}", proxy.address))?;
            if !is_forwarded {
                proxy.tunnel(&mut stream, &server).await?;
            }
            Ok(Wire::Tls { stream: Box::new(TokioIo::new(stream)), is_forwarded })
        })
    }
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        match self {
            Wire::Tcp { stream, is_forwarded } => stream.connected().proxy(*is_forwarded),
            Wire::Tls { is_forwarded, .. } => Connected::new().proxy(*is_forwarded),
        }
    }
}

impl Read for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Tcp { stream, .. } => Pin::new(stream).poll_read(cx, into),
            Wire::Tls { stream, .. } => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl Write for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Tcp { stream, .. } => Pin::new(stream).poll_write(cx, bytes),
            Wire::Tls { stream, .. } => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Tcp { stream, .. } => Pin::new(stream).poll_flush(cx),
            Wire::Tls { stream, .. } => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Tcp { stream, .. } => Pin::new(stream).poll_shutdown(cx),
            Wire::Tls { stream, .. } => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Wire::Tcp { stream, .. } => stream.is_write_vectored(),
            Wire::Tls { stream, .. } => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Tcp { stream, .. } => Pin::new(stream).poll_write_vectored(cx, bytes),
            Wire::Tls { stream, .. } => Pin::new(stream).poll_write_vectored(cx, bytes),
        }
    }
}

/// A connection that ends when we show another certificate, as client-go's do.
pub struct Revocable<S> {
    stream: S,
    revoked: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> Revocable<S> {
    /// One that lasts.
    pub(crate) fn lasting(stream: S) -> Revocable<S> {
        Revocable { stream, revoked: None }
    }

    /// One that ends when the number changes.
    pub(crate) fn until(stream: S, mut rotations: watch::Receiver<u64>) -> Revocable<S> {
        let revoked = async move {
            if rotations.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        Revocable { stream, revoked: Some(Box::pin(revoked)) }
    }

    fn is_revoked(&mut self, cx: &mut Context<'_>) -> bool {
        let is_revoked = self.revoked.as_mut().is_some_and(|revoked| revoked.as_mut().poll(cx).is_ready());
        if is_revoked {
            self.revoked = Some(Box::pin(std::future::ready(())));
        }
        is_revoked
    }
}

fn revoked() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "our certificate has changed")
}

impl<S: Connection> Connection for Revocable<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl<S: Read + Unpin> Read for Revocable<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        if self.is_revoked(cx) {
            return Poll::Ready(Err(revoked()));
        }
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: Write + Unpin> Write for Revocable<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }
}
