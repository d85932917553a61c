//! A regular expression as a tree: what a program is made of.

use std::collections::HashMap;

use super::{
    Counts,
    classes::{self, Range},
    escaped, named_class, posix_class, until, wrong,
};

/// Levels of a tree, as Go counts them.
const HEIGHT_MAX: usize = 1_000;

/// A part of an expression.
#[derive(Debug)]
pub(super) enum Part {
    Char(u32),
    /// One character of a class, by the number of that.
    Class(u32),
    Position(Position),
    All(Vec<Part>),
    Any(Vec<Part>),
    /// As many as the counts say; as few as possible, when it is lazy.
    Repeat(Box<Part>, Counts, bool),
}

/// A condition of a place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    TextBegins,
    TextEnds,
    LineBegins,
    LineEnds,
    /// Between a letter of ASCII and what is none.
    WordBoundary,
    NoWordBoundary,
}

/// Why there is no tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoParts {
    /// In Go's words.
    Wrong(String),
    TooLarge,
}

/// A tree and its classes.
pub(super) struct Parts {
    pub(super) root: Part,
    pub(super) classes: Vec<Box<[Range]>>,
}

/// Flags that are on.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Flags {
    folds_case: bool,
    has_lines: bool,
    dot_is_all: bool,
    /// Repetitions without a `?` are those that are lazy.
    is_lazy: bool,
}

/// A group that is open.
#[derive(Default)]
struct Group {
    flags: Flags,
    captures: bool,
    /// Its alternatives but the last one.
    before: Vec<Measured>,
    /// The parts of the last alternative.
    parts: Vec<Measured>,
}

/// A part and the levels below it.
struct Measured(Part, usize);

impl Group {
    fn end_alternative(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        let is_literal = parts.len() > 1 && parts.iter().all(|Measured(part, _)| matches!(part, Part::Char(_)));
        let whole = joined(parts, Part::All);
        self.before.push(if is_literal { Measured(whole.0, 1) } else { whole });
    }

    fn close(mut self) -> Measured {
        self.end_alternative();
        let Measured(part, height) = joined(self.before, Part::Any);
        Measured(part, height + usize::from(self.captures))
    }
}

fn joined(mut parts: Vec<Measured>, join: fn(Vec<Part>) -> Part) -> Measured {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            let height = 1 + parts.iter().map(|Measured(_, height)| *height).max().unwrap_or(0);
            Measured(join(parts.into_iter().map(|Measured(part, _)| part).collect()), height)
        }
    }
}

/// Reads an expression. `work` is how many bytes may be touched, and is what is left of them afterwards.
pub(super) fn read(pattern: &str, work: &mut usize) -> Result<Parts, NoParts> {
    if let Some(why) = wrong(pattern) {
        return Err(NoParts::Wrong(why));
    }
    let mut reader =
        Reader { whole: pattern, outer: Vec::new(), group: Group::default(), classes: Vec::new(), known: HashMap::new(), work };
    reader.spend(pattern.len())?;
    reader.read(pattern)?;
    let group = std::mem::take(&mut reader.group);
    let root = group.close();
    reader.tall(root.1)?;
    Ok(Parts { root: root.0, classes: reader.classes })
}

struct Reader<'p> {
    whole: &'p str,
    outer: Vec<Group>,
    group: Group,
    classes: Vec<Box<[Range]>>,
    /// The classes by their text.
    known: HashMap<(&'p str, bool), u32>,
    work: &'p mut usize,
}

impl<'p> Reader<'p> {
    fn spend(&mut self, bytes: usize) -> Result<(), NoParts> {
        let left = self.work.checked_sub(bytes);
        *self.work = left.unwrap_or(0);
        left.map(|_| ()).ok_or(NoParts::TooLarge)
    }

    fn tall(&self, height: usize) -> Result<(), NoParts> {
        let wrong = || NoParts::Wrong(format!("error parsing regexp: expression nests too deeply: `{}`", self.whole));
        if height > HEIGHT_MAX { Err(wrong()) } else { Ok(()) }
    }

    /// Of what is known to be an expression.
    fn read(&mut self, mut rest: &'p str) -> Result<(), NoParts> {
        while let Some(next) = rest.chars().next() {
            let after = &rest[next.len_utf8()..];
            let flags = self.group.flags;
            rest = match next {
                '(' if after.starts_with('?') => self.perl_group(after)?,
                '(' => self.open(flags, true, after),
                ')' => self.close(after)?,
                '|' => {
                    self.group.end_alternative();
                    after
                }
                '[' => self.class(rest)?,
                '*' => self.repeat(Counts { least: 0, most: None }, after)?,
                '+' => self.repeat(Counts { least: 1, most: None }, after)?,
                '?' => self.repeat(Counts { least: 0, most: Some(1) }, after)?,
                '{' if let Some((counts, after)) = Counts::read(rest) => self.repeat(counts, after)?,
                '.' if flags.dot_is_all => self.named("all", &[], true, after)?,
                '.' => self.named("line", &[(0xa, 0xa)], true, after)?,
                '^' => self.position(if flags.has_lines { Position::LineBegins } else { Position::TextBegins }, after),
                '$' => self.position(if flags.has_lines { Position::LineEnds } else { Position::TextEnds }, after),
                '\\' => self.escape(rest)?,
                literal => self.literal(literal.into(), &rest[..literal.len_utf8()], after)?,
            };
        }
        Ok(())
    }

    fn part(&mut self, part: Part) {
        self.group.parts.push(Measured(part, 1));
    }

    fn position(&mut self, position: Position, after: &'p str) -> &'p str {
        self.part(Part::Position(position));
        after
    }

    fn open(&mut self, flags: Flags, captures: bool, after: &'p str) -> &'p str {
        let group = Group { flags, captures, ..Group::default() };
        self.outer.push(std::mem::replace(&mut self.group, group));
        after
    }

    fn close(&mut self, after: &'p str) -> Result<&'p str, NoParts> {
        let outer = self.outer.pop().unwrap_or_default();
        let closed = std::mem::replace(&mut self.group, outer).close();
        self.tall(closed.1)?;
        self.group.parts.push(closed);
        Ok(after)
    }

    fn repeat(&mut self, counts: Counts, after: &'p str) -> Result<&'p str, NoParts> {
        let rest = after.strip_prefix('?').unwrap_or(after);
        if let Some(Measured(part, height)) = self.group.parts.pop() {
            self.tall(height + 1)?;
            let is_lazy = self.group.flags.is_lazy != (rest.len() < after.len());
            self.group.parts.push(Measured(Part::Repeat(Box::new(part), counts, is_lazy), height + 1));
        }
        Ok(rest)
    }

    /// What begins with `(?`, behind the bracket: a group without a number, or flags for what follows in the group.
    fn perl_group(&mut self, after: &'p str) -> Result<&'p str, NoParts> {
        if after.starts_with("?P<") || after.starts_with("?<") {
            let end = after.find('>').map_or(after.len(), |end| end + 1);
            return Ok(self.open(self.group.flags, true, &after[end..]));
        }
        let mut flags = self.group.flags;
        let mut is_on = true;
        let mut rest = after[1..].chars();
        while let Some(next) = rest.next() {
            match next {
                'i' => flags.folds_case = is_on,
                'm' => flags.has_lines = is_on,
                's' => flags.dot_is_all = is_on,
                'U' => flags.is_lazy = is_on,
                '-' => is_on = false,
                ':' => return Ok(self.open(flags, false, rest.as_str())),
                ')' => break,
                _ => {}
            }
        }
        self.group.flags = flags;
        Ok(rest.as_str())
    }

    fn escape(&mut self, whole: &'p str) -> Result<&'p str, NoParts> {
        let position = match whole.as_bytes().get(1) {
            Some(b'A') => Some(Position::TextBegins),
            Some(b'z') => Some(Position::TextEnds),
            Some(b'b') => Some(Position::WordBoundary),
            Some(b'B') => Some(Position::NoWordBoundary),
            Some(b'Q') => {
                let (literal, rest) = whole[2..].split_once("\\E").unwrap_or((&whole[2..], ""));
                for (at, c) in literal.char_indices() {
                    self.literal(c.into(), &literal[at..at + c.len_utf8()], rest)?;
                }
                return Ok(rest);
            }
            _ => None,
        };
        if let Some(position) = position {
            return Ok(self.position(position, &whole[2..]));
        }
        if let Ok(Some(rest)) = named_class(whole) {
            let text = until(whole, rest);
            if self.known(text).is_none() {
                let ranges = self.ranges_of(text)?;
                self.put(text, ranges)?;
            }
            return Ok(rest);
        }
        let Ok((value, rest)) = escaped(whole) else { return Ok("") };
        self.literal(value, until(whole, rest), rest)
    }

    fn literal(&mut self, value: u32, text: &'p str, after: &'p str) -> Result<&'p str, NoParts> {
        if !self.group.flags.folds_case {
            self.part(Part::Char(value));
        } else if self.known(text).is_none() {
            let mut ranges = vec![(value, value)];
            classes::fold(&mut ranges);
            match *ranges {
                [(low, high)] if low == high => self.part(Part::Char(value)),
                _ => self.put(text, ranges)?,
            }
        }
        Ok(after)
    }

    /// Puts a class that has a text already, if it has.
    fn known(&mut self, text: &'p str) -> Option<()> {
        let class = *self.known.get(&(text, self.group.flags.folds_case))?;
        self.part(Part::Class(class));
        Some(())
    }

    fn put(&mut self, text: &'p str, ranges: Vec<Range>) -> Result<(), NoParts> {
        self.spend(size_of_val(&*ranges) + size_of::<Box<[Range]>>())?;
        let class = u32::try_from(self.classes.len()).unwrap_or(u32::MAX);
        self.classes.push(ranges.into());
        self.known.insert((text, self.group.flags.folds_case), class);
        self.part(Part::Class(class));
        Ok(())
    }

    /// A class under a name that is no text of an expression.
    fn named(&mut self, name: &'static str, ranges: &[Range], is_negated: bool, after: &'p str) -> Result<&'p str, NoParts> {
        if self.known(name).is_none() {
            let mut ranges = ranges.to_vec();
            if is_negated {
                classes::negate(&mut ranges);
            }
            self.put(name, ranges)?;
        }
        Ok(after)
    }

    /// The ranges of `\d`, `\pL` or `[:^alpha:]`.
    fn ranges_of(&mut self, text: &str) -> Result<Vec<Range>, NoParts> {
        let (mut ranges, is_negated) = match text.as_bytes() {
            [b'[', ..] => {
                let name = text.trim_start_matches("[:").trim_end_matches(":]");
                let positive = name.strip_prefix('^');
                (classes::posix(positive.unwrap_or(name)).to_vec(), positive.is_some())
            }
            [_, letter @ (b'p' | b'P'), ..] => {
                let name = text[2..].strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(&text[2..]);
                let positive = name.strip_prefix('^');
                (classes::unicode(positive.unwrap_or(name)), (*letter == b'P') != positive.is_some())
            }
            [_, letter, ..] => (classes::perl(*letter).to_vec(), letter.is_ascii_uppercase()),
            _ => (Vec::new(), false),
        };
        self.spend(size_of_val(&*ranges))?;
        self.folded(&mut ranges)?;
        if is_negated {
            classes::negate(&mut ranges);
        }
        Ok(ranges)
    }

    fn folded(&mut self, ranges: &mut Vec<Range>) -> Result<(), NoParts> {
        if self.group.flags.folds_case {
            let looked_at = classes::fold(ranges);
            self.spend(looked_at * size_of::<Range>())?;
        }
        Ok(())
    }

    /// A class in brackets; what follows it.
    fn class(&mut self, whole: &'p str) -> Result<&'p str, NoParts> {
        let Ok(after) = super::class(whole) else { return Ok("") };
        let text = until(whole, after);
        if self.known(text).is_some() {
            return Ok(after);
        }
        let inside = &text[1..];
        let positive = inside.strip_prefix('^');
        let mut rest = positive.unwrap_or(inside);
        let (mut named, mut own) = (Vec::new(), Vec::new());
        while rest.len() > 1 {
            if let Some(after) = posix_class(rest).ok().flatten().or_else(|| named_class(rest).ok().flatten()) {
                let ranges = self.ranges_of(until(rest, after))?;
                self.spend(size_of_val(&*ranges))?;
                named.extend(ranges);
                rest = after;
                continue;
            }
            let Ok((low, after)) = super::class_char(rest, rest) else { break };
            let range = after.strip_prefix('-').filter(|after| !after.is_empty() && !after.starts_with(']'));
            let (high, after) = range.and_then(|range| super::class_char(range, range).ok()).unwrap_or((low, after));
            self.spend(size_of::<Range>())?;
            own.push((low, high));
            rest = after;
        }
        self.folded(&mut own)?;
        own.append(&mut named);
        classes::merge(&mut own);
        if positive.is_some() {
            classes::negate(&mut own);
        }
        self.put(text, own)?;
        Ok(after)
    }
}
