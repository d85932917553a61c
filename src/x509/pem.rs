//! PEM blocks as Go's `encoding/pem` finds them.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use memchr::memmem;

/// Go reads base64 whose last character has bits too many.
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

/// What stands around a certificate.
pub const CERTIFICATE: &[u8] = b"CERTIFICATE";

/// One block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block<'t> {
    /// What stands behind `BEGIN`.
    pub label: &'t [u8],
    /// Whether there are lines with a colon before the base64.
    pub has_headers: bool,
    /// What the base64 encodes.
    pub bytes: Vec<u8>,
}

/// Returns the first block of a text, and what follows it; none if there is no block.
///
/// A block begins at the last `BEGIN` line before the first `END` line. If the two do not fit, or the base64 between them is wrong, the search goes on behind
/// that `END`.
#[must_use]
pub fn decode(text: &[u8]) -> Option<(Block<'_>, &[u8])> {
    let mut rest = text;
    loop {
        let end = memmem::find(rest, END)?;
        let trailer = end + END.len();
        let begin = memmem::rfind(&rest[..end], BEGIN).filter(|begin| *begin == 0 || rest[begin - 1] == b'\n');
        match begin.map(|begin| block(&rest[begin + BEGIN.len()..], end - begin, trailer - begin)) {
            Some(Found::Block(block, after)) => return Some((block, after)),
            Some(Found::Nothing) => return None,
            Some(Found::Other(after)) => rest = after,
            None => rest = &rest[trailer..],
        }
    }
}

/// Returns all blocks of a text.
pub fn blocks(text: &[u8]) -> impl Iterator<Item = Block<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (block, after) = decode(rest)?;
        rest = after;
        Some(block)
    })
}

/// Returns what is in the blocks of certificates. Other blocks, and those with headers, are passed over, as Go passes them over wherever it reads authorities.
pub fn certificates(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    blocks(text).filter(|block| block.label == CERTIFICATE && !block.has_headers).map(|block| block.bytes)
}

/// What a pair of `BEGIN` and `END` is.
enum Found<'t> {
    /// A block, and what follows it.
    Block(Block<'t>, &'t [u8]),
    /// No block; the search goes on here.
    Other(&'t [u8]),
    /// No block, and none can follow.
    Nothing,
}

/// Reads the block whose text begins behind `BEGIN `. `end` and `trailer` are where its `END` line begins and where the label in it does, from the place of
/// `BEGIN` on.
fn block(text: &[u8], end: usize, trailer: usize) -> Found<'_> {
    let (end, trailer) = (end - BEGIN.len(), trailer - BEGIN.len());
    let other = Found::Other(&text[trailer..]);
    let (line, mut at) = line(text);
    let Some(label) = line.strip_suffix(DASHES) else { return other };
    let mut has_headers = false;
    loop {
        if at >= text.len() {
            return Found::Nothing;
        }
        let (line, length) = self::line(&text[at..]);
        if !line.contains(&b':') {
            break;
        }
        has_headers = true;
        at += length;
    }
    if has_headers && at > end {
        // A header has swallowed the `END` line, or it follows the headers without an empty line.
        return if at > trailer { Found::Nothing } else { other };
    }
    let after_label = text[trailer..].strip_prefix(label).and_then(|after| after.strip_prefix(DASHES));
    let Some(after) = after_label.filter(|after| self::line(after).0.is_empty()) else { return other };
    let mut bytes = Vec::new();
    if at < end {
        let encoded: Vec<u8> = text[at..end].iter().copied().filter(|byte| !b" \t\r\n".contains(byte)).collect();
        let Ok(decoded) = BASE64.decode(encoded) else { return other };
        bytes = decoded;
    }
    let (_, length) = self::line(after);
    Found::Block(Block { label, has_headers, bytes }, &after[length..])
}

/// The first line without the white space at its end, and its length with the line break.
fn line(text: &[u8]) -> (&[u8], usize) {
    let (line, length) = match memchr::memchr(b'\n', text) {
        Some(at) => (text[..at].strip_suffix(b"\r").unwrap_or(&text[..at]), at + 1),
        None => (text, text.len()),
    };
    let blanks = line.iter().rev().take_while(|byte| b" \t".contains(byte)).count();
    (&line[..line.len() - blanks], length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn first(text: &str) -> Option<(String, bool, Vec<u8>, &str)> {
        let (block, rest) = decode(text.as_bytes())?;
        let label = String::from_utf8(block.label.to_vec()).expect("text");
        Some((label, block.has_headers, block.bytes, std::str::from_utf8(rest).expect("text")))
    }

    fn found(label: &str, has_headers: bool, bytes: &[u8], rest: &'static str) -> Option<(String, bool, Vec<u8>, &'static str)> {
        Some((label.to_owned(), has_headers, bytes.to_vec(), rest))
    }

    #[test]
    fn blocks_are_those_that_go_finds() {
        let one = "-----BEGIN A-----\nAQI=\n-----END A-----\n";
        assert_eq!(first(one), found("A", false, &[1, 2], ""));
        assert_eq!(first(&format!("x\n{one}y")), found("A", false, &[1, 2], "y"));
        assert_eq!(first("-----BEGIN A-----\n-----END A-----"), found("A", false, &[], ""));
        assert_eq!(first("-----BEGIN A-----\r\nA Q\tI=\r\n-----END A----- \t\r\nz"), found("A", false, &[1, 2], "z"));
        assert_eq!(first("-----BEGIN A-----\nk: v\n\nAQI=\n-----END A-----\n"), found("A", true, &[1, 2], ""));
        assert_eq!(first("-----BEGIN A-----\nk: v\n-----END A-----\n"), None, "an empty line must follow headers");
        assert_eq!(first("-----BEGIN A-----\nAQJ=\n-----END A-----\n"), found("A", false, &[1, 2], ""), "bits too many");
        assert_eq!(first("-----BEGIN A-----\nAQ=\n=\n-----END A-----\n"), found("A", false, &[1], ""));
        // The last BEGIN before an END.
        assert_eq!(first("-----BEGIN B-----\n-----BEGIN A-----\nAQI=\n-----END A-----\n"), found("A", false, &[1, 2], ""));
        for none in [
            "",
            "-----BEGIN A-----\nAQI=\n-----END A-----x\n",
            "x-----BEGIN A-----\nAQI=\n-----END A-----\n",
            "-----BEGIN A-----\nAQI=\n-----END B-----\n",
        ] {
            assert_eq!(first(none), None, "{none}");
        }
    }

    #[test]
    fn what_does_not_fit_is_passed_over() {
        let good = "-----BEGIN A-----\nAQI=\n-----END A-----\n";
        let odd = [
            "-----BEGIN C-----\nAQID\n-----END XXX-----\n",
            "-----BEGIN C-----\nAQID\n-----END C\n",
            "-----BEGIN C----\nAQID\n-----END C-----\n",
            "-----BEGIN C----- x\nAQID\n-----END C-----\n",
            " -----BEGIN C-----\nAQID\n-----END C-----\n",
            "-----BEGIN C-----\nAQ=D\n-----END C-----\n",
            "-----BEGIN C-----\nAQI=AQID\n-----END C-----\n",
            "-----BEGIN C-----\nA\u{b}QID\n-----END C-----\n",
            "-----END C-----\n\n-----END C-----\n",
        ];
        for odd in odd {
            assert_eq!(first(&format!("{odd}{good}")), found("A", false, &[1, 2], ""), "{odd}");
        }
        assert_eq!(blocks(format!("{good}{}{good}", odd[0]).as_bytes()).count(), 2);
        assert_eq!(first(&format!("-----BEGIN C-----\na:b\n-----END C-----:\n{good}")), None, "a header has swallowed the END");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_passed_over(parts in proptest::collection::vec("(-----BEGIN |-----END |A|-----|\n|\r|:| |=|AQID)", 0..40)) {
            prop_assert!(blocks(parts.concat().as_bytes()).count() <= parts.len());
        }
    }
}
