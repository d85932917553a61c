//! The proxy of a cluster (`proxy-url`): over `http` and `https` it is asked to CONNECT, over `socks5` as RFC 1928 says. It finds
//! out where the server is.

use std::io;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use go::quote::quoted;
use go::url;
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::credentials::basic;

/// Bytes of the head of a proxy's answer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Bytes of a name or a word in SOCKS5.
const SOCKS_TEXT_MAX: usize = 255;

/// See the file's header.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) kind: ProxyKind,
    /// Where it is, with a port.
    pub(crate) address: Uri,
    /// Its name, as its certificate must have it.
    pub(crate) host: String,
    user: Option<(String, String)>,
}

/// How it is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyKind {
    Http,
    Https,
    Socks5,
}

/// Without the password.
impl std::fmt::Debug for Proxy {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Proxy").field("kind", &self.kind).field("address", &self.address).finish_non_exhaustive()
    }
}

impl Proxy {
    /// Reads a URL; none when it is empty.
    pub(crate) fn read(text: &str) -> Result<Option<Proxy>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        // The parser's own words show the URL, which may have a password.
        let parsed = url::parse(text).map_err(|_| "it is not a URL".to_owned())?;
        let (kind, port) = match parsed.scheme.as_str() {
            "http" => (ProxyKind::Http, 80),
            "https" => (ProxyKind::Https, 443),
            "socks5" => (ProxyKind::Socks5, 1080),
            other => return Err(format!("unsupported scheme {}, must be http, https, or socks5", quoted(other))),
        };
        if parsed.host.is_empty() || parsed.host.starts_with(':') {
            return Err("it has no host".to_owned());
        }
        let uri: Uri = format!("http://{}", parsed.host).parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(port));
        let address = format!("http://{host}:{port}").parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user = parsed.user.map(|user| user.split_once(':').unwrap_or((user, "")));
        let user = user.map(|(name, password)| (decoded(name), decoded(password)));
        if kind == ProxyKind::Socks5 && user.iter().any(|(name, word)| name.len() > SOCKS_TEXT_MAX || word.len() > SOCKS_TEXT_MAX) {
            return Err(format!("a name or password of more than {SOCKS_TEXT_MAX} bytes"));
        }
        Ok(Some(Proxy { kind, address, host: bare(host).to_owned(), user }))
    }

    /// The URL as it may be shown.
    pub(crate) fn without_password(text: &str) -> String {
        let (before, rest) = text.split_once("://").map_or(("", text), |(scheme, rest)| (&text[..scheme.len() + 3], rest));
        rest.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, host)| format!("{before}…@{host}"))
    }

    /// What is sent to an HTTP proxy to say who we are.
    pub(crate) fn authorization(&self) -> Option<HeaderValue> {
        self.user.as_ref().and_then(|(name, password)| basic(name, password).ok())
    }

    /// Whether requests to this server are sent to the proxy itself, instead of through a tunnel.
    pub(crate) fn forwards(&self, server: &Uri) -> bool {
        self.kind != ProxyKind::Socks5 && server.scheme_str() == Some("http")
    }

    /// Asks the proxy on this connection to lead on to a server.
    ///
    /// # Errors
    /// It does not.
    pub(crate) async fn tunnel<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: &mut S, server: &Uri) -> io::Result<()> {
        let host = server.host().ok_or_else(|| io::Error::other("a URL without a host"))?;
        let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("http") { 80 } else { 443 });
        let led = match self.kind {
            ProxyKind::Socks5 => self.socks5(stream, bare(host), port).await,
            _ => self.connect(stream, host, port).await,
        };
        led.map_err(|error| io::Error::new(error.kind(), format!("proxy {}: {error}", self.address)))
    }

    async fn connect<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: &mut S, host: &str, port: u16) -> io::Result<()> {
        let mut request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        if let Some((name, password)) = &self.user {
            let user = BASE64_STANDARD.encode(format!("{name}:{password}"));
            request.push_str(&format!("Proxy-Authorization: Basic {user}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        // What follows the head is the server's, so it is read byte by byte.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
            if head.len() == HEAD_BYTES_MAX {
                return Err(io::Error::other("its answer has too long a head"));
            }
            head.push(stream.read_u8().await?);
        }
        let line = String::from_utf8_lossy(&head);
        let line = line.lines().next().unwrap_or_default();
        match line.split_once(' ').filter(|(version, _)| version.starts_with("HTTP/1.")) {
            Some((_, status)) if status.starts_with("200") => Ok(()),
            Some((_, status)) => Err(io::Error::other(status.escape_debug().to_string())),
            None => Err(io::Error::other("its answer is not HTTP/1.1")),
        }
    }

    async fn socks5<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: &mut S, host: &str, port: u16) -> io::Result<()> {
        let (no_user, with_user) = (0, 2);
        let methods: &[u8] = if self.user.is_some() { &[5, 2, no_user, with_user] } else { &[5, 1, no_user] };
        stream.write_all(methods).await?;
        let mut chosen = [0; 2];
        stream.read_exact(&mut chosen).await?;
        match (chosen, &self.user) {
            ([5, 0], _) => {}
            ([5, 2], Some((name, password))) => {
                let mut said = vec![1];
                for text in [name, password] {
                    said.push(u8::try_from(text.len()).map_err(io::Error::other)?);
                    said.extend_from_slice(text.as_bytes());
                }
                stream.write_all(&said).await?;
                let mut answer = [0; 2];
                stream.read_exact(&mut answer).await?;
                if answer[1] != 0 {
                    return Err(io::Error::other("it refuses our name and password"));
                }
            }
            ([5, _], _) => return Err(io::Error::other("it wants another authentication")),
            _ => return Err(io::Error::other("it does not speak SOCKS5")),
        }
        let mut request = vec![5, 1, 0];
        match host.parse() {
            Ok(std::net::IpAddr::V4(ip)) => {
                request.push(1);
                request.extend_from_slice(&ip.octets());
            }
            Ok(std::net::IpAddr::V6(ip)) => {
                request.push(4);
                request.extend_from_slice(&ip.octets());
            }
            Err(_) => {
                let length = u8::try_from(host.len()).map_err(|_| io::Error::other("the server's name is too long"))?;
                request.extend_from_slice(&[3, length]);
                request.extend_from_slice(host.as_bytes());
            }
        }
        request.extend_from_slice(&port.to_be_bytes());
        stream.write_all(&request).await?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await?;
        if answer[1] != 0 {
            return Err(io::Error::other(refusal(answer[1])));
        }
        let rest = match answer[3] {
            1 => 4,
            4 => 16,
            3 => usize::from(stream.read_u8().await?),
            _ => return Err(io::Error::other("it answers with an unknown kind of address")),
        };
        let mut address = vec![0; rest + 2];
        stream.read_exact(&mut address).await.map(drop)
    }
}

/// Without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// What a SOCKS5 proxy says with a number.
fn refusal(code: u8) -> &'static str {
    match code {
        1 => "general SOCKS server failure",
        2 => "connection not allowed by ruleset",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "TTL expired",
        7 => "command not supported",
        8 => "address type not supported",
        _ => "unknown code",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_url() {
        let address = |text: &str| Proxy::read(text).map(|proxy| proxy.map(|proxy| (proxy.kind, proxy.address.to_string(), proxy.user)));
        let user = Some(("a".to_owned(), "p@w".to_owned()));
        let some = |kind, address: &str, user| Ok(Some((kind, address.to_owned(), user)));
        assert_eq!(address("http://p"), some(ProxyKind::Http, "http://p:80/", None));
        assert_eq!(address("HTTPS://a:p%40w@[::1]:3/x?y"), some(ProxyKind::Https, "http://[::1]:3/", user));
        assert_eq!(address("socks5://10.0.0.1"), some(ProxyKind::Socks5, "http://10.0.0.1:1080/", None));
        assert_eq!(address(""), Ok(None));
        for (wrong, why) in [
            ("p:3128", "unsupported scheme \"p\", must be http, https, or socks5"),
            ("socks4://p", "unsupported scheme \"socks4\", must be http, https, or socks5"),
            ("p", "unsupported scheme \"\", must be http, https, or socks5"),
            ("http://", "it has no host"),
            ("http://a:secret@p:x", "it is not a URL"),
        ] {
            assert_eq!(address(wrong).map(drop).map_err(|error| error.contains(why)), Err(true), "{wrong}: {:?}", address(wrong));
        }
        assert_eq!(Proxy::without_password("http://a:secret@p:x"), "http://…@p:x");
    }

    /// Has a proxy answer so, and returns what it was told and what came of it.
    async fn tunneled(proxy: &str, server: &str, answer: &[u8]) -> (Vec<u8>, Result<(), String>) {
        let proxy = Proxy::read(proxy).expect("a URL").expect("a proxy");
        let mut stream = tokio_test_stream(answer);
        let led = proxy.tunnel(&mut stream, &server.parse().expect("a URL")).await;
        (stream.written, led.map_err(|error| error.to_string()))
    }

    struct Stream {
        written: Vec<u8>,
        answer: std::io::Cursor<Vec<u8>>,
    }

    fn tokio_test_stream(answer: &[u8]) -> Stream {
        Stream { written: Vec::new(), answer: std::io::Cursor::new(answer.to_vec()) }
    }

    impl AsyncRead for Stream {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            into: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::pin::Pin::new(&mut self.answer).poll_read(cx, into)
        }
    }

    impl AsyncWrite for Stream {
        fn poll_write(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            bytes: &[u8],
        ) -> std::task::Poll<io::Result<usize>> {
            self.written.extend_from_slice(bytes);
            std::task::Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_proxy_is_asked_to_lead_on() {
        let (asked, led) = tunneled("http://a:b@p", "https://h.example/x", b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n").await;
        assert_eq!(led, Ok(()));
        let wanted = "CONNECT h.example:443 HTTP/1.1\r\nHost: h.example:443\r\nProxy-Authorization: Basic YTpi\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&asked), wanted);
        let (_, led) = tunneled("https://p", "https://h:1", b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
        assert_eq!(led, Err("proxy http://p:443/: 407 Proxy Authentication Required".to_owned()));
        for wrong in [&b"SSH-2.0\r\n\r\n"[..], b"", b"HTTP/1.1 200", &[b'x'; HEAD_BYTES_MAX + 1]] {
            assert!(tunneled("http://p", "https://h:1", wrong).await.1.is_err());
        }
    }

    #[tokio::test]
    async fn a_socks_proxy_is_told_the_name() {
        let answer = [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let (asked, led) = tunneled("socks5://p", "https://h.example:6443", &answer).await;
        assert_eq!(led, Ok(()));
        assert_eq!(asked, [&[5, 1, 0, 5, 1, 0, 3, 9][..], b"h.example", &6443_u16.to_be_bytes()].concat());
        let (asked, led) = tunneled("socks5://a:bc@p", "https://10.1.2.3", &[&[5, 2, 1, 0][..], &answer[2..]].concat()).await;
        assert_eq!((led, &asked[4..9]), (Ok(()), &[1, 1, b'a', 2, b'b'][..]));
        assert_eq!(asked[10..], [5, 1, 0, 1, 10, 1, 2, 3, 1, 187]);
        let (_, led) = tunneled("socks5://p", "https://[::1]", &[5, 0, 5, 4, 0, 1]).await;
        assert_eq!(led, Err("proxy http://p:1080/: host unreachable".to_owned()));
        for wrong in [&[5, 255][..], &[4, 0], &[5, 2], &[5, 0, 5, 0, 0, 9], &[]] {
            assert!(tunneled("socks5://p", "https://h", wrong).await.1.is_err(), "{wrong:?}");
        }
    }
}
