//! MutatingAdmissionPolicies in a write: what their mutations make of its object, in order, each on what those before it have made.

use std::borrow::Cow;

use merge::{Duplicates, ParseableType, TypedValue};
use serde_json::Value;

use super::{
    ask::{Asking, Shown},
    chain::Reinvocation,
    policies::{Invocation, Misconfigured, TOO_MANY_RIGHTS},
};
use crate::write::{
    failure::WriteError,
    options::FieldValidation,
    patch::{self, json::Inapplicable},
};
use admission::{
    hooks::Denial,
    policies::{Binding, Change, Inputs, Policy},
};

/// Why a policy refuses a write.
struct Refusal {
    ignored: bool,
    why: String,
    is_invalid: bool,
}

impl Refusal {
    fn of(policy: &Policy, binding: Option<&Binding>, why: &str) -> Self {
        let name = &policy.name;
        let why = match binding {
            Some(binding) => format!("policy '{name}' with binding '{}' denied request: {why}", binding.name),
            None => format!("policy {} denied request: {why}", go::quote::quoted(name)),
        };
        Self { ignored: policy.ignores_failure, why, is_invalid: false }
    }

    fn invalid(invocation: &Invocation<'_>, why: &str) -> Self {
        Self { is_invalid: true, ..Self::of(invocation.policy, Some(invocation.binding), why) }
    }
}

/// Why a mutation has made nothing of an object.
enum Failure {
    /// The failure policy decides.
    Policy(String),
    /// The write ends.
    Refused(WriteError),
}

impl Invocation<'_> {
    /// What it is among those that may be evaluated again.
    fn key(&self) -> String {
        let of = |member: &str| self.params.as_ref().map_or("", |params| params["metadata"][member].as_str().unwrap_or_default());
        format!("{}/{}/{}/{}", self.policy.name, self.binding.name, of("namespace"), of("name"))
    }
}

impl Asking<'_> {
    /// Returns what the policies that are bound to the write make of its object.
    ///
    /// # Errors
    /// A policy refuses it.
    pub(super) async fn mutated(&self, round: usize, again: &mut Reinvocation) -> Result<Value, WriteError> {
        let (mut invocations, mut refusals) = (Vec::new(), Vec::new());
        for bound in &self.session.mutating_policies {
            for bound in self.bound_to(bound).await {
                match bound {
                    Ok(invocation) => invocations.push(invocation),
                    Err(Misconfigured { policy, binding, why }) => refusals.push(Refusal::of(policy, binding, &why)),
                }
            }
        }
        let mut object = self.object.cloned().unwrap_or_default();
        let namespace = self.check().namespace;
        let namespace = if self.named().is_namespaces() || invocations.is_empty() { None } else { self.seen_namespace(&namespace).await? };
        let mut has_run = false;
        for invocation in &invocations {
            let before = object.clone();
            let asking = Asking { object: Some(&before), ..*self };
            let shown = asking.shown_again(&invocation.shown).await?;
            match asking.on(invocation, &shown, namespace.as_ref(), |policy, inputs| policy.is_about(inputs)).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(why) => {
                    refusals.push(Refusal::invalid(invocation, &why));
                    continue;
                }
            }
            let key = invocation.key();
            if round > 0 && !again.is_again(&key) {
                continue;
            }
            for at in 0..invocation.policy.mutations() {
                let asking = Asking { object: Some(&object), ..*self };
                let changed = asking.changed(invocation, at, namespace.as_ref()).await;
                match changed {
                    Ok(changed) => (object, has_run) = (changed, true),
                    Err(Failure::Policy(why)) => refusals.push(Refusal::invalid(invocation, &why)),
                    Err(Failure::Refused(error)) => return Err(error),
                }
            }
            if object != before {
                again.require();
            }
            if invocation.policy.is_reinvoked {
                again.note(key);
            }
        }
        if has_run {
            // As there: also when nothing is changed by it.
            again.require();
            again.need();
        }
        refusals.retain(|refusal| !refusal.ignored);
        if refusals.is_empty() { Ok(object) } else { Err(self.refused_by(&refusals)) }
    }

    /// Evaluates a policy on the object as it is now.
    async fn on<T>(
        &self,
        invocation: &Invocation<'_>,
        shown: &Shown,
        namespace: Option<&Value>,
        evaluate: impl Fn(&Policy, &Inputs<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let evaluate = |inputs: &Inputs<'_>| evaluate(invocation.policy, inputs);
        let evaluated = self.with_inputs(shown, invocation.params.as_ref(), namespace, evaluate).await;
        evaluated.unwrap_or_else(|| Err(TOO_MANY_RIGHTS.to_owned()))
    }

    /// Returns what a mutation makes of the object.
    async fn changed(&self, invocation: &Invocation<'_>, at: usize, namespace: Option<&Value>) -> Result<Value, Failure> {
        let shown = self.shown_again(&invocation.shown).await.map_err(Failure::Refused)?;
        let change = self.on(invocation, &shown, namespace, |policy, inputs| policy.change(at, inputs)).await.map_err(Failure::Policy)?;
        let object = shown.object.as_deref().map_or(Ok(Value::Null), serde_json::from_slice::<Value>);
        let object = object.map_err(|error| Failure::Refused(WriteError::Internal(error.to_string())))?;
        let offload = &self.plugins.writer.offload;
        let (made, validation) = match change {
            Change::Apply(mut config) => {
                let of = self.field_type(&shown);
                for member in ["apiVersion", "kind"] {
                    config[member] = object[member].clone();
                }
                let merge = || merged(&of, &object, &config).map_err(|why| Failure::Policy(format!("error applying patch: {why}")));
                (offload.run(true, merge).await?, FieldValidation::Ignore)
            }
            Change::Patch(operations) => match offload.run(true, || patch::json::apply_made(&object, operations)).await {
                // What was written is read as text, which is strict.
                Ok(made) => (made, FieldValidation::Strict),
                Err(Inapplicable::Tested) => return Ok(self.object.cloned().unwrap_or_default()),
                Err(Inapplicable::Unfit(why)) => return Err(Failure::Policy(format!("JSON Patch: {why}"))),
            },
        };
        self.taken(&shown, made, validation).await.map_err(Failure::Refused)
    }

    /// The type by which an object is merged as it is shown.
    fn field_type(&self, shown: &Shown) -> ParseableType {
        match self.named().is_custom() {
            true => self.plugins.writer.field_type(self.target.served(), &shown.version),
            false => self.plugins.writer.field_type_of(&shown.group, &shown.version, &shown.kind),
        }
    }

    fn refused_by(&self, refusals: &[Refusal]) -> WriteError {
        let causes: Vec<String> = refusals.iter().map(|refusal| refusal.why.clone()).collect();
        let reason = if refusals.first().is_some_and(|first| first.is_invalid) { "Invalid" } else { "Forbidden" };
        let (message, details) = (causes.first().cloned().unwrap_or_default(), Some(self.refusal_details(&causes)));
        WriteError::Denied(Box::new(Denial { code: 403, message, reason: reason.to_owned(), details }))
    }
}

/// What an object is with what it should have.
fn merged(of: &ParseableType, object: &Value, config: &Value) -> Result<Value, String> {
    let wanted = TypedValue::new(Cow::Borrowed(config), of, Duplicates::Refused)
        .map_err(|error| format!("failed to convert patch object to typed object: {error}"))?;
    let atomics = wanted.atomics();
    if !atomics.is_empty() {
        return Err(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}", atomics.join(", ")));
    }
    let live = TypedValue::new(Cow::Borrowed(object), of, Duplicates::Allowed)
        .map_err(|error| format!("failed to convert original object to typed object: {error}"))?;
    let made = live.merge(&wanted).map_err(|error| format!("failed to merge patch: {error}"))?;
    Ok(made.unwrap_or_else(|| object.clone()))
}
