//! What stands around a message: `k8s\0` and `runtime.Unknown`, and the metadata of a list.

use super::{
    error::{ProtoError, Result},
    wire::{LEN, Reader, field_head_into, field_into, field_len, varint_into},
};
use crate::{ListMeta, append, encode::revision_into};

/// The first bytes of everything that Kubernetes writes as protobuf (spec api-surface §10.3).
pub const PREFIX: &[u8] = b"k8s\0";

/// What stands after the message: an empty content encoding and an empty content type.
pub const ENVELOPE_TAIL: &[u8] = b"\x1a\x00\x22\x00";

/// What an envelope says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknown<'a> {
    /// Group and version. May be empty, as in JSON.
    pub api_version: &'a str,
    /// The kind. May be empty, as in JSON.
    pub kind: &'a str,
    /// The message, whatever the two that follow say: kube-apiserver does not look at them.
    pub raw: &'a [u8],
    /// Empty in what Kubernetes writes.
    pub content_encoding: &'a [u8],
    /// Empty in what Kubernetes writes.
    pub content_type: &'a [u8],
    /// Whether it says something else, that is not known.
    pub says_more: bool,
}

/// Appends a message in its envelope.
pub fn envelope_into(api_version: &str, kind: &str, raw: &[u8], out: &mut Vec<u8>) {
    envelope_head_into(api_version, kind, raw.len(), out);
    append(raw, out);
    out.extend_from_slice(ENVELOPE_TAIL);
}

/// Appends what stands before a message of so many bytes; [`ENVELOPE_TAIL`] stands after it.
pub fn envelope_head_into(api_version: &str, kind: &str, raw_len: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(PREFIX);
    field_head_into(1, type_meta_len(api_version, kind), out);
    field_into(1, api_version.as_bytes(), out);
    field_into(2, kind.as_bytes(), out);
    field_head_into(2, raw_len, out);
}

/// How many bytes [`envelope_into`] appends for a message of so many.
#[must_use]
pub fn envelope_len(api_version: &str, kind: &str, raw_len: usize) -> usize {
    PREFIX.len() + field_len(1, type_meta_len(api_version, kind)) + field_len(2, raw_len) + ENVELOPE_TAIL.len()
}

fn type_meta_len(api_version: &str, kind: &str) -> usize {
    field_len(1, api_version.len()) + field_len(2, kind.len())
}

/// Reads an envelope.
///
/// # Errors
/// The prefix is missing, nothing follows it, or the envelope is broken.
pub fn open(bytes: &[u8]) -> Result<Unknown<'_>> {
    let bytes = bytes.strip_prefix(PREFIX).ok_or(ProtoError::Prefix)?;
    if bytes.is_empty() {
        return Err(ProtoError::Empty);
    }
    let mut found = Unknown::default();
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.tag()? {
        match (number, wire) {
            (1, LEN) => {
                let says_more;
                (found.api_version, found.kind, says_more) = type_meta(reader.bytes()?)?;
                found.says_more |= says_more;
            }
            (2, LEN) => found.raw = reader.bytes()?,
            (3, LEN) => found.content_encoding = reader.bytes()?,
            (4, LEN) => found.content_type = reader.bytes()?,
            (1..=4, _) => return Err(ProtoError::WireType("Unknown")),
            _ => {
                found.says_more = true;
                reader.skip(wire)?;
            }
        }
    }
    Ok(found)
}

fn type_meta(bytes: &[u8]) -> Result<(&str, &str, bool)> {
    let (mut api_version, mut kind, mut says_more) = ("", "", false);
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.tag()? {
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| ProtoError::Utf8);
        match (number, wire) {
            (1, LEN) => api_version = text(reader.bytes()?)?,
            (2, LEN) => kind = text(reader.bytes()?)?,
            (1 | 2, _) => return Err(ProtoError::WireType("TypeMeta")),
            _ => {
                says_more = true;
                reader.skip(wire)?;
            }
        }
    }
    Ok((api_version, kind, says_more))
}

/// Appends the message of a list's metadata: field 1 of every list, whose items are its field 2.
pub fn list_meta_into(meta: &ListMeta, out: &mut Vec<u8>) {
    let mut revision = Vec::with_capacity(20);
    revision_into(meta.revision.0, &mut revision);
    field_into(1, b"", out);
    field_into(2, &revision, out);
    field_into(3, meta.continue_token.as_deref().unwrap_or_default().as_bytes(), out);
    if let Some(remaining) = meta.remaining {
        out.push(4 << 3);
        varint_into(remaining, out);
    }
    if let Some(selector) = &meta.shard {
        let mut shard = Vec::with_capacity(selector.len() + 8);
        field_into(1, selector.as_bytes(), &mut shard);
        field_into(5, &shard, out);
    }
}
