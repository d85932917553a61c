//! Functions of strings, whose characters are counted.

use go::quote;

/// Returns the character at an index, which may be the end.
///
/// # Errors
/// There is no such index.
pub(crate) fn char_at(text: &str, index: i64) -> Result<&str, String> {
    let from = place(text, index).ok_or_else(|| out_of_range(index))?;
    let length = text[from..].chars().next().map_or(0, char::len_utf8);
    Ok(&text[from..from + length])
}

/// Returns where a part is found first, from an offset on; -1 when it is not.
///
/// # Errors
/// The offset is negative.
pub(crate) fn index_of(text: &str, part: &str, offset: i64) -> Result<i64, String> {
    if part.is_empty() {
        return Ok(offset);
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let Some(from) = place(text, offset) else { return Ok(-1) };
    Ok(text[from..].find(part).map_or(-1, |at| offset + count(&text[from..from + at])))
}

/// Returns where a part is found last; -1 when it is not.
pub(crate) fn last_index_of(text: &str, part: &str) -> i64 {
    if part.is_empty() {
        return count(text);
    }
    text.rfind(part).map_or(-1, |at| count(&text[..at]))
}

/// Returns where a part is found last that begins at an offset or before; -1 when it is not.
///
/// # Errors
/// The offset is negative.
pub(crate) fn last_index_of_before(text: &str, part: &str, offset: i64) -> Result<i64, String> {
    if part.is_empty() {
        return Ok(offset);
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let Some(from) = place(text, offset).filter(|from| *from < text.len()) else { return Ok(-1) };
    let mut end = (from + part.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Ok(text[..end].rfind(part).map_or(-1, |at| count(&text[..at])))
}

/// Returns the text with a part replaced, at most so many times: always when that is negative. Go's `strings.Replace`.
pub(crate) fn replace(text: &str, part: &str, with: &str, times: i64) -> String {
    let times = usize::try_from(times).unwrap_or(usize::MAX);
    if !part.is_empty() {
        return text.replacen(part, with, times);
    }
    let mut out = String::with_capacity(text.len());
    let mut left = times;
    for c in text.chars() {
        if left > 0 {
            out.push_str(with);
            left -= 1;
        }
        out.push(c);
    }
    if left > 0 {
        out.push_str(with);
    }
    out
}

/// Returns the parts between separators, at most so many: all when that is negative. Go's `strings.SplitN`.
pub(crate) fn split<'t>(text: &'t str, separator: &str, most: i64) -> Vec<&'t str> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if most == 0 {
        return Vec::new();
    }
    if !separator.is_empty() {
        return text.splitn(most, separator).collect();
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 >= most {
            parts.push(rest);
            break;
        }
        let (part, after) = rest.split_at(c.len_utf8());
        parts.push(part);
        rest = after;
    }
    parts
}

/// Returns the characters from an index on.
///
/// # Errors
/// There is no such index.
pub(crate) fn substring(text: &str, start: i64) -> Result<&str, String> {
    place(text, start).map(|from| &text[from..]).ok_or_else(|| out_of_range(start))
}

/// Returns the characters from an index to another.
///
/// # Errors
/// There is no such index, or the end is before the start.
pub(crate) fn substring_to(text: &str, start: i64, end: i64) -> Result<&str, String> {
    if start > end {
        return Err(format!("invalid substring range. start: {start}, end: {end}"));
    }
    let from = place(text, start).ok_or_else(|| out_of_range(start))?;
    let to = place(text, end).ok_or_else(|| out_of_range(end))?;
    Ok(&text[from..to])
}

/// Returns the text without white space at its ends.
pub(crate) fn trim(text: &str) -> &str {
    // Go knows U+0085 and the others that Unicode calls white space, as Rust does.
    text.trim()
}

/// Returns the text in quotes, with escapes for control characters that have a name.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}'..='\r' | '\\' | '"' => {
                let escaped = quote::quoted(&c.to_string());
                out.push_str(&escaped[1..escaped.len() - 1]);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The byte at which a character begins; that behind the last one is the end.
fn place(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

fn count(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn out_of_range(index: i64) -> String {
    format!("index out of range: {index}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted() {
        let text = "ta©o©αT";
        for (index, want) in [(0, "t"), (2, "©"), (5, "α"), (6, "T"), (7, "")] {
            assert_eq!(char_at(text, index), Ok(want));
        }
        for index in [-1, 8, i64::MAX, i64::MIN] {
            assert_eq!(char_at(text, index), Err(format!("index out of range: {index}")));
            assert_eq!(substring(text, index), Err(format!("index out of range: {index}")));
        }
        assert_eq!((substring(text, 4), substring(text, 7)), (Ok("©αT"), Ok("")));
        assert_eq!((substring_to(text, 2, 4), substring_to(text, 7, 7)), (Ok("©o"), Ok("")));
        assert_eq!(substring_to(text, 4, 2), Err("invalid substring range. start: 4, end: 2".to_owned()));
        assert_eq!(substring_to(text, -1, 2), Err("index out of range: -1".to_owned()));
        assert_eq!(substring_to(text, 1, 9), Err("index out of range: 9".to_owned()));
    }

    /// Cases of cel-go's `strings_test.go`.
    #[test]
    fn parts_are_found() {
        let text = "ta©o©αT";
        for (part, offset, first) in
            [("©", 0, 2), ("©", 3, 4), ("αT", 3, 5), ("αT", 5, 5), ("", 3, 3), ("x", 0, -1), ("t", 99, -1), ("", 99, 99)]
        {
            assert_eq!(index_of(text, part, offset), Ok(first), "{part} {offset}");
        }
        assert_eq!(index_of(text, "t", -1), Err("index out of range: -1".to_owned()));
        for (part, last) in [("©", 4), ("", 7), ("αT", 5), ("ta©o©αT!", -1), ("t", 0)] {
            assert_eq!(last_index_of(text, part), last, "{part}");
        }
        for (part, offset, last) in
            [("©", 3, 2), ("©", 4, 4), ("t", 0, 0), ("t", 7, -1), ("αT", 6, 5), ("T", 5, -1), ("", 9, 9), ("ta©o©αT", 6, 0), ("o©α", 2, -1)]
        {
            assert_eq!(last_index_of_before(text, part, offset), Ok(last), "{part} {offset}");
        }
        assert_eq!(last_index_of_before(text, "t", -1), Err("index out of range: -1".to_owned()));
    }

    #[test]
    fn parts_are_replaced() {
        for (text, part, with, times, want) in [
            ("12 days 12 hours", "{0}", "2", -1, "12 days 12 hours"),
            ("{0} days {0} hours", "{0}", "2", -1, "2 days 2 hours"),
            ("{0} days {0} hours", "{0}", "2", 1, "2 days {0} hours"),
            ("1 ©αT taco", "αT", "o©α", -1, "1 ©o©α taco"),
            ("abc", "", "-", -1, "-a-b-c-"),
            ("abc", "", "-", 2, "-a-bc"),
            ("abc", "", "-", 4, "-a-b-c-"),
            ("abc", "b", "-", 0, "abc"),
        ] {
            assert_eq!(replace(text, part, with, times), want);
        }
    }

    #[test]
    fn texts_are_split() {
        let cases: &[(&str, &str, i64, &[&str])] = &[
            ("hello world", " ", -1, &["hello", "world"]),
            ("hello world events!", " ", 0, &[]),
            ("hello world events!", " ", 1, &["hello world events!"]),
            ("o©o©o©o", "©", -1, &["o", "o", "o", "o"]),
            ("o©o", "", -1, &["o", "©", "o"]),
            ("o©o", "", 2, &["o", "©o"]),
            ("o©o", "", 9, &["o", "©", "o"]),
            ("", "", -1, &[]),
            ("", " ", -1, &[""]),
        ];
        for (text, separator, most, want) in cases {
            assert_eq!(split(text, separator, *most), *want, "{text} {most}");
        }
    }

    #[test]
    fn texts_are_quoted() {
        for (text, want) in [
            ("first\nsecond", r#""first\nsecond""#),
            ("bell\u{7}b\u{8}f\u{c}r\rt\tv\u{b}", r#""bell\ab\bf\fr\rt\tv\v""#),
            ("back\\slash \"q\" 'é' \u{1}", "\"back\\\\slash \\\"q\\\" 'é' \u{1}\""),
        ] {
            assert_eq!(quoted(text), want);
        }
        assert_eq!(trim("\u{85}\u{a0} \u{2003}x\u{3000}\t"), "x");
    }
}
