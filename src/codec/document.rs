//! Indented JSON and YAML, written while it is sent: a list item by item, an object token by token.
//!
//! What is not written yet costs the pointers of a list and one item; so a client that does not read holds no answer, however large that is.

use std::{sync::Arc, vec::IntoIter};

use super::{encoder::Encoder, representation::ListMeta, unencodable::Unencodable};
use go::{
    indent::Indenter,
    yaml::{NoYaml, yaml},
};
use model::Object;

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
    /// Those that are not written yet.
    objects: IntoIter<Arc<Object>>,
    /// Bytes of their pointers, which stay until the end.
    pointers: usize,
    encoder: Arc<Encoder>,
    /// In YAML: what stands after the items.
    epilogue: Vec<u8>,
}

/// How a document is written.
#[derive(Debug)]
enum Print {
    /// Indented, without a newline at its end.
    Pretty(Indenter),
    Yaml,
}

/// Which piece is written next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The first item, or the end of a list.
    First,
    /// Another one, or the end.
    Items,
    /// None: the last one is being written.
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
    /// A document that is there as compact JSON, without a newline; indented.
    #[must_use]
    pub fn one(compact: Vec<u8>) -> Self {
        Self::new(Source::One(compact))
    }

    /// A list of these objects, indented.
    #[must_use]
    pub fn list(meta: ListMeta, objects: Vec<Arc<Object>>, encoder: Arc<Encoder>) -> Self {
        let pointers = objects.capacity() * size_of::<Arc<Object>>();
        let encoder = encoder.for_answer();
        Self::new(Source::List(Box::new(Pages { meta, objects: objects.into_iter(), pointers, encoder, epilogue: Vec::new() })))
    }

    fn new(source: Source) -> Self {
        Self { source, print: Print::Pretty(Indenter::default()), state: State::Open, piece: Vec::new(), at: 0 }
    }

    /// The same as YAML. All of it is looked at, because what has no YAML is told before anything is written; that takes a while.
    ///
    /// # Errors
    /// What kube-apiserver cannot print either.
    pub fn yaml(self) -> Result<Self, Unencodable> {
        // One document is printed at once when its first bytes are asked for, and fails then.
        if let Source::List(list) = &self.source {
            list.check()?;
        }
        Ok(Self { print: Print::Yaml, ..self })
    }

    /// Whether a definition says what is written of its objects, which may take long.
    #[must_use]
    pub fn is_defined(&self) -> bool {
        matches!(&self.source, Source::List(list) if list.encoder.is_defined())
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
            Source::List(list) => list.pointers + list.epilogue.capacity(),
        };
        source + self.piece.capacity()
    }

    /// Appends what comes next until `out` has at least `limit` bytes, or the end.
    ///
    /// # Errors
    /// One document that has no YAML.
    pub fn fill(&mut self, out: &mut Vec<u8>, limit: usize) -> Result<(), Unencodable> {
        while self.state != State::Done && out.len() < limit {
            if self.at == self.piece.len() {
                self.next()?;
            } else {
                self.at += match &mut self.print {
                    Print::Pretty(indenter) => indenter.some(&self.piece[self.at..], limit, out),
                    Print::Yaml => {
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

    /// The next piece.
    fn next(&mut self) -> Result<(), Unencodable> {
        self.piece.clear();
        self.at = 0;
        let is_yaml = matches!(self.print, Print::Yaml);
        match &mut self.source {
            Source::One(compact) => {
                self.piece = std::mem::take(compact);
                if is_yaml {
                    self.piece = yaml(&self.piece)?;
                }
                self.state = State::Last;
            }
            Source::List(list) if is_yaml => self.state = list.yaml_into(self.state, &mut self.piece)?,
            Source::List(list) => self.state = list.json_into(self.state, &mut self.piece),
        }
        Ok(())
    }
}

impl Pages {
    /// Appends the next piece of JSON; what follows it.
    fn json_into(&mut self, state: State, out: &mut Vec<u8>) -> State {
        if state == State::Open && self.objects.as_slice().is_empty() {
            self.encoder.empty_list_into(&self.meta, out);
            return State::Last;
        }
        if state == State::Open {
            self.encoder.list_prologue_into(&self.meta, out);
            return State::First;
        }
        let Some(object) = self.objects.next() else {
            self.encoder.list_epilogue_into(&self.meta, out);
            return State::Last;
        };
        if state == State::Items {
            out.push(b',');
        }
        self.encoder.item_into(&object, out);
        State::Items
    }

    /// Appends the lines of the next piece in YAML; what follows it.
    fn yaml_into(&mut self, state: State, out: &mut Vec<u8>) -> Result<State, NoYaml> {
        let mut json = Vec::new();
        match state {
            State::Open if self.objects.as_slice().is_empty() => {
                self.encoder.empty_list_into(&self.meta, &mut json);
                *out = yaml(&json)?;
                Ok(State::Last)
            }
            State::Open => {
                self.encoder.list_prologue_into(&self.meta, &mut json);
                self.encoder.list_epilogue_into(&self.meta, &mut json);
                let mut whole = yaml(&json)?;
                // No text of the envelope begins a line.
                let (at, items) = NO_ITEMS
                    .iter()
                    .find_map(|items| Some((memchr::memmem::find(&whole, items)?, items)))
                    .ok_or(NoYaml::Json(json.len()))?;
                self.epilogue = whole.split_off(at + items.len());
                whole.truncate(at + items.len() - b" []\n".len());
                whole.push(b'\n');
                *out = whole;
                Ok(State::First)
            }
            _ => {
                let Some(object) = self.objects.next() else {
                    *out = std::mem::take(&mut self.epilogue);
                    return Ok(State::Last);
                };
                // A list in a map is no deeper than its key: its lines are those of a list alone.
                json.push(b'[');
                self.encoder.item_into(&object, &mut json);
                json.push(b']');
                *out = yaml(&json)?;
                Ok(State::Items)
            }
        }
    }

    /// Whether every item has YAML.
    fn check(&self) -> Result<(), NoYaml> {
        let (mut item, mut lines) = (Vec::new(), 0);
        for object in self.objects.as_slice() {
            item.clear();
            // As deep as in the list.
            item.extend_from_slice(b"[[");
            self.encoder.item_into(object, &mut item);
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
    use crate::{Media, MetaVersion, ingest::test_config_map, listing};
    use model::{Revision, Storage};

    fn encoders() -> [Arc<Encoder>; 2] {
        [
            Arc::new(Encoder::built_in("v1", "ConfigMap", "ConfigMapList", "")),
            Arc::new(Encoder::metadata_only(MetaVersion::V1, &Storage::test_config_maps())),
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
            for encoder in encoders() {
                let objects: Vec<_> = texts.iter().enumerate().map(|(at, text)| test_config_map(&format!("o-{at}"), at as u64, text)).collect();
                let meta = ListMeta { revision: Revision(9), continue_token: token.clone(), ..ListMeta::default() };
                let list = || Document::list(meta.clone(), objects.clone(), encoder.clone());
                let mut compact = listing::tests::whole(&encoder, &meta, &objects);
                prop_assert_eq!(compact.pop(), Some(b'\n'));
                let pretty = Media::Json.encode(compact.clone(), true).expect("JSON");
                prop_assert_eq!(whole(list(), limit), pretty.clone());
                prop_assert_eq!(whole(Document::one(compact.clone()), limit), pretty);
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
        let mut document = Document::one(deep);
        let mut frame = Vec::new();
        document.fill(&mut frame, 128 << 10).expect("JSON");
        assert!(!document.is_done() && frame.len() < 160 << 10 && document.held() < 64 << 10, "{} {}", frame.len(), document.held());
    }
}
