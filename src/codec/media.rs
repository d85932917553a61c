//! The encodings of answers and what whole JSON documents become in them.

use super::{proto, unencodable::Unencodable};
use go::{indent, yaml};

/// How an answer is encoded (spec api-surface §3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Media {
    /// `application/json`
    #[default]
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

impl Media {
    /// The `Content-Type` of an answer.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The `Content-Type` of a watch's stream: JSON does not say that it is one (spec list-watch §4.3).
    #[must_use]
    pub fn stream_type(self) -> &'static str {
        match self {
            Self::Json | Self::Yaml => self.content_type(),
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    /// Encodes an API object that is compact JSON without a newline at its end. JSON gets one, or is indented; `pretty` says nothing of the others.
    ///
    /// # Errors
    /// When protobuf has no message for its kind, or it is not as that message wants it.
    pub fn encode(self, mut compact: Vec<u8>, pretty: bool) -> Result<Vec<u8>, Unencodable> {
        match self {
            Self::Json if pretty => Ok(indent::indent(&compact)),
            Self::Json => {
                compact.push(b'\n');
                Ok(compact)
            }
            Self::Yaml => Ok(yaml::yaml(&compact)?),
            Self::Protobuf => protobuf(&compact),
        }
    }
}

/// What an object says that it is.
#[derive(serde::Deserialize)]
struct TypeMeta<'a> {
    /// Empty in the documents of the core group.
    #[serde(rename = "apiVersion", borrow, default)]
    api_version: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    kind: std::borrow::Cow<'a, str>,
}

fn protobuf(json: &[u8]) -> Result<Vec<u8>, Unencodable> {
    let meta: TypeMeta<'_> = serde_json::from_slice(json).map_err(|error| Unencodable::NoKind(error.to_string()))?;
    let message = proto::message(&meta.api_version, &meta.kind)
        .ok_or_else(|| Unencodable::NoMessage { api_version: meta.api_version.to_string(), kind: meta.kind.to_string() })?;
    let raw = message.from_json(json)?;
    let mut out = Vec::with_capacity(raw.len() + 64);
    proto::envelope_into(&meta.api_version, &meta.kind, &raw, &mut out);
    Ok(out)
}
