//! The parts of a value that are replaced as a whole.

use serde_json::Value;

use crate::{
    path::{Path, PathElement},
    schema::{Schema, TypeRef},
};

/// Returns the lists and maps of a value that are atomic.
pub(super) fn atomics(schema: &Schema, of: TypeRef, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    find(schema, of, value, &mut Path::default(), &mut found);
    found
}

fn find(schema: &Schema, of: TypeRef, value: &Value, path: &mut Path, found: &mut Vec<String>) {
    let atom = schema.atom(of);
    match value {
        Value::Object(members) => {
            let Some(map) = &atom.map else { return };
            if map.is_atomic() {
                found.push(path.to_string());
            }
            for (name, member) in members {
                if let (true, of) = map.member(name.as_bytes()) {
                    path.0.push(PathElement::field(name));
                    find(schema, of, member, path, found);
                    path.0.pop();
                }
            }
        }
        Value::Array(items) => {
            let Some(list) = &atom.list else { return };
            if list.is_atomic() {
                found.push(path.to_string());
            }
            for (at, item) in (0..).zip(items) {
                path.0.push(PathElement::Index(at));
                find(schema, list.element_type, item, path, found);
                path.0.pop();
            }
        }
        _ => {}
    }
}
