//! Schemas as structured-merge-diff writes them down.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use serde_json::Value;
use watchcache_merge::{
    ElementRelationship, Scalar, Schema,
    definition::{Atom, List, Map, StructField, TypeDef, TypeRef},
};

thread_local! {
    /// Two values are of one type only if they have the same schema.
    static SCHEMAS: RefCell<HashMap<String, Arc<Schema>>> = RefCell::default();
}

/// The schema of this text.
pub(crate) fn schema(written: &Value) -> Arc<Schema> {
    let make = || Arc::new(Schema::new(types(written)));
    SCHEMAS.with_borrow_mut(|schemas| Arc::clone(schemas.entry(written.to_string()).or_insert_with(make)))
}

/// The types of a schema.
pub(crate) fn types(written: &Value) -> Vec<TypeDef> {
    let types = written["types"].as_array().into_iter().flatten();
    types.map(|of| TypeDef { name: text(&of["name"]), atom: atom(of) }).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn relationship(value: &Value) -> Option<ElementRelationship> {
    match value.as_str()? {
        "associative" => Some(ElementRelationship::Associative),
        "atomic" => Some(ElementRelationship::Atomic),
        "separable" => Some(ElementRelationship::Separable),
        other => panic!("no relationship {other}"),
    }
}

fn atom(written: &Value) -> Atom {
    Atom {
        scalar: written.get("scalar").and_then(Value::as_str).map(|scalar| match scalar {
            "numeric" | "number" => Scalar::Numeric,
            "string" => Scalar::String,
            "boolean" => Scalar::Boolean,
            "untyped" => Scalar::Untyped,
            other => panic!("no scalar {other}"),
        }),
        list: written.get("list").map(|list| {
            Box::new(List {
                element_type: reference(&list["elementType"]),
                relationship: relationship(&list["elementRelationship"]),
                keys: list["keys"].as_array().into_iter().flatten().map(text).collect(),
            })
        }),
        map: written.get("map").map(|map| {
            let fields = map["fields"].as_array().into_iter().flatten();
            Box::new(Map {
                fields: fields
                    .map(|field| StructField {
                        name: text(&field["name"]),
                        of: reference(&field["type"]),
                        default: field.get("default").cloned(),
                    })
                    .collect(),
                element_type: reference(&map["elementType"]),
                relationship: relationship(&map["elementRelationship"]),
            })
        }),
    }
}

fn reference(written: &Value) -> TypeRef {
    TypeRef {
        named: written.get("namedType").and_then(Value::as_str).map(str::to_owned),
        inlined: atom(written),
        relationship: relationship(&written["elementRelationship"]),
    }
}
