//! What a connection becomes after an answer of 101.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};

use super::conn::Conn;

/// The bytes of a connection.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Another protocol, which follows HTTP on a connection.
pub trait Follow: Send {
    /// Speaks it until either side ends it, in the connection's task: so it counts as the connection that it is.
    fn run<'a>(self: Box<Self>, io: Box<dyn Io + 'a>, conn: &'a Conn) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}

/// ReadyQueue an answer that is the last one of its connection, which has no headers but its own, and brings what follows it.
#[derive(Clone)]
pub struct Handshake(Arc<Mutex<Option<Followed>>>);

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshake")
    }
}

/// What follows.
pub(super) struct Followed {
    protocol: Box<dyn Follow>,
    /// Is dropped when it is over.
    ending: Option<Box<dyn Send>>,
}

impl Handshake {
    /// ReadyQueue an answer that this follows; nothing follows a handshake that was refused.
    pub fn followed_by(protocol: Option<Box<dyn Follow>>) -> Self {
        Self(Arc::new(Mutex::new(protocol.map(|protocol| Followed { protocol, ending: None }))))
    }

    /// Has what follows hold this until it is over. If nothing follows, it is dropped now.
    pub fn hold(&self, ending: impl Send + 'static) {
        if let Some(followed) = &mut *self.0.lock() {
            followed.ending = Some(Box::new(ending));
        }
    }

    /// Returns what follows, once.
    pub(super) fn followed(&self) -> Option<Followed> {
        self.0.lock().take()
    }
}

impl Followed {
    /// Runs until either side ends it.
    pub(super) async fn run(self, io: impl Io, conn: &Conn) {
        self.protocol.run(Box::new(io), conn).await;
        drop(self.ending);
    }
}
