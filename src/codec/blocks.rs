//! Stretches of a list, compressed once and shared by all who list the same objects (design §3, "Compressed blocks"). Knows no form and no request.
//!
//! A block holds no object. It has a name made of what is in it: the form that wrote it, the epoch, each object's key and revision. So a block is never
//! wrong, only unused; where one ends depends on the objects alone, so that pages, namespaces and the next list after a change find the others again.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use flate2::{Compress, Compression, Crc, FlushCompress};

use crate::model::{Epoch, Object};

/// A block ends after about one object of this many, whichever is listed: by its uid, which never changes. A power of two. With 16 objects of 1.5 KB a list is
/// 4 % longer than with 64 (docs/performance.md, Forms), and a change costs a quarter.
const ONE_IN: u64 = 16;
/// A block has this many objects at most.
const MOST_OBJECTS: usize = 64;
/// A block ends with the object that makes it this large, bytes before compression: about half a millisecond of work.
const ENOUGH_BYTES: usize = 64 << 10;
/// A multiplier that spreads bits: 2⁶⁴ divided by the golden ratio.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
/// The least work for most of the gain (kube-apiserver's level).
const LEVEL: Compression = Compression::new(1);

/// What tells the blocks of one form from those of all others.
#[derive(Clone, Debug, Default)]
pub(super) struct Salt(RandomState);

/// The name of a block: a keyed hash that nobody outside can aim at, and one of other things that chance does not meet together with it.
type Name = (u64, u64);

/// The objects of the next block.
pub(super) struct Stretch {
    pub(super) objects: usize,
    name: Name,
}

impl Salt {
    /// The block that begins a list of these objects, as they were in this epoch.
    pub(super) fn stretch(&self, epoch: Epoch, objects: &[Arc<Object>]) -> Stretch {
        let (mut keyed, mut other) = (self.0.build_hasher(), epoch.0);
        keyed.write_u64(epoch.0);
        let (mut count, mut bytes) = (0, 0);
        for object in objects.iter().take(MOST_OBJECTS) {
            (&object.key, object.revision.0).hash(&mut keyed);
            other = (other.rotate_left(5) ^ object.uid_hash ^ object.revision.0).wrapping_mul(ODD);
            (count, bytes) = (count + 1, bytes + object.tail.len());
            if object.uid_hash % ONE_IN == 0 || bytes >= ENOUGH_BYTES {
                break;
            }
        }
        Stretch { objects: count, name: (keyed.finish(), other) }
    }
}

/// Text in deflate, from one byte boundary to another and without reference to what was before: it may stand anywhere in a stream.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) deflate: Vec<u8>,
    /// Of the text, and its length.
    pub(super) crc: Crc,
}

impl Block {
    fn of(text: &[u8]) -> Self {
        let mut crc = Crc::new();
        crc.update(text);
        let mut deflate = Vec::with_capacity(text.len() / 3);
        let mut compress = Compress::new(LEVEL, false);
        let mut taken = 0;
        // All is flushed when everything was taken and room is left.
        while taken < text.len() || deflate.len() == deflate.capacity() {
            deflate.reserve(text.len() / 8 + 64);
            compress.compress_vec(&text[taken..], &mut deflate, FlushCompress::Full).expect("any text can be compressed");
            taken = usize::try_from(compress.total_in()).expect("it is in memory");
        }
        deflate.shrink_to_fit();
        Self { deflate, crc }
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + size_of::<(Name, Arc<Self>)>() + self.deflate.len()
    }
}

/// The blocks that were used last.
#[derive(Debug)]
pub struct Blocks {
    /// Bytes of all that is kept.
    limit: usize,
    kept: Mutex<Kept>,
}

/// Two generations: what is found among the old is young again, and the old go when the young fill half of the room.
#[derive(Debug, Default)]
struct Kept {
    young: HashMap<Name, Arc<Block>>,
    old: HashMap<Name, Arc<Block>>,
    /// Bytes of the young.
    bytes: usize,
}

impl Blocks {
    /// Keeps blocks of so many bytes together.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, kept: Mutex::default() }
    }

    /// The block of these objects, kept or made of their text; whether it was kept.
    pub(super) fn find(&self, stretch: &Stretch, text: impl FnOnce() -> Vec<u8>) -> (Arc<Block>, bool) {
        if let Some(block) = self.kept(stretch.name) {
            return (block, true);
        }
        // Two who list at the same time may both make it; one of the two is kept.
        let block = Arc::new(Block::of(&text()));
        self.keep(stretch.name, block.clone());
        (block, false)
    }

    fn kept(&self, name: Name) -> Option<Arc<Block>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = kept.young.get(&name) {
            return Some(block.clone());
        }
        let block = kept.old.remove(&name)?;
        kept.insert(name, block.clone(), self.limit);
        Some(block)
    }

    fn keep(&self, name: Name, block: Arc<Block>) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(name, block, self.limit);
    }
}

impl Kept {
    fn insert(&mut self, name: Name, block: Arc<Block>, limit: usize) {
        let weight = block.weight();
        if self.bytes + weight > limit / 2 {
            self.old = mem::take(&mut self.young);
            self.bytes = 0;
        }
        if weight <= limit / 2 && self.young.insert(name, block).is_none() {
            self.bytes += weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::DeflateDecoder;
    use proptest::{prelude::*, sample::Index};

    use super::*;
    use crate::codec::gzip_list::tests::object;

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
            let blocks: Vec<_> = texts.iter().map(|text| Block::of(text.as_bytes())).collect();
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
            assert!(inflated(&[&Block::of(&noise)]) == noise, "{length}");
        }
    }

    #[test]
    fn a_name_tells_forms_epochs_keys_and_revisions_apart() {
        let (salt, other) = (Salt::default(), Salt::default());
        let list = |names: &[(&str, u64)]| names.iter().map(|(name, revision)| object(name, *revision, 10)).collect::<Vec<_>>();
        let name = |salt: &Salt, epoch, names: &[(&str, u64)]| {
            let stretch = salt.stretch(Epoch(epoch), &list(names));
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

    #[test]
    fn blocks_end_at_the_same_objects_wherever_a_list_begins() {
        let salt = Salt::default();
        let all: Vec<_> = (0..2_000).map(|at| object(&format!("o-{at:04}"), at, 10)).collect();
        let ends = |from: usize| {
            let (mut at, mut ends) = (from, Vec::new());
            while at < all.len() {
                at += salt.stretch(Epoch(1), &all[at..]).objects;
                ends.push(at);
            }
            ends
        };
        let whole = ends(0);
        assert!((60..240).contains(&whole.len()), "{whole:?}");
        for from in [1, 500, 777, 1_999] {
            let common: Vec<_> = whole.iter().copied().filter(|end| *end > from).collect();
            assert!(ends(from).ends_with(&common[usize::from(common.len() > 1)..]), "{from}");
        }
        // Large objects end a block earlier, and none has more than the most.
        let large: Vec<_> = (0..50).map(|at| object(&format!("l-{at}"), at, ENOUGH_BYTES / 4)).collect();
        assert!(salt.stretch(Epoch(1), &large).objects <= 4);
        let same: Vec<_> = (0..1_000).map(|_| all[0].clone()).collect();
        assert!([1, MOST_OBJECTS].contains(&salt.stretch(Epoch(1), &same).objects));
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_was_used_last_stays() {
        let blocks = Blocks::new(100_000);
        let noise = |at: u64| (0..999_u64).map(|byte| (at.wrapping_mul(31).wrapping_add(byte * byte * 7) >> 3) as u8).collect::<Vec<_>>();
        let stretch = |at: u64| Stretch { objects: 1, name: (at, at) };
        for at in 0..10_000 {
            blocks.find(&stretch(at), || noise(at));
            let (first, is_kept) = blocks.find(&stretch(0), || noise(0));
            assert!(is_kept || at == 0, "{at}: it was just used");
            assert_eq!(inflated(&[&first]), noise(0));
            let kept = blocks.kept.lock().expect("nobody panics");
            let bytes: usize = kept.young.values().chain(kept.old.values()).map(|block| block.weight()).sum();
            assert!(bytes <= 100_000, "{bytes}");
        }
        assert!(blocks.find(&stretch(9_999), || unreachable!("it is kept")).1);
        assert!(!blocks.find(&stretch(5), || noise(5)).1);
        let none = Blocks::new(0);
        assert!(!none.find(&stretch(1), || noise(1)).1 && !none.find(&stretch(1), || noise(1)).1);
    }
}
