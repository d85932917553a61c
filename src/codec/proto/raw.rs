//! JSON that protobuf carries as bytes, as Go prints it inside of other JSON: checked, without spaces, with its escapes.

use serde::de::IgnoredAny;

/// Appends `raw`. None when it is not JSON, and nothing is appended then.
pub(super) fn compact_into(raw: &[u8], out: &mut Vec<u8>) -> Option<()> {
    serde_json::from_slice::<IgnoredAny>(raw).ok()?;
    // `IgnoredAny` passes over what is inside of strings.
    std::str::from_utf8(raw).ok()?;
    if raw.chunks(64).all(|chunk| !chunk.iter().fold(false, |found, byte| found | special(*byte))) {
        out.extend_from_slice(raw);
    } else {
        rewrite_into(raw, out);
    }
    Some(())
}

/// Spaces, what HTML escaping changes, and the first byte of U+2028 and U+2029.
fn special(byte: u8) -> bool {
    byte <= b' ' || matches!(byte, b'<' | b'>' | b'&' | 0xe2)
}

fn rewrite_into(raw: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let (mut in_string, mut at) = (false, 0);
    while let Some(&byte) = raw.get(at) {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' if !in_string => {}
            b'\\' => {
                out.extend_from_slice(&raw[at..(at + 2).min(raw.len())]);
                at += 1;
            }
            b'<' | b'>' | b'&' => {
                out.extend_from_slice(br"\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            0xe2 if matches!(raw.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])) => {
                out.extend_from_slice(if raw[at + 2] == 0xa8 { br"\u2028" } else { br"\u2029" });
                at += 2;
            }
            _ => {
                in_string ^= byte == b'"';
                out.push(byte);
            }
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_go_and_escapes_come() {
        let compacted = |raw: &str| {
            let mut out = b"x".to_vec();
            compact_into(raw.as_bytes(), &mut out).map(|()| String::from_utf8_lossy(&out[1..]).into_owned())
        };
        for (raw, expect) in [
            ("{}", Some("{}")),
            (" { \"a b\" :\t[ 1 ,\n2.50 ]\r}\n", Some(r#"{"a b":[1,2.50]}"#)),
            (r#"{"a\" ":"\\", "b":"\"<>&"}"#, Some("{\"a\\\" \":\"\\\\\",\"b\":\"\\\"\\u003c\\u003e\\u0026\"}")),
            ("\"\u{2028}\u{2029}\u{2030}é\"", Some("\"\\u2028\\u2029\u{2030}é\"")),
            ("", None),
            ("{", None),
            ("{} {}", None),
            ("\"\n\"", None),
            ("01", None),
        ] {
            assert_eq!(compacted(raw).as_deref(), expect, "{raw}");
        }
        assert_eq!(compact_into(b"\"\xff\"", &mut Vec::new()), None);
    }
}
