//! What goes into TLS goes in short steps, and rustls copies them one by one into its records ([`codec::append`] says why that matters). Knows no TLS.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use codec::append::STEP_BYTES;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Steps of one write: 64 KiB, which is what rustls takes at once.
const STEPS_MAX: usize = (64 << 10) / STEP_BYTES;

/// See the module.
#[derive(Debug)]
pub(super) struct Stepped<IO>(pub(super) IO);

impl<IO: AsyncRead + Unpin> AsyncRead for Stepped<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Stepped<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if buf.len() <= STEP_BYTES {
            return Pin::new(&mut self.0).poll_write(cx, buf);
        }
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if bufs.iter().all(|buf| buf.len() <= STEP_BYTES) {
            return Pin::new(&mut self.0).poll_write_vectored(cx, bufs);
        }
        let (mut steps, mut count) = ([IoSlice::new(&[]); STEPS_MAX], 0);
        for (place, step) in steps.iter_mut().zip(bufs.iter().flat_map(|buf| buf.chunks(STEP_BYTES))) {
            *place = IoSlice::new(step);
            count += 1;
        }
        Pin::new(&mut self.0).poll_write_vectored(cx, &steps[..count])
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

    /// The pieces that it was handed.
    #[derive(Default)]
    struct Pieces(Vec<Vec<u8>>);

    impl AsyncWrite for Pieces {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            self.0.push(buf.to_vec());
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_write_vectored(mut self: Pin<&mut Self>, _: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
            self.0.extend(bufs.iter().map(|buf| buf.to_vec()));
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
    fn all_bytes_go_in_order_and_in_steps() {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let text: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        for lengths in [&[1][..], &[9, 16_384], &[STEP_BYTES], &[STEP_BYTES, 1], &[0, 3 * STEP_BYTES], &[700_000], &[5, 65_536, 9, 3]] {
            let (mut io, mut rest, mut bufs) = (Stepped(Pieces::default()), &text[..], Vec::new());
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
            assert!(io.0.0.iter().all(|piece| piece.len() <= STEP_BYTES), "{lengths:?}");
            assert_eq!(io.0.0.concat(), text[..all], "{lengths:?}");
        }
    }
}
