//! Names that the server makes from `metadata.generateName` (spec api-surface §5.3).

use rand::Rng;

/// How often a name is made before `AlreadyExists` is the answer.
pub(crate) const ATTEMPTS_MAX: usize = 8;

/// What the random part is made of: no vowels, so that no words come out, and no digits that look like letters.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Bytes of the random part.
const RANDOM_BYTES: usize = 5;
/// Bytes of `generateName` that are used: the name is then a DNS label.
const BASE_BYTES_MAX: usize = 63 - RANDOM_BYTES;

/// A name that starts with `base`.
pub(crate) fn generate(base: &str, random: &mut impl Rng) -> String {
    let mut name = base[..base.floor_char_boundary(BASE_BYTES_MAX)].to_owned();
    for _ in 0..RANDOM_BYTES {
        name.push(char::from(ALPHABET[random.random_range(0..ALPHABET.len())]));
    }
    name
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn names_start_with_the_base_and_end_at_random() {
        let mut random = StdRng::seed_from_u64(1);
        let (one, two) = (generate("gen-", &mut random), generate("gen-", &mut random));
        for name in [&one, &two] {
            let end = name.strip_prefix("gen-").expect("the base is kept");
            assert!(end.len() == 5 && end.bytes().all(|byte| ALPHABET.contains(&byte)), "{name}");
        }
        assert_ne!(one, two);
    }

    #[test]
    fn long_bases_are_cut() {
        let mut random = StdRng::seed_from_u64(1);
        let name = generate(&"x".repeat(100), &mut random);
        assert!(name.len() == 63 && name.starts_with(&"x".repeat(58)));
        assert_eq!(generate(&"é".repeat(100), &mut random).len(), 63);
    }

    #[test]
    fn every_letter_comes() {
        let mut random = StdRng::seed_from_u64(2);
        let all: String = (0..200).map(|_| generate("", &mut random)).collect();
        assert!(ALPHABET.iter().all(|&letter| all.contains(char::from(letter))));
        assert_eq!(ALPHABET.len(), 27);
    }
}
