//! How one served resource is written in protobuf: lists and watch frames, each made from the JSON that is kept (spec list-watch §4.3).

use bytes::Bytes;

use super::{
    form::ListMeta,
    proto::{self, Message, ProtoError},
};

mod list;

pub use list::{Messages, WireList};
use model::{Kind, Object};

/// Messages that are longer, bytes, are not kept with their objects: a list of a thousand objects of 1.4 MB in protobuf doubled the server's memory for good.
const KEPT_BYTES_EACH: usize = 64 << 10;

/// The names and the message of a resource's protobuf.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    message: Message,
    api_version: String,
    kind: String,
    list_kind: String,
    /// Whether the objects' messages are kept with them: those of the version in which they are stored.
    kept: bool,
}

impl Wire {
    /// `None` when protobuf knows no such kind: custom resources.
    pub(super) fn of(api_version: &str, kind: &str, list_kind: &str, kept: bool) -> Option<Self> {
        let message = proto::message(api_version, kind)?;
        Some(Self { message, api_version: api_version.to_owned(), kind: kind.to_owned(), list_kind: list_kind.to_owned(), kept })
    }

    pub(super) fn is_kept(&self) -> bool {
        self.kept
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

    /// The message of an object; `json` writes the object. One that is kept with the object is made once.
    pub(super) fn message(&self, object: &Object, json: impl FnOnce(&mut Vec<u8>)) -> Result<Bytes, ProtoError> {
        if let Some(kept) = object.message.get().filter(|_| self.kept) {
            return Ok(kept.clone());
        }
        let mut raw = self.raw(object.tail.len() + 64, json)?;
        raw.shrink_to_fit();
        let raw = Bytes::from(raw);
        Ok(if self.kept && raw.len() <= KEPT_BYTES_EACH { object.message.get_or_init(|| raw).clone() } else { raw })
    }

    /// A watch frame of what is written as JSON.
    pub(super) fn event(&self, kind: Kind, json: impl FnOnce(&mut Vec<u8>)) -> Result<Bytes, ProtoError> {
        Ok(self.frame(kind, &self.raw(0, json)?))
    }

    /// The message of what is written as JSON, of about so many bytes.
    fn raw(&self, json_len: usize, json: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>, ProtoError> {
        let mut text = Vec::with_capacity(json_len);
        json(&mut text);
        let mut raw = Vec::with_capacity(text.len());
        self.message.from_json(&text, &mut raw)?;
        Ok(raw)
    }

    /// The body of a GET: a whole message in its envelope.
    pub(super) fn document(&self, message: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(message.len() + 64);
        proto::envelope_into(&self.api_version, &self.kind, message, &mut out);
        out
    }

    /// A watch frame of a message.
    pub(super) fn frame(&self, kind: Kind, message: &[u8]) -> Bytes {
        frame(kind, &self.document(message))
    }
}

/// The field of every list's message that has its items.
const ITEMS: u32 = 2;

/// Bytes of the length before an event in the stream form of protobuf (spec list-watch §4.3).
pub const LENGTH_PREFIX: usize = 4;

/// A watch frame: its length, big endian in four bytes, then a WatchEvent with the type and, as a RawExtension, the object in its envelope.
pub(super) fn frame(kind: Kind, object: &[u8]) -> Bytes {
    let mut extension = Vec::with_capacity(object.len() + 8);
    proto::field_into(1, object, &mut extension);
    let mut out = vec![0; LENGTH_PREFIX];
    out.reserve(extension.len() + 24);
    proto::field_into(1, kind.as_str().as_bytes(), &mut out);
    proto::field_into(2, &extension, &mut out);
    // No object is near 4 GiB: etcd takes 1.5 MiB.
    let length = u32::try_from(out.len() - LENGTH_PREFIX).unwrap_or(u32::MAX);
    out[..LENGTH_PREFIX].copy_from_slice(&length.to_be_bytes());
    out.shrink_to_fit();
    Bytes::from(out)
}
