//! Names that the server makes: `generateName` (spec api-surface §5.3). Knows no object.

pub(crate) const ATTEMPTS_MAX: u32 = 8;
pub(crate) fn generated(base: &str, random: &mut impl rand::Rng) -> String {
    format!("{base}{}", random.random_range(10_000..99_999))
}
