//! An answer as it came on the wire, and what makes two of them the same.

use std::io;

use super::symbols::symbolic;

/// Headers whose values must agree; of `Audit-Id`, which is random, only whether it is there.
const HEADERS: [&str; 6] = ["content-type", "retry-after", "cache-control", "x-content-type-options", "vary", "warning"];
/// Bytes of a body shown around the first difference.
const SHOWN: usize = 240;

/// Status, headers that matter, and the body with symbols for what may differ.
pub(super) struct Answer {
    status: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Answer {
    /// Reads a whole answer.
    pub(super) fn read(raw: &[u8]) -> io::Result<Self> {
        let end = memchr::memmem::find(raw, b"\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let head = String::from_utf8_lossy(&raw[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).ok_or(io::ErrorKind::InvalidData)?.to_owned();
        let all: Vec<(String, String)> =
            lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        let chunked = all.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if chunked { joined(&raw[end + 4..])? } else { raw[end + 4..].to_vec() };
        let headers = all
            .into_iter()
            .filter(|(name, _)| HEADERS.contains(&name.as_str()) || name == "audit-id")
            .map(|(name, value)| if name == "audit-id" && value.len() == 36 { (name, "random".to_owned()) } else { (name, value) });
        let mut headers: Vec<_> = headers.collect();
        headers.sort();
        Ok(Self { status, headers, body: symbolic(&String::from_utf8_lossy(&body)) })
    }

    /// What differs; ours is `self`.
    pub(super) fn differs_from(&self, theirs: &Self) -> Option<String> {
        let mut text = String::new();
        if self.status != theirs.status {
            text += &format!("  status: ours {}, theirs {}\n", self.status, theirs.status);
        }
        if self.headers != theirs.headers {
            text += &format!("  headers: ours {:?}, theirs {:?}\n", self.headers, theirs.headers);
        }
        if self.body != theirs.body {
            let same = self.body.bytes().zip(theirs.body.bytes()).take_while(|(a, b)| a == b).count();
            let from = same.saturating_sub(40);
            let part = |body: &str| String::from_utf8_lossy(&body.as_bytes()[from..body.len().min(from + SHOWN)]).into_owned();
            text += &format!("  body from byte {from}: ours   {:?}\n    theirs {:?}\n", part(&self.body), part(&theirs.body));
        }
        (!text.is_empty()).then_some(text)
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
