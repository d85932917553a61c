//! The mutations of a policy: what their expressions make of an object, before it is merged or patched (`policy/mutating` of apiserver).

use cel::{Env, Object, Type, Value as CelValue};
use serde_json::{Map, Value};

use super::{Expression, Inputs, Policy, evaluate::Run};
use crate::tree;

/// One of `mutations`.
#[derive(Debug)]
pub(super) enum Mutation {
    /// What the object should have is merged into it.
    Apply(Expression),
    /// A JSON patch.
    Patch(Expression),
}

/// What a mutation wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object should have this.
    Apply(Value),
    /// These operations of a JSON patch.
    Patch(Value),
}

impl Mutation {
    pub(super) fn read(mutation: &Value, env: &Env) -> Self {
        let compile = |member: &str, kind: Type| Expression::compile_exactly(env, tree::text(mutation, &[member, "expression"]), &[kind]);
        match tree::text(mutation, &["patchType"]) {
            "JSONPatch" => Self::Patch(compile("jsonPatch", Type::list(Type::object("JSONPatch")))),
            _ => Self::Apply(compile("applyConfiguration", Type::object("Object"))),
        }
    }
}

impl Policy {
    /// Returns how many mutations it has.
    #[must_use]
    pub fn mutations(&self) -> usize {
        self.mutations.len()
    }

    /// Returns whether its conditions hold.
    ///
    /// # Errors
    /// One fails, and the policy does not ignore that.
    pub fn is_about(&self, inputs: &Inputs<'_>) -> Result<bool, String> {
        Run::new(self, inputs).conditions()
    }

    /// Evaluates one of its mutations.
    ///
    /// # Errors
    /// The expression fails, or makes what no object can be.
    pub fn change(&self, at: usize, inputs: &Inputs<'_>) -> Result<Change, String> {
        let Some(mutation) = self.mutations.get(at) else { return Err("no such mutation".to_owned()) };
        let (Mutation::Apply(expression) | Mutation::Patch(expression)) = mutation;
        if let Err(why) = &expression.program {
            return Err(why.clone());
        }
        match (mutation, Run::new(self, inputs).whole(expression)?) {
            (Mutation::Apply(_), CelValue::Object(object)) => Ok(Change::Apply(object.to_json()?)),
            (Mutation::Patch(_), CelValue::List(list)) => {
                let operation = |value: cel::Outcome<'_>| match value.map_err(|error| error.to_string())? {
                    CelValue::Object(object) if object.is_patch() => operation(&object),
                    other => Err(format!(
                        "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of {}",
                        other.type_name()
                    )),
                };
                list.iter().map(operation).collect::<Result<_, _>>().map(|operations| Change::Patch(Value::Array(operations)))
            }
            (Mutation::Apply(_), other) => {
                Err(format!("unsupported return type from ApplyConfiguration expression: {}", other.type_name()))
            }
            (Mutation::Patch(_), _) => Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned()),
        }
    }
}

/// An operation of a patch as JSON.
fn operation(patch: &Object<'_>) -> Result<Value, String> {
    let text = |name: &str| match patch.fields().get(name) {
        Some(CelValue::String(text)) => text.to_string(),
        _ => String::new(),
    };
    let mut operation = Map::new();
    for name in ["op", "path"] {
        operation.insert(name.to_owned(), text(name).into());
    }
    let from = text("from");
    if !from.is_empty() {
        operation.insert("from".to_owned(), from.into());
    }
    if let Some(value) = patch.fields().get("value") {
        let unusable = |why: String| format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}");
        let value = match value {
            CelValue::Object(object) if !object.is_patch() => object.to_json()?,
            other => other.to_json().map_err(unusable)?,
        };
        operation.insert("value".to_owned(), value);
    }
    Ok(Value::Object(operation))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cel::{Authorizer, Decision, Question, ResourceCheck};
    use serde_json::json;

    use super::*;

    #[derive(Debug)]
    struct Nobody;

    impl Authorizer for Nobody {
        fn decide(&self, _: &Question) -> Decision {
            Decision::default()
        }
    }

    fn changed(kind: &str, expression: &str) -> Result<Change, String> {
        let member = if kind == "JSONPatch" { "jsonPatch" } else { "applyConfiguration" };
        let spec = json!({"variables": [{"name": "two", "expression": "object.a + 1"}], "mutations": [{"patchType": kind, member: {"expression": expression}}]});
        let policy = Policy::read(&json!({"metadata": {"name": "p"}, "spec": spec}));
        let (request, object) = (json!({"operation": "CREATE"}), json!({"a": 1, "labels": {"x": "y"}, "list": [1]}));
        let authorizer = Arc::new(Nobody);
        let check = ResourceCheck::default();
        let inputs = Inputs { request: &request, object: Some(&object), old: None, params: None, namespace: None, authorizer, check };
        assert_eq!((policy.mutations(), policy.is_about(&inputs)), (1, Ok(true)));
        policy.change(0, &inputs)
    }

    #[test]
    fn objects_are_made_of_their_fields() {
        let apply = |expression: &str| changed("ApplyConfiguration", expression);
        for (expression, want) in [
            ("Object{}", json!({})),
            (
                "Object{spec: Object.spec{replicas: variables.two, list: [Object.spec.list{a: 1}]}}",
                json!({"spec": {"replicas": 2, "list": [{"a": 1}]}}),
            ),
            (
                "Object{metadata: Object.metadata{labels: {'a': 'b'}, annotations: object.labels}}",
                json!({"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}}),
            ),
            ("Object{?a: optional.none(), ?b: optional.of(1), ?c: optional.ofNonZeroValue(Object.c{})}", json!({"b": 1})),
            ("has(Object{a: 1}.a) && !has(Object{a: 1}.b) ? Object{l: Object{l: [1, 2]}.l} : Object{}", json!({"l": [1, 2]})),
            ("Object{a: Object{b: 1} == Object{b: 1}, b: Object{b: 1} == Object{b: 2}}", json!({"a": true, "b": false})),
        ] {
            assert_eq!(apply(expression), Ok(Change::Apply(want)), "{expression}");
        }
        let wrong = r#"type mismatch: unexpected type name "Object.x", expected "Object.spec", which matches field name path from root Object type"#;
        assert_eq!(apply("Object{spec: Object.x{}}"), Err(wrong.to_owned()));
        assert_eq!(apply("object.a"), Err("must evaluate to Object but got dyn".to_owned()));
        assert_eq!(apply("Object{a: object.b}"), Err("expression 'Object{a: object.b}' resulted in error: no such key: b".to_owned()));
        assert!(apply("Invalid{}").is_err_and(|why| why.contains("undeclared reference to 'Invalid'")));
    }

    #[test]
    fn patches_are_lists_of_operations() {
        let patch = |expression: &str| changed("JSONPatch", expression);
        let expression = "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('k8s.io/my~label'), value: {'n': variables.two}}, JSONPatch{op: 'move', from: '/a', path: '/b'}]";
        let want = json!([{"op": "add", "path": "/a/k8s.io~1my~0label", "value": {"n": 2}}, {"op": "move", "path": "/b", "from": "/a"}]);
        assert_eq!(patch(expression), Ok(Change::Patch(want)));
        let made = patch("[JSONPatch{op: 'replace', path: '/x', value: Object.x{y: 1}}]");
        assert_eq!(
            made,
            Ok(Change::Patch(json!([{"op": "replace", "path": "/x", "value": {"y": 1}}]))),
            "what is below the object has its type"
        );
        assert!(
            patch("[JSONPatch{op: 1}]")
                .is_err_and(|why| why.contains("expected type of field 'op' is 'string' but provided type is 'int'"))
        );
        let dynamic = patch("[JSONPatch{op: object.a}]");
        assert_eq!(
            dynamic,
            Err("expression '[JSONPatch{op: object.a}]' resulted in error: unexpected type types.Int for JSONPatchType 'op' field"
                .to_owned())
        );
    }
}
