//! Writes a list as a gzip stream of shared chunks.

use std::{mem, sync::Arc};

use flate2::Crc;

use super::{
    append,
    chunk_cache::{Chunk, ChunkBoundary, ChunkCache, ChunkCompressor},
    encoder::Encoder,
    encoding::ListEnvelope,
    list_manifest::{CachedList, ListKey, ListManifest},
    listing::Listing,
    representation::ListMeta,
};
use model::Epoch;

/// As kube-apiserver begins its own: deflate, no name, no time, the fastest level, no operating system told.
const HEAD: [u8; 10] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 4, 255];
/// The last block of a deflate stream, empty.
const LAST: [u8; 2] = [3, 0];
/// The most bytes that a stored block of deflate has (RFC 1951 §3.2.4).
const MOST_STORED: usize = 0xFFFF;

/// A list that is being written.
pub struct GzipList {
    items: Items,
    state: State,
}

/// Where the items come from.
enum Items {
    FromObjects(Box<FromObjects>),
    FromCache(FromCache),
}

/// A list of objects, whose chunks are found in the cache or compressed.
struct FromObjects {
    cache: Arc<ChunkCache>,
    epoch: Epoch,
    list: Listing,
    compressor: Option<(ChunkBoundary, ChunkCompressor)>,
    /// Of what was written so far, and its key.
    manifest: ListManifest,
    key: Option<ListKey>,
}

/// A list all of whose chunks were cached.
struct FromCache {
    envelope: ListEnvelope,
    separator: &'static [u8],
    list: CachedList,
}

#[derive(Clone, Copy)]
enum State {
    Open,
    First,
    Others,
    Done,
}

/// What a step wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrote {
    /// The beginning.
    Open,
    /// A chunk that was cached.
    Shared,
    /// A chunk that had to be compressed, or a piece of one, which took a while; whether it is whole.
    Compressed(bool),
    /// The end, now or before.
    End,
}

impl GzipList {
    /// A list of which nothing is written yet, by an encoder that [is deterministic](crate::Encoder::is_deterministic). `epoch`: of the cache that its objects
    /// are from; `key`: what its manifest is cached by, if it is a whole list.
    #[must_use]
    pub fn new(list: Listing, epoch: Epoch, key: Option<ListKey>, cache: Arc<ChunkCache>) -> Self {
        let objects = FromObjects { cache, epoch, list, compressor: None, manifest: ListManifest::default(), key };
        Self { items: Items::FromObjects(Box::new(objects)), state: State::Open }
    }

    /// The same of a cached list that this encoder has written.
    #[must_use]
    pub fn of_cached(encoder: &Encoder, meta: &ListMeta, list: CachedList) -> Self {
        let cached = FromCache { envelope: encoder.list_envelope_of(meta, list.len()), separator: encoder.separator(), list };
        Self { items: Items::FromCache(cached), state: State::Open }
    }

    /// Bytes that are held for what is not written yet.
    #[must_use]
    pub fn held(&self) -> usize {
        match &self.items {
            Items::FromObjects(objects) => {
                objects.list.held() + objects.manifest.weight() + objects.compressor.as_ref().map_or(0, |(_, compressor)| compressor.held())
            }
            Items::FromCache(cached) => cached.list.held(),
        }
    }

    /// Appends what comes next: the beginning, a chunk, or the end.
    pub fn step(&mut self, out: &mut Vec<u8>) -> Wrote {
        let is_first = matches!(self.state, State::First);
        match self.state {
            State::Open => {
                out.extend_from_slice(&HEAD);
                stored_into(self.items.prologue(), out);
                self.state = State::First;
                Wrote::Open
            }
            State::First | State::Others => {
                self.state = State::Others;
                let wrote = match &mut self.items {
                    Items::FromObjects(objects) => objects.step(is_first, out),
                    Items::FromCache(cached) => cached.step(is_first, out),
                };
                if wrote == Wrote::End {
                    self.end_into(out);
                    self.state = State::Done;
                }
                wrote
            }
            State::Done => Wrote::End,
        }
    }

    fn end_into(&mut self, out: &mut Vec<u8>) {
        stored_into(self.items.epilogue(), out);
        out.extend_from_slice(&LAST);
        let mut crc = Crc::new();
        crc.update(self.items.prologue());
        crc.combine(self.items.crc());
        crc.update(self.items.epilogue());
        out.extend_from_slice(&crc.sum().to_le_bytes());
        out.extend_from_slice(&crc.amount().to_le_bytes());
        if let Items::FromObjects(objects) = &mut self.items {
            objects.keep_manifest();
        }
    }
}

impl Items {
    fn prologue(&self) -> &[u8] {
        match self {
            Self::FromObjects(objects) => objects.list.prologue(),
            Self::FromCache(cached) => &cached.envelope.prologue,
        }
    }

    fn epilogue(&self) -> &[u8] {
        match self {
            Self::FromObjects(objects) => objects.list.epilogue(),
            Self::FromCache(cached) => &cached.envelope.epilogue,
        }
    }

    /// Of all items, when they are written.
    fn crc(&self) -> &Crc {
        match self {
            Self::FromObjects(objects) => objects.manifest.crc(),
            Self::FromCache(cached) => cached.list.crc(),
        }
    }
}

impl FromObjects {
    fn step(&mut self, is_first: bool, out: &mut Vec<u8>) -> Wrote {
        if self.compressor.is_some() {
            return self.piece_into(out);
        }
        let Some(boundary) = self.list.next_boundary(self.epoch) else { return Wrote::End };
        if !is_first {
            stored_into(self.list.separator(), out);
            self.manifest.push_separator(self.list.separator());
        }
        if let Some(chunk) = self.cache.find(&boundary) {
            self.append(&boundary, &chunk, out);
            self.list.skip(boundary.objects);
            return Wrote::Shared;
        }
        let mut text = Vec::with_capacity(self.list.weight(boundary.objects));
        self.list.items_into(boundary.objects, &mut text).expect("what is in a list can be made again");
        let compressor = ChunkCompressor::new(&boundary, text);
        self.compressor = Some((boundary, compressor));
        self.piece_into(out)
    }

    fn piece_into(&mut self, out: &mut Vec<u8>) -> Wrote {
        let is_whole = self.compressor.as_mut().is_some_and(|(_, compressor)| compressor.compress_piece());
        if let Some((boundary, made)) = self.compressor.take_if(|_| is_whole) {
            let chunk = self.cache.insert(made);
            self.append(&boundary, &chunk, out);
        }
        Wrote::Compressed(is_whole)
    }

    fn append(&mut self, boundary: &ChunkBoundary, chunk: &Chunk, out: &mut Vec<u8>) {
        append(&chunk.deflate, out);
        self.manifest.push(self.key.map(|_| boundary.key), boundary.objects, chunk);
    }

    /// Caches the manifest, now that all is written.
    fn keep_manifest(&mut self) {
        if let Some(key) = self.key.take().filter(|_| self.manifest.is_worth_caching()) {
            self.cache.insert_manifest(key, mem::take(&mut self.manifest).at(key.revision));
        }
    }
}

impl FromCache {
    fn step(&mut self, is_first: bool, out: &mut Vec<u8>) -> Wrote {
        let Some(chunk) = self.list.next() else { return Wrote::End };
        if !is_first {
            stored_into(self.separator, out);
        }
        append(&chunk.deflate, out);
        Wrote::Shared
    }
}

/// Text as it is, in stored blocks.
fn stored_into(text: &[u8], out: &mut Vec<u8>) {
    for part in text.chunks(MOST_STORED) {
        let length = u16::try_from(part.len()).expect("no more than that");
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use proptest::prelude::*;

    use super::*;
    use crate::{Encoder, ListMeta, MetaVersion, ingest::test_config_map, listing::tests::whole};
    use model::{Object, Revision, Storage};

    const EPOCH: Epoch = Epoch(1);

    /// A ConfigMap of about so many bytes.
    pub(crate) fn object(name: &str, revision: u64, bytes: usize) -> Arc<Object> {
        test_config_map(name, revision, &format!("{revision} {}", "data ".repeat(bytes / 5)))
    }

    fn encoder() -> Arc<Encoder> {
        Arc::new(Encoder::built_in("v1", "ConfigMap", "ConfigMapList", ""))
    }

    fn meta(continue_token: Option<&str>) -> ListMeta {
        ListMeta { revision: Revision(9), continue_token: continue_token.map(str::to_owned), ..ListMeta::default() }
    }

    /// The stream, and how many chunks were compressed for it.
    fn written(mut list: GzipList) -> (Vec<u8>, usize) {
        let (mut out, mut compressed) = (Vec::new(), 0);
        loop {
            match list.step(&mut out) {
                Wrote::Open | Wrote::Shared => {}
                Wrote::Compressed(is_whole) => compressed += usize::from(is_whole),
                Wrote::End => break,
            }
        }
        let length = out.len();
        assert_eq!((list.step(&mut out), out.len()), (Wrote::End, length), "the end is written once");
        (out, compressed)
    }

    fn inflated(stream: &[u8]) -> Vec<u8> {
        let (mut text, mut decoder) = (Vec::new(), GzDecoder::new(stream));
        decoder.read_to_end(&mut text).expect("gzip with its sums");
        assert!(decoder.into_inner().is_empty(), "nothing after the end");
        text
    }

    fn gzip(encoder: &Arc<Encoder>, meta: &ListMeta, objects: &[Arc<Object>], epoch: Epoch, cache: &Arc<ChunkCache>) -> GzipList {
        let list = Listing::new(encoder.clone(), meta, objects.to_vec()).expect("objects that can be encoded");
        GzipList::new(list, epoch, None, cache.clone())
    }

    proptest! {
        /// Whatever is changed, added and left out between two lists, each is what it would have been.
        #[test]
        fn a_list_is_what_it_would_be_without_blocks(
            rounds in prop::collection::vec((prop::collection::btree_map(0_usize..400, 1_u64..4, 1..300), any::<bool>(), prop::option::of("[a-z]{1,9}")), 1..5),
        ) {
            let cache = Arc::new(ChunkCache::new(1 << 20));
            let encoders = [encoder(), Arc::new(Encoder::metadata_only(MetaVersion::V1, &Storage::test_config_maps()))];
            for (names, which, token) in rounds {
                let objects: Vec<_> = names.iter().map(|(name, revision)| object(&format!("o-{name:04}"), *revision, 40)).collect();
                let (encoder, meta) = (&encoders[usize::from(which)], meta(token.as_deref()));
                let list = || gzip(encoder, &meta, &objects, EPOCH, &cache);
                prop_assert_eq!(inflated(&written(list()).0), whole(encoder, &meta, &objects));
                prop_assert_eq!(written(list()).1, 0, "all is kept now");
            }
        }
    }

    #[test]
    fn a_change_costs_one_block() {
        let cache = Arc::new(ChunkCache::new(1 << 20));
        let (encoder, meta) = (encoder(), meta(None));
        let mut objects: Vec<_> = (0..1_000).map(|at| object(&format!("o-{at:04}"), 1, 100)).collect();
        let list = |objects: &[Arc<Object>], epoch| written(gzip(&encoder, &meta, objects, epoch, &cache));
        let all = list(&objects, EPOCH).1;
        assert!(all > 5, "{all} blocks");
        objects[500] = object("o-0500", 2, 100);
        let (stream, compressed) = list(&objects, EPOCH);
        assert_eq!((compressed, inflated(&stream)), (1, whole(&encoder, &meta, &objects)));
        objects.remove(300);
        assert_eq!(list(&objects, EPOCH).1, 1);
        assert_eq!(list(&objects[400..], EPOCH).1, 1, "its first stretch begins where no block does");
        assert_eq!(list(&objects, EPOCH.next()).1, all, "of an etcd that went back nothing holds");
    }

    #[test]
    fn protobuf_is_the_same() {
        let cache = Arc::new(ChunkCache::new(1 << 20));
        let encoder = Arc::new(encoder().in_protobuf("v1", "ConfigMap", "ConfigMapList", true).expect("a built-in"));
        let (meta, objects) = (meta(Some("token")), (0..300).map(|at| object(&format!("o-{at:04}"), at, 100)).collect::<Vec<_>>());
        let list = || written(gzip(&encoder, &meta, &objects, EPOCH, &cache));
        let (first, compressed) = list();
        assert!(compressed > 0 && inflated(&first) == whole(&encoder, &meta, &objects));
        assert_eq!(list(), (first, 0));
    }

    /// Others run between its pieces; and what is short although its objects are long is compressed together.
    #[test]
    fn large_objects_are_compressed_in_pieces() {
        let objects: Vec<_> = (0..20).map(|at| object(&format!("o-{at}"), at, 200_000)).collect();
        let steps = |encoder: &Arc<Encoder>| {
            let mut list = gzip(encoder, &meta(None), &objects, EPOCH, &Arc::new(ChunkCache::new(0)));
            let (mut out, mut steps) = (Vec::new(), Vec::new());
            while steps.last() != Some(&Wrote::End) {
                steps.push(list.step(&mut out));
            }
            assert!(inflated(&out) == whole(encoder, &meta(None), &objects));
            steps.iter().filter(|step| matches!(step, Wrote::Compressed(_))).count()
        };
        assert_eq!(steps(&encoder()), 20 * 4);
        assert!(steps(&Arc::new(Encoder::metadata_only(MetaVersion::V1, &Storage::test_config_maps()))) < 10);
    }

    #[test]
    fn a_head_may_be_longer_than_a_stored_block() {
        let token = "t".repeat(200_000);
        let (encoder, meta, objects) = (encoder(), meta(Some(&token)), [object("a", 1, 10)]);
        let list = gzip(&encoder, &meta, &objects, EPOCH, &Arc::new(ChunkCache::new(0)));
        assert!(inflated(&written(list).0) == whole(&encoder, &meta, &objects));
    }
}
