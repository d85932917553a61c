//! Whether a value is of its type.

use serde_json::Value;

use super::{As, Duplicates, ValidationErrors, Walk, item};
use crate::{
    path::PathElement,
    schema::{FieldWalk, List, Map, Scalar, TypeRef},
    value::{go_syntax, go_type, go_value},
};

pub(super) fn validate(walk: Walk<'_>, value: &Value, duplicates: Duplicates) -> Result<(), ValidationErrors> {
    let mut errors = ValidationErrors::default();
    check(walk, value, duplicates, &mut errors);
    errors.into_result()
}

fn check(walk: Walk<'_>, value: &Value, duplicates: Duplicates, errors: &mut ValidationErrors) {
    match walk.resolve(value) {
        Err(wrong) => errors.extend(wrong),
        Ok(As::Scalar(scalar)) => errors.extend(check_scalar(scalar, Some(value), "")),
        Ok(As::List(list)) => match value {
            Value::Null => {}
            Value::Array(items) => check_items(walk, list, items, duplicates, errors),
            _ => errors.extend(ValidationErrors::one(format!("expected list, got {}", go_value(value)))),
        },
        Ok(As::Map(map)) => match value {
            Value::Null => {}
            Value::Object(members) => check_members(walk, map, members, duplicates, errors),
            _ => errors.extend(ValidationErrors::one(format!("expected map, got {}", go_value(value)))),
        },
    }
}

/// What is wrong with a scalar; null and nothing are right.
pub(super) fn check_scalar(scalar: Scalar, value: Option<&Value>, prefix: &str) -> ValidationErrors {
    let Some(value) = value.filter(|value| !value.is_null()) else { return ValidationErrors::default() };
    let wrong = match (scalar, value) {
        (Scalar::Numeric | Scalar::Untyped, Value::Number(_))
        | (Scalar::String | Scalar::Untyped, Value::String(_))
        | (Scalar::Boolean | Scalar::Untyped, Value::Bool(_)) => return ValidationErrors::default(),
        (Scalar::Numeric, _) => format!("{prefix}expected numeric (int or float), got {}", go_type(value)),
        (Scalar::String, _) => format!("{prefix}expected string, got {}", go_syntax(value)),
        (Scalar::Boolean, _) => format!("{prefix}expected boolean, got {}", go_value(value)),
        (Scalar::Untyped, _) => format!("{prefix}expected any scalar, got {}", go_value(value)),
    };
    ValidationErrors::one(wrong)
}

fn check_items(walk: Walk<'_>, list: &List, items: &[Value], duplicates: Duplicates, errors: &mut ValidationErrors) {
    let mut elements = Vec::new();
    let mut wrong = None;
    if list.is_associative() {
        for (place, item) in items.iter().enumerate() {
            let told = match duplicates {
                Duplicates::Allowed => item::check(list, item),
                Duplicates::Refused => item::element(list, item).map(|element| elements.push(element)),
            };
            if let Err(why) = told {
                wrong = Some((place, why));
                break;
            }
        }
    }
    let again = repeated(&elements);
    let told = wrong.as_ref().map_or(items.len(), |(place, _)| *place);
    for (place, item) in items[..told].iter().enumerate() {
        if again.binary_search(&place).is_ok() {
            errors.extend(ValidationErrors::one(format!("duplicate entries for key {}", elements[place])));
        }
        let mut below = ValidationErrors::default();
        check(walk.below(list.element_type), item, duplicates, &mut below);
        errors.extend_below(below, || match item::element(list, item) {
            Ok(element) => element,
            Err(_) => PathElement::Index(i64::try_from(place).unwrap_or(i64::MAX)),
        });
    }
    if let Some((place, why)) = wrong {
        errors.extend(ValidationErrors::one(format!("element {place}: {why}")));
    }
}

/// The places of elements that another one before them is equal to.
fn repeated(elements: &[PathElement]) -> Vec<usize> {
    let mut sorted: Vec<(&PathElement, usize)> = elements.iter().zip(0..).collect();
    sorted.sort();
    let mut again: Vec<usize> = sorted.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1).collect();
    again.sort_unstable();
    again
}

fn check_members(
    walk: Walk<'_>,
    map: &Map,
    members: &serde_json::Map<String, Value>,
    duplicates: Duplicates,
    errors: &mut ValidationErrors,
) {
    let fields = map.walk();
    for (name, member) in members {
        let (field, of) = fields.find(name);
        let element = || FieldWalk::element(field, name);
        if field.is_none() && of == TypeRef::NONE {
            errors.extend_below(ValidationErrors::one("field not declared in schema".to_owned()), element);
            return;
        }
        let mut below = ValidationErrors::default();
        check(walk.below(of), member, duplicates, &mut below);
        errors.extend_below(below, element);
    }
}
