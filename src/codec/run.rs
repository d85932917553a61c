//! Whole lists as runs of blocks: the next list of the same objects is put together without a look at any of them.
//!
//! A run holds no block, only the names of a list's blocks in their order. It is known by what the list is of: the form, the epoch and the revision of the cache,
//! the prefix of the keys, the filter. So it is never wrong, as a block is never wrong; after the next change another one takes its place.

use std::{sync::Arc, vec::IntoIter};

use flate2::Crc;

use super::blocks::{Block, Name};
use model::Revision;

/// Text that a list has at least whose run is kept, bytes. What is shorter is put together quickly.
pub const LEAST_BYTES: usize = 256 << 10;
/// Blocks of a list whose run is kept, at most: they are looked up at once, which takes a millisecond.
const MOST_BLOCKS: usize = 16 << 10;

/// What the run of a list is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunName {
    /// All but the revision: of each list one run is kept, the newest.
    pub(super) list: Name,
    pub(super) revision: Revision,
}

/// What is kept of a run.
#[derive(Debug, Default)]
pub(super) struct Track {
    revision: Revision,
    names: Vec<Name>,
    objects: usize,
    /// Of the text of all blocks, with what stands between them.
    len: usize,
    crc: Crc,
}

impl Track {
    /// Notes what stands between two blocks.
    pub(super) fn separated(&mut self, separator: &[u8]) {
        self.len += separator.len();
        self.crc.update(separator);
    }

    /// Notes the next block, of so many objects; its name only if the run may be kept.
    pub(super) fn goes_on(&mut self, name: Option<Name>, objects: usize, block: &Block) {
        if self.names.len() <= MOST_BLOCKS {
            self.names.extend(name);
        }
        self.objects += objects;
        self.len += block.crc.amount() as usize;
        self.crc.combine(&block.crc);
    }

    /// Whether it should be kept, now that the list is over.
    pub(super) fn is_worth_it(&self) -> bool {
        self.len >= LEAST_BYTES && self.names.len() <= MOST_BLOCKS
    }

    /// Of the whole text.
    pub(super) fn crc(&self) -> &Crc {
        &self.crc
    }

    pub(super) fn names(&self) -> &[Name] {
        &self.names
    }

    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.names.capacity() * size_of::<Name>()
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    /// The same of the list as it was at this revision.
    pub(super) fn at(mut self, revision: Revision) -> Self {
        self.names.shrink_to_fit();
        Self { revision, ..self }
    }
}

/// The blocks of all items of a list.
#[derive(Debug)]
pub struct Run {
    /// Those that are not written yet. Written ones are let go of: they may be kept no more.
    blocks: IntoIter<Arc<Block>>,
    /// Bytes of their pointers, which stay until the end.
    pointers: usize,
    track: Arc<Track>,
}

impl Run {
    pub(super) fn new(blocks: Vec<Arc<Block>>, track: Arc<Track>) -> Self {
        let pointers = blocks.capacity() * size_of::<Arc<Block>>();
        Self { blocks: blocks.into_iter(), pointers, track }
    }

    /// How many objects the list has.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.track.objects
    }

    /// Bytes of all items, with what stands between them.
    pub(super) fn len(&self) -> usize {
        self.track.len
    }

    /// Bytes that are held for what is not written yet.
    pub(super) fn held(&self) -> usize {
        self.pointers
    }

    /// Of all items, with what stands between them.
    pub(super) fn crc(&self) -> &Crc {
        self.track.crc()
    }

    pub(super) fn next(&mut self) -> Option<Arc<Block>> {
        self.blocks.next()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Read};

    use flate2::read::GzDecoder;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Blocks, Form, GzipList, ListMeta, Listing, MetaVersion, Wrote, blocks::tests::adds_up, gzip_list::tests::object,
        listing::tests::whole,
    };
    use model::{Epoch, Filter, Object, Storage};

    const ALL: &[u8] = b"/registry/configmaps/";

    /// A cache of objects of so many bytes, and lists of it.
    struct Cache {
        epoch: Epoch,
        revision: u64,
        objects: BTreeMap<usize, Arc<Object>>,
        blocks: Arc<Blocks>,
        bytes: usize,
    }

    impl Cache {
        fn new(objects: usize, bytes: usize, limit: usize) -> Self {
            let mut cache = Self { epoch: Epoch(1), revision: 0, objects: BTreeMap::new(), blocks: Arc::new(Blocks::new(limit)), bytes };
            (0..objects).for_each(|nth| cache.put(nth));
            cache
        }

        fn put(&mut self, nth: usize) {
            self.revision += 1;
            self.objects.insert(nth, object(&format!("o-{nth:03}"), self.revision, self.bytes));
        }

        fn name(&self, form: &Form, prefix: &[u8], filter: &Filter) -> RunName {
            form.run_name(self.epoch, Revision(self.revision), prefix, filter)
        }

        /// A list as it is answered, checked; whether it was made of a run.
        fn list(&self, form: &Arc<Form>, meta: &ListMeta, prefix: &[u8], filter: &Filter) -> bool {
            let found = || self.objects.values().filter(|object| object.key().starts_with(prefix) && filter.matches(object));
            let (name, objects) = (self.name(form, prefix, filter), found().cloned().collect::<Vec<_>>());
            let run = self.blocks.run(name);
            let is_run = run.is_some();
            let mut list = match run {
                Some(run) => {
                    assert_eq!(run.objects(), objects.len());
                    GzipList::of_run(form, meta, run)
                }
                None => {
                    let list = Listing::new(form.clone(), meta, objects.clone()).expect("objects that can be encoded");
                    GzipList::new(list, self.epoch, Some(name), self.blocks.clone())
                }
            };
            let (mut stream, mut text) = (Vec::new(), Vec::new());
            while list.step(&mut stream) != Wrote::End {}
            let mut decoder = GzDecoder::new(&stream[..]);
            decoder.read_to_end(&mut text).expect("gzip with its sums");
            assert!(decoder.into_inner().is_empty() && text == whole(form, meta, &objects));
            is_run
        }
    }

    fn forms() -> [Arc<Form>; 3] {
        let json = Form::built_in("v1", "ConfigMap", "ConfigMapList", "");
        let protobuf = json.in_protobuf("v1", "ConfigMap", "ConfigMapList", true).expect("a built-in");
        [Arc::new(json), Arc::new(protobuf), Arc::new(Form::metadata_only(MetaVersion::V1, &Storage::test_config_maps()))]
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
        let list = || prop_oneof![2 => Just((0, 0)), 1 => (0_usize..3, 0_usize..4)].prop_map(|(form, scope)| Step::List(form, scope));
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
        fn a_list_is_what_it_would_be_without_runs(
            steps in prop::collection::vec(step(), 1..16),
            limit in prop::sample::select(vec![0, 8_000, 1 << 20, 1 << 20]),
        ) {
            let (mut cache, forms) = (Cache::new(60, 9_000, limit), forms());
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
                        let names: Vec<_> = cache.objects.keys().copied().collect();
                        // Another etcd may give other objects the same revisions.
                        cache.revision = 0;
                        names.into_iter().rev().for_each(|nth| cache.put(nth));
                    }
                    Step::Forget => cache.blocks.forget_unused(),
                    Step::Keep(may) => cache.blocks.may_keep(may),
                    Step::List(form, scope) => {
                        let (prefix, filter) = &scopes[scope];
                        cache.list(&forms[form], &meta(cache.revision + 3), prefix, filter);
                    }
                }
                adds_up(&cache.blocks);
            }
        }
    }

    #[test]
    fn an_equal_list_is_made_of_the_run() {
        let mut cache = Cache::new(100, 9_000, 1 << 20);
        let (all, forms) = (Filter::default(), forms());
        for form in &forms[..2] {
            assert_eq!([1, 2, 3].map(|later| cache.list(form, &meta(100 + later), ALL, &all)), [false, true, true]);
        }
        let json = &forms[0];
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
        assert_eq!([1, 2].map(|_| cache.list(&forms[2], &meta(1), ALL, &all)), [false, false]);
    }

    #[test]
    fn a_run_goes_with_its_blocks() {
        let (cache, all, form) = (Cache::new(100, 9_000, 1 << 20), Filter::default(), &forms()[0]);
        let list = || cache.list(form, &meta(1), ALL, &all);
        assert!(!list() && list());
        cache.blocks.forget_unused();
        assert!(list(), "it was just used");
        cache.blocks.forget_unused();
        cache.blocks.forget_unused();
        assert!(!list() && list(), "nobody asked for it");
        cache.blocks.may_keep(false);
        assert!(!list() && !list());
        cache.blocks.may_keep(true);
        assert!(!list() && list());
    }

    #[test]
    fn a_run_that_is_being_written_needs_no_kept_block() {
        let (cache, all, form) = (Cache::new(100, 9_000, 1 << 20), Filter::default(), &forms()[0]);
        let (first, second) = (cache.list(form, &meta(1), ALL, &all), cache.blocks.run(cache.name(form, ALL, &all)));
        assert!(!first);
        cache.blocks.may_keep(false);
        let (mut list, mut stream, mut text) = (GzipList::of_run(form, &meta(1), second.expect("it was kept")), Vec::new(), Vec::new());
        assert!(list.held() > 0);
        while list.step(&mut stream) != Wrote::End {}
        GzDecoder::new(&stream[..]).read_to_end(&mut text).expect("gzip with its sums");
        let objects: Vec<_> = cache.objects.values().cloned().collect();
        assert!(text == whole(form, &meta(1), &objects));
    }

    #[test]
    fn very_many_blocks_make_no_run() {
        let block = || {
            let mut making = crate::blocks::Making::new(&crate::blocks::Stretch { objects: 1, name: (1, 1) }, vec![b'a'; 64]);
            while !making.piece() {}
            Blocks::new(0).keep(making)
        };
        let (block, mut track) = (block(), Track::default());
        for nth in 0..MOST_BLOCKS + 2 {
            assert_eq!(track.is_worth_it(), (LEAST_BYTES / 64..=MOST_BLOCKS).contains(&nth), "{nth}");
            track.goes_on(Some((nth as u64, 0)), 1, &block);
        }
        assert!(!track.is_worth_it() && track.names().len() == MOST_BLOCKS + 1);
    }
}
