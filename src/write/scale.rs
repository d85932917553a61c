//! `/scale`: an `autoscaling/v1` Scale over the replicas of its parent, and what these may be (spec api-surface §6.3, §11.3).

use serde_json::{Map, Value, json};

use super::{
    Ask, Writer, Written,
    body::{Expected, Syntax},
    decode::Sent,
    failure::{Named, WriteError},
    in_namespace, is_large, is_large_patch, is_named,
    patch::printed::{go_type, printed},
    patched::{Patch, PatchKind},
    place::{Current, Place},
    strategy::{self, Part},
    transaction::{Decision, Look},
    tree, written,
};
use kube::{ScalePaths, Served};
use model::invalid::FieldError;

const SCALE: Expected<'static> = Expected { group: "autoscaling", version: "v1", kind: "Scale", custom: false };

/// The scale of an object.
///
/// # Errors
/// A custom resource that has no replicas where its definition says.
pub fn of(served: &Served, object: &Value) -> Result<Value, WriteError> {
    let paths = Paths::of(served);
    let Some(replicas) = tree::integer(object, &paths.spec).or_else(|| (!served.custom).then_some(0)) else {
        let path = paths.spec.join(".");
        return Err(WriteError::Internal(format!("the spec replicas field \".{path}\" does not exist")));
    };
    let metadata = tree::metadata(object);
    let names = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let shown: Map<String, Value> = names.iter().filter_map(|n| Some(((*n).to_owned(), metadata.get(*n)?.clone()))).collect();
    let mut status = json!({"replicas": tree::integer(object, &paths.status).unwrap_or(0)});
    let selector = match &paths.selector {
        Some(path) if served.custom => tree::text(object, path).to_owned(),
        Some(path) => tree::at(object, path).map(selector).unwrap_or_default(),
        None => String::new(),
    };
    if !selector.is_empty() {
        tree::set(&mut status, &["selector"], selector.into());
    }
    // Go leaves out what is zero.
    let spec = if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) };
    Ok(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": spec, "status": status}))
}

impl Writer {
    /// PUT of `/scale`.
    ///
    /// # Errors
    /// See [`WriteError`]; conflicts are named after the parent.
    pub async fn replace_scale(&self, ask: &Ask<'_>, syntax: Syntax, body: &[u8], told: &mut Vec<String>) -> Result<Written, WriteError> {
        let _entered = self.enter(&ask.place, false, body.len()).await;
        let scale = self.offload.take(is_large(body), || Sent::read_shown(&SCALE, ask, syntax, body)).await?.into_tree(told);
        self.scale(ask, false, |_| Ok(scale.clone())).await
    }

    /// PATCH of `/scale`.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch_scale(&self, ask: &Ask<'_>, kind: PatchKind, body: &[u8], told: &mut Vec<String>) -> Result<Written, WriteError> {
        let patch = Patch { kind, bytes: body, validation: ask.options.validation };
        let is_large = is_large_patch(kind, body);
        let _entered = self.enter(&ask.place, is_large, body.len()).await;
        self.scale(ask, is_large, |scale| {
            told.clear();
            Ok(Sent::patched(&SCALE, &ask.options, &patch, scale)?.into_tree(told))
        })
        .await
    }

    async fn scale(
        &self,
        ask: &Ask<'_>,
        is_large: bool,
        mut wanted: impl FnMut(&Value) -> Result<Value, WriteError>,
    ) -> Result<Written, WriteError> {
        let place = &ask.place;
        let done = self
            .change(place, Look::Cache, ask.options.dry_run, is_large, |current| {
                let Some(current) = current else { return Err(WriteError::NotFound(place.named())) };
                let scale = wanted(&of(place.served(), &current.tree)?)?;
                scaled(place, current, &scale)
            })
            .await?;
        let parent = written(done);
        Ok(Written { object: of(place.served(), &parent.object)?, created: parent.created, stored: None })
    }
}

/// The parent with the replicas of a scale.
fn scaled(place: &Place, current: &Current, scale: &Value) -> Result<Decision, WriteError> {
    in_namespace(place, scale)?;
    is_named(place, scale)?;
    let sent = tree::text(scale, &["metadata", "resourceVersion"]);
    if !matches!(sent, "" | "0") {
        strategy::check_revision(place, sent, current)?;
    }
    let replicas = tree::integer(scale, &["spec", "replicas"]).unwrap_or(0);
    // Of a custom resource the whole is judged.
    if replicas < 0 && !place.served().custom {
        let of = Named { group: SCALE.group.to_owned(), kind: SCALE.kind.to_owned(), name: place.name.clone() };
        let error = FieldError::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0");
        return Err(WriteError::Invalid { of, errors: vec![error] });
    }
    let mut object = current.tree.clone();
    tree::set(&mut object, &Paths::of(place.served()).spec, replicas.into());
    Ok(strategy::update(place, Part::Main, current, object, &mut Vec::new())?.map_or(Decision::Keep, Decision::Put))
}

/// What is wrong with the numbers and the selector of a custom resource whose definition says where they are. `/status` is not judged by the spec.
pub(super) fn validate(paths: Option<&ScalePaths>, part: Part, object: &Value) -> Vec<FieldError> {
    let Some(paths) = paths else { return Vec::new() };
    let spec = (part != Part::Status).then(|| wrong_replicas(object, &paths.spec)).flatten();
    let selector = paths.selector.as_ref().and_then(|path| wrong_selector(object, path));
    spec.into_iter().chain(wrong_replicas(object, &paths.status)).chain(selector).collect()
}

fn wrong_replicas(object: &Value, path: &[String]) -> Option<FieldError> {
    let (replicas, why) = match nested(object, path) {
        Err(why) => (0, why),
        Ok(None) => return None,
        Ok(Some(value)) => match value.as_i64() {
            None => (0, unfit(value, path, "int64")),
            Some(replicas) if replicas < 0 => (replicas, "should be a non-negative integer".to_owned()),
            Some(replicas) if replicas > i64::from(i32::MAX) => (replicas, format!("should be less than or equal to {}", i32::MAX)),
            Some(_) => return None,
        },
    };
    Some(FieldError::invalid(dotted(path), &replicas.into(), &why))
}

fn wrong_selector(object: &Value, path: &[String]) -> Option<FieldError> {
    let why = match nested(object, path) {
        Err(why) => why,
        Ok(value) => value.filter(|value| !value.is_string()).map(|value| unfit(value, path, "string"))?,
    };
    Some(FieldError::invalid(dotted(path), &"".into(), &why))
}

/// What is at a path, as Go's unstructured helpers look for it: a null at its end is something.
fn nested<'a>(object: &'a Value, path: &[String]) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    for (i, name) in path.iter().enumerate() {
        match value {
            Value::Object(members) => match members.get(name) {
                Some(member) => value = member,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return Err(unfit(other, &path[..=i], "map[string]interface{}")),
        }
    }
    Ok(Some(value))
}

fn unfit(value: &Value, path: &[String], expected: &str) -> String {
    let found = if value.is_null() { "<nil>" } else { go_type(value) };
    format!("{} accessor error: {} is of the type {found}, expected {expected}", dotted(path), printed(value))
}

fn dotted(path: &[String]) -> String {
    format!(".{}", path.join("."))
}

/// Where the numbers are.
struct Paths<'a> {
    spec: Vec<&'a str>,
    status: Vec<&'a str>,
    selector: Option<Vec<&'a str>>,
}

impl<'a> Paths<'a> {
    fn of(served: &'a Served) -> Self {
        fn path(path: &[String]) -> Vec<&str> {
            path.iter().map(String::as_str).collect()
        }
        match &served.scale {
            Some(paths) => Self { spec: path(&paths.spec), status: path(&paths.status), selector: paths.selector.as_deref().map(path) },
            None => Self { spec: vec!["spec", "replicas"], status: vec!["status", "replicas"], selector: Some(vec!["spec", "selector"]) },
        }
    }
}

/// A selector as one string, as `metav1.FormatLabelSelector` writes it; a ReplicationController's is a plain map.
fn selector(selector: &Value) -> String {
    let pairs =
        |map: &Map<String, Value>| -> Vec<String> { map.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or(""))).collect() };
    let Value::Object(members) = selector else { return String::new() };
    let is_map = !members.contains_key("matchLabels") && !members.contains_key("matchExpressions");
    let mut terms =
        pairs(if is_map { members } else { members.get("matchLabels").and_then(Value::as_object).unwrap_or(&tree::NO_MEMBERS) });
    for expression in members.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let (key, values) = (tree::text(expression, &["key"]), tree::texts(expression, &["values"]).join(","));
        terms.push(match tree::text(expression, &["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.sort_by(|a, b| a.trim_start_matches('!').cmp(b.trim_start_matches('!')));
    terms.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(part: Part, object: &Value) -> Vec<String> {
        let path = |text: &str| text.split('.').map(str::to_owned).collect();
        let paths = ScalePaths { spec: path("spec.replicas"), status: path("status.replicas"), selector: Some(path("status.selector")) };
        validate(Some(&paths), part, object).into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
    }

    /// Each was sent to a kube-apiserver.
    #[test]
    fn replicas_are_judged_in_the_words_of_their_paths() {
        let above = "should be less than or equal to 2147483647";
        for (replicas, why) in [
            (json!(i64::MAX), format!("9223372036854775807: {above}")),
            (json!(i64::from(i32::MAX) + 1), format!("2147483648: {above}")),
            (json!(-1), "-1: should be a non-negative integer".to_owned()),
            (json!("x"), "0: .spec.replicas accessor error: x is of the type string, expected int64".to_owned()),
            (json!(1.5), "0: .spec.replicas accessor error: 1.5 is of the type float64, expected int64".to_owned()),
            (json!(null), "0: .spec.replicas accessor error: <nil> is of the type <nil>, expected int64".to_owned()),
            (
                json!({"a": 1}),
                "0: .spec.replicas accessor error: map[a:1] is of the type map[string]interface {}, expected int64".to_owned(),
            ),
        ] {
            let object = json!({"spec": {"replicas": replicas}});
            assert_eq!(wrong(Part::Main, &object), [format!(".spec.replicas: Invalid value: {why}")]);
            assert_eq!(wrong(Part::Status, &object), [""; 0], "the spec is not looked at");
        }
        let text = "0: .spec.replicas accessor error: text is of the type string, expected map[string]interface{}";
        assert_eq!(wrong(Part::Main, &json!({"spec": "text"})), [format!(".spec.replicas: Invalid value: {text}")]);
        for fine in
            [json!({}), json!({"spec": null}), json!({"spec": {"replicas": i32::MAX}, "status": {"replicas": 0, "selector": "a=b"}})]
        {
            assert_eq!(wrong(Part::Main, &fine), [""; 0]);
        }
    }

    #[test]
    fn the_status_is_judged_with_its_selector() {
        let object = json!({"status": {"replicas": -1, "selector": 5}});
        let want = [
            ".status.replicas: Invalid value: -1: should be a non-negative integer",
            ".status.selector: Invalid value: \"\": .status.selector accessor error: 5 is of the type int64, expected string",
        ];
        for part in [Part::Status, Part::Main] {
            assert_eq!(wrong(part, &object), want);
        }
    }
}
