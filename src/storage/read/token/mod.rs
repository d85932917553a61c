//! Continue tokens: where a paged list goes on (spec list-watch §2.5).

mod json;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use self::json::Top;
use go::quote::json_quoted;
use model::Revision;

/// The only version of the token's format.
const VERSION: &str = "meta.k8s.io/v1";

/// A decoded continue token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Which state the next page shows.
    pub revision: TokenRevision,
    /// The first key of the page, relative to the request's prefix and without a leading slash: `name\0`, or `ns/name\0` for all namespaces.
    pub start: String,
}

/// The `rv` of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRevision {
    /// Positive: the state at this revision.
    Pinned(Revision),
    /// Negative: the newest state, inconsistent with earlier pages.
    Newest,
}

/// Decodes a token that a client sent.
///
/// # Errors
/// The message of the 400 (spec list-watch §2.5), byte for byte.
pub fn decode(text: &str) -> Result<Token, String> {
    parse(text).map_err(|why| format!("invalid continue token: continue key is not valid: {why}"))
}

/// The token for the page after `last_key_relative`, a key relative to the request's prefix and without a leading slash. The real server's
/// cache writes `start` with a leading slash and its etcd path without; `leading_slash` says which.
#[must_use]
pub fn encode(revision: i64, last_key_relative: &str, leading_slash: bool) -> String {
    let slash = if leading_slash { "/" } else { "" };
    written(revision, &format!("{slash}{last_key_relative}\0"))
}

impl Token {
    /// The token that a 410 hands out in exchange for this one (spec list-watch §2.7): the same start, the newest state.
    #[must_use]
    pub fn reopened(&self) -> String {
        written(-1, &self.start)
    }
}

fn written(revision: i64, start: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!(r#"{{"v":"{VERSION}","rv":{revision},"start":{}}}"#, json_quoted(start)))
}

/// The members of a token, before anything is asked of them.
#[derive(Default)]
struct Raw {
    v: String,
    rv: i64,
    start: String,
}

fn parse(text: &str) -> Result<Token, String> {
    let bytes = unbase64(text)?;
    json::check(&bytes)?;
    let raw = members(&String::from_utf8_lossy(&bytes))?;
    if raw.v != VERSION {
        return Err(format!("server does not recognize this encoded version {}", raw.v));
    }
    if raw.rv == 0 {
        return Err(format!("incorrect encoded start resourceVersion (version {VERSION})"));
    }
    if raw.start.is_empty() {
        return Err(format!("encoded start key empty (version {VERSION})"));
    }
    let relative = raw.start.strip_prefix('/').unwrap_or(&raw.start);
    if !is_clean(relative) {
        return Err(raw.start);
    }
    let revision = u64::try_from(raw.rv).map_or(TokenRevision::Newest, |rv| TokenRevision::Pinned(Revision(rv)));
    Ok(Token { revision, start: relative.to_owned() })
}

/// Whether `/` + the key is its own `path.Clean`: it cannot leave the prefix that it is appended to.
fn is_clean(relative: &str) -> bool {
    relative.is_empty() || relative.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Go fills a struct from JSON: keys in any case, the last of equal keys counts, `null` changes nothing, unknown keys are skipped, and the
/// first wrong type is told after everything was read.
fn members(text: &str) -> Result<Raw, String> {
    let list = match json::read(text)? {
        Top::Object(list) => list,
        Top::Other("null") => Vec::new(),
        Top::Other(value) => return Err(format!("json: cannot unmarshal {} into Go value of type storage.continueToken", kind(value))),
    };
    let mut raw = Raw::default();
    let mut wrong = None;
    for (key, value) in list.iter().filter(|(_, value)| *value != "null") {
        let result = match key.to_ascii_lowercase().as_str() {
            "v" => text_of(value).map(|v| raw.v = v).ok_or(("v", "string", kind(value).to_owned())),
            "rv" => value.parse().map(|rv| raw.rv = rv).map_err(|_| ("rv", "int64", number_kind(value))),
            "start" => text_of(value).map(|start| raw.start = start).ok_or(("start", "string", kind(value).to_owned())),
            _ => Ok(()),
        };
        if let Err((field, wanted, found)) = result {
            wrong.get_or_insert_with(|| {
                format!("json: cannot unmarshal {found} into Go struct field continueToken.{field} of type {wanted}")
            });
        }
    }
    wrong.map_or(Ok(raw), Err)
}

fn text_of(value: &str) -> Option<String> {
    value.starts_with('"').then(|| json::string(value))
}

/// Go's word for the kind of a value.
fn kind(value: &str) -> &'static str {
    match value.as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        _ => "number",
    }
}

/// The same where a number was wanted: a number that does not fit is shown.
fn number_kind(value: &str) -> String {
    match kind(value) {
        "number" => format!("number {value}"),
        other => other.to_owned(),
    }
}

/// Go's unpadded base64url: line ends are skipped, unused bits of the last character are ignored.
fn unbase64(text: &str) -> Result<Vec<u8>, String> {
    let wrong = |at: usize| format!("illegal base64 data at input byte {at}");
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for (at, byte) in text.bytes().enumerate() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            b'\r' | b'\n' => continue,
            _ => return Err(wrong(at)),
        };
        bits = (bits << 6 | u32::from(six)) & 0xff_ffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xff) as u8);
        }
    }
    if held == 6 { Err(wrong(text.len() - 1)) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(json: &str) -> String {
        URL_SAFE_NO_PAD.encode(json)
    }

    fn pinned(revision: u64, start: &str) -> Token {
        Token { revision: TokenRevision::Pinned(Revision(revision)), start: start.to_owned() }
    }

    #[test]
    fn accepts() {
        let newest = Token { revision: TokenRevision::Newest, start: "b\0".to_owned() };
        let cases = [
            (r#"{"v":"meta.k8s.io/v1","rv":7,"start":"/cm-b\u0000"}"#, pinned(7, "cm-b\0")),
            (r#"{"v":"meta.k8s.io/v1","rv":7,"start":"cm-b\u0000"}"#, pinned(7, "cm-b\0")),
            (r#"{"v":"meta.k8s.io/v1","rv":7,"start":"ns/cm-b\u0000"}"#, pinned(7, "ns/cm-b\0")),
            (r#"{"v":"meta.k8s.io/v1","rv":7,"start":"/"}"#, pinned(7, "")),
            (r#"{"v":"meta.k8s.io/v1","rv":7,"start":"..\u0000"}"#, pinned(7, "..\0")),
            (r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"b\u0000"}"#, newest.clone()),
            (r#" {"x":[{},{"a":1e5}],"START":"b\u0000","RV":-9,"V":"","v":"meta.k8s.io/v1","v":null} "#, newest),
            (r#"{"v":"meta.k8s.io/v1","rv":7,"start":"\ud83d\ude00\ud800\/\n"}"#, pinned(7, "\u{1f600}\u{fffd}/\n")),
        ];
        for (json, want) in cases {
            assert_eq!(decode(&token(json)), Ok(want), "{json}");
        }
    }

    /// Spec list-watch §2.5, "Errors".
    #[test]
    fn refuses() {
        let check = |text: &str, want: &str| {
            let want = format!("invalid continue token: continue key is not valid: {want}");
            assert_eq!(decode(text).expect_err(text), want, "{text}");
        };
        check("a*", "illegal base64 data at input byte 1");
        check("YWJj====", "illegal base64 data at input byte 4");
        check("YWJjZA==", "illegal base64 data at input byte 6");
        check("YWJjZ", "illegal base64 data at input byte 4");
        check("YWJj\u{fffd}", "illegal base64 data at input byte 4");
        check("IA", "unexpected end of JSON input");
        check("_A", "invalid character 'ü' looking for beginning of value");
        let json = |json: &str, want: &str| check(&token(json), want);
        json(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#, "incorrect encoded start resourceVersion (version meta.k8s.io/v1)");
        json(r#"{"v":"meta.k8s.io/v1","rv":1}"#, "encoded start key empty (version meta.k8s.io/v1)");
        json(r#"{"v":"v2","rv":1,"start":"a"}"#, "server does not recognize this encoded version v2");
        json("null", "server does not recognize this encoded version ");
        for start in ["../x", "a//b", "./a", "a/", "a/..", "//", "a/./b", ".."] {
            json(&format!(r#"{{"v":"meta.k8s.io/v1","rv":1,"start":"{start}"}}"#), start);
        }
        json(r#"{"v":1,"rv":"x"}"#, "json: cannot unmarshal number into Go struct field continueToken.v of type string");
        json(r#"{"rv":"1"}"#, "json: cannot unmarshal string into Go struct field continueToken.rv of type int64");
        json(r#"{"rv":1.5}"#, "json: cannot unmarshal number 1.5 into Go struct field continueToken.rv of type int64");
        json(r#"{"start":{}}"#, "json: cannot unmarshal object into Go struct field continueToken.start of type string");
        json("[]", "json: cannot unmarshal array into Go value of type storage.continueToken");
        json("true", "json: cannot unmarshal bool into Go value of type storage.continueToken");
    }

    /// What Go's scanner says about broken text; each was printed by `encoding/json`.
    #[test]
    fn scans_like_go() {
        let cases = [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            (r#"{"a"#, "unexpected end of JSON input"),
            (r#"{"a":1"#, "unexpected end of JSON input"),
            ("[1,", "unexpected end of JSON input"),
            ("abc", "invalid character 'a' looking for beginning of value"),
            ("{a", "invalid character 'a' looking for beginning of object key string"),
            (r#"{"a" 1"#, "invalid character '1' after object key"),
            (r#"{"a":1 "b""#, "invalid character '\"' after object key:value pair"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{}x", "invalid character 'x' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("tru", "invalid character ' ' in literal true (expecting 'e')"),
            ("nuLl", "invalid character 'L' in literal null (expecting 'l')"),
            ("-", "invalid character ' ' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1e", "invalid character ' ' in exponent of numeric literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (r#""\u12g""#, "invalid character 'g' in \\u hexadecimal character escape"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("é", "invalid character 'Ã' looking for beginning of value"),
        ];
        for (text, want) in cases {
            assert_eq!(json::read(text).expect_err(text), want, "{text:?}");
        }
        assert_eq!(json::read(&"[".repeat(10_001)).expect_err("deep"), "invalid character '[' exceeded max depth");
    }

    #[test]
    fn writes_what_the_real_server_writes() {
        let text = |token: &str| String::from_utf8(URL_SAFE_NO_PAD.decode(token).expect("base64url")).expect("utf-8");
        assert_eq!(text(&encode(123, "cm-b", true)), r#"{"v":"meta.k8s.io/v1","rv":123,"start":"/cm-b\u0000"}"#);
        assert_eq!(text(&encode(123, "ns/a<b", false)), r#"{"v":"meta.k8s.io/v1","rv":123,"start":"ns/a\u003cb\u0000"}"#);
        let old = decode(&encode(5, "cm-b", true)).expect("our own token");
        assert_eq!(text(&old.reopened()), r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"cm-b\u0000"}"#);
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = decode(&text);
        }

        #[test]
        fn never_panics_on_any_json(text in r#"[\[\]{}",:a-z0-9.\\u \-]{0,40}"#) {
            let _ = decode(&token(&text));
        }

        /// Valid and invalid are told apart as by another parser.
        #[test]
        fn agrees_on_what_is_json(text in r#"[\[\]{}",:a0tre.\\u \-]{0,12}"#) {
            prop_assert_eq!(json::read(&text).is_ok(), serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok(), "{}", text);
        }

        #[test]
        fn reads_any_string(text in any::<String>()) {
            let json = serde_json::to_string(&text).expect("a string");
            prop_assert_eq!(json::string(&json), text.clone());
            prop_assert_eq!(serde_json::from_str::<String>(&json_quoted(&text)).expect("our quotes are JSON"), text);
        }

        #[test]
        fn round_trip(revision in 1..i64::MAX, key in "([a-z]{1,9}/)?[a-z0-9.<>&-]{0,9}[a-z]", slash: bool) {
            let want = pinned(revision.unsigned_abs(), &format!("{key}\0"));
            prop_assert_eq!(decode(&encode(revision, &key, slash)), Ok(want));
        }

        #[test]
        fn decodes_base64_as_the_crate_does(bytes: Vec<u8>) {
            prop_assert_eq!(unbase64(&URL_SAFE_NO_PAD.encode(&bytes)), Ok(bytes));
        }
    }
}
