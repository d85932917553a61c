//! What a connection has to write: it goes out in one write, and the room for it is the thread's.

use std::{
    cell::Cell,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{io::AsyncWrite, time::Instant};

use crate::budget::{Account, Reservation};

/// Bytes from which on no more is put together: four TLS records. A turn may come to a frame more.
const BYTES_MAX: usize = 64 << 10;

/// What a client may leave unread before nothing more of it is heard: the answers to its PINGs and SETTINGS find no place either.
const UNREAD_MAX: usize = BYTES_MAX + (32 << 10);

/// Room that is kept for the thread's next turn.
const SPARE_MAX: usize = 2 * BYTES_MAX;

thread_local! {
    /// The room of whatever turn runs on this thread: a connection has one only while something is in it.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What is to be written.
#[derive(Debug)]
pub(super) struct Output {
    bytes: Vec<u8>,
    /// How many of them are written.
    written: usize,
    /// Bytes that were written since somebody asked.
    gone: usize,
    is_flushed: bool,
    /// Since when the client takes nothing.
    waits_since: Option<Instant>,
    /// Counts what a client that does not read leaves here.
    account: Arc<Account>,
    held: Option<Reservation>,
}

impl Output {
    pub(super) fn new(account: &Arc<Account>) -> Self {
        Self { bytes: Vec::new(), written: 0, gone: 0, is_flushed: true, waits_since: None, account: account.clone(), held: None }
    }

    /// Where more is put.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = SPARE.take();
        }
        &mut self.bytes
    }

    /// Bytes that may be added before it is written.
    pub(super) fn room(&self) -> usize {
        BYTES_MAX.saturating_sub(self.bytes.len())
    }

    /// Returns how many bytes were written since this was asked.
    pub(super) fn take_written(&mut self) -> usize {
        std::mem::take(&mut self.gone)
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.is_flushed
    }

    /// Whether there is so much that the client has to read first.
    pub(super) fn is_too_much(&self) -> bool {
        self.bytes.len() - self.written >= UNREAD_MAX
    }

    /// Since when the client takes nothing of it.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        self.waits_since
    }

    /// Writes all of it. Pending: the client has to read first, and what it leaves is counted.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) fn poll_written<IO: AsyncWrite + Unpin>(&mut self, io: &mut IO, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.bytes.len() {
            match Pin::new(&mut *io).poll_write(cx, &self.bytes[self.written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(bytes)) => {
                    (self.written, self.is_flushed, self.waits_since) = (self.written + bytes, false, None);
                    self.gone += bytes;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.wait_for_client();
                    return Poll::Pending;
                }
            }
        }
        (self.written, self.held) = (0, None);
        self.bytes.clear();
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.capacity() > 0 && bytes.capacity() <= SPARE_MAX {
            SPARE.set(bytes);
        }
        if !self.is_flushed {
            // Of TLS: what the socket has not taken of the last record.
            let flushed = Pin::new(io).poll_flush(cx)?;
            if flushed.is_pending() {
                self.waits_since.get_or_insert_with(Instant::now);
            }
            ready!(flushed);
            self.is_flushed = true;
        }
        self.waits_since = None;
        Poll::Ready(Ok(()))
    }

    /// What is left is kept in no more room than it needs.
    fn wait_for_client(&mut self) {
        self.waits_since.get_or_insert_with(Instant::now);
        self.bytes.drain(..self.written);
        self.written = 0;
        self.bytes.shrink_to_fit();
        self.held = None;
        self.held = Some(self.account.add(self.bytes.len()));
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    fn cx() -> Context<'static> {
        Context::from_waker(std::task::Waker::noop())
    }

    #[tokio::test]
    async fn what_a_client_does_not_read_waits_and_is_counted() {
        let (mut io, mut client) = duplex(10);
        let account = Account::of_a_test();
        let mut output = Output::new(&account);
        output.bytes().extend_from_slice(b"0123456789abcdef");
        assert!(output.poll_written(&mut io, &mut cx()).is_pending());
        assert_eq!((output.is_empty(), account.held()), (false, 6));
        let mut read = [0; 16];
        client.read_exact(&mut read[..10]).await.expect("ten");
        assert!(matches!(output.poll_written(&mut io, &mut cx()), Poll::Ready(Ok(()))));
        assert_eq!((output.is_empty(), account.held(), output.bytes.capacity()), (true, 0, 0), "the room is the thread's again");
        client.read_exact(&mut read[10..]).await.expect("the rest");
        assert_eq!(&read, b"0123456789abcdef");
        drop(client);
        output.bytes().push(b'x');
        assert!(matches!(output.poll_written(&mut io, &mut cx()), Poll::Ready(Err(_))), "nobody is there");
    }

    #[test]
    fn there_is_a_limit() {
        let mut output = Output::new(&Account::of_a_test());
        assert_eq!((output.room(), output.is_too_much()), (BYTES_MAX, false));
        output.bytes().resize(BYTES_MAX, 0);
        assert_eq!((output.room(), output.is_too_much()), (0, false));
        output.bytes().resize(UNREAD_MAX, 0);
        assert!(output.is_too_much());
    }
}
