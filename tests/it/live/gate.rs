//! The network between two programs: a TCP proxy that passes, holds or delays bytes, or refuses connections.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep_until},
};

use super::free_address;

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Passes,
    /// Nothing passes and nothing is refused: bytes wait.
    Silent,
    /// Bytes come this much later, in both directions.
    Slow(Duration),
    /// Connections are cut, and new ones too.
    Cut,
}

/// Pieces that are on their way while the network is slow; a peer that sends more waits.
const PIECES_MAX: usize = 256;

/// The proxy; its connections end with it.
pub(crate) struct Gate {
    pub(crate) address: SocketAddr,
    network: watch::Sender<Network>,
    accepting: JoinHandle<()>,
}

impl Gate {
    /// Listens, and passes to this address.
    pub(crate) async fn before(to: SocketAddr) -> std::io::Result<Self> {
        let address = free_address()?;
        let listener = TcpListener::bind(address).await?;
        let (network, changes) = watch::channel(Network::Passes);
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(connection(client, to, changes.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, network, accepting })
    }

    pub(crate) fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn connection(client: TcpStream, to: SocketAddr, mut network: watch::Receiver<Network>) {
    if *network.borrow() == Network::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(to).await else { return };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let (up, down) = (pump(from_client, to_server, network.clone()), pump(from_server, to_client, network.clone()));
    tokio::select! {
        _ = async { tokio::join!(up, down) } => {}
        _ = network.wait_for(|network| *network == Network::Cut) => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut network: watch::Receiver<Network>) {
    let (pieces, mut waiting) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_MAX);
    let read = async move {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            if pieces.send((Instant::now(), buffer[..count].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((came, piece)) = waiting.recv().await {
            loop {
                let now = *network.borrow_and_update();
                match now {
                    Network::Passes => break,
                    Network::Slow(delay) => {
                        sleep_until(came + delay).await;
                        break;
                    }
                    // Without the sender nobody cares.
                    Network::Silent | Network::Cut => drop(network.changed().await),
                }
            }
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        // The peer may be gone.
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}
