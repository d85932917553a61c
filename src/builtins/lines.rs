//! The difference between two structures, as kube-apiserver prints it: their JSON line by line, in the unified format (`util/diff` with go-difflib).

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    ops::Range,
};

/// Lines around a change.
const CONTEXT: usize = 3;
/// From so many lines on, those that stand often are no beginning of a match.
const POPULAR_FROM: usize = 200;
/// Comparisons after which the rest counts as changed; ours: a client writes both sides.
const STEPS_MAX: usize = 4_000_000;

/// Bytes of both texts from which on their difference is left out; ours: Go compares texts of any length.
const BYTES_MAX: usize = 1 << 20;

/// Returns the difference between two JSON texts, each member on a line.
pub(crate) fn difference(old: &str, new: &str) -> String {
    if old.len() + new.len() > BYTES_MAX {
        return String::new();
    }
    let (old, new) = (indented(old), indented(new));
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut out = String::new();
    for hunk in hunks(&old, &new) {
        // Writing into a text does not fail.
        let _ = write_hunk(&hunk, &old, &new, &mut out);
    }
    out
}

/// JSON with one space a level.
fn indented(json: &str) -> String {
    let two = go::indent::indent(json.as_bytes());
    let two = String::from_utf8_lossy(&two);
    let halved = two.lines().map(|line| {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        &line[spaces / 2..]
    });
    halved.collect::<Vec<_>>().join("\n")
}

/// A run of lines that are the same, or that replace each other.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    is_same: bool,
    old: Range<usize>,
    new: Range<usize>,
}

/// Lines that are the same on both sides.
#[derive(Clone, Copy, Debug)]
struct Match {
    old: usize,
    new: usize,
    size: usize,
}

fn write_hunk(hunk: &[Step], old: &[&str], new: &[&str], out: &mut String) -> fmt::Result {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return Ok(()) };
    writeln!(out, "@@ -{} +{} @@", range(first.old.start..last.old.end), range(first.new.start..last.new.end))?;
    for step in hunk {
        if step.is_same {
            old[step.old.clone()].iter().try_for_each(|line| writeln!(out, " {line}"))?;
            continue;
        }
        old[step.old.clone()].iter().try_for_each(|line| writeln!(out, "-{line}"))?;
        new[step.new.clone()].iter().try_for_each(|line| writeln!(out, "+{line}"))?;
    }
    Ok(())
}

/// Lines count from one; an empty range is the line before it.
fn range(lines: Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => (lines.start + 1).to_string(),
        length => format!("{},{length}", lines.start + 1),
    }
}

/// Changes with the lines around them.
fn hunks(old: &[&str], new: &[&str]) -> Vec<Vec<Step>> {
    let mut steps = steps(old, new);
    if let Some(first) = steps.first_mut().filter(|step| step.is_same) {
        *first = end_of(first);
    }
    if let Some(last) = steps.last_mut().filter(|step| step.is_same) {
        *last = start_of(last);
    }
    let (mut hunks, mut hunk) = (Vec::new(), Vec::new());
    for mut step in steps {
        if step.is_same && step.old.len() > 2 * CONTEXT {
            hunk.push(start_of(&step));
            hunks.push(std::mem::take(&mut hunk));
            step = end_of(&step);
        }
        hunk.push(step);
    }
    if hunk.iter().any(|step| !step.is_same) {
        hunks.push(hunk);
    }
    hunks.retain(|hunk| hunk.iter().any(|step| !step.is_same));
    hunks
}

fn start_of(step: &Step) -> Step {
    let length = step.old.len().min(CONTEXT);
    Step { is_same: true, old: step.old.start..step.old.start + length, new: step.new.start..step.new.start + length }
}

fn end_of(step: &Step) -> Step {
    let length = step.old.len().min(CONTEXT);
    Step { is_same: true, old: step.old.end - length..step.old.end, new: step.new.end - length..step.new.end }
}

fn steps(old: &[&str], new: &[&str]) -> Vec<Step> {
    let (mut steps, mut done) = (Vec::new(), Match { old: 0, new: 0, size: 0 });
    let end = Match { old: old.len(), new: new.len(), size: 0 };
    for found in matches(old, new).into_iter().chain([end]) {
        let changed = Step { is_same: false, old: done.old..found.old, new: done.new..found.new };
        if !changed.old.is_empty() || !changed.new.is_empty() {
            steps.push(changed);
        }
        done = Match { old: found.old + found.size, new: found.new + found.size, size: 0 };
        if found.size > 0 {
            steps.push(Step { is_same: true, old: found.old..done.old, new: found.new..done.new });
        }
    }
    steps
}

/// All matches in order, those that touch joined.
fn matches(old: &[&str], new: &[&str]) -> Vec<Match> {
    let mut search = Search::of(old, new);
    let (mut found, mut left) = (Vec::new(), vec![(0..old.len(), 0..new.len())]);
    while let Some((in_old, in_new)) = left.pop() {
        let Some(longest) = search.longest(in_old.clone(), in_new.clone()) else { continue };
        let (old_end, new_end) = (longest.old + longest.size, longest.new + longest.size);
        if in_old.start < longest.old && in_new.start < longest.new {
            left.push((in_old.start..longest.old, in_new.start..longest.new));
        }
        if old_end < in_old.end && new_end < in_new.end {
            left.push((old_end..in_old.end, new_end..in_new.end));
        }
        found.push(longest);
    }
    found.sort_by_key(|found| found.old);
    let mut joined: Vec<Match> = Vec::new();
    for next in found {
        match joined.last_mut().filter(|last| last.old + last.size == next.old && last.new + last.size == next.new) {
            Some(last) => last.size += next.size,
            None => joined.push(next),
        }
    }
    joined
}

/// What is looked at for matches.
struct Search<'a> {
    old: &'a [&'a str],
    new: &'a [&'a str],
    /// Where each line is in `new`; without those that are there often.
    places: HashMap<&'a str, Vec<usize>>,
    /// The lengths of matches that end at a line of `new`, for the last row and the one before it, each with the number of its row.
    lengths: [Vec<(usize, usize)>; 2],
    row: usize,
    steps: usize,
}

impl<'a> Search<'a> {
    fn of(old: &'a [&'a str], new: &'a [&'a str]) -> Self {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        new.iter().enumerate().for_each(|(at, line)| places.entry(line).or_default().push(at));
        if new.len() >= POPULAR_FROM {
            let often = new.len() / 100 + 1;
            places.retain(|_, places| places.len() <= often);
        }
        let none = || vec![(0, 0); new.len()];
        Self { old, new, places, lengths: [none(), none()], row: 1, steps: STEPS_MAX }
    }

    /// Returns the longest match within both ranges, the first of several.
    fn longest(&mut self, in_old: Range<usize>, in_new: Range<usize>) -> Option<Match> {
        let mut best = Match { old: in_old.start, new: in_new.start, size: 0 };
        // No row of an earlier search is the one before.
        self.row += 1;
        for i in in_old.clone() {
            self.row += 1;
            self.steps = self.steps.checked_sub(1)?;
            let places = self.places.get(self.old[i]).map_or(&[][..], Vec::as_slice);
            let from = places.partition_point(|place| *place < in_new.start);
            let [even, odd] = &mut self.lengths;
            let (this, before) = if self.row.is_multiple_of(2) { (even, odd) } else { (odd, even) };
            for &j in places[from..].iter().take_while(|place| **place < in_new.end) {
                self.steps = self.steps.checked_sub(1)?;
                let before = j.checked_sub(1).map_or((0, 0), |before_j| before[before_j]);
                let length = 1 + if before.0 + 1 == self.row { before.1 } else { 0 };
                this[j] = (self.row, length);
                if length > best.size {
                    best = Match { old: i + 1 - length, new: j + 1 - length, size: length };
                }
            }
        }
        let best = self.grown(best, &in_old, &in_new);
        (best.size > 0).then_some(best)
    }

    /// Lines that stand often go with those beside them.
    fn grown(&self, mut best: Match, in_old: &Range<usize>, in_new: &Range<usize>) -> Match {
        let is_same = |old: usize, new: usize| self.old[old] == self.new[new];
        while best.old > in_old.start && best.new > in_new.start && is_same(best.old - 1, best.new - 1) {
            best = Match { old: best.old - 1, new: best.new - 1, size: best.size + 1 };
        }
        while best.old + best.size < in_old.end && best.new + best.size < in_new.end && is_same(best.old + best.size, best.new + best.size)
        {
            best.size += 1;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by Go.
    #[test]
    fn changes_are_shown_with_lines_around() {
        assert_eq!(difference(r#"{"a":1}"#, r#"{"a":1}"#), "");
        assert_eq!(difference(r#"{"a":1,"b":2}"#, r#"{"a":1,"b":3}"#), "@@ -1,4 +1,4 @@\n {\n  \"a\": 1,\n- \"b\": 2\n+ \"b\": 3\n }\n");
        let numbers = |changed: &str| format!("[0,1,2,3,4,{changed},6,7,8,9,10,11,12,13,14,{changed},16]");
        let want = "@@ -4,7 +4,7 @@\n  2,\n  3,\n  4,\n- 5,\n+ 6,\n  6,\n  7,\n  8,\n@@ -14,6 +14,6 @@\n  12,\n  13,\n  14,\n- 5,\n+ 6,\n  16\n ]\n";
        assert_eq!(difference(&numbers("5"), &numbers("6")), want);
        assert_eq!(difference("[]", r#"["a"]"#), "@@ -1 +1,3 @@\n-[]\n+[\n+ \"a\"\n+]\n");
    }

    #[test]
    fn long_texts_end() {
        let many = |line: &str| format!("[{}]", vec![line; 6_000].join(","));
        assert!(difference(&many("1"), &many("2")).len() > 12_000);
        let mixed = |from: usize| format!("[{}]", (from..from + 6_000).map(|i| (i % 150).to_string()).collect::<Vec<_>>().join(","));
        assert!(!difference(&mixed(0), &mixed(75)).is_empty());
    }
}
