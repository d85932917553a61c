//! A socket under TLS: a write of one piece is send(2), for which the kernel does less than for writev(2). Knows no TLS.
//!
//! rustls hands over every record as a list of pieces, and a watch's event is one record.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// See the module.
#[derive(Debug)]
pub(super) struct Single<IO>(pub(super) IO);

impl<IO: AsyncRead + Unpin> AsyncRead for Single<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Single<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match bufs {
            [buf] => Pin::new(&mut self.0).poll_write(cx, buf),
            bufs => Pin::new(&mut self.0).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells by which call it was written.
    #[derive(Default)]
    struct Calls(Vec<&'static str>);

    impl AsyncWrite for Calls {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            self.0.push("one");
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_write_vectored(mut self: Pin<&mut Self>, _: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
            self.0.push("several");
            Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn one_piece_is_one_write() {
        let (mut io, mut cx) = (Single(Calls::default()), Context::from_waker(std::task::Waker::noop()));
        for (pieces, bytes) in [(&["abc"][..], 3), (&["a", "bc"], 3), (&["", "a"], 1)] {
            let pieces: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece.as_bytes())).collect();
            assert!(matches!(Pin::new(&mut io).poll_write_vectored(&mut cx, &pieces), Poll::Ready(Ok(written)) if written == bytes));
        }
        assert_eq!(io.0.0, ["one", "several", "several"]);
    }
}
