//! Base64 as Go's `encoding/base64` reads it with its standard alphabet: line ends are skipped, bits that nobody needs may be anything.

use thiserror::Error;

/// The byte at which a text is no base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("illegal base64 data at input byte {0}")]
pub struct Illegal(usize);

const PAD: u8 = b'=';

/// Decodes a text.
///
/// # Errors
/// Where Go finds it wrong.
pub fn decode(text: &str) -> Result<Vec<u8>, Illegal> {
    let text = text.as_bytes();
    let (mut at, mut out) = (0, Vec::with_capacity(text.len() / 4 * 3));
    while at < text.len() {
        at = four(text, at, &mut out)?;
    }
    Ok(out)
}

/// Decodes the next four characters; returns where they end.
fn four(text: &[u8], mut at: usize, out: &mut Vec<u8>) -> Result<usize, Illegal> {
    let (mut bits, mut count) = (0_u32, 0);
    while count < 4 {
        let Some(&byte) = text.get(at) else {
            return if count == 0 { Ok(at) } else { Err(Illegal(at - count)) };
        };
        at += 1;
        match (byte, digit(byte)) {
            (_, Some(digit)) => {
                bits = bits << 6 | digit;
                count += 1;
            }
            (b'\r' | b'\n', _) => {}
            (PAD, _) => {
                at = padding(text, at, count)?;
                break;
            }
            _ => return Err(Illegal(at - 1)),
        }
    }
    let bytes = (bits << (6 * (4 - count))).to_be_bytes();
    out.extend_from_slice(&bytes[1..count]);
    Ok(at)
}

/// Reads what follows the first `=`, which stands after so many characters: it must be the end.
fn padding(text: &[u8], at: usize, count: usize) -> Result<usize, Illegal> {
    let after_lines = |at: usize| text.iter().skip(at).position(|byte| !matches!(byte, b'\r' | b'\n')).map_or(text.len(), |more| at + more);
    let end = match count {
        0 | 1 => return Err(Illegal(at - 1)),
        2 => {
            let next = after_lines(at);
            match text.get(next) {
                None => return Err(Illegal(text.len())),
                Some(&PAD) => next + 1,
                Some(_) => return Err(Illegal(next - 1)),
            }
        }
        _ => at,
    };
    let end = after_lines(end);
    if end < text.len() { Err(Illegal(end)) } else { Ok(end) }
}

fn digit(byte: u8) -> Option<u32> {
    Some(match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Go 1.26 answers.
    #[test]
    fn texts_are_read_as_go_reads_them() {
        for (text, bytes) in [
            ("", ""),
            ("aGk=", "hi"),
            ("aG\nk\r=\n", "hi"),
            ("aGl=", "hi"),
            ("YQ==", "a"),
            ("YQ=\n=", "a"),
            ("\n", ""),
            ("YWJj", "abc"),
            ("YR==", "a"),
        ] {
            assert_eq!(decode(text), Ok(bytes.as_bytes().to_vec()), "{text:?}");
        }
        let wrong = [
            ("aGk", 0),
            ("aGk==", 4),
            ("a", 0),
            ("YWJja", 4),
            ("YWJjaG", 4),
            ("=", 0),
            ("a=", 1),
            ("aG=", 3),
            ("aG=k", 2),
            ("aG==x", 4),
            ("aGk=YQ==", 4),
            ("a*", 1),
            ("aGk\n", 1),
            ("aG\n=\nx", 4),
            ("é", 0),
            ("aGk-", 3),
            ("YWJj====", 4),
            ("====", 0),
        ];
        for (text, at) in wrong {
            assert_eq!(decode(text), Err(Illegal(at)), "{text:?}");
        }
    }
}
