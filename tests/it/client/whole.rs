//! An answer read until the connection closed: status, headers and body without frames. Knows no Kubernetes.

use std::io;

/// A whole answer with its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) status: u16,
    /// As they came, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Whole {
    /// Reads the bytes of one answer.
    pub(super) fn read(raw: &[u8]) -> io::Result<Self> {
        let end = memchr::memmem::find(raw, b"\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let head = String::from_utf8_lossy(&raw[..end]).into_owned();
        let mut lines = head.lines();
        let status =
            lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
        let headers: Vec<(String, String)> =
            lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if chunked { joined(&raw[end + 4..])? } else { raw[end + 4..].to_vec() };
        Ok(Self { status, headers, body })
    }

    /// All values of a header, in order.
    pub(crate) fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

/// A chunked body without its frames. It must end as HTTP wants.
fn joined(mut framed: &[u8]) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = memchr::memmem::find(framed, b"\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = std::str::from_utf8(&framed[..end])
            .ok()
            .and_then(|hex| usize::from_str_radix(hex, 16).ok())
            .ok_or(io::ErrorKind::InvalidData)?;
        if size == 0 {
            return Ok(body);
        }
        let (chunk, rest) = framed[end + 2..].split_at_checked(size).ok_or(io::ErrorKind::UnexpectedEof)?;
        body.extend_from_slice(chunk);
        framed = rest.strip_prefix(b"\r\n").ok_or(io::ErrorKind::InvalidData)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined_and_headers_kept() {
        let whole = Whole::read(
            b"HTTP/1.1 201 Created\r\nWarning: a\r\nTransfer-Encoding: chunked\r\nWarning: b\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        )
        .expect("an answer");
        assert_eq!((whole.status, whole.body.as_slice()), (201, &b"abc"[..]));
        assert_eq!(whole.header("warning").collect::<Vec<_>>(), ["a", "b"]);
        assert!(Whole::read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nab").is_err());
    }
}
