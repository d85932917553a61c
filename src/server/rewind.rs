//! A connection that several speak on, one after the other, and whose bytes can be read again by the next one.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that hyper has, and whoever speaks before and after it.
pub(super) struct Rewind<IO>(Arc<Mutex<Rewound<IO>>>);

struct Rewound<IO> {
    io: IO,
    /// What was read already, and is read again before anything else.
    unread: Vec<u8>,
}

impl<IO> Clone for Rewind<IO> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<IO> Rewind<IO> {
    pub(super) fn new(io: IO) -> Self {
        Self(Arc::new(Mutex::new(Rewound { io, unread: Vec::new() })))
    }

    /// These bytes were read too early: they are read again, before all others.
    pub(super) fn unread(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.0.lock().unread.splice(..0, bytes.iter().copied());
        }
    }

    /// Whether there are such bytes.
    pub(super) fn has_unread(&self) -> bool {
        !self.0.lock().unread.is_empty()
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Rewind<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut this = self.0.lock();
        if this.unread.is_empty() {
            return Pin::new(&mut this.io).poll_read(cx, buf);
        }
        let bytes = this.unread.len().min(buf.remaining());
        buf.put_slice(&this.unread[..bytes]);
        this.unread.drain(..bytes);
        if this.unread.is_empty() {
            this.unread = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Rewind<IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.lock().io).poll_write(cx, buf)
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.lock().io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.lock().io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_was_read_too_early_is_read_again() {
        let (io, mut client) = duplex(10);
        let mut rewind = Rewind::new(io);
        client.write_all(b"later").await.expect("there is room");
        rewind.unread(b"second ");
        rewind.unread(b"first ");
        assert!(rewind.has_unread());
        let mut text = [0; 18];
        for part in text.chunks_mut(3) {
            rewind.read_exact(part).await.expect("it is there");
        }
        assert_eq!((&text, rewind.has_unread()), (b"first second later", false));
    }
}
