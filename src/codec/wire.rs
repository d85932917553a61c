//! How one served resource is written in protobuf: lists and watch frames, each made from the JSON that is kept (spec list-watch §4.3).

use bytes::Bytes;

use super::{
    form::ListMeta,
    proto::{self, Message, ProtoError},
};
use crate::model::Kind;

/// The names and the message of a resource's protobuf.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    message: Message,
    api_version: String,
    kind: String,
    list_kind: String,
}

impl Wire {
    /// `None` when protobuf knows no such kind: custom resources.
    pub(super) fn of(api_version: &str, kind: &str, list_kind: &str) -> Option<Self> {
        let message = proto::message(api_version, kind)?;
        Some(Self { message, api_version: api_version.to_owned(), kind: kind.to_owned(), list_kind: list_kind.to_owned() })
    }

    /// Appends an item of a list, given as JSON: field 2 of the list's message.
    pub(super) fn item_into(&self, json: &[u8], out: &mut Vec<u8>) -> Result<(), ProtoError> {
        let mut raw = Vec::with_capacity(json.len());
        self.message.from_json(json, &mut raw)?;
        proto::field_into(2, &raw, out);
        Ok(())
    }

    /// The whole list around its items.
    pub(super) fn list(&self, meta: &ListMeta, items: &[u8]) -> Vec<u8> {
        let mut about = Vec::with_capacity(64);
        proto::list_meta_into(meta, &mut about);
        let mut raw = Vec::with_capacity(about.len() + items.len() + 16);
        proto::field_into(1, &about, &mut raw);
        raw.extend_from_slice(items);
        let mut out = Vec::with_capacity(raw.len() + 128);
        proto::envelope_into(&self.api_version, &self.list_kind, &raw, &mut out);
        out
    }

    /// A watch frame of an object that is given as JSON.
    pub(super) fn event(&self, kind: Kind, json: &[u8]) -> Result<Bytes, ProtoError> {
        let mut raw = Vec::with_capacity(json.len());
        self.message.from_json(json, &mut raw)?;
        let mut object = Vec::with_capacity(raw.len() + 64);
        proto::envelope_into(&self.api_version, &self.kind, &raw, &mut object);
        Ok(frame(kind, &object))
    }
}

/// A watch frame: its length, big endian in four bytes, then a WatchEvent with the type and, as a RawExtension, the object in its envelope.
pub(super) fn frame(kind: Kind, object: &[u8]) -> Bytes {
    let mut extension = Vec::with_capacity(object.len() + 8);
    proto::field_into(1, object, &mut extension);
    let mut out = vec![0; LENGTH];
    out.reserve(extension.len() + 24);
    proto::field_into(1, kind.as_str().as_bytes(), &mut out);
    proto::field_into(2, &extension, &mut out);
    // No object is near 4 GiB: etcd takes 1.5 MiB.
    let length = u32::try_from(out.len() - LENGTH).unwrap_or(u32::MAX);
    out[..LENGTH].copy_from_slice(&length.to_be_bytes());
    out.shrink_to_fit();
    Bytes::from(out)
}

const LENGTH: usize = 4;
