//! `pods/binding`: the scheduler gives a pod its node (spec api-surface §1.3).

use serde_json::{Value, json};
use time::OffsetDateTime;

use super::{
    Ask, Writer,
    body::{Expected, Syntax},
    decode::Sent,
    failure::{Named, WriteError},
    in_namespace, is_large,
    metadata::{Found, dedup_owners},
    place::{Current, Place},
    strategy::Preconditions,
    transaction::{Decision, Look},
    tree,
};
use model::invalid::FieldError;

const BINDING: Expected<'static> = Expected { group: "", version: "v1", kind: "Binding", custom: false };

impl Writer {
    /// POST of `pods/NAME/binding`.
    ///
    /// # Errors
    /// See [`WriteError`]: the pod is bound already, is being deleted, or waits for its gates.
    pub async fn bind(&self, ask: &Ask<'_>, syntax: Syntax, body: &[u8], told: &mut Vec<String>) -> Result<(), WriteError> {
        let _entered = self.enter(&ask.place, false, body.len()).await;
        let mut binding = self.offload.take(is_large(body), || Sent::read_shown(&BINDING, ask, syntax, body)).await?.into_tree(told);
        let place = &ask.place;
        in_namespace(place, &binding)?;
        told.extend(dedup_owners(&mut binding, Found::Sent));
        self.namespace_takes(place).await?;
        ask.approve(&binding, None)?;
        if tree::text(&binding, &["metadata", "name"]) != place.name {
            return Err(WriteError::BadRequest("name in URL does not match name in Binding object".to_owned()));
        }
        validate(&binding)?;
        let now = tree::now();
        self.change(place, Look::Cache, ask.options.dry_run, false, |current| {
            let current = current.ok_or_else(|| WriteError::NotFound(place.named()))?;
            let own = |name| tree::text(&binding, &["metadata", name]);
            Preconditions { uid: own("uid"), revision: own("resourceVersion") }.check(place, current, ask.options.dry_run)?;
            bound(place, &binding, current, now).map(Decision::Put)
        })
        .await?;
        Ok(())
    }
}

/// kube-apiserver forgets to make a 422 of it.
fn validate(binding: &Value) -> Result<(), WriteError> {
    let (kind, name) = (tree::text(binding, &["target", "kind"]), tree::text(binding, &["target", "name"]));
    let mut errors = Vec::new();
    if !matches!(kind, "" | "Node") {
        errors.push(FieldError::not_supported("target.kind", &kind.into(), &["Node", "<empty>"]));
    }
    if name.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    let texts: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [text] => Err(WriteError::Raw(text.clone())),
        _ => Err(WriteError::Raw(format!("[{}]", texts.join(", ")))),
    }
}

/// The pod on its node.
fn bound(place: &Place, binding: &Value, current: &Current, now: OffsetDateTime) -> Result<Value, WriteError> {
    let (pod, name) = (&current.tree, &place.name);
    let conflict = |why: String| {
        let of = Named { group: String::new(), kind: "pods/binding".to_owned(), name: name.clone() };
        WriteError::Conflict { of, why }
    };
    let node = tree::text(pod, &["spec", "nodeName"]);
    if tree::at(pod, &["metadata", "deletionTimestamp"]).is_some() {
        return Err(conflict(format!("pod {name} is being deleted, cannot be assigned to a host")));
    }
    if !node.is_empty() {
        return Err(conflict(format!("pod {name} is already assigned to node {}", go::quote::quoted(node))));
    }
    if tree::at(pod, &["spec", "schedulingGates"]).and_then(Value::as_array).is_some_and(|gates| !gates.is_empty()) {
        return Err(conflict(format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    let mut new = pod.clone();
    tree::set(&mut new, &["spec", "nodeName"], tree::text(binding, &["target", "name"]).into());
    for name in ["annotations", "labels"] {
        for (key, value) in tree::metadata(binding).get(name).and_then(Value::as_object).into_iter().flatten() {
            tree::set(&mut new, &["metadata", name, key], value.clone());
        }
    }
    tree::member(&mut new, "status").remove("nominatedNodeName");
    set_scheduled(&mut new, now);
    Ok(new)
}

/// Sets the condition `PodScheduled` to true.
fn set_scheduled(pod: &mut Value, now: OffsetDateTime) {
    tree::set_condition(pod, json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null}), now);
}
