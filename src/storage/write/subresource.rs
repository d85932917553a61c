//! Subresources that do something with their object, and `pods/binding`: the scheduler gives a pod its node (spec api-surface §1.3).

use serde_json::{Value, json};
use time::OffsetDateTime;

use super::{
    WriteRequest, Writer,
    body::{Expected, Syntax},
    decode::DecodedBody,
    failure::{StatusSubject, WriteError},
    hooks::{Form, Unstored},
    in_namespace, is_large,
    metadata::{Found, dedup_owners},
    object_ref::{Current, ObjectRef},
    step::Decider,
    strategy::Preconditions,
    transaction::{Change, Decision},
    tree,
};

const BINDING: Expected<'static> = Expected { group: "", version: "v1", kind: "Binding", custom: false, schema: None };

impl Writer {
    /// Decodes the body of a POST to a subresource that does something with the object it names: of this kind, and approved.
    pub(super) async fn action(
        &self,
        kind: &Expected<'_>,
        request: &WriteRequest<'_>,
        decider: &mut Decider<'_>,
        (syntax, body): (Syntax, &[u8]),
        warnings: &mut Vec<String>,
    ) -> Result<Value, WriteError> {
        let decoded = self.offload.run(is_large(body), || DecodedBody::read_audited(kind, request, syntax, body)).await?;
        let (target, mut action) = (&request.target, decoded.into_tree(warnings));
        in_namespace(target, &action)?;
        warnings.extend(dedup_owners(&mut action, Found::Sent));
        self.check_namespace(target).await?;
        decider.decide(false, |answers| answers.approve(Some(&action), None)).await??;
        // A collection's path has no name.
        if !target.name.is_empty() && tree::text(&action, &["metadata", "name"]) != target.name {
            return Err(WriteError::BadRequest(format!("name in URL does not match name in {} object", kind.kind)));
        }
        Ok(action)
    }

    /// What plugins and webhooks make of an object that a subresource takes.
    pub(super) async fn admitted(
        &self,
        request: &WriteRequest<'_>,
        decider: &mut Decider<'_>,
        (form, subresource): (Form<'_>, &str),
        object: Value,
        warnings: &mut Vec<String>,
    ) -> Result<Value, WriteError> {
        match self.admission_of(request, (form, subresource)).await? {
            Some(plugins) => decider.outside(Box::pin(plugins.admit(&request.target, object, warnings))).await,
            None => Ok(object),
        }
    }

    /// POST of `pods/NAME/binding`, and of `bindings`, where the body alone names the Pod.
    ///
    /// # Errors
    /// See [`WriteError`]: the pod is bound already, is being deleted, or waits for its gates.
    pub async fn bind(
        &self,
        request: &WriteRequest<'_>,
        syntax: Syntax,
        body: &[u8],
        warnings: &mut Vec<String>,
    ) -> Result<(), WriteError> {
        let mut decider = Decider::new(&self.offload, self.admit(&request.target, false, body.len()).await, request.answers());
        let mut binding = self.action(&BINDING, request, &mut decider, (syntax, body), warnings).await?;
        let Expected { group, version, kind, .. } = BINDING;
        // A binding that only its body names is of another resource, which no plugin knows.
        let form = match request.target.name.is_empty() {
            true => (Form::Unstored(Unstored { group, version, resource: "bindings", kind }), ""),
            false => (Form::Other(group, version, kind), "binding"),
        };
        binding = self.admitted(request, &mut decider, form, binding, warnings).await?;
        let name = tree::text(&binding, &["metadata", "name"]).to_owned();
        let target = &ObjectRef { name, ..request.target.clone() };
        validate(&binding)?;
        if target.name.is_empty() {
            return Err(WriteError::BadRequest("Name parameter required.".to_owned()));
        }
        let now = tree::now();
        let how = Change { dry_run: request.options.dry_run, ..Change::of(target) };
        self.change(how, decider, |current, _| {
            let current = current.ok_or_else(|| WriteError::NotFound(target.subject()))?;
            let own = |name| tree::text(&binding, &["metadata", name]);
            Preconditions { uid: own("uid"), revision: own("resourceVersion") }.check(target, current, request.options.dry_run)?;
            Ok(Decision::Put(bound(target, &binding, current, now)?))
        })
        .await?;
        Ok(())
    }
}

/// kube-apiserver forgets to make a 422 of it.
fn validate(binding: &Value) -> Result<(), WriteError> {
    let errors = builtins::pod::bind(binding);
    let texts: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [text] => Err(WriteError::Raw(text.clone())),
        _ => Err(WriteError::Raw(format!("[{}]", texts.join(", ")))),
    }
}

/// The pod on its node.
fn bound(target: &ObjectRef, binding: &Value, current: &Current, now: OffsetDateTime) -> Result<Value, WriteError> {
    let (pod, name) = (&current.tree, &target.name);
    let conflict = |why: String| {
        let of = StatusSubject { group: String::new(), kind: "pods/binding".to_owned(), name: name.clone() };
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
