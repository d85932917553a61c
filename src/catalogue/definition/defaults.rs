//! Whether the defaults of a schema fit it: each is pruned and valid, with what is inside of it (apiextensions' `defaulting.ValidateDefaults`).

use serde_json::{Map, Value};

use super::tree::{any, child, entries, flag, keyed, list, member};
use ::rules::{DEFAULTS_COST_MAX, Validator};
use model::invalid::{FieldError, TOLD_BYTES_MAX, joined};
use schema::{Embedded, EmbeddedMut, Part, Schema};

/// Judges the heads (`apiVersion`, `kind` and `metadata`) of objects inside of defaults.
pub trait Heads {
    /// Makes a head what its types make of it.
    ///
    /// # Errors
    /// It is none.
    fn coerce(&self, embedded: EmbeddedMut<'_>) -> Result<(), FieldError>;
    /// What is wrong with a head.
    fn wrong(&self, embedded: Embedded<'_>) -> Vec<FieldError>;
}

const HEAD: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What is wrong with the defaults below a root schema that is structural.
pub(super) fn wrong_defaults(root: &Value, path: &str, must_be_pruned: bool, heads: &dyn Heads) -> Vec<FieldError> {
    let Ok(schema) = Schema::of_default(root) else { return Vec::new() };
    let mut check = Check { heads, must_be_pruned, told_bytes: 0, errors: Vec::new(), rules_budget: DEFAULTS_COST_MAX };
    let part = schema.part();
    check.node(root, part, path, &Place { resource: part, is_root: true, steps: Vec::new(), in_head: false });
    check.errors
}

/// Whether a default below a root schema has something that its schema does not know.
pub(super) fn has_unpruned(root: &Value) -> bool {
    Schema::of_default(root).is_ok_and(|schema| schema.has_unpruned_default())
}

/// Where a schema is.
#[derive(Clone)]
struct Place<'s> {
    /// The schema of the object that it is in: of the whole, or of one inside of it.
    resource: Part<'s>,
    /// It is that schema itself.
    is_root: bool,
    /// The way from there: a name, or an item.
    steps: Vec<Option<&'s str>>,
    /// It is in the head of that object.
    in_head: bool,
}

impl<'s> Place<'s> {
    fn below(&self, step: Option<&'s str>, in_head: bool) -> Self {
        let mut steps = self.steps.clone();
        steps.push(step);
        Self { resource: self.resource, is_root: false, steps, in_head }
    }

    /// An object with nothing in it but a value at this place, and what each object must have.
    fn object_around(&self, value: &Value) -> Value {
        let around = |value: Value, step: &Option<&str>| match step {
            Some(name) => Value::Object(Map::from_iter([((*name).to_owned(), value)])),
            None => Value::Array(vec![value]),
        };
        let mut object = self.steps.iter().rev().fold(value.clone(), around);
        if let Value::Object(members) = &mut object {
            members.entry("kind").or_insert_with(|| "Validation".into());
            members.entry("apiVersion").or_insert_with(|| "validation/v1".into());
        }
        object
    }
}

struct Check<'h> {
    heads: &'h dyn Heads,
    must_be_pruned: bool,
    told_bytes: usize,
    errors: Vec<FieldError>,
    /// What rules may still cost.
    rules_budget: u64,
}

impl Check<'_> {
    fn tell(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        for error in errors {
            if self.told_bytes <= TOLD_BYTES_MAX {
                self.told_bytes += error.bytes();
                self.errors.push(error);
            }
        }
    }

    fn node<'s>(&mut self, node: &'s Value, part: Part<'s>, path: &str, place: &Place<'s>) {
        let of_its_own = Place { resource: part, is_root: true, steps: Vec::new(), in_head: false };
        let is_resource = flag(node, "x-kubernetes-embedded-resource") || place.is_root;
        let is_whole = place.is_root;
        let place = if flag(node, "x-kubernetes-embedded-resource") { &of_its_own } else { place };
        if let Some(default) = member(node, "default") {
            let mut errors =
                if place.in_head { self.in_head(part, default, path, place) } else { self.outside(part, default, path, place.is_root) };
            if errors.is_empty() && has_rules(node) {
                errors = self.broken_rules(node, default, path, is_whole);
            }
            self.tell(errors);
        }
        if let (Some(items), Some(part)) = (member(node, "items"), part.items()) {
            self.node(items, part, &child(path, "items"), &place.below(None, place.in_head));
        }
        for (name, property) in entries(node, "properties") {
            let in_head = place.in_head || is_resource && HEAD.contains(&name);
            let Some(part) = part.property(name) else { continue };
            self.node(property, part, &keyed(path, "properties", name), &place.below(Some(name), in_head));
        }
    }

    /// What the rules in CEL of a schema find wrong with its default.
    fn broken_rules(&mut self, node: &Value, default: &Value, path: &str, is_whole: bool) -> Vec<FieldError> {
        let Ok(schema) = Schema::of_tree(node) else { return Vec::new() };
        Validator::judge_default(&schema, is_whole, default, &child(path, "default"), &mut self.rules_budget)
    }

    fn in_head(&self, part: Part<'_>, default: &Value, path: &str, place: &Place<'_>) -> Vec<FieldError> {
        let field = child(path, "default");
        let refused = |why: &str| vec![FieldError::invalid(field.clone(), default, &format!("must result in valid metadata: {why}"))];
        let mut object = place.object_around(default);
        let schema = place.resource.as_resource();
        if let Err(error) = schema.each_embedded_mut(&mut object, &mut |embedded| self.heads.coerce(embedded)) {
            return refused(&format!("{}: {}", error.field, error.message));
        }
        let wrong = self.wrong_heads(schema, &object);
        if wrong.is_empty() { part.wrong_at(&field, default) } else { refused(&joined(&wrong)) }
    }

    fn outside(&self, part: Part<'_>, default: &Value, path: &str, is_root: bool) -> Vec<FieldError> {
        let field = child(path, "default");
        let mut errors = Vec::new();
        let schema = if is_root { part.as_resource() } else { part };
        let mut coerced = default.clone();
        let outcome = schema.each_embedded_mut(&mut coerced, &mut |embedded| self.heads.coerce(embedded));
        if self.must_be_pruned && !schema.knows_all_of(default) {
            errors.push(FieldError::invalid(field.clone(), &coerced, "must not have unknown fields"));
        }
        let below = |error: FieldError| FieldError { field: below(&field, &error.field), ..error };
        if let Err(error) = outcome {
            errors.push(below(error));
            return errors;
        }
        let wrong = self.wrong_heads(schema, &coerced);
        if wrong.is_empty() {
            errors.extend(schema.wrong_at(&field, &coerced));
        } else {
            errors.extend(wrong.into_iter().map(below));
        }
        errors
    }

    fn wrong_heads(&self, schema: Part<'_>, object: &Value) -> Vec<FieldError> {
        let mut wrong = Vec::new();
        let judged: Result<(), ()> = schema.each_embedded(object, &mut |embedded| {
            wrong.extend(self.heads.wrong(embedded));
            Ok(())
        });
        debug_assert!(judged.is_ok(), "nothing ends it");
        wrong
    }
}

fn has_rules(node: &Value) -> bool {
    any(node, &|inner| !list(inner, "x-kubernetes-validations").is_empty())
}

/// A path below another: an item follows without a dot.
fn below(path: &str, more: &str) -> String {
    if more.starts_with('[') { format!("{path}{more}") } else { child(path, more) }
}
