//! Deployments, ReplicaSets and ReplicationControllers: so many Pods of one template.

use serde_json::{Map, Value};

use crate::{at::At, causes::Causes, meta, numbers, template};
use model::invalid::FieldError;

const ABOVE_REPLICAS: &str = "cannot be greater than status.replicas";
const ABOVE_READY: &str = "cannot be greater than readyReplicas";

/// What is wrong with a new Deployment.
#[must_use]
pub fn create_deployment(object: &Value) -> Vec<FieldError> {
    let root = At::root(object);
    Causes::of(|causes| deployment(&root.member("spec"), None, causes))
}

/// What is wrong with a change of a Deployment.
#[must_use]
pub fn update_deployment(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let (old, spec) = (old.member("spec"), new.member("spec"));
    Causes::of(|causes| {
        deployment(&spec, Some(&old), causes);
        template::same_selector(&spec, &old, causes);
    })
}

/// What is wrong with the status of a Deployment.
#[must_use]
pub fn update_deployment_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let (old, status) = (old.member("status"), new.member("status"));
    Causes::of(|causes| {
        let counters = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ];
        numbers::none_negative(&status, &counters, causes);
        numbers::at_most(&status, &["updatedReplicas", "readyReplicas", "availableReplicas"], "replicas", ABOVE_REPLICAS, causes);
        numbers::at_most(&status, &["availableReplicas"], "readyReplicas", ABOVE_READY, causes);
        numbers::not_decremented(&status.member("collisionCount"), &old.member("collisionCount"), causes);
    })
}

fn deployment(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    meta::not_negative(&spec.member("replicas"), causes);
    template::of_replicas(spec, old, causes);
    strategy(&spec.member("strategy"), causes);
    numbers::none_negative(spec, &["minReadySeconds", "revisionHistoryLimit"], causes);
    let deadline = spec.member("progressDeadlineSeconds");
    meta::not_negative(&deadline, causes);
    if deadline.some_integer().is_some_and(|deadline| deadline <= spec.member("minReadySeconds").integer()) {
        causes.invalid(&deadline, "must be greater than minReadySeconds");
    }
}

/// How a Deployment replaces its Pods.
fn strategy(at: &At<'_, '_>, causes: &mut Causes) {
    let rolling = at.member("rollingUpdate");
    match at.member("type").text() {
        "Recreate" if rolling.is_present() => {
            causes.forbidden(&rolling, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" if rolling.is_absent() => causes.required(&rolling, "this should be defaulted and never be nil"),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.member("maxUnavailable"), rolling.member("maxSurge"));
            numbers::number_or_percent(&unavailable, causes);
            numbers::number_or_percent(&surge, causes);
            if numbers::number_of(&unavailable) == 0 && numbers::number_of(&surge) == 0 {
                causes.invalid_shown(&unavailable, "intorstring", "may not be 0 when `maxSurge` is 0");
            }
            numbers::at_most_all(&unavailable, causes);
        }
        _ => causes.not_supported_shown(at, "apps.DeploymentStrategy", &["Recreate", "RollingUpdate"]),
    }
}

/// What is wrong with a new ReplicaSet.
#[must_use]
pub fn create_replica_set(set: &Value) -> Vec<FieldError> {
    let root = At::root(set);
    Causes::of(|causes| replica_set(&root.member("spec"), None, causes))
}

/// What is wrong with a change of a ReplicaSet.
#[must_use]
pub fn update_replica_set(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let (old, spec) = (old.member("spec"), new.member("spec"));
    Causes::of(|causes| {
        replica_set(&spec, Some(&old), causes);
        template::same_selector(&spec, &old, causes);
    })
}

fn replica_set(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    numbers::none_negative(spec, &["replicas", "minReadySeconds"], causes);
    template::of_replicas(spec, old, causes);
}

/// What is wrong with the status of a ReplicaSet.
#[must_use]
pub fn update_replica_set_status(_old: &Value, new: &Value) -> Vec<FieldError> {
    let root = At::root(new);
    let status = root.member("status");
    Causes::of(|causes| {
        numbers_of_replicas(&status, causes, true);
    })
}

/// The counters of a ReplicaSet, or of a ReplicationController, which does not count Pods that end.
fn numbers_of_replicas(status: &At<'_, '_>, causes: &mut Causes, has_terminating: bool) {
    let counters = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
    numbers::none_negative(status, &counters, causes);
    if has_terminating {
        meta::not_negative(&status.member("terminatingReplicas"), causes);
    }
    numbers::at_most(status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], "replicas", ABOVE_REPLICAS, causes);
    numbers::at_most(status, &["availableReplicas"], "readyReplicas", ABOVE_READY, causes);
}

/// What is wrong with a new ReplicationController.
#[must_use]
pub fn create_replication_controller(controller: &Value) -> Vec<FieldError> {
    let root = At::root(controller);
    Causes::of(|causes| replication_controller(&root.member("spec"), None, causes))
}

/// What is wrong with a change of a ReplicationController.
#[must_use]
pub fn update_replication_controller(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let old = old.member("spec");
    Causes::of(|causes| replication_controller(&new.member("spec"), Some(&old), causes))
}

/// What is wrong with the status of a ReplicationController.
#[must_use]
pub fn update_replication_controller_status(_old: &Value, new: &Value) -> Vec<FieldError> {
    let root = At::root(new);
    Causes::of(|causes| numbers_of_replicas(&root.member("status"), causes, false))
}

fn replication_controller(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    let (selector, replicas, own) = (spec.member("selector"), spec.member("replicas"), spec.member("template"));
    meta::not_negative(&spec.member("minReadySeconds"), causes);
    if selector.len() == 0 {
        causes.required(&selector, "");
    }
    if replicas.is_absent() {
        causes.required(&replicas, "");
    }
    meta::not_negative(&replicas, causes);
    if own.is_absent() {
        causes.required(&own, "");
        return;
    }
    let metadata = own.member("metadata");
    let labels = metadata.member("labels");
    let has = |labels: Option<&Map<String, Value>>, key: &str, value: &Value| labels.is_some_and(|labels| labels.get(key) == Some(value));
    if !selector.entries().all(|(key, value)| has(labels.map(), key, value.value())) {
        causes.invalid(&labels, "`selector` does not match template `labels`");
    }
    let old = old.map(|old| old.member("template"));
    template::pods(&own, old.as_ref(), causes);
    template::always_running(&own, "ReplicationController", causes);
}
