//! A cache of compressed chunks of lists, shared by all who list the same objects.
//!
//! Lists are cut by content-defined chunking. A chunk holds no object. Its key is made of what is in it: the encoder, the epoch, each object's key and
//! revision. So a chunk is never wrong, only unused; where one ends depends on the objects and, after the first few, not on where a list begins, so that pages,
//! namespaces and the next list after a change find the others again.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::{BuildHasher, Hash, Hasher, RandomState},
    mem,
    sync::Arc,
    time::Duration,
};

use flate2::{Compress, Compression, Crc, FlushCompress};
use parking_lot::Mutex;

use super::list_manifest::{CachedList, ListKey, ListManifest};
use model::{Epoch, Filter, Object, Revision};

/// A chunk has this many objects at least, and then ends with the next of about one in so many, by its uid, which never changes: fifteen as a rule, and seldom
/// more than thirty. With 16 objects of 1.5 KB a list is 4 % longer than with 64 (docs/performance.md, Forms), and a change costs a quarter. Chunks that end
/// with one of sixteen and have no least size are as long; but what changes is in a long one as a rule, of thirty.
const OBJECTS_MIN: usize = 8;
const ONE_IN: u64 = 8;
/// A chunk has this many objects at most.
const OBJECTS_MAX: usize = 64;
/// A chunk ends with the object that makes it this large, bytes before compression.
const BYTES_ENOUGH: usize = 64 << 10;
/// Compressed without letting others run, bytes: half a millisecond to one.
pub const PIECE_BYTES: usize = 64 << 10;
/// A multiplier that spreads bits: 2⁶⁴ divided by the golden ratio.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
/// How long an unused chunk stays: so long at least, twice as long at most. Clients that list again every few minutes find its chunks.
pub const UNUSED_FOR: Duration = Duration::from_secs(5 * 60);
/// The least work for most of the gain (kube-apiserver's level).
pub const LEVEL: Compression = Compression::new(1);

/// Seeds the keys of one encoder's chunks and manifests, so that they differ from all others'.
#[derive(Clone, Debug, Default)]
pub(super) struct HashSeed {
    chunks: RandomState,
    lists: RandomState,
}

/// The key of a chunk or of a manifest: two hashes, one of them keyed, so that nobody outside can aim at a collision and chance does not meet one.
pub(super) type CacheKey = (u64, u64);

/// Where the next chunk ends, and its key.
pub(super) struct ChunkBoundary {
    pub(super) objects: usize,
    pub(super) key: CacheKey,
}

impl HashSeed {
    /// Returns the end of the chunk that begins with the first of these objects, as they were in this epoch; `weight` is about how many bytes each is written
    /// with.
    pub(super) fn next_boundary(&self, epoch: Epoch, objects: &[Arc<Object>], weight: impl Fn(&Object) -> usize) -> ChunkBoundary {
        let (mut keyed, mut other) = (self.chunks.build_hasher(), epoch.0);
        keyed.write_u64(epoch.0);
        let (mut count, mut bytes) = (0, 0);
        for object in objects.iter().take(OBJECTS_MAX) {
            (object.key(), object.revision.0).hash(&mut keyed);
            other = (other.rotate_left(5) ^ object.uid_hash ^ object.revision.0).wrapping_mul(ODD);
            (count, bytes) = (count + 1, bytes + weight(object));
            let is_end = count >= OBJECTS_MIN && object.uid_hash.is_multiple_of(ONE_IN);
            if is_end || bytes >= BYTES_ENOUGH {
                break;
            }
        }
        ChunkBoundary { objects: count, key: (keyed.finish(), other) }
    }

    /// Returns the key of the list of all objects that have keys with this prefix and that the filter selects, at this revision of this epoch.
    pub(super) fn list_key(&self, epoch: Epoch, revision: Revision, prefix: &[u8], filter: &Filter) -> ListKey {
        ListKey { list: (self.lists.hash_one((epoch, prefix, filter)), epoch.0), revision }
    }
}

/// Text in deflate, from one byte boundary to another and without reference to what was before: it may stand anywhere in a stream.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) deflate: Vec<u8>,
    /// Of the text, and its length.
    pub(super) crc: Crc,
}

/// Compresses a chunk, a piece at a time.
pub(super) struct ChunkCompressor {
    key: CacheKey,
    text: Vec<u8>,
    compress: Compress,
    deflate: Vec<u8>,
}

impl ChunkCompressor {
    /// Will compress this text of these objects.
    pub(super) fn new(next_boundary: &ChunkBoundary, text: Vec<u8>) -> Self {
        let deflate = Vec::with_capacity(text.len() / 3);
        Self { key: next_boundary.key, text, compress: Compress::new(LEVEL, false), deflate }
    }

    /// Compresses the next piece of the text; whether that was the last one.
    pub(super) fn compress_piece(&mut self) -> bool {
        let taken = |compress: &Compress| usize::try_from(compress.total_in()).expect("it is in memory");
        let end = self.text.len().min(taken(&self.compress) + PIECE_BYTES);
        let is_last = end == self.text.len();
        let flush = if is_last { FlushCompress::Full } else { FlushCompress::None };
        // A flush is over when everything was taken and room is left.
        while taken(&self.compress) < end || is_last && self.deflate.len() == self.deflate.capacity() {
            self.deflate.reserve(PIECE_BYTES / 8 + 64);
            let rest = &self.text[taken(&self.compress)..end];
            self.compress.compress_vec(rest, &mut self.deflate, flush).expect("any text can be compressed");
        }
        is_last
    }

    /// Bytes of the text and of what is compressed.
    pub(super) fn held(&self) -> usize {
        self.text.capacity() + self.deflate.capacity()
    }

    fn chunk(mut self) -> Chunk {
        let mut crc = Crc::new();
        crc.update(&self.text);
        self.deflate.shrink_to_fit();
        Chunk { deflate: self.deflate, crc }
    }
}

/// A value of the cache.
#[derive(Debug)]
enum Cached {
    Chunk(Arc<Chunk>),
    CachedList(Arc<ListManifest>),
}

impl Cached {
    fn weight(&self) -> usize {
        let own = match self {
            Self::Chunk(chunk) => size_of::<Chunk>() + chunk.deflate.len(),
            Self::CachedList(manifest) => manifest.weight(),
        };
        own + 2 * size_of::<(CacheKey, Slot)>()
    }

    /// Whether the other one replaces it: chunks of one key are equal, manifests of one key are of different revisions.
    fn is_superseded_by(&self, other: &Self) -> bool {
        matches!((self, other), (Self::CachedList(older), Self::CachedList(newer)) if older.revision() < newer.revision())
    }
}

/// A cache of chunks and manifests, bounded by bytes.
#[derive(Debug)]
pub struct ChunkCache {
    /// Bytes of all entries, at most.
    bytes_max: usize,
    clock: Mutex<ClockCache>,
}

/// A CLOCK cache: entries that were referenced since the hand passed are skipped once, the others are evicted when room is needed.
#[derive(Debug, Default)]
struct ClockCache {
    slots: HashMap<CacheKey, Slot>,
    /// From the one under the hand.
    order: VecDeque<CacheKey>,
    /// Of all entries.
    bytes: usize,
    /// The limit that is in force now.
    limit: usize,
}

/// An entry.
#[derive(Debug)]
struct Slot {
    cached: Cached,
    /// Since the hand last passed.
    referenced: bool,
    /// Found or inserted since [`ChunkCache::evict_unused`].
    used: bool,
}

impl ChunkCache {
    /// Makes a cache of so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, clock: Mutex::new(ClockCache { limit: bytes_max, ..ClockCache::default() }) }
    }

    /// Returns the bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.clock.lock().bytes
    }

    /// Switches the cache on, or off and empties it.
    pub fn set_enabled(&self, may: bool) {
        let mut clock = self.clock.lock();
        let limit = if may { self.bytes_max } else { 0 };
        if clock.limit != limit {
            *clock = ClockCache { limit, ..ClockCache::default() };
        }
    }

    /// Evicts the entries that were not used since the last call: those of objects that have changed are never asked for again.
    pub fn evict_unused(&self) {
        let mut clock = self.clock.lock();
        let ClockCache { slots, order, bytes, .. } = &mut *clock;
        slots.retain(|_, slot| {
            let stays = mem::take(&mut slot.used);
            if !stays {
                *bytes -= slot.cached.weight();
            }
            stays
        });
        order.retain(|key| slots.contains_key(key));
    }

    /// Returns the chunk, if it is cached.
    pub(super) fn find(&self, next_boundary: &ChunkBoundary) -> Option<Arc<Chunk>> {
        self.clock.lock().chunk(next_boundary.key)
    }

    /// Returns the chunks of a whole list, if all of them are cached.
    #[must_use]
    pub fn list(&self, key: ListKey) -> Option<CachedList> {
        let mut clock = self.clock.lock();
        let Cached::CachedList(manifest) = clock.find(key.list)? else { return None };
        let manifest = manifest.clone();
        if manifest.revision() != key.revision {
            return None;
        }
        let chunks = manifest.keys().iter().map(|key| clock.chunk(*key)).collect::<Option<_>>()?;
        Some(CachedList::new(chunks, manifest))
    }

    /// Inserts a compressed chunk. Two who list at the same time may both compress it; the first one stays.
    pub(super) fn insert(&self, made: ChunkCompressor) -> Arc<Chunk> {
        let (key, chunk) = (made.key, Arc::new(made.chunk()));
        self.clock.lock().insert(key, Cached::Chunk(chunk.clone()));
        chunk
    }

    /// Inserts a list's manifest, in place of that of an earlier revision.
    pub(super) fn insert_manifest(&self, key: ListKey, manifest: ListManifest) {
        self.clock.lock().insert(key.list, Cached::CachedList(Arc::new(manifest)));
    }
}

impl ClockCache {
    fn find(&mut self, key: CacheKey) -> Option<&Cached> {
        let slot = self.slots.get_mut(&key)?;
        (slot.referenced, slot.used) = (true, true);
        Some(&slot.cached)
    }

    fn chunk(&mut self, key: CacheKey) -> Option<Arc<Chunk>> {
        match self.find(key)? {
            Cached::Chunk(chunk) => Some(chunk.clone()),
            Cached::CachedList(_) => None,
        }
    }

    fn insert(&mut self, key: CacheKey, cached: Cached) {
        let weight = cached.weight();
        if weight > self.limit || self.slots.get(&key).is_some_and(|slot| !slot.cached.is_superseded_by(&cached)) {
            return;
        }
        while self.bytes + weight > self.limit
            && let Some(next) = self.order.pop_front()
        {
            match self.slots.entry(next) {
                Entry::Occupied(mut found) if found.get().referenced => {
                    found.get_mut().referenced = false;
                    self.order.push_back(next);
                }
                Entry::Occupied(unused) => self.bytes -= unused.remove().cached.weight(),
                Entry::Vacant(_) => {}
            }
        }
        self.bytes += weight;
        match self.slots.entry(key) {
            Entry::Occupied(mut older) => self.bytes -= mem::replace(&mut older.get_mut().cached, cached).weight(),
            Entry::Vacant(place) => {
                self.order.push_back(key);
                place.insert(Slot { cached, referenced: false, used: true });
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Read;

    use flate2::read::DeflateDecoder;
    use proptest::{prelude::*, sample::Index};

    use super::*;
    use crate::gzip_list::tests::object;

    /// What is counted is there, and no more than may be.
    pub(crate) fn adds_up(chunks: &ChunkCache) {
        let clock = chunks.clock.lock();
        let bytes: usize = clock.slots.values().map(|slot| slot.cached.weight()).sum();
        assert!(bytes == clock.bytes && bytes <= clock.limit && clock.limit <= chunks.bytes_max, "{bytes}");
        assert!(clock.order.len() == clock.slots.len() && clock.order.iter().all(|key| clock.slots.contains_key(key)));
    }

    fn next_boundary(at: u64) -> ChunkBoundary {
        ChunkBoundary { objects: 1, key: (at, at) }
    }

    fn made(at: u64, text: &[u8]) -> ChunkCompressor {
        let mut compressor = ChunkCompressor::new(&next_boundary(at), text.to_vec());
        while !compressor.compress_piece() {}
        compressor
    }

    fn chunk_of(text: &[u8]) -> Chunk {
        made(0, text).chunk()
    }

    /// What a stream of these chunks, and an end, inflates to.
    fn inflated(chunks: &[&Chunk]) -> Vec<u8> {
        let mut stream = chunks.iter().map(|chunk| &chunk.deflate[..]).collect::<Vec<_>>().concat();
        stream.extend_from_slice(&[3, 0]);
        let mut text = Vec::new();
        DeflateDecoder::new(&stream[..]).read_to_end(&mut text).expect("deflate");
        text
    }

    proptest! {
        #[test]
        fn chunks_may_stand_anywhere(texts in prop::collection::vec(prop_oneof!["[a-f]{0,4000}", ".{0,600}"], 1..6), order: Vec<Index>) {
            let chunks: Vec<_> = texts.iter().map(|text| chunk_of(text.as_bytes())).collect();
            let order: Vec<usize> = order.iter().map(|index| index.index(texts.len())).collect();
            let text: String = order.iter().map(|at| &texts[*at][..]).collect();
            prop_assert_eq!(inflated(&order.iter().map(|at| &chunks[*at]).collect::<Vec<_>>()), text.as_bytes());
            let mut crc = Crc::new();
            order.iter().for_each(|at| crc.combine(&chunks[*at].crc));
            let mut whole = Crc::new();
            whole.update(text.as_bytes());
            prop_assert_eq!((crc.sum(), crc.amount()), (whole.sum(), whole.amount()));
        }
    }

    /// Noise does not become smaller: there must be room for it all the same.
    #[test]
    fn what_cannot_be_compressed_is_kept_as_it_is() {
        let mut state = 1_u64;
        for length in [0, 1, 63, 64, 65_535, 300_001] {
            let noise: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 56) as u8
                })
                .collect();
            assert!(inflated(&[&chunk_of(&noise)]) == noise, "{length}");
        }
    }

    #[test]
    fn a_key_tells_encoders_epochs_objects_and_revisions_apart() {
        let (hash_seed, other) = (HashSeed::default(), HashSeed::default());
        let list = |keys: &[(&str, u64)]| keys.iter().map(|(name, revision)| object(name, *revision, 10)).collect::<Vec<_>>();
        let name = |hash_seed: &HashSeed, epoch, keys: &[(&str, u64)]| {
            let next_boundary = hash_seed.next_boundary(Epoch(epoch), &list(keys), |_| 1);
            assert_eq!(next_boundary.objects, keys.len());
            next_boundary.key
        };
        let keys = [
            name(&hash_seed, 1, &[("a", 1), ("b", 2)]),
            name(&other, 1, &[("a", 1), ("b", 2)]),
            name(&hash_seed, 2, &[("a", 1), ("b", 2)]),
            name(&hash_seed, 1, &[("a", 1), ("b", 3)]),
            name(&hash_seed, 1, &[("a", 1), ("c", 2)]),
            name(&hash_seed, 1, &[("a", 1)]),
            name(&hash_seed, 1, &[("ab", 2)]),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(one), "{at}");
        }
        assert_eq!(name(&hash_seed.clone(), 1, &[("a", 1), ("b", 2)]), keys[0], "of the same form");
    }

    /// Objects after which two lists that begin at different ones have met.
    const SOON: usize = 150;

    #[test]
    fn chunks_soon_end_at_the_same_objects_wherever_a_list_begins() {
        let hash_seed = HashSeed::default();
        let all: Vec<_> = (0..2_000).map(|at| object(&format!("o-{at:04}"), at, 10)).collect();
        let ends = |from: usize| {
            let (mut at, mut ends) = (from, Vec::new());
            while at < all.len() {
                at += hash_seed.next_boundary(Epoch(1), &all[at..], |_| 1).objects;
                ends.push(at);
            }
            ends
        };
        let whole = ends(0);
        assert!((60..240).contains(&whole.len()), "{whole:?}");
        for from in [1, 2, 3, 500, 777, 1_500, 1_999] {
            let common: Vec<_> = whole.iter().copied().filter(|end| *end > from + SOON).collect();
            assert!(ends(from).ends_with(&common), "{from}");
        }
        // The objects in the chunk of one that has changed, on average: those of large chunks change more often.
        let lengths = [0].iter().chain(&whole).zip(&whole).map(|(start, end)| end - start);
        let (objects, squares) = lengths.fold((0, 0), |(sum, squares), length| (sum + length, squares + length * length));
        assert!((10..25).contains(&(squares / objects)), "{} objects are in the chunk of one that has changed", squares / objects);
        // Large objects end a chunk earlier, and none has more than the most.
        let large: Vec<_> = (0..50).map(|at| object(&format!("l-{at}"), at, BYTES_ENOUGH / 4)).collect();
        assert!(hash_seed.next_boundary(Epoch(1), &large, |object| object.tail_len()).objects <= 4);
        let same: Vec<_> = (0..1_000).map(|_| all[0].clone()).collect();
        assert!([1, OBJECTS_MAX].contains(&hash_seed.next_boundary(Epoch(1), &same, |_| 1).objects));
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_was_used_last_stays() {
        let chunks = ChunkCache::new(100_000);
        let noise = |at: u64| (0..999_u64).map(|byte| (at.wrapping_mul(31).wrapping_add(byte * byte * 7) >> 3) as u8).collect::<Vec<_>>();
        let find = |chunks: &ChunkCache, at: u64| {
            let found = chunks.find(&next_boundary(at));
            (found.is_some(), found.unwrap_or_else(|| chunks.insert(made(at, &noise(at)))))
        };
        for at in 0..5_000 {
            find(&chunks, at);
            let (is_kept, first) = find(&chunks, 0);
            assert!(is_kept, "{at}: it was just used");
            assert_eq!(inflated(&[&first]), noise(0));
            adds_up(&chunks);
        }
        assert!(find(&chunks, 4_999).0 && !find(&chunks, 5).0);
        // A list that takes most of the room is found again as often as it is asked for.
        let list = ChunkCache::new(100_000);
        let fits = 100_000 / Cached::Chunk(Arc::new(made(0, &noise(0)).chunk())).weight() as u64 * 9 / 10;
        let hits = |_| (0..fits).filter(|at| find(&list, *at).0).count() as u64;
        assert_eq!([0, 1, 2].map(hits), [0, fits, fits]);
        let none = ChunkCache::new(0);
        assert!(!find(&none, 1).0 && !find(&none, 1).0);
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let chunks = ChunkCache::new(100_000);
        let is_kept = |at: u64| chunks.find(&next_boundary(at)).is_some();
        for at in 0..3 {
            chunks.insert(made(at, b"text"));
        }
        chunks.evict_unused();
        assert!(is_kept(0) && is_kept(2), "they were just made");
        chunks.evict_unused();
        assert!(is_kept(0) && !is_kept(1), "nobody asked for the second one");
        chunks.evict_unused();
        chunks.evict_unused();
        let clock = chunks.clock.lock();
        assert_eq!((clock.slots.len(), clock.order.len(), clock.bytes), (0, 0, 0));
    }
}
