//! The body of a PATCH, applied again each time the object changes meanwhile (spec api-surface §7.1).

use serde_json::Value;

use super::{
    body::{Duplicate, parse_patch},
    failure::WriteError,
    options::FieldValidation,
    patch::{PatchError, json, merge, printed::printed, strategic},
};
use catalogue::types::TypeRef;

/// The media types of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`; built-in types only.
    Strategic,
    /// `application/apply-patch+yaml`: no patch of the object, but what a manager wants of it.
    Apply,
}

/// A patch as it was sent.
pub(super) struct PatchRequest<'a> {
    pub(super) kind: PatchKind,
    pub(super) bytes: &'a [u8],
    pub(super) validation: FieldValidation,
}

impl PatchRequest<'_> {
    /// The object after the patch, and what is too much in the patch: texts of warnings. `type_ref` is the type of a built-in kind.
    pub(super) fn apply(&self, object: &Value, type_ref: Option<TypeRef>) -> Result<(Value, Vec<String>), WriteError> {
        let texts = |duplicates: Vec<Duplicate>| duplicates.iter().map(Duplicate::to_string).collect();
        match (self.kind, type_ref) {
            (PatchKind::Json, _) => Ok(json::apply(object, self.bytes, self.validation)?),
            (PatchKind::Merge, _) => {
                let (object, duplicates) = merge::apply(object, self.bytes, self.validation)?;
                Ok((object, texts(duplicates)))
            }
            (PatchKind::Strategic, Some(type_ref)) => {
                let (patch, duplicates) = self.strategic()?;
                Ok((strategic::apply(object, &patch, type_ref)?, texts(duplicates)))
            }
            (PatchKind::Apply, _) => Err(WriteError::Raw("a configuration is applied, and is no patch".to_owned())),
            (PatchKind::Strategic, None) => Err(WriteError::Raw("a strategic merge patch needs a type that is known".to_owned())),
        }
    }

    /// As Go prints it; something that is no JSON is printed as nothing.
    pub(super) fn printed(&self) -> String {
        self.strategic().map(|(patch, _)| printed(&patch)).unwrap_or_default()
    }

    fn strategic(&self) -> Result<(Value, Vec<Duplicate>), PatchError> {
        parse_patch(self.bytes, "value").map_err(PatchError::BadRequest)
    }
}
