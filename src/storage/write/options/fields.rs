//! The fields of options by name and type, and how a query becomes the same tree as a body (spec api-surface §5.1, §7.1, §8.1).

use serde_json::{Map, Value};

use super::UNREAD;
use go::{strconv::parse_int, url::Query};

/// How Go converts the values of a parameter into a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type {
    /// The first value is a decimal number.
    Integer,
    /// The first value is false if it is `0` or `false`; everything else, also nothing, is true.
    Boolean,
    /// The first value.
    Text,
    /// All values.
    Texts,
}

/// Fields of CreateOptions, UpdateOptions and PatchOptions; only the last has `force`.
pub(super) const WRITE: [(&str, Type); 4] =
    [("force", Type::Boolean), ("fieldManager", Type::Text), ("dryRun", Type::Texts), ("fieldValidation", Type::Text)];

/// Fields of DeleteOptions that have a parameter of their name.
pub(super) const DELETE: [(&str, Type); 5] = [
    ("gracePeriodSeconds", Type::Integer),
    ("orphanDependents", Type::Boolean),
    ("propagationPolicy", Type::Text),
    ("dryRun", Type::Texts),
    (UNREAD, Type::Boolean),
];

/// Members of `preconditions` in DeleteOptions: a parameter sets one unless it is empty.
pub(super) const PRECONDITIONS: [&str; 2] = ["uid", "resourceVersion"];

/// Reads a query as options with these fields.
///
/// # Errors
/// Go's text about the first parameter that is no number.
pub(super) fn from_query(query: &Query, fields: &[(&str, Type)]) -> Result<Map<String, Value>, String> {
    let mut options = Map::new();
    for (name, of) in fields {
        let Some(first) = query.first(name) else { continue };
        let value = match of {
            Type::Integer => parse_int(first)?.into(),
            Type::Boolean => query.is_true(name).into(),
            Type::Text => first.into(),
            Type::Texts => query.all(name).map(Value::from).collect(),
        };
        options.insert((*name).to_owned(), value);
    }
    Ok(options)
}

/// Reads a query as DeleteOptions.
///
/// # Errors
/// As [`from_query`].
pub(super) fn deletion_from_query(query: &Query) -> Result<Value, String> {
    let mut options = from_query(query, &DELETE)?;
    let set = PRECONDITIONS.iter().filter_map(|name| Some((*name, query.first(name).filter(|value| !value.is_empty())?)));
    let preconditions: Map<String, Value> = set.map(|(name, value)| (name.to_owned(), value.into())).collect();
    if !preconditions.is_empty() {
        options.insert("preconditions".to_owned(), preconditions.into());
    }
    Ok(options.into())
}
