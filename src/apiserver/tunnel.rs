//! A connection whose protocol has changed at both ends: bytes pass as they come. Of those who do not read nothing more is taken from the other side.

use std::{future::Future, pin::Pin};

use hyper_util::rt::TokioIo;
use server::{Conn, Follow, Io};
use tokio::io::copy_bidirectional_with_sizes;
use upstream::Upgraded;

/// What is held of each direction, bytes.
const HELD_BYTES: usize = 32 << 10;

/// The way of a client's bytes to upstream, and back.
pub(super) struct Tunnel {
    pub(super) upstream: Upgraded,
}

impl Follow for Tunnel {
    fn run<'a>(self: Box<Self>, io: Box<dyn Io + 'a>, conn: &'a Conn) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.pass(io, conn))
    }
}

impl Tunnel {
    /// Passes bytes until both sides have ended, one has broken, or the server stops. However long nothing comes: a shell that waits for its user is no fault.
    async fn pass(mut self, mut client: Box<dyn Io + '_>, info: &Conn) {
        let mut stop = info.stop.clone();
        let passing = async {
            // A connection may break before the answer is out.
            let Ok(upstream) = (&mut self.upstream.io).await else { return };
            let mut upstream = TokioIo::new(upstream);
            if let Err(error) = copy_bidirectional_with_sizes(&mut client, &mut upstream, HELD_BYTES, HELD_BYTES).await {
                tracing::debug!(%error, "a tunnel broke");
            }
        };
        tokio::select! {
            () = passing => {}
            _ = stop.wait_for(|stopped| *stopped) => {}
        }
    }
}
