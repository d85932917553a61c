//! The events of the first document of a stream: the grammar of YAML 1.1 as the real server's decoder has it.

use super::{
    cursor::{Characters, Cursor},
    scan::{Kind, Scanner, Token},
};

/// What `!!` stands for.
pub(super) const COMMON_TAGS: &str = "tag:yaml.org,2002:";

#[derive(Debug)]
pub(super) struct Event {
    pub(super) what: What,
    /// From 0.
    pub(super) line: usize,
    pub(super) anchor: Option<String>,
    /// As a whole, `tag:yaml.org,2002:str` of `!!str`.
    pub(super) tag: Option<String>,
}

#[derive(Debug)]
pub(super) enum What {
    /// The document ends, or there is none.
    End,
    Alias(String),
    /// `implicit`: its text says what it means.
    Scalar {
        text: String,
        implicit: bool,
    },
    List,
    ListEnd,
    Map,
    MapEnd,
}

/// What comes next.
#[derive(Clone, Copy)]
enum State {
    Start,
    Content,
    Node,
    Ended,
    BlockListFirst,
    BlockList,
    /// A list in a map that is not indented.
    Indentless,
    BlockMapFirst,
    BlockMapKey,
    BlockMapValue,
    FlowListFirst,
    FlowList,
    /// A map of one pair in a list.
    PairKey,
    PairValue,
    PairEnd,
    FlowMapFirst,
    FlowMapKey,
    FlowMapValue,
    FlowMapEmptyValue,
}

/// Which kind of node may stand here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Flow,
    Block,
    BlockOrIndentless,
}

pub(super) struct Events<'c> {
    scanner: Scanner<'c>,
    state: State,
    states: Vec<State>,
    /// Handles and what they stand for.
    prefixes: Vec<(String, String)>,
}

/// What stands before a node.
#[derive(Default)]
struct Properties {
    anchor: Option<String>,
    tag: Option<String>,
    line: usize,
}

impl<'c> Events<'c> {
    pub(super) fn of(characters: &'c Characters<'_>) -> Self {
        Self { scanner: Scanner::new(Cursor::new(characters)), state: State::Start, states: Vec::new(), prefixes: Vec::new() }
    }

    /// Returns the next event; after [`What::End`] there is none.
    ///
    /// # Errors
    /// What is wrong, as the real server says it, without `yaml: `.
    pub(super) fn next(&mut self) -> Result<Event, String> {
        loop {
            match self.state {
                State::Start => {
                    if self.begin()? {
                        return self.event(What::End);
                    }
                }
                State::Content => return self.content(),
                State::Node => return self.node(Place::Block),
                State::Ended => return self.event(What::End),
                State::BlockListFirst | State::BlockMapFirst | State::FlowListFirst | State::FlowMapFirst => return self.open(),
                State::BlockList => return self.block_list(),
                State::Indentless => return self.indentless(),
                State::BlockMapKey => return self.block_map_key(),
                State::BlockMapValue => return self.block_map_value(),
                State::FlowList => return self.flow_list(false),
                State::PairKey => return self.pair_key(),
                State::PairValue => return self.pair_value(),
                State::PairEnd => {
                    self.state = State::FlowList;
                    return self.event(What::MapEnd);
                }
                State::FlowMapKey => return self.flow_map_key(false),
                State::FlowMapValue => return self.flow_map_value(false),
                State::FlowMapEmptyValue => return self.flow_map_value(true),
            }
        }
    }

    fn kind(&mut self) -> Result<&Kind, String> {
        self.scanner.peek().map(|token| &token.kind)
    }

    fn is(&mut self, kinds: &[Kind]) -> Result<bool, String> {
        Ok(kinds.contains(self.kind()?))
    }

    fn line(&mut self) -> Result<usize, String> {
        self.scanner.peek().map(|token| token.start.line)
    }

    /// Takes the token that was peeked at; returns the line that it ends on.
    fn skip(&mut self) -> usize {
        self.scanner.take().map_or(0, |token| token.end.line)
    }

    /// Returns what is wrong with the next token. Its line is counted from 0, as the real server counts here.
    fn wrong<T>(&mut self, problem: &str) -> Result<T, String> {
        Err(match self.line()? {
            0 => problem.to_owned(),
            line => format!("line {line}: {problem}"),
        })
    }

    /// Makes an event of the next token and leaves that.
    fn event(&mut self, what: What) -> Result<Event, String> {
        Ok(Event { what, line: self.line()?, anchor: None, tag: None })
    }

    /// Ends a list or map with the next token.
    fn end(&mut self, what: What) -> Result<Event, String> {
        let event = self.event(what)?;
        self.skip();
        self.pop();
        Ok(event)
    }

    fn pop(&mut self) {
        self.state = self.states.pop().unwrap_or(State::Ended);
    }

    fn empty(line: usize) -> Event {
        Event { what: What::Scalar { text: String::new(), implicit: true }, line, anchor: None, tag: None }
    }

    /// Reads a node, after which that state comes.
    fn node_then(&mut self, then: State, place: Place) -> Result<Event, String> {
        self.states.push(then);
        self.node(place)
    }

    fn empty_then(&mut self, then: State, line: usize) -> Event {
        self.state = then;
        Self::empty(line)
    }

    /// Begins the first document; returns whether there is none.
    fn begin(&mut self) -> Result<bool, String> {
        self.kind()?;
        self.skip();
        let is_explicit = matches!(self.kind()?, Kind::Version(..) | Kind::Prefix(..) | Kind::DocumentStart);
        if matches!(self.kind()?, Kind::StreamEnd) {
            return Ok(true);
        }
        self.directives()?;
        self.states.push(State::Ended);
        if !is_explicit {
            self.state = State::Node;
            return Ok(false);
        }
        if !matches!(self.kind()?, Kind::DocumentStart) {
            return self.wrong("did not find expected <document start>");
        }
        self.state = State::Content;
        self.skip();
        Ok(false)
    }

    fn directives(&mut self) -> Result<(), String> {
        let mut has_version = false;
        loop {
            match self.kind()?.clone() {
                Kind::Version(..) if has_version => return self.wrong("found duplicate %YAML directive"),
                Kind::Version(1, 1) => has_version = true,
                Kind::Version(..) => return self.wrong("found incompatible YAML document"),
                Kind::Prefix(handle, _) if self.prefix(&handle).is_some() => return self.wrong("found duplicate %TAG directive"),
                Kind::Prefix(handle, prefix) => self.prefixes.push((handle, prefix)),
                _ => break,
            }
            self.skip();
        }
        for (handle, prefix) in [("!", "!"), ("!!", COMMON_TAGS)] {
            if self.prefix(handle).is_none() {
                self.prefixes.push((handle.to_owned(), prefix.to_owned()));
            }
        }
        Ok(())
    }

    fn prefix(&self, handle: &str) -> Option<&str> {
        self.prefixes.iter().find(|(known, _)| known == handle).map(|(_, prefix)| prefix.as_str())
    }

    fn content(&mut self) -> Result<Event, String> {
        if matches!(self.kind()?, Kind::Version(..) | Kind::Prefix(..) | Kind::DocumentStart | Kind::DocumentEnd | Kind::StreamEnd) {
            let line = self.line()?;
            self.pop();
            return Ok(Self::empty(line));
        }
        self.node(Place::Block)
    }

    fn node(&mut self, place: Place) -> Result<Event, String> {
        if let Kind::Alias(name) = self.kind()? {
            let what = What::Alias(name.clone());
            return self.end(what);
        }
        let Properties { anchor, tag, line } = self.properties()?;
        let collection = |what, state| Some((what, state));
        let begun = match self.kind()? {
            Kind::BlockEntry if place == Place::BlockOrIndentless => collection(What::List, State::Indentless),
            Kind::FlowList => collection(What::List, State::FlowListFirst),
            Kind::FlowMap => collection(What::Map, State::FlowMapFirst),
            Kind::BlockList if place != Place::Flow => collection(What::List, State::BlockListFirst),
            Kind::BlockMap if place != Place::Flow => collection(What::Map, State::BlockMapFirst),
            _ => None,
        };
        if let Some((what, state)) = begun {
            self.state = state;
            return Ok(Event { what, line, anchor, tag });
        }
        if matches!(self.kind()?, Kind::Scalar { .. })
            && let Some(Token { kind: Kind::Scalar { text, plain }, .. }) = self.scanner.take()
        {
            self.pop();
            let implicit = tag.as_deref().map_or(plain, |tag| tag == "!");
            return Ok(Event { what: What::Scalar { text, implicit }, line, anchor, tag });
        }
        if anchor.is_some() || tag.is_some() {
            self.pop();
            let what = What::Scalar { text: String::new(), implicit: tag.is_none() };
            return Ok(Event { what, line, anchor, tag });
        }
        self.wrong("did not find expected node content")
    }

    /// Reads an anchor and a tag, in either order.
    fn properties(&mut self) -> Result<Properties, String> {
        let mut read = Properties { line: self.line()?, ..Properties::default() };
        let mut tag = None;
        for _ in 0..2 {
            let is_next = match self.kind()? {
                Kind::Anchor(_) => read.anchor.is_none(),
                Kind::Tag(..) => tag.is_none(),
                _ => false,
            };
            if !is_next {
                break;
            }
            match self.scanner.take() {
                Some(Token { kind: Kind::Anchor(name), .. }) => read.anchor = Some(name),
                Some(Token { kind: Kind::Tag(handle, suffix), start, .. }) => tag = Some((start.line, handle, suffix)),
                _ => {}
            }
        }
        // What is wrong with the next token counts before the tag does.
        self.kind()?;
        read.tag = match tag {
            None => None,
            Some((_, handle, suffix)) if handle.is_empty() => Some(suffix),
            Some((line, handle, suffix)) => match self.prefix(&handle).map(|prefix| format!("{prefix}{suffix}")) {
                Some(tag) if !tag.is_empty() => Some(tag),
                _ if line == 0 => return Err("found undefined tag handle".to_owned()),
                _ => return Err(format!("line {line}: found undefined tag handle")),
            },
        }
        .filter(|tag| !tag.is_empty());
        Ok(read)
    }

    /// Takes the token that begins a list or map, and reads on.
    fn open(&mut self) -> Result<Event, String> {
        self.skip();
        match self.state {
            State::BlockListFirst => self.block_list(),
            State::BlockMapFirst => self.block_map_key(),
            State::FlowListFirst => self.flow_list(true),
            _ => self.flow_map_key(true),
        }
    }

    fn block_list(&mut self) -> Result<Event, String> {
        if matches!(self.kind()?, Kind::BlockEntry) {
            let line = self.skip();
            if self.is(&[Kind::BlockEntry, Kind::BlockEnd])? {
                return Ok(self.empty_then(State::BlockList, line));
            }
            return self.node_then(State::BlockList, Place::Block);
        }
        if matches!(self.kind()?, Kind::BlockEnd) { self.end(What::ListEnd) } else { self.wrong("did not find expected '-' indicator") }
    }

    fn indentless(&mut self) -> Result<Event, String> {
        if matches!(self.kind()?, Kind::BlockEntry) {
            let line = self.skip();
            if self.is(&[Kind::BlockEntry, Kind::Key, Kind::Value, Kind::BlockEnd])? {
                return Ok(self.empty_then(State::Indentless, line));
            }
            return self.node_then(State::Indentless, Place::Block);
        }
        self.pop();
        self.event(What::ListEnd)
    }

    fn block_map_key(&mut self) -> Result<Event, String> {
        match self.kind()? {
            Kind::Key => {
                let line = self.skip();
                self.block_member(State::BlockMapValue, line)
            }
            Kind::BlockEnd => self.end(What::MapEnd),
            _ => self.wrong("did not find expected key"),
        }
    }

    fn block_map_value(&mut self) -> Result<Event, String> {
        if matches!(self.kind()?, Kind::Value) {
            let line = self.skip();
            return self.block_member(State::BlockMapKey, line);
        }
        let line = self.line()?;
        Ok(self.empty_then(State::BlockMapKey, line))
    }

    /// Reads a key or value of a map, whose indicator ended on that line.
    fn block_member(&mut self, then: State, line: usize) -> Result<Event, String> {
        if self.is(&[Kind::Key, Kind::Value, Kind::BlockEnd])? {
            return Ok(self.empty_then(then, line));
        }
        self.node_then(then, Place::BlockOrIndentless)
    }

    fn flow_list(&mut self, is_first: bool) -> Result<Event, String> {
        if !matches!(self.kind()?, Kind::FlowListEnd) {
            if !is_first {
                if !matches!(self.kind()?, Kind::FlowEntry) {
                    return self.wrong("did not find expected ',' or ']'");
                }
                self.skip();
            }
            match self.kind()? {
                Kind::Key => {
                    let event = self.event(What::Map)?;
                    self.skip();
                    self.state = State::PairKey;
                    return Ok(event);
                }
                Kind::FlowListEnd => {}
                _ => return self.node_then(State::FlowList, Place::Flow),
            }
        }
        self.end(What::ListEnd)
    }

    fn pair_key(&mut self) -> Result<Event, String> {
        if self.is(&[Kind::Value, Kind::FlowEntry, Kind::FlowListEnd])? {
            // The real server takes this token, whichever it is.
            let line = self.skip();
            return Ok(self.empty_then(State::PairValue, line));
        }
        self.node_then(State::PairValue, Place::Flow)
    }

    fn pair_value(&mut self) -> Result<Event, String> {
        let line = self.line()?;
        if matches!(self.kind()?, Kind::Value) {
            self.skip();
            if !self.is(&[Kind::FlowEntry, Kind::FlowListEnd])? {
                return self.node_then(State::PairEnd, Place::Flow);
            }
        }
        Ok(self.empty_then(State::PairEnd, line))
    }

    fn flow_map_key(&mut self, is_first: bool) -> Result<Event, String> {
        if !matches!(self.kind()?, Kind::FlowMapEnd) {
            if !is_first {
                if !matches!(self.kind()?, Kind::FlowEntry) {
                    return self.wrong("did not find expected ',' or '}'");
                }
                self.skip();
            }
            match self.kind()? {
                Kind::Key => {
                    self.skip();
                    if self.is(&[Kind::Value, Kind::FlowEntry, Kind::FlowMapEnd])? {
                        let line = self.line()?;
                        return Ok(self.empty_then(State::FlowMapValue, line));
                    }
                    return self.node_then(State::FlowMapValue, Place::Flow);
                }
                Kind::FlowMapEnd => {}
                _ => return self.node_then(State::FlowMapEmptyValue, Place::Flow),
            }
        }
        self.end(What::MapEnd)
    }

    fn flow_map_value(&mut self, is_empty: bool) -> Result<Event, String> {
        if !is_empty && matches!(self.kind()?, Kind::Value) {
            self.skip();
            if !self.is(&[Kind::FlowEntry, Kind::FlowMapEnd])? {
                return self.node_then(State::FlowMapKey, Place::Flow);
            }
        }
        let line = self.line()?;
        Ok(self.empty_then(State::FlowMapKey, line))
    }
}
