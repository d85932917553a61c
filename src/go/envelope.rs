//! Kind and version of an answer in JSON, as Kubernetes' decoder of typed objects judges them.

use serde::Deserialize;

use crate::{json, quote::quoted, yaml::reader};

/// As a Go program calls the set of types that it knows.
const SCHEME: &str = r#"in scheme "pkg/runtime/scheme.go:111""#;
/// What Go reads kind and version into.
const TYPE_META: &str =
    r#"Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
/// The versions of a review.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// What an answer has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// API group.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// The version in which was asked.
    pub version: &'static str,
}

impl Envelope {
    /// Reads an answer. One without kind and version is read as one of this kind.
    ///
    /// # Errors
    /// It is something else, in the words of Kubernetes' decoder.
    pub fn read<'a, T: Deserialize<'a> + Default>(self, answer: &'a [u8]) -> Result<T, String> {
        const UNREAD: &str = "couldn't get version/kind; json parse error";
        let wrong = |kind: &str| format!("{UNREAD}: json: cannot unmarshal {kind} into {TYPE_META}");
        let begins = answer.iter().find(|byte| !byte.is_ascii_whitespace());
        if begins != Some(&b'{') {
            // What is no JSON is taken for YAML.
            let document = reader::parse(answer).map_err(|why| format!("{UNREAD}: {why}"))?;
            return if document.value.is_null() { Ok(T::default()) } else { Err(wrong(json::kind(&document.value))) };
        }
        let unread = |error: serde_json::Error| match error.classify() {
            serde_json::error::Category::Eof => format!("{UNREAD}: unexpected end of JSON input"),
            _ => format!("{UNREAD}: {error}"),
        };
        let TypeMeta { api_version, kind } = serde_json::from_slice(answer).map_err(unread)?;
        let own = format!("{}/{}", self.group, self.version);
        let into = format!("({}.{})", self.version, self.kind);
        let sibling = api_version.strip_prefix(self.group).and_then(|rest| rest.strip_prefix('/'));
        match (&*api_version, &*kind) {
            ("", _) | (_, "") => {}
            (version, kind) if version == own && kind == self.kind => {}
            (_, kind) if kind == self.kind && sibling.is_some_and(|version| VERSIONS.contains(&version)) => {
                return Err(format!("converting ({}.{kind}) to {into}: unknown conversion", sibling.unwrap_or_default()));
            }
            ("v1", "Status") => return Err(format!("converting (v1.Status) to {into}: unknown conversion")),
            (version, kind) => return Err(format!("no kind {} is registered for version {} {SCHEME}", quoted(kind), quoted(version))),
        }
        serde_json::from_slice(answer).map_err(|error| format!("the answer is no {}: {error}", self.kind))
    }
}

/// A group, version and kind as Go prints them.
#[must_use]
pub fn kind_of(api_version: &str, kind: &str) -> String {
    let (group, version) = match api_version.split_once('/') {
        // Go does not split what has more slashes.
        Some((_, version)) if version.contains('/') => ("", ""),
        Some(parts) => parts,
        None => ("", api_version),
    };
    format!("{group}/{version}, Kind={kind}")
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct TypeMeta {
    api_version: String,
    kind: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Answer {
        a: u8,
    }

    fn told(answer: &str) -> Result<u8, String> {
        let envelope = Envelope { group: "x.io", kind: "Review", version: "v1" };
        envelope.read(answer.as_bytes()).map(|Answer { a }| a)
    }

    #[test]
    fn what_is_no_answer_is_told_as_by_kube_apiserver() {
        let check = |answer: &str, want: &str| assert_eq!(told(answer), Err(want.to_owned()), "{answer}");
        assert_eq!(told(r#"{"a":1}"#), Ok(1));
        assert_eq!(told(r#"{"apiVersion":"x.io/v1","kind":"Review","a":2}"#), Ok(2));
        assert_eq!(told(""), Ok(0));
        check("{\"a\":", "couldn't get version/kind; json parse error: unexpected end of JSON input");
        check("[]", &format!("couldn't get version/kind; json parse error: json: cannot unmarshal array into {TYPE_META}"));
        check("<html>", &format!("couldn't get version/kind; json parse error: json: cannot unmarshal string into {TYPE_META}"));
        check(r#"{"apiVersion":"v1","kind":"Status"}"#, "converting (v1.Status) to (v1.Review): unknown conversion");
        check(r#"{"apiVersion":"x.io/v1beta1","kind":"Review"}"#, "converting (v1beta1.Review) to (v1.Review): unknown conversion");
        check(
            r#"{"apiVersion":"x.io/v2","kind":"Review"}"#,
            r#"no kind "Review" is registered for version "x.io/v2" in scheme "pkg/runtime/scheme.go:111""#,
        );
    }

    #[test]
    fn kinds_are_printed_as_go_prints_them() {
        assert_eq!(kind_of("ex.io/v1", "T"), "ex.io/v1, Kind=T");
        assert_eq!((kind_of("v1", "T"), kind_of("", "")), ("/v1, Kind=T".to_owned(), "/, Kind=".to_owned()));
        assert_eq!(kind_of("a/b/c", "T"), "/, Kind=T");
    }
}
