//! Encodes one served resource as protobuf, each message made from the JSON that is kept (spec list-watch §4.3).

use std::sync::Arc;

use bytes::Bytes;

use super::{
    prefetch::{self, OBJECTS},
    proto::{self, Message, ProtoError},
    representation::{ListMeta, Render, Representation},
    unencodable::Unencodable,
};
use model::{Kind, Object};

/// Messages that are longer, bytes, are not kept with their objects: a list of a thousand objects of 1.4 MB in protobuf doubled the server's memory for good.
const KEPT_BYTES_EACH: usize = 64 << 10;

/// Bytes of messages that a list keeps from the count of its length to their writing. Those of objects as they are stored stay with the objects, and do
/// not count; making the others again costs what making them has cost.
pub(super) const KEPT_BYTES: usize = 4 << 20;

/// Encodes the messages of one kind.
#[derive(Clone, Debug)]
pub(super) struct ProtobufEncoder {
    message: Message,
    api_version: String,
    kind: String,
    list_kind: String,
    /// Whether the objects' messages are kept with them: those of the version in which they are stored.
    kept: bool,
}

impl ProtobufEncoder {
    /// `None` when protobuf knows no such kind: custom resources.
    pub(super) fn of(api_version: &str, kind: &str, list_kind: &str, kept: bool) -> Option<Self> {
        let message = proto::message(api_version, kind)?;
        Some(Self { message, api_version: api_version.to_owned(), kind: kind.to_owned(), list_kind: list_kind.to_owned(), kept })
    }

    /// What stands before the items of a list, of so many bytes: the envelope and the list's metadata.
    pub(super) fn list_head(&self, meta: &ListMeta, items_len: usize) -> Vec<u8> {
        let (mut about, mut field) = (Vec::with_capacity(64), Vec::with_capacity(72));
        proto::list_meta_into(meta, &mut about);
        proto::field_into(1, &about, &mut field);
        let mut out = Vec::with_capacity(field.len() + 128);
        proto::envelope_head_into(&self.api_version, &self.list_kind, field.len() + items_len, &mut out);
        out.extend_from_slice(&field);
        out
    }

    /// The messages of a list's first objects that stay with no object, and how many bytes all of them are as items.
    pub(super) fn messages(&self, representation: &Representation, objects: &[Arc<Object>]) -> Result<(Vec<Bytes>, usize), Unencodable> {
        let (mut kept, mut kept_bytes, mut bytes) = (Vec::new(), 0, 0);
        for few in objects.chunks(OBJECTS) {
            // Where one is made, those beside it are as a rule.
            if !self.kept || few[0].message().is_none() {
                prefetch::prefetch(few.iter());
            }
            for object in few {
                let message = self.message(representation, object)?;
                bytes += proto::field_len(ITEMS, message.len());
                kept_bytes += message.len();
                if !self.kept && kept_bytes <= KEPT_BYTES {
                    kept.push(message);
                }
            }
        }
        Ok((kept, bytes))
    }

    /// The message of an object. One that is kept with the object is made once.
    pub(super) fn message(&self, representation: &Representation, object: &Object) -> Result<Bytes, Unencodable> {
        if let Some(kept) = self.kept.then(|| object.message()).flatten() {
            return Ok(kept);
        }
        let raw = match representation.tail(object) {
            Some(tail) => self.message.from_tail(&tail),
            None => self.raw(object.tail_len() + 64, |out| representation.object_into(object, out)),
        };
        let raw = Bytes::from(raw.map_err(|why| Unencodable::object(object, why))?);
        if self.kept && raw.len() <= KEPT_BYTES_EACH {
            object.keep_message(&raw);
        }
        Ok(raw)
    }

    /// The message of what is written as JSON, of about so many bytes.
    pub(super) fn raw(&self, json_len: usize, json: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>, ProtoError> {
        let mut text = Vec::with_capacity(json_len);
        json(&mut text);
        self.message.from_json(&text)
    }

    /// The body of a GET: a whole message in its envelope.
    pub(super) fn body(&self, message: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(message.len() + 64);
        proto::envelope_into(&self.api_version, &self.kind, message, &mut out);
        out
    }

    /// Appends a watch frame of a message.
    pub(super) fn frame_into(&self, kind: Kind, message: &[u8], out: &mut Vec<u8>) {
        let len = proto::envelope_len(&self.api_version, &self.kind, message.len());
        frame_into(kind, len, out, |out| proto::envelope_into(&self.api_version, &self.kind, message, out));
    }
}

/// The field of every list's message that has its items.
pub(super) const ITEMS: u32 = 2;

/// Bytes of the length before an event in the stream form of protobuf (spec list-watch §4.3).
pub const LENGTH_PREFIX: usize = 4;

/// Appends a watch frame: its length, big endian in four bytes, then a WatchEvent with the type and, as a RawExtension, an object in its envelope, which is so
/// many bytes.
pub(super) fn frame_into(kind: Kind, object_len: usize, out: &mut Vec<u8>, object: impl FnOnce(&mut Vec<u8>)) {
    let kind = kind.as_str().as_bytes();
    let extension_len = proto::field_len(1, object_len);
    let len = proto::field_len(1, kind.len()) + proto::field_len(2, extension_len);
    let end = out.len() + LENGTH_PREFIX + len;
    out.reserve(LENGTH_PREFIX + len);
    // No object is near 4 GiB: etcd takes 1.5 MiB.
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
    proto::field_into(1, kind, out);
    proto::field_head_into(2, extension_len, out);
    proto::field_head_into(1, object_len, out);
    object(out);
    debug_assert_eq!(out.len(), end, "the object is as long as it was said to be");
}
