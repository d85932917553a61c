//! Parts of a Pod that have a path of their own, `/ephemeralcontainers` and `/resize`, and the AppArmor profile that an annotation stands for (`pkg/registry/core/pod`).

use serde_json::{Map, Value, json};

use super::{pod, tree};
use go::quote::quoted;
use model::invalid::FieldError;

/// Annotations that once said what AppArmor lets a container do.
const APP_ARMOR_OF: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Bytes of the name of a profile.
const PROFILE_BYTES_MAX: usize = 4_095;
/// The annotation of a Pod that a kubelet shows and does not take from here.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The lists of containers whose resources may change.
const RESIZED: [&str; 2] = ["initContainers", "containers"];
/// The resources that may change.
const MUTABLE: [&str; 2] = ["cpu", "memory"];

/// Gives containers of a new Pod the AppArmor profiles that its annotations name, and tells that those are deprecated.
pub(super) fn confine(pod: &mut Value, warnings: &mut Vec<String>) {
    if tree::text(pod, &["spec", "os", "name"]) == "windows" {
        return;
    }
    let annotations = tree::metadata(pod).get("annotations").cloned().unwrap_or_default();
    let whole = tree::at(pod, &["spec", "securityContext", "appArmorProfile"]).cloned();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let key = format!("{APP_ARMOR_OF}{}", tree::text(container, &["name"]));
            let Some(annotation) = annotations.get(&key).and_then(Value::as_str) else { continue };
            if tree::at(container, &["securityContext", "appArmorProfile"]).is_some() {
                continue;
            }
            let profile = profile(annotation);
            if profile.is_some() && profile == whole {
                continue;
            }
            if let Some(profile) = profile {
                tree::set(container, &["securityContext", "appArmorProfile"], profile);
            }
            warnings.push(format!(r#"metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead"#));
        }
    }
}

/// The profile that an annotation means; none when it means no valid one.
fn profile(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        other => other
            .strip_prefix("localhost/")
            .filter(|name| !name.is_empty() && name.trim() == *name && name.len() <= PROFILE_BYTES_MAX)
            .map(|name| json!({"type": "Localhost", "localhostProfile": name})),
    }
}

/// The Pod with other ephemeral containers, and with the metadata that was sent but for the members `kept`.
pub(super) fn with_ephemeral_containers(old: &Value, wanted: Value, kept: &[&str]) -> Value {
    let mut new = with_metadata(old, &wanted, kept);
    let sent = wanted.get("spec").and_then(Value::as_object).unwrap_or(&tree::NO_MEMBERS);
    tree::take_over(tree::member(&mut new, "spec"), sent, "ephemeralContainers");
    new
}

/// The Pod with other resources, and with the metadata that was sent but for the members `kept`. When the containers are others, all that was sent.
pub(super) fn with_resources(old: &Value, wanted: Value, kept: &[&str]) -> Value {
    if RESIZED.iter().any(|list| containers(old, list).len() != containers(&wanted, list).len()) {
        return wanted;
    }
    let mut new = with_metadata(old, &wanted, kept);
    let sent = wanted.get("spec").and_then(Value::as_object).unwrap_or(&tree::NO_MEMBERS);
    tree::take_over(tree::member(&mut new, "spec"), sent, "resources");
    for list in RESIZED {
        let (of_old, of_sent) = (containers(old, list), containers(&wanted, list));
        if of_old.iter().zip(of_sent).any(|(old, sent)| name(old) != name(sent)) {
            tree::take_over(tree::member(&mut new, "spec"), sent, list);
            continue;
        }
        let containers = new.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for (container, sent) in containers.into_iter().flatten().zip(of_sent) {
            let sent = sent.as_object().unwrap_or(&tree::NO_MEMBERS);
            ["resources", "resizePolicy"].iter().for_each(|member| tree::take_over(tree::object(container), sent, member));
        }
    }
    new
}

/// The object as it is, with the metadata that was sent but for the members `kept`.
fn with_metadata(old: &Value, wanted: &Value, kept: &[&str]) -> Value {
    let (mut new, mut metadata) = (old.clone(), tree::metadata(wanted).clone());
    kept.iter().for_each(|name| tree::take_over(&mut metadata, tree::metadata(old), name));
    tree::object(&mut new).insert("metadata".into(), metadata.into());
    new
}

/// What is wrong with ephemeral containers beside those that are there: these stay as they are.
pub(super) fn validate_ephemeral_containers(new: &Value, old: &Value) -> Vec<FieldError> {
    const LIST: &str = "ephemeralContainers";
    if is_mirror(old) {
        return vec![FieldError::forbidden("[]", "static pods do not support ephemeral containers")];
    }
    let forbidden = |old: &Value, what: &str| {
        FieldError::forbidden(
            "spec.ephemeralContainers",
            &format!("existing ephemeral containers {} may not be {what}\n", quoted(name(old))),
        )
    };
    let changed = containers(old, LIST).iter().filter_map(|old| match containers(new, LIST).iter().rfind(|new| name(new) == name(old)) {
        None => Some(forbidden(old, "removed")),
        Some(new) => (new != old).then(|| forbidden(old, "changed")),
    });
    changed.collect()
}

/// What is wrong with other resources: which may change, and of which Pods.
pub(super) fn validate_resources(new: &Value, old: &Value) -> Vec<FieldError> {
    if is_mirror(old) {
        return vec![FieldError::forbidden("[]", "static pods cannot be resized")];
    }
    if tree::text(old, &["spec", "os", "name"]) == "windows" {
        return vec![FieldError::forbidden("[]", "windows pods cannot be resized")];
    }
    let mut errors = Vec::new();
    if pod::known_class(old) != pod::class(new) {
        let class = tree::text(new, &["status", "qosClass"]);
        errors.push(FieldError::invalid("spec", &class.into(), "Pod QOS Class may not change as a result of resizing"));
    }
    let running = |status: &&Value| tree::at(status, &["state", "running"]).is_some();
    let statuses = tree::at(old, &["status", "containerStatuses"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if statuses.iter().find(running).is_some_and(|status| tree::at(status, &["resources"]).is_none()) {
        errors.push(FieldError::forbidden("spec", "Pod running on node without support for resize"));
    }
    whole_resources(new, old, &mut errors);
    if !tree::at(old, &["status", "nodeAllocatableResourceClaimStatuses"]).and_then(Value::as_array).is_none_or(Vec::is_empty) {
        errors.push(FieldError::forbidden("spec", "pods with node allocatable resource claims cannot be resized"));
    }
    let others = other_containers(new, old);
    if !others.is_empty() {
        errors.extend(others);
        return errors;
    }
    for list in RESIZED {
        for (i, (new, old)) in containers(new, list).iter().zip(containers(old, list)).enumerate() {
            removed(&format!("spec.{list}[{i}].resources"), "resource", &new["resources"], &old["resources"], &mut errors);
        }
    }
    let differs = |new: &Value, old: &Value| with_mutable_of(new, old) != without_empty(old);
    for (new, old) in containers(new, "containers").iter().zip(containers(old, "containers")) {
        if differs(new, old) {
            errors.push(FieldError::forbidden("spec", "only cpu and memory resources are mutable"));
        }
    }
    for (i, (new, old)) in containers(new, "initContainers").iter().zip(containers(old, "initContainers")).enumerate() {
        let at = format!("spec.initContainers[{i}]");
        if differs(new, old) {
            errors.push(FieldError::forbidden(&*at, "only cpu and memory resources for init or sidecar containers are mutable"));
        }
        let restarts = |policy: &Value| tree::text(policy, &["restartPolicy"]) == "RestartContainer";
        let policies = tree::at(new, &["resizePolicy"]).and_then(Value::as_array);
        if new != old && tree::text(new, &["restartPolicy"]) != "Always" {
            let count = policies.into_iter().flatten().filter(|policy| restarts(policy)).count();
            let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            errors.extend((0..count).map(|_| FieldError::forbidden(&*at, why)));
        }
    }
    errors
}

/// What is wrong with the resources of the whole Pod.
fn whole_resources(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let none = Value::Null;
    let of = |pod: &Value| tree::at(pod, &["spec", "resources"]).cloned();
    match (of(old), of(new)) {
        (Some(_), None) => errors.push(FieldError::forbidden("spec.resources", "pod-level resources cannot be removed")),
        (old, Some(new)) => {
            if let Some(old) = &old {
                removed("spec.resources", "pod-level resource", &new, old, errors);
            }
            let old = old.as_ref().unwrap_or(&none);
            let as_container = |resources: &Value| json!({"resources": resources});
            let masked = with_mutable_of(&as_container(&new), &as_container(old));
            let has_other = masked != without_empty(&as_container(old)) || tree::at(&new, &["claims"]) != tree::at(old, &["claims"]);
            if has_other {
                errors.push(FieldError::forbidden("spec", "only cpu and memory resources are mutable at pod-level"));
            }
        }
        (None, None) => {}
    }
}

/// Resources that were asked for or limited and are no longer named.
fn removed(at: &str, what: &str, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for list in ["requests", "limits"] {
        let (new, old) = (amounts(new, list), amounts(old, list));
        if old.keys().any(|name| !new.contains_key(name)) {
            errors.push(FieldError::forbidden(format!("{at}.{list}"), &format!("{what} {list} cannot be removed")));
        }
    }
}

/// A container as it would be had nothing of the resources changed that may change.
fn with_mutable_of(new: &Value, old: &Value) -> Value {
    let mut lists = Map::new();
    for list in ["limits", "requests"] {
        let mut amounts = amounts(&new["resources"], list).clone();
        MUTABLE.iter().for_each(|name| tree::take_over(&mut amounts, self::amounts(&old["resources"], list), name));
        lists.insert(list.to_owned(), amounts.into());
    }
    let mut masked = new.clone();
    tree::set(&mut masked, &["resources"], lists.into());
    without_empty(&masked)
}

/// A container whose resources name no empty lists.
fn without_empty(container: &Value) -> Value {
    let mut container = container.clone();
    let resources = tree::member(&mut container, "resources");
    resources.retain(|_, list| !list.is_null() && list.as_object().is_none_or(|list| !list.is_empty()));
    container
}

/// Containers that came, went, or stand elsewhere.
fn other_containers(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for list in ["containers", "initContainers"] {
        let (new, old) = (containers(new, list), containers(old, list));
        if new.len() != old.len() {
            errors.push(FieldError::forbidden(format!("spec.{list}"), &format!("{list} may not be added or removed on resize")));
            continue;
        }
        let moved = new.iter().zip(old).enumerate().filter(|(_, (new, old))| name(new) != name(old));
        let why = format!("{list} may not be renamed or reordered on resize");
        errors.extend(moved.map(|(i, _)| FieldError::forbidden(format!("spec.{list}[{i}].name"), &why)));
    }
    errors
}

fn is_mirror(pod: &Value) -> bool {
    tree::metadata(pod).get("annotations").is_some_and(|annotations| annotations.get(MIRROR).is_some())
}

fn containers<'a>(pod: &'a Value, list: &str) -> &'a [Value] {
    tree::at(pod, &["spec", list]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn name(container: &Value) -> &str {
    tree::text(container, &["name"])
}

fn amounts<'a>(resources: &'a Value, list: &str) -> &'a Map<String, Value> {
    resources.get(list).and_then(Value::as_object).unwrap_or(&tree::NO_MEMBERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
    }

    #[test]
    fn annotations_become_profiles() {
        let annotated =
            |profile: &str, spec: Value| json!({"metadata": {"annotations": {format!("{APP_ARMOR_OF}c"): profile}}, "spec": spec});
        let of = |profile: &str, spec: Value| {
            let (mut pod, mut told) = (annotated(profile, spec), Vec::new());
            confine(&mut pod, &mut told);
            (tree::at(&pod["spec"]["containers"][0], &["securityContext", "appArmorProfile"]).cloned(), told.len())
        };
        let plain = || json!({"containers": [{"name": "c"}]});
        assert_eq!(of("unconfined", plain()), (Some(json!({"type": "Unconfined"})), 1));
        assert_eq!(of("runtime/default", plain()), (Some(json!({"type": "RuntimeDefault"})), 1));
        assert_eq!(of("localhost/p", plain()), (Some(json!({"type": "Localhost", "localhostProfile": "p"})), 1));
        for none in ["localhost/", "localhost/ p", "other"] {
            assert_eq!(of(none, plain()), (None, 1), "{none}");
        }
        let same = json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}, "containers": [{"name": "c"}]});
        assert_eq!(of("unconfined", same), (None, 0));
        assert_eq!(of("unconfined", json!({"os": {"name": "windows"}, "containers": [{"name": "c"}]})), (None, 0));
        assert_eq!(of("unconfined", json!({"containers": [{"name": "d"}]})), (None, 0));
    }

    #[test]
    fn ephemeral_containers_are_added_only() {
        let pod = |containers: Value| json!({"metadata": {"labels": {"a": "1"}}, "spec": {"x": 1, "ephemeralContainers": containers}});
        let old = pod(json!([{"name": "a", "image": "i"}]));
        let mut wanted = pod(json!([{"name": "b"}, {"name": "a", "image": "i"}]));
        wanted["spec"]["x"] = 2.into();
        wanted["metadata"] = json!({"labels": {"b": "2"}});
        let new = with_ephemeral_containers(&old, wanted, &["labels"]);
        assert_eq!(new, pod(json!([{"name": "b"}, {"name": "a", "image": "i"}])));
        assert_eq!(validate_ephemeral_containers(&new, &old), []);
        assert_eq!(
            texts(&validate_ephemeral_containers(&pod(json!([{"name": "b"}])), &old)),
            ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"a\" may not be removed\n"]
        );
        assert_eq!(
            texts(&validate_ephemeral_containers(&pod(json!([{"name": "a", "image": "j"}])), &old)),
            ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"a\" may not be changed\n"]
        );
    }

    #[test]
    fn cpu_and_memory_may_change() {
        let pod = |resources: Value| json!({"metadata": {}, "spec": {"containers": [{"name": "a", "image": "i", "resources": resources}]}, "status": {"qosClass": "Burstable"}});
        let old = pod(json!({"requests": {"cpu": "1"}, "limits": {"gpu": "1"}}));
        let resized = |resources: Value| {
            let mut wanted = pod(resources);
            wanted["spec"]["containers"][0]["image"] = "other".into();
            let new = with_resources(&old, wanted, &[]);
            assert_eq!(new["spec"]["containers"][0]["image"], "i");
            texts(&validate_resources(&new, &old))
        };
        assert_eq!(resized(json!({"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"gpu": "1"}})), [""; 0]);
        assert_eq!(
            resized(json!({"requests": {"cpu": "2"}, "limits": {"gpu": "2"}})),
            ["spec: Forbidden: only cpu and memory resources are mutable"]
        );
        assert_eq!(
            resized(json!({"requests": {"memory": "1"}, "limits": {"gpu": "1"}})),
            ["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"]
        );
        let none = json!({"metadata": {}, "spec": {"containers": []}, "status": {"qosClass": "Burstable"}});
        let errors = texts(&validate_resources(&with_resources(&old, none, &[]), &old));
        assert_eq!(errors.last().map(String::as_str), Some("spec.containers: Forbidden: containers may not be added or removed on resize"));
    }
}
