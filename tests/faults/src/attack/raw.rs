//! One HTTP/2 connection of an attacker: it sends what it likes, gives streams the window it likes, and counts what comes back.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split},
    sync::Mutex as AsyncMutex,
    task::JoinHandle,
    time::timeout,
};

use crate::{
    attack::frames::{self, Head},
    http::{Io, Listener, Protocol},
};

/// How long a connection may take to be opened, to the server's SETTINGS.
const OPENING: Duration = Duration::from_secs(10);
/// How long one write may wait for a server that does not read.
const WRITE: Duration = Duration::from_secs(5);
/// The longest payload that is kept of a frame; of longer ones only this is looked at.
const LOOKED_AT: usize = 16;

/// Whether the attacker reads what the server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// All of it; what it does not want is held back by windows.
    Everything,
    /// Nothing after the server's SETTINGS.
    Nothing,
}

/// A connection. Dropping it closes it.
pub(crate) struct Raw {
    writer: Arc<AsyncMutex<WriteHalf<Io>>>,
    seen: Arc<Seen>,
    reader: JoinHandle<()>,
    next: AtomicU32,
    scheme: &'static str,
    authority: String,
    token: Option<String>,
}

/// What came back.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    ok: AtomicUsize,
    refused: AtomicUsize,
    resets: AtomicUsize,
    /// The server said GOAWAY, or closed.
    gone: AtomicBool,
    windows: Mutex<Windows>,
}

/// What may still be sent.
#[derive(Debug)]
struct Windows {
    connection: i64,
    initial: i64,
    /// What streams have besides the initial window.
    streams: HashMap<u32, i64>,
}

impl Default for Windows {
    fn default() -> Self {
        Self { connection: frames::WINDOW, initial: frames::WINDOW, streams: HashMap::new() }
    }
}

impl Seen {
    /// Whether nothing more can be had from this connection.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    fn windows(&self) -> MutexGuard<'_, Windows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up to `wanted` bytes out of both windows.
    fn take(&self, stream: u32, wanted: usize) -> usize {
        let mut windows = self.windows();
        let own = windows.initial + windows.streams.get(&stream).copied().unwrap_or(0);
        let taken = own.min(windows.connection).clamp(0, i64::try_from(wanted).unwrap_or(i64::MAX));
        windows.connection -= taken;
        *windows.streams.entry(stream).or_default() -= taken;
        usize::try_from(taken).expect("clamped at zero")
    }

    fn note(&self, head: Head, payload: &[u8]) {
        let word = || payload.get(..4).and_then(|b| b.try_into().ok()).map_or(0, |b| i64::from(u32::from_be_bytes(b)));
        match head.kind {
            frames::HEADERS if frames::is_ok(payload) => add_one(&self.ok),
            // Trailers would count too, but no answer here has any.
            frames::HEADERS => add_one(&self.refused),
            frames::RST_STREAM => add_one(&self.resets),
            frames::GOAWAY => self.gone.store(true, Ordering::Relaxed),
            frames::WINDOW_UPDATE if head.stream == 0 => self.windows().connection += word(),
            frames::WINDOW_UPDATE => *self.windows().streams.entry(head.stream).or_default() += word(),
            _ => {}
        }
    }

    fn settings(&self, payload: &[u8]) {
        for setting in payload.chunks_exact(6) {
            if setting[..2] == frames::INITIAL_WINDOW.to_be_bytes() {
                self.windows().initial = i64::from(u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]));
            }
        }
    }
}

fn add_one(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl Raw {
    /// Opens one whose streams may be sent `window` bytes each before a WINDOW_UPDATE that never comes.
    pub(crate) async fn open(listener: &Listener, nth: usize, window: u32, reads: Reads) -> Result<Self> {
        timeout(OPENING, Self::opened(listener, nth, window, reads)).await.context("no HTTP/2 within the time for opening")?
    }

    async fn opened(listener: &Listener, nth: usize, window: u32, reads: Reads) -> Result<Self> {
        let mut io = listener.reach(nth, Protocol::Http2).await?;
        let mut hello = frames::PREFACE.to_vec();
        frames::settings(&mut hello, &[(frames::INITIAL_WINDOW, window)]);
        io.write_all(&hello).await?;
        let mut head = [0; frames::HEAD];
        io.read_exact(&mut head).await?;
        let head = Head::read(head);
        ensure!(head.kind == frames::SETTINGS && head.length <= frames::PAYLOAD_MAX, "the server began with {head:?}");
        let mut payload = vec![0; head.length];
        io.read_exact(&mut payload).await?;
        let seen = Arc::new(Seen::default());
        seen.settings(&payload);
        let mut answer = Vec::new();
        frames::frame(&mut answer, frames::SETTINGS, frames::ACK, 0, &[]);
        io.write_all(&answer).await?;
        let (read, write) = split(io);
        let writer = Arc::new(AsyncMutex::new(write));
        let reader = match reads {
            Reads::Everything => tokio::spawn(read_all(read, writer.clone(), seen.clone())),
            // It holds its half: to drop that would change nothing, but says what is meant.
            Reads::Nothing => tokio::spawn(async move {
                let _unread = read;
                std::future::pending().await
            }),
        };
        let (scheme, authority, token) = (listener.scheme(), listener.authority(), listener.token().map(|t| format!("Bearer {t}")));
        Ok(Self { writer, seen, reader, next: AtomicU32::new(1), scheme, authority, token })
    }

    /// What came back so far.
    #[must_use]
    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Responses with 200.
    #[must_use]
    pub(crate) fn ok(&self) -> usize {
        self.seen.ok.load(Ordering::Relaxed)
    }

    /// Other responses.
    #[must_use]
    pub(crate) fn refused(&self) -> usize {
        self.seen.refused.load(Ordering::Relaxed)
    }

    /// Streams that the server reset.
    #[must_use]
    pub(crate) fn resets(&self) -> usize {
        self.seen.resets.load(Ordering::Relaxed)
    }

    /// Number of the next stream.
    pub(crate) fn stream(&self) -> u32 {
        self.next.fetch_add(2, Ordering::Relaxed)
    }

    /// The frames of a request on a new stream, for [`Raw::send`]; the stream.
    pub(crate) fn request(&self, out: &mut Vec<u8>, method: &str, path: &str, more: &[(&str, &str)], ends: bool) -> u32 {
        let stream = self.stream();
        let mut fields = vec![(":method", method), (":scheme", self.scheme), (":authority", &*self.authority), (":path", path)];
        fields.extend(self.token.as_deref().map(|t| ("authorization", t)));
        fields.extend_from_slice(more);
        frames::request(out, stream, &fields, ends);
        stream
    }

    /// The fields that any request for this path has; the path is left out when it is to come from the peer's table.
    pub(crate) fn fields<'a>(&'a self, path: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
        let mut fields = vec![(":method", "GET"), (":scheme", self.scheme), (":authority", &*self.authority)];
        fields.extend(path.map(|path| (":path", path)));
        fields
    }

    /// The credentials that go with them, after all pseudo fields.
    pub(crate) fn credentials(&self) -> Option<(&str, &str)> {
        self.token.as_deref().map(|token| ("authorization", token))
    }

    /// Sends a GET on a new stream.
    pub(crate) async fn get(&self, path: &str, more: &[(&str, &str)]) -> Result<u32> {
        let mut out = Vec::new();
        let stream = self.request(&mut out, "GET", path, more, true);
        self.send(&out).await?;
        Ok(stream)
    }

    /// Sends bytes as they are; an error when the server is gone or does not read.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Result<()> {
        let writing = async {
            let mut writer = self.writer.lock().await;
            writer.write_all(bytes).await?;
            writer.flush().await
        };
        Ok(timeout(WRITE, writing).await.context("the server does not read")??)
    }

    /// Sends as much of a body as the windows allow at this moment; how much.
    pub(crate) async fn data(&self, stream: u32, bytes: &[u8]) -> Result<usize> {
        let taken = self.seen.take(stream, bytes.len());
        let mut out = Vec::with_capacity(taken + frames::HEAD);
        for piece in bytes[..taken].chunks(frames::PAYLOAD_MAX) {
            frames::frame(&mut out, frames::DATA, 0, stream, piece);
        }
        self.send(&out).await?;
        Ok(taken)
    }

    /// The frame of a small body, for [`Raw::send`]: all of it, and the stream's end.
    pub(crate) fn body(out: &mut Vec<u8>, stream: u32, bytes: &[u8]) {
        frames::frame(out, frames::DATA, frames::END_STREAM, stream, bytes);
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Reads until the end, answers SETTINGS and PING as an honest peer does, and counts.
async fn read_all(mut read: ReadHalf<Io>, writer: Arc<AsyncMutex<WriteHalf<Io>>>, seen: Arc<Seen>) {
    let mut sink = vec![0; 64 << 10];
    let _ends_with_the_connection: Result<()> = async {
        loop {
            let mut head = [0; frames::HEAD];
            read.read_exact(&mut head).await?;
            let head = Head::read(head);
            let payload = sink.get_mut(..head.length).context("a frame of more than 64 KiB")?;
            read.read_exact(payload).await?;
            let mut answer = Vec::new();
            match (head.kind, head.flags & frames::ACK) {
                (frames::SETTINGS, 0) => {
                    seen.settings(payload);
                    frames::frame(&mut answer, frames::SETTINGS, frames::ACK, 0, &[]);
                }
                (frames::PING, 0) => frames::frame(&mut answer, frames::PING, frames::ACK, 0, payload),
                _ => seen.note(head, &payload[..head.length.min(LOOKED_AT)]),
            }
            if !answer.is_empty() {
                writer.lock().await.write_all(&answer).await?;
            }
        }
    }
    .await;
    seen.gone.store(true, Ordering::Relaxed);
}
