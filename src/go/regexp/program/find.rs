//! Where a text has matches of an expression: the leftmost ones, and of those that begin there the one that Go prefers.

use super::{Places, Position, Program, Step, TooManySteps, has, is_at};

impl Program {
    /// Returns the first match. `steps` becomes what is left of it.
    ///
    /// # Errors
    /// More than `steps` are needed.
    pub fn find<'t>(&self, text: &'t str, steps: &mut u64) -> Result<Option<&'t str>, TooManySteps> {
        let found = Search::new(self, steps)?.run(text, 0)?;
        Ok(found.map(|(from, to)| &text[from..to]))
    }

    /// Returns the first matches that do not overlap, at most so many. `steps` becomes what is left of it.
    ///
    /// # Errors
    /// More than `steps` are needed.
    pub fn find_all<'t>(&self, text: &'t str, most: usize, steps: &mut u64) -> Result<Vec<&'t str>, TooManySteps> {
        let mut search = Search::new(self, steps)?;
        let mut all = Vec::new();
        let (mut at, mut last_end) = (0, None);
        while all.len() < most && at <= text.len() {
            let Some((from, to)) = search.run(text, at)? else { break };
            let is_empty_after_last = to == at && last_end == Some(from);
            if to == at {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
            } else {
                at = to;
            }
            last_end = Some(to);
            if !is_empty_after_last {
                all.push(&text[from..to]);
            }
        }
        Ok(all)
    }
}

/// The ways that are still open, with the places where they began; the preferred one is first.
struct Ways {
    places: Places,
    begins: Vec<usize>,
}

struct Search<'p> {
    program: &'p Program,
    now: Ways,
    next: Ways,
    /// Steps that are still to be added.
    open: Vec<u32>,
    steps: &'p mut u64,
}

/// The characters around a place.
#[derive(Clone, Copy)]
struct Around {
    before: Option<char>,
    after: Option<char>,
}

impl Ways {
    fn new(steps: usize) -> Self {
        Self { places: Places::new(steps), begins: Vec::new() }
    }

    fn clear(&mut self) {
        self.places.reached.clear();
        self.begins.clear();
    }
}

impl<'p> Search<'p> {
    fn new(program: &'p Program, steps: &'p mut u64) -> Result<Self, TooManySteps> {
        let count = program.steps.len();
        let mut search = Self { program, now: Ways::new(count), next: Ways::new(count), open: Vec::new(), steps };
        search.take(count as u64 / 64)?;
        Ok(search)
    }

    fn take(&mut self, steps: u64) -> Result<(), TooManySteps> {
        let left = self.steps.checked_sub(steps);
        *self.steps = left.unwrap_or(0);
        left.map(|_| ()).ok_or(TooManySteps)
    }

    /// Finds the first match from a place on.
    fn run(&mut self, text: &str, from: usize) -> Result<Option<(usize, usize)>, TooManySteps> {
        let begins_only = matches!(self.program.steps.first(), Some(Step::Position(Position::TextBegins)));
        let mut found = None;
        let mut at = from;
        let mut before = text[..from].chars().next_back();
        self.now.clear();
        loop {
            let mut rest = text[at..].chars();
            let c = rest.next();
            if found.is_none() && (!begins_only || at == 0) {
                self.add(0, at, Around { before, after: c })?;
            }
            if self.now.begins.is_empty() && (found.is_some() || begins_only) {
                return Ok(found);
            }
            std::mem::swap(&mut self.now, &mut self.next);
            self.now.clear();
            let next_at = at + c.map_or(0, char::len_utf8);
            if let Some(begin) = self.step(c, rest.next())? {
                found = Some((begin, at));
            }
            if c.is_none() {
                return Ok(found);
            }
            (before, at) = (c, next_at);
        }
    }

    /// Takes a character, from the ways in `next`, which were those of now, to `now`. Returns where a match began that ends before it: all others are worse.
    fn step(&mut self, c: Option<char>, follows: Option<char>) -> Result<Option<usize>, TooManySteps> {
        self.take(1)?;
        for at in 0..self.next.begins.len() {
            let (step, begin) = (self.next.places.reached[at], self.next.begins[at]);
            let fits = match (self.program.steps[step as usize], c) {
                (Step::Match, _) => return Ok(Some(begin)),
                (Step::Char(value), Some(c)) => value == u32::from(c),
                (Step::Class(class), Some(c)) => has(&self.program.classes[class as usize], c),
                _ => false,
            };
            if fits {
                self.add(step + 1, begin, Around { before: c, after: follows })?;
            }
        }
        Ok(None)
    }

    /// Adds a step, and what is reached from it without a character, behind the ways of now.
    fn add(&mut self, step: u32, begin: usize, around: Around) -> Result<(), TooManySteps> {
        self.open.push(step);
        while let Some(step) = self.open.pop() {
            self.take(1)?;
            if !self.now.places.add(step) {
                continue;
            }
            self.now.begins.push(begin);
            match self.program.steps[step as usize] {
                Step::To(to) => self.open.push(to),
                Step::Both(one, other) => self.open.extend([other, one]),
                Step::Position(position) if is_at(position, around.before, around.after) => self.open.push(step + 1),
                Step::Position(_) | Step::Char(_) | Step::Class(_) | Step::Match => {}
            }
        }
        Ok(())
    }
}
