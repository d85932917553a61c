//! The chunks of an HTTP/1.1 answer that has its connection to itself (RFC 9112 §7.1): one write for each frame of its body.

use std::{
    error::Error,
    io::{self, Cursor, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, buf::Chain};
use http_body::Body;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::rewind::Rewind;

/// What is read at a time of the requests that a client sends before the answer is over, bytes. They wait until then.
const READ_BYTES: usize = 512;

/// Frames that are written before others have their turn: as many as hyper writes.
const FRAMES_AT_ONCE: usize = 16;

/// What stands before a chunk: its length in hexadecimal digits, and the end of the line.
type Size = Cursor<[u8; 18]>;

/// The end of a chunk, and of the last one, which is empty and has no trailers.
const END: &[u8] = b"\r\n";

/// An answer of which the head is written.
pub(super) struct Chunks<B> {
    body: B,
    /// What of a chunk is not written.
    chunk: Chain<Chain<Size, Bytes>, &'static [u8]>,
    is_flushed: bool,
    is_last: bool,
}

impl<B: Body<Data = Bytes> + Unpin> Chunks<B>
where
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// All of this body.
    pub(super) fn new(body: B) -> Self {
        let nothing = Size::new([0; 18]).chain(Bytes::new()).chain(&END[..0]);
        let mut chunks = Self { body, chunk: nothing, is_flushed: true, is_last: false };
        chunks.chunk.advance(chunks.chunk.remaining());
        chunks
    }

    /// Writes what the body has, until its end. What the client sends meanwhile waits in `io`.
    ///
    /// # Errors
    /// The client is gone, or the body has failed: then the end is not written, and the connection must go.
    pub(super) fn poll<IO: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        io: &mut Rewind<IO>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Box<dyn Error + Send + Sync>>> {
        hear(io, cx)?;
        for _ in 0..FRAMES_AT_ONCE {
            ready!(self.poll_written(io, cx))?;
            if self.is_last {
                return Poll::Ready(Ok(()));
            }
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
                self.begin(Bytes::new());
                self.is_last = true;
                continue;
            };
            // No answer of ours has trailers.
            if let Some(data) = frame.map_err(Into::into)?.into_data().ok().filter(|data| !data.is_empty()) {
                self.begin(data);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn begin(&mut self, data: Bytes) {
        self.chunk = size(data.len()).chain(data).chain(END);
        self.is_flushed = false;
    }

    fn poll_written<IO: AsyncWrite + Unpin>(&mut self, io: &mut Rewind<IO>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.chunk.has_remaining() {
            let mut parts = [IoSlice::new(&[]); 3];
            let count = self.chunk.chunks_vectored(&mut parts);
            match ready!(Pin::new(&mut *io).poll_write_vectored(cx, &parts[..count]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.chunk.advance(written),
            }
            if !self.chunk.has_remaining() {
                // The data is let go of: somebody counts it until then.
                *self.chunk.first_mut().last_mut() = Bytes::new();
            }
        }
        if !self.is_flushed {
            ready!(Pin::new(io).poll_flush(cx))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }
}

/// Notices that the client is gone. What else it sends is kept; when there is some, nothing more is read.
fn hear<IO: AsyncRead + AsyncWrite + Unpin>(io: &mut Rewind<IO>, cx: &mut Context<'_>) -> io::Result<()> {
    if io.has_unread() {
        return Ok(());
    }
    let mut buffer = [0; READ_BYTES];
    let mut read = ReadBuf::new(&mut buffer);
    match Pin::new(&mut *io).poll_read(cx, &mut read)? {
        Poll::Ready(()) if read.filled().is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
        Poll::Ready(()) => {
            io.unread(read.filled());
            Ok(())
        }
        Poll::Pending => Ok(()),
    }
}

/// As hyper writes it.
fn size(bytes: usize) -> Size {
    let (mut text, mut at, mut rest) = (*b"0000000000000000\r\n", 15, bytes);
    loop {
        text[at] = b"0123456789ABCDEF"[rest & 15];
        rest >>= 4;
        if rest == 0 {
            break;
        }
        at -= 1;
    }
    let mut size = Size::new(text);
    size.set_position(at as u64);
    size
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::poll_fn};

    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        sync::mpsc,
    };

    use super::*;

    type Failure = Box<dyn Error + Send + Sync>;

    fn chunks(texts: &[&'static str]) -> Chunks<impl Body<Data = Bytes, Error = Infallible> + Unpin + use<>> {
        let frames: Vec<_> = texts.iter().map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))).collect();
        Chunks::new(StreamBody::new(stream::iter(frames)))
    }

    fn pair(bytes: usize) -> (Rewind<DuplexStream>, DuplexStream) {
        let (io, client) = duplex(bytes);
        (Rewind::new(io), client)
    }

    async fn run<B: Body<Data = Bytes> + Unpin>(chunks: &mut Chunks<B>, io: &mut Rewind<DuplexStream>) -> Result<(), Failure>
    where
        B::Error: Into<Failure>,
    {
        poll_fn(|cx| chunks.poll(io, cx)).await
    }

    #[test]
    fn sizes_are_hexadecimal() {
        for (bytes, text) in [(0, "0\r\n"), (9, "9\r\n"), (10, "A\r\n"), (0x1F0, "1F0\r\n"), (usize::MAX, "FFFFFFFFFFFFFFFF\r\n")] {
            assert_eq!(size(bytes).chunk(), text.as_bytes());
        }
    }

    #[tokio::test]
    async fn frames_are_chunks_and_the_last_one_is_empty() {
        for room in [1_000, 1] {
            let (mut io, mut client) = pair(room);
            let read = tokio::spawn(async move {
                let mut text = [0; 40];
                client.read_exact(&mut text[..31]).await.expect("all of it");
                (text[..31].to_vec(), client)
            });
            run(&mut chunks(&["one", "", "a longer text"]), &mut io).await.expect("written");
            let (text, _client) = read.await.expect("no panic");
            assert_eq!(String::from_utf8_lossy(&text), "3\r\none\r\nD\r\na longer text\r\n0\r\n\r\n", "{room} bytes at a time");
        }
    }

    #[tokio::test]
    async fn others_have_their_turn_in_a_long_answer() {
        let (mut io, _client) = pair(1_000);
        let mut long = chunks(&["event"; 2 * FRAMES_AT_ONCE]);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut pauses = 0;
        while long.poll(&mut io, &mut cx).is_pending() {
            pauses += 1;
        }
        assert_eq!(pauses, 2);
    }

    #[tokio::test]
    async fn what_a_client_sends_meanwhile_waits_for_the_end() {
        let (mut io, mut client) = pair(1_000);
        client.write_all(b"GET /second").await.expect("there is room");
        run(&mut chunks(&["event"]), &mut io).await.expect("written");
        client.write_all(b" HTTP/1.1").await.expect("there is room");
        let mut text = [0; 20];
        io.read_exact(&mut text).await.expect("all of it");
        assert_eq!(&text, b"GET /second HTTP/1.1");
    }

    #[tokio::test]
    async fn a_client_that_is_gone_ends_it() {
        let (mut io, client) = pair(1_000);
        let (_events, events) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
        let body = StreamBody::new(stream::unfold(events, async |mut events| events.recv().await.map(|frame| (frame, events))));
        let mut chunks = Chunks::new(Box::pin(body));
        let gone = tokio::spawn(async move { run(&mut chunks, &mut io).await.map_err(|error| error.to_string()) });
        tokio::task::yield_now().await;
        drop(client);
        assert!(gone.await.expect("no panic").is_err());
    }

    #[tokio::test]
    async fn a_body_that_fails_has_no_end() {
        let (mut io, mut client) = pair(1_000);
        let frames = [Ok(Frame::data(Bytes::from_static(b"one"))), Err(io::Error::other("broken"))];
        let failed = run(&mut Chunks::new(StreamBody::new(stream::iter(frames))), &mut io).await;
        assert_eq!(failed.expect_err("it fails").to_string(), "broken");
        drop(io);
        let mut text = String::new();
        client.read_to_string(&mut text).await.expect("what was written");
        assert_eq!(text, "3\r\none\r\n");
    }
}
