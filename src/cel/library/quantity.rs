//! Quantities of Kubernetes with exact arithmetic.

use std::cmp::Ordering;

use go::quantity::FORMAT;

use super::natural::Natural;

const NUMERIC: &str = "unable to parse numeric part of quantity";
const SUFFIX: &str = "unable to parse quantity's suffix";
/// A sum that would have more digits than Kubernetes' own could have in a small object.
const TOO_LONG: &str = "quantity has too many digits";

/// Smaller parts are rounded up: 10^-9.
const NANO: i32 = -9;
/// Digits of the longest number that is kept in 64 bits.
const SMALL_DIGITS: usize = 18;
/// Zeros that are written out for a sum.
const ZEROS_MAX: i64 = 10_000;

/// A quantity.
#[derive(Clone, Debug)]
pub(crate) struct Quantity(Amount);

/// Go keeps most amounts in 64 bits, and some others are no integers for it.
#[derive(Clone, Debug)]
enum Amount {
    /// The value times ten to the scale.
    Small {
        value: i64,
        scale: i32,
    },
    Large(Decimal),
}

/// A decimal number of any length.
#[derive(Clone, Debug)]
struct Decimal {
    is_negative: bool,
    digits: Natural,
    exponent: i64,
    /// The exponent down to which Go writes the digits out, zeros included. Floats are rounded there.
    written: i64,
}

/// The parts of a text, zeros at its beginning left out.
struct Parts<'t> {
    is_negative: bool,
    /// Digits, perhaps with a point.
    number: &'t str,
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

/// What a suffix means.
enum Factor {
    Decimal(i32),
    Binary(u32),
}

impl Quantity {
    /// Reads a quantity.
    ///
    /// # Errors
    /// Kubernetes' text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err(FORMAT.to_owned());
        }
        let parts = Parts::of(text)?;
        let factor = Factor::of(parts.suffix).ok_or(SUFFIX)?;
        match parts.small(&factor) {
            Some(small) => Ok(Self(small)),
            None => parts.large(&factor).map(|large| Self(Amount::Large(large))).ok_or_else(|| NUMERIC.to_owned()),
        }
    }

    /// Returns whether a text is a quantity.
    pub(crate) fn is(text: &str) -> bool {
        Self::parse(text).is_ok()
    }

    /// Returns a whole number as a quantity.
    pub(crate) fn of(value: i64) -> Self {
        Self(Amount::Small { value, scale: 0 })
    }

    pub(crate) fn sign(&self) -> i64 {
        match &self.0 {
            Amount::Small { value, .. } => value.signum(),
            Amount::Large(decimal) => decimal.sign(),
        }
    }

    /// Returns the whole number that it is; `None` too when Go has no 64 bits for it.
    pub(crate) fn integer(&self) -> Option<i64> {
        match self.0 {
            Amount::Small { value, scale } if scale >= 0 => scaled(value, scale),
            _ => None,
        }
    }

    /// Returns the float that is nearest to it, but for the last bit, as in Go.
    pub(crate) fn approximate(&self) -> f64 {
        let (base, exponent) = match &self.0 {
            #[expect(clippy::cast_precision_loss, reason = "a float is asked for")]
            Amount::Small { value, scale } => (*value as f64, i64::from(*scale)),
            Amount::Large(decimal) => (decimal.unscaled_float(), decimal.written),
        };
        if exponent == 0 { base } else { base * power_of_ten(exponent) }
    }

    /// Returns the sum.
    ///
    /// # Errors
    /// The sum has too many digits.
    pub(crate) fn plus(&self, other: &Self) -> Result<Self, String> {
        self.sum(other, false)
    }

    /// Returns the difference.
    ///
    /// # Errors
    /// The difference has too many digits.
    pub(crate) fn minus(&self, other: &Self) -> Result<Self, String> {
        self.sum(other, true)
    }

    fn sum(&self, other: &Self, is_difference: bool) -> Result<Self, String> {
        if let (Amount::Small { value, scale }, Amount::Small { value: other, scale: other_scale }) = (&self.0, &other.0) {
            // Go's least number is its own negation.
            let other = if is_difference { other.wrapping_neg() } else { *other };
            if let Some((value, scale)) = small_sum((*value, *scale), (other, *other_scale)) {
                return Ok(Self(Amount::Small { value, scale }));
            }
        }
        let mut other = other.decimal();
        other.is_negative ^= is_difference;
        self.decimal().plus(&other).map(|sum| Self(Amount::Large(sum))).ok_or_else(|| TOO_LONG.to_owned())
    }

    fn decimal(&self) -> Decimal {
        match &self.0 {
            Amount::Small { value, scale } => Decimal {
                is_negative: *value < 0,
                digits: Natural::of(value.unsigned_abs()),
                exponent: i64::from(*scale),
                written: i64::from(*scale),
            },
            Amount::Large(decimal) => decimal.clone(),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let (left, right) = (self.decimal(), other.decimal());
        left.sign().cmp(&right.sign()).then_with(|| match left.sign() {
            0 => Ordering::Equal,
            1 => left.magnitude_cmp(&right),
            _ => right.magnitude_cmp(&left),
        })
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The value times ten to a scale that is not negative, in 64 bits.
fn scaled(value: i64, scale: i32) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    10_i64.checked_pow(u32::try_from(scale).ok()?).and_then(|unit| value.checked_mul(unit))
}

fn small_sum((value, scale): (i64, i32), (other, other_scale): (i64, i32)) -> Option<(i64, i32)> {
    match (value, other) {
        (_, 0) => return Some((value, scale)),
        (0, _) => return Some((other, other_scale)),
        _ => {}
    }
    let least = scale.min(other_scale);
    let value = scaled(value, scale.checked_sub(least)?)?;
    let other = scaled(other, other_scale.checked_sub(least)?)?;
    Some((value.checked_add(other)?, least))
}

impl Decimal {
    fn sign(&self) -> i64 {
        match (self.digits.is_zero(), self.is_negative) {
            (true, _) => 0,
            (_, true) => -1,
            _ => 1,
        }
    }

    /// Where its first digit stands.
    fn height(&self) -> i64 {
        i64::try_from(self.digits.digits()).unwrap_or(i64::MAX).saturating_add(self.exponent)
    }

    /// Compares two numbers that are not zero, without their signs.
    fn magnitude_cmp(&self, other: &Self) -> Ordering {
        self.height().cmp(&other.height()).then_with(|| {
            // The zeros are not more than the digits of the other one, for the first digits stand at the same place.
            let least = self.exponent.min(other.exponent);
            self.digits_from(least).cmp(&other.digits_from(least))
        })
    }

    /// The digits down to an exponent that is not above its own.
    fn digits_from(&self, exponent: i64) -> Natural {
        self.digits.with_zeros(usize::try_from(self.exponent - exponent).unwrap_or(0))
    }

    fn plus(&self, other: &Self) -> Option<Self> {
        let written = self.written.min(other.written);
        match (self.digits.is_zero(), other.digits.is_zero()) {
            (_, true) => return Some(Self { written, ..self.clone() }),
            (true, _) => return Some(Self { written, ..other.clone() }),
            _ => {}
        }
        let exponent = self.exponent.min(other.exponent);
        if self.exponent.max(other.exponent) - exponent > ZEROS_MAX {
            return None;
        }
        let (left, right) = (self.digits_from(exponent), other.digits_from(exponent));
        let (is_negative, digits) = match (self.is_negative == other.is_negative, left >= right) {
            (true, _) => (self.is_negative, left.plus(&right)),
            (_, true) => (self.is_negative, left.minus(&right)),
            _ => (other.is_negative, right.minus(&left)),
        };
        Some(Self { is_negative, digits, exponent, written })
    }

    /// Rounds up to whole units of ten to the power of -9.
    fn rounded(mut self) -> Self {
        let places = i64::from(NANO) - self.exponent;
        if self.digits.is_zero() {
            return self;
        }
        if let Ok(places @ 1..) = usize::try_from(places) {
            let (digits, has_rest) = self.digits.without_digits(places);
            self.digits = if has_rest { digits.plus(&Natural::of(1)) } else { digits };
            self.exponent = i64::from(NANO);
        }
        self.written = i64::from(NANO);
        self
    }

    /// The digits as Go writes them out, as a float.
    fn unscaled_float(&self) -> f64 {
        let zeros = self.exponent - self.written;
        let text = format!("{}{}e{zeros}", if self.is_negative { "-" } else { "" }, self.digits.text());
        // Zero has no sign there.
        text.parse().map(|float: f64| if float == 0.0 { 0.0 } else { float }).unwrap_or(0.0)
    }
}

impl<'t> Parts<'t> {
    fn of(text: &'t str) -> Result<Self, String> {
        let is_negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let from = unsigned.trim_start_matches('0');
        if from.is_empty() {
            return Ok(Self { is_negative: false, number: "0", whole: "0", fraction: "", suffix: "" });
        }
        let digits = |text: &'t str| text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
        let (whole, rest) = digits(from);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
        let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(FORMAT.to_owned());
        }
        let number = &unsigned[..unsigned.len() - suffix.len()];
        Ok(Self { is_negative, number, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
    }

    /// The amount, when Go keeps it in 64 bits.
    fn small(&self, factor: &Factor) -> Option<Amount> {
        let digits = self.whole.len() + self.fraction.len();
        let (times, scale) = match factor {
            Factor::Decimal(exponent) => {
                let fraction = i32::try_from(self.fraction.len()).ok()?;
                (digits <= SMALL_DIGITS).then_some((1, exponent.wrapping_sub(fraction)))?
            }
            Factor::Binary(exponent) => {
                let room = 14_u32.checked_sub(u32::try_from(self.whole.len()).ok()?)?;
                (self.fraction.is_empty() && room >= exponent * 3 / 10).then_some((1_i64 << exponent, 0))?
            }
        };
        if scale < NANO {
            return None;
        }
        let value = format!("{}{}", self.whole, self.fraction).parse::<i64>().ok()?.checked_mul(times)?;
        Some(Amount::Small { value: if self.is_negative { -value } else { value }, scale })
    }

    fn large(&self, factor: &Factor) -> Option<Decimal> {
        if !self.number.bytes().any(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = Natural::of_digits(&format!("{}{}", self.whole, self.fraction))?;
        let places = i64::try_from(self.fraction.len()).ok()?;
        let (digits, exponent) = match factor {
            Factor::Decimal(exponent) => (digits, i64::from(*exponent) - places),
            Factor::Binary(exponent) => (digits.doubled(*exponent), -places),
        };
        let decimal = Decimal { is_negative: self.is_negative, digits, exponent, written: exponent }.rounded();
        let limit = Decimal { is_negative: self.is_negative, digits: Natural::of(i64::MAX.unsigned_abs()), exponent: 0, written: 0 };
        let is_too_large = matches!(factor, Factor::Binary(_)) && !decimal.digits.is_zero() && decimal.magnitude_cmp(&limit).is_gt();
        Some(if is_too_large { limit } else { decimal })
    }
}

impl Factor {
    fn of(suffix: &str) -> Option<Self> {
        const DECIMAL: [(&str, i32); 10] =
            [("", 0), ("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
        const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
        let decimal = DECIMAL.iter().find(|(known, _)| *known == suffix).map(|(_, exponent)| Self::Decimal(*exponent));
        let binary = || BINARY.iter().find(|(known, _)| *known == suffix).map(|(_, exponent)| Self::Binary(*exponent));
        decimal.or_else(binary).or_else(|| Self::exponent(suffix))
    }

    #[expect(clippy::cast_possible_truncation, reason = "Go takes the lower 32 bits of an exponent")]
    fn exponent(suffix: &str) -> Option<Self> {
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        exponent.parse::<i64>().ok().map(|exponent| Self::Decimal(exponent as i32))
    }
}

/// Returns ten to a power as Go's `math.Pow10` does: the product of two floats.
fn power_of_ten(exponent: i64) -> f64 {
    let tens = |exponent: i64| format!("1e{exponent}").parse::<f64>().unwrap_or(f64::INFINITY);
    match exponent {
        0..=308 => tens(exponent / 32 * 32) * tens(exponent % 32),
        -323..=-1 => tens(exponent / 32 * 32) / tens(-exponent % 32),
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}
