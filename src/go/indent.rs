//! Changes the whitespace of JSON between tokens, never the tokens: indented for people, compacted for frames. Expects valid JSON.

/// Indents as Go's `json.Indent(…, "", "  ")`, kube-apiserver's `pretty=true`: two spaces a level, a space after the colon, `{}` and `[]` on
/// one line, whitespace at the very end kept.
#[must_use]
pub fn indent(json: &[u8]) -> Vec<u8> {
    let body = json.trim_ascii_end();
    let mut out = Vec::with_capacity(json.len() + json.len() / 2);
    Indenter::default().some(body, usize::MAX, &mut out);
    out.extend_from_slice(&json[body.len()..]);
    out
}

/// [`indent`] for a document that comes in pieces of whole tokens, and is taken in pieces: deep values are many times larger with their indentation.
#[derive(Debug, Default)]
pub struct Indenter {
    depth: usize,
    /// Whether the last token was an opening bracket.
    opened: bool,
}

impl Indenter {
    /// Appends the tokens of `json` until `out` has `limit` bytes, the last of them whole. Returns how many bytes of `json` that were.
    pub fn some(&mut self, json: &[u8], limit: usize, out: &mut Vec<u8>) -> usize {
        tokens(json, |token| {
            let closes = matches!(token, b"}" | b"]");
            if self.opened && !closes {
                self.depth += 1;
                line(self.depth, out);
            }
            if closes && !self.opened {
                self.depth = self.depth.saturating_sub(1);
                line(self.depth, out);
            }
            out.extend_from_slice(token);
            match token {
                b"," => line(self.depth, out),
                b":" => out.push(b' '),
                _ => {}
            }
            self.opened = matches!(token, b"{" | b"[");
            out.len() < limit
        })
    }
}

/// Drops every whitespace between tokens.
pub fn compact(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    tokens(json, |token| {
        out.extend_from_slice(token);
        true
    });
    out
}

fn line(depth: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
}

/// Calls `each` with every token, until it has enough: a punctuation mark, a whole string, or a run of other bytes (numbers, words). Returns where it ended.
fn tokens(json: &[u8], mut each: impl FnMut(&[u8]) -> bool) -> usize {
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        let len = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            b'"' => string_len(&json[at..]),
            _ => json[at..].iter().take_while(|b| !b" \t\n\r{}[],:\"".contains(b)).count(),
        };
        at += len;
        if !each(&json[at - len..at]) {
            break;
        }
    }
    at
}

/// Bytes of the string at the start of `json`, both quotes included; all of it when the string does not end.
fn string_len(json: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', json.get(at..).unwrap_or_default()) {
        match json[at + found] {
            b'"' => return at + found + 1,
            _ => at += found + 2,
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn indents_as_go_does() {
        for row in include_str!("../../tests/data/codec/go.indents").lines() {
            let (plain, go) = row.split_once('\t').expect("two columns");
            let plain: String = serde_json::from_str(plain).expect("JSON");
            let go: String = serde_json::from_str(go).expect("JSON");
            assert_eq!(String::from_utf8(indent(plain.as_bytes())).expect("UTF-8"), go);
        }
    }

    #[test]
    fn indents_a_list_as_kube_apiserver_does() {
        let compact = include_bytes!("../../tests/data/codec/list.compact").trim_ascii_end();
        let pretty = include_bytes!("../../tests/data/codec/list.pretty");
        assert_eq!(String::from_utf8(indent(compact)).expect("UTF-8"), String::from_utf8_lossy(pretty));
        assert_eq!(super::compact(pretty), compact);
    }

    proptest! {
        #[test]
        fn never_changes_the_meaning(value in corpus::any_json()) {
            let text = serde_json::to_vec(&value).expect("a tree of values");
            let pretty = indent(&text);
            prop_assert_eq!(serde_json::from_slice::<Value>(&pretty).expect("valid"), value);
            prop_assert_eq!(compact(&pretty), text);
        }

        #[test]
        fn pieces_are_the_whole(value in corpus::any_json(), limit in 1_usize..50) {
            let text = serde_json::to_vec(&value).expect("a tree of values");
            let (mut indenter, mut pieces, mut at) = (Indenter::default(), Vec::new(), 0);
            while at < text.len() {
                let mut piece = Vec::new();
                at += indenter.some(&text[at..], limit, &mut piece);
                pieces.extend_from_slice(&piece);
            }
            prop_assert_eq!(pieces, indent(&text));
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(proptest::sample::select(b"{}[]\",:\\ a1\n\xc3".to_vec()), 0..40)) {
            let _ = indent(&bytes);
            compact(&bytes);
        }
    }
}
