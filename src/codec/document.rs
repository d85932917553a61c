//! A JSON document while it is written, compact, indented or as YAML: a list item by item, an object token by token. Knows no request.
//!
//! What is not written yet costs the pointers of a list and one item; so a client that does not read holds no answer, however large that is.

use std::{collections::VecDeque, sync::Arc};

use super::{
    form::{Form, ListMeta},
    media::Unencodable,
};
use go::{
    indent::Indenter,
    yaml::{NoYaml, yaml},
};
use model::Object;

/// How a document is written.
#[derive(Debug)]
enum Print {
    /// As it is, with a newline at its end.
    Compact,
    /// Indented, without one.
    Pretty(Indenter),
    Yaml,
}

/// What is written.
#[derive(Debug)]
enum Source {
    /// One document, compact.
    One(Vec<u8>),
    List(Box<Pages>),
}

/// A list.
#[derive(Debug)]
struct Pages {
    meta: ListMeta,
    /// But for the first ones, which are let go of.
    objects: VecDeque<Arc<Object>>,
    count: usize,
    form: Arc<Form>,
    next: usize,
    /// In YAML: what stands after the items.
    close: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Items,
    /// The last piece is being written.
    Last,
    Done,
}

/// See the module.
#[derive(Debug)]
pub struct Document {
    source: Source,
    print: Print,
    state: State,
    /// What is being written, and how much of it is.
    piece: Vec<u8>,
    at: usize,
}

/// The members that may be the items of a list in YAML, while it has none.
const NO_ITEMS: [&[u8]; 2] = [b"\nitems: []\n", b"\nrows: []\n"];

impl Document {
    /// A document that is there as compact JSON, without a newline.
    #[must_use]
    pub fn one(compact: Vec<u8>) -> Self {
        Self::new(Source::One(compact))
    }

    /// A list of these objects.
    #[must_use]
    pub fn list(meta: ListMeta, objects: Vec<Arc<Object>>, form: Arc<Form>) -> Self {
        Self::new(Source::List(Box::new(Pages { meta, count: objects.len(), objects: objects.into(), form, next: 0, close: Vec::new() })))
    }

    fn new(source: Source) -> Self {
        Self { source, print: Print::Compact, state: State::Open, piece: Vec::new(), at: 0 }
    }

    /// The same, indented.
    #[must_use]
    pub fn pretty(self) -> Self {
        Self { print: Print::Pretty(Indenter::default()), ..self }
    }

    /// The same as YAML. All of it is looked at, because what has no YAML is told before anything is written; that takes a while.
    ///
    /// # Errors
    /// What kube-apiserver cannot print either.
    pub fn yaml(self) -> Result<Self, Unencodable> {
        // One document is printed at once when its first bytes are asked for, and fails then.
        if let Source::List(list) = &self.source {
            list.check().map_err(|why| Unencodable::yaml(&why))?;
        }
        Ok(Self { print: Print::Yaml, ..self })
    }

    /// Whether everything is written.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Bytes that are held for what is not written yet.
    #[must_use]
    pub fn held(&self) -> usize {
        let source = match &self.source {
            Source::One(compact) => compact.capacity(),
            Source::List(list) => list.objects.capacity() * size_of::<Arc<Object>>() + list.close.capacity(),
        };
        source + self.piece.capacity()
    }

    /// The list again, of which nothing more will be written.
    #[must_use]
    pub fn into_list(self) -> Option<(ListMeta, Vec<Arc<Object>>)> {
        match self.source {
            Source::One(_) => None,
            Source::List(list) => Some((list.meta, list.objects.into())),
        }
    }

    /// Lets go of the objects that are written: they may be gone from the cache, and a slow client would keep them.
    pub fn let_go(&mut self) {
        if let Source::List(list) = &mut self.source {
            let gone = list.count - list.objects.len();
            list.objects.drain(..list.next - gone);
        }
    }

    /// Appends what comes next until `out` has at least `limit` bytes, or the end.
    ///
    /// # Errors
    /// One document that has no YAML.
    pub fn fill(&mut self, out: &mut Vec<u8>, limit: usize) -> Result<(), Unencodable> {
        while self.state != State::Done && out.len() < limit {
            if self.at == self.piece.len() {
                self.next(out)?;
            } else {
                self.at += match &mut self.print {
                    Print::Pretty(indenter) => indenter.some(&self.piece[self.at..], limit, out),
                    Print::Compact | Print::Yaml => {
                        let part = &self.piece[self.at..][..(self.piece.len() - self.at).min(limit - out.len())];
                        out.extend_from_slice(part);
                        part.len()
                    }
                };
            }
            if self.state == State::Last && self.at == self.piece.len() {
                self.state = State::Done;
                self.piece = Vec::new();
                self.at = 0;
            }
        }
        Ok(())
    }

    /// The next piece. What needs no other form goes straight to `out`.
    fn next(&mut self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.piece.clear();
        self.at = 0;
        let list = match &mut self.source {
            Source::List(list) => list,
            Source::One(compact) => {
                self.piece = std::mem::take(compact);
                match self.print {
                    Print::Compact => self.piece.push(b'\n'),
                    Print::Pretty(_) => {}
                    Print::Yaml => self.piece = yaml(&self.piece).map_err(|why| Unencodable::yaml(&why))?,
                }
                self.state = State::Last;
                return Ok(());
            }
        };
        let straight = matches!(self.print, Print::Compact);
        let json = if straight { out } else { &mut self.piece };
        self.state = match self.state {
            State::Open if list.count == 0 => {
                list.form.empty_list_into(&list.meta, json);
                State::Last
            }
            State::Open => {
                list.form.list_open_into(&list.meta, json);
                State::Items
            }
            _ if list.next < list.count => {
                if list.next > 0 && !matches!(self.print, Print::Yaml) {
                    json.push(b',');
                }
                let gone = list.count - list.objects.len();
                list.form.item_into(&list.objects[list.next - gone], json);
                list.next += 1;
                State::Items
            }
            _ => {
                list.form.list_close_into(&list.meta, json);
                State::Last
            }
        };
        if straight && self.state == State::Last {
            json.push(b'\n');
        }
        if matches!(self.print, Print::Yaml) {
            self.piece = list.yaml_of(&self.piece, self.state).map_err(|why| Unencodable::yaml(&why))?;
        }
        Ok(())
    }
}

impl Pages {
    /// A piece of JSON as the lines that it is in YAML.
    fn yaml_of(&mut self, json: &[u8], state: State) -> Result<Vec<u8>, NoYaml> {
        match state {
            State::Last if self.count == 0 => yaml(json),
            State::Last => Ok(std::mem::take(&mut self.close)),
            _ if self.next == 0 => {
                let mut envelope = json.to_vec();
                self.form.list_close_into(&self.meta, &mut envelope);
                let mut whole = yaml(&envelope)?;
                // No text of the envelope begins a line.
                let (at, items) = NO_ITEMS
                    .iter()
                    .find_map(|items| Some((memchr::memmem::find(&whole, items)?, items)))
                    .ok_or(NoYaml::Json(envelope.len()))?;
                self.close = whole.split_off(at + items.len());
                whole.truncate(at + items.len() - b" []\n".len());
                whole.push(b'\n');
                Ok(whole)
            }
            // A list in a map is no deeper than its key: its lines are those of a list alone.
            _ => yaml(&[b"[", json, b"]"].concat()),
        }
    }

    /// Whether every item has YAML.
    fn check(&self) -> Result<(), NoYaml> {
        let (mut item, mut lines) = (Vec::new(), 0);
        for object in &self.objects {
            item.clear();
            // As deep as in the list.
            item.extend_from_slice(b"[[");
            self.form.item_into(object, &mut item);
            item.extend_from_slice(b"]]");
            yaml(&item).map_err(|why| why.after(lines))?;
            lines += memchr::memmem::find_iter(&item, NEXT_LINE).count();
        }
        Ok(())
    }
}

/// U+0085, which ends a line in YAML.
const NEXT_LINE: &[u8] = b"\xc2\x85";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Media, MetaVersion, ingest::test_config_map};
    use model::{Revision, Storage};

    fn forms() -> [Arc<Form>; 2] {
        [
            Arc::new(Form::built_in("v1", "ConfigMap", "ConfigMapList", "")),
            Arc::new(Form::metadata_only(MetaVersion::V1, &Storage::test_config_maps())),
        ]
    }

    fn whole(mut document: Document, limit: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while !document.is_done() {
            let mut piece = Vec::new();
            document.fill(&mut piece, limit).expect("it has been looked at");
            assert!(!piece.is_empty() || document.is_done());
            out.extend_from_slice(&piece);
        }
        out
    }

    proptest! {
        #[test]
        fn pieces_are_what_the_whole_is(
            texts in prop::collection::vec("[a-z:#\u{85}' -]{0,120}", 0..6),
            token in prop::option::of("[a-z]{1,9}"),
            limit in 1_usize..300,
        ) {
            for form in forms() {
                let objects: Vec<_> = texts.iter().enumerate().map(|(at, text)| test_config_map(&format!("o-{at}"), at as u64, text)).collect();
                let meta = ListMeta { revision: Revision(9), continue_token: token.clone(), ..ListMeta::default() };
                let list = || Document::list(meta.clone(), objects.clone(), form.clone());
                let mut compact = whole(list(), usize::MAX);
                prop_assert_eq!(whole(list(), limit), compact.clone());
                prop_assert_eq!(compact.pop(), Some(b'\n'));
                let pretty = Media::Json.encode(compact.clone(), true).expect("JSON");
                prop_assert_eq!(whole(list().pretty(), limit), pretty.clone());
                prop_assert_eq!(whole(Document::one(compact.clone()).pretty(), limit), pretty);
                match (Media::Yaml.encode(compact.clone(), false), list().yaml()) {
                    (Ok(yaml), Ok(list)) => {
                        prop_assert_eq!(String::from_utf8(whole(list, limit)).expect("UTF-8"), String::from_utf8(yaml.clone()).expect("UTF-8"));
                        prop_assert_eq!(whole(Document::one(compact).yaml().expect("as before"), limit), yaml);
                    }
                    (Err(why), Err(same)) => prop_assert_eq!(why.to_string(), same.to_string()),
                    (yaml, list) => prop_assert!(false, "{:?} and {:?}", yaml.err(), list.err()),
                }
            }
        }
    }

    /// 20 KB of JSON that are 100 MB when they are indented.
    #[test]
    fn deep_values_are_indented_a_frame_at_a_time() {
        let deep = ["[".repeat(10_000), "]".repeat(10_000)].concat().into_bytes();
        let mut document = Document::one(deep).pretty();
        let mut frame = Vec::new();
        document.fill(&mut frame, 128 << 10).expect("JSON");
        assert!(!document.is_done() && frame.len() < 160 << 10 && document.held() < 64 << 10, "{} {}", frame.len(), document.held());
    }
}
