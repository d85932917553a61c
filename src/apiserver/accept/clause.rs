//! The clauses of an `Accept` header as `goautoneg` reads and orders them, by which kube-apiserver negotiates (spec api-surface §3.2).

use go::strconv;

/// What a client accepts, in one clause.
#[derive(Debug, PartialEq)]
pub(crate) struct Clause<'a> {
    /// Before the slash.
    pub(crate) kind: &'a str,
    /// After the slash.
    pub(crate) subkind: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

/// As many clauses are ordered by insertion, as Go's `sort` does. Its order of more is its own where wildcards have a higher quality than others.
const INSERTED_MAX: usize = 12;

/// The clauses of a header, the preferred first.
pub(crate) fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
    if clauses.len() > INSERTED_MAX {
        clauses.sort_by(|a, b| {
            let wildcards = (a.kind == "*").cmp(&(b.kind == "*")).then((a.subkind == "*").cmp(&(b.subkind == "*")));
            b.quality.total_cmp(&a.quality).then(wildcards)
        });
        return clauses;
    }
    for unsorted in 1..clauses.len() {
        let mut at = unsorted;
        while at > 0 && clauses[at].goes_before(&clauses[at - 1]) {
            clauses.swap(at, at - 1);
            at -= 1;
        }
    }
    clauses
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Clause<'a>> {
        let mut parts = text.trim_matches(' ').split(';');
        let (kind, rest) = before(parts.next()?, '/');
        let kind = kind.trim_matches(' ');
        let subkind = match before(rest, '/') {
            _ if rest.is_empty() && kind == "*" => "*",
            (subkind, "") if !rest.is_empty() => subkind.trim_matches(' '),
            _ => return None,
        };
        let mut clause = Clause { kind, subkind, quality: 1.0, parameters: Vec::new() };
        for (key, rest) in parts.map(|part| before(part, '=')) {
            match (key.trim_matches(' '), before(rest, '=')) {
                _ if rest.is_empty() => {}
                ("q", (value, "")) => clause.quality = strconv::parse_float(value),
                (key, (value, "")) => clause.parameters.push((key, value.trim_matches(' '))),
                _ => {}
            }
        }
        Some(clause)
    }

    /// No order: of two clauses each may go before the other.
    fn goes_before(&self, other: &Clause<'_>) -> bool {
        self.quality > other.quality || (self.kind != "*" && other.kind == "*") || (self.subkind != "*" && other.subkind == "*")
    }

    /// Whether it takes this media type: by name, by `kind/*` or `*/*`.
    pub(crate) fn takes(&self, kind: &str, subkind: &str) -> bool {
        (self.kind == kind && (self.subkind == subkind || self.subkind == "*")) || (self.kind == "*" && self.subkind == "*")
    }

    /// The last value of a parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

/// What stands before a separator and what after it; all of it, and nothing, without one.
fn before(text: &str, separator: char) -> (&str, &str) {
    text.split_once(separator).unwrap_or((text, ""))
}
