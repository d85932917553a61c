//! The forms of an answer that clients ask for, and how objects are counted in each. Knows no path and no server.

use serde::{Deserialize, Serialize};

use super::stamp::MARK;

/// What a client asks for in `Accept`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    /// What curl and most scripts ask for.
    #[default]
    Json,
    /// What controllers and kubelets ask for (built-in resources).
    Protobuf,
    /// What `kubectl get` asks for: one row for each object, in JSON.
    Table,
    /// What the garbage collector asks for: an object's metadata, or a watch of it, in protobuf.
    Metadata,
}

impl Form {
    /// The `Accept` header. That of Tables is kubectl's, word for word.
    pub(crate) fn accept(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
            Self::Metadata => "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Self::Table => {
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
            }
        }
    }

    /// How the `Content-Type` of an answer in this form begins.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::Table => "application/json",
            Self::Protobuf | Self::Metadata => "application/vnd.kubernetes.protobuf",
        }
    }

    /// What appears once for each object in an answer of this form: the stamp, or, as Tables do not show the data, the row's metadata.
    pub(crate) fn mark(self) -> &'static [u8] {
        match self {
            Self::Json | Self::Protobuf | Self::Metadata => MARK,
            Self::Table => b"\"PartialObjectMetadata\"",
        }
    }

    /// How the event begins that tells why a watch ends.
    pub(crate) fn error_start(self) -> &'static [u8] {
        match self {
            Self::Json | Self::Table => br#"{"type":"ERROR","#,
            Self::Protobuf | Self::Metadata => b"\x0a\x05ERROR",
        }
    }

    /// How each event of a watch begins in this form when it is a change of an object that exists.
    pub(crate) fn change_start(self) -> &'static [u8] {
        match self {
            Self::Json | Self::Table => br#"{"type":"MODIFIED","#,
            // Field 1 of meta.k8s.io's WatchEvent, eight bytes long.
            Self::Protobuf | Self::Metadata => b"\x0a\x08MODIFIED",
        }
    }
}
