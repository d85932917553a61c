//! Numbers of JSON as go-yaml prints them: integers of 64 bits as they are, all others as Go's shortest `%g`.

use std::borrow::Cow;

/// From this exponent on a float is printed with one (Go's `FormatFloat` with `g` and the shortest precision).
const EXPONENT_FROM: i32 = 6;
/// Below this exponent as well.
const EXPONENT_BELOW: i32 = -4;

/// A number as it is printed; `None` for what is no number of JSON.
pub(super) fn shown(text: &str) -> Option<Cow<'_, str>> {
    if !is_number(text) {
        return None;
    }
    if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
        return Some(if text == "-0" { Cow::Borrowed("0") } else { Cow::Borrowed(text) });
    }
    let float: f64 = text.parse().ok()?;
    // What no float holds is a text to go-yaml, and printed as it stands.
    Some(if float.is_finite() { Cow::Owned(general(float)) } else { Cow::Borrowed(text) })
}

/// Whether a text is a number by RFC 8259: Rust reads more (`0.`, `01`).
fn is_number(text: &str) -> bool {
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (mantissa, power) = text.split_once(['e', 'E']).map_or((text, None), |(mantissa, power)| (mantissa, Some(power)));
    let (whole, part) = mantissa.split_once('.').map_or((mantissa, None), |(whole, part)| (whole, Some(part)));
    let whole = whole.strip_prefix('-').unwrap_or(whole);
    are_digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && part.is_none_or(are_digits)
        && power.is_none_or(|power| are_digits(power.strip_prefix(['+', '-']).unwrap_or(power)))
}

/// Go's `FormatFloat(float, 'g', -1, 64)`.
#[must_use]
pub fn general(float: f64) -> String {
    laid_out(float.is_sign_negative(), float == 0.0, &serde_json::to_string(&float).expect("a finite float is JSON"))
}

/// Go's `FormatFloat(float, 'g', -1, 32)`.
pub(super) fn general_short(float: f32) -> String {
    laid_out(float.is_sign_negative(), float == 0.0, &serde_json::to_string(&float).expect("a finite float is JSON"))
}

fn laid_out(is_negative: bool, is_zero: bool, json: &str) -> String {
    let minus = if is_negative { "-" } else { "" };
    if is_zero {
        return format!("{minus}0");
    }
    // serde_json's digits are Go's: the fewest that tell the float, the nearest of these, and of two that are as near the even one. Rust's own differ there.
    let (digits, exponent) = decimal(json);
    if !(EXPONENT_BELOW..EXPONENT_FROM).contains(&exponent) {
        let (first, more) = digits.split_at(1);
        let point = if more.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{minus}{first}{point}{more}e{sign}{:02}", exponent.unsigned_abs());
    }
    let Ok(whole) = usize::try_from(exponent + 1) else {
        return format!("{minus}0.{:0>1$}", digits, digits.len() + (-exponent - 1).unsigned_abs() as usize);
    };
    match digits.split_at_checked(whole) {
        None => format!("{minus}{digits:0<whole$}"),
        Some((_, "")) => format!("{minus}{digits}"),
        Some(("", part)) => format!("{minus}0.{part}"),
        Some((whole, part)) => format!("{minus}{whole}.{part}"),
    }
}

/// The digits of a number that is not 0, without zeros around them, and the power of ten of the first.
fn decimal(text: &str) -> (String, i32) {
    let text = text.trim_start_matches('-');
    let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{part}");
    let digits = all.trim_start_matches('0');
    let first = i32::try_from(whole.len()).unwrap_or(i32::MAX) - 1 - i32::try_from(all.len() - digits.len()).unwrap_or(0);
    (digits.trim_end_matches('0').to_owned(), power.parse::<i32>().unwrap_or(0).saturating_add(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_rust_reads_is_no_number() {
        for text in ["", "-", "0.", "01", "-01", "1.e5", "1e", "1e+", "+1", ".5", "1.5.5", "1e5e5", "1-5", "0x1", "inf", "--1"] {
            assert_eq!(shown(text), None, "{text}");
        }
        for text in ["0", "-0", "0.0", "10", "1.50", "1e5", "1E-5", "-1.5e+05", "1e999"] {
            assert!(shown(text).is_some(), "{text}");
        }
    }

    /// As a kube-apiserver printed them.
    #[test]
    fn numbers_are_gos() {
        for (json, yaml) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "-0"),
            ("1.0", "1"),
            ("-12", "-12"),
            ("9223372036854775807", "9223372036854775807"),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "1.8446744073709552e+19"),
            ("-9223372036854775809", "-9.223372036854776e+18"),
            ("100000.5", "100000.5"),
            ("1234567.5", "1.2345675e+06"),
            ("1e21", "1e+21"),
            ("1e5", "100000"),
            ("1e6", "1e+06"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("1.5e-7", "1.5e-07"),
            ("1e-300", "1e-300"),
            ("-832233062214053.2", "-8.322330622140532e+14"),
            ("-34377578239624235000", "-3.4377578239624233e+19"),
            ("0.1", "0.1"),
            ("0.012", "0.012"),
            ("12.5e2", "1250"),
            ("1.00000000000000000000001", "1"),
            ("1e400", "1e400"),
        ] {
            assert_eq!(shown(json).as_deref(), Some(yaml), "{json}");
        }
        for json in ["", "-", "x", "1x", ".5", "+1", "1e", "1.2.3", "-inf"] {
            assert_eq!(shown(json), None, "{json}");
        }
    }
}
