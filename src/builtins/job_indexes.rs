//! Indexes of an Indexed Job as text: `1,3-5,7`.

use go::{quote::quoted, strconv};

/// An index, or the first and the last of several.
type Interval = (i64, i64);

/// Returns how many indexes a text has, each below `completions` and in order.
///
/// # Errors
/// What kube-apiserver says of it.
pub(crate) fn count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut last, mut total): (Option<i64>, i64) = (None, 0);
    for part in text.split(',') {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(not_increasing(last, first));
        }
        total = total.saturating_add(end - first + 1);
        last = Some(end);
    }
    Ok(total)
}

/// Returns the first index that is in both texts. Parts that cannot be read are left out.
pub(crate) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    if completed.is_empty() || failed.is_empty() {
        return None;
    }
    let read = |text: &str| -> Vec<Interval> { text.split(',').filter_map(|part| interval(part, completions).ok()).collect() };
    let (completed, failed) = (read(completed), read(failed));
    let (mut at, mut other) = (0, 0);
    while let (Some(one), Some(two)) = (completed.get(at), failed.get(other)) {
        if one.0 <= two.1 && two.0 <= one.1 {
            return Some(one.0.max(two.0));
        }
        if one.0 <= two.0 { at += 1 } else { other += 1 }
    }
    None
}

fn interval(text: &str, completions: i64) -> Result<Interval, String> {
    let mut parts = text.split('-');
    let (first, end) = (parts.next().unwrap_or_default(), parts.next());
    if parts.next().is_some() {
        let text = quoted(text);
        return Err(format!(
            "the fragment {text} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let index = |text: &str| {
        let number = strconv::parse_int(text).map_err(|_| format!("cannot convert string to integer for index: {}", quoted(text)))?;
        if number >= completions { Err(format!("too large index: {}", quoted(text))) } else { Ok(number) }
    };
    let first = index(first)?;
    let Some(end) = end.map(index).transpose()? else { return Ok((first, first)) };
    if first >= end { Err(not_increasing(first, end)) } else { Ok((first, end)) }
}

fn not_increasing(last: i64, next: i64) -> String {
    format!("non-increasing order, previous: {last}, current: {next}")
}
