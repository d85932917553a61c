//! The end of a connection: its client gets what was written before the socket goes.

use std::time::Duration;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

/// How long a client may send nothing and not close in turn: a round trip, and some.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// How long it may go on sending.
const LINGER_MAX: Duration = Duration::from_secs(5);

/// How much it may go on sending, bytes: five times the longest body.
const LINGER_BYTES_MAX: usize = 16 << 20;

/// What is read at a time, bytes: a TLS record.
const READ_BYTES: usize = 16 << 10;

/// Closes the writing half of a connection, and drops what its client still sends until that closes too.
///
/// A socket that is closed while bytes of its client are unread is reset, and the reset overtakes what was written: an answer would end in the middle, or
/// never be seen by a client that sends all of a refused body before it reads.
pub(super) async fn linger<IO: AsyncRead + AsyncWrite + Unpin>(mut io: IO) {
    let lingering = async {
        // Whoever is gone needs no goodbye.
        let Ok(Ok(())) = timeout(SILENCE_MAX, io.shutdown()).await else { return };
        let (mut room, mut left) = (vec![0; READ_BYTES], LINGER_BYTES_MAX);
        while let Ok(Ok(bytes @ 1..)) = timeout(SILENCE_MAX, io.read(&mut room)).await {
            left = left.saturating_sub(bytes);
            if left == 0 {
                return;
            }
        }
    };
    // Who is still sending then will see a reset.
    let _ = timeout(LINGER_MAX, lingering).await;
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{DuplexStream, duplex},
        time::{Instant, sleep},
    };

    use super::*;

    /// How long a server lingers for a client that does this.
    async fn lingers<Fut: Future<Output = DuplexStream>>(client: impl FnOnce(DuplexStream) -> Fut) -> Duration {
        let (server, there) = duplex(READ_BYTES);
        let began = Instant::now();
        let (ended, _there) = tokio::join!(
            async {
                linger(server).await;
                began.elapsed()
            },
            client(there)
        );
        ended
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_the_client() {
        let (server, client) = duplex(READ_BYTES);
        let began = Instant::now();
        drop(client);
        linger(server).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_has_a_second() {
        let mut seen = Vec::new();
        let took = lingers(async |mut client| {
            client.read_to_end(&mut seen).await.expect("the writing half is closed");
            client
        });
        assert_eq!(took.await, SILENCE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_one_has_more() {
        let slowly = async |mut client: DuplexStream| {
            while client.write_all(b"more").await.is_ok() {
                sleep(SILENCE_MAX / 2).await;
            }
            client
        };
        assert_eq!(lingers(slowly).await, LINGER_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_sends_for_ever() {
        let mut sent = 0;
        let took = lingers(async |mut client| {
            while client.write_all(&[0; 1024]).await.is_ok() {
                sent += 1024;
            }
            client
        });
        assert_eq!(took.await, Duration::ZERO);
        assert!((LINGER_BYTES_MAX..=LINGER_BYTES_MAX + 2 * READ_BYTES).contains(&sent), "{sent}");
    }
}
