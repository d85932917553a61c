//! Policies in a write: which are bound to it, their parameters, and what becomes of what those say that validate.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    ask::{Asking, Shown},
    bound::{BoundPolicy, Known},
    named::Named,
};
use crate::write::{
    Writer,
    failure::WriteError,
    object_ref::{ObjectRef, stored_tree},
    tree,
};
use admission::{
    criteria,
    hooks::{Denial, HookKind},
    plugins::{Lookup, Notes, Plugin, name_of},
    policies::{Binding, Decision, Evaluated, Inputs, NotFound, ParamRef, Policy, is_exempt},
};
use model::selector::selects;
use registry::Resource;

/// How long a write waits for the cache of parameters, as in kube-apiserver.
const PARAMS_WAIT: Duration = Duration::from_secs(1);
/// Why a policy fails whose expressions ask too much of the authorizer.
pub(super) const TOO_MANY_RIGHTS: &str = "its expressions ask for too many rights";
/// Bytes of the value of an annotation.
const ANNOTATION_BYTES_MAX: usize = 10 << 10;
/// The annotation about a write that is not valid and is not refused for that.
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// A policy that is bound to the write, with one of its parameters.
pub(super) struct Invocation<'p> {
    pub(super) policy: &'p Policy,
    pub(super) binding: &'p Binding,
    pub(super) params: Option<Value>,
    pub(super) shown: Arc<Shown>,
}

/// A policy or a binding that cannot be used.
pub(super) struct Misconfigured<'p> {
    pub(super) policy: &'p Policy,
    /// None: it is the policy.
    pub(super) binding: Option<&'p Binding>,
    pub(super) why: String,
}

/// Why a policy refuses a write.
struct Refusal<'p> {
    policy: &'p str,
    /// None of a policy that cannot be used.
    binding: Option<&'p str>,
    decision: Decision,
}

impl Writer {
    /// Returns the policies that are bound to writes of this resource.
    ///
    /// # Errors
    /// The cache of policies is not loaded in time.
    pub(super) async fn policies_of(&self, named: Named<'_>, kind: HookKind) -> Result<Vec<Arc<BoundPolicy>>, WriteError> {
        let plugin = match kind {
            HookKind::Mutating => Plugin::MutatingAdmissionPolicy,
            HookKind::Validating => Plugin::ValidatingAdmissionPolicy,
        };
        let criteria::Resource { group, resource, .. } = named.resource();
        if !self.admitting.plugins.has(plugin) || is_exempt(group, resource) {
            return Ok(Vec::new());
        }
        let all = self.known_policies(named.target, kind).await?;
        if all.is_empty() {
            return Ok(all);
        }
        let resources = self.resources.load_full();
        let equivalents = named.equivalents(&resources);
        Ok(all.into_iter().filter(|bound| named.may_match(&bound.policy.criteria, &equivalents)).collect())
    }

    async fn known_policies(&self, target: &ObjectRef, kind: HookKind) -> Result<Vec<Arc<BoundPolicy>>, WriteError> {
        let (policies, bindings) = match kind {
            HookKind::Mutating => (Lookup::MutatingPolicy, Lookup::MutatingBinding),
            HookKind::Validating => (Lookup::ValidatingPolicy, Lookup::ValidatingBinding),
        };
        self.await_lookup(target, policies).await?;
        self.await_lookup(target, bindings).await?;
        let (Some(policies), Some(bindings)) = (self.looked_up(policies), self.looked_up(bindings)) else {
            return Ok(Vec::new());
        };
        let snapshot = |resource: &Arc<Resource>| resource.handle.published.known().snapshot.clone();
        let (known, bound) = (snapshot(&policies), snapshot(&bindings));
        let at = ((known.epoch, known.applied), (bound.epoch, bound.applied));
        {
            let read = self.admitting.policies.of(kind).lock();
            if read.at == Some(at) {
                return Ok(read.all.clone());
            }
        }
        let read = || {
            let mut by_policy: HashMap<String, Vec<Binding>> = HashMap::new();
            for binding in bound.store.scan(b"", b"").filter_map(|object| stored_tree(&bindings, object).ok()) {
                let binding = Binding::read(&binding);
                by_policy.entry(binding.policy.clone()).or_default().push(binding);
            }
            let mut before = std::mem::take(&mut self.admitting.policies.of(kind).lock().read);
            let mut now = Known { at: Some(at), ..Known::default() };
            for object in known.store.scan(b"", b"") {
                let name = object.name().to_owned();
                let Some(bindings) = by_policy.remove(&name) else { continue };
                let policy = match before.remove(&name) {
                    Some((revision, policy)) if revision == object.revision => policy,
                    _ => match stored_tree(&policies, object) {
                        Ok(tree) => Arc::new(Policy::read(&tree)),
                        Err(_) => continue,
                    },
                };
                now.read.insert(name, (object.revision, policy.clone()));
                now.all.push(Arc::new(BoundPolicy { policy, bindings }));
            }
            now
        };
        let now = self.offload.run(true, read).await;
        let all = now.all.clone();
        *self.admitting.policies.of(kind).lock() = now;
        Ok(all)
    }

    /// Returns the resource of parameters of this kind.
    pub(super) fn param_resource(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let resources = self.resources.load_full();
        resources.iter().find(|resource| resource.served.kind == kind && resource.served.api_version() == api_version).cloned()
    }

    /// Returns the parameters of a policy for a write in a namespace; one that is none where it has no parameters.
    pub(super) async fn params(&self, policy: &Policy, params: Option<&ParamRef>, namespace: &str) -> Result<Vec<Option<Value>>, String> {
        let (Some((api_version, kind)), Some(params)) = (&policy.param_kind, params) else { return Ok(vec![None]) };
        let Some(resource) = self.param_resource(api_version, kind) else {
            return Err(format!("paramKind kind `{api_version}, Kind={kind}` not known"));
        };
        let served = &resource.served;
        let namespace = match (served.namespaced, params.namespace.as_str()) {
            (false, "") => "",
            (false, _) => return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned()),
            (true, "") if namespace.is_empty() => {
                return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned());
            }
            (true, "") => namespace,
            (true, own) => own,
        };
        let published = &resource.handle.published;
        if published.wait_until(cache::state::snapshot::Known::is_ready, PARAMS_WAIT).await.is_err() {
            return Err(format!("paramKind kind `{api_version}, Kind={kind}` not yet synced to use for admission"));
        }
        let known = published.known();
        let prefix = served.storage.key_prefix(&self.prefix);
        let place = if namespace.is_empty() { prefix.to_string() } else { format!("{prefix}{namespace}/") };
        let shown = |object: &model::Object| {
            let mut json = Vec::new();
            resource.encoders.whole().encoder.object_into(object, &mut json);
            serde_json::from_slice::<Value>(&json).ok().map(Some)
        };
        let found: Vec<Option<Value>> = match &params.selector {
            None => known
                .snapshot
                .store
                .find(format!("{place}{}", params.name).as_bytes())
                .and_then(|object| shown(object))
                .into_iter()
                .collect(),
            Some(selector) => {
                let all = known.snapshot.store.scan(place.as_bytes(), b"").filter_map(|object| shown(object));
                let is_selected = |param: &Option<Value>| {
                    param.as_ref().is_some_and(|param| selects(selector, param["metadata"]["labels"].as_object()) == Some(true))
                };
                all.filter(is_selected).collect()
            }
        };
        if found.is_empty() && params.not_found == NotFound::Deny {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(found)
    }
}

impl Asking<'_> {
    /// Judges an object by the policies that are bound to it.
    ///
    /// # Errors
    /// A policy refuses it; of several refusals the first one counts.
    pub(super) async fn policies(&self, notes: &mut Notes) -> Result<(), WriteError> {
        let mut refusal: Option<Refusal<'_>> = None;
        for bound in &self.session.policies {
            if let Some(found) = self.judged_by(bound, notes).await? {
                refusal.get_or_insert(found);
            }
        }
        refusal.map_or(Ok(()), |refusal| Err(self.refused(&refusal)))
    }

    async fn judged_by<'p>(&self, bound: &'p BoundPolicy, notes: &mut Notes) -> Result<Option<Refusal<'p>>, WriteError> {
        let mut refusal = None;
        let mut annotations: Vec<(String, Vec<String>)> = Vec::new();
        let invocations = self.bound_to(bound).await;
        let place = match invocations.iter().any(Result::is_ok) && !self.named().is_namespaces() {
            true => self.seen_namespace(&self.check().namespace).await?,
            false => None,
        };
        for invocation in invocations {
            let Invocation { policy, binding, params, shown } = match invocation {
                Ok(invocation) => invocation,
                Err(Misconfigured { policy, binding, why }) => {
                    let decision = Decision { message: why, reason: String::new() };
                    let refused = || Refusal { policy: &policy.name, binding: binding.map(|binding| binding.name.as_str()), decision };
                    refusal = refusal.or_else(|| (!policy.ignores_failure).then(refused));
                    continue;
                }
            };
            let evaluated = self.evaluated(policy, &shown, params.as_ref(), place.as_ref()).await;
            for (at, decision) in evaluated.denied {
                for action in &binding.actions {
                    match action.as_str() {
                        "Deny" => {
                            refusal = refusal.or_else(|| {
                                Some(Refusal { policy: &policy.name, binding: Some(&binding.name), decision: decision.clone() })
                            });
                        }
                        "Warn" => notes.warnings.push(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                            policy.name, binding.name, decision.message
                        )),
                        _ => notes.annotate_as(FAILURE.to_owned(), failure(policy, binding, at, &decision), false),
                    }
                }
            }
            for (key, value) in evaluated.annotations {
                match value {
                    Ok(value) => add(&mut annotations, key, cut(value)),
                    Err(why) => {
                        let decision = Decision { message: why, reason: String::new() };
                        refusal = refusal.or(Some(Refusal { policy: &policy.name, binding: Some(&binding.name), decision }));
                    }
                }
            }
        }
        for (key, values) in annotations {
            notes.annotate_as(format!("{}/{key}", bound.policy.name), values.join(", "), false);
        }
        Ok(refusal)
    }

    /// Returns what is evaluated of a policy: its bindings that are about the write, each with each of its parameters; and what is wrong with it and with them.
    pub(super) async fn bound_to<'p>(&self, bound: &'p BoundPolicy) -> Vec<Result<Invocation<'p>, Misconfigured<'p>>> {
        let BoundPolicy { policy, bindings } = bound;
        let policy: &Policy = policy;
        let wrong = |binding: Option<&'p Binding>, why: String| {
            let what = if binding.is_some() { "binding" } else { "policy" };
            Err(Misconfigured { policy, binding, why: format!("failed to configure {what}: {why}") })
        };
        let shown = match self.matched(&policy.criteria).await {
            Ok(Some(shown)) => Arc::new(shown),
            Ok(None) => return Vec::new(),
            Err(error) => return vec![wrong(None, error.to_string())],
        };
        if let Some((api_version, kind)) = &policy.param_kind
            && self.plugins.writer.param_resource(api_version, kind).is_none()
        {
            let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
            return vec![wrong(None, format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"))];
        }
        let namespace = self.check().namespace;
        let mut all = Vec::new();
        for binding in bindings {
            match self.matters(&binding.criteria).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    all.push(wrong(Some(binding), error.to_string()));
                    continue;
                }
            }
            match self.plugins.writer.params(policy, binding.params.as_ref(), &namespace).await {
                Ok(found) => all.extend(found.into_iter().map(|params| Ok(Invocation { policy, binding, params, shown: shown.clone() }))),
                Err(why) => all.push(wrong(Some(binding), why)),
            }
        }
        all
    }

    /// The namespace of the object, as expressions see it.
    pub(super) async fn seen_namespace(&self, name: &str) -> Result<Option<Value>, WriteError> {
        if name.is_empty() {
            return Ok(None);
        }
        let Some(found) = self.plugins.writer.namespace(name).await? else { return Ok(None) };
        let mut namespace = found.tree;
        for member in ["managedFields", "ownerReferences", "selfLink"] {
            tree::member(&mut namespace, "metadata").remove(member);
        }
        Ok(Some(namespace))
    }

    async fn evaluated(&self, policy: &Policy, shown: &Shown, params: Option<&Value>, namespace: Option<&Value>) -> Evaluated {
        let evaluated = self.with_inputs(shown, params, namespace, |inputs| policy.evaluate(inputs)).await;
        evaluated.unwrap_or_else(|| {
            let decision = Decision { message: TOO_MANY_RIGHTS.to_owned(), reason: String::new() };
            Evaluated { denied: vec![(0, decision)], annotations: Vec::new() }
        })
    }

    /// Evaluates expressions of a policy on objects as they are shown; none when they ask too much of the authorizer.
    pub(super) async fn with_inputs<T>(
        &self,
        shown: &Shown,
        params: Option<&Value>,
        namespace: Option<&Value>,
        evaluate: impl Fn(&Inputs<'_>) -> T,
    ) -> Option<T> {
        let read = |json: &Option<Vec<u8>>| json.as_ref().and_then(|json| serde_json::from_slice::<Value>(json).ok());
        let (object, old, options) = (read(&shown.object), read(&shown.old), self.options());
        let (request, check) = (self.reviewed(shown, &options).request(), self.check());
        let evaluate = |authorizer| {
            let check = check.clone();
            evaluate(&Inputs { request: &request, object: object.as_ref(), old: old.as_ref(), params, namespace, authorizer, check })
        };
        self.with_rights(evaluate).await
    }

    fn refused(&self, refusal: &Refusal<'_>) -> WriteError {
        let Refusal { policy, binding, decision } = refusal;
        let with = binding.map(|binding| format!(" with binding '{binding}'")).unwrap_or_default();
        let why = format!("ValidatingAdmissionPolicy '{policy}'{with} denied request: {}", decision.message);
        let criteria::Resource { group, resource, .. } = self.named().resource();
        let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let reason = if decision.reason.is_empty() { "Invalid" } else { &decision.reason };
        let message = format!("{resource} {} is forbidden: {why}", go::quote::quoted(self.refused_name()));
        let details = Some(self.refusal_details(&[why]));
        WriteError::Denied(Box::new(Denial { code: code_of(reason), message, reason: reason.to_owned(), details }))
    }

    /// The name of the object in a refusal.
    fn refused_name(&self) -> &str {
        let named = self.name();
        if named.is_empty() { self.object.map_or("Unknown", name_of) } else { named }
    }

    /// The details of a refusal for these causes.
    pub(super) fn refusal_details(&self, causes: &[String]) -> Value {
        let criteria::Resource { group, resource, .. } = self.named().resource();
        let causes: Vec<Value> = causes.iter().map(|why| json!({"message": why})).collect();
        json!({"name": self.refused_name(), "group": group, "kind": resource, "causes": causes})
    }
}

/// The code of a reason.
fn code_of(reason: &str) -> u16 {
    match reason {
        "Unauthorized" => 401,
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        "Invalid" => 422,
        _ => 500,
    }
}

/// The annotation about a validation that failed.
fn failure(policy: &Policy, binding: &Binding, at: usize, decision: &Decision) -> String {
    let quote = |text: &str| Value::from(text).to_string();
    format!(
        r#"[{{"message":{},"policy":{},"binding":{},"expressionIndex":{at},"validationActions":{}}}]"#,
        quote(&decision.message),
        quote(&policy.name),
        quote(&binding.name),
        json!(binding.actions)
    )
}

/// Adds a value to those of a key, once.
fn add(annotations: &mut Vec<(String, Vec<String>)>, key: String, value: String) {
    match annotations.iter_mut().find(|(known, _)| *known == key) {
        Some((_, values)) if values.contains(&value) => {}
        Some((_, values)) => values.push(value),
        None => annotations.push((key, vec![value])),
    }
}

/// A value that is not too long.
fn cut(mut value: String) -> String {
    let end = (0..=ANNOTATION_BYTES_MAX.min(value.len())).rev().find(|at| value.is_char_boundary(*at)).unwrap_or(0);
    value.truncate(end);
    value
}
