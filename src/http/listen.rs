//! The two doors: sockets, TLS, and the accept loop with its limits. Knows no route; whoever serves a request gets it with its `ConnInfo`.

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::server::conn::auto;
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

pub use super::tls::TlsError;
use super::{
    budget::{Account, Budget},
    connection,
    progress::Streams,
    tls,
};
use crate::auth::{Authenticator, ClientCertificate};
use crate::{
    config,
    telemetry::{Metrics, contained},
};

/// Connections that the kernel keeps for us while `--max-connections` are open.
const BACKLOG: i32 = 1024;

/// Pause after a failed accept (no file descriptors left, say): long enough not to spin, short enough not to be noticed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Which door a connection came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Plain HTTP on loopback, without authentication.
    Plain,
    /// TLS.
    Secure,
}

/// What is known about a connection; shared by its requests.
#[derive(Clone, Debug)]
pub struct ConnInfo {
    /// The other end.
    pub peer: SocketAddr,
    /// Our end (discovery shows it as `serverAddress`).
    pub local: SocketAddr,
    /// Which door it came through.
    pub door: Door,
    /// The certificate of its handshake, already judged.
    pub certificate: ClientCertificate,
    /// What it has not read of its answers.
    pub(super) unread: Arc<Account>,
    /// What has come of its requests' bodies.
    pub(super) bodies: Arc<Account>,
}

/// Why a door stays shut; one line.
#[derive(Debug, Error)]
pub enum DoorError {
    /// Somebody else listens there.
    #[error("{flag}: {address} is already in use")]
    Busy {
        /// The flag that chose the port.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// The system refused for another reason.
    #[error("{flag}: cannot listen on {address}: {error}")]
    Refused {
        /// The flag that chose the port.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// Certificate or key.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Bound, not yet served: errors show before anything else starts.
pub struct Doors {
    listeners: Vec<Listener>,
    authenticator: Arc<Authenticator>,
    metrics: Arc<Metrics>,
}

struct Listener {
    socket: std::net::TcpListener,
    local: SocketAddr,
    tls: Option<TlsAcceptor>,
}

impl Doors {
    /// Reads certificates and binds: the plain door on 127.0.0.1 and, where there is IPv6, on `[::1]`; the TLS door where config says.
    ///
    /// # Errors
    /// A busy port, a refused address, an unreadable certificate: one line each.
    pub fn bind(doors: &config::Doors, authenticator: Arc<Authenticator>, metrics: Arc<Metrics>) -> Result<Doors, DoorError> {
        let mut listeners = Vec::new();
        if let Some(door) = &doors.secure {
            let acceptor = TlsAcceptor::from(tls::server_config(door, &authenticator)?);
            listeners.push(Listener::bind("--secure-port", door.address, Some(acceptor))?);
        }
        if let Some(port) = doors.insecure_port {
            listeners.push(Listener::bind("--insecure-port", SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port), None)?);
            match Listener::bind("--insecure-port", SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port), None) {
                Ok(listener) => listeners.push(listener),
                Err(DoorError::Refused { error, .. }) => tracing::debug!(%error, "no plain door on [::1]"),
                Err(error) => return Err(error),
            }
        }
        Ok(Doors { listeners, authenticator, metrics })
    }

    /// Where the doors are.
    pub fn addresses(&self) -> Vec<(Door, SocketAddr)> {
        self.listeners.iter().map(|listener| (listener.door(), listener.local)).collect()
    }

    /// Serves until `stop` is true (or its sender is gone): then accepts nothing more, lets open requests end, and after `shutdown` drops what is left.
    /// Returns how many connections were dropped. One connection per socket may be accepted beyond `limits.count_max`; it waits unserved.
    ///
    /// # Errors
    /// Only from handing the bound sockets to the runtime.
    pub async fn serve<F, Fut, B>(
        self,
        limits: config::Connections,
        shutdown: Duration,
        service: F,
        stop: watch::Receiver<bool>,
    ) -> io::Result<usize>
    where
        F: Fn(Request<Incoming>, Arc<ConnInfo>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let shared = Arc::new(Shared {
            builder: connection::builder(&limits),
            permits: Arc::new(Semaphore::new(limits.count_max)),
            unread: Budget::new(limits.unread_bytes_max, self.metrics.unread_bytes.clone()),
            bodies: Budget::new(limits.bodies_bytes_max, self.metrics.body_bytes.clone()),
            limits,
            authenticator: self.authenticator,
            service,
            stop,
        });
        let mut loops = Vec::new();
        for listener in self.listeners {
            let socket = TcpListener::from_std(listener.socket)?;
            loops.push(accept(socket, listener.tls, Arc::clone(&shared), shutdown));
        }
        Ok(join_all(loops).await.into_iter().sum())
    }
}

impl Listener {
    fn bind(flag: &'static str, address: SocketAddr, tls: Option<TlsAcceptor>) -> Result<Listener, DoorError> {
        let listen = || -> io::Result<Listener> {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            if address.is_ipv6() {
                // `::` means every address, as it does for kube-apiserver.
                socket.set_only_v6(!address.ip().is_unspecified())?;
            }
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            socket.set_nonblocking(true)?;
            let socket = std::net::TcpListener::from(socket);
            Ok(Listener { local: socket.local_addr()?, socket, tls })
        };
        listen().map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => DoorError::Busy { flag, address },
            _ => DoorError::Refused { flag, address, error },
        })
    }

    fn door(&self) -> Door {
        if self.tls.is_some() { Door::Secure } else { Door::Plain }
    }
}

/// What all connections share.
struct Shared<F> {
    builder: auto::Builder<Streams>,
    permits: Arc<Semaphore>,
    limits: config::Connections,
    unread: Arc<Budget>,
    bodies: Arc<Budget>,
    authenticator: Arc<Authenticator>,
    service: F,
    stop: watch::Receiver<bool>,
}

impl<F> Shared<F> {
    /// What requests are told of a new connection.
    fn info(&self, peer: SocketAddr, local: SocketAddr, door: Door, certificate: ClientCertificate) -> Arc<ConnInfo> {
        Arc::new(ConnInfo { peer, local, door, certificate, unread: self.unread.account(), bodies: self.bodies.account() })
    }
}

/// The accept loop of one socket, and then its drain.
async fn accept<F, Fut, B>(socket: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared<F>>, shutdown: Duration) -> usize
where
    F: Fn(Request<Incoming>, Arc<ConnInfo>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut connections = JoinSet::new();
    let mut stop = shared.stop.clone();
    let next = async || -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let (stream, peer) = socket.accept().await?;
        let permit = Arc::clone(&shared.permits).acquire_owned().await.expect("the semaphore is never closed");
        Ok((stream, peer, permit))
    };
    loop {
        let accepted = {
            let mut accepting = std::pin::pin!(next());
            loop {
                tokio::select! {
                    _ = stop.wait_for(|stopped| *stopped) => break None,
                    accepted = &mut accepting => break Some(accepted),
                    Some(ended) = connections.join_next() => report(ended),
                }
            }
        };
        match accepted {
            None => break,
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            Some(Ok((stream, peer, permit))) => {
                connections.spawn(contained(welcome(stream, peer, tls.clone(), Arc::clone(&shared), permit)));
            }
        }
    }
    drop(socket);
    let drained = async {
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    };
    if timeout(shutdown, drained).await.is_err() {
        let left = connections.len();
        connections.shutdown().await;
        return left;
    }
    0
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection's task failed");
    }
}

/// One accepted connection: TCP_NODELAY (design §8: Nagle costs 40 ms), handshake, judgement of the certificate, service.
async fn welcome<F, Fut, B>(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared<F>>,
    _permit: OwnedSemaphorePermit,
) where
    F: Fn(Request<Incoming>, Arc<ConnInfo>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let Ok(local) = stream.set_nodelay(true).and_then(|()| stream.local_addr()) else { return };
    let Shared { builder, limits, authenticator, service, stop, .. } = &*shared;
    let (service, mut stop) = (service.clone(), stop.clone());
    let Some(acceptor) = tls else {
        let info = shared.info(peer, local, Door::Plain, ClientCertificate::Absent);
        return connection::serve(stream, builder, limits, info, service, stop).await;
    };
    let handshake = tokio::select! {
        handshake = timeout(limits.header_timeout, acceptor.accept(stream)) => handshake,
        _ = stop.wait_for(|stopped| *stopped) => return,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%peer, %error, "TLS handshake failed"),
        Err(_) => return tracing::debug!(%peer, "TLS handshake took too long"),
    };
    let certificate = authenticator.certificate(stream.get_ref().1.peer_certificates(), SystemTime::now());
    if let ClientCertificate::Untrusted(why) = &certificate {
        tracing::info!(%peer, why, "client certificate is not trusted");
    }
    let info = shared.info(peer, local, Door::Secure, certificate);
    connection::serve(stream, builder, limits, info, service, stop).await;
}

#[cfg(test)]
mod tests;
