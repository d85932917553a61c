//! Classes of characters: sorted ranges of code points, what Unicode says of names, and what ignoring case adds.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// A range of code points, both ends included.
pub(super) type Range = (u32, u32);

const LAST: u32 = 0x10_ffff;

/// Every letter that has others which differ in case only, with one of those, sorted.
static FOLDS: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| {
    /// Above Adlam there are none.
    const LAST_WITH_CASE: u32 = 0x1_e943;
    let mut folds = Vec::new();
    for c in (0..=LAST_WITH_CASE).filter_map(char::from_u32) {
        let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
        if class.try_case_fold_simple().is_err() {
            continue;
        }
        let others = class.iter().flat_map(|range| u32::from(range.start())..=u32::from(range.end()));
        folds.extend(others.filter(|other| *other != u32::from(c)).map(|other| (u32::from(c), other)));
    }
    folds
});

/// The ranges of a class of Unicode that Go knows. It knows one that no text has a character of: halves of pairs.
pub(super) fn unicode(name: &str) -> Vec<Range> {
    let Ok(parsed) = regex_syntax::parse(&format!("\\p{{{name}}}")) else { return Vec::new() };
    match parsed.kind() {
        HirKind::Class(Class::Unicode(class)) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
        HirKind::Literal(literal) => {
            std::str::from_utf8(&literal.0).unwrap_or_default().chars().map(|c| (u32::from(c), u32::from(c))).collect()
        }
        _ => Vec::new(),
    }
}

/// Adds what differs from a class in case only. Returns how many letters were looked at.
pub(super) fn fold(ranges: &mut Vec<Range>) -> usize {
    let mut looked_at = 0;
    for at in 0..ranges.len() {
        let (low, high) = ranges[at];
        let from = FOLDS.partition_point(|(c, _)| *c < low);
        let folds = FOLDS[from..].iter().take_while(|(c, _)| *c <= high);
        let before = ranges.len();
        let added: Vec<Range> = folds.map(|(_, other)| (*other, *other)).collect();
        ranges.extend(added);
        looked_at += ranges.len() - before;
    }
    merge(ranges);
    looked_at
}

/// Sorts ranges and makes one of those that touch.
pub(super) fn merge(ranges: &mut Vec<Range>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let touches = next.0 <= before.1.saturating_add(1);
        if touches {
            before.1 = before.1.max(next.1);
        }
        touches
    });
}

/// Makes of a class all that is not in it.
pub(super) fn negate(ranges: &mut Vec<Range>) {
    merge(ranges);
    let mut rest = Vec::with_capacity(ranges.len() + 1);
    let mut next = 0;
    for (low, high) in ranges.iter() {
        if *low > next {
            rest.push((next, low - 1));
        }
        next = high + 1;
    }
    if next <= LAST {
        rest.push((next, LAST));
    }
    *ranges = rest;
}

/// The ranges of a class that has a name in brackets, `alpha`.
pub(super) fn posix(name: &str) -> &'static [Range] {
    match name {
        "alnum" => &[(0x30, 0x39), (0x41, 0x5a), (0x61, 0x7a)],
        "alpha" => &[(0x41, 0x5a), (0x61, 0x7a)],
        "ascii" => &[(0, 0x7f)],
        "blank" => &[(0x9, 0x9), (0x20, 0x20)],
        "cntrl" => &[(0, 0x1f), (0x7f, 0x7f)],
        "digit" => &[(0x30, 0x39)],
        "graph" => &[(0x21, 0x7e)],
        "lower" => &[(0x61, 0x7a)],
        "print" => &[(0x20, 0x7e)],
        "punct" => &[(0x21, 0x2f), (0x3a, 0x40), (0x5b, 0x60), (0x7b, 0x7e)],
        "space" => &[(0x9, 0xd), (0x20, 0x20)],
        "upper" => &[(0x41, 0x5a)],
        "word" => &[(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)],
        "xdigit" => &[(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)],
        _ => &[],
    }
}

/// The ranges of `\d`, `\s` and `\w`, which are ASCII.
pub(super) fn perl(letter: u8) -> &'static [Range] {
    match letter.to_ascii_lowercase() {
        b'd' => posix("digit"),
        b's' => &[(0x9, 0xa), (0xc, 0xd), (0x20, 0x20)],
        _ => posix("word"),
    }
}
