//! All reasons why an object cannot be encoded.

use super::proto::ProtoError;
use go::yaml::NoYaml;
use model::Object;

/// Why something cannot be encoded. Clients read these texts under status 500.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unencodable {
    /// A stored object is not as its message wants it.
    #[error("{key} cannot be encoded as protobuf: {why}")]
    Object {
        /// Its storage key.
        key: String,
        /// What is wrong with it.
        why: ProtoError,
    },
    /// A document, or a bookmark, is not as its message wants it.
    #[error(transparent)]
    Document(#[from] ProtoError),
    /// A document is of a kind that has no message.
    #[error("there is no message for {kind} of {api_version}")]
    NoMessage {
        /// The document's `apiVersion`.
        api_version: String,
        /// The document's `kind`.
        kind: String,
    },
    /// A document does not say what it is.
    #[error("{0}")]
    NoKind(String),
    /// It has no YAML.
    #[error(transparent)]
    Yaml(#[from] NoYaml),
}

impl Unencodable {
    pub(super) fn object(object: &Object, why: ProtoError) -> Self {
        Self::Object { key: String::from_utf8_lossy(object.key()).into_owned(), why }
    }
}
