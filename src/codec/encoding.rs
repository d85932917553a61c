//! How content is encoded: as the JSON that it is, or as protobuf made of it. Bodies, lists, watch frames.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    content::{Content, ListMeta, Parts},
    encode,
    media::Media,
    proto::{self, ENVELOPE_TAIL},
    unencodable::Unencodable,
    wire::{self, ITEMS, Wire},
};
use model::{Kind, Object, Revision};

/// Frames are kept for a while: not with more room than this, bytes, that nothing was written to.
const SLACK_BYTES: usize = 64;

/// How lists, watch frames and single objects are encoded.
#[derive(Clone, Debug)]
pub(super) enum Encoding {
    Json,
    Protobuf(Wire),
}

/// What stands around the items of a list.
pub(super) struct Around {
    pub(super) open: Vec<u8>,
    pub(super) close: Vec<u8>,
    /// Messages of the first items that were made for `open`.
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
    pub(super) fn body(&self, content: &Content, object: &Object) -> Result<Vec<u8>, Unencodable> {
        match self {
            Self::Json => {
                let mut out = Vec::with_capacity(content.head().len() + object.tail().len() + 1);
                content.object_into(object, &mut out);
                out.push(b'\n');
                Ok(out)
            }
            Self::Protobuf(wire) => Ok(wire.body(&wire.message(content, object)?)),
        }
    }

    /// Whether a list tells its length first, so that all of its items are looked at before.
    pub(super) fn tells_length(&self) -> bool {
        matches!(self, Self::Protobuf(_))
    }

    /// What stands around these items of a list.
    pub(super) fn around(&self, content: &Content, meta: &ListMeta, objects: &[Arc<Object>]) -> Result<Around, Unencodable> {
        match self {
            Self::Json if objects.is_empty() => {
                let mut open = Vec::with_capacity(256);
                content.empty_list_into(meta, &mut open);
                Ok(Around { open, close: b"\n".to_vec(), messages: Vec::new() })
            }
            Self::Json => Ok(self.around_bytes(content, meta, 0)),
            Self::Protobuf(wire) => {
                let (messages, items_len) = wire.messages(content, objects)?;
                Ok(Around { messages, ..self.around_bytes(content, meta, items_len) })
            }
        }
    }

    /// The same of some items that are so many bytes, with what stands between them.
    pub(super) fn around_bytes(&self, content: &Content, meta: &ListMeta, items_len: usize) -> Around {
        let (open, close) = match self {
            Self::Json => {
                let (mut open, mut close) = (Vec::with_capacity(256), Vec::new());
                content.list_open_into(meta, &mut open);
                content.list_close_into(meta, &mut close);
                close.push(b'\n');
                (open, close)
            }
            Self::Protobuf(wire) => (wire.list_head(meta, items_len), ENVELOPE_TAIL.to_vec()),
        };
        Around { open, close, messages: Vec::new() }
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
        content: &Content,
        object: &Object,
        message: Option<Bytes>,
        out: &mut Vec<u8>,
    ) -> Result<(), Unencodable> {
        match self {
            Self::Json => content.item_into(object, out),
            Self::Protobuf(wire) => {
                let message = message.map_or_else(|| wire.message(content, object), Ok)?;
                proto::field_into(ITEMS, &message, out);
            }
        }
        Ok(())
    }

    /// Appends a watch frame.
    pub(super) fn event_into(
        &self,
        content: &Content,
        kind: Kind,
        object: &Object,
        revision: Revision,
        out: &mut Vec<u8>,
    ) -> Result<(), Unencodable> {
        let is_own = revision == object.revision;
        match self {
            Self::Json => {
                let digits = if is_own { 0 } else { encode::revision_len(revision.0) };
                let object_len = content.head().len() + object.tail().len() + digits;
                json_frame_into(kind, object_len, out, |out| content.event_into(object, revision, out));
            }
            Self::Protobuf(wire) if is_own => wire.frame_into(kind, &wire.message(content, object)?, out),
            Self::Protobuf(wire) => {
                let raw = wire.raw(object.tail().len(), |out| content.event_into(object, revision, out));
                wire.frame_into(kind, &raw.map_err(|why| Unencodable::object(object, why))?, out);
            }
        }
        Ok(())
    }

    /// A bookmark's frame.
    pub(super) fn bookmark(&self, content: &Content, revision: Revision, annotated: bool) -> Result<Bytes, Unencodable> {
        let (mut out, bookmark) = (Vec::new(), |out: &mut Vec<u8>| content.bookmark_into(revision, annotated, out));
        match self {
            Self::Json => json_frame_into(Kind::Bookmark, content.head().len() + 160, &mut out, bookmark),
            Self::Protobuf(wire) => wire.frame_into(Kind::Bookmark, &wire.raw(0, bookmark)?, &mut out),
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
                wire::frame_into(Kind::Error, status.len(), &mut out, |out| out.extend_from_slice(&status));
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
    use crate::{Form, ingest::test_config_map};

    #[test]
    fn an_error_frame_is_one_line() {
        let frame = Encoding::Json.error(b"{\"kind\":\"Status\"}\n").expect("JSON");
        assert_eq!(&frame[..], b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\"}}\n");
    }

    /// A ConfigMap with a number where its message has text: what no API server writes.
    #[test]
    fn what_a_message_does_not_take_is_told_with_its_reason() {
        let json = Form::built_in("v1", "ConfigMap", "ConfigMapList", "");
        let protobuf = json.in_protobuf("v1", "ConfigMap", "ConfigMapList", true).expect("protobuf knows it");
        let object = test_config_map("broken", 7, "text");
        let text = std::str::from_utf8(object.tail()).expect("UTF-8").replace("\"text\"", "1");
        let object = model::test_object_with_tail(&object, &text);
        let why = "/registry/configmaps/default/broken cannot be encoded as protobuf: cannot read member data as its type";
        for revision in [7, 8] {
            let event = |form: &Form| form.event(Kind::Deleted, &object, Revision(revision));
            assert!(event(&json).is_ok());
            assert_eq!(event(&protobuf).map_err(|why| why.to_string()), Err(why.to_owned()));
        }
        assert_eq!(protobuf.body(&object).map_err(|why| why.to_string()), Err(why.to_owned()));
        assert!(protobuf.error(b"[]").is_err() && protobuf.error(br#"{"kind":"Status","apiVersion":"v1","metadata":{}}"#).is_ok());
        assert!(protobuf.bookmark(Revision(7), true).is_ok());
    }
}
