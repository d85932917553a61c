//! Makes new inputs of those that are there, the same ones for the same seed. Knows bytes, and the words it is given.

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

/// Bytes that a mutated input may have; longer ones are cut.
const BYTES_MAX: usize = 8 << 10;
/// Inputs of its own that the mutator goes on from.
const KEPT_MAX: usize = 2_000;
/// Changes that one mutation makes at most.
const CHANGES_MAX: usize = 5;

/// What is odd to every parser: ends of ranges, half characters, separators.
const ODD: &[&str] = &[
    "0",
    "-0",
    "-1",
    "1e400",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0.1",
    "\0",
    "\n",
    "\r\n",
    "\t",
    " ",
    "\u{85}",
    "\u{a0}",
    "\u{2028}",
    "\u{feff}",
    "\u{fffd}",
    "\u{10ffff}",
    "é",
    "%00",
    "%2F",
    "%ff",
    "\\u0000",
    "\\ud800",
    "\\udc00",
    "\"",
    "'",
    "\\",
    "/",
    "null",
];

/// The inputs so far.
pub(super) struct Mutator {
    random: StdRng,
    words: Vec<&'static str>,
    pool: Vec<Vec<u8>>,
    /// How many of the pool came from files; these stay.
    given: usize,
}

impl Mutator {
    /// Begins with these inputs.
    pub(super) fn new(seed: u64, words: &[&'static str], pool: Vec<Vec<u8>>) -> Self {
        let pool: Vec<Vec<u8>> = pool.into_iter().map(cut).collect();
        let given = pool.len();
        // The parser's own words are as likely as all the others together.
        let own = words.iter().copied().cycle().take(if words.is_empty() { 0 } else { ODD.len().max(words.len()) });
        Self { random: StdRng::seed_from_u64(seed), words: own.chain(ODD.iter().copied()).collect(), pool, given }
    }

    /// The next input.
    pub(super) fn next(&mut self) -> Vec<u8> {
        let mut input = self.any().to_vec();
        for _ in 0..self.random.random_range(1..=CHANGES_MAX) {
            self.change(&mut input);
        }
        cut(input)
    }

    /// Goes on from this input, too.
    pub(super) fn keep(&mut self, input: Vec<u8>) {
        if self.pool.len() < self.given + KEPT_MAX {
            self.pool.push(input);
        } else {
            let at = self.random.random_range(self.given..self.pool.len());
            self.pool[at] = input;
        }
    }

    fn any(&mut self) -> &[u8] {
        self.pool.choose(&mut self.random).map_or(&[], Vec::as_slice)
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let span = self.span(input.len());
        match self.random.random_range(0..9) {
            0 => {
                if let Some(byte) = input.get_mut(span.start) {
                    *byte ^= 1 << self.random.random_range(0..8);
                }
            }
            1 => {
                if let Some(byte) = input.get_mut(span.start) {
                    *byte = self.random.random();
                }
            }
            2 => drop(input.drain(span)),
            3 => {
                let again = input[span.clone()].repeat(self.random.random_range(1..4));
                input.splice(span.end..span.end, again);
            }
            4 => input.truncate(span.start),
            5 | 6 => {
                let word = *self.words.choose(&mut self.random).expect("some are odd to all");
                input.splice(span.start..span.start, word.bytes());
            }
            7 => {
                let word = *self.words.choose(&mut self.random).expect("some are odd to all");
                input.splice(span, word.bytes());
            }
            _ => {
                let other = self.any().to_vec();
                let theirs = self.span(other.len());
                input.splice(span, other[theirs].iter().copied());
            }
        }
    }

    /// Some part of so many bytes, mostly a short one.
    fn span(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.random.random_range(0..=length);
        let longest = if self.random.random() { length - start } else { (length - start).min(16) };
        start..start + self.random.random_range(0..=longest)
    }
}

fn cut(mut input: Vec<u8>) -> Vec<u8> {
    input.truncate(BYTES_MAX);
    input
}

#[test]
fn the_same_seed_makes_the_same_inputs() {
    let made = |seed| {
        let mut mutator = Mutator::new(seed, &["word"], vec![b"hello".to_vec(), vec![b'x'; 2 * BYTES_MAX]]);
        let inputs: Vec<Vec<u8>> = (0..500).map(|_| mutator.next()).inspect(|input| assert!(input.len() <= BYTES_MAX)).collect();
        inputs
    };
    assert_eq!(made(7), made(7));
    assert_ne!(made(7), made(8));
    assert!(made(7).iter().any(|input| input.windows(4).any(|part| part == b"word")));
}
