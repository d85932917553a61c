//! Server-side apply's library: who manages which field of an object, and what the object becomes when one of them applies or updates it. It behaves as
//! structured-merge-diff 6.3 does, and has its words: path elements, sets, `FieldsV1`, schemas, typed values, managers, conflicts.
//!
//! It works on trees of JSON and knows neither Kubernetes nor a clock. Versions are names, and a [`Converter`] makes an object of one version that of another.
//!
//! ```
//! # use watchcache_merge as merge;
//! use std::{borrow::Cow, sync::Arc};
//!
//! use merge::{ConvertError, Converter, Duplicates, Managers, ParseableType, Schema, TypedValue, Updater, fields_v1, openapi};
//! use serde_json::json;
//!
//! /// There is one version.
//! struct OneVersion;
//!
//! impl Converter for OneVersion {
//!     fn convert<'a>(&self, object: &'a TypedValue<'_>, version: &str) -> Result<TypedValue<'a>, ConvertError> {
//!         if version == "v1" { Ok(object.borrow()) } else { Err(ConvertError::MissingVersion(version.to_owned())) }
//!     }
//! }
//!
//! let document = json!({"Game": {"type": "object", "properties": {
//!     "players": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
//!     "name": {"type": "string"},
//! }}});
//! let schemas = document.as_object().unwrap().iter().map(|(name, schema)| (name.as_str(), schema));
//! let schema = Arc::new(Schema::new(openapi::types(schemas, false).unwrap()));
//! let game = ParseableType::of(&schema, "Game").unwrap();
//! let updater = Updater::new(&OneVersion);
//!
//! // Someone writes the whole object.
//! let new = TypedValue::new(Cow::Owned(json!({"name": "chess", "players": ["anna"]})), &game, Duplicates::Allowed).unwrap();
//! let nothing = json!(null);
//! let managers = updater.update(&TypedValue::borrowed(&nothing, &game), &new, "v1", Managers::new(), "editor").unwrap();
//! assert_eq!(fields_v1::write(&managers["editor"].set), r#"{"f:name":{},"f:players":{".":{},"v:\"anna\"":{}}}"#);
//!
//! // Someone else applies a part of it.
//! let config = TypedValue::new(Cow::Owned(json!({"players": ["bert"]})), &game, Duplicates::Refused).unwrap();
//! let applied = updater.apply(&new, &config, "v1", managers, "applier", false).unwrap();
//! assert_eq!(applied.object, Some(json!({"name": "chess", "players": ["anna", "bert"]})));
//!
//! // A third one wants another name.
//! let object = applied.object.unwrap();
//! let live = TypedValue::borrowed(&object, &game);
//! let config = TypedValue::new(Cow::Owned(json!({"name": "go"})), &game, Duplicates::Refused).unwrap();
//! let refused = updater.apply(&live, &config, "v1", applied.managers, "third", false).unwrap_err();
//! assert_eq!(refused.to_string(), r#"conflict with "editor": .name"#);
//! ```

pub mod fields_v1;
mod managers;
mod path;
mod schema;
mod set;
mod typed;
mod updater;
pub mod value;

pub use managers::{Conflict, Conflicts, Managers, VersionedSet};
pub use path::{Name, Path, PathElement};
pub use schema::{DEDUCED, ElementRelationship, ParseableType, Scalar, Schema, TypeRef, UNTYPED, definition, openapi};
pub use set::{Filter, PathElementMatcher, Set, SetMatcher};
pub use typed::{Comparison, Duplicates, TypedValue, ValidationError, ValidationErrors, reconcile_field_set_with_schema};
pub use updater::{Applied, ConvertError, Converter, UpdateError, Updater};

/// How deep values, sets and schemas may be nested. A walk that comes so far ends with an error.
pub const DEPTH_MAX: usize = 512;
