//! A PATCH body, read once and applied as often as the object changes under it (spec api-surface §7.1).

use serde_json::Value;

use super::{
    body::{self, Duplicate, Syntax},
    failure::WriteError,
    patch::{PatchError, json, merge, strategic},
};
use crate::catalogue::types::TypeRef;

/// The media types of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`; built-in types only.
    Strategic,
}

/// A patch, read.
pub(super) struct Patch {
    how: How,
    /// Keys that stand twice in it.
    pub(super) duplicates: Vec<Duplicate>,
}

enum How {
    Json(json::JsonPatch),
    Merge(Value),
    Strategic(Value),
}

impl Patch {
    pub(super) fn read(kind: PatchKind, bytes: &[u8]) -> Result<Self, WriteError> {
        if kind == PatchKind::Json {
            return Ok(Self { how: How::Json(json::JsonPatch::read(bytes)?), duplicates: Vec::new() });
        }
        let tree =
            body::parse(Syntax::Json, bytes, "").map_err(|error| PatchError::BadRequest(format!("error decoding patch: {}", error.0)))?;
        let how = if kind == PatchKind::Merge { How::Merge(tree.value) } else { How::Strategic(tree.value) };
        Ok(Self { how, duplicates: tree.duplicates })
    }

    /// The object after the patch. `type_ref` is the type of a built-in kind.
    pub(super) fn apply(&self, object: &Value, type_ref: Option<TypeRef>) -> Result<Value, WriteError> {
        Ok(match (&self.how, type_ref) {
            (How::Json(patch), _) => patch.apply(object)?,
            (How::Merge(patch), _) => merge::apply(object, patch)?,
            (How::Strategic(patch), Some(type_ref)) => strategic::apply(object, patch, type_ref)?,
            (How::Strategic(_), None) => return Err(WriteError::Raw("strategic merge patch needs a type".to_owned())),
        })
    }
}
