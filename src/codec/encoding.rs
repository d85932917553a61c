//! Encodes a representation: as the JSON that it is, or as protobuf made of it. Bodies, lists, watch frames.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    encode,
    media::Media,
    proto::{self, ENVELOPE_TAIL},
    protobuf_encoder::{self, ITEMS, ProtobufEncoder},
    representation::{ListMeta, Render, Representation},
    unencodable::Unencodable,
};
use model::{Kind, Object, Revision};

/// Frames are kept for a while: not with more room than this, bytes, that nothing was written to.
const SLACK_BYTES: usize = 64;

/// How lists, watch frames and single objects are encoded.
#[derive(Clone, Debug)]
pub(super) enum Encoding {
    Json,
    Protobuf(ProtobufEncoder),
}

/// The bytes around the items of a list.
pub(super) struct ListEnvelope {
    pub(super) prologue: Vec<u8>,
    pub(super) epilogue: Vec<u8>,
    /// Messages of the first items that were made for `prologue`.
    pub(super) messages: Vec<Bytes>,
}

impl Encoding {
    pub(super) fn media(&self) -> Media {
        match self {
            Self::Json => Media::Json,
            Self::Protobuf(_) => Media::Protobuf,
        }
    }

    /// The body of a GET.
    pub(super) fn body(&self, representation: &Representation, object: &Object) -> Result<Vec<u8>, Unencodable> {
        match self {
            Self::Json => {
                let mut out = Vec::with_capacity(representation.head().len() + object.tail_len() + 1);
                representation.object_into(object, &mut out);
                out.push(b'\n');
                Ok(out)
            }
            Self::Protobuf(protobuf) => Ok(protobuf.body(&protobuf.message(representation, object)?)),
        }
    }

    /// Whether a list begins with its length, so that all of its items are encoded before anything is sent.
    pub(super) fn needs_length(&self) -> bool {
        matches!(self, Self::Protobuf(_))
    }

    /// What stands around these items of a list.
    pub(super) fn list_envelope(
        &self,
        representation: &Representation,
        meta: &ListMeta,
        objects: &[Arc<Object>],
    ) -> Result<ListEnvelope, Unencodable> {
        match self {
            Self::Json if objects.is_empty() => {
                let mut prologue = Vec::with_capacity(256);
                representation.empty_list_into(meta, &mut prologue);
                Ok(ListEnvelope { prologue, epilogue: b"\n".to_vec(), messages: Vec::new() })
            }
            Self::Json => Ok(self.list_envelope_of(representation, meta, 0)),
            Self::Protobuf(protobuf) => {
                let (messages, items_len) = protobuf.messages(representation, objects)?;
                Ok(ListEnvelope { messages, ..self.list_envelope_of(representation, meta, items_len) })
            }
        }
    }

    /// The same, around items of which only the number of bytes is known, separators included.
    pub(super) fn list_envelope_of(&self, representation: &Representation, meta: &ListMeta, items_len: usize) -> ListEnvelope {
        let (prologue, epilogue) = match self {
            Self::Json => {
                let (mut prologue, mut epilogue) = (Vec::with_capacity(256), Vec::new());
                representation.list_prologue_into(meta, &mut prologue);
                representation.list_epilogue_into(meta, &mut epilogue);
                epilogue.push(b'\n');
                (prologue, epilogue)
            }
            Self::Protobuf(protobuf) => (protobuf.list_head(meta, items_len), ENVELOPE_TAIL.to_vec()),
        };
        ListEnvelope { prologue, epilogue, messages: Vec::new() }
    }

    /// What stands between two items.
    pub(super) fn separator(&self) -> &'static [u8] {
        match self {
            Self::Json => b",",
            Self::Protobuf(_) => b"",
        }
    }

    /// Appends an object as an item of a list; `message`: if there is one already.
    pub(super) fn item_into(
        &self,
        representation: &Representation,
        object: &Object,
        message: Option<Bytes>,
        out: &mut Vec<u8>,
    ) -> Result<(), Unencodable> {
        match self {
            Self::Json => representation.item_into(object, out),
            Self::Protobuf(protobuf) => {
                let message = message.map_or_else(|| protobuf.message(representation, object), Ok)?;
                proto::field_into(ITEMS, &message, out);
            }
        }
        Ok(())
    }

    /// Appends a watch frame.
    pub(super) fn event_into(
        &self,
        representation: &Representation,
        kind: Kind,
        object: &Object,
        revision: Revision,
        out: &mut Vec<u8>,
    ) -> Result<(), Unencodable> {
        let is_own = revision == object.revision;
        match self {
            Self::Json => {
                let digits = if is_own { 0 } else { encode::revision_len(revision.0) };
                let object_len = representation.head().len() + object.tail_len() + digits;
                json_frame_into(kind, object_len, out, |out| representation.event_into(object, revision, out));
            }
            Self::Protobuf(protobuf) if is_own => protobuf.frame_into(kind, &protobuf.message(representation, object)?, out),
            Self::Protobuf(protobuf) => {
                let raw = protobuf.raw(object.tail_len(), |out| representation.event_into(object, revision, out));
                protobuf.frame_into(kind, &raw.map_err(|why| Unencodable::object(object, why))?, out);
            }
        }
        Ok(())
    }

    /// A bookmark's frame.
    pub(super) fn bookmark(&self, representation: &Representation, revision: Revision, annotated: bool) -> Result<Bytes, Unencodable> {
        let (mut out, bookmark) = (Vec::new(), |out: &mut Vec<u8>| representation.bookmark_into(revision, annotated, out));
        match self {
            Self::Json => json_frame_into(Kind::Bookmark, representation.head().len() + 160, &mut out, bookmark),
            Self::Protobuf(protobuf) => protobuf.frame_into(Kind::Bookmark, &protobuf.raw(0, bookmark)?, &mut out),
        }
        Ok(kept(out))
    }

    /// An ERROR frame around a Status.
    pub(super) fn error(&self, status_json: &[u8]) -> Result<Bytes, Unencodable> {
        let (mut out, status) = (Vec::new(), status_json.trim_ascii_end());
        match self {
            Self::Json => json_frame_into(Kind::Error, status.len(), &mut out, |out| out.extend_from_slice(status)),
            Self::Protobuf(_) => {
                let status = Media::Protobuf.encode(status.to_vec(), false)?;
                protobuf_encoder::frame_into(Kind::Error, status.len(), &mut out, |out| out.extend_from_slice(&status));
            }
        }
        Ok(kept(out))
    }
}

/// Appends a frame of JSON with its newline, around an object of about so many bytes.
fn json_frame_into(kind: Kind, object_len: usize, out: &mut Vec<u8>, object: impl FnOnce(&mut Vec<u8>)) {
    const AROUND: usize = r#"{"type":"","object":}"#.len() + 1;
    let kind = kind.as_str();
    // One that is kept has no more room than it needs.
    let more = AROUND + kind.len() + object_len;
    if out.is_empty() {
        out.reserve_exact(more)
    } else {
        out.reserve(more)
    }
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    object(out);
    out.extend_from_slice(b"}\n");
}

/// What was written, with little room that nothing was written to.
pub(super) fn kept(mut out: Vec<u8>) -> Bytes {
    if out.capacity() - out.len() > SLACK_BYTES {
        out.shrink_to_fit();
    }
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoder, ingest::test_config_map};

    #[test]
    fn an_error_frame_is_one_line() {
        let frame = Encoding::Json.error(b"{\"kind\":\"Status\"}\n").expect("JSON");
        assert_eq!(&frame[..], b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\"}}\n");
    }

    /// A ConfigMap with a number where its message has text: what no API server writes.
    #[test]
    fn what_a_message_does_not_take_is_told_with_its_reason() {
        let json = Encoder::built_in("v1", "ConfigMap", "ConfigMapList", "");
        let protobuf = json.in_protobuf("v1", "ConfigMap", "ConfigMapList", true).expect("protobuf knows it");
        let object = test_config_map("broken", 7, "text");
        let text = std::str::from_utf8(object.own_tail()).expect("UTF-8").replace("\"text\"", "1");
        let object = model::test_object_with_tail(&object, &text);
        let why = "/registry/configmaps/default/broken cannot be encoded as protobuf: cannot read member data as its type";
        for revision in [7, 8] {
            let event = |encoder: &Encoder| encoder.event(Kind::Deleted, &object, Revision(revision));
            assert!(event(&json).is_ok());
            assert_eq!(event(&protobuf).map_err(|why| why.to_string()), Err(why.to_owned()));
        }
        assert_eq!(protobuf.body(&object).map_err(|why| why.to_string()), Err(why.to_owned()));
        assert!(protobuf.error(b"[]").is_err() && protobuf.error(br#"{"kind":"Status","apiVersion":"v1","metadata":{}}"#).is_ok());
        assert!(protobuf.bookmark(Revision(7), true).is_ok());
    }
}
