//! What a connection becomes after an answer of 101: a watch's WebSocket, or a tunnel to upstream.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncWrite};

use super::{audit::Ending, listen::ConnInfo, tunnel::Tunnel, websocket::Socket};

/// Marks an answer that is the last one of its connection, which has no headers but its own, and brings what follows it.
#[derive(Clone)]
pub(super) struct Handshake(Arc<Mutex<Option<Followed>>>);

/// What follows.
pub(super) struct Followed {
    protocol: Protocol,
    /// Told when it is over.
    ending: Option<Ending>,
}

/// What is spoken then.
pub(super) enum Protocol {
    Watch(Box<Socket>),
    Tunnel(Tunnel),
}

impl Handshake {
    /// Of an answer that this follows; nothing follows a handshake that was refused.
    pub(super) fn followed_by(protocol: Option<Protocol>) -> Self {
        Self(Arc::new(Mutex::new(protocol.map(|protocol| Followed { protocol, ending: None }))))
    }

    /// What follows carries what tells the audit log of its end. If nothing does, that is told now.
    pub(super) fn hold(&self, ending: Ending) {
        if let Some(followed) = &mut *self.0.lock().expect("no holder panics") {
            followed.ending = Some(ending);
        }
    }

    /// What follows, once.
    pub(super) fn followed(&self) -> Option<Followed> {
        self.0.lock().expect("no holder panics").take()
    }
}

impl Followed {
    /// Until either side ends it. Runs in the connection's task, so that it counts as the connection that it is.
    pub(super) async fn run(self, io: impl AsyncRead + AsyncWrite + Unpin, info: &ConnInfo) {
        match self.protocol {
            Protocol::Watch(socket) => socket.run(io, info).await,
            Protocol::Tunnel(tunnel) => tunnel.run(io, info).await,
        }
        drop(self.ending);
    }
}
