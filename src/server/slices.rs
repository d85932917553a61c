//! In which pieces bytes go into TLS, and out of it to the socket.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use append::STEP_BYTES;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Pieces of one write that had to be cut: of steps 64 KiB, which is what rustls takes at once.
const PIECES_MAX: usize = (64 << 10) / STEP_BYTES;

/// A stream that is written in pieces of at most `LONGEST` bytes, and one piece as one: not as a list.
#[derive(Debug)]
pub(super) struct Slices<IO, const LONGEST: usize>(IO);

impl<IO, const LONGEST: usize> Slices<IO, LONGEST> {
    pub(super) fn new(io: IO) -> Self {
        Self(io)
    }
}

/// Above TLS: rustls copies each piece by itself into a record ([`append`] says why that matters).
pub(super) type Stepped<IO> = Slices<IO, STEP_BYTES>;

/// The socket below TLS: one piece is send(2), for which the kernel does less than for writev(2). rustls hands over every record as a list of pieces, and a
/// watch's event is one record.
pub(super) type Single<IO> = Slices<IO, { usize::MAX }>;

impl<IO: AsyncRead + Unpin, const LONGEST: usize> AsyncRead for Slices<IO, LONGEST> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin, const LONGEST: usize> AsyncWrite for Slices<IO, LONGEST> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let io = Pin::new(&mut self.0);
        if bufs.iter().all(|buf| buf.len() <= LONGEST) {
            return match bufs {
                [buf] => io.poll_write(cx, buf),
                bufs => io.poll_write_vectored(cx, bufs),
            };
        }
        let (mut pieces, mut count) = ([IoSlice::new(&[]); PIECES_MAX], 0);
        for (place, piece) in pieces.iter_mut().zip(bufs.iter().flat_map(|buf| buf.chunks(LONGEST))) {
            *place = IoSlice::new(piece);
            count += 1;
        }
        io.poll_write_vectored(cx, &pieces[..count])
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

    /// Tells by which call it was written, and the pieces that it was handed.
    #[derive(Default)]
    struct Told {
        calls: Vec<&'static str>,
        pieces: Vec<Vec<u8>>,
    }

    impl AsyncWrite for Told {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            self.calls.push("one");
            self.pieces.push(buf.to_vec());
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_write_vectored(mut self: Pin<&mut Self>, _: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
            self.calls.push("several");
            self.pieces.extend(bufs.iter().map(|buf| buf.to_vec()));
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
        let (mut io, mut cx) = (Single::new(Told::default()), Context::from_waker(std::task::Waker::noop()));
        for (pieces, bytes) in [(&["abc"][..], 3), (&["a", "bc"], 3), (&["", "a"], 1)] {
            let pieces: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece.as_bytes())).collect();
            assert!(matches!(Pin::new(&mut io).poll_write_vectored(&mut cx, &pieces), Poll::Ready(Ok(written)) if written == bytes));
        }
        assert_eq!(io.0.calls, ["one", "several", "several"]);
    }

    #[test]
    fn all_bytes_go_in_order_and_in_steps() {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let text: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        for lengths in [&[1][..], &[9, 16_384], &[STEP_BYTES], &[STEP_BYTES, 1], &[0, 3 * STEP_BYTES], &[700_000], &[5, 65_536, 9, 3]] {
            let (mut io, mut rest, mut bufs) = (Stepped::new(Told::default()), &text[..], Vec::new());
            for len in lengths {
                let (buf, after) = rest.split_at(*len);
                bufs.push(IoSlice::new(buf));
                rest = after;
            }
            let (mut left, mut taken) = (&mut bufs[..], 0);
            while !left.is_empty() {
                let written = match &*left {
                    [only] => Pin::new(&mut io).poll_write(&mut cx, only),
                    several => Pin::new(&mut io).poll_write_vectored(&mut cx, several),
                };
                let Poll::Ready(Ok(bytes)) = written else { panic!("it takes everything") };
                assert!(bytes > 0 && bytes <= 64 << 10, "{bytes}");
                taken += bytes;
                IoSlice::advance_slices(&mut left, bytes);
            }
            let all = text.len() - rest.len();
            assert_eq!(taken, all, "{lengths:?}");
            assert!(io.0.pieces.iter().all(|piece| piece.len() <= STEP_BYTES), "{lengths:?}");
            assert_eq!(io.0.pieces.concat(), text[..all], "{lengths:?}");
        }
    }
}
