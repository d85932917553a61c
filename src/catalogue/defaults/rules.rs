//! Defaults that depend on more than one member, by the names that `table.txt` has for them.

use serde_json::{Map, Value, json};

use super::image;
use codec::drop_carriers;
use go::quantity;

/// What is done to an object.
pub(super) type Rule = fn(&mut Map<String, Value>);

/// Seconds for which a client stays with its Pod (`DefaultClientIPServiceAffinitySeconds`).
const AFFINITY_SECONDS: u32 = 10_800;

/// The rule of this name.
pub(super) fn named(name: &str) -> Option<Rule> {
    Some(match name {
        "account" => account,
        "affinity-timeout" => affinity_timeout,
        "allocatable" => allocatable,
        "balancer-mode" => balancer_mode,
        "container-limits" => container_limits,
        "external-addresses" => external_addresses,
        "name-label" => name_label,
        "pod-addresses" => |status| twins(status, "podIP", "podIPs", Some("ip")),
        "pod-ranges" => |spec| twins(spec, "podCIDR", "podCIDRs", None),
        "positive-grace" => positive_grace,
        "without-init-annotations" => without_init_annotations,
        "image" => |container| pull_policy(container, "image", "imagePullPolicy"),
        "pull-policy" => |volume| pull_policy(volume, "reference", "pullPolicy"),
        "requests" => |resources| fill_from(resources, "requests", "limits"),
        "selector" => selector,
        "template-labels" => template_labels,
        "volume-source" => volume_source,
        "whole-milli" => whole_milli,
        "without-carriers" => drop_carriers,
        "without-affinity" => |spec| drop(spec.remove("sessionAffinityConfig")),
        _ => return None,
    })
}

/// Both names of a member that was renamed.
fn account(spec: &mut Map<String, Value>) {
    let named = |name: &&str| spec.get(*name).filter(|value| value.as_str().is_some_and(|text| !text.is_empty()));
    if let Some(value) = ["serviceAccountName", "serviceAccount"].iter().find_map(named).cloned() {
        spec.insert("serviceAccount".to_owned(), value.clone());
        spec.insert("serviceAccountName".to_owned(), value);
    }
}

/// A member that became a list is its first element, and the list without it is the older member alone; an older member that is another wins.
fn twins(of: &mut Map<String, Value>, one: &str, many: &str, inner: Option<&str>) {
    let text = |value: &Value| inner.map_or(Some(value), |name| value.get(name)).and_then(Value::as_str).unwrap_or_default().to_owned();
    let own = of.get(one).and_then(Value::as_str).unwrap_or_default().to_owned();
    let first = of.get(many).and_then(Value::as_array).and_then(|all| all.first()).map(text);
    match first {
        Some(first) if own.is_empty() || own == first => drop(of.insert(one.to_owned(), first.into())),
        _ if own.is_empty() => {}
        _ => {
            let element = inner.map_or_else(|| own.as_str().into(), |name| json!({name: own}));
            of.insert(many.to_owned(), json!([element]));
        }
    }
}

/// A Pod that is to end before now ends in a second; a template keeps what it says.
fn positive_grace(spec: &mut Map<String, Value>) {
    const GRACE: &str = "terminationGracePeriodSeconds";
    if spec.get(GRACE).and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert(GRACE.to_owned(), 1.into());
    }
}

/// What old clients wrote before there were init containers.
fn without_init_annotations(metadata: &mut Map<String, Value>) {
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return };
    for name in ["init-containers", "init-container-statuses"] {
        for stage in ["alpha", "beta"] {
            annotations.remove(&format!("pod.{stage}.kubernetes.io/{name}"));
        }
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// A namespace that has a name has it as a label too.
fn name_label(metadata: &mut Map<String, Value>) {
    let Some(name) = metadata.get("name").filter(|name| name.as_str().is_some_and(|name| !name.is_empty())).cloned() else { return };
    if let Value::Object(labels) = metadata.entry("labels").or_insert_with(|| json!({})) {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name);
    }
}

/// An image is asked for every time when its tag may move.
fn pull_policy(of: &mut Map<String, Value>, reference: &str, policy: &str) {
    if !of.contains_key(policy) {
        let latest = image::is_latest(of.get(reference).and_then(Value::as_str).unwrap_or(""));
        of.insert(policy.to_owned(), if latest { "Always" } else { "IfNotPresent" }.into());
    }
}

/// Gives the map `to` the entries of the map `from` that it lacks. `to` is made when `from` is there.
fn fill_from(members: &mut Map<String, Value>, to: &str, from: &str) {
    let Some(Value::Object(from)) = members.get(from).cloned() else { return };
    if let Value::Object(to) = members.entry(to).or_insert_with(|| json!({})) {
        from.into_iter().for_each(|(name, value)| {
            to.entry(name).or_insert(value);
        });
    }
}

/// A limit that is not told is the maximum; a request that is not told is the limit, else the minimum.
fn container_limits(item: &mut Map<String, Value>) {
    for (to, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
        fill_from(item, to, from);
    }
}

/// All of a node is there for Pods, unless it says otherwise.
fn allocatable(status: &mut Map<String, Value>) {
    if !status.contains_key("allocatable") {
        fill_from(status, "allocatable", "capacity");
    }
}

/// Quantities are kept to a thousandth, rounded up.
fn whole_milli(list: &mut Map<String, Value>) {
    for value in list.values_mut() {
        if let Some(rounded) = value.as_str().and_then(quantity::whole_milli) {
            *value = rounded.into();
        }
    }
}

/// A controller without labels has those of its template.
fn template_labels(object: &mut Map<String, Value>) {
    let Some(labels) = object.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned() else { return };
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.entry("labels").or_insert(labels);
    }
}

/// A controller without a selector selects the labels of its template.
fn selector(spec: &mut Map<String, Value>) {
    let Some(labels) = spec.get("template").and_then(|template| template.pointer("/metadata/labels")).cloned() else { return };
    spec.entry("selector").or_insert(labels);
}

/// A volume of no kind is an empty directory.
fn volume_source(volume: &mut Map<String, Value>) {
    if volume.keys().all(|name| name == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
}

fn affinity_timeout(spec: &mut Map<String, Value>) {
    let timeout = spec.get("sessionAffinityConfig").and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
    if timeout.is_none_or(Value::is_null) {
        spec.insert("sessionAffinityConfig".to_owned(), json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}}));
    }
}

/// A ClusterIP Service is reached from outside when it has addresses there.
fn external_addresses(spec: &mut Map<String, Value>) {
    if spec.get("externalIPs").and_then(Value::as_array).is_some_and(|addresses| !addresses.is_empty()) {
        spec.entry("externalTrafficPolicy").or_insert_with(|| "Cluster".into());
    }
}

/// An address of a load balancer is virtual unless it says otherwise.
fn balancer_mode(service: &mut Map<String, Value>) {
    if service.get("spec").and_then(|spec| spec.get("type")).and_then(Value::as_str) != Some("LoadBalancer") {
        return;
    }
    let ingress = service.get_mut("status").and_then(|status| status.pointer_mut("/loadBalancer/ingress"));
    for point in ingress.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
        if point.contains_key("ip") {
            point.entry("ipMode").or_insert_with(|| "VIP".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(name: &str, value: Value) -> Value {
        let Value::Object(mut members) = value else { panic!("an object") };
        named(name).expect("a rule")(&mut members);
        Value::Object(members)
    }

    #[test]
    fn a_map_gets_what_it_lacks() {
        let resources = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}});
        assert_eq!(after("requests", resources)["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
        let item = json!({"max": {"cpu": "4"}, "min": {"memory": "1Mi"}, "defaultRequest": {"cpu": "1"}});
        let item = after("container-limits", item);
        assert_eq!((&item["default"], &item["defaultRequest"]), (&json!({"cpu": "4"}), &json!({"cpu": "1", "memory": "1Mi"})));
    }

    #[test]
    fn twins_fill_each_other() {
        let after = |status: Value| after("pod-addresses", status);
        let both = json!({"podIP": "1", "podIPs": [{"ip": "1"}]});
        for alone in [json!({"podIP": "1"}), json!({"podIPs": [{"ip": "1"}]}), both.clone(), json!({"podIP": "1", "podIPs": []})] {
            assert_eq!(after(alone), both);
        }
        assert_eq!(after(json!({"podIP": "2", "podIPs": [{"ip": "1"}, {"ip": "3"}]})), json!({"podIP": "2", "podIPs": [{"ip": "2"}]}));
        assert_eq!(after(json!({})), json!({}));
        assert_eq!(super::tests::after("pod-ranges", json!({"podCIDR": "a"})), json!({"podCIDR": "a", "podCIDRs": ["a"]}));
    }

    #[test]
    fn a_pod_has_no_time_before_now_and_no_old_annotations() {
        assert_eq!(after("positive-grace", json!({"terminationGracePeriodSeconds": -30})), json!({"terminationGracePeriodSeconds": 1}));
        assert_eq!(after("positive-grace", json!({"terminationGracePeriodSeconds": 0})), json!({"terminationGracePeriodSeconds": 0}));
        let old = json!({"annotations": {"pod.beta.kubernetes.io/init-containers": "x"}});
        assert_eq!(after("without-init-annotations", old), json!({}));
    }

    #[test]
    fn a_namespace_has_its_name_as_a_label() {
        let named = after("name-label", json!({"name": "a", "labels": {"b": "c"}}));
        assert_eq!(named["labels"], json!({"b": "c", "kubernetes.io/metadata.name": "a"}));
        let nameless = json!({"generateName": "a"});
        assert_eq!(after("name-label", nameless.clone()), nameless);
    }

    #[test]
    fn a_service_stays_with_its_client_or_not() {
        let kept = json!({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}});
        assert_eq!(after("affinity-timeout", kept.clone()), kept);
        let made = after("affinity-timeout", json!({"sessionAffinityConfig": {"clientIP": {}}}));
        assert_eq!(made["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"], json!(10_800));
    }

    #[test]
    fn balancers_are_virtual() {
        let service =
            |kind: &str| json!({"spec": {"type": kind}, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"hostname": "h"}]}}});
        let made = after("balancer-mode", service("LoadBalancer"));
        assert_eq!(made["status"]["loadBalancer"]["ingress"], json!([{"ip": "10.0.0.1", "ipMode": "VIP"}, {"hostname": "h"}]));
        assert_eq!(after("balancer-mode", service("NodePort")), service("NodePort"));
    }
}
