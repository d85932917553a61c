//! A WebSocket byte by byte, so that tests see which frames came and in which order, and may send what no library would.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    time::timeout,
};

use super::{
    Client, Whole,
    wire::{Connection, Stream},
};

/// How long a server may take to answer a handshake or to close: a refusal on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);
/// The mask of every frame that is sent.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// What came of a handshake.
pub(crate) enum Handshake {
    /// 101, with the headers that it had.
    Open(Box<Socket>, Vec<(String, String)>),
    /// Any other answer.
    Refused(Whole),
}

/// An open WebSocket.
pub(crate) struct Socket {
    stream: BufReader<Stream>,
}

/// A frame as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The first byte: whether it is whole, and what it is.
    pub(crate) first: u8,
    pub(crate) payload: Vec<u8>,
}

impl Client {
    /// Asks for a WebSocket. `headers` replace those of a good handshake from this server's own origin, an empty value takes one away; a name that is
    /// there twice is sent twice.
    pub(crate) async fn socket(&self, target: &str, headers: &[(&str, &str)]) -> io::Result<Handshake> {
        let origin = format!("{}://{}", if self.server.tls.is_some() { "https" } else { "http" }, self.server.address);
        let token = self.server.token.as_ref().map(|token| format!("Bearer {token}")).unwrap_or_default();
        let base = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Origin", &origin),
            ("Authorization", &token),
        ];
        let kept = base.iter().filter(|(name, _)| headers.iter().all(|(other, _)| !other.eq_ignore_ascii_case(name)));
        let mut head = format!("GET {target} HTTP/1.1\r\nHost: {}\r\n", self.server.address);
        for (name, value) in kept.chain(headers).filter(|(_, value)| !value.is_empty()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let mut stream = Connection::open(self.server.address, self.server.tls.clone()).await?.into_stream();
        stream.write_all(head.as_bytes()).await?;
        stream.flush().await?;
        timeout(PATIENCE, answered(stream)).await?
    }
}

async fn answered(mut stream: BufReader<Stream>) -> io::Result<Handshake> {
    let mut raw = Vec::new();
    while !raw.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut raw).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    if raw.starts_with(b"HTTP/1.1 101 ") {
        let headers = Whole::read(&raw)?.headers;
        return Ok(Handshake::Open(Box::new(Socket { stream }), headers));
    }
    match stream.read_to_end(&mut raw).await {
        // A server may close TLS without saying so.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Whole::read(&raw).map(Handshake::Refused),
    }
}

impl Handshake {
    /// The socket of a handshake that must have been good.
    pub(crate) fn opened(self) -> io::Result<Socket> {
        match self {
            Self::Open(socket, _) => Ok(*socket),
            Self::Refused(whole) => Err(io::Error::other(format!("{whole:?}"))),
        }
    }
}

impl Socket {
    /// The next frame; `None` when the server has closed the connection. Not cancel-safe.
    pub(crate) async fn frame(&mut self) -> io::Result<Option<Frame>> {
        match timeout(PATIENCE, self.read()).await? {
            Ok(frame) => Ok(Some(frame)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All frames until the server closes the connection.
    pub(crate) async fn rest(&mut self) -> io::Result<Vec<Frame>> {
        let mut frames = Vec::new();
        while let Some(frame) = self.frame().await? {
            frames.push(frame);
        }
        Ok(frames)
    }

    async fn read(&mut self) -> io::Result<Frame> {
        let (first, short) = (self.stream.read_u8().await?, self.stream.read_u8().await?);
        let length = match short {
            0..126 => u64::from(short),
            126 => u64::from(self.stream.read_u16().await?),
            127 => self.stream.read_u64().await?,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "a server masks nothing")),
        };
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).await?;
        Ok(Frame { first, payload })
    }

    /// Sends a masked frame.
    pub(crate) async fn send(&mut self, first: u8, payload: &[u8]) -> io::Result<()> {
        let masked: Vec<u8> = payload.iter().enumerate().map(|(at, byte)| byte ^ MASK[at % 4]).collect();
        self.announce(first, payload.len() as u64).await?;
        self.raw(&masked).await
    }

    /// Sends the head of a masked frame only.
    pub(crate) async fn announce(&mut self, first: u8, length: u64) -> io::Result<()> {
        let mut head = vec![first];
        match (u8::try_from(length), u16::try_from(length)) {
            (Ok(short @ ..126), _) => head.push(0x80 | short),
            (_, Ok(middle)) => head.extend([&[0xfe][..], &middle.to_be_bytes()].concat()),
            _ => head.extend([&[0xff][..], &length.to_be_bytes()].concat()),
        }
        head.extend(MASK);
        self.raw(&head).await
    }

    /// Sends bytes as they are.
    pub(crate) async fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }
}
