//! Protobuf bodies become the JSON that they stand for. Knows no field.

use crate::codec::proto::{self, Message};

/// The first bytes of every protobuf body, as Go prints them.
const PREFIX: &str = "[107 56 115 0]";

/// The body as JSON. What it does not say of its type is `default`'s: version and kind.
///
/// # Errors
/// What is wrong with it, in the words of the real server where those can be known.
pub(super) fn json(bytes: &[u8], default: (&str, &str)) -> Result<Vec<u8>, String> {
    if !bytes.starts_with(proto::PREFIX) {
        return Err(match bytes.is_empty() {
            true => "empty data".to_owned(),
            false => format!("provided data does not appear to be a protobuf message, expected prefix {PREFIX}"),
        });
    }
    let unknown = proto::open(bytes).map_err(|error| error.to_string())?;
    let or = |told: &str, default: &str| if told.is_empty() { default.to_owned() } else { told.to_owned() };
    let (api_version, kind) = (or(unknown.api_version, default.0), or(unknown.kind, default.1));
    let message = message(&api_version, &kind).ok_or_else(|| no_kind(&api_version, &kind))?;
    let mut json = Vec::with_capacity(bytes.len() * 2);
    message.to_json(unknown.raw, &mut json).map_err(|error| error.to_string())?;
    Ok(json)
}

/// Options are of every group's version.
fn message(api_version: &str, kind: &str) -> Option<Message> {
    proto::message(api_version, kind).or_else(|| proto::message("v1", kind).filter(|_| kind.ends_with("Options")))
}

fn no_kind(api_version: &str, kind: &str) -> String {
    format!(r#"no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111""#)
}
