//! Debug output for people: lists of bytes become quoted strings. Knows no message.

/// The same text with every list of bytes, `[107, 49]`, as `"k1"`; long ones shortened.
pub(crate) fn readable(debug: &str) -> String {
    let mut out = String::with_capacity(debug.len());
    let mut rest = debug;
    while let Some(open) = rest.find('[') {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        match bytes(rest) {
            Some((list, length)) => {
                out.push_str(&quoted(&list));
                rest = &rest[length..];
            }
            None => {
                out.push('[');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

/// The list of bytes that the text begins with, and how long its text is.
fn bytes(text: &str) -> Option<(Vec<u8>, usize)> {
    let end = text.find(']')?;
    let list = text[1..end].split(", ").map(str::parse).collect::<Result<Vec<u8>, _>>().ok()?;
    Some((list, end + 1))
}

fn quoted(bytes: &[u8]) -> String {
    /// Bytes shown of a long value.
    const SHOWN: usize = 40;
    let text = bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string();
    if bytes.len() > SHOWN { format!("\"{text}…\"({} bytes)", bytes.len()) } else { format!("\"{text}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_bytes_become_strings_and_other_lists_stay() {
        assert_eq!(readable("Kv { key: [107, 49], list: [Some(1)], value: [0] }"), r#"Kv { key: "k1", list: [Some(1)], value: "\x00" }"#);
        assert_eq!(readable("[]"), "[]");
    }
}
