//! What a client sent becomes a tree of the type that is meant; what is too much in it is told, refused or dropped (spec api-surface §3.8, §5.6).

use serde_json::Value;

use super::{
    body::{self, BodyError, Duplicate, Expected, IdentifyError, Syntax, Tree},
    failure::{Named, WriteError},
    options::{FieldValidation, WriteOptions},
    place::Place,
    typed,
};
use crate::model::invalid::FieldError;

/// A body, read.
#[derive(Debug)]
pub(super) struct Sent {
    /// The object.
    pub(super) tree: Value,
    /// Texts of `Warning` headers.
    pub(super) warnings: Vec<String>,
}

impl Sent {
    /// The body of a POST or PUT of an object of this resource.
    pub(super) fn read(place: &Place, options: &WriteOptions, syntax: Syntax, bytes: &[u8]) -> Result<Self, WriteError> {
        Self::read_as(&Expected::of(place.served()), options, syntax, bytes)
    }

    /// The body of a POST or PUT that holds this kind.
    pub(super) fn read_as(expected: &Expected<'_>, options: &WriteOptions, syntax: Syntax, bytes: &[u8]) -> Result<Self, WriteError> {
        let Tree { mut value, duplicates } = body::parse(syntax, bytes, expected.kind)?;
        body::identify(&mut value, expected, syntax, bytes)?;
        let (kind, version) = (expected.kind, expected.api_version());
        let refused = |why: &str| WriteError::BadRequest(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"));
        let unknown = conform(&mut value, expected).map_err(|why| refused(&why))?;
        let too_much = unknown_fields(&unknown).chain(duplicates.iter().map(Duplicate::to_string));
        let warnings = judged(options.validation, too_much.collect()).map_err(|why| refused(&why))?;
        Ok(Self { tree: value, warnings })
    }

    /// The result of a patch. Its errors speak of the patch (spec api-surface §7.2).
    pub(super) fn patched(
        expected: &Expected<'_>,
        options: &WriteOptions,
        (mut value, told): (Value, Vec<String>),
    ) -> Result<Self, WriteError> {
        let text = value.to_string();
        let refused = |why: &str| WriteError::Invalid {
            of: Named::default(),
            errors: vec![FieldError::invalid("patch", &text.as_str().into(), why)],
        };
        let unknown = conform(&mut value, expected).map_err(|why| refused(&why))?;
        let warnings = judged(options.validation, unknown_fields(&unknown).chain(told).collect()).map_err(|why| refused(&why))?;
        Ok(Self { tree: value, warnings })
    }
}

/// Drops what the type does not have, and tells the paths. The fields of custom resources are their own; only their metadata is known.
fn conform(value: &mut Value, expected: &Expected<'_>) -> Result<Vec<String>, String> {
    let outcome = if expected.custom {
        typed::conform_metadata(value)
    } else {
        typed::conform(value, expected.group, expected.version, expected.kind)
    };
    outcome.map_err(|wrong| wrong.0)
}

/// In document order; duplicates come after them (spec api-surface §5.6).
fn unknown_fields(paths: &[String]) -> impl Iterator<Item = String> {
    paths.iter().map(|path| format!("unknown field {path:?}"))
}

/// Warnings, or the text of a refusal.
fn judged(validation: FieldValidation, too_much: Vec<String>) -> Result<Vec<String>, String> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(too_much),
        FieldValidation::Strict if too_much.is_empty() => Ok(too_much),
        FieldValidation::Strict => Err(format!("strict decoding error: {}", too_much.join(", "))),
    }
}

impl From<BodyError> for WriteError {
    fn from(error: BodyError) -> Self {
        Self::BadRequest(error.0)
    }
}

impl From<IdentifyError> for WriteError {
    fn from(error: IdentifyError) -> Self {
        match error {
            IdentifyError::BadRequest(text) => Self::BadRequest(text),
            IdentifyError::Invalid { kind, group, error } => {
                Self::Invalid { of: Named { group, kind, name: String::new() }, errors: vec![error] }
            }
        }
    }
}
