//! A list as a gzip stream of shared blocks. Knows neither who reads it nor when.

use std::{mem, sync::Arc};

use flate2::Crc;

use super::{
    append,
    blocks::{Block, Blocks, Making, Stretch},
    content::ListMeta,
    encoding::Around,
    form::Form,
    listing::Listing,
    run::{Run, RunName, Track},
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

/// What the items are made of.
enum Items {
    Found(Box<Found>),
    Kept(Kept),
}

/// Objects of which blocks are found or made.
struct Found {
    blocks: Arc<Blocks>,
    epoch: Epoch,
    list: Listing,
    making: Option<(Stretch, Making)>,
    /// What was written so far, and what it will be known by.
    track: Track,
    name: Option<RunName>,
}

/// A run that was kept.
struct Kept {
    around: Around,
    separator: &'static [u8],
    run: Run,
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
    /// A block that was kept.
    Shared,
    /// A block that had to be compressed, or a piece of one, which took a while; whether it is whole.
    Compressed(bool),
    /// The end, now or before.
    End,
}

impl GzipList {
    /// A list of which nothing is written yet, in a form that [is steady](crate::Form::is_steady). `epoch`: of the cache that its objects are from; `name`: what
    /// its run is to be kept by, if it is a whole one.
    #[must_use]
    pub fn new(list: Listing, epoch: Epoch, name: Option<RunName>, blocks: Arc<Blocks>) -> Self {
        let found = Found { blocks, epoch, list, making: None, track: Track::default(), name };
        Self { items: Items::Found(Box::new(found)), state: State::Open }
    }

    /// The same of a run that was kept by a name of this form.
    #[must_use]
    pub fn of_run(form: &Form, meta: &ListMeta, run: Run) -> Self {
        let kept = Kept { around: form.around_bytes(meta, run.len()), separator: form.separator(), run };
        Self { items: Items::Kept(kept), state: State::Open }
    }

    /// Bytes that are held for what is not written yet.
    #[must_use]
    pub fn held(&self) -> usize {
        match &self.items {
            Items::Found(found) => found.list.held() + found.track.weight() + found.making.as_ref().map_or(0, |(_, making)| making.held()),
            Items::Kept(kept) => kept.run.held(),
        }
    }

    /// Appends what comes next: the beginning, a block, or the end.
    pub fn step(&mut self, out: &mut Vec<u8>) -> Wrote {
        let is_first = matches!(self.state, State::First);
        match self.state {
            State::Open => {
                out.extend_from_slice(&HEAD);
                stored_into(self.items.open(), out);
                self.state = State::First;
                Wrote::Open
            }
            State::First | State::Others => {
                self.state = State::Others;
                let wrote = match &mut self.items {
                    Items::Found(found) => found.step(is_first, out),
                    Items::Kept(kept) => kept.step(is_first, out),
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
        stored_into(self.items.close(), out);
        out.extend_from_slice(&LAST);
        let mut crc = Crc::new();
        crc.update(self.items.open());
        crc.combine(self.items.crc());
        crc.update(self.items.close());
        out.extend_from_slice(&crc.sum().to_le_bytes());
        out.extend_from_slice(&crc.amount().to_le_bytes());
        if let Items::Found(found) = &mut self.items {
            found.keep();
        }
    }
}

impl Items {
    fn open(&self) -> &[u8] {
        match self {
            Self::Found(found) => found.list.open(),
            Self::Kept(kept) => &kept.around.open,
        }
    }

    fn close(&self) -> &[u8] {
        match self {
            Self::Found(found) => found.list.close(),
            Self::Kept(kept) => &kept.around.close,
        }
    }

    /// Of all items, when they are written.
    fn crc(&self) -> &Crc {
        match self {
            Self::Found(found) => found.track.crc(),
            Self::Kept(kept) => kept.run.crc(),
        }
    }
}

impl Found {
    fn step(&mut self, is_first: bool, out: &mut Vec<u8>) -> Wrote {
        if self.making.is_some() {
            return self.piece_into(out);
        }
        let Some(stretch) = self.list.stretch(self.epoch) else { return Wrote::End };
        if !is_first {
            stored_into(self.list.separator(), out);
            self.track.separated(self.list.separator());
        }
        if let Some(block) = self.blocks.find(&stretch) {
            self.append(&stretch, &block, out);
            self.list.skip(stretch.objects);
            return Wrote::Shared;
        }
        let mut text = Vec::with_capacity(self.list.weight(stretch.objects));
        self.list.items_into(stretch.objects, &mut text).expect("what is in a list can be made again");
        let making = Making::new(&stretch, text);
        self.making = Some((stretch, making));
        self.piece_into(out)
    }

    fn piece_into(&mut self, out: &mut Vec<u8>) -> Wrote {
        let is_whole = self.making.as_mut().is_some_and(|(_, making)| making.piece());
        if let Some((stretch, made)) = self.making.take_if(|_| is_whole) {
            let block = self.blocks.keep(made);
            self.append(&stretch, &block, out);
        }
        Wrote::Compressed(is_whole)
    }

    fn append(&mut self, stretch: &Stretch, block: &Block, out: &mut Vec<u8>) {
        append(&block.deflate, out);
        self.track.goes_on(self.name.map(|_| stretch.name), stretch.objects, block);
    }

    /// Keeps the run, now that all is written.
    fn keep(&mut self) {
        if let Some(name) = self.name.take().filter(|_| self.track.is_worth_it()) {
            self.blocks.keep_run(name, mem::take(&mut self.track).at(name.revision));
        }
    }
}

impl Kept {
    fn step(&mut self, is_first: bool, out: &mut Vec<u8>) -> Wrote {
        let Some(block) = self.run.next() else { return Wrote::End };
        if !is_first {
            stored_into(self.separator, out);
        }
        append(&block.deflate, out);
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
    use crate::{Form, ListMeta, MetaVersion, ingest::test_config_map, listing::tests::whole};
    use model::{Object, Revision, Storage};

    const EPOCH: Epoch = Epoch(1);

    /// A ConfigMap of about so many bytes.
    pub(crate) fn object(name: &str, revision: u64, bytes: usize) -> Arc<Object> {
        test_config_map(name, revision, &format!("{revision} {}", "data ".repeat(bytes / 5)))
    }

    fn form() -> Arc<Form> {
        Arc::new(Form::built_in("v1", "ConfigMap", "ConfigMapList", ""))
    }

    fn meta(continue_token: Option<&str>) -> ListMeta {
        ListMeta { revision: Revision(9), continue_token: continue_token.map(str::to_owned), ..ListMeta::default() }
    }

    /// The stream, and how many blocks were compressed for it.
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

    fn gzip(form: &Arc<Form>, meta: &ListMeta, objects: &[Arc<Object>], epoch: Epoch, blocks: &Arc<Blocks>) -> GzipList {
        let list = Listing::new(form.clone(), meta, objects.to_vec()).expect("objects that can be encoded");
        GzipList::new(list, epoch, None, blocks.clone())
    }

    proptest! {
        /// Whatever is changed, added and left out between two lists, each is what it would have been.
        #[test]
        fn a_list_is_what_it_would_be_without_blocks(
            rounds in prop::collection::vec((prop::collection::btree_map(0_usize..400, 1_u64..4, 1..300), any::<bool>(), prop::option::of("[a-z]{1,9}")), 1..5),
        ) {
            let blocks = Arc::new(Blocks::new(1 << 20));
            let forms = [form(), Arc::new(Form::metadata_only(MetaVersion::V1, &Storage::test_config_maps()))];
            for (names, which, token) in rounds {
                let objects: Vec<_> = names.iter().map(|(name, revision)| object(&format!("o-{name:04}"), *revision, 40)).collect();
                let (form, meta) = (&forms[usize::from(which)], meta(token.as_deref()));
                let list = || gzip(form, &meta, &objects, EPOCH, &blocks);
                prop_assert_eq!(inflated(&written(list()).0), whole(form, &meta, &objects));
                prop_assert_eq!(written(list()).1, 0, "all is kept now");
            }
        }
    }

    #[test]
    fn a_change_costs_one_block() {
        let blocks = Arc::new(Blocks::new(1 << 20));
        let (form, meta) = (form(), meta(None));
        let mut objects: Vec<_> = (0..1_000).map(|at| object(&format!("o-{at:04}"), 1, 100)).collect();
        let list = |objects: &[Arc<Object>], epoch| written(gzip(&form, &meta, objects, epoch, &blocks));
        let all = list(&objects, EPOCH).1;
        assert!(all > 5, "{all} blocks");
        objects[500] = object("o-0500", 2, 100);
        let (stream, compressed) = list(&objects, EPOCH);
        assert_eq!((compressed, inflated(&stream)), (1, whole(&form, &meta, &objects)));
        objects.remove(300);
        assert_eq!(list(&objects, EPOCH).1, 1);
        assert_eq!(list(&objects[400..], EPOCH).1, 1, "its first stretch begins where no block does");
        assert_eq!(list(&objects, EPOCH.next()).1, all, "of an etcd that went back nothing holds");
    }

    #[test]
    fn protobuf_is_the_same() {
        let blocks = Arc::new(Blocks::new(1 << 20));
        let form = Arc::new(form().in_protobuf("v1", "ConfigMap", "ConfigMapList", true).expect("a built-in"));
        let (meta, objects) = (meta(Some("token")), (0..300).map(|at| object(&format!("o-{at:04}"), at, 100)).collect::<Vec<_>>());
        let list = || written(gzip(&form, &meta, &objects, EPOCH, &blocks));
        let (first, compressed) = list();
        assert!(compressed > 0 && inflated(&first) == whole(&form, &meta, &objects));
        assert_eq!(list(), (first, 0));
    }

    /// Others run between its pieces; and what is short although its objects are long is compressed together.
    #[test]
    fn large_objects_are_compressed_in_pieces() {
        let objects: Vec<_> = (0..20).map(|at| object(&format!("o-{at}"), at, 200_000)).collect();
        let steps = |form: &Arc<Form>| {
            let mut list = gzip(form, &meta(None), &objects, EPOCH, &Arc::new(Blocks::new(0)));
            let (mut out, mut steps) = (Vec::new(), Vec::new());
            while steps.last() != Some(&Wrote::End) {
                steps.push(list.step(&mut out));
            }
            assert!(inflated(&out) == whole(form, &meta(None), &objects));
            steps.iter().filter(|step| matches!(step, Wrote::Compressed(_))).count()
        };
        assert_eq!(steps(&form()), 20 * 4);
        assert!(steps(&Arc::new(Form::metadata_only(MetaVersion::V1, &Storage::test_config_maps()))) < 10);
    }

    #[test]
    fn a_head_may_be_longer_than_a_stored_block() {
        let token = "t".repeat(200_000);
        let (form, meta, objects) = (form(), meta(Some(&token)), [object("a", 1, 10)]);
        let list = gzip(&form, &meta, &objects, EPOCH, &Arc::new(Blocks::new(0)));
        assert!(inflated(&written(list).0) == whole(&form, &meta, &objects));
    }
}
