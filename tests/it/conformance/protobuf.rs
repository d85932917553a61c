//! Protobuf answers as JSON, so that revisions and tokens, which differ between two right answers, can be found in them.

use watchcache::codec::proto;

/// The body as text. That the bytes of protobuf are the same is shown by `tests/data/proto`.
pub(super) fn readable(headers: &[(String, String)], body: &[u8]) -> String {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let media = headers.iter().find(|(name, _)| name == "content-type").map_or("", |(_, value)| value);
    let read = match media.strip_prefix(PROTOBUF) {
        Some("") => object(body),
        Some(_) => events(body),
        None => Some(String::from_utf8_lossy(body).into_owned()),
    };
    read.unwrap_or_else(|| format!("not readable: {body:?}"))
}

fn object(body: &[u8]) -> Option<String> {
    let unknown = proto::open(body).ok()?;
    let mut json = Vec::new();
    proto::message(unknown.api_version, unknown.kind)?.to_json(unknown.raw, &mut json).ok()?;
    String::from_utf8(json).ok()
}

/// Frames of a watch: a length in four bytes, then type and object.
fn events(mut body: &[u8]) -> Option<String> {
    let mut text = String::new();
    while let Some((length, rest)) = body.split_first_chunk() {
        let (frame, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        body = rest;
        let (kind, frame) = field(1, frame)?;
        let (extension, end) = field(2, frame)?;
        let (raw, more) = field(1, extension)?;
        if !end.is_empty() || !more.is_empty() {
            return None;
        }
        text += &format!("{{\"type\":\"{}\",\"object\":{}}}\n", std::str::from_utf8(kind).ok()?, object(raw)?);
    }
    body.is_empty().then_some(text)
}

/// A field of bytes at the start, and what follows.
fn field(number: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = bytes.strip_prefix(&[number << 3 | 2])?;
    let mut length = 0_usize;
    for shift in (0..35).step_by(7) {
        let (byte, after) = rest.split_first()?;
        rest = after;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return rest.split_at_checked(length);
        }
    }
    None
}
