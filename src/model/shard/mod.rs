//! The shard of a collection that a request wants (`shardSelector`, KEP-5866, spec list-watch §11).
//!
//! The text is a CEL expression, of which only `shardRange(field, start, end)` and `||` mean something. What else it may say, and the words with
//! which it is refused, were recorded from kube-apiserver 1.36.3.

use std::fmt;

use super::Object;
use syntax::{Expr, Literal};

mod lexer;
mod syntax;
#[cfg(test)]
mod tests;

/// Ranges of hashes of one field; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    field: Field,
    /// As they were asked for.
    ranges: Box<[Range]>,
    /// The same hashes, from the first to the last of each run: sorted and apart, so that one is found by halving.
    runs: Box<[(u64, u64)]>,
}

/// What is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Field {
    Uid,
    Namespace,
}

/// Hashes from `start` until before `end`; no end is 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Range {
    start: u64,
    end: Option<u64>,
}

impl Shard {
    /// Reads a `shardSelector`.
    ///
    /// # Errors
    /// What follows `invalid shard selector: ` in the answer.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("empty shard selector is not allowed; omit the parameter for unfiltered lists".to_owned());
        }
        let expr = syntax::parse(text).map_err(|why| format!("CEL parse error: {why}"))?;
        let mut found = Vec::new();
        walk(&expr, &mut found)?;
        let Some(&(field, _)) = found.first() else { return Err("no shard range".to_owned()) };
        if let Some((other, _)) = found.iter().find(|(other, _)| *other != field) {
            return Err(format!("all shard ranges must use the same field, got \"{field}\" and \"{other}\""));
        }
        Ok(Self::of(field, found.into_iter().map(|(_, range)| range).collect()))
    }

    fn of(field: Field, ranges: Box<[Range]>) -> Self {
        Self { field, runs: runs(&ranges), ranges }
    }

    /// Whether the object belongs to the shard.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        let hash = match self.field {
            Field::Uid => object.uid_hash,
            Field::Namespace => hash(object.namespace()),
        };
        let after = self.runs.partition_point(|(first, _)| *first <= hash);
        after > 0 && hash <= self.runs[after - 1].1
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of_val(&*self.ranges) + size_of_val(&*self.runs)
    }
}

/// As the answer shows it, whatever the spelling was that came.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Range { start, end }) in self.ranges.iter().enumerate() {
            let or = if i == 0 { "" } else { " || " };
            write!(f, "{or}shardRange({}, '0x{start:016x}', '", self.field)?;
            match end {
                Some(end) => write!(f, "0x{end:016x}')")?,
                None => write!(f, "{WHOLE}')")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uid => UID,
            Self::Namespace => NAMESPACE,
        })
    }
}

/// What ranges hold together.
fn runs(ranges: &[Range]) -> Box<[(u64, u64)]> {
    let mut sorted: Vec<(u64, u64)> = ranges.iter().map(|range| (range.start, range.end.map_or(u64::MAX, |end| end - 1))).collect();
    sorted.sort_unstable();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (first, last) in sorted {
        match runs.last_mut() {
            Some(run) if first <= run.1 => run.1 = run.1.max(last),
            _ => runs.push((first, last)),
        }
    }
    runs.into()
}

/// FNV-1a, 64 bits: the hash of a field's value.
#[must_use]
pub fn hash(value: &str) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    value.bytes().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

const UID: &str = "object.metadata.uid";
const NAMESPACE: &str = "object.metadata.namespace";

/// The one bound of 17 digits, 2^64.
const WHOLE: &str = "0x10000000000000000";

/// Digits of every other bound.
const DIGITS: usize = 16;

/// Collects the ranges of an expression from left to right.
fn walk(expr: &Expr, found: &mut Vec<(Field, Range)>) -> Result<(), String> {
    match expr {
        Expr::Or(terms) => terms.iter().try_for_each(|term| walk(term, found)),
        Expr::Call { function, arguments } if function == "shardRange" => {
            found.push(range(arguments)?);
            Ok(())
        }
        Expr::Call { function, .. } => Err(format!("unsupported function \"{function}\"; only shardRange() and || are allowed")),
        other => Err(format!("unexpected expression kind {}; expected shardRange() call or || operator", other.kind())),
    }
}

fn range(arguments: &[Expr]) -> Result<(Field, Range), String> {
    let [path, start, end] = arguments else {
        return Err(format!("shardRange() requires exactly 3 arguments, got {}", arguments.len()));
    };
    let path = path.path().map_err(|kind| {
        format!("shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind {kind}")
    })?;
    let field = match path.as_str() {
        UID => Field::Uid,
        NAMESPACE => Field::Namespace,
        _ => return Err(format!("unsupported field path \"{path}\"; supported: {UID}, {NAMESPACE}")),
    };
    let (start, end) = (bound(start, "hexStart")?, bound(end, "hexEnd")?);
    let past_the_end = |bound: Option<u64>| bound.map_or(1 << 64, u128::from);
    match start {
        Some(first) if past_the_end(start) < past_the_end(end) => Ok((field, Range { start: first, end })),
        _ => Err(format!("shard range start {:#018x} must be less than end {:#018x}", past_the_end(start), past_the_end(end))),
    }
}

/// The number of a bound; `None` is 2^64.
fn bound(expr: &Expr, name: &str) -> Result<Option<u64>, String> {
    let text = match expr {
        Expr::Literal(Literal::Text(text)) => text,
        Expr::Literal(Literal::Other(kind)) => return Err(format!("{name} must be a string literal, got {kind}")),
        other => return Err(format!("{name} must be a string literal (e.g. '0xff'), got expression kind {}", other.kind())),
    };
    let quoted = go::quote::quoted;
    let Some(digits) = text.strip_prefix("0x") else { return Err(format!("{name} must have '0x' prefix, got {}", quoted(text))) };
    if digits.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if digits.len() > DIGITS + 1 {
        return Err(format!("{name}: hex value too long ({} chars, max {}): {}", digits.len(), DIGITS + 1, quoted(digits)));
    }
    if let Some(wrong) = digits.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
        return Err(format!("{name}: invalid hex character {} in {}", quoted(&wrong.to_string()), quoted(text)));
    }
    match u64::from_str_radix(digits, 16) {
        _ if text == WHOLE => Ok(None),
        Ok(number) if digits.len() == DIGITS => Ok(Some(number)),
        _ if digits.len() > DIGITS => Err(format!("{name}: 17-digit hex value must be '{WHOLE}' (2^64), got {}", quoted(text))),
        _ => Err(format!("{name} must be a 0x-prefixed 16-digit hex value, got {} (did you mean \"0x{digits:0>DIGITS$}\"?)", quoted(text))),
    }
}
