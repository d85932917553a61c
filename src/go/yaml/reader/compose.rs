//! The events of one YAML document become its nodes.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

/// Nodes a document may have: four for each line of the longest useful one; ours.
const NODES_MAX: usize = 1_000_000;

/// One node; others name it by its place.
pub(super) struct Node {
    /// From 1.
    pub(super) line: usize,
    /// `str` of `!!str`; a tag of another kind is whole and never resolved.
    pub(super) tag: Option<String>,
    pub(super) content: Content,
}

pub(super) enum Content {
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<usize>),
    Map(Vec<(usize, usize)>),
    /// `at`: characters before it, for [`anchor_name`].
    Alias {
        target: usize,
        at: usize,
    },
}

impl Node {
    /// `<<` without quotes.
    pub(super) fn is_merge(&self) -> bool {
        let Content::Scalar { text, plain } = &self.content else { return false };
        text == "<<" && (self.tag.as_deref() == Some("merge") || (*plain && self.tag.is_none()))
    }
}

/// Reads the first document; the node at 0 is its root, none is an empty document.
///
/// # Errors
/// What is wrong, with its line as the real server has it, without `yaml: `.
pub(super) fn compose(text: &str) -> Result<Vec<Node>, String> {
    let mut composer = Composer { text, nodes: Vec::new(), open: Vec::new(), anchors: HashMap::new() };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| composer.refused(&error))?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        composer.event(event, span.start)?;
        if composer.nodes.len() > NODES_MAX {
            return Err(format!("document has more than {NODES_MAX} nodes"));
        }
    }
    Ok(composer.nodes)
}

/// The text of a document, without a byte order mark.
///
/// # Errors
/// What is wrong with its bytes, as the real server says it.
pub(super) fn characters(bytes: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let leading = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
        let what = match error.error_len() {
            None => "incomplete UTF-8 octet sequence",
            Some(_) if (0xc2..=0xf4).contains(&leading) => "invalid trailing UTF-8 octet",
            Some(_) => "invalid leading UTF-8 octet",
        };
        what.to_owned()
    })?;
    if text.chars().any(|c| (c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}')) || matches!(c, '\u{fffe}' | '\u{ffff}')) {
        return Err("control characters are not allowed".to_owned());
    }
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

struct Composer<'a> {
    text: &'a str,
    nodes: Vec<Node>,
    /// Lists and maps that have not ended, each with the children found so far.
    open: Vec<(usize, Vec<usize>)>,
    anchors: HashMap<usize, usize>,
}

impl Composer<'_> {
    fn event(&mut self, event: Event<'_>, at: Marker) -> Result<(), String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let content = Content::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain };
                self.add(at, anchor, tag.as_deref(), content);
            }
            Event::SequenceStart(anchor, tag) => self.start(at, anchor, tag.as_deref(), Content::List(Vec::new())),
            Event::MappingStart(anchor, tag) => self.start(at, anchor, tag.as_deref(), Content::Map(Vec::new())),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let target = *self.anchors.get(&anchor).ok_or_else(|| self.unknown_anchor(&at))?;
                self.add(at, 0, None, Content::Alias { target, at: at.index() });
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn add(&mut self, at: Marker, anchor: usize, tag: Option<&Tag>, content: Content) -> usize {
        let id = self.nodes.len();
        let tag = tag.map(|tag| if tag.is_yaml_core_schema() { tag.suffix.clone() } else { tag.to_string() });
        self.nodes.push(Node { line: at.line(), tag, content });
        if anchor > 0 {
            self.anchors.insert(anchor, id);
        }
        if let Some((_, children)) = self.open.last_mut() {
            children.push(id);
        }
        id
    }

    fn start(&mut self, at: Marker, anchor: usize, tag: Option<&Tag>, content: Content) {
        let id = self.add(at, anchor, tag, content);
        self.open.push((id, Vec::new()));
    }

    fn end(&mut self) {
        let Some((id, children)) = self.open.pop() else { return };
        match &mut self.nodes[id].content {
            Content::List(items) => *items = children,
            Content::Map(pairs) => *pairs = children.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
            Content::Scalar { .. } | Content::Alias { .. } => {}
        }
    }

    /// The real server names a line from the second one on, and not what it was about to read.
    fn refused(&self, error: &ScanError) -> String {
        let info = error.info();
        if info.ends_with("found unknown anchor") {
            return self.unknown_anchor(error.marker());
        }
        let what = info.strip_prefix("while ").and_then(|rest| rest.split_once(", ")).map_or(info, |(_, what)| what);
        match error.marker().line() {
            0 | 1 => what.to_owned(),
            line => format!("line {line}: {what}"),
        }
    }

    fn unknown_anchor(&self, at: &Marker) -> String {
        format!("unknown anchor '{}' referenced", anchor_name(self.text, at.index()))
    }
}

/// The name after the `*` that so many characters stand before. Only errors tell it: to find it takes as long as the text is.
pub(super) fn anchor_name(text: &str, at: usize) -> String {
    let name = text.chars().skip(at).skip_while(|&c| c == '*');
    name.take_while(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}
