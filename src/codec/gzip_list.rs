//! A list as a gzip stream of shared blocks. Knows neither who reads it nor when.

use std::{sync::Arc, vec::IntoIter};

use flate2::Crc;

use super::{
    blocks::{Block, Blocks, Making},
    form::{Form, ListMeta},
    proto::ENVELOPE_TAIL,
    wire::{Messages, WireList},
};
use model::{Epoch, Object};

/// As kube-apiserver begins its own: deflate, no name, no time, the fastest level, no operating system told.
const HEAD: [u8; 10] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 4, 255];
/// The last block of a deflate stream, empty.
const LAST: [u8; 2] = [3, 0];
/// The most bytes that a stored block of deflate has (RFC 1951 §3.2.4).
const MOST_STORED: usize = 0xFFFF;

/// A list that is being written.
pub struct GzipList {
    blocks: Arc<Blocks>,
    epoch: Epoch,
    /// What is not written yet; let go of as it is.
    objects: IntoIter<Arc<Object>>,
    form: Arc<Form>,
    /// In protobuf the messages of the objects; JSON is made of them.
    messages: Option<Messages>,
    /// What stands before, and after, the items.
    open: Vec<u8>,
    close: Vec<u8>,
    making: Option<Making>,
    crc: Crc,
    state: State,
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
    /// A list in JSON of at least one object, in a form that [is steady](Form::is_steady). `epoch`: of the cache that the objects are from.
    #[must_use]
    pub fn json(form: Arc<Form>, meta: &ListMeta, objects: Vec<Arc<Object>>, epoch: Epoch, blocks: Arc<Blocks>) -> Self {
        let (mut open, mut close) = (Vec::new(), Vec::new());
        form.list_open_into(meta, &mut open);
        form.list_close_into(meta, &mut close);
        close.push(b'\n');
        Self::new(form, None, (open, close), objects, epoch, blocks)
    }

    /// The same in protobuf; nothing of `list` is written yet.
    #[must_use]
    pub fn protobuf(form: Arc<Form>, list: WireList, epoch: Epoch, blocks: Arc<Blocks>) -> Self {
        let (head, objects, messages) = list.into_parts();
        Self::new(form, Some(messages), (head, ENVELOPE_TAIL.to_vec()), objects, epoch, blocks)
    }

    /// Bytes that are held for what is not written yet.
    #[must_use]
    pub fn held(&self) -> usize {
        let making = self.making.as_ref().map_or(0, Making::held);
        let messages = self.messages.as_ref().map_or(0, Messages::held);
        size_of_val(self.objects.as_slice()) + messages + making
    }

    fn new(
        form: Arc<Form>,
        messages: Option<Messages>,
        (open, close): (Vec<u8>, Vec<u8>),
        objects: Vec<Arc<Object>>,
        epoch: Epoch,
        blocks: Arc<Blocks>,
    ) -> Self {
        let objects = objects.into_iter();
        Self { blocks, epoch, objects, form, messages, open, close, making: None, crc: Crc::new(), state: State::Open }
    }

    /// Appends what comes next: the beginning, a block, or the end.
    pub fn step(&mut self, out: &mut Vec<u8>) -> Wrote {
        if self.making.is_some() {
            return self.piece_into(out);
        }
        match self.state {
            State::Open => {
                out.extend_from_slice(&HEAD);
                stored_into(&self.open, &mut self.crc, out);
                self.state = State::First;
                Wrote::Open
            }
            State::First | State::Others if !self.objects.as_slice().is_empty() => self.block_into(out),
            State::First | State::Others => {
                stored_into(&self.close, &mut self.crc, out);
                out.extend_from_slice(&LAST);
                out.extend_from_slice(&self.crc.sum().to_le_bytes());
                out.extend_from_slice(&self.crc.amount().to_le_bytes());
                self.state = State::Done;
                Wrote::End
            }
            State::Done => Wrote::End,
        }
    }

    fn block_into(&mut self, out: &mut Vec<u8>) -> Wrote {
        if matches!((self.state, &self.messages), (State::Others, None)) {
            stored_into(b",", &mut self.crc, out);
        }
        self.state = State::Others;
        let stretch = self.form.salt().stretch(self.epoch, self.objects.as_slice(), |object| self.form.weight(object));
        let found = self.blocks.find(&stretch);
        if let Some(block) = &found {
            self.append(block, out);
            self.messages.iter_mut().for_each(|messages| messages.skip(stretch.objects));
        } else {
            self.making = Some(Making::new(&stretch, self.text(stretch.objects)));
        }
        self.objects.by_ref().take(stretch.objects).for_each(drop);
        if found.is_some() { Wrote::Shared } else { self.piece_into(out) }
    }

    fn piece_into(&mut self, out: &mut Vec<u8>) -> Wrote {
        let is_whole = self.making.as_mut().is_some_and(Making::piece);
        if let Some(made) = self.making.take_if(|_| is_whole) {
            let block = self.blocks.keep(made);
            self.append(&block, out);
        }
        Wrote::Compressed(is_whole)
    }

    fn append(&mut self, block: &Block, out: &mut Vec<u8>) {
        out.extend_from_slice(&block.deflate);
        self.crc.combine(&block.crc);
    }

    /// The next so many items.
    fn text(&mut self, count: usize) -> Vec<u8> {
        let objects = &self.objects.as_slice()[..count];
        let mut text = Vec::new();
        match &mut self.messages {
            None => {
                text.reserve(objects.iter().map(|object| self.form.weight(object) + 64).sum());
                for (nth, object) in objects.iter().enumerate() {
                    if nth > 0 {
                        text.push(b',');
                    }
                    self.form.item_into(object, &mut text);
                }
            }
            Some(messages) => {
                for object in objects {
                    messages.item_into(object, &mut text).expect("its length was counted, so it can be made");
                }
            }
        }
        text
    }
}

/// Text as it is, in stored blocks.
fn stored_into(text: &[u8], crc: &mut Crc, out: &mut Vec<u8>) {
    crc.update(text);
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
    use crate::{MetaVersion, ingest::test_config_map};
    use model::{Revision, Storage};

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

    fn plain(form: &Form, meta: &ListMeta, objects: &[Arc<Object>]) -> Vec<u8> {
        let mut out = Vec::new();
        form.list_open_into(meta, &mut out);
        for (nth, object) in objects.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            form.item_into(object, &mut out);
        }
        form.list_close_into(meta, &mut out);
        out.push(b'\n');
        out
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
                let list = || GzipList::json(form.clone(), &meta, objects.clone(), EPOCH, blocks.clone());
                prop_assert_eq!(inflated(&written(list()).0), plain(form, &meta, &objects));
                prop_assert_eq!(written(list()).1, 0, "all is kept now");
            }
        }
    }

    #[test]
    fn a_change_costs_one_block() {
        let blocks = Arc::new(Blocks::new(1 << 20));
        let (form, meta) = (form(), meta(None));
        let mut objects: Vec<_> = (0..1_000).map(|at| object(&format!("o-{at:04}"), 1, 100)).collect();
        let list = |objects: &[Arc<Object>], epoch| written(GzipList::json(form.clone(), &meta, objects.to_vec(), epoch, blocks.clone()));
        let all = list(&objects, EPOCH).1;
        assert!(all > 5, "{all} blocks");
        objects[500] = object("o-0500", 2, 100);
        let (stream, compressed) = list(&objects, EPOCH);
        assert_eq!((compressed, inflated(&stream)), (1, plain(&form, &meta, &objects)));
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
        let messages = || {
            let messages = Messages::of(form.clone(), &objects).expect("objects that can be encoded");
            WireList::new(&meta, objects.clone(), messages).expect("protobuf")
        };
        let mut plain = Vec::new();
        messages().fill(&mut plain, usize::MAX).expect("as before");
        let list = || written(GzipList::protobuf(form.clone(), messages(), EPOCH, blocks.clone()));
        let (first, compressed) = list();
        assert!(compressed > 0 && inflated(&first) == plain);
        assert_eq!(list(), (first, 0));
    }

    /// Others run between its pieces; and what is short although its objects are long is compressed together.
    #[test]
    fn large_objects_are_compressed_in_pieces() {
        let objects: Vec<_> = (0..20).map(|at| object(&format!("o-{at}"), at, 200_000)).collect();
        let steps = |form: &Arc<Form>| {
            let mut list = GzipList::json(form.clone(), &meta(None), objects.clone(), EPOCH, Arc::new(Blocks::new(0)));
            let (mut out, mut steps) = (Vec::new(), Vec::new());
            while steps.last() != Some(&Wrote::End) {
                steps.push(list.step(&mut out));
            }
            assert!(inflated(&out) == plain(form, &meta(None), &objects));
            steps.iter().filter(|step| matches!(step, Wrote::Compressed(_))).count()
        };
        assert_eq!(steps(&form()), 20 * 4);
        assert!(steps(&Arc::new(Form::metadata_only(MetaVersion::V1, &Storage::test_config_maps()))) < 10);
    }

    #[test]
    fn a_head_may_be_longer_than_a_stored_block() {
        let token = "t".repeat(200_000);
        let (form, meta, objects) = (form(), meta(Some(&token)), [object("a", 1, 10)]);
        let list = GzipList::json(form.clone(), &meta, objects.to_vec(), EPOCH, Arc::new(Blocks::new(0)));
        assert!(inflated(&written(list).0) == plain(&form, &meta, &objects));
    }
}
