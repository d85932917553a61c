//! A connection to the store's port: it has a place among all of them, and must say in time what it speaks.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::unfold;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Interval, Sleep, interval};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::Connected;

use super::budget::Share;

/// Connections of one listener; the next ones wait until one of them ends. etcd has as many as its process may have files.
const CONNECTIONS_MAX: usize = 1_024;
/// Until a connection has said which version of HTTP it speaks. A head of HTTP/1.1 has hyper's 30 s, and so has the next one.
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a connection looks whether its client takes its answers.
const STALL_LOOK: Duration = Duration::from_secs(5);
/// How a client begins that speaks HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// See the file's header.
pub(super) struct Connection<S> {
    stream: S,
    _place: OwnedSemaphorePermit,
    /// What its answers hold, and whether its client takes them.
    share: Share,
    look: Interval,
    /// While it has not said what it speaks.
    opening: Option<Opening>,
}

struct Opening {
    /// Bytes of the preface that have come.
    matched: usize,
    deadline: Pin<Box<Sleep>>,
}

/// Gives each stream that comes in a place. The next one is accepted when there is one.
pub(super) fn placed<S>(incoming: impl Stream<Item = io::Result<S>> + Unpin) -> impl Stream<Item = io::Result<Connection<S>>> {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    unfold((incoming, places), |(mut incoming, places)| async move {
        let place = places.clone().acquire_owned().await.ok()?;
        let stream = incoming.next().await?;
        let opening = Opening { matched: 0, deadline: Box::pin(tokio::time::sleep(FIRST_BYTES_TIMEOUT)) };
        let connection =
            |stream| Connection { stream, _place: place, share: Share::default(), look: interval(STALL_LOOK), opening: Some(opening) };
        Some((stream.map(connection), (incoming, places)))
    })
}

impl Opening {
    /// Whether it is still open what a client speaks that has sent so many bytes more.
    fn goes_on(&mut self, bytes: &[u8]) -> bool {
        let rest = &PREFACE[self.matched..];
        self.matched += bytes.len().min(rest.len());
        bytes.len() < rest.len() && rest.starts_with(bytes)
    }
}

impl<S> Connection<S> {
    /// Fails once the client takes nothing of an answer any more, or has not said in time what it speaks.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        while self.look.poll_tick(cx).is_ready() {
            if self.share.is_stalled() {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
        }
        match &mut self.opening {
            Some(opening) => opening.deadline.as_mut().poll(cx).map(|()| io::ErrorKind::TimedOut.into()),
            None => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_pending() {
            return self.poll_overdue(cx).map(Err);
        }
        if self.opening.as_mut().is_some_and(|opening| !opening.goes_on(&buffer.filled()[before..])) {
            self.opening = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_pending() { self.poll_overdue(cx).map(Err) } else { written }
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        if written.is_pending() { self.poll_overdue(cx).map(Err) } else { written }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S> Connected for Connection<S> {
    type ConnectInfo = Share;

    fn connect_info(&self) -> Share {
        self.share.clone()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// A connection, and its other end.
    async fn pair() -> (Connection<DuplexStream>, DuplexStream) {
        let (near, far) = duplex(64);
        let mut incoming = Box::pin(placed(tokio_stream::iter([Ok(near)])));
        (incoming.next().await.expect("one").expect("no error"), far)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_say_what_it_speaks_is_disconnected() {
        for begin in ["", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r"] {
            let (mut near, mut far) = pair().await;
            far.write_all(begin.as_bytes()).await.expect("written");
            let error = near.read_to_end(&mut Vec::new()).await.expect_err("too late");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{begin:?}");
        }
        for begin in ["G", "POST", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
            let (mut near, mut far) = pair().await;
            far.write_all(begin.as_bytes()).await.expect("written");
            let late = async {
                tokio::time::sleep(2 * FIRST_BYTES_TIMEOUT).await;
                drop(far);
            };
            let (read, ()) = tokio::join!(async { near.read_to_end(&mut Vec::new()).await }, late);
            assert_eq!(read.expect("read"), begin.len(), "{begin:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_waits_for_a_place() {
        let streams = (0..=CONNECTIONS_MAX).map(|_| Ok(tokio::io::empty()));
        let mut incoming = Box::pin(placed(tokio_stream::iter(streams)));
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            open.push(incoming.next().await);
        }
        assert!(futures_util::FutureExt::now_or_never(incoming.next()).is_none(), "all places are taken");
        open.pop();
        assert!(incoming.next().await.is_some_and(|next| next.is_ok()));
    }
}
