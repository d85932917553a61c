//! What an update may change of a Job: most of its spec is for ever, but of one that is suspended where its Pods run and what they get.

use serde_json::{Map, Value, json};

use crate::{at::At, causes::Causes, equal, numbers, template};

/// What a suspended Job may change of its Pods' spec besides node affinity.
const DIRECTIVES: [&str; 3] = ["nodeSelector", "tolerations", "schedulingGates"];

/// What may not change.
pub(crate) fn changes(old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) {
    let (was, spec) = (old.member("spec"), new.member("spec"));
    completions(&spec, &was, causes);
    template::same_selector(&spec, &was, causes);
    pods(old, &spec, causes);
    for (member, kind) in [
        ("completionMode", "*string"),
        ("podFailurePolicy", "*batch.PodFailurePolicy"),
        ("backoffLimitPerIndex", "*int"),
        ("managedBy", "*string"),
        ("successPolicy", "*batch.SuccessPolicy"),
    ] {
        numbers::immutable(&spec.member(member), &was.member(member), kind, causes);
    }
}

fn completions(spec: &At<'_, '_>, old: &At<'_, '_>, causes: &mut Causes) {
    let (new, was) = (spec.member("completions"), old.member("completions"));
    if spec.member("completionMode").text() != "Indexed" {
        numbers::immutable(&new, &was, "*int", causes);
    } else if new.value() != was.value() && new.is_present() && new.integer() != spec.member("parallelism").integer() {
        causes.invalid(&new, "can only be modified in tandem with spec.parallelism");
    }
}

/// The template, of which nothing changes unless the Job is suspended and no Pod of it runs.
fn pods(old: &At<'_, '_>, spec: &At<'_, '_>, causes: &mut Causes) {
    let was = old.member("spec");
    let template = spec.member("template");
    let of_old = was.member("template");
    let is_loose = is_at_rest(old);
    let mut wanted = of_old.value().clone();
    if is_loose {
        take_directives(template.value(), &mut wanted);
    }
    if !is_loose {
        if !equal::same(&wanted, template.value()) {
            causes.invalid_shown(&template, "core.PodTemplateSpec", "field is immutable");
        }
        return;
    }
    take_resources(template.value(), &mut wanted, "containers");
    take_resources(template.value(), &mut wanted, "initContainers");
    let pod = template.member("spec");
    if !equal::same(&wanted["spec"], pod.value()) {
        causes.invalid_shown(&pod, "core.PodSpec", "field is immutable");
    }
}

/// Whether a Job is suspended, and either has never started or has been found suspended, and no Pod of it is active.
fn is_at_rest(job: &At<'_, '_>) -> bool {
    let status = job.member("status");
    let conditions = status.member("conditions");
    let is_found = conditions.items().any(|it| it.member("type").text() == "Suspended" && it.member("status").text() == "True");
    job.member("spec").member("suspend").is_true()
        && (status.member("startTime").is_absent() || is_found)
        && status.member("active").integer() == 0
}

/// Gives a template what another says about where its Pods run, and its labels and annotations.
fn take_directives(from: &Value, template: &mut Value) {
    take_node_affinity(&from["spec"]["affinity"], &mut template["spec"]);
    for name in DIRECTIVES {
        take(&from["spec"], &mut template["spec"], name);
    }
    for name in ["annotations", "labels"] {
        take(&from["metadata"], &mut template["metadata"], name);
    }
}

fn take_node_affinity(from: &Value, spec: &mut Value) {
    const NODE: &str = "nodeAffinity";
    let Some(affinity) = spec.get_mut("affinity").filter(|affinity| !affinity.is_null()) else {
        if !from.is_null() {
            spec["affinity"] = json!({NODE: from[NODE]});
        }
        return;
    };
    take(from, affinity, NODE);
    let is_empty = affinity.as_object().is_none_or(|members| members.values().all(Value::is_null));
    if from.is_null() && is_empty {
        spec["affinity"] = Value::Null;
    }
}

/// Gives a member to an object, or takes it away.
fn take(from: &Value, to: &mut Value, name: &str) {
    if to.is_null() {
        *to = Value::Object(Map::new());
    }
    if let Some(members) = to.as_object_mut() {
        members.insert(name.to_owned(), from[name].clone());
    }
}

/// Gives containers the resources of those of the same place and name, if both are as many.
fn take_resources(from: &Value, template: &mut Value, containers: &str) {
    let from = from["spec"][containers].as_array().map_or(&[][..], Vec::as_slice);
    let Some(containers) = template["spec"].get_mut(containers).and_then(Value::as_array_mut) else { return };
    if containers.len() != from.len() {
        return;
    }
    for (new, old) in from.iter().zip(containers).filter(|(new, old)| new["name"] == old["name"]) {
        take(new, old, "resources");
    }
}
