//! A socket whose reader turns bad on a signal: it stops, or takes a byte a second. Knows no HTTP.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::watch,
    time::{Instant, Sleep, sleep},
};

/// Time between two bytes, and between two looks at the signal.
const BEAT: Duration = Duration::from_secs(1);
/// Receive buffer of a bad reader, bytes: it must be the server that holds what is not read, or lets go of it.
pub(crate) const RECEIVE_BYTES: u32 = 16 << 10;

/// What a reader does while the signal is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Reads nothing.
    Stops,
    /// Reads a byte a second.
    Trickles,
    /// Reads all, resets its connection after a few events, and comes back.
    Resets,
}

/// A connection with a brake on its reading side.
pub(crate) struct Braked {
    stream: TcpStream,
    manner: Manner,
    signal: watch::Receiver<bool>,
    beat: Pin<Box<Sleep>>,
}

impl Braked {
    /// Over a new connection.
    pub(crate) fn new(stream: TcpStream, manner: Manner, signal: watch::Receiver<bool>) -> Self {
        Self { stream, manner, signal, beat: Box::pin(sleep(BEAT)) }
    }
}

impl AsyncRead for Braked {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while matches!(this.manner, Manner::Stops | Manner::Trickles) && *this.signal.borrow() {
            ready!(this.beat.as_mut().poll(cx));
            this.beat.as_mut().reset(Instant::now() + BEAT);
            if this.manner == Manner::Trickles {
                let mut byte = [0];
                let mut one = ReadBuf::new(&mut byte);
                ready!(Pin::new(&mut this.stream).poll_read(cx, &mut one))?;
                buf.put_slice(one.filled());
                return Poll::Ready(Ok(()));
            }
        }
        Pin::new(&mut this.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Braked {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::timeout,
    };

    use super::*;

    /// How many of 100 bytes are read within 1.5 s while the signal is on, in how many beats, and whether all come when it is off.
    async fn read_by(manner: Manner) -> (usize, usize, bool) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        let (mut peer, _) = listener.accept().await.expect("one caller");
        peer.write_all(&[7; 100]).await.expect("room for 100 bytes");
        let signal = watch::Sender::new(true);
        let began = Instant::now();
        let mut braked = Braked::new(stream, manner, signal.subscribe());
        let mut got = Vec::new();
        let mut chunk = [0; 64];
        let _until_the_time_is_over = timeout(Duration::from_millis(1500), async {
            while let Ok(n @ 1..) = braked.read(&mut chunk).await {
                got.extend_from_slice(&chunk[..n]);
            }
        })
        .await;
        let (meanwhile, beats) = (got.len(), began.elapsed().div_duration_f64(BEAT) as usize);
        signal.send_replace(false);
        let mut rest = vec![0; 100 - meanwhile];
        let all = timeout(Duration::from_secs(60), braked.read_exact(&mut rest)).await.is_ok_and(|read| read.is_ok());
        (meanwhile, beats, all)
    }

    #[tokio::test]
    async fn bad_readers_read_little_and_later_all() {
        let (read, _, all) = read_by(Manner::Resets).await;
        assert_eq!((read, all), (100, true));
        let (read, _, all) = read_by(Manner::Stops).await;
        assert_eq!((read, all), (0, true));
        let (read, beats, all) = read_by(Manner::Trickles).await;
        assert!((1..=beats).contains(&read) && all, "{read} bytes in {beats} beats");
    }
}
