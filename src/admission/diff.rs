//! The lines in which two texts differ, as Python's `difflib` finds and shows them, which Kubernetes has in Go.

use std::collections::HashMap;
use std::fmt::Write;

/// Equal lines around what differs.
const CONTEXT: usize = 3;

/// Lines from which on those that come too often are not looked for.
const OFTEN_FROM: usize = 200;

/// Lines of both texts that are compared at most; of longer ones only the lengths are told. A difference takes as long as their product.
const LINES_MAX: usize = 1_024;

/// A run of lines that both have: where it begins in each, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    old: usize,
    new: usize,
    length: usize,
}

/// What becomes of lines.
#[derive(Clone, Copy, Debug)]
struct Step {
    is_equal: bool,
    old: (usize, usize),
    new: (usize, usize),
}

/// Returns what differs, as a unified diff without a head.
pub(crate) fn unified(old: &str, new: &str) -> String {
    let [old, new] = [old, new].map(|text| text.split('\n').collect::<Vec<_>>());
    if old.len() + new.len() > LINES_MAX {
        return format!("{} lines become {}", old.len(), new.len());
    }
    let mut out = String::new();
    for group in grouped(&steps(&old, &new)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let _ = writeln!(out, "@@ -{} +{} @@", range(first.old.0, last.old.1), range(first.new.0, last.new.1));
        for step in group {
            let mut tell = |sign: char, lines: &[&str]| {
                for line in lines {
                    let _ = writeln!(out, "{sign}{line}");
                }
            };
            if step.is_equal {
                tell(' ', &old[step.old.0..step.old.1]);
            } else {
                tell('-', &old[step.old.0..step.old.1]);
                tell('+', &new[step.new.0..step.new.1]);
            }
        }
    }
    out
}

fn range(start: usize, stop: usize) -> String {
    match stop - start {
        1 => (start + 1).to_string(),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

/// Steps in groups, with some equal lines around what differs.
fn grouped(steps: &[Step]) -> Vec<Vec<Step>> {
    let shortened = |step: &Step, head: usize, tail: usize| {
        let cut = |(from, to): (usize, usize)| {
            (if head == 0 { from.max(to.saturating_sub(tail)) } else { from }, if tail == 0 { to.min(from + head) } else { to })
        };
        Step { is_equal: true, old: cut(step.old), new: cut(step.new) }
    };
    let (mut groups, mut group) = (Vec::new(), Vec::new());
    let last = steps.len().saturating_sub(1);
    for (at, step) in steps.iter().enumerate() {
        let is_long = step.old.1 - step.old.0 > 2 * CONTEXT;
        if !step.is_equal {
            group.push(*step);
        } else if at == 0 {
            group.push(shortened(step, 0, CONTEXT));
        } else if at == last {
            group.push(shortened(step, CONTEXT, 0));
        } else if is_long {
            group.push(shortened(step, CONTEXT, 0));
            groups.push(std::mem::take(&mut group));
            group.push(shortened(step, 0, CONTEXT));
        } else {
            group.push(*step);
        }
    }
    if group.iter().any(|step| !step.is_equal) {
        groups.push(group);
    }
    groups
}

/// From one text to the other.
fn steps(old: &[&str], new: &[&str]) -> Vec<Step> {
    let (mut steps, mut at) = (Vec::new(), (0, 0));
    let end = Run { old: old.len(), new: new.len(), length: 0 };
    for run in runs(old, new).into_iter().chain([end]) {
        if at != (run.old, run.new) {
            steps.push(Step { is_equal: false, old: (at.0, run.old), new: (at.1, run.new) });
        }
        at = (run.old + run.length, run.new + run.length);
        if run.length > 0 {
            steps.push(Step { is_equal: true, old: (run.old, at.0), new: (run.new, at.1) });
        }
    }
    steps
}

/// The runs that both have, in order: the longest one, then those before and after it; neighbours are one.
fn runs(old: &[&str], new: &[&str]) -> Vec<Run> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(at);
    }
    if new.len() >= OFTEN_FROM {
        places.retain(|_, at| at.len() <= new.len() / 100 + 1);
    }
    let (mut found, mut left) = (Vec::new(), vec![((0, old.len()), (0, new.len()))]);
    while let Some((olds, news)) = left.pop() {
        let run = longest(old, new, &places, olds, news);
        if run.length > 0 {
            found.push(run);
            left.push(((olds.0, run.old), (news.0, run.new)));
            left.push(((run.old + run.length, olds.1), (run.new + run.length, news.1)));
        }
    }
    found.sort_unstable();
    let mut joined: Vec<Run> = Vec::new();
    for run in found {
        match joined.last_mut() {
            Some(last) if last.old + last.length == run.old && last.new + last.length == run.new => last.length += run.length,
            _ => joined.push(run),
        }
    }
    joined
}

/// The longest run within these ranges, the first of several: by lines that do not come too often, then with their equal neighbours.
fn longest(old: &[&str], new: &[&str], places: &HashMap<&str, Vec<usize>>, olds: (usize, usize), news: (usize, usize)) -> Run {
    let mut best = Run { old: olds.0, new: news.0, length: 0 };
    // The length of the run that ends with the previous old line and this new one.
    let mut ending: HashMap<usize, usize> = HashMap::new();
    for (at, line) in old.iter().enumerate().take(olds.1).skip(olds.0) {
        let mut now = HashMap::new();
        for &to in places.get(line).into_iter().flatten().filter(|to| (news.0..news.1).contains(*to)) {
            let length = to.checked_sub(1).and_then(|before| ending.get(&before)).copied().unwrap_or(0) + 1;
            now.insert(to, length);
            if length > best.length {
                best = Run { old: at + 1 - length, new: to + 1 - length, length };
            }
        }
        ending = now;
    }
    while best.old > olds.0 && best.new > news.0 && old[best.old - 1] == new[best.new - 1] {
        best = Run { old: best.old - 1, new: best.new - 1, length: best.length + 1 };
    }
    while best.old + best.length < olds.1 && best.new + best.length < news.1 && old[best.old + best.length] == new[best.new + best.length] {
        best.length += 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python's `difflib.unified_diff` says, without its head.
    #[test]
    fn lines_differ_as_python_finds_it() {
        for (old, new, told) in [
            (
                "a b c d e f g h i j k l m n o p q r s",
                "b c d x f g h i j k l m n o p q y s t",
                "@@ -1,8 +1,7 @@\n-a\n b\n c\n d\n-e\n+x\n f\n g\n h\n@@ -15,5 +14,6 @@\n o\n p\n q\n-r\n+y\n s\n+t\n",
            ),
            ("a a b a a c", "a b a a a c a", "@@ -1,6 +1,7 @@\n-a\n a\n b\n a\n a\n+a\n c\n+a\n"),
            ("a b", "a b", ""),
            ("", "a", "@@ -1 +1 @@\n-\n+a\n"),
            ("a b c d", "d c b a", "@@ -1,4 +1,4 @@\n+d\n+c\n+b\n a\n-b\n-c\n-d\n"),
            ("{ k } , { k } , x", "{ k } , y , { k }", "@@ -2,8 +2,8 @@\n k\n }\n ,\n+y\n+,\n {\n k\n }\n-,\n-x\n"),
        ] {
            let [old, new] = [old, new].map(|words| words.replace(' ', "\n"));
            assert_eq!(unified(&old, &new), told, "{old:?} {new:?}");
        }
    }

    /// Lines that come too often are not looked for, so what is found is not the longest that both have.
    #[test]
    fn lines_that_come_often_are_passed_over() {
        let old: Vec<String> = (0..260).map(|at| if at % 3 == 0 { format!("l{at}") } else { (at % 7).to_string() }).collect();
        let parts: [&[String]; 5] = [&old[..40], &["new".to_owned()], &old[45..130], &["1".to_owned(), "2".to_owned()], &old[128..]];
        assert_eq!(
            unified(&old.join("\n"), &parts.concat().join("\n")),
            "@@ -38,11 +38,7 @@\n 2\n 3\n l39\n-5\n-6\n-l42\n-1\n-2\n+new\n l45\n 4\n 5\n@@ -128,6 +124,10 @@\n 1\n 2\n l129\n+1\n+2\n+2\n+l129\n 4\n 5\n l132\n"
        );
    }
}
