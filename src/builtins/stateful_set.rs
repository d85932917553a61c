//! StatefulSets.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::{at::At, causes::Causes, equal, labels, meta, numbers, selectors, template};
use model::invalid::FieldError;

/// What an update may change of the spec.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];
const ABOVE_REPLICAS: &str = "cannot be greater than status.replicas";

/// What is not judged, because an update cannot change it or because it was wrong before.
#[derive(Clone, Copy, Debug, Default)]
struct Skipped {
    service_name_and_claims: bool,
    template: bool,
}

/// What is wrong with a new StatefulSet.
#[must_use]
pub fn create(set: &Value) -> Vec<FieldError> {
    let root = At::root(set);
    Causes::of(|causes| judge(&root.member("spec"), None, Skipped::default(), causes))
}

/// What is wrong with a change of a StatefulSet. A template may be wrong when the old set was.
#[must_use]
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let (old, spec) = (old.member("spec"), new.member("spec"));
    let mut skipped = Skipped { service_name_and_claims: true, template: false };
    skipped.template = !Causes::of(|causes| judge(&old, Some(&old), skipped, causes)).is_empty();
    Causes::of(|causes| {
        judge(&spec, Some(&old), skipped, causes);
        if !equal::same(&unchangeable(spec.value()), &unchangeable(old.value())) {
            let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                       'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            causes.forbidden(&spec, why);
        }
    })
}

fn unchangeable(spec: &Value) -> Value {
    let members = spec.as_object().into_iter().flatten().filter(|(name, _)| !CHANGEABLE.contains(&name.as_str()));
    members.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What is wrong with the status of a StatefulSet.
#[must_use]
pub fn update_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let (old, status) = (old.member("status"), new.member("status"));
    Causes::of(|causes| {
        let counters = [
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ];
        numbers::none_negative(&status, &counters, causes);
        let most = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        numbers::at_most(&status, &most, "replicas", ABOVE_REPLICAS, causes);
        numbers::at_most(&status, &["availableReplicas"], "readyReplicas", "cannot be greater than status.readyReplicas", causes);
        numbers::not_decremented(&status.member("collisionCount"), &old.member("collisionCount"), causes);
    })
}

fn judge(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, skipped: Skipped, causes: &mut Causes) {
    let management = spec.member("podManagementPolicy");
    match management.text() {
        "" => causes.required(&management, ""),
        "OrderedReady" | "Parallel" => {}
        _ => causes.invalid_json(&management, "must be 'OrderedReady' or 'Parallel'"),
    }
    strategy(&spec.member("updateStrategy"), causes);
    let retention = spec.member("persistentVolumeClaimRetentionPolicy");
    if retention.is_present() {
        retained(&retention.member("whenDeleted"), causes);
        retained(&retention.member("whenScaled"), causes);
    }
    if !skipped.service_name_and_claims {
        spec.member("volumeClaimTemplates").items().for_each(|claim| template::claim(&claim.member("spec"), causes));
    }
    numbers::none_negative(spec, &["replicas", "minReadySeconds"], causes);
    meta::not_negative(&spec.member("ordinals").member("start"), causes);
    let service = spec.member("serviceName");
    if !skipped.service_name_and_claims && !service.text().is_empty() {
        meta::label(&service, causes);
    }
    selected(spec, old, skipped, causes);
    template::always_running(&spec.member("template"), "StatefulSet", causes);
}

fn strategy(at: &At<'_, '_>, causes: &mut Causes) {
    let rolling = at.member("rollingUpdate");
    match at.member("type").text() {
        "" => causes.required(at, ""),
        "OnDelete" if rolling.is_present() => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            causes.invalid_shown(&rolling, "apps.RollingUpdateStatefulSetStrategy", why);
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            meta::not_negative(&rolling.member("partition"), causes);
            let unavailable = rolling.member("maxUnavailable");
            if unavailable.is_present() {
                numbers::number_or_percent(&unavailable, causes);
                if numbers::number_of(&unavailable) == 0 {
                    causes.invalid_shown(&unavailable, "intorstring", "cannot be 0");
                }
                numbers::at_most_all(&unavailable, causes);
            }
        }
        _ => causes.invalid_shown(at, "apps.StatefulSetUpdateStrategy", "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

/// What becomes of claims.
fn retained(at: &At<'_, '_>, causes: &mut Causes) {
    if !matches!(at.text(), "Retain" | "Delete") {
        causes.not_supported_shown(at, "string", &["Retain", "Delete"]);
    }
}

/// The selector, and the template as its Pods have it: the set names hosts, and brings the volumes of its claims.
fn selected(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, skipped: Skipped, causes: &mut Causes) {
    let (own, pods) = (spec.member("selector"), spec.member("template"));
    template::selector(&own, "statefulset", causes);
    if !selectors::is_usable(&own) {
        causes.invalid_shown(&own, template::SELECTOR, "");
        return;
    }
    if own.is_absent() || !selectors::is_empty(&own) {
        template::selected(&own, &pods, causes);
    }
    let whole = with_claims(&pods, &spec.member("volumeClaimTemplates"));
    let judged = pods.with(&whole);
    let old = old.map(|old| old.member("template"));
    if !skipped.template {
        template::pods(&judged, old.as_ref(), causes);
    }
    // Both are judged again, at a path where they are not.
    let metadata = pods.member("metadata");
    let (labels, annotations) = (pods.member("labels"), pods.member("annotations"));
    labels::labels(&labels.with(metadata.member("labels").value()), causes);
    let again = annotations.with(metadata.member("annotations").value());
    labels::annotations(&again, causes);
    template::pod_annotations(&again, &judged.member("spec"), old.as_ref(), causes);
}

/// Returns the template with the volumes of the claims, without the names of hosts.
fn with_claims(pods: &At<'_, '_>, claims: &At<'_, '_>) -> Value {
    let mut whole = template::without(pods.value(), &["subdomain", "hostname"]);
    if claims.len() > 0 {
        let names: HashSet<&str> = claims.items().map(|claim| claim.member("metadata").member("name").text()).collect();
        let mut listed: Vec<&str> = names.iter().copied().collect();
        listed.sort_unstable();
        let brought = listed.into_iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let spec = pods.member("spec");
        let own = spec.member("volumes");
        let kept = own.items().filter(|volume| !names.contains(volume.member("name").text())).map(|volume| volume.value().clone());
        let volumes: Vec<Value> = brought.chain(kept).collect();
        if let Some(spec) = whole.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("volumes".to_owned(), volumes.into());
        }
    }
    whole
}
