//! The function of JSON patches.

use super::{
    args::{Rows, text},
    costs,
};
use crate::{functions::Function, types::Type, value::Value};

pub(super) fn functions() -> Rows {
    vec![
        Function::new("jsonpatch.escapeKey")
            .global("string_jsonpatch_escapeKey_string", [Type::String], Type::String, |_, args| Ok(Value::string(escaped(text(args, 0)?))))
            .costs(costs::followed, costs::same_size_estimate),
    ]
}

/// A member's name as a part of a path.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
