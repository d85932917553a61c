//! A compact list, written while it is sent: what stands before the items, each item, what stands after them.
//!
//! What is not written yet costs the pointers of a list; so a client that does not read holds no answer, however large that is.

use std::{sync::Arc, vec::IntoIter};

use bytes::Bytes;

use super::{
    chunk_cache::ChunkBoundary,
    encoder::Encoder,
    encoding::ListEnvelope,
    prefetch::{self, OBJECTS},
    representation::ListMeta,
    unencodable::Unencodable,
};
use model::{Epoch, Object};

/// See the module.
#[derive(Debug)]
pub struct Listing {
    encoder: Arc<Encoder>,
    /// What stands before the items, and after them; empty when it is written.
    prologue: Vec<u8>,
    epilogue: Vec<u8>,
    /// Those that are not written yet. Written ones are dropped: they may be gone from the cache, and a slow client would keep them.
    objects: IntoIter<Arc<Object>>,
    /// Bytes of their pointers, which stay until the end.
    pointers: usize,
    /// Of the first of them, if they were made already.
    messages: IntoIter<Bytes>,
    /// Whether an item is written.
    begun: bool,
}

impl Listing {
    /// A list of these objects. That takes a while where the encoder [needs the length](Encoder::needs_length).
    ///
    /// # Errors
    /// The first object that is not as its message wants it.
    pub fn new(encoder: Arc<Encoder>, meta: &ListMeta, objects: Vec<Arc<Object>>) -> Result<Self, Unencodable> {
        let encoder = encoder.for_answer();
        let ListEnvelope { prologue, epilogue, messages } = encoder.list_envelope(meta, &objects)?;
        let pointers = objects.capacity() * size_of::<Arc<Object>>();
        Ok(Self { encoder, prologue, epilogue, objects: objects.into_iter(), pointers, messages: messages.into_iter(), begun: false })
    }

    /// Whether everything is written.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.epilogue.is_empty()
    }

    /// Bytes that are held for what is not written yet.
    #[must_use]
    pub fn held(&self) -> usize {
        self.pointers + self.messages.as_slice().iter().map(Bytes::len).sum::<usize>()
    }

    /// Whether a definition says what is written of its objects, which may take long.
    #[must_use]
    pub fn is_defined(&self) -> bool {
        self.encoder.is_defined()
    }

    /// All of a list of which nothing is written yet, if that is no more than so many bytes.
    ///
    /// # Errors
    /// As in [`Listing::fill`].
    pub fn within(&self, limit: usize) -> Result<Option<Vec<u8>>, Unencodable> {
        let mut out = self.prologue.clone();
        for (nth, object) in self.objects.as_slice().iter().enumerate() {
            if nth > 0 {
                out.extend_from_slice(self.encoder.separator());
            }
            self.encoder.encode_item_into(object, self.messages.as_slice().get(nth).cloned(), &mut out)?;
            if out.len() > limit {
                return Ok(None);
            }
        }
        out.extend_from_slice(&self.epilogue);
        Ok((out.len() <= limit).then_some(out))
    }

    /// Appends what comes next until `out` has `limit` bytes, or the end.
    ///
    /// # Errors
    /// A message that cannot be made; it was made once before.
    pub fn fill(&mut self, out: &mut Vec<u8>, limit: usize) -> Result<(), Unencodable> {
        out.append(&mut self.prologue);
        while out.len() < limit && !self.objects.as_slice().is_empty() {
            if std::mem::replace(&mut self.begun, true) {
                out.extend_from_slice(self.encoder.separator());
            }
            self.items_into(1, out)?;
        }
        if self.objects.as_slice().is_empty() {
            out.append(&mut self.epilogue);
        }
        Ok(())
    }

    /// Appends the next so many items, with what stands between them.
    pub(crate) fn items_into(&mut self, count: usize, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        for nth in 0..count {
            self.prefetch();
            let Some(object) = self.objects.next() else { break };
            if nth > 0 {
                out.extend_from_slice(self.encoder.separator());
            }
            self.encoder.encode_item_into(&object, self.messages.next(), out)?;
        }
        Ok(())
    }

    fn prefetch(&self) {
        let left = self.objects.as_slice();
        if left.len().is_multiple_of(OBJECTS) && self.encoder.reads_text() {
            prefetch::prefetch(left.iter());
        }
    }
}

/// What a stream of chunks asks for.
impl Listing {
    pub(crate) fn prologue(&self) -> &[u8] {
        &self.prologue
    }

    pub(crate) fn epilogue(&self) -> &[u8] {
        &self.epilogue
    }

    pub(crate) fn separator(&self) -> &'static [u8] {
        self.encoder.separator()
    }

    /// Returns the end of the next chunk, of the cache in this epoch; `None` when no item is left.
    pub(crate) fn next_boundary(&self, epoch: Epoch) -> Option<ChunkBoundary> {
        let objects = self.objects.as_slice();
        (!objects.is_empty()).then(|| self.encoder.hash_seed().next_boundary(epoch, objects, |object| self.encoder.weight(object)))
    }

    /// About how many bytes the next so many items are written with.
    pub(crate) fn weight(&self, count: usize) -> usize {
        self.objects.as_slice()[..count].iter().map(|object| self.encoder.weight(object) + 64).sum()
    }

    /// Passes over the next so many items.
    pub(crate) fn skip(&mut self, count: usize) {
        self.objects.by_ref().take(count).for_each(drop);
        self.messages.by_ref().take(count).for_each(drop);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Media, MetaVersion, ingest::test_config_map, protobuf_encoder::KEPT_BYTES};
    use model::{Revision, Storage};

    fn config_maps() -> Encoder {
        Encoder::built_in("v1", "ConfigMap", "ConfigMapList", "")
    }

    fn metadata() -> Encoder {
        Encoder::metadata_only(MetaVersion::V1, &Storage::test_config_maps())
    }

    fn in_protobuf(encoder: &Encoder, kind: (&str, &str), kept: bool) -> Arc<Encoder> {
        Arc::new(encoder.in_protobuf(kind.0, kind.1, &format!("{}List", kind.1), kept).expect("protobuf knows it"))
    }

    /// All of a list.
    pub(crate) fn whole(encoder: &Arc<Encoder>, meta: &ListMeta, objects: &[Arc<Object>]) -> Vec<u8> {
        let mut list = Listing::new(encoder.clone(), meta, objects.to_vec()).expect("objects that can be encoded");
        let mut out = Vec::new();
        list.fill(&mut out, usize::MAX).expect("as before");
        assert!(list.is_done());
        out
    }

    fn check(encoder: &Arc<Encoder>) {
        // Of the metadata alone more than is kept.
        let (name, meta) = ("n".repeat(2_000), ListMeta::default());
        for count in [0, 1, 10, 3_000] {
            let objects: Vec<_> = (0..count).map(|at| test_config_map(&format!("{name}-{at:04}"), at, "text")).collect();
            let list = || Listing::new(encoder.clone(), &meta, objects.clone()).expect("objects that can be encoded");
            let (whole, mut pieces) = (whole(encoder, &meta, &objects), Vec::new());
            let mut list_of_pieces = list();
            assert!(list_of_pieces.held() <= KEPT_BYTES + 8 * objects.capacity());
            while !list_of_pieces.is_done() {
                let mut piece = Vec::new();
                list_of_pieces.fill(&mut piece, 1_000).expect("as before");
                assert!(!piece.is_empty() && piece.len() < 10_000);
                pieces.append(&mut piece);
            }
            assert!(whole == pieces && list_of_pieces.held() == 8 * objects.len(), "{count}");
            assert_eq!(list().within(whole.len()).expect("as before").as_ref(), Some(&whole));
            assert_eq!(list().within(whole.len() - 1).expect("as before"), None);
        }
    }

    #[test]
    fn pieces_are_the_whole() {
        check(&Arc::new(config_maps()));
        check(&Arc::new(metadata()));
        check(&Arc::new(Encoder::custom("v1", "ConfigMap", "ConfigMapList")));
        check(&in_protobuf(&config_maps(), ("v1", "ConfigMap"), true));
        check(&in_protobuf(&metadata(), ("meta.k8s.io/v1", "PartialObjectMetadata"), false));
    }

    /// The list is the document that its JSON is.
    #[test]
    fn both_encodings_are_of_one_list() {
        let objects: Vec<_> = (0..3).map(|at| test_config_map(&format!("o-{at}"), at, "text")).collect();
        let meta = ListMeta { revision: Revision(9), continue_token: Some("token".to_owned()), remaining: Some(2), shard: None };
        for count in [0, 1, 3] {
            let mut json = whole(&Arc::new(config_maps()), &meta, &objects[..count]);
            assert_eq!(json.pop(), Some(b'\n'));
            let protobuf = whole(&in_protobuf(&config_maps(), ("v1", "ConfigMap"), true), &meta, &objects[..count]);
            assert_eq!(protobuf, Media::Protobuf.encode(json, false).expect("a ConfigMapList"));
        }
    }

    #[test]
    fn large_objects_keep_no_message() {
        let encoder = in_protobuf(&config_maps(), ("v1", "ConfigMap"), true);
        let (small, large) = (test_config_map("small", 1, "text"), test_config_map("large", 2, &"text ".repeat(20_000)));
        Listing::new(encoder, &ListMeta::default(), vec![small.clone(), large.clone()]).expect("objects that can be encoded");
        assert!(small.message().is_some() && large.message().is_none());
    }

    /// A GET made it anew each time.
    #[test]
    fn a_get_takes_the_message_that_is_kept() {
        let encoder = in_protobuf(&config_maps(), ("v1", "ConfigMap"), true);
        let object = test_config_map("a", 1, "text");
        let mut text = Vec::new();
        encoder.object_into(&object, &mut text);
        let told = Media::Protobuf.encode(text, false).expect("a ConfigMap");
        assert_eq!(encoder.body(&object).expect("a ConfigMap"), told);
        assert!(object.message().is_some());
        assert_eq!(encoder.body(&object).expect("a ConfigMap"), told);
    }
}
