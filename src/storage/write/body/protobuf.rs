//! Protobuf bodies become the JSON that they stand for.

use super::super::JSON_BYTES_MAX;
use codec::proto::{self, Message, ProtoError};

/// The first bytes of every protobuf body, as Go prints them.
const PREFIX: &str = "[107 56 115 0]";

/// What is wrong with a body.
#[derive(Debug)]
pub(super) enum Wrong {
    /// It is no envelope, or a broken one: not even version and kind are known.
    Envelope(String),
    /// What it says it is, is unknown or broken.
    Message {
        /// Of the envelope, or what it should be.
        api_version: String,
        /// So too.
        kind: String,
        /// In the words of the real server where those can be known.
        cause: String,
    },
}

impl Wrong {
    /// Returns the cause without the message around it.
    pub(super) fn cause(self) -> String {
        match self {
            Self::Envelope(cause) | Self::Message { cause, .. } => cause,
        }
    }
}

/// The body as JSON. What it does not say of its type is `default`'s: version and kind.
///
/// # Errors
/// What is wrong with it.
pub(super) fn json(bytes: &[u8], default: (&str, &str)) -> Result<Vec<u8>, Wrong> {
    if !bytes.starts_with(proto::PREFIX) {
        return Err(Wrong::Envelope(match bytes.is_empty() {
            true => "empty data".to_owned(),
            false => format!("provided data does not appear to be a protobuf message, expected prefix {PREFIX}"),
        }));
    }
    let unknown = proto::open(bytes).map_err(|error| Wrong::Envelope(error.to_string()))?;
    let or = |warnings: &str, default: &str| if warnings.is_empty() { default.to_owned() } else { warnings.to_owned() };
    // Of a version that is none, Go keeps nothing.
    let warnings = Some(unknown.api_version).filter(|version| version.matches('/').count() < 2).unwrap_or_default();
    let (api_version, kind) = (or(warnings, default.0), or(unknown.kind, default.1));
    let mut json = Vec::with_capacity(bytes.len() * 2);
    let Some(message) = message(&api_version, &kind, default.1) else {
        let cause = no_kind(&api_version, &kind);
        return Err(Wrong::Message { api_version, kind, cause });
    };
    match message.to_json(unknown.raw, JSON_BYTES_MAX, &mut json) {
        Ok(()) => Ok(json),
        Err(ProtoError::TooLarge) => {
            Err(Wrong::Envelope(format!("the message stands for too many bytes of JSON, limit is {JSON_BYTES_MAX}")))
        }
        Err(error) => Err(Wrong::Message { api_version, kind, cause: error.to_string() }),
    }
}

/// Options are of every group's version, and read by those who know nothing else.
fn message(api_version: &str, kind: &str, expected: &str) -> Option<Message> {
    if is_options(expected) && !is_options(kind) {
        return None;
    }
    let message = |api_version| proto::message(api_version, kind).filter(|message| message.is_in_law());
    message(api_version).or_else(|| message("v1").filter(|_| is_options(kind)))
}

fn is_options(kind: &str) -> bool {
    kind.ends_with("Options")
}

fn no_kind(api_version: &str, kind: &str) -> String {
    format!(r#"no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111""#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_multiplies_is_refused() {
        let pod = |containers: usize| {
            let mut raw = Vec::new();
            proto::field_into(2, &[0x12, 0].repeat(containers), &mut raw);
            let mut body = Vec::new();
            proto::envelope_into("v1", "Pod", &raw, &mut body);
            json(&body, ("v1", "Pod"))
        };
        assert!(pod(1000).is_ok());
        let many = JSON_BYTES_MAX / 4 - 100;
        assert!(pod(many).expect_err("40 MB").cause().ends_with("limit is 6291456"));
    }
}
