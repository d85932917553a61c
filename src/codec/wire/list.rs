//! A list in protobuf, item by item. Its envelope tells its length first, so that every message is made once before, and what was not kept of them again.

use std::{sync::Arc, vec::IntoIter};

use bytes::Bytes;

use super::ITEMS;
use crate::{
    form::{Form, ListMeta},
    media::Unencodable,
    proto::{self, ENVELOPE_TAIL},
};
use model::Object;

/// Bytes of messages that a list keeps from the count of its length to their writing. Those of objects as they are stored stay with the objects, and do
/// not count; making the others again costs what making them has cost.
const KEPT_BYTES: usize = 4 << 20;

/// The messages of a list's objects, in order.
#[derive(Debug)]
pub struct Messages {
    form: Arc<Form>,
    /// The first ones.
    kept: IntoIter<Bytes>,
    /// Of all of them as items of a list.
    bytes: usize,
}

impl Messages {
    /// Those of these objects. That takes a while.
    ///
    /// # Errors
    /// The first object that is not as its message wants it; the form is not protobuf.
    pub fn of(form: Arc<Form>, objects: &[Arc<Object>]) -> Result<Self, Unencodable> {
        let (mut kept, mut kept_bytes, mut bytes) = (Vec::new(), 0, 0);
        for object in objects {
            let message = form.message(object)?;
            bytes += proto::field_len(ITEMS, message.len());
            kept_bytes += message.len();
            if !form.keeps_messages() && kept_bytes <= KEPT_BYTES {
                kept.push(message);
            }
        }
        Ok(Self { form, kept: kept.into_iter(), bytes })
    }

    /// Bytes that are held besides the objects.
    #[must_use]
    pub fn held(&self) -> usize {
        self.kept.as_slice().iter().map(Bytes::len).sum()
    }

    /// Appends the next one, that of this object, as an item of a list.
    ///
    /// # Errors
    /// As before: it was made once already.
    pub(crate) fn item_into(&mut self, object: &Object, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let message = self.kept.next().map_or_else(|| self.form.message(object), Ok)?;
        proto::field_into(ITEMS, &message, out);
        Ok(())
    }

    /// Passes over the next ones.
    pub(crate) fn skip(&mut self, count: usize) {
        self.kept.by_ref().take(count).for_each(drop);
    }
}

/// A whole list in protobuf while it is written: envelope and metadata, its items as field 2, [`ENVELOPE_TAIL`].
#[derive(Debug)]
pub struct WireList {
    head: Vec<u8>,
    /// Those that are not written yet.
    objects: IntoIter<Arc<Object>>,
    messages: Messages,
    left: usize,
}

impl WireList {
    /// The list of these objects, whose messages these are.
    ///
    /// # Errors
    /// The form is not protobuf.
    pub fn new(meta: &ListMeta, objects: Vec<Arc<Object>>, messages: Messages) -> Result<Self, Unencodable> {
        let head = messages.form.wire_list_head(meta, messages.bytes)?;
        Ok(Self { left: head.len() + messages.bytes + ENVELOPE_TAIL.len(), head, objects: objects.into_iter(), messages })
    }

    /// Bytes that are not written yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Bytes that are held for them.
    #[must_use]
    pub fn held(&self) -> usize {
        self.objects.len() * size_of::<Arc<Object>>() + self.messages.held()
    }

    /// The list again, of which nothing is written: its head, its objects and their messages.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, Vec<Arc<Object>>, Messages) {
        (self.head, self.objects.collect(), self.messages)
    }

    /// Appends what comes next until `out` has `limit` bytes, or the end.
    ///
    /// # Errors
    /// A message that cannot be made; it was made once before.
    pub fn fill(&mut self, out: &mut Vec<u8>, limit: usize) -> Result<(), Unencodable> {
        let before = out.len();
        out.append(&mut self.head);
        while out.len() < limit
            && let Some(object) = self.objects.next()
        {
            self.messages.item_into(&object, out)?;
        }
        if self.objects.as_slice().is_empty() && self.left > 0 {
            out.extend_from_slice(ENVELOPE_TAIL);
        }
        self.left -= out.len() - before;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Media, MetaVersion, ingest::test_config_map};
    use model::Storage;

    fn check(form: Form, kind: (&str, &str), kept: bool) {
        let form = Arc::new(form.in_protobuf(kind.0, kind.1, &format!("{}List", kind.1), kept).expect("protobuf knows it"));
        // Of the metadata alone more than is kept.
        let name = "n".repeat(2_000);
        for count in [0, 1, 10, 3_000] {
            let objects: Vec<_> = (0..count).map(|at| test_config_map(&format!("{name}-{at:04}"), at, "text")).collect();
            let list = || {
                let messages = Messages::of(form.clone(), &objects).expect("objects that can be encoded");
                WireList::new(&ListMeta::default(), objects.clone(), messages).expect("protobuf")
            };
            let (mut whole, mut pieces) = (Vec::new(), Vec::new());
            list().fill(&mut whole, usize::MAX).expect("as before");
            assert_eq!(whole.len(), list().left());
            let mut list = list();
            assert!(list.held() <= KEPT_BYTES + 8 * objects.capacity());
            while list.left() > 0 {
                let mut piece = Vec::new();
                list.fill(&mut piece, 1_000).expect("as before");
                assert!(piece.len() < 10_000);
                pieces.append(&mut piece);
            }
            assert!(whole == pieces, "{count}");
        }
    }

    #[test]
    fn large_objects_keep_no_message() {
        let form = Form::built_in("v1", "ConfigMap", "ConfigMapList", "").in_protobuf("v1", "ConfigMap", "ConfigMapList", true);
        let form = Arc::new(form.expect("protobuf knows it"));
        let (small, large) = (test_config_map("small", 1, "text"), test_config_map("large", 2, &"text ".repeat(20_000)));
        Messages::of(form, &[small.clone(), large.clone()]).expect("objects that can be encoded");
        assert!(small.message.get().is_some() && large.message.get().is_none());
    }

    /// A GET made it anew each time.
    #[test]
    fn a_get_takes_the_message_that_is_kept() {
        let json = Form::built_in("v1", "ConfigMap", "ConfigMapList", "");
        let form = json.in_protobuf("v1", "ConfigMap", "ConfigMapList", true).expect("protobuf knows it");
        let object = test_config_map("a", 1, "text");
        let mut text = Vec::new();
        json.object_into(&object, &mut text);
        let told = Media::Protobuf.encode(text, false).expect("a ConfigMap");
        assert_eq!(form.wire_object(&object).expect("a ConfigMap"), told);
        assert!(object.message.get().is_some());
        assert_eq!(form.wire_object(&object).expect("a ConfigMap"), told);
    }

    #[test]
    fn pieces_are_the_whole() {
        check(Form::built_in("v1", "ConfigMap", "ConfigMapList", ""), ("v1", "ConfigMap"), true);
        check(Form::metadata_only(MetaVersion::V1, &Storage::test_config_maps()), ("meta.k8s.io/v1", "PartialObjectMetadata"), false);
    }
}
