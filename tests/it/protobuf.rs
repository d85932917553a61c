//! Protobuf answers as JSON, so that revisions and tokens, which differ between two right answers, can be found in them; and JSON as protobuf, to be
//! sent. That the bytes are right is shown by `tests/data/proto`.

use codec::proto;
use serde_json::Value;

/// What Kubernetes calls it; parameters may follow.
pub(crate) const MEDIA: &str = "application/vnd.kubernetes.protobuf";

/// The body as text: an object, or a line for each event. What is no protobuf stays what it is.
pub(crate) fn readable(headers: &[(String, String)], body: &[u8]) -> String {
    let media = headers.iter().find(|(name, _)| name == "content-type").map_or("", |(_, value)| value);
    let read = match media.strip_prefix(MEDIA) {
        Some("") => object(body),
        Some(_) => events(body),
        None => Some(String::from_utf8_lossy(body).into_owned()),
    };
    read.unwrap_or_else(|| format!("not readable: {body:?}"))
}

/// The JSON of an object as protobuf. Its envelope tells this version and kind, else those of the object; `None` when there is no such message, or the
/// JSON does not fit.
pub(crate) fn enveloped(json: &str, told: Option<(&str, &str)>) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_str(json).ok()?;
    let of = (value["apiVersion"].as_str()?, value["kind"].as_str()?);
    let raw = proto::message(of.0, of.1)?.from_json(json.as_bytes()).ok()?;
    let (api_version, kind) = told.unwrap_or(of);
    let mut out = Vec::new();
    proto::envelope_into(api_version, kind, &raw, &mut out);
    Some(out)
}

/// The JSON of a message in its envelope.
pub(crate) fn object(body: &[u8]) -> Option<String> {
    let unknown = proto::open(body).ok()?;
    let mut json = Vec::new();
    proto::message(unknown.api_version, unknown.kind)?.to_json(unknown.raw, usize::MAX, &mut json).ok()?;
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
