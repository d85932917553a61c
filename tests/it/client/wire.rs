//! HTTP/1.1 on a socket: one request at a time, bodies by length, by chunks or until the end. Knows no JSON.

use std::{io, net::SocketAddr, pin::Pin, sync::Arc, task};

use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Longest head a test server may send, bytes: far above what any sends, so that a runaway one fails the test.
const HEAD_LIMIT: u64 = 64 * 1024;

/// What is taken from an answer's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Whether the connection can carry another request after the body.
    pub(crate) keep_alive: bool,
    body: Framing,
}

/// How much of the body is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// This many bytes, then nothing.
    Length(usize),
    /// A chunk of which this much is left; 0 is between chunks.
    Chunk(usize),
    /// The lines after the last chunk, up to an empty one.
    Trailer,
    UntilClose,
    Done,
}

/// A connection to a server.
pub(crate) struct Connection {
    stream: BufReader<Stream>,
    left: Framing,
    /// What has come of a framing line: kept here, so that a cancelled read loses nothing.
    line: Vec<u8>,
}

impl Connection {
    /// Connects, with the TLS handshake when there is a configuration for it.
    pub(super) async fn open(address: SocketAddr, tls: Option<Arc<ClientConfig>>) -> io::Result<Self> {
        let tcp = TcpStream::connect(address).await?;
        tcp.set_nodelay(true)?;
        let stream = match tls {
            None => Stream::Plain(tcp),
            Some(config) => Stream::Tls(Box::new(TlsConnector::from(config).connect(ServerName::from(address.ip()), tcp).await?)),
        };
        Ok(Self { stream: BufReader::with_capacity(128 * 1024, stream), left: Framing::Done, line: Vec::new() })
    }

    /// The socket, for what is not HTTP.
    pub(super) fn into_stream(self) -> BufReader<Stream> {
        self.stream
    }

    /// Sends a request and reads the answer's head; the body is read with `read_body`.
    pub(super) async fn exchange(&mut self, head: &[u8], body: &[u8]) -> io::Result<Head> {
        let mut request = head.to_vec();
        request.extend_from_slice(body);
        self.stream.get_mut().write_all(&request).await?;
        self.stream.get_mut().flush().await?;
        let mut text = String::new();
        let mut limited = (&mut self.stream).take(HEAD_LIMIT);
        loop {
            let before = text.len();
            if limited.read_line(&mut text).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if text[before..].trim_end().is_empty() {
                break;
            }
        }
        let head = parse(&text).ok_or_else(|| malformed(&text))?;
        self.left = head.body;
        Ok(head)
    }

    /// Sends a request that asks for the connection to be closed, and reads everything.
    pub(super) async fn until_close(mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        let sent = async {
            self.stream.get_mut().write_all(request).await?;
            self.stream.get_mut().flush().await
        };
        // A server may refuse a body before it has read all of it; what it answered is then still there.
        let sent = sent.await;
        let mut answer = Vec::new();
        match self.stream.read_to_end(&mut answer).await {
            _ if answer.is_empty() => sent.and(Err(io::ErrorKind::UnexpectedEof.into())),
            // A server may close TLS without saying so, and a socket with unread bytes is reset.
            Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => Ok(answer),
            read => read.map(|_| answer),
        }
    }

    /// Appends what has come of the body; `false` when it is over. Cancel-safe.
    pub(super) async fn read_body(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        while matches!(self.left, Framing::Chunk(0) | Framing::Trailer) {
            self.left = self.next_chunk().await?;
        }
        let most = match self.left {
            Framing::Length(left) | Framing::Chunk(left) if left > 0 => left,
            Framing::UntilClose => usize::MAX,
            _ => return Ok(false),
        };
        let data = self.stream.fill_buf().await?;
        let taken = data.len().min(most);
        into.extend_from_slice(&data[..taken]);
        self.stream.consume(taken);
        match &mut self.left {
            Framing::Length(left) | Framing::Chunk(left) if taken > 0 => *left -= taken,
            Framing::UntilClose => return Ok(taken > 0),
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(true)
    }

    /// Reads one framing line; the empty one after a chunk's data says nothing new.
    async fn next_chunk(&mut self) -> io::Result<Framing> {
        let line = self.framing_line().await?;
        if self.left == Framing::Trailer {
            return Ok(if line.is_empty() { Framing::Done } else { Framing::Trailer });
        }
        if line.is_empty() {
            return Ok(Framing::Chunk(0));
        }
        let size = usize::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16).map_err(|_| malformed(&line))?;
        Ok(if size > 0 { Framing::Chunk(size) } else { Framing::Trailer })
    }

    async fn framing_line(&mut self) -> io::Result<String> {
        loop {
            let data = self.stream.fill_buf().await?;
            if data.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let end = memchr::memchr(b'\n', data);
            let taken = end.map_or(data.len(), |at| at + 1);
            self.line.extend_from_slice(&data[..taken]);
            self.stream.consume(taken);
            if end.is_some() {
                let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).trim_end().to_owned();
                return Ok(line);
            }
        }
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP/1.1: {what:?}"))
}

/// A head as text; `None` when it is none.
fn parse(text: &str) -> Option<Head> {
    let mut lines = text.lines();
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.parse().ok()?;
    let mut head = Head { status, keep_alive: true, body: Framing::UntilClose };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => head.body = Framing::Length(value.parse().ok()?),
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => head.body = Framing::Chunk(0),
            "connection" if value.eq_ignore_ascii_case("close") => head.keep_alive = false,
            _ => {}
        }
    }
    head.keep_alive &= head.body != Framing::UntilClose;
    Some(head)
}

/// A socket, with TLS or without.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut task::Context<'_>, buf: &mut ReadBuf<'_>) -> task::Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut task::Context<'_>, buf: &[u8]) -> task::Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> task::Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> task::Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that reads one request and answers with these bytes.
    async fn answered(bytes: &'static str) -> io::Result<(Head, Vec<u8>)> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await?;
            let _ = socket.read(&mut [0; 1024]).await?;
            socket.write_all(bytes.as_bytes()).await
        });
        let mut connection = Connection::open(address, None).await?;
        let head = connection.exchange(b"GET / HTTP/1.1\r\n\r\n", b"").await?;
        let mut body = Vec::new();
        while connection.read_body(&mut body).await? {}
        server.await.expect("the server does not panic")?;
        Ok((head, body))
    }

    #[tokio::test]
    async fn bodies_end_where_their_framing_says() {
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", true, "abc"),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n", true, "abc"),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", false, ""),
            ("HTTP/1.1 200 OK\r\n\r\nabc", false, "abc"),
        ];
        for (bytes, keep_alive, expected) in cases {
            let (head, body) = answered(bytes).await.expect(bytes);
            assert_eq!((head.status, head.keep_alive, body.as_slice()), (200, keep_alive, expected.as_bytes()), "{bytes}");
        }
    }

    #[tokio::test]
    async fn a_body_that_is_cut_off_is_an_error() {
        for bytes in [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
            "SSH-2.0\r\n\r\n",
        ] {
            assert!(answered(bytes).await.is_err(), "{bytes}");
        }
    }
}
