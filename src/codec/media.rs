//! The encodings of answers and what whole JSON documents become in them. Knows no request.

use super::proto::{self, ProtoError};
use go::{
    indent,
    yaml::{self, NoYaml},
};
use model::Object;

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
}

/// What has no such encoding, and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unencodable(String);

impl Unencodable {
    pub(super) fn no_message() -> Self {
        Self("there is no message for this form".to_owned())
    }

    pub(super) fn yaml(why: &NoYaml) -> Self {
        Self(why.to_string())
    }

    pub(super) fn of(object: &Object, why: &ProtoError) -> Self {
        Self(format!("{} cannot be encoded as protobuf: {why}", String::from_utf8_lossy(&object.key)))
    }
}

impl Media {
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
            Self::Yaml => yaml::yaml(&compact).map_err(|why| Unencodable::yaml(&why)),
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
    let meta: TypeMeta<'_> = serde_json::from_slice(json).map_err(|error| Unencodable(error.to_string()))?;
    let message = proto::message(&meta.api_version, &meta.kind)
        .ok_or_else(|| Unencodable(format!("there is no message for {} of {}", meta.kind, meta.api_version)))?;
    let mut raw = Vec::with_capacity(json.len());
    message.from_json(json, &mut raw).map_err(|error| Unencodable(error.to_string()))?;
    let mut out = Vec::with_capacity(raw.len() + 64);
    proto::envelope_into(&meta.api_version, &meta.kind, &raw, &mut out);
    Ok(out)
}
