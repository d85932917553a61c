//! Values of JSON that was checked when it came in, passed over without a look at what is inside them. Does not tell what is no JSON: that is for
//! [`super::ingest`].

/// The text of the string whose first quote stands here, without its quotes, and whether it has escapes; `None` when it does not end.
pub(crate) fn string(text: &[u8], quote: usize) -> Option<(&[u8], bool)> {
    let (start, mut at, mut escaped) = (quote + 1, quote + 1, false);
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some((&text[start..at], escaped));
        }
        escaped = true;
        at += 2;
    }
}

/// Where the value that begins here ends; `None` when the text, or what is around it, ends before.
pub(crate) fn end(text: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0usize);
    loop {
        match text.get(at)? {
            b'"' => at += string(text, at)?.0.len() + 2,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            _ if depth == 0 => {
                let after = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':') || byte.is_ascii_whitespace();
                return Some(text[at..].iter().position(after).map_or(text.len(), |len| at + len));
            }
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The first place from here on that is no white space.
pub(crate) fn blank(text: &[u8], at: usize) -> usize {
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
