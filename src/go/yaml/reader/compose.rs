//! The events of one YAML document become its nodes.

use std::collections::HashMap;

use super::{
    cursor::Characters,
    events::{COMMON_TAGS, Event, Events, What},
};

/// Nodes a document may have: four for each line of the longest useful one; ours.
const NODES_MAX: usize = 1_000_000;

/// One node; others name it by its place.
pub(super) struct Node {
    /// From 1.
    pub(super) line: usize,
    /// As a whole: `tag:yaml.org,2002:str`.
    pub(super) tag: Option<String>,
    pub(super) content: Content,
}

pub(super) enum Content {
    /// `implicit`: its text says what it means.
    Scalar {
        text: String,
        implicit: bool,
    },
    List(Vec<usize>),
    Map(Vec<(usize, usize)>),
    Alias {
        target: usize,
        name: String,
    },
}

impl Node {
    /// `<<` without quotes.
    pub(super) fn is_merge(&self) -> bool {
        let Content::Scalar { text, implicit } = &self.content else { return false };
        text == "<<" && (*implicit || self.common_tag() == Some("merge"))
    }

    /// The `str` of `!!str`.
    pub(super) fn common_tag(&self) -> Option<&str> {
        self.tag.as_deref()?.strip_prefix(COMMON_TAGS)
    }
}

/// Reads the first document; the node at 0 is its root, none is an empty document.
///
/// # Errors
/// What is wrong, as the real server says it, without `yaml: `.
pub(super) fn compose(bytes: &[u8]) -> Result<Vec<Node>, String> {
    let characters = Characters::of(bytes);
    let mut events = Events::of(&characters);
    let mut composer = Composer { nodes: Vec::new(), open: Vec::new(), anchors: HashMap::new() };
    loop {
        let event = events.next()?;
        if matches!(event.what, What::End) {
            return Ok(composer.nodes);
        }
        composer.event(event)?;
        if composer.nodes.len() > NODES_MAX {
            return Err(format!("document has more than {NODES_MAX} nodes"));
        }
    }
}

struct Composer {
    nodes: Vec<Node>,
    /// Lists and maps that have not ended, each with the children found so far.
    open: Vec<(usize, Vec<usize>)>,
    anchors: HashMap<String, usize>,
}

impl Composer {
    fn event(&mut self, event: Event) -> Result<(), String> {
        let is_collection = matches!(event.what, What::List | What::Map);
        let content = match event.what {
            What::Scalar { text, implicit } => Content::Scalar { text, implicit },
            What::List => Content::List(Vec::new()),
            What::Map => Content::Map(Vec::new()),
            What::Alias(name) => match self.anchors.get(&name) {
                Some(&target) => Content::Alias { target, name },
                None => return Err(format!("unknown anchor '{name}' referenced")),
            },
            What::ListEnd | What::MapEnd | What::End => {
                self.end();
                return Ok(());
            }
        };
        let id = self.nodes.len();
        self.nodes.push(Node { line: event.line + 1, tag: event.tag, content });
        if let Some(anchor) = event.anchor {
            self.anchors.insert(anchor, id);
        }
        if let Some((_, children)) = self.open.last_mut() {
            children.push(id);
        }
        if is_collection {
            self.open.push((id, Vec::new()));
        }
        Ok(())
    }

    fn end(&mut self) {
        let Some((id, children)) = self.open.pop() else { return };
        match &mut self.nodes[id].content {
            Content::List(items) => *items = children,
            Content::Map(pairs) => *pairs = children.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
            Content::Scalar { .. } | Content::Alias { .. } => {}
        }
    }
}
