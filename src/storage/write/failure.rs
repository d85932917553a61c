//! Why a write failed, with everything that its answer needs.

use std::fmt;

use thiserror::Error;

use super::patch::PatchError;
use admission::hooks::Denial;
use catalogue::Served;
use conversion::ConversionError;
use etcd::EtcdError;
use go::quote::quoted;
use model::{Broken, invalid::FieldError};

/// The object of a `Status`, as its message and its details name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusSubject {
    /// API group; empty for core.
    pub group: String,
    /// Plural resource, or kind where the API says kind.
    pub kind: String,
    /// Name; may be empty.
    pub name: String,
}

impl fmt::Display for StatusSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, quoted(&self.name))
    }
}

/// A write's failure.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum WriteError {
    /// 400.
    #[error("{0}")]
    BadRequest(String),
    /// 403 `… is forbidden: why`.
    #[error("forbidden: {why}")]
    Forbidden {
        /// What the write was about.
        of: StatusSubject,
        /// Text after `is forbidden: `.
        why: String,
        /// What clients match on.
        cause: Option<ForbiddenCause>,
    },
    /// What an admission webhook says, with its code.
    #[error("{}", .0.message)]
    Denied(Box<Denial>),
    /// 404.
    #[error("{0} not found")]
    NotFound(StatusSubject),
    /// 405 with this text.
    #[error("{0}")]
    NotAllowed(String),
    /// 503 with this text: it is not known yet whether we may write.
    #[error("{0}")]
    NotYet(String),
    /// 409.
    #[error("{of} already exists")]
    AlreadyExists {
        /// The one that is there.
        of: StatusSubject,
        /// It has a deletionTimestamp.
        deleting: bool,
        /// The name was generated, again and again (spec api-surface §5.3).
        generated: bool,
    },
    /// 409 `Operation cannot be fulfilled on …: why`.
    #[error("conflict on {of}: {why}")]
    Conflict {
        /// The object.
        of: StatusSubject,
        /// Text after the colon.
        why: String,
    },
    /// 409 of an apply that would change what others manage.
    #[error("{message}")]
    ApplyConflict {
        /// The whole text.
        message: String,
        /// Each field, and the cause.
        causes: Vec<(String, String)>,
    },
    /// 429: an eviction would disrupt more than a budget allows.
    #[error("{why}")]
    Disrupting {
        /// The cause.
        why: String,
        /// Seconds after which it may be tried again; 0 when nobody knows.
        retry_after: u32,
    },
    /// 429 with this text: too many requests wait for the same answer.
    #[error("{0}")]
    TooMany(String),
    /// 413 with this text.
    #[error("{0}")]
    TooLarge(String),
    /// 422 with its causes; `of.kind` is the Kind.
    #[error("{of} is invalid")]
    Invalid {
        /// The object or the options.
        of: StatusSubject,
        /// What is wrong.
        errors: Vec<FieldError>,
    },
    /// 422 of a patch that cannot be applied (spec api-surface §7.2).
    #[error("the patch cannot be applied")]
    Unapplicable,
    /// 500 with this text and no reason: what Go did not convert.
    #[error("{0}")]
    Raw(String),
    /// 500 `Internal error occurred: …`.
    #[error("{0}")]
    Internal(String),
    /// The stored value cannot be read, so it cannot be changed.
    #[error("{0}")]
    Undecodable(String),
    /// etcd did not do it, or we do not know whether it did.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
}

/// What clients match on in a 403 (spec api-surface §5.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForbiddenCause {
    /// The namespace of this name is being terminated.
    Terminating(String),
    /// Nothing but this reason.
    Reason(&'static str),
}

impl StatusSubject {
    /// An object under its plural resource.
    #[must_use]
    pub fn resource(served: &Served, name: &str) -> Self {
        Self { group: served.group.clone(), kind: served.resource.clone(), name: name.to_owned() }
    }

    /// An object under its kind.
    #[must_use]
    pub fn kind(served: &Served, name: &str) -> Self {
        Self { group: served.group.clone(), kind: served.kind.clone(), name: name.to_owned() }
    }

    /// An object under the kind that validation judges. That is the internal one, of the group in which it is stored: an Event has no group, whichever
    /// group it was sent to.
    pub(super) fn judged(served: &Served, name: &str) -> Self {
        let group = served.stored_as.rsplit_once('/').map_or("", |(group, _)| group);
        Self { group: group.to_owned(), kind: served.kind.clone(), name: name.to_owned() }
    }

    /// Options of `meta.k8s.io`.
    #[must_use]
    pub fn options(kind: &str) -> Self {
        Self { group: "meta.k8s.io".to_owned(), kind: kind.to_owned(), name: String::new() }
    }
}

impl WriteError {
    /// What the server says when somebody else's write came between (spec api-surface §6.1).
    pub(super) fn modified(of: StatusSubject) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::Conflict { of, why: why.to_owned() }
    }

    /// 422 when there is something wrong.
    pub(super) fn unless_valid(of: StatusSubject, errors: Vec<FieldError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self::Invalid { of, errors }) }
    }
}

impl From<PatchError> for WriteError {
    fn from(error: PatchError) -> Self {
        match error {
            PatchError::BadRequest(text) => Self::BadRequest(text),
            PatchError::Unapplicable => Self::Unapplicable,
            PatchError::Internal(text) => Self::Raw(text),
            PatchError::TooLarge(text) => Self::TooLarge(text),
        }
    }
}

impl From<ConversionError> for WriteError {
    fn from(error: ConversionError) -> Self {
        match error {
            ConversionError::Failed(text) => Self::Raw(text),
            ConversionError::Busy(_) => Self::TooMany(error.to_string()),
        }
    }
}

impl From<Broken> for WriteError {
    fn from(broken: Broken) -> Self {
        Self::Undecodable(format!("{}: {}", String::from_utf8_lossy(&broken.key), broken.why))
    }
}
