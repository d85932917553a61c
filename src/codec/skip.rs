//! Skips values of JSON that was checked when it came in, without a look at what is inside them. Does not tell what is no JSON: that is for
//! [`super::ingest`].

/// Words of eight bytes that are looked at before a search for long texts is begun: to begin it costs as much as all of them, and nearly all strings are
/// shorter, uids too.
const SHORT_WORDS: usize = 5;

/// In each byte of a word.
const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The eight bytes from here on, the first one lowest.
fn word(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Bits of a word whose lowest one is the highest of its first byte that is a quote, a backslash or no ASCII. Bits above that byte tell nothing.
fn marks(word: u64) -> u64 {
    let before = |byte: u8| (word ^ each(byte)).wrapping_sub(each(1));
    (before(b'"') | before(b'\\') | word) & each(0x80)
}

/// The same, or a control character.
fn plain_marks(word: u64) -> u64 {
    marks(word) | word.wrapping_sub(each(b' ')) & each(0x80)
}

/// Which byte of a word the lowest bit is in.
fn first(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

/// Where the next quote or backslash stands.
fn mark(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    for _ in 0..SHORT_WORDS {
        let Some(marks) = word(text, at).map(marks) else { break };
        if marks != 0 {
            at += first(marks);
            if text[at].is_ascii() {
                return Some(at);
            }
            break;
        }
        at += 8;
    }
    memchr::memchr2(b'"', b'\\', text.get(at..)?).map(|len| at + len)
}

/// Where a short string ends whose text begins here, if that is ASCII without escapes and control characters. `None` tells nothing of the string.
pub(crate) fn plain(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    for _ in 0..SHORT_WORDS {
        let marks = plain_marks(word(text, at)?);
        if marks != 0 {
            at += first(marks);
            return (text[at] == b'"').then_some(at);
        }
        at += 8;
    }
    None
}

/// The text of the string whose first quote stands here, without its quotes, and whether it has escapes; `None` when it does not end.
pub(crate) fn string(text: &[u8], quote: usize) -> Option<(&[u8], bool)> {
    let (start, mut at, mut escaped) = (quote + 1, quote + 1, false);
    loop {
        at = mark(text, at)?;
        if text[at] == b'"' {
            return Some((&text[start..at], escaped));
        }
        escaped = true;
        at += 2;
    }
}

/// Where the value that begins here ends; `None` when the text, or what is around it, ends before.
pub(crate) fn end(text: &[u8], start: usize) -> Option<usize> {
    match text.get(start)? {
        b'"' => Some(start + string(text, start)?.0.len() + 2),
        b'{' | b'[' => nested_end(text, start + 1),
        b'}' | b']' => None,
        _ => {
            let after = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':') || byte.is_ascii_whitespace();
            Some(text[start..].iter().position(after).map_or(text.len(), |len| start + len))
        }
    }
}

/// Where an array or object ends that was begun before.
fn nested_end(text: &[u8], inside: usize) -> Option<usize> {
    let (mut at, mut depth) = (inside, 1usize);
    loop {
        let byte = *text.get(at)?;
        at += 1;
        match byte {
            b'"' => at += string(text, at - 1)?.0.len() + 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
}

/// The first place from here on that is no white space.
pub(crate) fn blank(text: &[u8], at: usize) -> usize {
    // Nearly all of what is read has none.
    if text.get(at).is_some_and(|byte| *byte > b' ') {
        return at;
    }
    at + text[at.min(text.len())..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn what_does_not_end_is_told() {
        for text in ["", "\"", "\"a\\", "\"a\\\"", "{", "[\"a\"", "{\"a\":[}", "]"] {
            assert_eq!(end(text.as_bytes(), 0), None, "{text}");
        }
    }

    proptest! {
        /// Strings of every length around those of words, with marks anywhere in them.
        #[test]
        fn strings_end_where_another_search_ends(text in r#"[a-c]{0,40}(["\\\x01\x1f\x7f\u{80}é!\[\]]{1,3}[a-c]{0,12}){0,3}"#) {
            let (text, mut at) = (text.as_bytes(), 0);
            loop {
                let marked = text[at..].iter().position(|byte| matches!(byte, b'"' | b'\\')).map(|len| at + len);
                prop_assert_eq!(mark(text, at), marked);
                let is_plain = |end: usize| text[end] == b'"' && text[at..end].iter().all(|byte| (b' '..0x80).contains(byte));
                match plain(text, at) {
                    Some(end) => prop_assert!(marked == Some(end) && is_plain(end)),
                    // Long ones, and those near the end of the text, are left to others.
                    None => prop_assert!(marked.is_none_or(|end| !is_plain(end) || end - at >= 8 * SHORT_WORDS || text.len() - at < 8 * ((end - at) / 8 + 1))),
                }
                let Some(marked) = marked else { break };
                at = marked + 1;
            }
        }

        /// Where a value ends for serde_json it ends here, whatever follows it.
        #[test]
        fn ends_where_another_reader_ends(text in r#"( ?[\[\]{}",:\\u0-9eE+.a-f ntrls-]{0,24}|\{"[a-z\\"]{0,3}":("[a-z\\"{}\[]{0,6}"|\[1,\{\}\]|null|-1\.5e3)\})[,}\] ]?"#) {
            let start = blank(text.as_bytes(), 0);
            let mut values = serde_json::Deserializer::from_str(&text).into_iter::<&RawValue>();
            if let Some(Ok(value)) = values.next() {
                let value = value.get();
                // serde_json takes a number for its longest beginning that is one.
                let followed = text.as_bytes().get(start + value.len()).is_none_or(|byte| b",}]: ".contains(byte));
                if followed || value.starts_with(['{', '[', '"']) {
                    prop_assert_eq!(end(text.as_bytes(), start), Some(start + value.len()), "{}", text);
                }
            }
        }
    }
}
