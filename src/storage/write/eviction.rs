//! `pods/eviction`: deletes a Pod when the budget that counts it allows one more disruption (`pkg/registry/core/pod/storage/eviction.go`).

use serde_json::{Value, json};
use time::OffsetDateTime;

use super::{
    WriteRequest, Writer,
    body::{Expected, Syntax},
    custom::Judge,
    delete,
    failure::{StatusSubject, WriteError},
    hooks::Form,
    object_ref::{Current, ObjectRef},
    options::{DeleteOptions, DeleteOptionsError, MalformedDeletion},
    part::Part,
    step::Decider,
    transaction::{Change, WriteOutcome},
    tree, updated,
};
use go::url::Query;
use model::{invalid::FieldError, selector::selects};

const EVICTION: Expected<'static> = Expected { group: "policy", version: "v1", kind: "Eviction", custom: false, schema: None };
/// An option that a body cannot have here.
const UNREAD: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
/// Tries to delete a Pod that somebody else changes meanwhile.
const TRIES: usize = 20;
/// Pods of which a budget does not know yet that they are gone.
const DISRUPTED_MAX: usize = 2_000;

/// What an eviction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// The Pod is deleted, or will be when it has ended.
    Deleted,
    /// More than one budget counts the Pod, so nothing was done.
    Ambiguous,
}

impl Writer {
    /// POST of `pods/NAME/eviction`.
    ///
    /// # Errors
    /// See [`WriteError`]: there is no such Pod, it is another one than the eviction says, or its budget allows no disruption.
    pub async fn evict(
        &self,
        request: &WriteRequest<'_>,
        syntax: Syntax,
        body: &[u8],
        warnings: &mut Vec<String>,
    ) -> Result<Evicted, WriteError> {
        let eviction = {
            let mut decider = Decider::new(&self.offload, self.offload.admit(false, body.len()).await, request.answers());
            let eviction = self.action(&EVICTION, request, &mut decider, (syntax, body), warnings).await?;
            self.admitted(
                request,
                &mut decider,
                (Form::Other(EVICTION.group, EVICTION.version, EVICTION.kind), "eviction"),
                eviction,
                warnings,
            )
            .await?
        };
        let target = &request.target;
        let options = options(&eviction, target, request.options.dry_run)?;
        let Some(pod) = self.evict_unguarded(target, &options).await? else { return Ok(Evicted::Deleted) };
        let mut budgets = self.budgets(target, &pod.tree).await?;
        let (budget, budget_place) = match (budgets.pop(), budgets.is_empty()) {
            (None, _) => {
                self.delete_evicted(target, &options).await?;
                return Ok(Evicted::Deleted);
            }
            (Some(budget), true) => budget,
            (Some(_), false) => return Ok(Evicted::Ambiguous),
        };
        if !may_go_unready(&pod.tree, &budget) {
            self.count_disruption(&budget_place, &target.name, options.dry_run).await?;
            self.delete_evicted(target, &options).await?;
            return Ok(Evicted::Deleted);
        }
        // It must still be the Pod that is not ready.
        let of_this = DeleteOptions { resource_version: Some(pod.revision.0.to_string()), ..options.clone() };
        match self.delete_evicted(target, &of_this).await {
            Err(WriteError::Conflict { .. }) if options.resource_version.is_none() => Err(unprocessed(&budget_place.name)),
            outcome => outcome.map(|()| Evicted::Deleted),
        }
    }

    /// Deletes a Pod that no budget guards because it has ended or has not begun; otherwise returns it.
    async fn evict_unguarded(&self, target: &ObjectRef, options: &DeleteOptions) -> Result<Option<Current>, WriteError> {
        let is_bound = options.resource_version.is_some();
        for attempt in 1.. {
            let Some(pod) = self.fresh(target).await? else { return Err(WriteError::NotFound(target.subject())) };
            let is_leaving = tree::at(&pod.tree, &["metadata", "deletionTimestamp"]).is_some();
            let phase = tree::text(&pod.tree, &["status", "phase"]);
            if !is_leaving && !matches!(phase, "Succeeded" | "Failed" | "Pending") {
                return Ok(Some(pod));
            }
            let mut options = options.clone();
            if !is_leaving && phase == "Pending" && !is_bound {
                options.resource_version = Some(pod.revision.0.to_string());
            }
            match self.delete_evicted(target, &options).await {
                Err(WriteError::Conflict { .. }) if !is_bound && attempt < TRIES => {}
                outcome => return outcome.map(|()| None),
            }
        }
        unreachable!("the last attempt returns")
    }

    /// The budgets that count this Pod.
    async fn budgets(&self, target: &ObjectRef, pod: &Value) -> Result<Vec<(Value, ObjectRef)>, WriteError> {
        let found = self.resources.load().find("policy", "v1", "poddisruptionbudgets").cloned();
        let Some(resource) = found else { return Ok(Vec::new()) };
        let all = ObjectRef { resource, namespace: target.namespace.clone(), name: String::new() };
        let labels = tree::metadata(pod).get("labels").and_then(Value::as_object);
        let mut budgets = Vec::new();
        let each = |Current { tree: budget, .. }: Current| {
            if tree::at(&budget, &["spec", "selector"]).is_some_and(|selector| selects(selector, labels) == Some(true)) {
                let name = tree::text(&budget, &["metadata", "name"]).to_owned();
                budgets.push((budget, ObjectRef { name, ..all.clone() }));
            }
        };
        self.each_stored(&all, each).await?;
        Ok(budgets)
    }

    /// Takes one disruption from a budget, which notes the Pod until it has seen it go.
    async fn count_disruption(&self, target: &ObjectRef, pod: &str, dry_run: bool) -> Result<(), WriteError> {
        let now = tree::now();
        let decider = Decider::new(&self.offload, self.admit(target, false, 0).await, target.answers(None));
        self.change(Change { dry_run, ..Change::of(target) }, decider, |current, _| {
            let current = current.ok_or_else(|| WriteError::NotFound(target.subject()))?;
            let counted = disrupted(&current.tree, pod, now)?;
            Ok(updated(target, Judge::default(), Part::Status, current, counted, &mut Vec::new())?)
        })
        .await?;
        Ok(())
    }

    /// Marks the Pod as disrupted, and deletes it.
    async fn delete_evicted(&self, target: &ObjectRef, options: &DeleteOptions) -> Result<(), WriteError> {
        let mut options = options.clone();
        if !options.dry_run {
            let now = tree::now();
            let decider = Decider::new(&self.offload, self.admit(target, false, 0).await, target.answers(None));
            let marked = self
                .change(Change::of(target), decider, |current, _| {
                    let current = current.ok_or_else(|| WriteError::NotFound(target.subject()))?;
                    delete::preconditions(target, &options, current)?;
                    Ok(updated(target, Judge::default(), Part::Status, current, marked(&current.tree, now), &mut Vec::new())?)
                })
                .await?;
            // The revision is another one because of us.
            if let (Some(revision), WriteOutcome::Put { tree, .. }) = (&mut options.resource_version, &marked) {
                tree::text(tree, &["metadata", "resourceVersion"]).clone_into(revision);
            }
        }
        self.delete_by_server(target, &options).await.map(drop)
    }
}

/// How the Pod is deleted, as the eviction and its query say.
fn options(eviction: &Value, target: &ObjectRef, dry_run: bool) -> Result<DeleteOptions, WriteError> {
    let Some(sent) = tree::at(eviction, &["deleteOptions"]) else { return Ok(DeleteOptions { dry_run, ..DeleteOptions::default() }) };
    if sent[UNREAD] == true {
        let of = StatusSubject { group: "policy".to_owned(), kind: "Eviction".to_owned(), name: target.name.clone() };
        let why = "can not be set for pod eviction, try after removing the option";
        return Err(WriteError::Invalid { of, errors: vec![FieldError::invalid(format!("deleteOptions.{UNREAD}"), &true.into(), why)] });
    }
    let mut sent = sent.clone();
    ["kind", "apiVersion"].iter().for_each(|name| drop(tree::object(&mut sent).remove(*name)));
    let parsed = DeleteOptions::parse(MalformedDeletion::On, &Query::parse(""), Syntax::Json, sent.to_string().as_bytes());
    let options = parsed.map_err(|error| match error {
        DeleteOptionsError::BadRequest(message) => WriteError::BadRequest(message),
        DeleteOptionsError::Invalid(errors) => WriteError::Invalid { of: StatusSubject::options("DeleteOptions"), errors },
    })?;
    Ok(DeleteOptions { dry_run: dry_run || options.dry_run, ..options })
}

/// Whether a Pod that is not ready may go without being counted: its budget does not care, or has enough that are.
fn may_go_unready(pod: &Value, budget: &Value) -> bool {
    let conditions = tree::at(pod, &["status", "conditions"]).and_then(Value::as_array).into_iter().flatten();
    let is_ready = conditions.into_iter().find(|condition| tree::text(condition, &["type"]) == "Ready");
    if is_ready.is_some_and(|condition| tree::text(condition, &["status"]) == "True") {
        return false;
    }
    let number = |name: &str| tree::integer(budget, &["status", name]).unwrap_or(0);
    let (healthy, wanted) = (number("currentHealthy"), number("desiredHealthy"));
    tree::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow" || healthy >= wanted && wanted > 0
}

/// The budget with one disruption less.
fn disrupted(budget: &Value, pod: &str, now: OffsetDateTime) -> Result<Value, WriteError> {
    let (name, number) = (tree::text(budget, &["metadata", "name"]), |path: &[&str]| tree::integer(budget, path).unwrap_or(0));
    let forbidden = |why: &str| {
        let of = StatusSubject { group: "policy".to_owned(), kind: "poddisruptionbudget".to_owned(), name: name.to_owned() };
        Err(WriteError::Forbidden { of, why: why.to_owned(), cause: None })
    };
    let observed = number(&["status", "observedGeneration"]);
    if observed < number(&["metadata", "generation"]) {
        return Err(unprocessed(name));
    }
    let allowed = number(&["status", "disruptionsAllowed"]);
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if tree::at(budget, &["status", "disruptedPods"]).and_then(Value::as_object).is_some_and(|pods| pods.len() > DISRUPTED_MAX) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        return Err(WriteError::Disrupting { why: not_allowed(budget), retry_after: 0 });
    }
    let mut new = budget.clone();
    tree::set(&mut new, &["status", "disruptionsAllowed"], (allowed - 1).into());
    if allowed == 1 {
        set_insufficient(&mut new, observed, now);
    }
    tree::set(&mut new, &["status", "disruptedPods", pod], tree::rfc3339(now).into());
    Ok(new)
}

/// Why a budget allows nothing.
fn not_allowed(budget: &Value) -> String {
    let name = tree::text(budget, &["metadata", "name"]);
    let conditions = tree::at(budget, &["status", "conditions"]).and_then(Value::as_array).into_iter().flatten();
    let refusal = conditions
        .into_iter()
        .find(|condition| tree::text(condition, &["type"]) == "DisruptionAllowed")
        .filter(|condition| tree::text(condition, &["status"]) == "False" && !tree::text(condition, &["message"]).is_empty())
        .map(|condition| (tree::text(condition, &["reason"]), tree::text(condition, &["message"])));
    let number = |name: &str| tree::integer(budget, &["status", name]).unwrap_or(0);
    let (healthy, wanted) = (number("currentHealthy"), number("desiredHealthy"));
    match refusal {
        Some(("SyncFailed", message)) => {
            format!("The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}")
        }
        _ if healthy <= wanted => format!("The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"),
        Some((reason, message)) => format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

/// 429 of a budget that its controller has not looked at.
fn unprocessed(budget: &str) -> WriteError {
    WriteError::Disrupting { why: format!("The disruption budget {budget} is still being processed by the server."), retry_after: 10 }
}

/// Sets the condition `DisruptionAllowed` to false.
fn set_insufficient(budget: &mut Value, observed: i64, now: OffsetDateTime) {
    let mut condition = json!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": ""});
    if observed != 0 {
        condition["observedGeneration"] = observed.into();
    }
    tree::set_condition(budget, condition, now);
}

/// Returns the Pod with the condition that says why it is evicted.
fn marked(pod: &Value, now: OffsetDateTime) -> Value {
    let mut pod = pod.clone();
    let reason = "EvictionByEvictionAPI";
    let condition =
        json!({"type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "reason": reason, "message": "Eviction API: evicting"});
    tree::set_condition(&mut pod, condition, now);
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(status: Value) -> Value {
        json!({"metadata": {"name": "b", "generation": 2}, "spec": {}, "status": status})
    }

    #[test]
    fn a_budget_is_counted_down() {
        let now = tree::parsed("2026-01-02T03:04:05Z").expect("a time");
        let new = disrupted(&budget(json!({"observedGeneration": 2, "disruptionsAllowed": 2})), "p", now).expect("allowed");
        assert_eq!(
            new["status"],
            json!({"observedGeneration": 2, "disruptionsAllowed": 1, "disruptedPods": {"p": "2026-01-02T03:04:05Z"}})
        );
        let condition = json!({"type": "DisruptionAllowed", "status": "False", "observedGeneration": 2, "lastTransitionTime": "2026-01-02T03:04:05Z",
            "reason": "InsufficientPods", "message": ""});
        let last = disrupted(&budget(json!({"observedGeneration": 2, "disruptionsAllowed": 1})), "p", now).expect("allowed");
        assert_eq!((&last["status"]["disruptionsAllowed"], &last["status"]["conditions"]), (&json!(0), &json!([condition])));
    }

    #[test]
    fn a_budget_that_allows_nothing_says_why() {
        let now = tree::now();
        let why = |status: Value| match disrupted(&budget(status), "p", now) {
            Err(WriteError::Disrupting { why, retry_after }) => (why, retry_after),
            other => panic!("{other:?} where a refusal is expected"),
        };
        assert_eq!(
            why(json!({"observedGeneration": 1})),
            ("The disruption budget b is still being processed by the server.".to_owned(), 10)
        );
        let few = json!({"observedGeneration": 2, "currentHealthy": 1, "desiredHealthy": 3});
        assert_eq!(why(few), ("The disruption budget b needs 3 healthy pods and has 1 currently".to_owned(), 0));
        let failed = json!([{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "m"}]);
        assert_eq!(
            why(json!({"observedGeneration": 2, "conditions": failed})).0,
            "The disruption budget b does not allow evicting pods currently because it failed sync: m"
        );
        let negative = disrupted(&budget(json!({"observedGeneration": 2, "disruptionsAllowed": -1})), "p", now);
        assert!(matches!(negative, Err(WriteError::Forbidden { why, .. }) if why == "pdb disruptions allowed is negative"));
    }

    #[test]
    fn who_is_not_ready_may_go_when_enough_are() {
        let pod = |ready: &str| json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
        let enough = budget(json!({"currentHealthy": 3, "desiredHealthy": 3}));
        assert!(may_go_unready(&pod("False"), &enough) && !may_go_unready(&pod("True"), &enough));
        assert!(!may_go_unready(&pod("False"), &budget(json!({"currentHealthy": 2, "desiredHealthy": 3}))));
        assert!(!may_go_unready(&pod("False"), &budget(json!({}))), "nobody is wanted");
        let mut careless = budget(json!({}));
        careless["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow".into();
        assert!(may_go_unready(&json!({}), &careless));
    }
}
