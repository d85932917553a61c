//! Quantities in the form in which Kubernetes writes them: `0.5` is `500m`, `1024Mi` is `1Gi`.

/// A text that is no quantity.
pub const FORMAT: &str = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX: &str = "unable to parse quantity's suffix";

/// Digits of the largest number that is kept exactly in 64 bits: shorter ones keep their text when it is nearly normal.
const DIGITS_KEPT: usize = 18;
/// Digits that are computed with; a longer number stays as it was sent.
const DIGITS_MAX: usize = 36;
/// Digits after the point that count when amounts are compared.
const PLACES_MAX: usize = 18;
/// Smaller parts are rounded up: 10^-9.
const NANO: i32 = -9;
/// 10^-3.
const MILLI: i32 = -3;
/// No quantity with a binary suffix is larger.
const BINARY_MAX: u128 = (1 << 63) - 1;

/// How a number is written after its digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    DecimalSi,
    DecimalExponent,
    BinarySi,
}

/// The text that kube-apiserver makes of a quantity that a client sent.
///
/// # Errors
/// kube-apiserver's text.
pub fn canonical(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Err(FORMAT);
    }
    let Some(parts) = Parts::of(text)? else { return Ok("0".to_owned()) };
    let (exponent, format) = suffix(parts.suffix).ok_or(SUFFIX)?;
    if parts.keeps_its_text(exponent, format) {
        return Ok(text.to_owned());
    }
    Ok(parts.normal(exponent, format, NANO).unwrap_or_else(|| text.to_owned()))
}

/// The text of a quantity when it is rounded up to a thousandth, as those of a `ResourceList` are when defaults are filled in; `None` when it stays.
#[must_use]
pub fn whole_milli(text: &str) -> Option<String> {
    if is_plainly_canonical(text.as_bytes()) {
        return None;
    }
    let parts = Parts::of(text).ok()??;
    let (exponent, format) = suffix(parts.suffix)?;
    // A text that Go has kept goes only when there is something to round.
    let scale =
        if format == Format::BinarySi { 0 } else { exponent.saturating_sub(i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX)) };
    if scale >= MILLI && parts.keeps_its_text(exponent, format) {
        return None;
    }
    parts.normal(exponent, format, MILLI).filter(|rounded| rounded != text)
}

/// Whether the amount is a whole number, as far as thousandths tell. A text that is no quantity is none.
#[must_use]
pub fn is_whole(text: &str) -> bool {
    let Ok(parts) = Parts::of(text.trim()) else { return false };
    let Some(parts) = parts else { return true };
    let Some((exponent, format)) = suffix(parts.suffix) else { return false };
    let digits = format!("{}{}", parts.whole, parts.fraction);
    let mantissa = if digits.is_empty() { Ok(0) } else { digits.parse::<u128>() };
    let Ok(mantissa) = mantissa else { return true };
    let places = i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
    let (mantissa, ten) = match format {
        Format::BinarySi => {
            let factor = u32::try_from(exponent).ok().and_then(|exponent| 1u128.checked_shl(exponent)).unwrap_or(1);
            (mantissa.saturating_mul(factor), -places)
        }
        _ => (mantissa, exponent.saturating_sub(places)),
    };
    let (mantissa, ten) = rounded_up(mantissa, ten, MILLI);
    ten >= 0 || 10u128.checked_pow(ten.unsigned_abs()).is_some_and(|unit| mantissa.is_multiple_of(unit))
}

/// The amount, as near as a `f64` comes; `None` when the text is no quantity. Equal amounts in other units are equal.
#[must_use]
pub fn approximate(text: &str) -> Option<f64> {
    let Some(parts) = Parts::of(text.trim()).ok()? else { return Some(0.0) };
    let (exponent, format) = suffix(parts.suffix)?;
    let digits: f64 = format!(
        "{}{}.{}e0",
        if parts.negative { "-" } else { "" },
        if parts.whole.is_empty() { "0" } else { parts.whole },
        if parts.fraction.is_empty() { "0" } else { parts.fraction }
    )
    .parse()
    .ok()?;
    Some(match format {
        Format::BinarySi => digits * 2f64.powi(exponent),
        _ if exponent < 0 => digits / 10f64.powi(-exponent),
        _ => digits * 10f64.powi(exponent),
    })
}

/// The amount in billionths, rounded away from zero, as Go keeps it; the largest number of 128 bits when it is larger. `None` when the text is no quantity.
#[must_use]
pub fn nanos(text: &str) -> Option<i128> {
    let Some(parts) = Parts::of(text.trim()).ok().filter(|_| !text.trim().is_empty())? else { return Some(0) };
    let (exponent, format) = suffix(parts.suffix)?;
    let magnitude = parts.magnitude_in_nanos(exponent, format);
    Some(if parts.negative { -magnitude } else { magnitude })
}

/// Returns the text of an amount in billionths, with suffixes of the kind that the quantity `like` has.
#[must_use]
pub fn of_nanos(nanos: i128, like: &str) -> String {
    let format = Parts::of(like).ok().flatten().and_then(|parts| suffix(parts.suffix)).map_or(Format::DecimalSi, |(_, format)| format);
    let mantissa = nanos.unsigned_abs();
    if mantissa == 0 {
        return "0".to_owned();
    }
    let text = match (format, whole(mantissa, NANO)) {
        (Format::BinarySi, Some(whole @ 1024..)) => binary(whole),
        (Format::BinarySi, _) => decimal(mantissa, NANO, Format::DecimalSi),
        (format, _) => decimal(mantissa, NANO, format),
    };
    let text = text.unwrap_or_else(|| mantissa.to_string());
    if nanos < 0 { format!("-{text}") } else { text }
}

/// Whether `text` is [`canonical`] at a glance, as most are: up to three digits, and a suffix that is not an exponent.
#[must_use]
pub fn is_plainly_canonical(text: &[u8]) -> bool {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match (digits, text.first()) {
        (1, Some(b'0')) => text.len() == 1,
        (1..=3, Some(b'1'..=b'9')) => matches!(&text[digits..], b"" | b"m" | b"k" | b"M" | b"G" | b"Ki" | b"Mi" | b"Gi" | b"Ti"),
        _ => false,
    }
}

/// A quantity taken apart: leading zeros are gone.
pub(crate) struct Parts<'a> {
    pub(crate) negative: bool,
    pub(crate) whole: &'a str,
    pub(crate) fraction: &'a str,
    pub(crate) suffix: &'a str,
}

impl<'a> Parts<'a> {
    /// None for zeros alone.
    pub(crate) fn of(text: &'a str) -> Result<Option<Self>, &'static str> {
        let digits = |text: &'a str| text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
        if rest.is_empty() {
            return Ok(None);
        }
        let (whole, rest) = digits(rest);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
        let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if !exponent.bytes().all(|b| b.is_ascii_digit()) {
            return Err(FORMAT);
        }
        Ok(Some(Self { negative: text.starts_with('-'), whole, fraction, suffix }))
    }

    /// Whether kube-apiserver keeps the text, not only the value: a 64 bit number whose exponent fits its format.
    fn keeps_its_text(&self, exponent: i32, format: Format) -> bool {
        let (whole, places) = (self.whole.len().max(1), i32::try_from(self.fraction.len()).unwrap_or(i32::MAX));
        if whole + self.fraction.len() > DIGITS_KEPT {
            return false;
        }
        let last = self.whole.parse::<u64>().unwrap_or(0);
        if format == Format::BinarySi {
            // As precise as 15 decimal digits, of which the suffix takes three tenths of its bits.
            let room = 14 - i32::try_from(whole).unwrap_or(i32::MAX) - exponent * 3 / 10;
            return self.fraction.is_empty() && room >= 0 && last & 7 != 0;
        }
        let scale = exponent.saturating_sub(places);
        let shifted = format!("{}{}", if self.whole.is_empty() { "0" } else { self.whole }, self.fraction);
        scale >= NANO && scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0')
    }

    /// The amount in billionths without its sign.
    fn magnitude_in_nanos(&self, exponent: i32, format: Format) -> i128 {
        let digits = self.whole.bytes().chain(self.fraction.bytes());
        let (mut ten, binary) = match format {
            Format::BinarySi => (0, u32::try_from(exponent).unwrap_or(0)),
            _ => (i64::from(exponent), 0),
        };
        let places = self.fraction.len().min(PLACES_MAX);
        let kept = self.whole.len() + places;
        let rest_is_more = self.fraction.bytes().skip(places).any(|digit| digit != b'0');
        let mantissa = digits.take(kept).try_fold(0u128, |all, digit| all.checked_mul(10)?.checked_add(u128::from(digit - b'0')));
        let Some(mantissa) = mantissa else { return i128::MAX };
        ten -= i64::try_from(places).unwrap_or(i64::MAX) + i64::from(NANO);
        let magnitude = mantissa.checked_shl(binary).filter(|shifted| shifted >> binary == mantissa).and_then(|mantissa| {
            let unit = u32::try_from(ten.unsigned_abs()).ok().and_then(|places| 10u128.checked_pow(places));
            match (mantissa, unit) {
                (0, _) => Some(0),
                (_, Some(unit)) if ten >= 0 => mantissa.checked_mul(unit),
                (_, None) if ten >= 0 => None,
                (_, unit) => Some(unit.map_or(1, |unit| mantissa.div_ceil(unit))),
            }
        });
        let magnitude = magnitude.map_or(i128::MAX, |magnitude| i128::try_from(magnitude).unwrap_or(i128::MAX));
        if rest_is_more && magnitude == 0 { 1 } else { magnitude }
    }

    /// None when the number is too long to compute with, or has no suffix that says it.
    fn normal(&self, exponent: i32, format: Format, smallest: i32) -> Option<String> {
        if self.whole.len() + self.fraction.len() > DIGITS_MAX {
            return None;
        }
        let digits = format!("{}{}", self.whole, self.fraction);
        let mut mantissa: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        let mut ten = -i32::try_from(self.fraction.len()).ok()?;
        if format == Format::BinarySi {
            mantissa = mantissa.checked_shl(u32::try_from(exponent).ok()?).filter(|shifted| shifted >> exponent == mantissa)?;
        } else {
            ten = ten.checked_add(exponent)?;
        }
        (mantissa, ten) = rounded_up(mantissa, ten, smallest);
        if mantissa == 0 {
            return Some("0".to_owned());
        }
        let text = match (format, whole(mantissa, ten)) {
            (Format::BinarySi, _) if above(mantissa, ten, BINARY_MAX) => binary(BINARY_MAX),
            (Format::BinarySi, Some(whole @ 1024..)) => binary(whole),
            (Format::BinarySi, _) => decimal(mantissa, ten, Format::DecimalSi),
            (format, _) => decimal(mantissa, ten, format),
        };
        text.map(|text| if self.negative { format!("-{text}") } else { text })
    }
}

/// Rounds up to whole units of ten to the power of `smallest`.
fn rounded_up(mantissa: u128, ten: i32, smallest: i32) -> (u128, i32) {
    let Ok(places @ 1..) = u32::try_from(smallest.saturating_sub(ten)) else { return (mantissa, ten) };
    (10u128.checked_pow(places).map_or(u128::from(mantissa > 0), |unit| mantissa.div_ceil(unit)), smallest)
}

/// The value, when it is a whole number.
pub(crate) fn whole(mantissa: u128, ten: i32) -> Option<u128> {
    let unit = 10u128.checked_pow(ten.unsigned_abs())?;
    if ten >= 0 { mantissa.checked_mul(unit) } else { mantissa.is_multiple_of(unit).then(|| mantissa / unit) }
}

fn above(mantissa: u128, ten: i32, limit: u128) -> bool {
    10u128.checked_pow(ten.unsigned_abs()).is_some_and(|unit| mantissa / unit >= limit)
}

pub(crate) fn binary(mut value: u128) -> Option<String> {
    let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut suffix = suffixes.next()?;
    while value.is_multiple_of(1024) && value > 0 {
        value /= 1024;
        suffix = suffixes.next()?;
    }
    Some(format!("{value}{suffix}"))
}

pub(crate) fn decimal(mut mantissa: u128, mut ten: i32, format: Format) -> Option<String> {
    while mantissa.is_multiple_of(10) {
        mantissa /= 10;
        ten = ten.checked_add(1)?;
    }
    while ten % 3 != 0 {
        mantissa = mantissa.checked_mul(10)?;
        ten -= 1;
    }
    let suffix = match (format, ten) {
        (_, 0) => "",
        (Format::DecimalExponent, _) => return Some(format!("{mantissa}e{ten}")),
        (_, ten) => DECIMAL.iter().find(|(_, known)| *known == ten).map(|(suffix, _)| *suffix)?,
    };
    Some(format!("{mantissa}{suffix}"))
}

const DECIMAL: &[(&str, i32)] = &[("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: &[(&str, i32)] = &[("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The exponent (of ten, or of two) that a suffix means.
pub(crate) fn suffix(text: &str) -> Option<(i32, Format)> {
    let known = |table: &[(&str, i32)]| table.iter().find(|(suffix, _)| *suffix == text).map(|(_, exponent)| *exponent);
    let decimal = known(DECIMAL).map(|exponent| (exponent, Format::DecimalSi));
    let binary = || known(BINARY).map(|exponent| (exponent, Format::BinarySi));
    let exponent = || Some((text.strip_prefix(['e', 'E'])?.parse().ok()?, Format::DecimalExponent));
    decimal.or_else(binary).or_else(exponent)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use corpus::Subject;

    /// Recorded from kube-apiserver 1.36.3: `capacity` of a CSIStorageCapacity.
    #[test]
    fn quantities_are_written_as_kubernetes_writes_them() {
        for (sent, expect) in [
            ("1", "1"),
            ("0", "0"),
            ("00", "0"),
            ("-0", "0"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.5", "1500m"),
            ("1.500", "1.500"),
            ("1.50", "1500m"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.1m", "100u"),
            ("1u", "1u"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("0.0000000001", "1n"),
            ("0.1234567891", "123456790n"),
            ("1k", "1k"),
            ("1000k", "1M"),
            ("1000000", "1M"),
            ("1.5k", "1500"),
            ("1Ki", "1Ki"),
            ("1024Ki", "1Mi"),
            ("1.5Ki", "1536"),
            ("1536Ki", "1536Ki"),
            ("0.5Ki", "512"),
            ("1023Ki", "1023Ki"),
            ("1.5Gi", "1536Mi"),
            ("1024", "1024"),
            ("8Ki", "8Ki"),
            ("16Ki", "16Ki"),
            ("10Ei", "9223372036854775807"),
            ("8Ei", "9223372036854775807"),
            ("7Ei", "7Ei"),
            ("2048Mi", "2Gi"),
            ("0Ki", "0"),
            ("1.1Ki", "1126400m"),
            ("0.9Ki", "921600m"),
            ("1.0000000001Gi", "1073741824107374183n"),
            ("0.3Gi", "322122547200m"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("1e-3", "1e-3"),
            ("12e6", "12e6"),
            ("1E", "1E"),
            ("1E1", "10"),
            ("5e1", "50"),
            ("1e+3", "1e+3"),
            ("2.5e3", "2500"),
            ("1e18", "1e18"),
            ("1e19", "10e18"),
            ("1e100", "10e99"),
            ("+5", "+5"),
            ("05", "05"),
            ("005m", "005m"),
            ("0.001", "1m"),
            ("100.000", "100"),
            ("1.", "1."),
            ("1.G", "1.G"),
            (" 1 ", "1"),
            ("m", "0"),
            ("99999E", "99999E"),
            ("9223372036854775808", "9223372036854775808"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("-1.5", "-1500m"),
        ] {
            assert_eq!(canonical(sent), Ok(expect.to_owned()), "{sent}");
        }
    }

    #[test]
    fn resources_are_counted_in_thousandths() {
        for (sent, expect) in [("1u", "1m"), ("1500001n", "2m"), ("1e-6", "1e-3"), ("1126400m", "1126400m"), ("1Gi", "1Gi")] {
            assert_eq!(whole_milli(sent).as_deref().unwrap_or(sent), expect, "{sent}");
        }
    }

    /// What needs no rounding keeps its text, as in Go (`RoundUp`).
    #[test]
    fn texts_stay_when_nothing_is_rounded() {
        for kept in ["1.500", "+5", "+1", "1e0", "1E3", "010", "5.", "1e-3"] {
            assert_eq!(whole_milli(kept), None, "{kept}");
        }
    }

    #[test]
    fn amounts_are_counted_in_billionths() {
        let one = 1_000_000_000;
        for (text, want) in [
            ("0", 0),
            ("-0", 0),
            ("m", 0),
            ("1", one),
            ("-1.5", -3 * one / 2),
            ("1Ki", 1024 * one),
            ("0.5Ki", 512 * one),
            ("1e3", 1000 * one),
            ("1n", 1),
            ("0.1n", 1),
            ("-0.1n", -1),
            ("1e-100", 1),
            ("7Ei", 7 * (1 << 60) * one),
            ("0.00000000000000000000000000000000000000000000000001", 1),
            ("1e300", i128::MAX),
            ("0e300", 0),
        ] {
            assert_eq!(nanos(text), Some(want), "{text}");
        }
        assert_eq!(["", "x", "1Zi", "1e"].map(nanos), [None; 4]);
        let texts = [(1536 << 20, "1Gi"), (1500, "1"), (1500, "1e3"), (1500, "100m")].map(|(whole, like)| of_nanos(whole * one, like));
        assert_eq!(texts, ["1536Mi", "1500", "1500", "1500"]);
        assert_eq!((of_nanos(one / 2, "1Gi"), of_nanos(-2000 * one, "1")), ("500m".to_owned(), "-2k".to_owned()));
    }

    #[test]
    fn whole_amounts_have_no_fractions() {
        for whole in ["0", "1", "1Ki", "1.5Ki", "1000m", "1e3", "1.0", "-2", "100E", "99999999999999999999999999999999999999999999"] {
            assert!(is_whole(whole), "{whole}");
        }
        for part in ["1m", "1.5", "100u", "0.1Ki", "-1500m", "1e-1", "x"] {
            assert!(!is_whole(part), "{part}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for sent in ["abc", "", "1 Gi", "1Zi", "1.2.3", "0x10", "\u{661}"] {
            assert_eq!(canonical(sent), Err(FORMAT), "{sent}");
        }
        for sent in ["1K", "1e", "1mi", "--1", "1i", "K"] {
            assert_eq!(canonical(sent), Err(SUFFIX), "{sent}");
        }
    }

    #[test]
    fn corpus() {
        Subject {
            name: "quantities",
            law: |input| {
                let Ok(normal) = canonical(&String::from_utf8_lossy(input)) else { return false };
                assert_eq!(canonical(&normal), Ok(normal.clone()), "a normal form is its own");
                true
            },
            words: &[
                "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e", "E", "e-9", "e18", ".", "+", "-",
                "000",
            ],
            long: &[["", "0", "1"], ["", "9", "Ei"], ["0.", "0", "1"], ["1e", "9", ""], ["", "-", "1"], ["1", ".", ""]],
        }
        .check();
    }

    proptest! {
        #[test]
        fn a_normal_form_is_its_own(sent in "[+-]?[0-9]{0,12}\\.?[0-9]{0,12}(|m|k|M|Ki|Gi|e-?[0-9]{1,2})") {
            prop_assert!(!is_plainly_canonical(sent.as_bytes()) || canonical(&sent).as_ref() == Ok(&sent));
            if let Ok(normal) = canonical(&sent) {
                prop_assert_eq!(canonical(&normal), Ok(normal));
            }
        }

        #[test]
        fn anything_is_read_without_panic(sent in "\\PC{0,20}") {
            let _ = canonical(&sent);
        }
    }
}
