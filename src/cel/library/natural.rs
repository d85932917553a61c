//! Natural numbers of any length, in limbs of nine decimal digits.

use std::cmp::Ordering;

/// What a limb counts to.
const BASE: u64 = 1_000_000_000;
/// Decimal digits of a limb.
const LIMB_DIGITS: usize = 9;

/// A natural number. The least limb is first, and the last one is not 0; zero has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Natural(Vec<u32>);

impl Natural {
    /// Returns the number that decimal digits write; `None` when there is another character.
    pub(crate) fn of_digits(digits: &str) -> Option<Self> {
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let limbs = digits.as_bytes().rchunks(LIMB_DIGITS);
        let limb = |chunk: &[u8]| chunk.iter().fold(0, |sum, byte| sum * 10 + u32::from(byte - b'0'));
        Some(Self(limbs.map(limb).collect()).trimmed())
    }

    /// Returns a small number.
    pub(crate) fn of(mut value: u64) -> Self {
        let mut limbs = Vec::new();
        while value > 0 {
            limbs.push(low(value));
            value /= BASE;
        }
        Self(limbs)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many decimal digits it has: none for zero.
    pub(crate) fn digits(&self) -> usize {
        let last = self.0.last().map_or(0, |limb| limb.ilog10() as usize + 1);
        self.0.len().saturating_sub(1) * LIMB_DIGITS + last
    }

    /// Returns its decimal digits.
    pub(crate) fn text(&self) -> String {
        let mut limbs = self.0.iter().rev();
        let first = limbs.next().map_or_else(|| "0".to_owned(), u32::to_string);
        limbs.fold(first, |text, limb| text + &format!("{limb:09}"))
    }

    /// Returns it times a number below the base of limbs.
    pub(crate) fn times(&self, factor: u32) -> Self {
        let mut carry = 0;
        let mut limbs: Vec<u32> = Vec::with_capacity(self.0.len() + 1);
        for limb in &self.0 {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            limbs.push(low(product));
            carry = product / BASE;
        }
        limbs.push(low(carry));
        Self(limbs).trimmed()
    }

    /// Returns it times a power of two.
    pub(crate) fn doubled(&self, mut times: u32) -> Self {
        let mut product = self.clone();
        while times > 0 {
            let step = times.min(29);
            product = product.times(1 << step);
            times -= step;
        }
        product
    }

    /// Returns it with so many zeros behind it.
    pub(crate) fn with_zeros(&self, zeros: usize) -> Self {
        if self.is_zero() {
            return Self::default();
        }
        let mut limbs = vec![0; zeros / LIMB_DIGITS];
        limbs.extend(self.times(ten_to(zeros % LIMB_DIGITS)).0);
        Self(limbs)
    }

    /// Returns it without its last digits, and whether one of those is not 0.
    pub(crate) fn without_digits(&self, count: usize) -> (Self, bool) {
        let whole = count / LIMB_DIGITS;
        if whole >= self.0.len() {
            return (Self::default(), !self.is_zero());
        }
        let divisor = u64::from(ten_to(count % LIMB_DIGITS));
        let mut remainder = 0;
        let mut limbs = self.0[whole..].to_vec();
        for limb in limbs.iter_mut().rev() {
            let value = remainder * BASE + u64::from(*limb);
            *limb = low(value / divisor);
            remainder = value % divisor;
        }
        let has_rest = remainder > 0 || self.0[..whole].iter().any(|limb| *limb > 0);
        (Self(limbs).trimmed(), has_rest)
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut carry = 0;
        let length = self.0.len().max(other.0.len());
        let mut limbs = Vec::with_capacity(length + 1);
        for at in 0..length {
            let sum = u64::from(self.limb(at)) + u64::from(other.limb(at)) + carry;
            limbs.push(low(sum));
            carry = sum / BASE;
        }
        limbs.push(low(carry));
        Self(limbs).trimmed()
    }

    /// Returns it less a number that is not larger.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let mut borrow = 0;
        let mut limbs = Vec::with_capacity(self.0.len());
        for (at, limb) in self.0.iter().enumerate() {
            let difference = u64::from(*limb) + BASE - u64::from(other.limb(at)) - borrow;
            limbs.push(low(difference));
            borrow = u64::from(difference < BASE);
        }
        Self(limbs).trimmed()
    }

    fn limb(&self, at: usize) -> u32 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn trimmed(mut self) -> Self {
        let used = self.0.iter().rposition(|limb| *limb > 0).map_or(0, |last| last + 1);
        self.0.truncate(used);
        self
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The least limb of a value.
fn low(value: u64) -> u32 {
    u32::try_from(value % BASE).unwrap_or(0)
}

/// A power of ten that is a limb.
fn ten_to(zeros: usize) -> u32 {
    (0..zeros).fold(1, |power, _| power * 10)
}

#[cfg(test)]
mod tests {
    use super::Natural;

    fn of(digits: &str) -> Natural {
        Natural::of_digits(digits).expect("digits")
    }

    #[test]
    fn sums_and_products() {
        for (left, right, sum) in [
            ("0", "0", "0"),
            ("999999999", "1", "1000000000"),
            ("999999999999999999", "1", "1000000000000000000"),
            ("123456789012345678901234567890", "987654321098765432109876543210", "1111111110111111111011111111100"),
        ] {
            assert_eq!(of(left).plus(&of(right)).text(), sum);
            assert_eq!(of(sum).minus(&of(right)), of(left));
            assert_eq!(of(sum).cmp(&of(left)), sum.len().cmp(&left.len()).then(sum.cmp(left)));
        }
        assert_eq!(of("3").doubled(60).text(), "3458764513820540928");
        assert_eq!(Natural::of(u64::MAX).text(), "18446744073709551615");
    }

    #[test]
    fn zeros_come_and_go() {
        for (digits, zeros) in [("1", 0), ("12", 8), ("1234567890", 9), ("999999999", 10), ("7", 100), ("0", 5)] {
            let longer = of(digits).with_zeros(zeros);
            let expect = if digits == "0" { "0".to_owned() } else { format!("{digits}{}", "0".repeat(zeros)) };
            assert_eq!(longer.text(), expect);
            assert_eq!(longer.digits(), if digits == "0" { 0 } else { expect.len() });
            assert_eq!(longer.without_digits(zeros), (of(digits), false));
        }
        assert_eq!(of("12345678901234567890").without_digits(12), (of("12345678"), true));
        assert_eq!(of("5").without_digits(30), (of("0"), true));
        assert_eq!(of("10000000001").without_digits(10), (of("1"), true));
        assert!(Natural::of_digits("1x").is_none() && of("000").is_zero());
    }
}
