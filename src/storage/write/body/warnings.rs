//! Warnings and errors about the unknown and duplicate fields of a body, in the order of the real server.

use super::{Duplicate, Syntax, json};

/// The warnings about a body (spec api-surface §5.6). `unknown` has the paths of the fields that its type does not have.
pub(crate) fn warnings(syntax: Syntax, body: &[u8], custom: bool, duplicates: &[Duplicate], unknown: &[String]) -> Vec<String> {
    let all_unknown = unknown.iter().map(|path| format!("unknown field \"{path}\""));
    // A typed decoder meets both as it goes along; where a map is read first, duplicates were told before any field was looked up.
    if syntax == Syntax::Yaml || custom {
        return duplicates.iter().map(ToString::to_string).chain(all_unknown).collect();
    }
    let duplicate_keys: Vec<&str> =
        duplicates.iter().filter_map(known_path).filter(|path| !unknown.iter().any(|u| lies_in(path, u))).collect();
    if duplicate_keys.is_empty() && unknown.len() < 2 {
        return all_unknown.collect();
    }
    let first = unknown.iter().map(|path| (path.clone(), 1));
    let second = duplicate_keys.iter().map(|&path| (path.to_owned(), 2));
    let kind = |path: &String| if unknown.contains(path) { "unknown" } else { "duplicate" };
    let mut met = json::order(body, first.chain(second));
    // A path that is written otherwise than ours comes last.
    let missed = unknown.iter().filter(|path| !met.contains(path)).cloned().collect::<Vec<_>>();
    met.extend(missed);
    met.iter().map(|path| format!("{} field \"{path}\"", kind(path))).collect()
}

/// The end of the 400 under `Strict`, if there is anything to report: `strict decoding error: …`.
pub(crate) fn strict_error(syntax: Syntax, body: &[u8], custom: bool, duplicates: &[Duplicate], unknown: &[String]) -> Option<String> {
    let mut warnings = warnings(syntax, body, custom, duplicates, unknown);
    if syntax == Syntax::Yaml && !duplicates.is_empty() {
        let unknown = warnings.split_off(duplicates.len());
        let lines: String = warnings.iter().map(|line| format!("\n  {line}")).collect();
        warnings = std::iter::once(format!("yaml: unmarshal errors:{lines}")).chain(unknown).collect();
    }
    (!warnings.is_empty()).then(|| format!("strict decoding error: {}", warnings.join(", ")))
}

fn known_path(duplicate: &Duplicate) -> Option<&str> {
    match duplicate {
        Duplicate::Field(path) => Some(path),
        Duplicate::Line(_) => None,
    }
}

/// Whether a path is `parent` or below it.
fn lies_in(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::body::{Expected, parse};

    fn strict(syntax: Syntax, body: &str, custom: bool, unknown: &[&str]) -> Option<String> {
        let expected = Expected { group: "", version: "v1", kind: "X", custom, schema: None };
        let tree = parse(syntax, body.as_bytes(), &expected).expect("a body");
        let unknown: Vec<String> = unknown.iter().map(|&path| path.to_owned()).collect();
        strict_error(syntax, body.as_bytes(), custom, &tree.duplicates, &unknown)
    }

    /// Each was sent to a kube-apiserver.
    #[test]
    fn the_order_is_that_of_the_real_server() {
        let json = r#"{"foo":1,"foo":2,"metadata":{"name":"x","bar":1,"name":"x"},"data":{"a":"1","a":"2"},"zoo":{"a":1,"a":2}}"#;
        assert_eq!(
            strict(Syntax::Json, json, false, &["foo", "zoo", "metadata.bar"]).as_deref(),
            Some(
                r#"strict decoding error: unknown field "foo", unknown field "metadata.bar", duplicate field "metadata.name", duplicate field "data.a", unknown field "zoo""#
            )
        );
        let custom = r#"{"metadata":{"name":"x","bar":1,"name":"x","ann":{"x":1,"x":2}},"spec":{"a":"1","a":"2"}}"#;
        assert_eq!(
            strict(Syntax::Json, custom, true, &["metadata.ann", "metadata.bar"]).as_deref(),
            Some(
                r#"strict decoding error: duplicate field "metadata.name", duplicate field "metadata.ann.x", duplicate field "spec.a", unknown field "metadata.ann", unknown field "metadata.bar""#
            )
        );
        let yaml = "foo: 1\nfoo: 2\nmetadata: {name: x, bar: 1, name: x}\ndata: {a: \"1\", a: \"2\"}\n";
        assert_eq!(
            strict(Syntax::Yaml, yaml, false, &["foo", "metadata.bar"]).as_deref(),
            Some(
                "strict decoding error: yaml: unmarshal errors:\n  line 2: key \"foo\" already set in map\n  line 3: key \"name\" already set in map\n  line 4: key \"a\" already set in map, unknown field \"foo\", unknown field \"metadata.bar\""
            )
        );
    }

    #[test]
    fn every_unknown_field_is_told() {
        let told = strict(Syntax::Json, r#"{"b":1,"a":1}"#, false, &["a", "other", "b"]);
        let want = r#"strict decoding error: unknown field "b", unknown field "a", unknown field "other""#;
        assert_eq!(told.as_deref(), Some(want));
    }

    #[test]
    fn nothing_to_tell_is_no_error() {
        assert_eq!(strict(Syntax::Json, r#"{"a":1}"#, false, &[]), None);
        assert_eq!(strict(Syntax::Yaml, "a: 1", false, &[]), None);
        let one = strict(Syntax::Json, r#"{"spec":{"a":[{"b":1}]}}"#, false, &["spec.a[0].b"]);
        assert_eq!(one.as_deref(), Some(r#"strict decoding error: unknown field "spec.a[0].b""#));
    }
}
