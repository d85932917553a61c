//! What the schema of a definition makes of a custom resource that is written, and what is wrong with it by that (spec api-surface §11.3).

use std::borrow::Cow;

use serde_json::Value;
use time::OffsetDateTime;

use super::{
    body::Floats,
    embedded::{coerce_head, coerce_or_leave, wrong_head},
    failure::WriteError,
    part::Part,
    plugins::PluginSession,
    services::Session,
    tree, typed,
};
use catalogue::DefinedSchema;
use model::invalid::{FieldError, FieldErrorKind};
use rules::Validator;
use schema::{Schema, TooManyDefaults};

/// What a custom resource that is written is judged by.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    /// That of its definition, if it has one.
    pub(super) schema: Option<&'a Schema>,
    /// The rules in CEL that it has.
    pub(super) rules: Option<&'a Validator>,
    /// Where the client sent floats.
    pub(super) floats: Option<&'a Floats>,
    /// Gives a Service its addresses and ports.
    pub(super) services: Option<&'a Session<'a>>,
    /// No claim of its namespace may have the access of an administrator.
    pub(super) denies_admin: bool,
    /// Changes and judges it as kube-apiserver's admission plugins do.
    pub(super) plugins: Option<&'a PluginSession<'a>>,
    /// When the write began.
    pub(super) now: OffsetDateTime,
}

impl Default for Judge<'_> {
    fn default() -> Self {
        Self { schema: None, rules: None, floats: None, services: None, denies_admin: false, plugins: None, now: tree::now() }
    }
}

impl<'a> Judge<'a> {
    pub(super) fn by(compiled: Option<&'a CompiledSchema>) -> Self {
        let rules = compiled.and_then(|compiled| compiled.rules.as_ref());
        Self { schema: compiled.map(|compiled| &compiled.schema), rules, ..Self::default() }
    }

    /// Returns the object as it is judged: with the floats that the client sent, which are stored as integers.
    pub(super) fn as_sent<'v>(self, object: &'v Value) -> Cow<'v, Value> {
        match self.floats.filter(|floats| !floats.is_empty()) {
            None => Cow::Borrowed(object),
            Some(floats) => {
                let mut sent = object.clone();
                floats.put_back(&mut sent);
                Cow::Owned(sent)
            }
        }
    }
}

/// A schema and its rules.
#[derive(Debug)]
pub(super) struct CompiledSchema {
    pub(super) schema: Schema,
    /// None of a schema that has none.
    pub(super) rules: Option<Validator>,
}

/// Makes an object what kube-apiserver's decoder makes of it: what the schema does not know is gone, what it has defaults for is there. `unknown` gets the
/// paths of what is gone.
///
/// # Errors
/// What is wrong with the head of an object inside of it, or too many defaults.
pub(super) fn coerce(schema: &Schema, object: &mut Value, unknown: &mut typed::Unknown) -> Result<(), Unfit> {
    schema.prune(object, Some(unknown));
    schema.drop_nulls(object);
    let mut unknown_inside = typed::Unknown::new();
    schema
        .each_embedded_mut(object, &mut |embedded| coerce_head(embedded, &mut unknown_inside))
        .map_err(|error| Unfit::Wrong(format!("{}: {}", error.field, error.message)))?;
    unknown_inside.sort_unstable();
    unknown.extend(unknown_inside);
    Ok(schema.set_defaults(object)?)
}

/// Why an object is not taken as one of its kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// What is wrong with it.
    Wrong(String),
    /// 413.
    TooLarge(TooManyDefaults),
}

impl Unfit {
    /// The failure of the write; `refused` says what it is about.
    pub(super) fn told(self, refused: impl FnOnce(&str) -> WriteError) -> WriteError {
        match self {
            Self::Wrong(why) => refused(&why),
            Self::TooLarge(why) => why.into(),
        }
    }
}

impl From<typed::WrongType> for Unfit {
    fn from(typed::WrongType(why): typed::WrongType) -> Self {
        Self::Wrong(why)
    }
}

impl From<TooManyDefaults> for Unfit {
    fn from(why: TooManyDefaults) -> Self {
        Self::TooLarge(why)
    }
}

impl From<TooManyDefaults> for WriteError {
    fn from(why: TooManyDefaults) -> Self {
        Self::TooLarge(why.to_string())
    }
}

/// Makes what an apply has made of an object what it will be read as: what is missing in it and has a default is there, and objects inside of it have the
/// metadata that there is. Nothing is refused, and no null goes: that is judged later.
///
/// # Errors
/// Too many defaults.
pub(super) fn complete(schema: &Schema, object: &mut Value) -> Result<(), TooManyDefaults> {
    let coerced: Result<(), ()> = schema.each_embedded_mut(object, &mut |embedded| {
        coerce_or_leave(embedded);
        Ok(())
    });
    debug_assert!(coerced.is_ok(), "nothing ends it");
    schema.set_defaults(object)
}

/// Compiles a schema, whose defaults have the metadata that there is in objects inside of them.
///
/// # Errors
/// It is no schema.
pub(super) fn compile(defined: &DefinedSchema) -> Result<CompiledSchema, serde_json::Error> {
    let mut schema = Schema::compile(&defined.json)?;
    if defined.preserves {
        schema.preserve_all();
    }
    schema.each_embedded_in_defaults_mut(&mut coerce_or_leave);
    let rules = Validator::of(&schema);
    Ok(CompiledSchema { schema, rules })
}

/// What is wrong with an object by its schema: with the whole, or with the status if only that is written. `old` is what it replaces.
pub(super) fn wrong(schema: Option<&Schema>, part: Part, old: Option<&Value>, new: &Value) -> Vec<FieldError> {
    match (schema, part, old) {
        (None, ..) | (_, Part::Server, _) => Vec::new(),
        (Some(schema), Part::Status, Some(old)) => schema.wrong_status(new, old),
        (Some(schema), _, Some(old)) => schema.wrong_update(new, old),
        (Some(schema), _, None) => schema.wrong(new),
    }
}

/// What is wrong with objects inside of it and with lists whose items are different ones; the latter is not told if it was wrong before.
pub(super) fn wrong_inside(schema: Option<&Schema>, part: Part, old: Option<&Value>, new: &Value) -> Vec<FieldError> {
    let Some(schema) = schema.filter(|_| part != Part::Server) else { return Vec::new() };
    let mut errors = Vec::new();
    let judges_all = part != Part::Status;
    if judges_all {
        let judged: Result<(), ()> = schema.each_embedded(new, &mut |embedded| {
            errors.extend(wrong_head(embedded));
            Ok(())
        });
        debug_assert!(judged.is_ok(), "nothing ends it");
    }
    let lists = schema.wrong_lists(new);
    if !lists.is_empty() && old.is_none_or(|old| schema.wrong_lists(old).is_empty()) {
        errors.extend(lists);
    }
    errors
}

/// Errors after which an object is not what rules are written for.
const BLOCKING: [FieldErrorKind; 5] =
    [FieldErrorKind::NotSupported, FieldErrorKind::Required, FieldErrorKind::TooLong, FieldErrorKind::TooMany, FieldErrorKind::TypeInvalid];

/// Adds what rules in CEL find wrong with an object to the errors that it has already; what is wrong and was so before is a warning.
pub(super) fn add_broken_rules(
    judge: Judge<'_>,
    part: Part,
    (new, old): (&Value, Option<&Value>),
    errors: &mut Vec<FieldError>,
    warnings: &mut Vec<String>,
) {
    let Some((schema, rules)) = judge.schema.zip(judge.rules).filter(|_| part != Part::Server) else { return };
    if errors.iter().any(|error| BLOCKING.contains(&error.kind)) {
        const WHY: &str =
            "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        errors.push(FieldError::invalid("<nil>", &Value::Null, WHY));
        return;
    }
    let judged = rules.judge(schema, new, old);
    errors.extend(judged.errors);
    warnings.extend(judged.warnings);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use model::invalid::joined;

    fn schema() -> Schema {
        let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object", "properties": {
            "n": {"type": "integer", "default": 1}}}}});
        let tree = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer", "maximum": 5}, "kind": {"type": "string", "default": "a"}, "inner": embedded,
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}},
            "status": {"type": "object", "properties": {"phase": {"type": "string", "enum": ["A", "B"]}}}}});
        Schema::of_tree(&tree).expect("a schema")
    }

    fn defined(tree: &Value, preserves: bool) -> DefinedSchema {
        DefinedSchema { json: tree.to_string().into(), preserves }
    }

    fn coerced(object: &Value) -> Result<(Value, Vec<String>), String> {
        coerced_by(&schema(), object)
    }

    fn coerced_by(schema: &Schema, object: &Value) -> Result<(Value, Vec<String>), String> {
        let (mut object, mut unknown) = (object.clone(), Vec::new());
        coerce(schema, &mut object, &mut unknown).map_err(|unfit| match unfit {
            Unfit::Wrong(why) => why,
            Unfit::TooLarge(why) => why.to_string(),
        })?;
        Ok((object, unknown))
    }

    #[test]
    fn what_is_unknown_goes_and_what_has_a_default_comes() {
        let sent = json!({"kind": "K", "metadata": {"name": "x"}, "zz": 1, "spec": {"a": 1, "size": null, "inner": {
            "kind": "P", "metadata": {"name": "y", "odd": 1, "labels": {}, "creationTimestamp": null}, "more": 1, "spec": {}}}});
        let kept = json!({"kind": "K", "metadata": {"name": "x"}, "spec": {"kind": "a", "inner": {"kind": "P", "metadata": {"name": "y"}, "spec": {"n": 1}}}});
        let unknown = ["spec.a", "spec.inner.more", "zz", "spec.inner.metadata.odd"].map(str::to_owned).to_vec();
        assert_eq!(coerced(&sent), Ok((kept, unknown)));
    }

    /// Each was sent to a kube-apiserver.
    #[test]
    fn the_metadata_of_an_object_inside_is_as_go_prints_it() {
        let no_owner = json!({"ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]});
        for (sent, kept) in [
            (json!({"ownerReferences": [{"zz": 1}]}), no_owner.clone()),
            (json!({"ownerReferences": [null]}), no_owner),
            (json!({"managedFields": [{"manager": "", "operation": "", "time": null}]}), json!({"managedFields": [{}]})),
            (
                json!({"managedFields": [{"manager": "m", "subresource": "", "fieldsV1": {}}]}),
                json!({"managedFields": [{"manager": "m", "fieldsV1": {}}]}),
            ),
            (json!({"generation": 0, "deletionGracePeriodSeconds": 0}), json!({"deletionGracePeriodSeconds": 0})),
        ] {
            let (made, _) = coerced(&json!({"spec": {"inner": {"metadata": sent}}})).expect("metadata");
            assert_eq!(made.pointer("/spec/inner/metadata"), Some(&kept));
        }
    }

    /// As with a definition that v1beta1 has made.
    #[test]
    fn what_preserves_all_only_judges() {
        let tree = json!({"properties": {
            "spec": {"properties": {"a": {"type": "integer"}, "b": {"anyOf": [{"type": "string"}, {"properties": {"c": {"maximum": 1}}}]}}},
            "inner": {"type": "object", "x-kubernetes-embedded-resource": true}}});
        let schema = compile(&defined(&tree, true)).expect("a schema").schema;
        let sent = json!({"kind": "K", "metadata": {"name": "x"}, "zz": 1, "spec": {"a": 1, "d": {"e": null}}});
        assert_eq!(coerced_by(&schema, &sent), Ok((sent, Vec::new())));
        let inner = |metadata: Value| json!({"inner": {"apiVersion": "v1", "kind": "P", "metadata": metadata, "more": 1}});
        let sent = inner(json!({"name": "x", "odd": 1}));
        assert_eq!(coerced_by(&schema, &sent), Ok((inner(json!({"name": "x"})), vec!["inner.metadata.odd".to_owned()])));
        let told = |new: Value| joined(&wrong(Some(&schema), Part::Main, None, &new));
        assert_eq!(
            told(json!({"spec": {"a": "x"}})),
            r#"spec.a: Invalid value: "string": spec.a in body must be of type integer: "string""#
        );
        assert!(told(json!({"spec": {"b": {"c": 2}}})).contains("must validate at least one schema (anyOf)"));
    }

    /// Each was sent to a kube-apiserver.
    #[test]
    fn the_head_of_an_object_inside_must_be_one() {
        let inner = |inner: Value| json!({"spec": {"inner": inner}});
        for (sent, why) in [
            (json!({"kind": 1}), "spec.inner.kind: Invalid value: 1: must be a string"),
            (
                json!({"metadata": {"labels": 1}}),
                r#"spec.inner.metadata: Invalid value: {"labels":1}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string"#,
            ),
            (
                json!({"metadata": 1}),
                "spec.inner.metadata: Invalid value: 1: json: cannot unmarshal number into Go value of type v1.ObjectMeta",
            ),
        ] {
            assert_eq!(coerced(&inner(sent)), Err(why.to_owned()));
        }
        let told = |sent: Value| joined(&wrong_inside(Some(&schema()), Part::Main, None, &inner(sent)));
        assert_eq!(told(json!({})), "[spec.inner.apiVersion: Required value, spec.inner.kind: Required value]");
        assert_eq!(told(json!({"apiVersion": "v1", "kind": "P", "metadata": {"namespace": "n"}})), "[]");
        // As an apply may have made it.
        let nulls = told(json!({"apiVersion": null, "kind": null}));
        assert_eq!(
            nulls,
            "[spec.inner.apiVersion: Invalid value: null: must be a string, spec.inner.kind: Invalid value: null: must be a string]"
        );
        let wrong = told(json!({"apiVersion": "a/b/c", "kind": "-", "metadata": {"name": "a/b"}}));
        for part in [
            r#"spec.inner.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#,
            r#"spec.inner.kind: Invalid value: "-": may have mixed case, but should otherwise match: a DNS-1035 label"#,
            r#"spec.inner.metadata.name: Invalid value: "a/b": may not contain '/'"#,
        ] {
            assert!(wrong.contains(part), "{wrong}");
        }
    }

    /// A kube-apiserver reads the object of an apply so, which it has stored as it was.
    #[test]
    fn what_was_applied_is_shown_as_it_is_read() {
        let complete = |mut object: Value| {
            super::complete(&schema(), &mut object).expect("few defaults");
            object
        };
        let inner = |metadata: Value| json!({"spec": {"kind": null, "inner": {"metadata": metadata, "spec": {}}}});
        let made = json!({"spec": {"kind": "a", "inner": {"metadata": {"name": "x"}, "spec": {"n": 1}}}});
        assert_eq!(complete(inner(json!({"name": "x", "finalizers": [], "odd": 1}))), made);
        let odd = complete(inner(json!({"name": 1})));
        assert_eq!(odd.pointer("/spec/inner/metadata"), Some(&json!({"name": 1})), "this is judged");
        let wrong = joined(&wrong_inside(Some(&schema()), Part::Main, None, &odd));
        assert!(wrong.contains(r#"spec.inner.metadata: Invalid value: {"name":1}: json: cannot unmarshal number"#), "{wrong}");
    }

    #[test]
    fn defaults_have_the_metadata_that_there_is() {
        let tree = json!({"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true, "default": {"apiVersion": "v1", "kind": "P", "metadata": {"finalizers": [], "odd": 1}}}}});
        let mut object = json!({});
        compile(&defined(&tree, false)).expect("a schema").schema.set_defaults(&mut object).expect("few defaults");
        assert_eq!(object, json!({"a": {"apiVersion": "v1", "kind": "P", "metadata": {}}}));
    }

    #[test]
    fn each_part_is_judged_by_its_own() {
        let schema = schema();
        let object = |size: u32, phase: &str, set: &[&str]| json!({"spec": {"size": size, "set": set}, "status": {"phase": phase}});
        let old = object(9, "X", &["a", "a"]);
        let told = |part, old: Option<&Value>, new: &Value| {
            let errors = [wrong(Some(&schema), part, old, new), wrong_inside(Some(&schema), part, old, new)].concat();
            errors.iter().map(|error| error.field.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(told(Part::Main, None, &old), "spec.size status.phase spec.set[1]");
        assert_eq!(told(Part::Main, Some(&old), &object(9, "X", &["b", "b"])), "", "what was wrong before may be");
        assert_eq!(told(Part::Main, Some(&object(1, "A", &["a"])), &old), "spec.size status.phase spec.set[1]");
        assert_eq!(told(Part::Status, Some(&object(1, "A", &["a"])), &object(9, "X", &["a"])), "status.phase");
        assert_eq!(told(Part::Server, Some(&object(1, "A", &["a"])), &old), "");
        assert_eq!(wrong(None, Part::Main, None, &old), []);
    }
}
