//! Numbers of several types, compared and converted without loss.

/// 2^63 and 2^64, the first numbers that are too large.
pub(super) const INT_END: f64 = 9_223_372_036_854_775_808.0;
pub(super) const UINT_END: f64 = 18_446_744_073_709_551_616.0;

/// Returns the integer that a number is without its fraction; none if there is no such integer.
#[expect(clippy::cast_possible_truncation, reason = "the range is looked at before")]
pub(crate) fn double_to_int(double: f64) -> Option<i64> {
    (double > -INT_END && double < INT_END).then_some(double as i64)
}

/// Returns the unsigned integer that a number is without its fraction; none if there is no such integer.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is looked at before")]
pub(crate) fn double_to_uint(double: f64) -> Option<u64> {
    (0.0..UINT_END).contains(&double).then_some(double as u64)
}

/// Returns a number as Go prints it with `%g`.
pub(crate) fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    go::strconv::format_float(value)
}
