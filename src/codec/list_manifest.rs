//! Manifests of whole lists: the keys of a list's chunks, so that the next list of the same objects is put together without a look at any of them.
//!
//! A manifest holds no chunk. Its key is made of what the list is of: the encoder, the epoch and the revision of the cache,
//! the prefix of the keys, the filter. So it is never wrong, as a chunk is never wrong; after the next change another one replaces it.

use std::{sync::Arc, vec::IntoIter};

use flate2::Crc;

use super::chunk_cache::{CacheKey, Chunk};
use model::Revision;

/// Bytes of a list whose manifest is cached, at least. Shorter ones are put together quickly.
pub const BYTES_MIN: usize = 256 << 10;
/// Chunks of a list whose manifest is cached, at most: they are looked up under one lock, which takes a millisecond.
const CHUNKS_MAX: usize = 16 << 10;

/// The key of a list's manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListKey {
    /// All but the revision: of each list the newest manifest is cached.
    pub(super) list: CacheKey,
    pub(super) revision: Revision,
}

/// The keys of a list's chunks, in order.
#[derive(Debug, Default)]
pub(super) struct ListManifest {
    revision: Revision,
    keys: Vec<CacheKey>,
    objects: usize,
    /// Of the text of all chunks, with what stands between them.
    len: usize,
    crc: Crc,
}

impl ListManifest {
    /// Adds what stands between two chunks.
    pub(super) fn push_separator(&mut self, separator: &[u8]) {
        self.len += separator.len();
        self.crc.update(separator);
    }

    /// Adds the next chunk, of so many objects; its key only if the manifest may be cached.
    pub(super) fn push(&mut self, key: Option<CacheKey>, objects: usize, chunk: &Chunk) {
        if self.keys.len() <= CHUNKS_MAX {
            self.keys.extend(key);
        }
        self.objects += objects;
        self.len += chunk.crc.amount() as usize;
        self.crc.combine(&chunk.crc);
    }

    /// Whether it should be cached, now that the list is complete.
    pub(super) fn is_worth_caching(&self) -> bool {
        self.len >= BYTES_MIN && self.keys.len() <= CHUNKS_MAX
    }

    /// Of the whole text.
    pub(super) fn crc(&self) -> &Crc {
        &self.crc
    }

    pub(super) fn keys(&self) -> &[CacheKey] {
        &self.keys
    }

    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.keys.capacity() * size_of::<CacheKey>()
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    /// The same of the list as it was at this revision.
    pub(super) fn at(mut self, revision: Revision) -> Self {
        self.keys.shrink_to_fit();
        Self { revision, ..self }
    }
}

/// A whole list from the cache: the chunks of all of its items.
#[derive(Debug)]
pub struct CachedList {
    /// Those that are not written yet. Written ones are dropped: the cache may have evicted them.
    chunks: IntoIter<Arc<Chunk>>,
    /// Bytes of their pointers, which stay until the end.
    pointers: usize,
    manifest: Arc<ListManifest>,
}

impl CachedList {
    pub(super) fn new(chunks: Vec<Arc<Chunk>>, manifest: Arc<ListManifest>) -> Self {
        let pointers = chunks.capacity() * size_of::<Arc<Chunk>>();
        Self { chunks: chunks.into_iter(), pointers, manifest }
    }

    /// How many objects the list has.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.manifest.objects
    }

    /// Bytes of all items, with what stands between them.
    pub(super) fn len(&self) -> usize {
        self.manifest.len
    }

    /// Bytes that are held for what is not written yet.
    pub(super) fn held(&self) -> usize {
        self.pointers
    }

    /// Of all items, with what stands between them.
    pub(super) fn crc(&self) -> &Crc {
        self.manifest.crc()
    }

    pub(super) fn next(&mut self) -> Option<Arc<Chunk>> {
        self.chunks.next()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Read};

    use flate2::read::GzDecoder;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        ChunkCache, Encoder, GzipList, ListMeta, Listing, MetaVersion, Wrote, chunk_cache::tests::adds_up, gzip_list::tests::object,
        listing::tests::whole,
    };
    use model::{Epoch, Filter, Object, Storage};

    const ALL: &[u8] = b"/registry/configmaps/";

    /// A cache of objects of so many bytes, and lists of it.
    struct Cache {
        epoch: Epoch,
        revision: u64,
        objects: BTreeMap<usize, Arc<Object>>,
        chunks: Arc<ChunkCache>,
        bytes: usize,
    }

    impl Cache {
        fn new(objects: usize, bytes: usize, limit: usize) -> Self {
            let mut cache =
                Self { epoch: Epoch(1), revision: 0, objects: BTreeMap::new(), chunks: Arc::new(ChunkCache::new(limit)), bytes };
            (0..objects).for_each(|nth| cache.put(nth));
            cache
        }

        fn put(&mut self, nth: usize) {
            self.revision += 1;
            self.objects.insert(nth, object(&format!("o-{nth:03}"), self.revision, self.bytes));
        }

        fn key(&self, encoder: &Encoder, prefix: &[u8], filter: &Filter) -> ListKey {
            encoder.list_key(self.epoch, Revision(self.revision), prefix, filter)
        }

        /// A list as it is answered, checked; whether it came from a manifest.
        fn list(&self, encoder: &Arc<Encoder>, meta: &ListMeta, prefix: &[u8], filter: &Filter) -> bool {
            let found = || self.objects.values().filter(|object| object.key().starts_with(prefix) && filter.matches(object));
            let (key, objects) = (self.key(encoder, prefix, filter), found().cloned().collect::<Vec<_>>());
            let run = self.chunks.list(key);
            let is_run = run.is_some();
            let mut list = match run {
                Some(run) => {
                    assert_eq!(run.objects(), objects.len());
                    GzipList::of_cached(encoder, meta, run)
                }
                None => {
                    let list = Listing::new(encoder.clone(), meta, objects.clone()).expect("objects that can be encoded");
                    GzipList::new(list, self.epoch, Some(key), self.chunks.clone())
                }
            };
            let (mut stream, mut text) = (Vec::new(), Vec::new());
            while list.step(&mut stream) != Wrote::End {}
            let mut decoder = GzDecoder::new(&stream[..]);
            decoder.read_to_end(&mut text).expect("gzip with its sums");
            assert!(decoder.into_inner().is_empty() && text == whole(encoder, meta, &objects));
            is_run
        }
    }

    fn encoders() -> [Arc<Encoder>; 3] {
        let json = Encoder::built_in("v1", "ConfigMap", "ConfigMapList", "");
        let protobuf = json.in_protobuf("v1", "ConfigMap", "ConfigMapList", true).expect("a built-in");
        [Arc::new(json), Arc::new(protobuf), Arc::new(Encoder::metadata_only(MetaVersion::V1, &Storage::test_config_maps()))]
    }

    fn meta(revision: u64) -> ListMeta {
        ListMeta { revision: Revision(revision), ..ListMeta::default() }
    }

    fn named(name: &str) -> Filter {
        Filter { name: Some(name.into()), ..Filter::default() }
    }

    /// What happens between two lists.
    #[derive(Clone, Debug)]
    enum Step {
        Put(usize),
        Gone(usize),
        /// Some write elsewhere.
        Later,
        Reset,
        Forget,
        Keep(bool),
        List(usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let list = || prop_oneof![2 => Just((0, 0)), 1 => (0_usize..3, 0_usize..4)].prop_map(|(encoder, scope)| Step::List(encoder, scope));
        prop_oneof![
            2 => (0_usize..80).prop_map(Step::Put),
            1 => (0_usize..80).prop_map(Step::Gone),
            1 => Just(Step::Later),
            1 => Just(Step::Reset),
            1 => Just(Step::Forget),
            1 => any::<bool>().prop_map(Step::Keep),
            8 => list(),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Whatever happens between two lists, and however little is kept, each is what it would have been.
        #[test]
        fn a_list_is_what_it_would_be_without_manifests(
            steps in prop::collection::vec(step(), 1..16),
            limit in prop::sample::select(vec![0, 8_000, 1 << 20, 1 << 20]),
        ) {
            let (mut cache, encoders) = (Cache::new(60, 9_000, limit), encoders());
            let scopes = [
                (ALL.to_vec(), Filter::default()),
                ([ALL, b"default/o-0"].concat(), Filter::default()),
                (ALL.to_vec(), Filter { namespace: Some("default".into()), ..Filter::default() }),
                (ALL.to_vec(), named("o-007")),
            ];
            for step in steps {
                match step {
                    Step::Put(nth) => cache.put(nth),
                    Step::Gone(nth) => {
                        cache.revision += 1;
                        cache.objects.remove(&nth);
                    }
                    Step::Later => cache.revision += 1,
                    Step::Reset => {
                        cache.epoch = cache.epoch.next();
                        let keys: Vec<_> = cache.objects.keys().copied().collect();
                        // Another etcd may give other objects the same revisions.
                        cache.revision = 0;
                        keys.into_iter().rev().for_each(|nth| cache.put(nth));
                    }
                    Step::Forget => cache.chunks.evict_unused(),
                    Step::Keep(may) => cache.chunks.set_enabled(may),
                    Step::List(encoder, scope) => {
                        let (prefix, filter) = &scopes[scope];
                        cache.list(&encoders[encoder], &meta(cache.revision + 3), prefix, filter);
                    }
                }
                adds_up(&cache.chunks);
            }
        }
    }

    #[test]
    fn an_equal_list_is_made_of_the_manifest() {
        let mut cache = Cache::new(100, 9_000, 1 << 20);
        let (all, encoders) = (Filter::default(), encoders());
        for encoder in &encoders[..2] {
            assert_eq!([1, 2, 3].map(|later| cache.list(encoder, &meta(100 + later), ALL, &all)), [false, true, true]);
        }
        let json = &encoders[0];
        assert!(!cache.list(json, &meta(1), b"/registry/", &all), "another prefix");
        assert!(!cache.list(json, &meta(1), ALL, &Filter { namespace: Some("default".into()), ..all.clone() }), "another filter");
        cache.put(50);
        assert!(!cache.list(json, &meta(1), ALL, &all), "another revision");
        assert!(cache.list(json, &meta(1), ALL, &all));
        cache.revision -= 1;
        assert_eq!([1, 2].map(|_| cache.list(json, &meta(1), ALL, &all)), [false; 2], "of an earlier revision none is kept");
        cache.revision += 1;
        assert!(cache.list(json, &meta(1), ALL, &all), "the newest stays");
        cache.epoch = cache.epoch.next();
        assert!(!cache.list(json, &meta(1), ALL, &all), "another epoch");
        // What is short is not worth it.
        assert_eq!([1, 2].map(|_| cache.list(&encoders[2], &meta(1), ALL, &all)), [false, false]);
    }

    #[test]
    fn a_manifest_goes_with_its_chunks() {
        let (cache, all, encoder) = (Cache::new(100, 9_000, 1 << 20), Filter::default(), &encoders()[0]);
        let list = || cache.list(encoder, &meta(1), ALL, &all);
        assert!(!list() && list());
        cache.chunks.evict_unused();
        assert!(list(), "it was just used");
        cache.chunks.evict_unused();
        cache.chunks.evict_unused();
        assert!(!list() && list(), "nobody asked for it");
        cache.chunks.set_enabled(false);
        assert!(!list() && !list());
        cache.chunks.set_enabled(true);
        assert!(!list() && list());
    }

    #[test]
    fn a_list_that_is_being_written_needs_no_cached_chunk() {
        let (cache, all, encoder) = (Cache::new(100, 9_000, 1 << 20), Filter::default(), &encoders()[0]);
        let (first, second) = (cache.list(encoder, &meta(1), ALL, &all), cache.chunks.list(cache.key(encoder, ALL, &all)));
        assert!(!first);
        cache.chunks.set_enabled(false);
        let (mut list, mut stream, mut text) =
            (GzipList::of_cached(encoder, &meta(1), second.expect("it was kept")), Vec::new(), Vec::new());
        assert!(list.held() > 0);
        while list.step(&mut stream) != Wrote::End {}
        GzDecoder::new(&stream[..]).read_to_end(&mut text).expect("gzip with its sums");
        let objects: Vec<_> = cache.objects.values().cloned().collect();
        assert!(text == whole(encoder, &meta(1), &objects));
    }

    #[test]
    fn very_many_chunks_make_no_manifest() {
        let chunk = || {
            let mut compressor =
                crate::chunk_cache::ChunkCompressor::new(&crate::chunk_cache::ChunkBoundary { objects: 1, key: (1, 1) }, vec![b'a'; 64]);
            while !compressor.compress_piece() {}
            ChunkCache::new(0).insert(compressor)
        };
        let (chunk, mut manifest) = (chunk(), ListManifest::default());
        for nth in 0..CHUNKS_MAX + 2 {
            assert_eq!(manifest.is_worth_caching(), (BYTES_MIN / 64..=CHUNKS_MAX).contains(&nth), "{nth}");
            manifest.push(Some((nth as u64, 0)), 1, &chunk);
        }
        assert!(!manifest.is_worth_caching() && manifest.keys().len() == CHUNKS_MAX + 1);
    }
}
