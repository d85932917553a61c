//! `/scale`: an `autoscaling/v1` Scale over the replicas of its parent (spec api-surface §6.3, §11.3).

use serde_json::{Map, Value, json};

use super::{
    Ask, Writer, Written,
    body::{Expected, Syntax},
    decode::Sent,
    failure::{Named, WriteError},
    in_namespace, is_large, is_large_patch, is_named,
    patched::{Patch, PatchKind},
    place::{Current, Place},
    strategy,
    transaction::{Decision, Look},
    tree, written,
};
use crate::{catalogue::Served, model::invalid::FieldError};

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
    pub async fn replace_scale(&self, ask: &Ask, syntax: Syntax, body: &[u8], told: &mut Vec<String>) -> Result<Written, WriteError> {
        let _entered = self.enter(&ask.place, false, body.len()).await;
        let scale = self.turns.take(is_large(body), || Sent::read_as(&SCALE, &ask.options, syntax, body)).await?.into_tree(told);
        self.scale(ask, false, |_| Ok(scale.clone())).await
    }

    /// PATCH of `/scale`.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch_scale(&self, ask: &Ask, kind: PatchKind, body: &[u8], told: &mut Vec<String>) -> Result<Written, WriteError> {
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
        ask: &Ask,
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
    if replicas < 0 && place.served().custom {
        let path = format!(".{}", Paths::of(place.served()).spec.join("."));
        let error = FieldError::invalid(path, &replicas.into(), "should be a non-negative integer");
        return Err(WriteError::Invalid { of: place.kind(), errors: vec![error] });
    }
    if replicas < 0 {
        let of = Named { group: SCALE.group.to_owned(), kind: SCALE.kind.to_owned(), name: place.name.clone() };
        let error = FieldError::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0");
        return Err(WriteError::Invalid { of, errors: vec![error] });
    }
    let mut object = current.tree.clone();
    tree::set(&mut object, &Paths::of(place.served()).spec, replicas.into());
    Ok(strategy::update(place, strategy::Part::Main, current, object, &mut Vec::new())?.map_or(Decision::Keep, Decision::Put))
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
