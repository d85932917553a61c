//! JSON as the YAML that kube-apiserver prints: what `sigs.k8s.io/yaml` 1.6 makes of it with `go.yaml.in/yaml/v2` 2.4.
//!
//! kube-apiserver writes an object as JSON, has go-yaml read that as YAML, and prints what was read: keys in go-yaml's order, lines folded after 80
//! characters, quotes where YAML 1.1 would see something else than a string. What go-yaml cannot read has no YAML there either
//! (spec api-surface §3.1).

pub(crate) mod number;
mod order;
mod plain;
pub mod reader;
mod scalar;
mod tree;
mod writer;

#[cfg(test)]
mod tests;

use thiserror::Error;

use self::{
    scalar::Scalar,
    tree::{Node, Tree, Value},
    writer::Writer,
};

/// Spaces of one level.
const STEP: usize = 2;
/// Longest key, bytes, that stands before its colon on one line; a longer one gets a `?` and a line for its value (go-yaml's number).
const SIMPLE_KEY_BYTES: usize = 128;
/// What may be printed for each byte of JSON, beyond [`OUTPUT_BYTES_FREE`]: indentation makes deep values many times larger, and ours end somewhere.
const OUTPUT_PER_BYTE: usize = 32;
/// What may be printed however short the JSON is, bytes.
const OUTPUT_BYTES_FREE: usize = 16 << 20;

/// Why a value has no YAML. The texts are those that kube-apiserver answers with, under status 500.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NoYaml {
    /// A text has DEL, a C1 control or one of U+FFFE and U+FFFF, which JSON leaves as they are and YAML forbids.
    #[error("yaml: control characters are not allowed")]
    Control,
    /// A key is longer than 1,024 characters in JSON, or has a next-line character: YAML looks no further for its colon.
    #[error("yaml: {}did not find expected ',' or '}}'", told(*line))]
    Key {
        /// How many next-line characters came before.
        line: usize,
    },
    /// After a next-line character a text goes on as the beginning or the end of a document.
    #[error("yaml: {}found unexpected document indicator", told(*line))]
    Document {
        /// The line of that, from 1.
        line: usize,
    },
    /// Lists and maps are too deep in each other.
    #[error("yaml: exceeded max depth of {}", tree::YAML_DEPTH_MAX)]
    Depth,
    /// It would be larger than any answer should be; kube-apiserver has no such limit.
    #[error("yaml: the value is too large to be printed")]
    Size,
    /// It is no JSON; the byte where that shows.
    #[error("not JSON at byte {0}")]
    Json(usize),
}

impl NoYaml {
    /// The same in a document that has this many lines before what was read.
    #[must_use]
    pub fn after(self, lines: usize) -> Self {
        match self {
            Self::Key { line } => Self::Key { line: line + lines },
            Self::Document { line } => Self::Document { line: line + lines },
            Self::Control | Self::Depth | Self::Size | Self::Json(_) => self,
        }
    }
}

/// go-yaml tells a line only if it is not the first.
fn told(line: usize) -> String {
    if line == 0 { String::new() } else { format!("line {line}: ") }
}

/// Prints a JSON value as a YAML document, with a newline at its end.
///
/// # Errors
/// What kube-apiserver cannot print either, a value beyond [`NoYaml::Size`], and text that is no JSON.
pub fn yaml(json: &[u8]) -> Result<Vec<u8>, NoYaml> {
    let tree = Tree::read(json)?;
    let mut out = Vec::with_capacity(json.len() + json.len() / 4);
    let mut printer = Printer::new(&tree, &mut out);
    printer.value(tree.root(), Place::Root);
    printer.finish(json.len())?;
    Ok(out)
}

/// Where a value stands; the number is the indentation of what it stands in.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Item(usize),
    Member(usize),
}

/// Walks the tree; what is begun and not ended is on a stack of its own.
struct Printer<'t, 'o> {
    tree: &'t Tree<'t>,
    writer: Writer<'o>,
    open: Vec<Open<'t>>,
}

struct Open<'t> {
    children: std::slice::Iter<'t, u32>,
    is_map: bool,
    indent: usize,
}

impl<'t, 'o> Printer<'t, 'o> {
    fn new(tree: &'t Tree<'t>, out: &'o mut Vec<u8>) -> Self {
        Self { tree, writer: Writer::new(out), open: Vec::new() }
    }

    /// Prints what is open, to the newline at the end. `json` is the length of what was read.
    fn finish(mut self, json: usize) -> Result<(), NoYaml> {
        let limit = OUTPUT_BYTES_FREE + json.saturating_mul(OUTPUT_PER_BYTE);
        while let Some(open) = self.open.last_mut() {
            let Some(&child) = open.children.next() else {
                self.open.pop();
                continue;
            };
            let (is_map, indent) = (open.is_map, open.indent);
            let node = self.tree.node(child);
            self.writer.indent(indent);
            if is_map {
                self.key(node, indent);
                self.value(node, Place::Member(indent));
            } else {
                self.writer.indicator(b"-", writer::DASH);
                self.value(node, Place::Item(indent));
            }
            if self.writer.len() > limit {
                return Err(NoYaml::Size);
            }
        }
        self.writer.indent(0);
        Ok(())
    }

    fn key(&mut self, node: &Node, indent: usize) {
        let key = Scalar::of(self.tree.text(node.key));
        if !key.is_multiline() && key.text().len() <= SIMPLE_KEY_BYTES {
            key.write(&mut self.writer, None);
            self.writer.indicator(b":", writer::COLON);
        } else {
            self.writer.indicator(b"?", writer::DASH);
            key.write(&mut self.writer, Some(indent + STEP));
            self.writer.indent(indent);
            self.writer.indicator(b":", writer::DASH);
        }
    }

    fn value(&mut self, node: &Node, place: Place) {
        let inner = match place {
            Place::Root => 0,
            Place::Item(indent) | Place::Member(indent) => indent + STEP,
        };
        match &node.value {
            Value::Word(word) => self.writer.plain(self.tree.text(*word), None),
            // Lines of a text that is the document are indented as well.
            Value::Text(text) => Scalar::of(self.tree.text(*text)).write(&mut self.writer, Some(inner.max(STEP))),
            Value::Map(children) if children.is_empty() => self.empty(b"{", b"}"),
            Value::List(children) if children.is_empty() => self.empty(b"[", b"]"),
            Value::Map(children) => {
                self.open.push(Open { children: self.tree.children(children), is_map: true, indent: inner });
            }
            Value::List(children) => {
                // A list in a map is no deeper than its key, unless the key took a `?`.
                let indent = match place {
                    Place::Member(indent) if !self.writer.is_indention() => indent,
                    _ => inner,
                };
                self.open.push(Open { children: self.tree.children(children), is_map: false, indent });
            }
        }
    }

    fn empty(&mut self, left: &[u8], right: &[u8]) {
        self.writer.indicator(left, writer::LEFT);
        self.writer.indicator(right, writer::RIGHT);
    }
}
