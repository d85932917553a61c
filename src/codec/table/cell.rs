//! The cells of one row, and the texts that many printers share: ages, names, joined lists, selectors.

use std::{borrow::Cow, fmt::Write};

use super::{age::Moment, node::Node};
use crate::encode;

/// A missing value, as most printers tell it.
pub(super) const NONE: &str = "<none>";
/// A missing value, as the other printers tell it.
pub(super) const UNSET: &str = "<unset>";

/// The cells of one row, written one after the other.
pub(super) struct Row<'o> {
    out: &'o mut Vec<u8>,
    now: Moment,
    empty: bool,
    /// JSON text of the row's conditions, if it has any: set by the printer of pods.
    pub(super) conditions: &'static str,
}

impl<'o> Row<'o> {
    /// Opens the array of cells.
    pub(super) fn open(now: Moment, out: &'o mut Vec<u8>) -> Self {
        out.push(b'[');
        Self { out, now, empty: true, conditions: "" }
    }

    /// Closes the array; gives the row's conditions.
    pub(super) fn close(self) -> &'static str {
        self.out.push(b']');
        self.conditions
    }

    /// How many bytes are written.
    pub(super) fn bytes(&self) -> usize {
        self.out.len()
    }

    fn cell(&mut self) -> &mut Vec<u8> {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        self.out
    }

    /// A string.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        encode::string_into(text, self.cell());
        self
    }

    /// A string; another one if it is empty.
    pub(super) fn text_or(&mut self, text: &str, other: &str) -> &mut Self {
        self.text(if text.is_empty() { other } else { text })
    }

    /// The string that a Go pointer leads to; another one if it is nil.
    pub(super) fn pointer_or(&mut self, node: &Node<'_>, other: &str) -> &mut Self {
        self.text(if node.is_there() { node.text() } else { other })
    }

    /// An integer.
    pub(super) fn int(&mut self, n: i64) -> &mut Self {
        let out = self.cell();
        if n < 0 {
            out.push(b'-');
        }
        encode::revision_into(n.unsigned_abs(), out);
        self
    }

    /// How many there are.
    pub(super) fn count(&mut self, n: usize) -> &mut Self {
        self.int(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// A boolean.
    pub(super) fn flag(&mut self, value: bool) -> &mut Self {
        self.cell().extend_from_slice(if value { b"true" } else { b"false" });
        self
    }

    /// A number, by Go's rule.
    pub(super) fn float(&mut self, value: f64) -> &mut Self {
        let text = encode::go_float(value);
        self.cell().extend_from_slice(text.as_bytes());
        self
    }

    /// `null`.
    pub(super) fn null(&mut self) -> &mut Self {
        self.cell().extend_from_slice(b"null");
        self
    }

    /// `metadata.name`.
    pub(super) fn name(&mut self, object: &Node<'_>) -> &mut Self {
        self.text(object.at("metadata").at("name").text())
    }

    /// How long ago the object was created.
    pub(super) fn age(&mut self, object: &Node<'_>) -> &mut Self {
        let (now, created) = (self.now, moment(object.at("metadata").at("creationTimestamp")));
        let Some(created) = created.filter(|created| *created <= now) else {
            let age = self.elapsed(created);
            return self.text(&age);
        };
        // Digits and letters alone.
        let out = self.cell();
        out.push(b'"');
        created.until_into(now, out);
        out.push(b'"');
        self
    }

    /// How long ago a time was; `<unknown>` when there is none.
    pub(super) fn since(&self, time: &Node<'_>) -> Cow<'static, str> {
        self.elapsed(moment(time))
    }

    /// How long ago a moment was; `<unknown>` when there is none.
    pub(super) fn elapsed(&self, moment: Option<Moment>) -> Cow<'static, str> {
        moment.map_or(Cow::Borrowed("<unknown>"), |then| then.until(self.now).into())
    }
}

/// A time that is set.
pub(super) fn moment(time: &Node<'_>) -> Option<Moment> {
    Moment::parse(time.text()).filter(|moment| !moment.is_zero())
}

/// Texts joined by a separator.
pub(super) fn joined<T: AsRef<str>>(texts: impl IntoIterator<Item = T>, separator: &str) -> String {
    let mut all = String::new();
    for (i, text) in texts.into_iter().enumerate() {
        if i > 0 {
            all.push_str(separator);
        }
        all.push_str(text.as_ref());
    }
    all
}

/// The first three texts, and how many more there are: `a,b,c + 2 more...`.
pub(super) fn first_three<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    const SHOWN: usize = 3;
    let mut texts = texts.into_iter();
    let shown = joined(texts.by_ref().take(SHOWN), ",");
    match texts.count() {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

/// The names, and the images, of containers.
pub(super) fn containers(row: &mut Row<'_>, containers: &Node<'_>) {
    for member in ["name", "image"] {
        row.text(&joined(containers.items().iter().map(|container| container.at(member).text()), ","));
    }
}

/// Labels as a selector: `a=1,b=2` (apimachinery `labels.FormatLabels`).
pub(super) fn labels(labels: &Node<'_>) -> String {
    let pairs = labels.sorted().into_iter().map(|(name, value)| format!("{name}={}", value.text()));
    Some(joined(pairs, ",")).filter(|text| !text.is_empty()).unwrap_or_else(|| NONE.to_owned())
}

/// A `LabelSelector` as one text (apimachinery `FormatLabelSelector`); `<none>` when it selects nothing, or everything.
pub(super) fn selector_or_none(selector: &Node<'_>) -> String {
    match selector_text(selector) {
        Some(text) if text.is_empty() => NONE.to_owned(),
        Some(text) => text,
        None => "<error>".to_owned(),
    }
}

/// A `LabelSelector` as one text, sorted by key; `None` for what Go does not take for one.
pub(super) fn selector_text(selector: &Node<'_>) -> Option<String> {
    let equal = selector.at("matchLabels").sorted().into_iter().map(|(key, value)| Some((key, format!("{key}={}", value.text()))));
    let others = selector.at("matchExpressions").items().iter().map(requirement);
    let mut all: Vec<(&str, String)> = equal.chain(others).collect::<Option<_>>()?;
    all.sort_by_key(|(key, _)| *key);
    Some(joined(all.into_iter().map(|(_, text)| text), ","))
}

fn requirement<'n>(expression: &'n Node<'_>) -> Option<(&'n str, String)> {
    let key = expression.at("key").text();
    let mut values: Vec<&str> = expression.at("values").items().iter().map(Node::text).collect();
    let (word, needs_values) = match expression.at("operator").text() {
        "In" => ("in", true),
        "NotIn" => ("notin", true),
        "Exists" => ("", false),
        "DoesNotExist" => ("!", false),
        _ => return None,
    };
    if needs_values == values.is_empty() {
        return None;
    }
    values.sort_unstable();
    Some((key, if needs_values { format!("{key} {word} ({})", values.join(",")) } else { format!("{word}{key}") }))
}

/// A `LabelSelector` as its generated Go `String` method tells it.
pub(super) fn selector_debug(selector: &Node<'_>) -> String {
    let mut text = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    for (key, value) in selector.at("matchLabels").sorted() {
        let _ = write!(text, "{key}: {},", value.text());
    }
    text.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for expression in selector.at("matchExpressions").items() {
        let (key, operator) = (expression.at("key").text(), expression.at("operator").text());
        let values = joined(expression.at("values").items().iter().map(Node::text), " ");
        let _ = write!(text, "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},");
    }
    text.push_str("},}");
    text
}

/// A quantity: stored in its canonical form, so as it is; a missing one is `0`.
pub(super) fn quantity(node: &Node<'_>) -> String {
    match node {
        Node::Null => "0".to_owned(),
        node => scalar(node),
    }
}

/// An `IntOrString`, or a number that stands for a string.
pub(super) fn scalar(node: &Node<'_>) -> String {
    match node {
        Node::Int(n) => n.to_string(),
        Node::Float(f) => encode::go_float(*f),
        Node::Bool(value) => value.to_string(),
        node => node.text().to_owned(),
    }
}

/// Whether a condition is there, and what its member says.
pub(super) fn condition<'n, 'a>(conditions: &'n Node<'a>, kind: &str) -> Option<&'n Node<'a>> {
    conditions.items().iter().find(|condition| condition.at("type").text() == kind)
}

/// Whether there is a deletion timestamp.
pub(super) fn is_deleted(object: &Node<'_>) -> bool {
    object.path("metadata.deletionTimestamp").is_there()
}
