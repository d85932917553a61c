//! The types of objects and patches that an expression makes: any field of an object, and the members of an operation (`pkg/cel/mutation` of apiserver).

use crate::types::Type;

/// The type of a whole object; below it are the types of its fields.
const OBJECT: &str = "Object";
/// The type of one operation of a patch.
const PATCH: &str = "JSONPatch";
/// The fields of an operation that are texts.
const TEXTS: [&str; 3] = ["op", "path", "from"];
/// The field of an operation that is any value.
const VALUE: &str = "value";

/// Returns whether this is the type of an object or a patch that an expression may make.
pub(crate) fn is_made(name: &str) -> bool {
    name == PATCH || name == OBJECT || name.strip_prefix(OBJECT).is_some_and(|rest| rest.starts_with('.'))
}

/// Returns the type of a field.
pub(crate) fn field_of(object: &str, field: &str) -> Option<Type> {
    match object {
        PATCH if TEXTS.contains(&field) => Some(Type::String),
        PATCH => (field == VALUE).then_some(Type::Dyn),
        _ => Some(Type::Dyn),
    }
}

/// Returns whether this is the type of an operation of a patch.
pub(crate) fn is_patch(name: &str) -> bool {
    name == PATCH
}

/// Returns whether a field of this type must be a text.
pub(crate) fn is_text(object: &str, field: &str) -> bool {
    object == PATCH && TEXTS.contains(&field)
}
