//! The rules for OpenAPI schemas in definitions, node by node (spec api-surface §11.1). Rules in CEL are compiled and their costs estimated, where nothing else
//! is wrong with their schema.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    defaults::has_unpruned,
    json_path,
    rules::RuleChecks,
    shown, structural,
    tree::{any, at, child, entries, flag, has_entries, keyed, list, member, optional_text, text},
};
use ::rules::Scope;
use model::invalid::{FieldError, TOLD_BYTES_MAX};
use schema::Schema;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const KEYS: &str = "x-kubernetes-list-map-keys";
const RULES: &str = "x-kubernetes-validations";

/// Which rules hold: an old definition that broke one may go on breaking it.
#[derive(Clone, Copy)]
pub(super) struct Strictness {
    pub(super) known_types: bool,
    pub(super) structural: bool,
    pub(super) atomic_sets: bool,
    pub(super) map_keys: bool,
    pub(super) pruned_defaults: bool,
    /// Ours: kube-apiserver has no such limit.
    pub(super) small_patterns: bool,
}

impl Strictness {
    /// For a new definition.
    pub(super) const FULL: Self =
        Self { known_types: true, structural: true, atomic_sets: true, map_keys: true, pruned_defaults: true, small_patterns: true };

    /// For the successor of a definition with these root schemas.
    pub(super) fn after(roots: &[&Value]) -> Self {
        let none = |so: &dyn Fn(&Value) -> bool| !roots.iter().any(|root| any(root, so));
        Self {
            known_types: none(&|s| !text(s, "type").is_empty() && !TYPES.contains(&text(s, "type"))),
            structural: roots.iter().copied().all(structural::is_structural),
            atomic_sets: none(&|s| wrong_set_items(s, "").is_some()),
            map_keys: none(&|s| !wrong_keys_and_sets(s, "").is_empty()),
            pruned_defaults: !roots.iter().any(|root| structural::is_structural(root) && has_unpruned(root)),
            small_patterns: roots.iter().copied().all(structural::has_small_patterns),
        }
    }
}

/// What is wrong inside of a root schema. `compiled`: the same schema, when its rules can be compiled; `is_unchanged`: it was accepted before, so a rule may
/// cost what it cost then.
pub(super) fn wrong_schema(
    schema: &Value,
    path: &str,
    strict: Strictness,
    compiled: Option<&Schema>,
    is_unchanged: bool,
) -> Vec<FieldError> {
    let rules = RuleChecks::new(is_unchanged);
    let mut check = Check { strict, errors: Vec::new(), keys_bytes: 0, rules };
    let scope = compiled.map(Scope::root);
    check.node(schema, path, Position { root: true, in_metadata: false, no_defaults: None, uncorrelated: None }, scope.as_ref());
    check.errors.extend(check.rules.finish(path));
    check.errors
}

/// Where a node stands.
#[derive(Clone)]
struct Position {
    root: bool,
    /// In `metadata`, `kind` or `apiVersion` of a resource.
    in_metadata: bool,
    /// Why no default may be set.
    no_defaults: Option<String>,
    /// The innermost schema around it whose values cannot be correlated with what they replace.
    uncorrelated: Option<String>,
}

struct Check {
    strict: Strictness,
    errors: Vec<FieldError>,
    rules: RuleChecks,
    /// Bytes told of keys of lists: each of those errors shows all keys.
    keys_bytes: usize,
}

impl Check {
    fn forbid(&mut self, path: &str, name: &str, why: &str) {
        self.errors.push(FieldError::forbidden(child(path, name), why));
    }

    /// `scope`: where rules stand; none inside of a junctor, whose rules are not evaluated.
    fn node(&mut self, s: &Value, path: &str, position: Position, scope: Option<&Scope<'_>>) {
        let before = self.errors.len();
        self.allowed(s, path, &position);
        if flag(s, "uniqueItems") {
            self.forbid(path, "uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
        }
        self.below(s, path, &position, scope);
        if s.get(PRESERVE) == Some(&Value::Bool(false)) {
            self.errors.push(FieldError::invalid(child(path, PRESERVE), &Value::Bool(false), "must be true or undefined"));
        }
        self.topology(s, path);
        self.map_list(s, path);
        if self.strict.map_keys {
            self.errors.extend(wrong_keys_and_sets(s, path));
        }
        let rules = list(s, RULES);
        let follows = rules.iter().any(|rule| !text(rule, "fieldPath").is_empty()) && structural::unsupported(s).is_none();
        for (i, rule) in rules.iter().enumerate() {
            self.rule(rule, s, follows, &at(&child(path, RULES), i));
        }
        // What is wrong with a schema says more than what rules cannot be made of it.
        if self.errors.len() == before
            && let Some(scope) = scope
        {
            self.rules.check(rules, scope, &child(path, RULES), position.uncorrelated.as_deref());
        }
    }

    /// Members that definitions may not use.
    fn allowed(&mut self, s: &Value, path: &str, position: &Position) {
        let kind = text(s, "type");
        if self.strict.known_types && !kind.is_empty() && !TYPES.contains(&kind) {
            self.errors.push(FieldError::not_supported(child(path, "type"), &Value::from(kind), &TYPES));
        }
        if let (Some(_), Some(why)) = (member(s, "default"), &position.no_defaults) {
            self.forbid(path, "default", &format!("must not be set {why}"));
        }
        for (is_there, name) in [
            (!text(s, "id").is_empty(), "id"),
            (member(s, "additionalItems").is_some(), "additionalItems"),
            (has_entries(s, "patternProperties"), "patternProperties"),
            (has_entries(s, "definitions"), "definitions"),
            (member(s, "dependencies").is_some(), "dependencies"),
            (member(s, "$ref").is_some(), "$ref"),
        ] {
            if is_there {
                self.forbid(path, name, &format!("{name} is not supported"));
            }
        }
        if kind == "null" {
            self.forbid(path, "type", "type cannot be set to null, use nullable as an alternative");
        }
        if !list(s, "items").is_empty() {
            self.forbid(path, "items", "items must be a schema object and not an array");
        }
        if position.in_metadata && flag(s, "x-kubernetes-embedded-resource") {
            self.forbid(path, "x-kubernetes-embedded-resource", "must not be used inside of resource meta");
        }
    }

    fn below(&mut self, s: &Value, path: &str, position: &Position, scope: Option<&Scope<'_>>) {
        let inner = Position { root: false, ..position.clone() };
        if let Some(additional) = member(s, "additionalProperties") {
            if has_entries(s, "properties") && additional != &Value::Bool(true) {
                self.forbid(path, "additionalProperties", "additionalProperties and properties are mutual exclusive");
            }
            if additional.is_object() {
                let why = position.in_metadata.then(|| "inside additionalProperties applying to object metadata".to_owned());
                let inner = Position { no_defaults: why.or(inner.no_defaults.clone()), ..inner.clone() };
                self.node(additional, &child(path, "additionalProperties"), inner, scope.and_then(Scope::additional).as_ref());
            }
        }
        for (name, property) in entries(s, "properties") {
            let is_resource = position.root || flag(s, "x-kubernetes-embedded-resource");
            let mut inner = inner.clone();
            if optional_text(s, MAP_TYPE).is_some_and(|is| !["atomic", "granular"].contains(&is)) {
                inner.uncorrelated = Some(path.to_owned());
            }
            if is_resource && ["metadata", "kind", "apiVersion"].contains(&name) {
                inner.in_metadata = true;
                if position.root {
                    inner.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            let scope = scope.and_then(|scope| scope.property(name));
            self.node(property, &keyed(path, "properties", name), inner, scope.as_ref());
        }
        if let Some(not) = member(s, "not") {
            self.node(not, &child(path, "not"), inner.clone(), None);
        }
        for name in ["allOf", "oneOf", "anyOf"] {
            for (i, junct) in list(s, name).iter().enumerate() {
                self.node(junct, &at(&child(path, name), i), inner.clone(), None);
            }
        }
        for (name, definition) in entries(s, "definitions") {
            self.node(definition, &keyed(path, "definitions", name), inner.clone(), None);
        }
        match member(s, "items") {
            Some(Value::Array(items)) => {
                for (i, item) in items.iter().enumerate() {
                    self.node(item, &at(&child(path, "items"), i), inner.clone(), None);
                }
            }
            Some(items) => {
                let is_map = optional_text(s, LIST_TYPE) == Some("map");
                let uncorrelated = if is_map { inner.uncorrelated.clone() } else { Some(path.to_owned()) };
                let inner = Position { uncorrelated, ..inner.clone() };
                self.node(items, &child(path, "items"), inner, scope.and_then(Scope::items).as_ref());
            }
            None => {}
        }
        for (name, dependency) in entries(s, "dependencies").filter(|(_, dependency)| dependency.is_object()) {
            self.node(dependency, &keyed(path, "dependencies", name), inner.clone(), None);
        }
    }

    /// List and map types against the node's type.
    fn topology(&mut self, s: &Value, path: &str) {
        let (list_type, map_type) = (optional_text(s, LIST_TYPE), optional_text(s, MAP_TYPE));
        if map_type.is_some() {
            self.typed(s, "object", MAP_TYPE, path);
        }
        if let Some(odd) = map_type.filter(|is| !["atomic", "granular"].contains(is)) {
            self.errors.push(FieldError::not_supported(child(path, MAP_TYPE), &Value::from(odd), &["atomic", "granular"]));
        }
        if list_type.is_some() && text(s, "type") != "array" {
            self.typed(s, "array", LIST_TYPE, path);
        } else if self.strict.atomic_sets {
            self.errors.extend(wrong_set_items(s, path));
        }
        if let Some(odd) = list_type.filter(|is| !["atomic", "set", "map"].contains(is)) {
            self.errors.push(FieldError::not_supported(child(path, LIST_TYPE), &Value::from(odd), &["atomic", "set", "map"]));
        }
    }

    fn typed(&mut self, s: &Value, must: &str, because: &str, path: &str) {
        let why = format!("must be {must} if {because} is specified");
        match text(s, "type") {
            kind if kind == must => {}
            "" => self.errors.push(FieldError::required(child(path, "type"), &why)),
            kind => self.errors.push(FieldError::invalid(child(path, "type"), &Value::from(kind), &why)),
        }
    }

    /// A list of type `map`, and its keys.
    fn map_list(&mut self, s: &Value, path: &str) {
        const KEYED: &str = "must be map if x-kubernetes-list-map-keys is non-empty";
        let (list_type, keys) = (optional_text(s, LIST_TYPE), list(s, KEYS));
        match list_type {
            None if !keys.is_empty() => self.errors.push(FieldError::required(child(path, LIST_TYPE), KEYED)),
            Some(kind) if !keys.is_empty() && kind != "map" => {
                self.errors.push(FieldError::invalid(child(path, LIST_TYPE), &Value::from(kind), KEYED));
            }
            _ => {}
        }
        if list_type != Some("map") {
            return;
        }
        if keys.is_empty() {
            self.errors.push(FieldError::required(child(path, KEYS), "must not be empty if x-kubernetes-list-type is map"));
        }
        let items_path = child(path, "items");
        match member(s, "items") {
            None => self.errors.push(FieldError::required(items_path, "must have a schema if x-kubernetes-list-type is map")),
            Some(items) if items.is_array() => {
                let why = "must only have a single schema if x-kubernetes-list-type is map";
                self.errors.push(shown::invalid_shown(items_path, &shown::items(items), why));
            }
            Some(items) if text(items, "type") == "object" => self.keys(items, keys, path),
            Some(items) => {
                let why = "must be object if parent array's x-kubernetes-list-type is map";
                self.errors.push(FieldError::invalid(child(&items_path, "type"), &Value::from(text(items, "type")), why));
            }
        }
    }

    fn keys(&mut self, items: &Value, keys: &[Value], path: &str) {
        let all = shown::json(&Value::from(keys));
        let mut before = HashSet::new();
        for key in keys {
            let name = key.as_str().unwrap_or_default();
            match items.get("properties").and_then(|properties| properties.get(name)) {
                Some(property) if ["array", "object"].contains(&text(property, "type")) => {
                    let field = format!("{}.type", keyed(&child(path, "items"), "properties", name));
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.errors.push(FieldError::invalid(field, &Value::from(text(items, "type")), why));
                }
                Some(_) => {}
                None => self.wrong_keys(path, &all, "entries must all be names of item properties"),
            }
            if !before.insert(key) {
                self.wrong_keys(path, &all, "must not contain duplicate entries");
            }
        }
    }

    fn wrong_keys(&mut self, path: &str, all: &str, why: &str) {
        if self.keys_bytes <= TOLD_BYTES_MAX {
            let error = shown::invalid_shown(child(path, KEYS), all, why);
            self.keys_bytes += error.bytes();
            self.errors.push(error);
        }
    }

    /// The shape of one CEL rule. `follows`: the schema is one in which a path can be followed.
    fn rule(&mut self, rule: &Value, s: &Value, follows: bool, path: &str) {
        let broken = |text: &str| text.contains(['\n', '\r']);
        let invalid = |name, why| FieldError::invalid(child(path, name), &Value::from(text(rule, name)), why);
        let (said, message, field) = (text(rule, "rule").trim(), text(rule, "message"), text(rule, "fieldPath"));
        if said.is_empty() {
            self.errors.push(FieldError::required(child(path, "rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            self.errors.push(invalid("message", "must be non-empty if specified"));
        } else if broken(message.trim()) {
            self.errors.push(invalid("message", "must not contain line breaks"));
        } else if broken(said) && message.trim().is_empty() {
            self.errors.push(FieldError::required(child(path, "message"), "message must be specified if rule contains line breaks"));
        }
        let expression = text(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            self.errors.push(FieldError::required(child(path, "messageExpression"), why));
        }
        if let Some(odd) = optional_text(rule, "reason").filter(|reason| !REASONS.contains(reason)) {
            self.errors.push(FieldError::not_supported(child(path, "reason"), &Value::from(odd), &REASONS));
        }
        if !field.is_empty() && field.trim().is_empty() {
            self.errors.push(invalid("fieldPath", "must be non-empty if specified"));
        }
        if broken(field) {
            self.errors.push(invalid("fieldPath", "must not contain line breaks"));
        }
        if !field.is_empty() && follows && json_path::follow(field, s, true).is_err() {
            self.errors.push(invalid("fieldPath", "must be a valid path"));
        }
    }
}

/// The items of a set are compared whole: they may not be lists or maps that merge.
fn wrong_set_items(s: &Value, path: &str) -> Option<FieldError> {
    let items = member(s, "items").filter(|items| items.is_object() && optional_text(s, LIST_TYPE) == Some("set"))?;
    let (kind, atomic) = (text(items, "type"), |name| optional_text(items, name) == Some("atomic"));
    let name = match kind {
        "array" if optional_text(items, LIST_TYPE).is_some() && !atomic(LIST_TYPE) => LIST_TYPE,
        "object" if !atomic(MAP_TYPE) => MAP_TYPE,
        _ => return None,
    };
    // kube-apiserver shows the list type in both cases.
    let shown = shown::json(items.get(LIST_TYPE).unwrap_or(&Value::Null));
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    Some(shown::invalid_shown(child(&child(path, "items"), name), &shown, why))
}

/// Keys are always there, and neither keys nor items are null.
fn wrong_keys_and_sets(s: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list_type = optional_text(s, LIST_TYPE).filter(|is| ["set", "map"].contains(is));
    let (Some(list_type), Some(items)) = (list_type, member(s, "items").filter(|items| items.is_object())) else { return errors };
    let items_path = child(path, "items");
    if flag(items, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(child(&items_path, "nullable"), &why));
    }
    let keys = if list_type == "map" { list(s, KEYS) } else { &[] };
    let required: HashSet<&Value> = if keys.is_empty() { HashSet::new() } else { list(items, "required").iter().collect() };
    for key in keys {
        let name = key.as_str().unwrap_or_default();
        let Some(property) = items.get("properties").and_then(|properties| properties.get(name)) else { continue };
        let path = keyed(&items_path, "properties", name);
        if !required.contains(key) && member(property, "default").is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(child(&path, "default"), why));
        }
        if flag(property, "nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(child(&path, "nullable"), why));
        }
    }
    errors
}
