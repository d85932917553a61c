//! Amounts that are computed with: quantities as Kubernetes adds, compares and prints them.

use std::{cmp::Ordering, fmt};

use crate::quantity::{Format, Parts, binary, decimal, suffix, whole};

/// Units of an amount in one: an amount is kept in 10^-9, the smallest part that Kubernetes knows.
const NANO: i128 = 1_000_000_000;
const MILLI: i128 = NANO / 1_000;

/// A quantity as a number.
#[derive(Clone, Debug)]
pub struct Amount {
    nano: i128,
    format: Format,
    /// The text that it was read from, until it is computed with.
    text: Option<String>,
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self { nano: 0, format: Format::DecimalSi, text: None };

    /// Returns so many whole ones, written in tens.
    #[must_use]
    pub fn whole(count: i64) -> Self {
        Self { nano: i128::from(count) * NANO, ..Self::ZERO }
    }

    /// Reads a quantity. One that no 128 bits hold is the largest that they do.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        let kept = Some(text.to_owned());
        let Some(parts) = Parts::of(text).ok()? else { return Some(Self { text: kept, ..Self::ZERO }) };
        let (exponent, format) = suffix(parts.suffix)?;
        let digits = format!("{}{}", parts.whole, parts.fraction);
        let digits: i128 = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(i128::MAX) };
        let places = i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
        let nano = match format {
            Format::BinarySi => scaled(digits.saturating_mul(1 << exponent.clamp(0, 60)), 9i32.saturating_sub(places)),
            _ => scaled(digits, exponent.saturating_sub(places).saturating_add(9)),
        };
        Some(Self { nano: if parts.negative { -nano } else { nano }, format, text: kept })
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.nano == 0
    }

    /// The number of whole ones, rounded away from zero.
    #[must_use]
    pub fn value(&self) -> i64 {
        rounded(self.nano, NANO)
    }

    /// The number of thousandths, rounded away from zero.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        rounded(self.nano, MILLI)
    }

    /// Returns the amount in whole ones, rounded away from zero.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        let whole = (self.nano.unsigned_abs().div_ceil(NANO.unsigned_abs())).saturating_mul(NANO.unsigned_abs());
        let whole = i128::try_from(whole).unwrap_or(i128::MAX);
        let nano = if self.nano < 0 { -whole } else { whole };
        if nano == self.nano { self } else { Self { nano, format: self.format, text: None } }
    }

    /// Adds another amount. Nothing takes its form of writing from it.
    pub fn add(&mut self, other: &Self) {
        if self.is_zero() {
            self.format = other.format;
        }
        self.nano = self.nano.saturating_add(other.nano);
        self.text = None;
    }

    /// Takes another amount away.
    pub fn sub(&mut self, other: &Self) {
        if self.is_zero() {
            self.format = other.format;
        }
        self.nano = self.nano.saturating_sub(other.nano);
        self.text = None;
    }
}

/// `digits` times ten to the power of `ten`, rounded up.
fn scaled(digits: i128, ten: i32) -> i128 {
    let unit = 10i128.checked_pow(ten.unsigned_abs());
    match (ten >= 0, unit) {
        (true, Some(unit)) => digits.saturating_mul(unit),
        (true, None) => {
            if digits == 0 {
                0
            } else {
                i128::MAX
            }
        }
        (false, Some(unit)) => digits / unit + i128::from(digits % unit > 0),
        (false, None) => i128::from(digits > 0),
    }
}

fn rounded(nano: i128, unit: i128) -> i64 {
    let magnitude = nano.unsigned_abs().div_ceil(unit.unsigned_abs());
    let magnitude = i64::try_from(magnitude).unwrap_or(i64::MAX);
    if nano < 0 { -magnitude } else { magnitude }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        let magnitude = self.nano.unsigned_abs();
        if magnitude == 0 {
            return f.write_str("0");
        }
        let text = match (self.format, whole(magnitude, -9)) {
            (Format::BinarySi, Some(whole @ 1024..)) => binary(whole),
            (Format::BinarySi, _) => decimal(magnitude, -9, Format::DecimalSi),
            (format, _) => decimal(magnitude, -9, format),
        };
        // Only a number beyond all suffixes has none.
        let text = text.or_else(|| decimal(magnitude, -9, Format::DecimalExponent)).unwrap_or_default();
        write!(f, "{}{text}", if self.nano < 0 { "-" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        Amount::parse(text).expect("a quantity")
    }

    #[test]
    fn amounts_are_added_and_keep_their_form() {
        for (left, right, want) in [
            ("100m", "900m", "1"),
            ("1", "500m", "1500m"),
            ("1Gi", "512Mi", "1536Mi"),
            ("0", "1Ki", "1Ki"),
            ("512Mi", "512Mi", "1Gi"),
            ("1e3", "1e3", "2e3"),
            ("1Gi", "1G", "2073741824"),
            ("1G", "1Gi", "2073741824"),
            ("1.5Gi", "0.5Gi", "2Gi"),
            ("1Ki", "100m", "1024100m"),
            ("1n", "1n", "2n"),
        ] {
            let mut sum = amount(left);
            sum.add(&amount(right));
            assert_eq!(sum.to_string(), want, "{left} + {right}");
        }
        let mut rest = amount("1Gi");
        rest.sub(&amount("2Gi"));
        assert_eq!((rest.to_string(), rest.value()), ("-1Gi".to_owned(), -(1 << 30)));
    }

    #[test]
    fn amounts_are_compared_and_rounded() {
        assert_eq!((amount("1000m"), amount("1024Mi")), (amount("1"), amount("1Gi")));
        assert!(amount("1Gi") > amount("1G") && amount("-1") < amount("0") && amount("99999E") > amount("7Ei"));
        for (text, value, milli) in
            [("1", 1, 1_000), ("1m", 1, 1), ("1500m", 2, 1_500), ("1u", 1, 1), ("1Ki", 1_024, 1_024_000), ("-1500m", -2, -1_500)]
        {
            assert_eq!((amount(text).value(), amount(text).milli_value()), (value, milli), "{text}");
        }
        assert_eq!((amount("1e100").value(), amount("99999E").value()), (i64::MAX, i64::MAX));
        assert_eq!(amount("1e100").cmp(&amount("1e-100")), Ordering::Greater);
    }

    #[test]
    fn a_text_stays_until_it_is_computed_with() {
        assert_eq!(["1.500", "+5", "1e3", "0.5"].map(|text| amount(text).to_string()), ["1.500", "+5", "1e3", "0.5"]);
        assert_eq!(["", "x", "1Zi"].map(Amount::parse), [None, None, None]);
        assert_eq!(Amount::whole(-3).to_string(), "-3");
    }
}
