//! Stretches of a list, compressed once and shared by all who list the same objects.
//!
//! A block holds no object. It has a name made of what is in it: the form that wrote it, the epoch, each object's key and revision. So a block is never
//! wrong, only unused; where one ends depends on the objects and, after the first few, not on where a list begins, so that pages, namespaces and the next list
//! after a change find the others again.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::{BuildHasher, Hash, Hasher, RandomState},
    mem,
    sync::Arc,
    time::Duration,
};

use flate2::{Compress, Compression, Crc, FlushCompress};
use parking_lot::Mutex;

use super::run::{Run, RunName, Track};
use model::{Epoch, Filter, Object, Revision};

/// A block has this many objects at least, and then ends with the next of about one in so many, by its uid, which never changes: fifteen as a rule, and seldom
/// more than thirty. With 16 objects of 1.5 KB a list is 4 % longer than with 64 (docs/performance.md, Forms), and a change costs a quarter. Blocks that end with
/// one of sixteen and have no least size are as long; but what changes is in a long one as a rule, of thirty.
const LEAST_OBJECTS: usize = 8;
const ONE_IN: u64 = 8;
/// A block has this many objects at most.
const MOST_OBJECTS: usize = 64;
/// A block ends with the object that makes it this large, bytes before compression.
const ENOUGH_BYTES: usize = 64 << 10;
/// Compressed without letting others run, bytes: half a millisecond to one.
pub const PIECE_BYTES: usize = 64 << 10;
/// A multiplier that spreads bits: 2⁶⁴ divided by the golden ratio.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
/// How long a block is kept that nobody asks for: so long at least, twice as long at most. What lists again every few minutes finds its blocks.
pub const UNUSED_FOR: Duration = Duration::from_secs(5 * 60);
/// The least work for most of the gain (kube-apiserver's level).
pub const LEVEL: Compression = Compression::new(1);

/// What tells the blocks and the runs of one form from those of all others.
#[derive(Clone, Debug, Default)]
pub(super) struct Salt {
    blocks: RandomState,
    runs: RandomState,
}

/// The name of a block or of a run: a keyed hash that nobody outside can aim at, and one of other things that chance does not meet together with it.
pub(super) type Name = (u64, u64);

/// The objects of the next block.
pub(super) struct Stretch {
    pub(super) objects: usize,
    pub(super) name: Name,
}

impl Salt {
    /// The block that begins a list of these objects, as they were in this epoch; `weight` is about how many bytes each is written with.
    pub(super) fn stretch(&self, epoch: Epoch, objects: &[Arc<Object>], weight: impl Fn(&Object) -> usize) -> Stretch {
        let (mut keyed, mut other) = (self.blocks.build_hasher(), epoch.0);
        keyed.write_u64(epoch.0);
        let (mut count, mut bytes) = (0, 0);
        for object in objects.iter().take(MOST_OBJECTS) {
            (object.key(), object.revision.0).hash(&mut keyed);
            other = (other.rotate_left(5) ^ object.uid_hash ^ object.revision.0).wrapping_mul(ODD);
            (count, bytes) = (count + 1, bytes + weight(object));
            let is_end = count >= LEAST_OBJECTS && object.uid_hash.is_multiple_of(ONE_IN);
            if is_end || bytes >= ENOUGH_BYTES {
                break;
            }
        }
        Stretch { objects: count, name: (keyed.finish(), other) }
    }

    /// All objects that have keys with this prefix and that the filter selects, as they were at this revision of this epoch.
    pub(super) fn run(&self, epoch: Epoch, revision: Revision, prefix: &[u8], filter: &Filter) -> RunName {
        RunName { list: (self.runs.hash_one((epoch, prefix, filter)), epoch.0), revision }
    }
}

/// Text in deflate, from one byte boundary to another and without reference to what was before: it may stand anywhere in a stream.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) deflate: Vec<u8>,
    /// Of the text, and its length.
    pub(super) crc: Crc,
}

/// A block that is being made.
pub(super) struct Making {
    name: Name,
    text: Vec<u8>,
    compress: Compress,
    deflate: Vec<u8>,
}

impl Making {
    /// The block of these objects, whose text this is; nothing is done yet.
    pub(super) fn new(stretch: &Stretch, text: Vec<u8>) -> Self {
        let deflate = Vec::with_capacity(text.len() / 3);
        Self { name: stretch.name, text, compress: Compress::new(LEVEL, false), deflate }
    }

    /// Compresses a piece of the text; whether that was the last one.
    pub(super) fn piece(&mut self) -> bool {
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

    /// Bytes of what it is made of, and of what there is.
    pub(super) fn held(&self) -> usize {
        self.text.capacity() + self.deflate.capacity()
    }

    fn block(mut self) -> Block {
        let mut crc = Crc::new();
        crc.update(&self.text);
        self.deflate.shrink_to_fit();
        Block { deflate: self.deflate, crc }
    }
}

/// What has a name.
#[derive(Debug)]
enum What {
    Block(Arc<Block>),
    Run(Arc<Track>),
}

impl What {
    fn weight(&self) -> usize {
        let own = match self {
            Self::Block(block) => size_of::<Block>() + block.deflate.len(),
            Self::Run(track) => track.weight(),
        };
        own + 2 * size_of::<(Name, Shared)>()
    }

    /// Whether the other one takes its place: blocks of one name are the same, runs of one name are of different revisions.
    fn gives_way_to(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Run(older), Self::Run(newer)) if older.revision() < newer.revision())
    }
}

/// The blocks that were used last, and the runs.
#[derive(Debug)]
pub struct Blocks {
    /// Bytes that all together may have.
    bytes_max: usize,
    kept: Mutex<Kept>,
}

/// A clock: those that were found since they came last are passed over once, the others go when room is needed.
#[derive(Debug, Default)]
struct Kept {
    named: HashMap<Name, Shared>,
    /// From the one that is looked at next.
    order: VecDeque<Name>,
    /// Of all that is kept.
    bytes: usize,
    /// That all may have now.
    limit: usize,
}

/// A block or a run that is kept.
#[derive(Debug)]
struct Shared {
    what: What,
    /// Since it last came to the front of the order.
    was_found: bool,
    /// Found or made since [`Blocks::forget_unused`].
    was_used: bool,
}

impl Blocks {
    /// Keeps blocks of so many bytes together.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: Mutex::new(Kept { limit: bytes_max, ..Kept::default() }) }
    }

    /// From now on keeps as much as it may, or nothing.
    pub fn may_keep(&self, may: bool) {
        let mut kept = self.kept.lock();
        let limit = if may { self.bytes_max } else { 0 };
        if kept.limit != limit {
            *kept = Kept { limit, ..Kept::default() };
        }
    }

    /// Drops the blocks that nobody asked for since this was called last: those of objects that have changed are never asked for again.
    pub fn forget_unused(&self) {
        let mut kept = self.kept.lock();
        let Kept { named, order, bytes, .. } = &mut *kept;
        named.retain(|_, shared| {
            let stays = mem::take(&mut shared.was_used);
            if !stays {
                *bytes -= shared.what.weight();
            }
            stays
        });
        order.retain(|name| named.contains_key(name));
    }

    /// The block of these objects, if it is kept.
    pub(super) fn find(&self, stretch: &Stretch) -> Option<Arc<Block>> {
        self.kept.lock().block(stretch.name)
    }

    /// The blocks of a whole list, if all of them are kept.
    #[must_use]
    pub fn run(&self, name: RunName) -> Option<Run> {
        let mut kept = self.kept.lock();
        let What::Run(track) = kept.find(name.list)? else { return None };
        let track = track.clone();
        if track.revision() != name.revision {
            return None;
        }
        let blocks = track.names().iter().map(|name| kept.block(*name)).collect::<Option<_>>()?;
        Some(Run::new(blocks, track))
    }

    /// Keeps a block that is made. Two who list at the same time may both make it; the first one stays.
    pub(super) fn keep(&self, made: Making) -> Arc<Block> {
        let (name, block) = (made.name, Arc::new(made.block()));
        self.kept.lock().insert(name, What::Block(block.clone()));
        block
    }

    /// Keeps the names of the blocks of a whole list, in the place of those that it had at an earlier revision.
    pub(super) fn keep_run(&self, name: RunName, track: Track) {
        self.kept.lock().insert(name.list, What::Run(Arc::new(track)));
    }
}

impl Kept {
    fn find(&mut self, name: Name) -> Option<&What> {
        let shared = self.named.get_mut(&name)?;
        (shared.was_found, shared.was_used) = (true, true);
        Some(&shared.what)
    }

    fn block(&mut self, name: Name) -> Option<Arc<Block>> {
        match self.find(name)? {
            What::Block(block) => Some(block.clone()),
            What::Run(_) => None,
        }
    }

    fn insert(&mut self, name: Name, what: What) {
        let weight = what.weight();
        if weight > self.limit || self.named.get(&name).is_some_and(|shared| !shared.what.gives_way_to(&what)) {
            return;
        }
        while self.bytes + weight > self.limit
            && let Some(next) = self.order.pop_front()
        {
            match self.named.entry(next) {
                Entry::Occupied(mut found) if found.get().was_found => {
                    found.get_mut().was_found = false;
                    self.order.push_back(next);
                }
                Entry::Occupied(unused) => self.bytes -= unused.remove().what.weight(),
                Entry::Vacant(_) => {}
            }
        }
        self.bytes += weight;
        match self.named.entry(name) {
            Entry::Occupied(mut older) => self.bytes -= mem::replace(&mut older.get_mut().what, what).weight(),
            Entry::Vacant(place) => {
                self.order.push_back(name);
                place.insert(Shared { what, was_found: false, was_used: true });
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
    pub(crate) fn adds_up(blocks: &Blocks) {
        let kept = blocks.kept.lock();
        let bytes: usize = kept.named.values().map(|shared| shared.what.weight()).sum();
        assert!(bytes == kept.bytes && bytes <= kept.limit && kept.limit <= blocks.bytes_max, "{bytes}");
        assert!(kept.order.len() == kept.named.len() && kept.order.iter().all(|name| kept.named.contains_key(name)));
    }

    fn stretch(at: u64) -> Stretch {
        Stretch { objects: 1, name: (at, at) }
    }

    fn made(at: u64, text: &[u8]) -> Making {
        let mut making = Making::new(&stretch(at), text.to_vec());
        while !making.piece() {}
        making
    }

    fn block_of(text: &[u8]) -> Block {
        made(0, text).block()
    }

    /// What a stream of these blocks, and an end, stands for.
    fn inflated(blocks: &[&Block]) -> Vec<u8> {
        let mut stream = blocks.iter().map(|block| &block.deflate[..]).collect::<Vec<_>>().concat();
        stream.extend_from_slice(&[3, 0]);
        let mut text = Vec::new();
        DeflateDecoder::new(&stream[..]).read_to_end(&mut text).expect("deflate");
        text
    }

    proptest! {
        #[test]
        fn blocks_may_stand_anywhere(texts in prop::collection::vec(prop_oneof!["[a-f]{0,4000}", ".{0,600}"], 1..6), order: Vec<Index>) {
            let blocks: Vec<_> = texts.iter().map(|text| block_of(text.as_bytes())).collect();
            let order: Vec<usize> = order.iter().map(|index| index.index(texts.len())).collect();
            let text: String = order.iter().map(|at| &texts[*at][..]).collect();
            prop_assert_eq!(inflated(&order.iter().map(|at| &blocks[*at]).collect::<Vec<_>>()), text.as_bytes());
            let mut crc = Crc::new();
            order.iter().for_each(|at| crc.combine(&blocks[*at].crc));
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
            assert!(inflated(&[&block_of(&noise)]) == noise, "{length}");
        }
    }

    #[test]
    fn a_name_tells_forms_epochs_keys_and_revisions_apart() {
        let (salt, other) = (Salt::default(), Salt::default());
        let list = |names: &[(&str, u64)]| names.iter().map(|(name, revision)| object(name, *revision, 10)).collect::<Vec<_>>();
        let name = |salt: &Salt, epoch, names: &[(&str, u64)]| {
            let stretch = salt.stretch(Epoch(epoch), &list(names), |_| 1);
            assert_eq!(stretch.objects, names.len());
            stretch.name
        };
        let names = [
            name(&salt, 1, &[("a", 1), ("b", 2)]),
            name(&other, 1, &[("a", 1), ("b", 2)]),
            name(&salt, 2, &[("a", 1), ("b", 2)]),
            name(&salt, 1, &[("a", 1), ("b", 3)]),
            name(&salt, 1, &[("a", 1), ("c", 2)]),
            name(&salt, 1, &[("a", 1)]),
            name(&salt, 1, &[("ab", 2)]),
        ];
        for (at, one) in names.iter().enumerate() {
            assert!(!names[..at].contains(one), "{at}");
        }
        assert_eq!(name(&salt.clone(), 1, &[("a", 1), ("b", 2)]), names[0], "of the same form");
    }

    /// Objects after which two lists that begin at different ones have met.
    const SOON: usize = 150;

    #[test]
    fn blocks_soon_end_at_the_same_objects_wherever_a_list_begins() {
        let salt = Salt::default();
        let all: Vec<_> = (0..2_000).map(|at| object(&format!("o-{at:04}"), at, 10)).collect();
        let ends = |from: usize| {
            let (mut at, mut ends) = (from, Vec::new());
            while at < all.len() {
                at += salt.stretch(Epoch(1), &all[at..], |_| 1).objects;
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
        // The objects in the block of one that has changed, on average: those of large blocks change more often.
        let lengths = [0].iter().chain(&whole).zip(&whole).map(|(start, end)| end - start);
        let (objects, squares) = lengths.fold((0, 0), |(sum, squares), length| (sum + length, squares + length * length));
        assert!((10..25).contains(&(squares / objects)), "{} objects are in the block of one that has changed", squares / objects);
        // Large objects end a block earlier, and none has more than the most.
        let large: Vec<_> = (0..50).map(|at| object(&format!("l-{at}"), at, ENOUGH_BYTES / 4)).collect();
        assert!(salt.stretch(Epoch(1), &large, |object| object.tail().len()).objects <= 4);
        let same: Vec<_> = (0..1_000).map(|_| all[0].clone()).collect();
        assert!([1, MOST_OBJECTS].contains(&salt.stretch(Epoch(1), &same, |_| 1).objects));
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_was_used_last_stays() {
        let blocks = Blocks::new(100_000);
        let noise = |at: u64| (0..999_u64).map(|byte| (at.wrapping_mul(31).wrapping_add(byte * byte * 7) >> 3) as u8).collect::<Vec<_>>();
        let find = |blocks: &Blocks, at: u64| {
            let found = blocks.find(&stretch(at));
            (found.is_some(), found.unwrap_or_else(|| blocks.keep(made(at, &noise(at)))))
        };
        for at in 0..5_000 {
            find(&blocks, at);
            let (is_kept, first) = find(&blocks, 0);
            assert!(is_kept, "{at}: it was just used");
            assert_eq!(inflated(&[&first]), noise(0));
            adds_up(&blocks);
        }
        assert!(find(&blocks, 4_999).0 && !find(&blocks, 5).0);
        // A list that takes most of the room is found again as often as it is asked for.
        let list = Blocks::new(100_000);
        let fits = 100_000 / What::Block(Arc::new(made(0, &noise(0)).block())).weight() as u64 * 9 / 10;
        let hits = |_| (0..fits).filter(|at| find(&list, *at).0).count() as u64;
        assert_eq!([0, 1, 2].map(hits), [0, fits, fits]);
        let none = Blocks::new(0);
        assert!(!find(&none, 1).0 && !find(&none, 1).0);
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let blocks = Blocks::new(100_000);
        let is_kept = |at: u64| blocks.find(&stretch(at)).is_some();
        for at in 0..3 {
            blocks.keep(made(at, b"text"));
        }
        blocks.forget_unused();
        assert!(is_kept(0) && is_kept(2), "they were just made");
        blocks.forget_unused();
        assert!(is_kept(0) && !is_kept(1), "nobody asked for the second one");
        blocks.forget_unused();
        blocks.forget_unused();
        let kept = blocks.kept.lock();
        assert_eq!((kept.named.len(), kept.order.len(), kept.bytes), (0, 0, 0));
    }
}
