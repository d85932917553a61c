//! A `pattern`, written in Go's syntax: what the patterns of a schema and of all schemas may take is bounded in bytes, and no pattern is compiled again for an
//! object that it has failed for.

use std::{
    fmt,
    sync::{
        Arc, LazyLock, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use go::regexp::{COMPILED_BYTES_MAX, Program};
use parking_lot::Mutex;
use recent::Recent;

/// Bytes of all compiled patterns that are kept; the others are compiled again when a text is matched.
const KEPT_BYTES_MAX: usize = 64 << 20;
const KEPT_MAX: usize = 64 << 10;

/// Compiled patterns by their text, whatever schema they are of.
type Kept = Mutex<Recent<Arc<str>, Arc<Program>, ()>>;

static KEPT: LazyLock<Kept> = LazyLock::new(|| Mutex::new(Recent::new(KEPT_MAX, KEPT_BYTES_MAX)));

/// A pattern of texts.
pub(crate) struct Pattern {
    text: Arc<str>,
    compiled: Mutex<Weak<Program>>,
    uses: AtomicU32,
    /// Bytes that it takes when it is compiled.
    bytes: usize,
    /// Why it is none, or is too large: then it matches nothing.
    refused: Option<Box<str>>,
}

/// What came of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Match<'p> {
    Found,
    NotFound,
    /// Nothing matches: Go's error.
    Refused(&'p str),
    /// It would take more work than there may be.
    TooMuch,
}

impl Pattern {
    /// One that is not compiled yet.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.into(), compiled: Mutex::default(), uses: AtomicU32::new(0), bytes: 0, refused: None }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Compiles it for a schema that has so many bytes left for its patterns.
    pub(crate) fn compile(&mut self, left: &mut usize) {
        let known = KEPT.lock().get(&self.text, ()).filter(|program| program.bytes() <= *left).cloned();
        if let Some(program) = known {
            self.bytes = program.bytes();
            *left -= self.bytes;
            *self.compiled.get_mut() = Arc::downgrade(&program);
            return;
        }
        match Program::compile_within(&self.text, left) {
            Ok(program) => {
                self.bytes = program.bytes();
                *self.compiled.get_mut() = self.keep(program);
            }
            Err(why) => self.refused = Some(why.into()),
        }
    }

    /// Whether it matches a part of a text. `visits` becomes what is left of the work that there may be, in visits of nodes.
    pub(crate) fn matches(&self, text: &str, visits: &mut u64) -> Match<'_> {
        const STEPS_OF_A_VISIT: u64 = 4;
        if let Some(why) = &self.refused {
            return Match::Refused(why);
        }
        let program = match self.program() {
            Ok(program) => program,
            Err(_) => return Match::Refused("error parsing regexp: expression too large"),
        };
        let mut steps = visits.saturating_mul(STEPS_OF_A_VISIT);
        let matched = program.matches(text, &mut steps);
        *visits = steps / STEPS_OF_A_VISIT;
        match matched {
            Ok(true) => Match::Found,
            Ok(false) => Match::NotFound,
            Err(_) => Match::TooMuch,
        }
    }

    /// Its program: that of another schema, if one has been made for the same text.
    fn program(&self) -> Result<Arc<Program>, String> {
        /// After so many uses the cache learns of them.
        const USES: u32 = 64;
        let mut compiled = self.compiled.lock();
        let known = compiled.upgrade().filter(|_| self.uses.fetch_add(1, Ordering::Relaxed) % USES != USES - 1);
        if let Some(program) = known.or_else(|| KEPT.lock().get(&self.text, ()).cloned()) {
            *compiled = Arc::downgrade(&program);
            return Ok(program);
        }
        let program = Arc::new(Program::compile(&self.text, &mut { COMPILED_BYTES_MAX })?);
        KEPT.lock().put(self.text.clone(), program.clone(), program.bytes() + self.text.len(), (), None);
        *compiled = Arc::downgrade(&program);
        Ok(program)
    }

    fn keep(&self, program: Program) -> Weak<Program> {
        let mut kept = KEPT.lock();
        let program = match kept.get(&self.text, ()) {
            Some(known) => known.clone(),
            None => {
                let program = Arc::new(program);
                kept.put(self.text.clone(), program.clone(), program.bytes() + self.text.len(), (), None);
                program
            }
        };
        Arc::downgrade(&program)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use go::regexp::PATTERNS_BYTES_MAX;

    use super::*;

    fn compiled(text: &str) -> Pattern {
        let mut pattern = Pattern::new(text);
        pattern.compile(&mut { PATTERNS_BYTES_MAX });
        pattern
    }

    #[test]
    fn patterns_match_parts_of_texts() {
        let matches = |pattern: &str, text: &str| match compiled(pattern).matches(text, &mut 100_000) {
            Match::Refused(why) => Err(why.to_owned()),
            Match::TooMuch => Err("too much".to_owned()),
            matched => Ok(matched == Match::Found),
        };
        assert_eq!(matches("b", "abc"), Ok(true));
        assert_eq!(matches("^b", "abc"), Ok(false));
        assert_eq!(matches("(", "a"), Err("error parsing regexp: missing closing ): `(`".to_owned()));
        assert_eq!(matches(r"(\pL{900}\pN{900}){1}", "a"), Ok(false));
        assert_eq!(matches("(a?){500}b{500}", &"a".repeat(100_000)), Err("too much".to_owned()));
    }

    /// Objects are compared with what is left of them; the others match nothing.
    #[test]
    fn the_patterns_of_a_schema_have_a_sum() {
        let mut left = PATTERNS_BYTES_MAX;
        let large = |i: usize| format!("({}){{1000}}z{i}", "x".repeat(60));
        let mut patterns: Vec<Pattern> = (0..100).map(|i| Pattern::new(&large(i))).collect();
        patterns.iter_mut().for_each(|pattern| pattern.compile(&mut left));
        let taken = patterns.iter().filter(|pattern| pattern.refused.is_none()).count();
        assert!((16..32).contains(&taken), "{taken}");
        assert!(patterns.iter().map(Pattern::bytes).sum::<usize>() <= PATTERNS_BYTES_MAX);
        assert!(matches!(patterns[99].matches("x", &mut 1_000_000), Match::Refused(_)));
    }

    #[test]
    fn equal_patterns_of_several_schemas_are_one() {
        let (one, other) = (compiled("shared-[a-z]+"), compiled("shared-[a-z]+"));
        assert!(Arc::ptr_eq(&one.program().expect("a program"), &other.program().expect("a program")));
    }
}
