//! A TCP proxy that can fall silent or break: the network between two processes. Knows one thing of HTTP, the header by which etcd's
//! members name themselves, so that one member can be cut off from its peers in both directions.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Everything passes.
    Open,
    /// Nothing passes, nothing is refused: bytes wait until the gate opens, connections stay (a black hole that heals).
    Silent,
    /// Connections are reset, new ones too.
    Broken,
    /// So many bytes pass in a second of each direction of a connection, about.
    Slow(usize),
    /// After so many bytes of either direction a connection is reset: answers break off in the middle.
    Torn(usize),
    /// etcd's peers only: nothing passes from or to one member.
    Isolated {
        /// Its id, by which it names itself to its peers.
        id: u64,
        /// Its index, by which the proxy in front of it is known.
        index: usize,
    },
}

/// Pieces in a second of what passes slowly.
const TRICKLES: usize = 20;

/// Where a proxy passes new connections to: each of these ports in turn. Without any it ends them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets(Arc<Mutex<Vec<u16>>>);

impl Targets {
    /// From now on these.
    pub(crate) fn set(&self, ports: &[u16]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ports.to_vec();
    }

    fn next(&self) -> Option<SocketAddr> {
        let mut ports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let port = *ports.first()?;
        ports.rotate_left(1);
        Some(SocketAddr::from(([127, 0, 0, 1], port)))
    }
}

/// A listening proxy. Dropping it ends its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    gate: watch::Sender<Gate>,
    bytes: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on `127.0.0.1:port` and passes to `127.0.0.1:to`.
    pub(crate) async fn listen(port: u16, to: u16) -> Result<Self> {
        let targets = Targets::default();
        targets.set(&[to]);
        Self::balance(port, targets).await
    }

    /// Listens on `127.0.0.1:port` and passes to these targets.
    pub(crate) async fn balance(port: u16, targets: Targets) -> Result<Self> {
        let listener = bind(port).await.with_context(|| format!("proxy on port {port}"))?;
        let (gate, changes) = watch::channel(Gate::Open);
        let bytes = Arc::new(AtomicU64::new(0));
        let pipe = Pipe { gate: changes, bytes: bytes.clone(), target: None };
        let accepting = tokio::spawn(accept(listener, targets, pipe));
        Ok(Self { gate, bytes, accepting })
    }

    /// The same, in front of the peer port of etcd's member `index`; `gate` is shared by the proxies of all members.
    pub(crate) async fn listen_for_member(port: u16, to: u16, index: usize, gate: &watch::Sender<Gate>) -> Result<Self> {
        let listener = bind(port).await.with_context(|| format!("peer proxy on port {port}"))?;
        let bytes = Arc::new(AtomicU64::new(0));
        let pipe = Pipe { gate: gate.subscribe(), bytes: bytes.clone(), target: Some(index) };
        let targets = Targets::default();
        targets.set(&[to]);
        let accepting = tokio::spawn(accept(listener, targets, pipe));
        Ok(Self { gate: gate.clone(), bytes, accepting })
    }

    /// Changes what passes, for old and new connections.
    pub(crate) fn set(&self, gate: Gate) {
        self.gate.send_replace(gate);
    }

    /// Bytes passed towards the clients of this proxy since it listens.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Listens on a port. The proxy of the scenario before may hold it for a moment still: its task ends when the runtime gets to it.
async fn bind(port: u16) -> std::io::Result<TcpListener> {
    let mut tries = 0;
    loop {
        match TcpListener::bind(("127.0.0.1", port)).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && tries < 20 => tries += 1,
            bound => return bound,
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[derive(Clone, Debug)]
struct Pipe {
    gate: watch::Receiver<Gate>,
    bytes: Arc<AtomicU64>,
    /// Index of the member behind this proxy, when it is a peer port.
    target: Option<usize>,
}

async fn accept(listener: TcpListener, targets: Targets, pipe: Pipe) {
    // Connections end with this task: the set aborts what it holds when it is dropped.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => if let Some(to) = targets.next() { connections.spawn(connection(client, to, pipe.clone())); },
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(client: TcpStream, to: SocketAddr, pipe: Pipe) {
    // With a linger of zero whatever is dropped without a shutdown is a reset for its peer.
    let _still_closed_without = client.set_zero_linger();
    if *pipe.gate.borrow() == Gate::Broken {
        return;
    }
    let Ok(server) = TcpStream::connect(to).await else { return };
    let _slower_without = (client.set_nodelay(true), server.set_nodelay(true), server.set_zero_linger());
    let mut gate = pipe.gate.clone();
    let (source, known) = watch::channel(None);
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let up = pump(client_read, server_write, pipe.clone(), known.clone(), Some(source), false);
    let down = pump(server_read, client_write, pipe, known, None, true);
    tokio::select! {
        _both_closed = async { tokio::join!(up, down) } => {}
        _broken_or_dropped = gate.wait_for(|g| *g == Gate::Broken) => {}
    }
}

/// Copies one direction as long as the gate lets it; gives the halves back at the end.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut pipe: Pipe,
    mut known: watch::Receiver<Option<u64>>,
    mut source: Option<watch::Sender<Option<u64>>>,
    count: bool,
) -> (OwnedReadHalf, OwnedWriteHalf) {
    let (mut buffer, mut passed) = (vec![0; 32 * 1024], 0);
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        if let Some(sender) = &source
            && pipe.target.is_some()
            && let Some(member) = named(&buffer[..n])
        {
            sender.send_replace(Some(member));
            source = None;
        }
        pipe.pass(&mut known).await;
        if !pipe.trickle(&mut to, &buffer[..n], &mut passed).await {
            break;
        }
        if count {
            pipe.bytes.fetch_add(n as u64, Ordering::Relaxed);
        }
    }
    let _peer_may_be_gone = to.shutdown().await;
    (from, to)
}

impl Pipe {
    /// Waits until the gate lets a connection with this source pass.
    async fn pass(&mut self, known: &mut watch::Receiver<Option<u64>>) {
        loop {
            let gate = *self.gate.borrow_and_update();
            let source = *known.borrow_and_update();
            let passes = match gate {
                Gate::Open | Gate::Slow(_) | Gate::Torn(_) => true,
                Gate::Silent | Gate::Broken => false,
                // A connection that has not named its member yet waits: it could be the isolated one's.
                Gate::Isolated { id, index } => self.target != Some(index) && source.is_some_and(|s| s != id),
            };
            if passes {
                return;
            }
            tokio::select! {
                changed = self.gate.changed() => if changed.is_err() { return std::future::pending().await },
                Ok(()) = known.changed() => {}
            }
        }
    }
}

impl Pipe {
    /// Writes what passes in the gate's manner; whether the connection goes on.
    async fn trickle(&self, to: &mut OwnedWriteHalf, bytes: &[u8], passed: &mut usize) -> bool {
        let gate = *self.gate.borrow();
        let bytes = match gate {
            Gate::Torn(limit) => &bytes[..bytes.len().min(limit.saturating_sub(*passed))],
            _ => bytes,
        };
        *passed += bytes.len();
        let piece = if let Gate::Slow(rate) = gate { rate.div_ceil(TRICKLES).max(1) } else { usize::MAX };
        for piece in bytes.chunks(piece.min(bytes.len()).max(1)) {
            if to.write_all(piece).await.is_err() {
                return false;
            }
            if let Gate::Slow(_) = gate {
                tokio::time::sleep(Duration::from_secs(1) / u32::try_from(TRICKLES).expect("a few")).await;
            }
        }
        !matches!(gate, Gate::Torn(limit) if *passed >= limit)
    }
}

/// The member that an etcd peer request names itself to be (`X-Server-From`, hexadecimal, etcd server/etcdserver/api/rafthttp).
fn named(bytes: &[u8]) -> Option<u64> {
    const HEADER: &[u8] = b"x-server-from: ";
    let at = bytes.windows(HEADER.len()).position(|w| w.eq_ignore_ascii_case(HEADER))? + HEADER.len();
    let end = bytes[at..].iter().position(|b| *b == b'\r')?;
    u64::from_str_radix(std::str::from_utf8(&bytes[at..at + end]).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etcd_peer_names_itself() {
        let request = b"GET /raft/stream/msgappv2/8e9e05c52164694d HTTP/1.1\r\nHost: x\r\nX-Server-From: 91bc3c398fb3c146\r\n\r\n";
        assert_eq!(named(request), Some(0x91bc_3c39_8fb3_c146));
        assert_eq!(named(b"GET /version HTTP/1.1\r\n\r\n"), None);
    }

    /// A port that was free may be somebody else's a moment later.
    async fn listening(to: u16) -> (u16, Proxy) {
        loop {
            let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound").port();
            if let Ok(proxy) = Proxy::listen(free, to).await {
                return (free, proxy);
            }
        }
    }

    /// The port of somebody who sends back what he gets.
    async fn echoing() -> u16 {
        let echo = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let to = echo.local_addr().expect("bound").port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = echo.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        to
    }

    #[tokio::test]
    async fn an_answer_trickles_or_breaks_off() {
        let (free, proxy) = listening(echoing().await).await;
        proxy.set(Gate::Torn(5));
        let mut client = TcpStream::connect(("127.0.0.1", free)).await.expect("it listens");
        client.write_all(b"0123456789").await.expect("open");
        let mut part = [0; 5];
        client.read_exact(&mut part).await.expect("the first bytes");
        assert_eq!(&part, b"01234");
        assert!(matches!(client.read(&mut part).await, Err(_) | Ok(0)), "it goes on");
        proxy.set(Gate::Slow(40));
        let mut client = TcpStream::connect(("127.0.0.1", free)).await.expect("it listens");
        let (began, mut all) = (std::time::Instant::now(), [0; 10]);
        client.write_all(b"0123456789").await.expect("open");
        client.read_exact(&mut all).await.expect("all of it");
        assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn silence_holds_bytes_and_a_break_resets() {
        let (free, proxy) = listening(echoing().await).await;
        let mut client = TcpStream::connect(("127.0.0.1", free)).await.expect("it listens");
        let mut byte = [0];
        client.write_all(b"a").await.expect("open");
        client.read_exact(&mut byte).await.expect("echo");
        proxy.set(Gate::Silent);
        client.write_all(b"b").await.expect("a silent network takes bytes");
        let silence = tokio::time::timeout(Duration::from_millis(200), client.read_exact(&mut byte)).await;
        assert!(silence.is_err(), "bytes passed a silent gate");
        proxy.set(Gate::Open);
        client.read_exact(&mut byte).await.expect("healed");
        assert_eq!(&byte, b"b");
        proxy.set(Gate::Broken);
        let end = tokio::time::timeout(Duration::from_secs(60), client.read(&mut byte)).await.expect("a reset is at once");
        assert!(matches!(end, Err(_) | Ok(0)), "{end:?}");
    }
}
