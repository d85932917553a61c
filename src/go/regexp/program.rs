//! A regular expression, compiled: whether a text has a match of it, in steps that are counted.
//!
//! Follows all ways of an expression at once, a character at a time, as Go does: what it takes is its size times the text at most, and nothing is kept between
//! two texts. Classes are ranges of characters, each once: an expression takes some twelve bytes for each of its characters, and its repetitions.

mod find;

use super::{
    Counts,
    classes::Range,
    parts::{self, NoParts, Part, Position},
};

/// Bytes that one expression may take.
pub const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Bytes that the expressions of one schema may take, each text once, those that are refused included.
pub const PATTERNS_BYTES_MAX: usize = 16 << 20;
/// Bytes of the text of an expression.
const PATTERN_BYTES_MAX: usize = 64 << 10;

/// An expression.
#[derive(Debug)]
pub struct Program {
    steps: Box<[Step]>,
    classes: Box<[Box<[Range]>]>,
    bytes: usize,
}

/// One step. What is none of a way goes on with the next one.
#[derive(Clone, Copy, Debug)]
enum Step {
    Char(u32),
    Class(u32),
    Position(Position),
    Both(u32, u32),
    To(u32),
    Match,
}

/// There were more steps to take than the caller allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySteps;

impl Program {
    /// Compiles an expression. `work` is how many bytes may be touched and made; it becomes what is left of them, also of an expression that is refused.
    ///
    /// # Errors
    /// Go's, of what is no expression; the one that it has for what is too large, of what takes more than there is of `work`.
    pub fn compile(pattern: &str, work: &mut usize) -> Result<Self, String> {
        let too_large = || format!("error parsing regexp: expression too large: `{pattern}`");
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(super::wrong(pattern).unwrap_or_else(too_large));
        }
        let before = *work;
        let parts = parts::read(pattern, work).map_err(|why| match why {
            NoParts::Wrong(why) => why,
            NoParts::TooLarge => too_large(),
        })?;
        let mut maker = Maker { steps: Vec::new(), steps_max: *work / size_of::<Step>() };
        let made = maker.part(&parts.root).and_then(|()| maker.push(Step::Match));
        *work -= (maker.steps.len() * size_of::<Step>()).min(*work);
        if made.is_err() {
            *work = 0;
            return Err(too_large());
        }
        Ok(Self { steps: maker.steps.into(), classes: parts.classes.into(), bytes: before - *work })
    }

    /// Compiles one of several expressions, which have so many bytes left: what it takes is taken from them, also if it is refused.
    ///
    /// # Errors
    /// As [`Self::compile`].
    pub fn compile_within(pattern: &str, left: &mut usize) -> Result<Self, String> {
        let mut work = COMPILED_BYTES_MAX.min(*left);
        let before = work;
        let made = Self::compile(pattern, &mut work);
        *left -= before - work;
        made
    }

    /// Returns the bytes that it takes, at most.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether a part of a text matches. `steps` becomes what is left of it.
    ///
    /// # Errors
    /// More than `steps` are needed.
    pub fn matches(&self, text: &str, steps: &mut u64) -> Result<bool, TooManySteps> {
        let mut run =
            Run { program: self, now: Places::new(self.steps.len()), next: Places::new(self.steps.len()), ways: Vec::new(), steps };
        // The room for places is touched where there are some; to get it takes a little.
        run.take(self.steps.len() as u64 / 64)?;
        run.run(text)
    }
}

struct TooLarge;

struct Maker {
    steps: Vec<Step>,
    steps_max: usize,
}

impl Maker {
    fn push(&mut self, step: Step) -> Result<(), TooLarge> {
        if self.steps.len() >= self.steps_max {
            return Err(TooLarge);
        }
        self.steps.push(step);
        Ok(())
    }

    /// The number of the next step.
    fn next(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX)
    }

    fn part(&mut self, part: &Part) -> Result<(), TooLarge> {
        match part {
            Part::Char(value) => self.push(Step::Char(*value)),
            Part::Class(class) => self.push(Step::Class(*class)),
            Part::Position(position) => self.push(Step::Position(*position)),
            Part::All(parts) => parts.iter().try_for_each(|part| self.part(part)),
            Part::Any(parts) => self.any(parts),
            Part::Repeat(part, counts, is_lazy) => self.repeat(part, *counts, *is_lazy),
        }
    }

    fn any(&mut self, parts: &[Part]) -> Result<(), TooLarge> {
        let mut ends = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            let fork = self.steps.len();
            if !is_last {
                self.push(Step::Both(self.next() + 1, 0))?;
            }
            self.part(part)?;
            if !is_last {
                ends.push(self.steps.len());
                self.push(Step::To(0))?;
                self.steps[fork] = Step::Both(u32::try_from(fork).unwrap_or(u32::MAX) + 1, self.next());
            }
        }
        let end = self.next();
        ends.into_iter().for_each(|at| self.steps[at] = Step::To(end));
        Ok(())
    }

    fn repeat(&mut self, part: &Part, Counts { least, most }: Counts, is_lazy: bool) -> Result<(), TooLarge> {
        let mut begin = self.next();
        for _ in 0..least {
            begin = self.next();
            self.part(part)?;
            if begin == self.next() {
                // It is empty, however often.
                return Ok(());
            }
        }
        match most {
            None if least > 0 => self.push(fork(is_lazy, begin, self.next() + 1)),
            None => {
                // Once or more, or not at all: the way through an empty part comes where Go has it.
                let first = self.steps.len();
                self.push(Step::Both(0, 0))?;
                self.part(part)?;
                self.push(fork(is_lazy, begin + 1, self.next() + 1))?;
                self.steps[first] = fork(is_lazy, begin + 1, self.next());
                Ok(())
            }
            Some(most) => {
                let mut forks = Vec::new();
                for _ in least..most {
                    forks.push(self.steps.len());
                    self.push(Step::Both(0, 0))?;
                    self.part(part)?;
                }
                let end = self.next();
                for at in forks {
                    self.steps[at] = fork(is_lazy, u32::try_from(at).unwrap_or(u32::MAX) + 1, end);
                }
                Ok(())
            }
        }
    }
}

/// Both ways, of which the one that is preferred comes first: into the part, if it is not lazy.
fn fork(is_lazy: bool, part: u32, end: u32) -> Step {
    if is_lazy { Step::Both(end, part) } else { Step::Both(part, end) }
}

/// Steps that are reached, each once.
struct Places {
    /// Where in `reached` a step is, if it is there.
    at: Vec<u32>,
    reached: Vec<u32>,
}

impl Places {
    fn new(steps: usize) -> Self {
        Self { at: vec![0; steps], reached: Vec::new() }
    }

    fn add(&mut self, step: u32) -> bool {
        let at = self.at[step as usize];
        if self.reached.get(at as usize) == Some(&step) {
            return false;
        }
        self.at[step as usize] = u32::try_from(self.reached.len()).unwrap_or(u32::MAX);
        self.reached.push(step);
        true
    }
}

struct Run<'p> {
    program: &'p Program,
    now: Places,
    next: Places,
    /// Steps that are still to be added.
    ways: Vec<u32>,
    steps: &'p mut u64,
}

impl Run<'_> {
    fn take(&mut self, steps: u64) -> Result<(), TooManySteps> {
        let left = self.steps.checked_sub(steps);
        *self.steps = left.unwrap_or(0);
        left.map(|_| ()).ok_or(TooManySteps)
    }

    fn run(mut self, text: &str) -> Result<bool, TooManySteps> {
        let begins_only = matches!(self.program.steps.first(), Some(Step::Position(Position::TextBegins)));
        let mut before = None;
        let mut rest = text.chars();
        loop {
            let mut after = rest.clone();
            let c = after.next();
            if (before.is_none() || !begins_only) && self.add(0, before, c)? {
                return Ok(true);
            }
            let Some(c) = c else { return Ok(false) };
            let follows = after.clone().next();
            if self.now.reached.is_empty() && begins_only {
                return Ok(false);
            }
            std::mem::swap(&mut self.now, &mut self.next);
            self.now.reached.clear();
            if self.step(c, follows)? {
                return Ok(true);
            }
            (before, rest) = (Some(c), after);
        }
    }

    /// Takes a character: from the places in `next`, which were those of now, to `now`.
    fn step(&mut self, c: char, follows: Option<char>) -> Result<bool, TooManySteps> {
        self.take(1)?;
        for at in 0..self.next.reached.len() {
            let step = self.next.reached[at];
            let fits = match self.program.steps[step as usize] {
                Step::Char(value) => value == u32::from(c),
                Step::Class(class) => has(&self.program.classes[class as usize], c),
                _ => false,
            };
            if fits && self.add(step + 1, Some(c), follows)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a step, and what is reached from it without a character, to the places of now. Returns whether the end is among them.
    fn add(&mut self, step: u32, before: Option<char>, after: Option<char>) -> Result<bool, TooManySteps> {
        self.ways.push(step);
        while let Some(step) = self.ways.pop() {
            self.take(1)?;
            if !self.now.add(step) {
                continue;
            }
            match self.program.steps[step as usize] {
                Step::Match => return Ok(true),
                Step::To(to) => self.ways.push(to),
                Step::Both(one, other) => self.ways.extend([other, one]),
                Step::Position(position) if is_at(position, before, after) => self.ways.push(step + 1),
                Step::Position(_) | Step::Char(_) | Step::Class(_) => {}
            }
        }
        Ok(false)
    }
}

fn has(class: &[Range], c: char) -> bool {
    let c = u32::from(c);
    let at = class.partition_point(|(_, high)| *high < c);
    class.get(at).is_some_and(|(low, _)| *low <= c)
}

fn is_at(position: Position, before: Option<char>, after: Option<char>) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    match position {
        Position::TextBegins => before.is_none(),
        Position::TextEnds => after.is_none(),
        Position::LineBegins => before.is_none_or(|c| c == '\n'),
        Position::LineEnds => after.is_none_or(|c| c == '\n'),
        Position::WordBoundary => is_word(before) != is_word(after),
        Position::NoWordBoundary => is_word(before) == is_word(after),
    }
}

#[cfg(test)]
mod tests;
