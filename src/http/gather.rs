//! Puts together what hyper writes in one turn of a connection, so that it goes out in one write and in whole TLS records. Knows no frame and no turn.

use std::{
    cell::Cell,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use codec::append;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::budget::{Account, Hold};

/// Most bytes that are put together: four TLS records. Also what a client that does not read may leave in the buffer.
const GATHERED_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// The buffer of whatever turn runs on this thread: a connection has one only while something is in it.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A stream that two have: hyper, and the turn around it.
pub(super) struct Gather<IO>(Arc<Mutex<Gathered<IO>>>);

struct Gathered<IO> {
    io: IO,
    /// What was read already, and is read again before anything else.
    unread: Vec<u8>,
    /// Whether writes wait for the end of the turn.
    gathers: bool,
    buffer: Vec<u8>,
    /// How much of the buffer is written.
    written: usize,
    /// The end of a turn could not write.
    failed: Option<io::ErrorKind>,
    /// Counts what a client that does not read leaves in the buffer.
    account: Arc<Account>,
    held: Option<Hold>,
}

impl<IO> Clone for Gather<IO> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<IO: AsyncWrite + Unpin> Gather<IO> {
    /// Passes everything on until a turn gathers. What a client leaves unread counts in this account.
    pub(super) fn new(io: IO, account: &Arc<Account>) -> Self {
        let (unread, gathers, buffer, written, failed, account, held) = (Vec::new(), false, Vec::new(), 0, None, account.clone(), None);
        Self(Arc::new(Mutex::new(Gathered { io, unread, gathers, buffer, written, failed, account, held })))
    }

    /// A turn begins: from now on writes wait for its end.
    pub(super) fn begin(&self) {
        self.lock().gathers = true;
    }

    /// Writes what the turn has brought. When that fails, the next write tells it too. Pending: something waits for the client.
    pub(super) fn finish(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut this = self.lock();
        this.gathers = false;
        let drained = this.drain(cx);
        if drained.is_pending() {
            this.wait_for_client();
        }
        ready!(drained)?;
        // Of TLS: what the socket has not taken of the last record.
        Pin::new(&mut this.io).poll_flush(cx)
    }

    /// Whether something waits for the client.
    pub(super) fn has_unwritten(&self) -> bool {
        !self.lock().buffer.is_empty()
    }

    /// These bytes were read too early: they are read again, before all others.
    pub(super) fn unread(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.lock().unread.splice(..0, bytes.iter().copied());
        }
    }

    /// Whether there are such bytes.
    pub(super) fn has_unread(&self) -> bool {
        !self.lock().unread.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Gathered<IO>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<IO: AsyncWrite + Unpin> Gathered<IO> {
    /// Takes the bytes if they fit, or writes what is there to make room for them.
    fn write(&mut self, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if let Some(kind) = self.failed {
            return Poll::Ready(Err(kind.into()));
        }
        let bytes: usize = bufs.iter().map(|buf| buf.len()).sum();
        if !self.gathers || self.buffer.len() + bytes > GATHERED_BYTES_MAX {
            ready!(self.drain(cx))?;
        }
        if !self.gathers || bytes > GATHERED_BYTES_MAX {
            return Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        }
        if self.buffer.is_empty() {
            self.buffer = SPARE.take();
        }
        bufs.iter().for_each(|buf| append(buf, &mut self.buffer));
        Poll::Ready(Ok(bytes))
    }

    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.buffer.len() {
            let error = match ready!(Pin::new(&mut self.io).poll_write(cx, &self.buffer[self.written..])) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(bytes) => {
                    self.written += bytes;
                    continue;
                }
                Err(error) => error,
            };
            self.failed = Some(error.kind());
            self.emptied();
            return Poll::Ready(Err(error));
        }
        self.emptied();
        Poll::Ready(Ok(()))
    }

    fn emptied(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.written = 0;
        self.held = None;
        if buffer.capacity() > 0 {
            buffer.clear();
            SPARE.set(buffer);
        }
    }

    /// The client takes nothing: what is left is kept in no more room than it needs, and counted.
    fn wait_for_client(&mut self) {
        self.buffer.drain(..self.written);
        self.written = 0;
        self.buffer.shrink_to_fit();
        self.held = Some(self.account.add(self.buffer.len()));
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Gather<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut this = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !this.unread.is_empty() {
            let bytes = this.unread.len().min(buf.remaining());
            buf.put_slice(&this.unread[..bytes]);
            this.unread.drain(..bytes);
            if this.unread.is_empty() {
                this.unread = Vec::new();
            }
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.io).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Gather<IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.lock().write(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.lock().write(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.lock().io.is_write_vectored()
    }

    /// In a turn its end does this.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut this = self.lock();
        if let Some(kind) = this.failed {
            return Poll::Ready(Err(kind.into()));
        }
        if this.gathers && !this.buffer.is_empty() {
            return Poll::Ready(Ok(()));
        }
        ready!(this.drain(cx))?;
        Pin::new(&mut this.io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut this = self.lock();
        if this.failed.is_none() {
            ready!(this.drain(cx))?;
        }
        Pin::new(&mut this.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use prometheus::IntGauge;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::http::budget::Budget;

    fn cx() -> Context<'static> {
        Context::from_waker(std::task::Waker::noop())
    }

    fn gauge() -> IntGauge {
        IntGauge::new("held", "bytes").expect("a name")
    }

    fn account() -> Arc<Account> {
        Budget::new(1 << 20, gauge()).account()
    }

    fn write<IO: AsyncWrite + Unpin>(gather: &mut Gather<IO>, bytes: &[u8]) -> Poll<usize> {
        Pin::new(gather).poll_write(&mut cx(), bytes).map(|written| written.expect("written"))
    }

    fn is_done<IO: AsyncWrite + Unpin>(gather: &Gather<IO>) -> bool {
        matches!(gather.finish(&mut cx()), Poll::Ready(Ok(())))
    }

    /// Counts the writes that reach the stream.
    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl AsyncWrite for Writes {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            self.0.push(buf.to_vec());
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn writes(gather: &Gather<Writes>) -> Vec<usize> {
        gather.lock().io.0.iter().map(Vec::len).collect()
    }

    #[test]
    fn a_turn_is_one_write() {
        let mut gather = Gather::new(Writes::default(), &account());
        gather.begin();
        for _ in 0..100 {
            assert_eq!(write(&mut gather, b"0123456789"), Poll::Ready(10));
            assert!(matches!(Pin::new(&mut gather).poll_flush(&mut cx()), Poll::Ready(Ok(()))));
        }
        assert!(gather.has_unwritten() && writes(&gather).is_empty());
        assert!(is_done(&gather));
        assert_eq!(writes(&gather), [1_000]);
        assert_eq!((gather.has_unwritten(), gather.lock().buffer.capacity()), (false, 0), "the buffer is the thread's again");
        // Outside of a turn everything passes.
        assert_eq!(write(&mut gather, b"abc"), Poll::Ready(3));
        assert_eq!(writes(&gather), [1_000, 3]);
    }

    #[tokio::test]
    async fn what_was_read_too_early_is_read_again() {
        let (io, mut client) = duplex(10);
        let mut gather = Gather::new(io, &account());
        client.write_all(b"later").await.expect("there is room");
        gather.unread(b"second ");
        gather.unread(b"first ");
        assert!(gather.has_unread());
        let mut text = [0; 18];
        for part in text.chunks_mut(3) {
            gather.read_exact(part).await.expect("it is there");
        }
        assert_eq!((&text, gather.has_unread()), (b"first second later", false));
    }

    #[test]
    fn what_does_not_fit_makes_room_first() {
        let mut gather = Gather::new(Writes::default(), &account());
        gather.begin();
        let (part, whole) = (vec![1; 40 << 10], vec![2; 100 << 10]);
        assert_eq!(write(&mut gather, &part), Poll::Ready(part.len()));
        assert_eq!(write(&mut gather, &part), Poll::Ready(part.len()));
        assert_eq!(write(&mut gather, &whole), Poll::Ready(whole.len()));
        assert!(is_done(&gather));
        assert_eq!(writes(&gather), [part.len(), part.len(), whole.len()]);
    }

    #[tokio::test]
    async fn what_a_client_does_not_read_waits_and_is_counted() {
        let (io, mut client) = duplex(10);
        let account = account();
        let mut gather = Gather::new(io, &account);
        gather.begin();
        assert_eq!(write(&mut gather, b"0123456789abcdef"), Poll::Ready(16));
        assert!(gather.finish(&mut cx()).is_pending());
        assert_eq!((gather.has_unwritten(), account.held()), (true, 6));
        let mut read = [0; 10];
        client.read_exact(&mut read).await.expect("ten");
        // Outside of a turn hyper's flush does it.
        gather.flush().await.expect("there is room");
        assert_eq!((gather.has_unwritten(), account.held()), (false, 0));
        client.read_exact(&mut read[..6]).await.expect("the rest");
        assert_eq!(&read[..6], b"abcdef");
        drop(client);
        gather.begin();
        assert_eq!(write(&mut gather, b"x"), Poll::Ready(1));
        assert!(matches!(gather.finish(&mut cx()), Poll::Ready(Err(_))), "nobody is there");
        assert!(gather.write_all(b"y").await.is_err(), "the next write tells it");
    }
}
