//! Structural schemas: every value has a known type, and the junctors (`allOf`, `anyOf`, `oneOf`, `not`) only restrict it (spec api-surface §11.1).

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::tree::{any, at, child, entries, flag, has_entries, keyed, list, member, optional_text, text};
use go::regexp::{self, PATTERNS_BYTES_MAX, Program};
use model::invalid::FieldError;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// What a structural schema cannot hold at all, for the first such place; these are refused elsewhere with better words, so this is told alone.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    let why = |schema: &Value| {
        let named = [
            (!text(schema, "id").is_empty(), "id"),
            (!text(schema, "$schema").is_empty(), "schema"),
            (optional_text(schema, "$ref").is_some_and(|to| !to.is_empty()), "$ref"),
            (has_entries(schema, "patternProperties"), "patternProperties"),
            (has_entries(schema, "dependencies"), "dependencies"),
            (member(schema, "additionalItems").is_some(), "additionalItems"),
            (has_entries(schema, "definitions"), "definitions"),
        ];
        if let Some((_, name)) = named.iter().find(|(is_there, _)| *is_there) {
            return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
        }
        if schema.get(PRESERVE) == Some(&Value::Bool(false)) {
            return Some(format!("internal error: '{PRESERVE}' must be true or undefined"));
        }
        let items = !list(schema, "items").is_empty();
        items.then(|| "OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned())
    };
    let found = std::cell::RefCell::new(None);
    any(schema, &|inner| {
        found.replace(why(inner));
        found.borrow().is_some()
    });
    found.into_inner()
}

/// Whether a root schema is structural.
pub(crate) fn is_structural(schema: &Value) -> bool {
    unsupported(schema).is_none() && wrong_structure(schema, "", false).is_empty()
}

/// Whether the patterns of a root schema may be as large as they are.
pub(super) fn has_small_patterns(schema: &Value) -> bool {
    is_structural(schema) && wrong_structure(schema, "", true).is_empty()
}

/// Where a root schema is not structural, sorted by the text as kube-apiserver does. `are_bounded`: what its patterns take has a limit.
pub(super) fn wrong_structure(schema: &Value, path: &str, are_bounded: bool) -> Vec<FieldError> {
    let mut errors = Errors(Vec::new(), Patterns { are_bounded, left: PATTERNS_BYTES_MAX, known: HashMap::new() });
    errors.invariants(schema, Level::Root, path);
    errors.completeness(schema, Some(schema), path, path);
    errors.0.sort_by_cached_key(|error| format!("{}: {}", error.field, error.message));
    errors.0
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

struct Errors(Vec<FieldError>, Patterns);

/// What is left of the room for the patterns of a schema, and what was said of each text.
struct Patterns {
    are_bounded: bool,
    left: usize,
    known: HashMap<Box<str>, Option<String>>,
}

impl Patterns {
    /// Why objects could not be compared with a pattern: Go's error; ours, in the words of Go's limit, of what takes more than there is room for.
    fn wrong(&mut self, pattern: &str) -> Option<String> {
        if pattern.is_empty() {
            return None;
        }
        if !self.are_bounded {
            return regexp::wrong(pattern);
        }
        if let Some(known) = self.known.get(pattern) {
            return known.clone();
        }
        let why = Program::compile_within(pattern, &mut self.left).err();
        self.known.insert(pattern.into(), why.clone());
        why
    }
}

impl Errors {
    fn forbid(&mut self, path: &str, name: &str, why: &str) {
        self.0.push(FieldError::forbidden(child(path, name), why));
    }

    fn require(&mut self, path: &str, name: &str, why: &str) {
        self.0.push(FieldError::required(child(path, name), why));
    }

    fn refuse(&mut self, field: String, value: impl Into<Value>, why: &str) {
        self.0.push(FieldError::invalid(field, &value.into(), why));
    }

    /// What holds for each node outside of junctors.
    fn invariants(&mut self, s: &Value, level: Level, path: &str) {
        let kind = text(s, "type");
        match member(s, "items") {
            Some(items) => self.invariants(items, Level::Item, &child(path, "items")),
            None if kind == "array" => self.require(path, "items", "must be specified"),
            None => {}
        }
        for (name, property) in entries(s, "properties") {
            self.invariants(property, Level::Field, &keyed(path, "properties", name));
        }
        if let Some(additional) = member(s, "additionalProperties") {
            if level == Level::Root {
                self.forbid(path, "additionalProperties", "must not be used at the root");
            }
            if additional.is_object() {
                self.invariants(additional, Level::Field, &child(path, "additionalProperties"));
            }
        }
        for name in [PRESERVE, EMBEDDED].into_iter().filter(|name| flag(s, INT_OR_STRING) && flag(s, name)) {
            self.refuse(child(path, name), true, "must be false if x-kubernetes-int-or-string is true");
        }
        self.values(s, path, is_int_or_string(s), list(s, "allOf").first().is_some_and(is_int_or_string));
        self.types(s, level, path);
    }

    fn types(&mut self, s: &Value, level: Level, path: &str) {
        const OBJECT: &str = "must be object if x-kubernetes-embedded-resource is true";
        let (kind, embedded) = (text(s, "type"), flag(s, EMBEDDED));
        match (embedded, kind) {
            (true, "object") => {}
            (true, "") => self.require(path, "type", OBJECT),
            (true, other) => self.refuse(child(path, "type"), other, OBJECT),
            (false, "") if !flag(s, INT_OR_STRING) && !flag(s, PRESERVE) => {
                let place = match level {
                    Level::Root => "at the root",
                    Level::Item => "for specified array items",
                    Level::Field => "for specified object fields",
                };
                self.require(path, "type", &format!("must not be empty {place}"));
            }
            _ => {}
        }
        if embedded && member(s, "additionalProperties").is_some() {
            self.forbid(path, "additionalProperties", "must not be used if x-kubernetes-embedded-resource is set");
        }
        if level == Level::Root && !kind.is_empty() && kind != "object" {
            self.refuse(child(path, "type"), kind, "must be object at the root");
        }
        self.metadata(s, level, embedded, path);
        if embedded && !flag(s, PRESERVE) && !has_entries(s, "properties") {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.require(path, "properties", why);
        }
    }

    /// `kind`, `apiVersion` and `metadata` of a resource: the types are given, and a root's metadata only restricts its name.
    fn metadata(&mut self, s: &Value, level: Level, embedded: bool, path: &str) {
        let property = |name: &str| s.get("properties").and_then(|properties| properties.get(name));
        let is_resource = level == Level::Root || embedded;
        for (name, kind) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
            let Some(schema) = property(name).filter(|_| is_resource) else { continue };
            if text(schema, "type") != kind {
                let field = child(&keyed(path, "properties", name), "type");
                self.refuse(field, text(schema, "type"), &format!("must be {kind}"));
            }
        }
        if level == Level::Root && property("metadata").is_some_and(|metadata| !only_restricts_the_name(metadata)) {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.0.push(FieldError::forbidden(keyed(path, "properties", "metadata"), why));
        }
    }

    /// The pattern and the junctors of a node. `int_or_string` and `first` tell that `anyOf`, or that of the first `allOf`, is of the form that may name
    /// types.
    fn values(&mut self, s: &Value, path: &str, int_or_string: bool, first: bool) {
        for (i, inner) in list(s, "anyOf").iter().enumerate().filter(|_| !int_or_string) {
            self.nested(inner, &at(&child(path, "anyOf"), i), false);
        }
        for (i, inner) in list(s, "allOf").iter().enumerate() {
            self.nested(inner, &at(&child(path, "allOf"), i), first && i == 0);
        }
        for (i, inner) in list(s, "oneOf").iter().enumerate() {
            self.nested(inner, &at(&child(path, "oneOf"), i), false);
        }
        if let Some(inner) = member(s, "not") {
            self.nested(inner, &child(path, "not"), false);
        }
        let said = text(s, "pattern");
        if let Some(why) = self.1.wrong(said) {
            self.refuse(child(path, "pattern"), said, &format!("must be a valid regular expression, but isn't: {why}"));
        }
    }

    /// A schema inside of a junctor: value validations only.
    fn nested(&mut self, v: &Value, path: &str, int_or_string: bool) {
        self.values(v, path, int_or_string, false);
        if let Some(items) = member(v, "items") {
            self.nested(items, &child(path, "items"), false);
        }
        for (name, property) in entries(v, "properties") {
            self.nested(property, &keyed(path, "properties", name), false);
        }
        let said = |name: &str| member(v, name).is_some_and(|value| value != &Value::Bool(false));
        for (name, state) in [
            ("type", "empty"),
            ("additionalProperties", "undefined"),
            ("default", "undefined"),
            ("title", "empty"),
            ("description", "empty"),
            ("nullable", "false"),
            (PRESERVE, "false"),
            (EMBEDDED, "false"),
            (INT_OR_STRING, "false"),
            ("x-kubernetes-list-map-keys", "empty"),
            ("x-kubernetes-list-type", "undefined"),
            ("x-kubernetes-map-type", "undefined"),
            ("x-kubernetes-validations", "empty"),
        ] {
            if said(name) {
                self.forbid(path, name, &format!("must be {state} to be structural"));
            }
        }
        if v.get("properties").and_then(|properties| properties.get("metadata")).is_some() {
            self.0.push(FieldError::forbidden(keyed(path, "properties", "metadata"), "must not be specified in a nested context"));
        }
    }

    /// What the junctors of the root restrict is there outside of them. `s` is the node outside, if it is there; `v` the one that restricts it.
    fn completeness(&mut self, v: &Value, s: Option<&Value>, s_path: &str, v_path: &str) {
        if let Some(inner) = member(v, "not") {
            self.nested_completeness(inner, s, s_path, &child(v_path, "not"));
        }
        for name in ["allOf", "anyOf", "oneOf"] {
            for (i, inner) in list(v, name).iter().enumerate() {
                self.nested_completeness(inner, s, s_path, &at(&child(v_path, name), i));
            }
        }
    }

    fn nested_completeness(&mut self, v: &Value, s: Option<&Value>, s_path: &str, v_path: &str) {
        let Some(outside) = s else {
            self.0.push(FieldError::required(s_path, &format!("because it is defined in {v_path}")));
            return;
        };
        self.completeness(v, s, s_path, v_path);
        if let Some(items) = member(v, "items") {
            self.nested_completeness(items, member(outside, "items"), &child(s_path, "items"), &child(v_path, "items"));
        }
        for (name, property) in entries(v, "properties") {
            let there = outside.get("properties").and_then(|properties| properties.get(name));
            self.nested_completeness(property, there, &keyed(s_path, "properties", name), &keyed(v_path, "properties", name));
        }
    }
}

/// `anyOf` is `[{type: integer}, {type: string}]`.
fn is_int_or_string(s: &Value) -> bool {
    s.get("anyOf").is_some_and(|any_of| *any_of == json!([{"type": "integer"}, {"type": "string"}]))
}

fn only_restricts_the_name(metadata: &Value) -> bool {
    let names_only = |properties: &Map<String, Value>| properties.keys().all(|name| name == "name" || name == "generateName");
    metadata.as_object().is_none_or(|members| {
        members.iter().all(|(name, value)| match name.as_str() {
            "type" | "default" => true,
            "properties" => value.as_object().is_some_and(names_only),
            _ => false,
        })
    })
}
