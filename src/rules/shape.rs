//! As what the parts of an object are read by expressions, which its schema says.

use cel::{Fields, ListKind, Shape, ShapeKind};
use schema::View;

use crate::decl::has_head;

/// Returns the shape of a schema's values. `is_root`: it is the schema of a whole object.
pub(crate) fn shape(view: View<'_>, is_root: bool) -> Shape {
    Shape { kind: kind(view, is_root), nullable: view.is_nullable() }
}

fn kind(view: View<'_>, is_root: bool) -> ShapeKind {
    if view.is_int_or_string() {
        return ShapeKind::IntOrString;
    }
    match view.kind() {
        "object" => ShapeKind::Object(Box::new(fields(view, is_root || view.is_embedded()))),
        "array" => match view.items() {
            Some(items) => ShapeKind::List(Box::new(shape(items, false)), list_kind(view)),
            None => ShapeKind::Invalid("array".into()),
        },
        "string" => match view.format() {
            "duration" => ShapeKind::Duration,
            "date" => ShapeKind::Date,
            "date-time" => ShapeKind::DateTime,
            "byte" => ShapeKind::Byte,
            _ => ShapeKind::String,
        },
        "number" => ShapeKind::Number,
        "integer" => ShapeKind::Integer,
        "boolean" => ShapeKind::Bool,
        _ if view.preserves() => ShapeKind::Unknown,
        odd => ShapeKind::Invalid(odd.into()),
    }
}

fn fields(view: View<'_>, has_metadata: bool) -> Fields {
    let hides = has_metadata && !has_head(view);
    let mut declared: std::collections::BTreeMap<Box<str>, Shape> =
        view.properties().map(|(name, property)| (name.into(), shape(property, false))).collect();
    if hides {
        let text = || Shape::of(ShapeKind::String);
        let metadata = ["name", "generateName"].map(|name| (name.into(), text())).into();
        declared.insert("apiVersion".into(), text());
        declared.insert("kind".into(), text());
        declared.insert("metadata".into(), Shape::of(ShapeKind::Object(Box::new(Fields::Declared(metadata)))));
    }
    match view.additional() {
        _ if !declared.is_empty() => Fields::Declared(declared),
        Some(values) => Fields::Each(shape(values, false)),
        None => Fields::None,
    }
}

fn list_kind(view: View<'_>) -> ListKind {
    match view.map_keys() {
        Some(keys) => ListKind::Map(keys.into()),
        None if view.is_set() => ListKind::Set,
        None => ListKind::Atomic,
    }
}

/// A step of the way from a whole object to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Member(Box<str>),
    /// Any value of a map.
    Each,
    Items,
}

/// Whatever JSON a value is.
pub(crate) static ANY: Shape = Shape { kind: ShapeKind::Any, nullable: true };

/// Returns the shape that is found on this way; anything where there is none, as below a head that is hidden.
pub(crate) fn follow<'s>(root: &'s Shape, steps: &[Step]) -> &'s Shape {
    steps.iter().try_fold(root, |shape, step| one_step(shape, step)).unwrap_or(&ANY)
}

fn one_step<'s>(shape: &'s Shape, step: &Step) -> Option<&'s Shape> {
    match (&shape.kind, step) {
        (ShapeKind::List(items, _), Step::Items) => Some(items),
        (ShapeKind::Object(fields), Step::Member(name)) => match &**fields {
            Fields::Declared(declared) => declared.get(name),
            _ => None,
        },
        (ShapeKind::Object(fields), Step::Each) => match &**fields {
            Fields::Each(shape) => Some(shape),
            _ => None,
        },
        _ => None,
    }
}
