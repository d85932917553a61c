//! The two listeners: sockets, TLS, and the accept loop with its limits.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rustls::server::danger::ClientCertVerifier;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use reload::FileError;
use telemetry::{Metrics, contained};

use super::{
    answer::Host,
    budget::Budget,
    conn::{Conn, ListenerKind},
    connection,
    connections::{Address, Connections, Seat},
    heads::{Heads, Owner},
    linger::linger,
    protocol::ProtocolConfig,
    settings::{Binding, Limits, TlsFiles},
    slices::{Single, Stepped},
    tls::Tls,
};

/// Connections that the kernel keeps for us until they are accepted.
const BACKLOG: i32 = 1024;

/// Ports that are tried when any will do.
const TRIES_MAX: u32 = 16;

/// Pause after a failed accept (no file descriptors left, say): long enough not to spin, short enough not to be noticed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A quiet connection is asked by TCP after this time, and then so often (Go's 15 s).
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Whose heads are counted that come through the plain listener.
const LOCAL: &str = "system:unsecured";

/// Why a listener stays shut; one line.
#[derive(Debug, Error)]
pub enum ListenerError {
    /// Somebody else listens there.
    #[error("{flag}: {address} is already in use")]
    Busy {
        /// The flag that chose the port.
        flag: &'static str,
        /// Where.
        address: SocketAddr,
    },
    /// The system refused for another reason.
    #[error("{flag}: cannot listen on {address}: {error}")]
    Refused {
        /// The flag that chose the port.
        flag: &'static str,
        /// Where.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// Certificate or key.
    #[error(transparent)]
    Tls(#[from] FileError),
}

/// Sockets that are bound, so that their ports are known; nothing is accepted yet.
pub struct Sockets {
    secure: Option<std::net::TcpListener>,
    plain: Vec<std::net::TcpListener>,
}

impl Sockets {
    /// Binds the TLS listener, and the plain one: where it has several addresses, with the same port.
    ///
    /// # Errors
    /// A busy port or a refused address: one line.
    pub fn bind(wanted: &Binding) -> Result<Sockets, ListenerError> {
        let secure = wanted.secure.map(|address| bind("--secure-port", address)).transpose()?;
        let plain = match wanted.plain_port {
            None => Vec::new(),
            Some(0) => {
                // A port that is free on 127.0.0.1 may be taken on ::1.
                let mut tries = 0;
                loop {
                    tries += 1;
                    match plain(&wanted.plain, 0) {
                        Err(ListenerError::Busy { .. }) if tries < TRIES_MAX => {}
                        bound => break bound?,
                    }
                }
            }
            Some(port) => plain(&wanted.plain, port)?,
        };
        Ok(Sockets { secure, plain })
    }

    /// Where the TLS listener listens.
    #[must_use]
    pub fn secure_port(&self) -> Option<u16> {
        port_of(self.secure.as_ref())
    }

    /// Where the plain listener listens.
    #[must_use]
    pub fn insecure_port(&self) -> Option<u16> {
        port_of(self.plain.first())
    }
}

fn port_of(socket: Option<&std::net::TcpListener>) -> Option<u16> {
    socket.and_then(|socket| socket.local_addr().ok()).map(|address| address.port())
}

/// The sockets of the plain listener; an IPv6 one that the system refuses is left out if there is another.
fn plain(addresses: &[IpAddr], port: u16) -> Result<Vec<std::net::TcpListener>, ListenerError> {
    let mut sockets = Vec::new();
    for address in addresses {
        let port = port_of(sockets.first()).unwrap_or(port);
        match bind("--insecure-port", SocketAddr::new(*address, port)) {
            Ok(socket) => sockets.push(socket),
            Err(ListenerError::Refused { error, .. }) if !sockets.is_empty() => tracing::debug!(%error, %address, "no plain listener here"),
            Err(error) => return Err(error),
        }
    }
    Ok(sockets)
}

/// Bound, not yet served: errors show before anything else starts.
pub struct Listeners {
    listeners: Vec<Listener>,
    tls: Option<Arc<Tls>>,
    metrics: Arc<Metrics>,
}

struct Listener {
    socket: std::net::TcpListener,
    tls: Option<Arc<Tls>>,
}

impl Listeners {
    /// Reads certificates for these sockets. Clients are asked for theirs if there is a verifier.
    ///
    /// # Errors
    /// An unreadable certificate: one line.
    pub fn new(
        files: Option<&TlsFiles>,
        sockets: Sockets,
        verifier: Option<Arc<dyn ClientCertVerifier>>,
        metrics: Arc<Metrics>,
    ) -> Result<Listeners, ListenerError> {
        let tls = files.map(|files| Tls::load(files, verifier).map(Arc::new)).transpose()?;
        let secure = sockets.secure.into_iter().map(|socket| (socket, tls.clone()));
        let plain = sockets.plain.into_iter().map(|socket| (socket, None));
        let listeners = secure.chain(plain).map(|(socket, tls)| Listener { socket, tls }).collect();
        Ok(Listeners { listeners, tls, metrics })
    }

    /// What the TLS listener speaks with.
    pub fn tls(&self) -> Option<Arc<Tls>> {
        self.tls.clone()
    }

    /// Where the listeners are.
    pub fn addresses(&self) -> Vec<(ListenerKind, SocketAddr)> {
        self.listeners.iter().filter_map(|listener| Some((listener.kind(), listener.socket.local_addr().ok()?))).collect()
    }

    /// Serves until `stop` is true (or its sender is gone): then accepts nothing more, lets open requests end, and after `shutdown` drops what is left.
    /// Returns how many connections were dropped.
    ///
    /// # Errors
    /// Only from handing the bound sockets to the runtime.
    pub async fn serve<H: Host>(self, host: Arc<H>, limits: Limits, shutdown: Duration, stop: watch::Receiver<bool>) -> io::Result<usize> {
        let shared = Arc::new(Shared {
            protocols: connection::protocols(&limits),
            connections: Connections::new(limits.count_max, limits.header_timeout, &self.metrics),
            heads: Heads::new(limits.header_bytes_max, self.metrics.head_bytes.clone()),
            unread: Budget::new(limits.unread_bytes_max, self.metrics.unread_bytes.clone()),
            bodies: Budget::new(limits.bodies_bytes_max, self.metrics.body_bytes.clone()),
            limits,
            host,
            stop,
        });
        let mut loops = Vec::new();
        for listener in self.listeners {
            let socket = TcpListener::from_std(listener.socket)?;
            loops.push(accept(socket, listener.tls, Arc::clone(&shared), shutdown));
        }
        tokio::select! {
            dropped = join_all(loops) => Ok(dropped.into_iter().sum()),
            never = shared.connections.sweep() => match never {},
        }
    }
}

fn bind(flag: &'static str, address: SocketAddr) -> Result<std::net::TcpListener, ListenerError> {
    let listen = || -> io::Result<std::net::TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            // `::` means every address, as it does for kube-apiserver.
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    listen().map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => ListenerError::Busy { flag, address },
        _ => ListenerError::Refused { flag, address, error },
    })
}

impl Listener {
    fn kind(&self) -> ListenerKind {
        if self.tls.is_some() { ListenerKind::Secure } else { ListenerKind::Plain }
    }
}

/// What all connections share.
struct Shared<H> {
    protocols: ProtocolConfig,
    connections: Arc<Connections>,
    limits: Limits,
    heads: Arc<Heads>,
    unread: Arc<Budget>,
    bodies: Arc<Budget>,
    host: Arc<H>,
    stop: watch::Receiver<bool>,
}

impl<H: Host> Shared<H> {
    /// What requests are told of a new connection.
    fn info(&self, ends: Ends, listener: ListenerKind, seat: Arc<Seat>) -> Arc<Conn> {
        let Ends { peer, local } = ends;
        let owner = match listener {
            ListenerKind::Plain => Owner::User(LOCAL.into()),
            ListenerKind::Secure => Owner::Strangers(Address::of(peer.ip())),
        };
        let heads = self.heads.account(owner);
        let (unread, bodies, stop) = (self.unread.account(), self.bodies.account(), self.stop.clone());
        let (goodbye, silence_max) = (Arc::default(), self.limits.header_timeout);
        Arc::new(Conn { peer, local, listener, heads, unread, bodies, seat, stop, goodbye, silence_max })
    }
}

/// The accept loop of one socket, and then its drain.
async fn accept<H: Host>(socket: TcpListener, tls: Option<Arc<Tls>>, shared: Arc<Shared<H>>, shutdown: Duration) -> usize {
    let mut connections = JoinSet::new();
    let mut stop = shared.stop.clone();
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stopped| *stopped) => break,
            Some(ended) = connections.join_next() => {
                report(ended);
                continue;
            }
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            Ok((stream, peer)) => match shared.connections.admit(peer.ip(), tls.is_none()) {
                Some(seat) => {
                    let task = connections.spawn(contained(welcome(stream, peer, tls.clone(), Arc::clone(&shared), Arc::clone(&seat))));
                    seat.served_by(task);
                }
                None => refuse(&stream),
            },
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

/// Closes with a reset: nothing of the connection stays with us, and the client knows at once.
fn refuse(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "cannot reset a refused connection");
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    match ended {
        // A stranger that had to go.
        Err(error) if error.is_cancelled() => {}
        Err(error) => tracing::error!(%error, "a connection's task failed"),
        Ok(()) => {}
    }
}

/// The two ends of a connection.
struct Ends {
    peer: SocketAddr,
    local: SocketAddr,
}

/// One accepted connection: TCP_NODELAY (Nagle costs 40 ms), handshake, judgement of the certificate, service. A handshake that takes too long
/// is a stranger's whose time is over.
async fn welcome<H: Host>(stream: TcpStream, peer: SocketAddr, tls: Option<Arc<Tls>>, shared: Arc<Shared<H>>, seat: Arc<Seat>) {
    // A client that is gone without a word is found by this where nobody writes: behind a tunnel.
    if let Err(error) =
        SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL))
    {
        tracing::debug!(%error, "no keepalive");
    }
    let Ok(local) = stream.set_nodelay(true).and_then(|()| stream.local_addr()) else { return };
    let ends = Ends { peer, local };
    let Shared { protocols, limits, host, stop, .. } = &*shared;
    let Some(tls) = tls else {
        let info = shared.info(ends, ListenerKind::Plain, seat);
        let service = host.connected(&info, None);
        return connection::serve(stream, protocols, limits, info, service).await;
    };
    let mut stop = stop.clone();
    // Boxed: when it is over, nothing of it takes room.
    let handshake = Box::pin(async {
        tokio::select! {
            handshake = tls.acceptor(local.ip()).accept(Single::new(stream)).into_fallible() => Some(handshake),
            _ = stop.wait_for(|stopped| *stopped) => None,
        }
    });
    let stream = match handshake.await {
        Some(Ok(stream)) => stream,
        Some(Err((error, stream))) => {
            handshake_failed(&**host, peer, &error);
            // The alert says why.
            return linger(stream).await;
        }
        None => return,
    };
    let info = shared.info(ends, ListenerKind::Secure, seat);
    let service = host.connected(&info, stream.get_ref().1.peer_certificates());
    connection::serve(Stepped::new(stream), protocols, limits, info, service).await;
}

/// Tells why a handshake has failed. A client that sends a certificate of no use is not told much by TLS, so somebody must be able to look it up here.
fn handshake_failed(host: &impl Host, peer: SocketAddr, error: &io::Error) {
    let certificate = error.get_ref().and_then(|error| host.refused_certificate(error));
    match certificate {
        Some(why) => tracing::info!(%peer, why, "TLS handshake failed: the client's certificate cannot be used"),
        None => tracing::debug!(%peer, %error, "TLS handshake failed"),
    }
}

#[cfg(test)]
mod tests;
