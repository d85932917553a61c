//! Parts of a Pod that have a path of their own, `/ephemeralcontainers` and `/resize`, and the AppArmor profile that an annotation stands for
//! (`pkg/registry/core/pod`).

use serde_json::{Value, json};

use crate::write::tree;

/// Annotations that once said what AppArmor lets a container do.
const APP_ARMOR_OF: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Bytes of the name of a profile.
const PROFILE_BYTES_MAX: usize = 4_095;
/// The lists of containers whose resources may change.
const RESIZED: [&str; 2] = ["initContainers", "containers"];

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

fn containers<'a>(pod: &'a Value, list: &str) -> &'a [Value] {
    tree::at(pod, &["spec", list]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn name(container: &Value) -> &str {
    tree::text(container, &["name"])
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn resources_are_taken_over() {
        let pod = |resources: Value| json!({"metadata": {}, "spec": {"containers": [{"name": "a", "image": "i", "resources": resources}]}});
        let old = pod(json!({"requests": {"cpu": "1"}, "limits": {"gpu": "1"}}));
        let mut wanted = pod(json!({"requests": {"cpu": "2"}}));
        wanted["spec"]["containers"][0]["image"] = "other".into();
        assert_eq!(with_resources(&old, wanted, &[]), pod(json!({"requests": {"cpu": "2"}})));
        let none = json!({"metadata": {}, "spec": {"containers": []}});
        assert_eq!(with_resources(&old, none.clone(), &[]), none);
    }
}
