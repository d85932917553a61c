//! The body of a write becomes a JSON tree: JSON or YAML, with its duplicate keys. Knows the kind it should be and no field.

mod floats;
mod identity;
mod json;
mod protobuf;
mod warnings;

use std::{borrow::Cow, fmt};

use serde_json::{Map, Value};

use self::{json::DuplicateKeys, protobuf::Wrong};
use go::yaml::reader;

pub(crate) use floats::{Floats, whole_floats};
pub(crate) use identity::{Expected, IdentifyError, converts, identified, identify};
pub(crate) use warnings::{strict_error, warnings};

/// Maps and lists inside each other that a body may have: what can be read back from the store.
pub(super) const BODY_DEPTH_MAX: usize = reader::DEPTH_MAX;

/// Duplicate keys that are reported of one body, as many as the real server's decoder remembers.
const DUPLICATES_MAX: usize = 100;

/// Bytes that the paths of all members and elements of a body may have together; ours. Whoever walks through an object with its path at hand (types,
/// schemas of definitions, what is reported of fields) does work in proportion to this, and a long key over many small members would make that days. The
/// largest definitions have some twenty MiB.
const PATHS_BYTES_MAX: usize = 64 << 20;

/// Bytes of a body that an error shows.
const SUMMARY_BYTES_MAX: usize = 30;

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// RFC 8259.
    Json,
    /// YAML 1.1 as Kubernetes reads it.
    Yaml,
    /// `k8s\0` and `runtime.Unknown` (spec api-surface §10.3).
    Protobuf,
}

/// A body that could be read.
#[derive(Debug, PartialEq)]
pub(crate) struct Tree {
    /// Always an object; `null` became an empty one, as it does in Go. `parse` tells what became of duplicate keys.
    pub(crate) value: Value,
    /// Keys that a map has twice, each once: JSON in the order of the document; YAML too, but those inside a value before its own key.
    pub(crate) duplicates: Vec<Duplicate>,
    /// The error about a number of a built-in that no float64 holds. What its type says of it counts first.
    pub(crate) overflow: Option<BodyError>,
}

/// A key that a map has twice. Its text is that of the warning (spec api-surface §5.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Duplicate {
    /// Path in a JSON body: `spec.a[0].b`.
    Field(String),
    /// Where and what in a YAML body: `line 6: key "replicas" already set in map`.
    Line(String),
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(path) => write!(f, "duplicate field \"{path}\""),
            Self::Line(text) => f.write_str(text),
        }
    }
}

/// The message of the 400 for a body that cannot be read (spec api-surface §3.8).
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BodyError(pub(crate) String);

/// Reads the body of something that must be of this kind. What stands twice in the JSON of a built-in is merged when it is an object, as Go does when
/// it fills a struct; everywhere else the last one wins.
///
/// # Errors
/// When it is not of the syntax, no object, or says its kind or version with something else than a string.
pub(crate) fn parse(syntax: Syntax, bytes: &[u8], expected: &Expected<'_>) -> Result<Tree, BodyError> {
    let kind = expected.kind;
    let duplicate_keys = if expected.custom { DuplicateKeys::Last } else { DuplicateKeys::Merged };
    let json::Read { value, duplicates, overflow } =
        read(syntax, bytes, duplicate_keys, (&expected.api_version(), kind)).map_err(|wrong| match wrong {
            Wrong::Envelope(cause) => unrecognized(kind, &cause, bytes),
            Wrong::Message { api_version, kind: found, cause } => unhandled(kind, (&api_version, &found), &cause),
        })?;
    let overflow = overflow.map(|number| {
        let text = |member: &str, default| value[member].as_str().filter(|text| !text.is_empty()).unwrap_or(default);
        let of = (text("apiVersion", "v1"), text("kind", kind));
        unhandled(kind, of, &format!("json: cannot unmarshal number {number} into Go value of type float64"))
    });
    match overflow {
        Some(error) if expected.custom => Err(error),
        overflow => Ok(Tree { value, duplicates, overflow }),
    }
}

/// Puts the number as it was sent into an error that has it as it is printed: Go's decoder shows the text of the body.
pub(super) fn as_sent(syntax: Syntax, bytes: &[u8], why: String) -> String {
    const BEFORE: &str = "cannot unmarshal number ";
    let Some((start, rest)) = why.split_once(BEFORE).filter(|_| syntax == Syntax::Json) else { return why };
    let Some((printed, end)) = rest.split_once(' ') else { return why };
    match json::number_as_sent(bytes, printed) {
        Some(sent) => format!("{start}{BEFORE}{sent} {end}"),
        None => why,
    }
}

/// Reads the body of options; an error is the cause, without the wrapping message.
///
/// # Errors
/// As `parse`.
pub(crate) fn parse_options(syntax: Syntax, bytes: &[u8]) -> Result<Value, BodyError> {
    let read = read(syntax, bytes, DuplicateKeys::Merged, ("v1", "DeleteOptions")).map_err(|wrong| BodyError(wrong.cause()))?;
    Ok(read.value)
}

/// Reads the JSON of a patch, of whatever type. `float` is what Go would make of a number, for the error about one that is too large.
///
/// # Errors
/// The text of Go's error.
pub(super) fn parse_patch(bytes: &[u8], float: &str) -> Result<(Value, Vec<Duplicate>), String> {
    let json::Read { value, duplicates, overflow } = json::parse(bytes, DuplicateKeys::Last)?;
    match overflow {
        Some(number) => Err(format!("json: cannot unmarshal number {number} into Go {float} of type float64")),
        None => Ok((value, duplicates)),
    }
}

/// `of`: version and kind of protobuf that does not tell them.
fn read(syntax: Syntax, bytes: &[u8], duplicate_keys: DuplicateKeys, of: (&str, &str)) -> Result<json::Read, Wrong> {
    let no_type = |cause: String| Wrong::Envelope(version_and_kind(&cause));
    let mut read = match syntax {
        Syntax::Json => json::parse(bytes, duplicate_keys).map_err(no_type)?,
        Syntax::Yaml => {
            let document = reader::parse(bytes).map_err(|wrong| Wrong::Envelope(wrong.to_string()))?;
            let duplicates = document.duplicates.into_iter().map(Duplicate::Line).collect();
            json::Read { value: document.value, duplicates, overflow: None }
        }
        Syntax::Protobuf => json::parse(&protobuf::json(bytes, of)?, duplicate_keys).map_err(no_type)?,
    };
    read.value = object(read.value).map_err(no_type)?;
    Ok(read)
}

/// The whole text of a body of which not even version and kind are known.
fn unrecognized(kind: &str, cause: &str, body: &[u8]) -> BodyError {
    BodyError(format!("the object provided is unrecognized (must be of type {kind}): {cause} ({})", summary(body)))
}

/// The whole text of a body whose members cannot be read, of this version and kind.
fn unhandled(expected: &str, (api_version, kind): (&str, &str), cause: &str) -> BodyError {
    let version = api_version.rsplit('/').next().unwrap_or(api_version);
    BodyError(format!("{kind} in version \"{version}\" cannot be handled as a {expected}: {cause}"))
}

fn version_and_kind(cause: &str) -> String {
    format!("couldn't get version/kind; json parse error: {cause}")
}

/// The Go type into which the real server reads version and kind; its errors print it.
const GO_STRUCT: &str =
    r#"Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// The tree as an object with a textual `kind` and `apiVersion`, if they are there.
fn object(value: Value) -> Result<Value, String> {
    match value {
        Value::Null => return Ok(Value::Object(Map::new())),
        Value::Object(_) => {}
        other => return Err(format!("json: cannot unmarshal {} into {GO_STRUCT}", go::json::kind(&other))),
    }
    for member in ["apiVersion", "kind"] {
        match &value[member] {
            Value::Null | Value::String(_) => {}
            other => return Err(format!("json: cannot unmarshal {} into Go struct field .{member} of type string", go::json::kind(other))),
        }
    }
    Ok(value)
}

/// Whether the paths of all members and elements stay under `PATHS_BYTES_MAX`.
///
/// # Errors
/// What to tell when they do not.
pub(super) fn paths_fit(value: &Value) -> Result<(), String> {
    let mut room = PATHS_BYTES_MAX;
    if takes_paths(value, 0, &mut room) { Ok(()) } else { Err(long_paths()) }
}

/// Takes the paths below `value`, which stands at a path of so many bytes, from `room`, if there is that much.
fn takes_paths(value: &Value, length: usize, room: &mut usize) -> bool {
    // Of an index only the brackets and one digit are counted.
    const INDEX: usize = "[0]".len();
    let mut step = |more: usize, inner: &Value| {
        room.checked_sub(length + more).is_some_and(|left| {
            *room = left;
            takes_paths(inner, length + more, room)
        })
    };
    match value {
        Value::Array(items) => items.iter().all(|item| step(INDEX, item)),
        Value::Object(members) => members.iter().all(|(name, member)| step(name.len() + ".".len(), member)),
        _ => true,
    }
}

fn long_paths() -> String {
    format!("the paths of its fields have more than {PATHS_BYTES_MAX} bytes together")
}

/// The start of a body: as text when it looks like JSON, else in hexadecimal.
fn summary(body: &[u8]) -> String {
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let start = &body[..body.len().min(SUMMARY_BYTES_MAX)];
    let shown = if looks_like_json(body) {
        Cow::into_owned(String::from_utf8_lossy(start))
    } else {
        start.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    if start.len() < body.len() { format!("{shown} ...") } else { shown }
}

fn looks_like_json(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'{')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::typed::TOLD_BYTES_MAX;
    use codec::proto;

    fn error(syntax: Syntax, body: &str) -> String {
        parse(syntax, body.as_bytes(), &WIDGET).expect_err("must be refused").0
    }

    const WIDGET: Expected<'_> = Expected { group: "ex.io", version: "v1", kind: "Widget", custom: true, schema: None };
    const START: &str = "the object provided is unrecognized (must be of type Widget): ";

    #[test]
    fn texts_are_those_of_the_real_server() {
        let json = [
            ("", "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
            ("   ", "couldn't get version/kind; json parse error: unexpected end of JSON input (202020)"),
            ("x", "couldn't get version/kind; json parse error: invalid character 'x' looking for beginning of value (78)"),
            (
                "[]",
                r#"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (5b5d)"#,
            ),
            (
                r#"{"kind":"ConfigMap","apiVersion":1}"#,
                r#"couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .apiVersion of type string ({"kind":"ConfigMap","apiVersio ...)"#,
            ),
        ];
        for (body, tail) in json {
            assert_eq!(error(Syntax::Json, body), format!("{START}{tail}"));
        }
        let yaml = [
            ("a: *b", "yaml: unknown anchor 'b' referenced (613a202a62)"),
            (
                "- 1",
                r#"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (2d2031)"#,
            ),
            ("a: .nan", "json: unsupported value: NaN (613a202e6e616e)"),
            (
                "kind: 5\n",
                "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string (6b696e643a20350a)",
            ),
        ];
        for (body, tail) in yaml {
            assert_eq!(error(Syntax::Yaml, body), format!("{START}{tail}"));
        }
    }

    #[test]
    fn duplicates_of_a_built_in_are_merged() {
        let built_in = Expected { custom: false, ..WIDGET };
        let body = br#"{"data":{"a":"1","a":"2","m":{"x":1}},"list":[1],"data":{"b":"3","m":{"y":2}},"list":[2]}"#;
        let read = |expected| parse(Syntax::Json, body, expected).expect("an object").value;
        assert_eq!(read(&built_in), serde_json::json!({"data": {"a": "2", "b": "3", "m": {"x": 1, "y": 2}}, "list": [2]}));
        assert_eq!(read(&WIDGET), serde_json::json!({"data": {"b": "3", "m": {"y": 2}}, "list": [2]}));
    }

    #[test]
    fn a_number_beyond_float64_is_told_with_the_kind() {
        assert_eq!(
            error(Syntax::Json, r#"{"kind":"Widget","apiVersion":"ex.io/v1","spec":{"a":1e400}}"#),
            r#"Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number 1e400 into Go value of type float64"#
        );
    }

    #[test]
    fn broken_protobuf_is_told_with_what_it_says_it_is() {
        let map = Expected { group: "", version: "v1", kind: "ConfigMap", custom: false, schema: None };
        let error = |api_version, kind, raw: &[u8]| {
            let mut body = Vec::new();
            proto::envelope_into(api_version, kind, raw, &mut body);
            parse(Syntax::Protobuf, &body, &map).map(|tree| tree.value).map_err(|error| error.0)
        };
        for (api_version, kind, text) in [
            ("v1", "Secret", r#"Secret in version "v1" cannot be handled as a ConfigMap: unexpected EOF"#),
            ("", "", r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: unexpected EOF"#),
            (
                "a/v2",
                "X",
                r#"X in version "v2" cannot be handled as a ConfigMap: no kind "X" is registered for version "a/v2" in scheme "pkg/runtime/scheme.go:111""#,
            ),
        ] {
            assert_eq!(error(api_version, kind, b"\x0a\x05"), Err(text.to_owned()));
        }
        let start = "the object provided is unrecognized (must be of type ConfigMap): ";
        for (body, text) in
            [(&b""[..], "empty data (<empty>)"), (b"k8s\0", "empty body (6b387300)"), (b"k8s\0\x0a", "unexpected EOF (6b3873000a)")]
        {
            assert_eq!(parse(Syntax::Protobuf, body, &map), Err(BodyError(format!("{start}{text}"))));
        }
        let value = error("a/b/c", "", b"\x0a\x03\x0a\x01x").expect("a version that is none is as none");
        assert_eq!(value["apiVersion"], "v1");
        let options = parse_options(Syntax::Protobuf, b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap");
        assert_eq!(
            options,
            Err(BodyError(r#"no kind "ConfigMap" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111""#.into()))
        );
    }

    /// Each path repeats the key that it is below.
    #[test]
    fn paths_have_a_limit_together() {
        let body = |key: usize, members: usize| {
            let members: Vec<String> = (0..members).map(|i| format!("\"{i}\":0")).collect();
            format!(r#"{{"{}":{{{}}}}}"#, "k".repeat(key), members.join(","))
        };
        let read =
            |syntax, body: &str| parse(syntax, body.as_bytes(), &WIDGET).map_err(|error| error.0).and_then(|tree| paths_fit(&tree.value));
        for syntax in [Syntax::Json, Syntax::Yaml] {
            assert_eq!(read(syntax, &body(1_000, PATHS_BYTES_MAX / 1_100)), Ok(()));
            // No longer key is read in YAML.
            let refused = read(syntax, &body(1_000, PATHS_BYTES_MAX / 900)).expect_err("too much");
            assert!(refused.contains(&long_paths()), "{refused}");
        }
    }

    #[test]
    fn not_more_is_told_than_anybody_reads() {
        let members: Vec<String> = (0..90).map(|i| format!(r#""{i}":0,"{i}":1"#)).collect();
        let body = format!(r#"{{"{}":{{{}}}}}"#, "k".repeat(TOLD_BYTES_MAX / 10), members.join(","));
        let told = parse(Syntax::Json, body.as_bytes(), &WIDGET).expect("an object").duplicates;
        assert_eq!(told.len(), 10, "one is told when the limit is passed, and none after it");
    }

    #[test]
    fn null_is_an_empty_object() {
        for (syntax, body) in [(Syntax::Json, "null"), (Syntax::Yaml, ""), (Syntax::Yaml, "~"), (Syntax::Yaml, "# c\n---\n---\nkind: X\n")]
        {
            assert_eq!(parse(syntax, body.as_bytes(), &WIDGET).expect("an object").value, serde_json::json!({}), "{body}");
        }
    }

    #[test]
    fn duplicates_have_the_texts_of_the_warnings() {
        let texts = |syntax, body: &str| -> Vec<String> {
            parse(syntax, body.as_bytes(), &WIDGET).expect("an object").duplicates.iter().map(ToString::to_string).collect()
        };
        let nested = r#"{"spec":{"a":[{"b":1,"b":2},{"c.d":1,"c.d":2,"e/f":{"g":1,"g":2}}],"a":{"z":1,"z":2,"z":3}}}"#;
        assert_eq!(
            texts(Syntax::Json, nested),
            [
                r#"duplicate field "spec.a[0].b""#,
                r#"duplicate field "spec.a[1].c.d""#,
                r#"duplicate field "spec.a[1].e/f.g""#,
                r#"duplicate field "spec.a""#,
                r#"duplicate field "spec.a.z""#,
            ]
        );
        assert_eq!(
            texts(Syntax::Yaml, "spec: {a: 1, a: 2}\nspec:\n  1: 1\n  1: 2\n"),
            [r#"line 1: key "a" already set in map"#, "line 4: key 1 already set in map", r#"line 3: key "spec" already set in map"#]
        );
    }
}
