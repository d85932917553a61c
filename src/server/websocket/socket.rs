//! One open WebSocket: a watch's events go out, each in a frame of its own; what the client sends is read for its pings and its end.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, Bytes};
use http2::Tokens;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    time::{Instant, sleep_until, timeout, timeout_at},
};

use super::{
    super::{
        conn::Conn,
        connections::CloseReason,
        upgraded::{Follow, Io},
    },
    frame::{self, Incoming, NORMAL, POLICY_VIOLATION, PROTOCOL_ERROR, Payload, Said},
};

/// What is read from a client at a time, bytes: it has little to say.
const READ_BYTES: usize = 512;

/// How long after the watch's deadline a client that does not read may still hold its connection.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// How long a connection is open at least before the server closes it, though all events are sent: a client that hears of the end before it has set up what it
/// hears it with may wait for ever (fabric8 7.4 on Vert.x does). Such a client closes by itself when it reads an `ERROR`.
const OPEN_AT_LEAST: Duration = Duration::from_secs(1);

/// How long a client may take to read the close frame and to close in turn. The connection ends without it too; but a socket that is closed with unread
/// bytes is reset, and the close frame may be lost.
const FAREWELL: Duration = Duration::from_secs(1);

/// Where the events come from.
pub trait Events: Send {
    /// Returns when they end at the latest.
    fn deadline(&self) -> Instant;

    /// Polls for what is pending, at least one event as it is shared; `None` at the end.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<Bytes>>>;
}

/// What an upgraded connection is for: sends events until they end or the client does.
///
/// What is taken from them for a client that does not read, one batch, is counted in the connection's account.
pub struct Socket {
    /// What is sent.
    pub events: Box<dyn Events>,
    /// How.
    pub payload: Payload,
}

impl Follow for Socket {
    fn run<'a>(self: Box<Self>, io: Box<dyn Io + 'a>, conn: &'a Conn) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(serve(io, self.events, self.payload, conn))
    }
}

async fn serve(io: impl AsyncRead + AsyncWrite, mut events: Box<dyn Events>, payload: Payload, info: &Conn) {
    let (mut from, mut to) = split(io);
    let (mut pings, began) = (Tokens::default(), Instant::now());
    let until = events.deadline() + LAST_WRITE;
    let mut client = Client::new(&mut from);
    // When to close, after the last event.
    let mut close_at = None;
    let code = loop {
        // One of them at a time: a client whose socket is full is not read, and nothing is taken from the watch for it.
        let sent = tokio::select! {
            said = client.said() => match said {
                Ok(Said::Ping(payload)) => {
                    pings.spend();
                    if !pings.suffice(|| began.elapsed()) {
                        info.seat.leave(CloseReason::Flood);
                        break POLICY_VIOLATION;
                    }
                    send(&mut to, frame::pong(payload).into(), until).await
                }
                Ok(Said::Unmasked) => break PROTOCOL_ERROR,
                // A client that is gone may still read.
                Ok(Said::End) | Err(_) => break NORMAL,
            },
            () = sleep_until(close_at.unwrap_or(began)), if close_at.is_some() => break NORMAL,
            next = poll_fn(|cx| events.poll_next(cx)), if close_at.is_none() => match next {
                // What comes late, because the machine stood still, may take as long as what came in time.
                Some(events) => {
                    let until = until.max(Instant::now() + LAST_WRITE);
                    let _held = info.unread.add(events.iter().map(Bytes::len).sum());
                    send(&mut to, events.iter().flat_map(|event| payload.frame(event)).collect(), until).await
                }
                None => {
                    close_at = Some(began + OPEN_AT_LEAST);
                    Ok(())
                }
            },
        };
        if sent.is_err() {
            return;
        }
    };
    let farewell = async {
        to.write_all(&frame::close(code)).await?;
        to.shutdown().await?;
        tokio::io::copy(&mut from, &mut tokio::io::sink()).await
    };
    // Whether it came through is the client's affair.
    let _ = timeout(FAREWELL, farewell).await;
}

async fn send(to: &mut (impl AsyncWrite + Unpin), parts: VecDeque<Bytes>, until: Instant) -> io::Result<()> {
    let mut parts = Parts(parts);
    timeout_at(until, async {
        to.write_all_buf(&mut parts).await?;
        to.flush().await
    })
    .await?
}

/// The client's side of the connection.
struct Client<'a, R> {
    from: &'a mut R,
    incoming: Incoming,
    buffer: [u8; READ_BYTES],
    /// What of the buffer is still to be looked at.
    unread: std::ops::Range<usize>,
}

impl<'a, R: AsyncRead + Unpin> Client<'a, R> {
    fn new(from: &'a mut R) -> Self {
        Self { from, incoming: Incoming::default(), buffer: [0; READ_BYTES], unread: 0..0 }
    }

    /// The next thing it says that matters. Cancel-safe: what was read stays.
    async fn said(&mut self) -> io::Result<Said> {
        loop {
            let mut rest = &self.buffer[self.unread.clone()];
            let said = self.incoming.feed(&mut rest);
            self.unread.start = self.unread.end - rest.len();
            if let Some(said) = said {
                return Ok(said);
            }
            let read = self.from.read(&mut self.buffer).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.unread = 0..read;
        }
    }
}

/// Bytes in several pieces, none of them empty at the front: written as they are shared, without joining.
struct Parts(VecDeque<Bytes>);

impl Buf for Parts {
    fn remaining(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.0.front().map_or(&[], |part| part)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.0.iter().zip(slices).map(|(part, slice)| *slice = IoSlice::new(part)).count()
    }

    fn advance(&mut self, mut taken: usize) {
        while let Some(part) = self.0.front_mut() {
            if taken < part.len() {
                return part.advance(taken);
            }
            taken -= part.len();
            self.0.pop_front();
        }
        assert_eq!(taken, 0, "no more is taken than is there");
    }
}
