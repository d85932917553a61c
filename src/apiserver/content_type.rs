//! How a body is written, by its `Content-Type`: kube-apiserver reads the header in three ways (spec api-surface §3.3).

use std::borrow::Cow;

use http::{HeaderMap, header::CONTENT_TYPE};

use super::status::Status;
use storage::write::{PatchKind, Syntax};

/// The media types of a body that is an object.
pub(super) const OBJECTS: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const CUSTOM_PATCHES: &str = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
const PATCHES: &str =
    "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml";

/// How a body that is an object is written: what Go's `mime` makes of the header; without one it is JSON.
///
/// # Errors
/// The 415.
pub(super) fn syntax(headers: &HeaderMap, has_message: bool) -> Result<Syntax, Status> {
    let named = named(headers);
    if named.is_empty() {
        return Ok(Syntax::Json);
    }
    match go::mime::media_type(&named).as_deref() {
        Some("application/json") => Ok(Syntax::Json),
        Some("application/yaml") => Ok(Syntax::Yaml),
        Some("application/vnd.kubernetes.protobuf") if has_message => Ok(Syntax::Protobuf),
        _ => Err(Status::unsupported_media_type(&OBJECTS.join(", "))),
    }
}

/// The kind of a patch: the header up to its first `;`, byte for byte. The router of built-in resources looks first.
///
/// # Errors
/// The 415.
pub(super) fn patch(headers: &HeaderMap, custom: bool) -> Result<PatchKind, Status> {
    let known = if custom { CUSTOM_PATCHES } else { PATCHES };
    if !custom {
        routed(headers, &known.split(", ").collect::<Vec<_>>(), false)?;
    }
    let named = named(headers);
    match named.find(';').filter(|at| *at > 0).map_or(&*named, |at| &named[..at]) {
        "application/json-patch+json" => Ok(PatchKind::Json),
        "application/merge-patch+json" => Ok(PatchKind::Merge),
        "application/strategic-merge-patch+json" if !custom => Ok(PatchKind::Strategic),
        "application/apply-patch+yaml" => Ok(PatchKind::Apply),
        _ => Err(Status::unsupported_media_type(known)),
    }
}

/// Lets a request pass as kube-apiserver's router does: one of the types before a `,`, without its parameters, is known. Whether there must be one depends on
/// the method.
///
/// # Errors
/// The 415.
pub(super) fn routed(headers: &HeaderMap, known: &[&str], may_be_absent: bool) -> Result<(), Status> {
    let named = named(headers);
    let is_known = |part: &str| known.contains(&part.split(';').next().unwrap_or_default().trim_matches(' '));
    if may_be_absent && named.is_empty() || named.split(',').any(is_known) { Ok(()) } else { Err(Status::unsupported_media_type_routed()) }
}

/// Only the first line of the header counts.
fn named(headers: &HeaderMap) -> Cow<'_, str> {
    headers.get(CONTENT_TYPE).map_or(Cow::Borrowed(""), |value| String::from_utf8_lossy(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::Value;

    use super::*;

    /// What a live kube-apiserver 1.36.3 answered (`tests/data/media/record.py`).
    #[test]
    fn bodies_are_read_as_by_kube_apiserver() {
        let mut compared = 0;
        for line in include_str!("../../tests/data/media/content_type.jsonl").lines() {
            let case: Value = serde_json::from_str(line).expect("JSON");
            let value = case["value"].as_str().expect("a value");
            let bytes: Vec<u8> = value.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect();
            // What parses a request takes the spaces away.
            let value_of = HeaderValue::from_bytes(bytes.trim_ascii()).expect("a header value");
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, value_of)]);
            for (kind, theirs) in case["answers"].as_object().expect("answers") {
                let ours = match &**kind {
                    "post" | "delete" | "review" => read(syntax(&headers, true)),
                    "custom" => read(syntax(&headers, false)),
                    "patch" => patched(patch(&headers, false)),
                    "custom-patch" => patched(patch(&headers, true)),
                    "version" => passed(routed(&headers, &OBJECTS[..1], true)),
                    "versions" | "resources" => passed(routed(&headers, &OBJECTS, true)),
                    _ => "200".to_owned(),
                };
                // There the connection breaks: a custom resource has no message.
                let theirs = if theirs == "broken off" {
                    "415 known application/json, application/yaml, application/vnd.kubernetes.protobuf"
                } else {
                    theirs.as_str().expect("text")
                };
                assert_eq!(ours, theirs, "{kind}: {value:?}");
                compared += 1;
            }
        }
        assert!(compared > 3_000, "{compared}");
    }

    fn refusal(status: &Status) -> String {
        assert_eq!(status.code, 415);
        match status.message.split_once("include: ") {
            Some((_, types)) => format!("415 known {types}"),
            None if status.message.starts_with("415") => "415 routed".to_owned(),
            None => "apply".to_owned(),
        }
    }

    fn read(read: Result<Syntax, Status>) -> String {
        let name = read.map(|syntax| match syntax {
            Syntax::Json => "json".to_owned(),
            Syntax::Yaml => "yaml".to_owned(),
            Syntax::Protobuf => "protobuf".to_owned(),
        });
        name.unwrap_or_else(|status| refusal(&status))
    }

    fn patched(read: Result<PatchKind, Status>) -> String {
        let name = read.map(|kind| match kind {
            PatchKind::Json => "json-patch".to_owned(),
            PatchKind::Merge => "merge".to_owned(),
            PatchKind::Strategic => "strategic".to_owned(),
            PatchKind::Apply => "apply".to_owned(),
        });
        name.unwrap_or_else(|status| refusal(&status))
    }

    fn passed(passed: Result<(), Status>) -> String {
        passed.map_or_else(|status| refusal(&status), |()| "200".to_owned())
    }
}
