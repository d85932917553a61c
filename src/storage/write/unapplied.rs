//! Objects that are stored and that a kube-apiserver would apply to other objects or to requests, which this server does not do yet. Their writer gets a
//! `Warning`, and the log has one line for each kind.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map, Value, json};

use super::{Writer, strategy::Part, tree};
use catalogue::definition;

/// A kind of object that is stored and not applied.
pub struct Unapplied {
    pub group: &'static str,
    pub resource: &'static str,
    /// The id of its storage.
    storage: &'static str,
    /// A text that the JSON of every such object has; objects without it are not decoded.
    pub mark: &'static str,
    /// The part of an object that is not applied, if it has any.
    part: fn(&Value) -> Option<Cow<'_, Value>>,
    /// What clients and the log are told.
    pub sentence: &'static str,
}

const fn row(
    (group, resource, storage): (&'static str, &'static str, &'static str),
    mark: &'static str,
    part: fn(&Value) -> Option<Cow<'_, Value>>,
    sentence: &'static str,
) -> Unapplied {
    Unapplied { group, resource, storage, mark, part, sentence }
}

/// The groups that have several of them.
const ADMISSION: &str = "admissionregistration.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

const WEBHOOKS: &str =
    "admission webhooks are not called by this server: objects are stored as they were sent, also those that a webhook would refuse";
const POLICIES: &str =
    "admission policies are not evaluated by this server: objects that they would refuse or change are stored as they were sent";
const FLOWS: &str = "priority and fairness is not applied by this server: requests are limited only by the --max-requests-inflight flags";

/// All of them.
pub static UNAPPLIED: [Unapplied; 20] = [
    row((ADMISSION, "validatingwebhookconfigurations", "validatingwebhookconfigurations"), "\"webhooks\"", webhooks, WEBHOOKS),
    row((ADMISSION, "mutatingwebhookconfigurations", "mutatingwebhookconfigurations"), "\"webhooks\"", webhooks, WEBHOOKS),
    row((ADMISSION, "validatingadmissionpolicies", "validatingadmissionpolicies"), "", spec, POLICIES),
    row((ADMISSION, "validatingadmissionpolicybindings", "validatingadmissionpolicybindings"), "", spec, POLICIES),
    row((ADMISSION, "mutatingadmissionpolicies", "mutatingadmissionpolicies"), "", spec, POLICIES),
    row((ADMISSION, "mutatingadmissionpolicybindings", "mutatingadmissionpolicybindings"), "", spec, POLICIES),
    row(
        ("", "resourcequotas", "resourcequotas"),
        "\"hard\"",
        |quota| own(quota, &["spec", "hard"]),
        "ResourceQuotas are not enforced by this server: objects above the quota are stored",
    ),
    row(
        ("", "limitranges", "limitranges"),
        "\"limits\"",
        |range| own(range, &["spec", "limits"]),
        "LimitRanges are not applied by this server: their defaults are not set, and objects outside of the limits are stored",
    ),
    row(
        ("", "namespaces", "namespaces"),
        POD_SECURITY,
        pod_security,
        "Pod Security admission is not applied by this server: Pods that break the level of these labels are stored, without a warning",
    ),
    row((FLOW_CONTROL, "flowschemas", "flowschemas"), "", own_flow, FLOWS),
    row((FLOW_CONTROL, "prioritylevelconfigurations", "prioritylevelconfigurations"), "", own_flow, FLOWS),
    row(
        ("scheduling.k8s.io", "priorityclasses", "priorityclasses"),
        "",
        |class| {
            let is_own = tree::text(class, &["metadata", "name"]).starts_with("system-");
            (!is_own).then(|| Cow::Owned(json!([class.get("value"), class.get("globalDefault"), class.get("preemptionPolicy")])))
        },
        "PriorityClasses are not resolved by this server: Pods that name one, or none, get no spec.priority from it",
    ),
    row(
        ("", "pods", "pods"),
        "\"priorityClassName\"",
        |pod| own(pod, &["spec", "priorityClassName"]).filter(|_| tree::at(pod, &["spec", "priority"]).is_none()),
        "spec.priorityClassName is not resolved by this server: the Pod is stored without spec.priority",
    ),
    row(
        ("node.k8s.io", "runtimeclasses", "runtimeclasses"),
        "",
        |class| members(class, &[&["overhead"], &["scheduling"]]),
        "overhead and scheduling of a RuntimeClass are not added to Pods by this server",
    ),
    row(
        ("storage.k8s.io", "storageclasses", "storageclasses"),
        "is-default-class",
        |class| annotated(class, &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]),
        "the default StorageClass is not set in PersistentVolumeClaims by this server: they must name their class",
    ),
    row(
        ("networking.k8s.io", "ingressclasses", "ingressclasses"),
        "is-default-class",
        |class| annotated(class, &["ingressclass.kubernetes.io/is-default-class"]),
        "the default IngressClass is not set in Ingresses by this server: they must name their class",
    ),
    row(
        ("", "serviceaccounts", "serviceaccounts"),
        "",
        |account| members(account, &[&["imagePullSecrets"], &["metadata", "annotations", "kubernetes.io/enforce-mountable-secrets"]]),
        "image pull secrets and mountable secrets of a ServiceAccount are not applied to Pods by this server: Pods must name their secrets",
    ),
    row(
        ("apiregistration.k8s.io", "apiservices", "apiregistration.k8s.io/apiservices"),
        "\"service\"",
        |service| own(service, &["spec", "service"]),
        "APIServices are not proxied by this server: requests for the API of another server are answered 404",
    ),
    row(
        ("", "services", "services/specs"),
        "\"LoadBalancer\"",
        |service| {
            let is_for_nobody = tree::text(service, &["spec", "type"]) == "LoadBalancer";
            (is_for_nobody && tree::at(service, &["spec", "loadBalancerClass"]).is_none()).then_some(Cow::Owned(Value::Bool(true)))
        },
        "load balancers are not provisioned by this server: status.loadBalancer stays empty until a controller of yours fills it",
    ),
    row(
        ("apiextensions.k8s.io", "customresourcedefinitions", "apiextensions.k8s.io/customresourcedefinitions"),
        "\"x-kubernetes-validations\"",
        |object| definition::has_rules(object).then_some(Cow::Owned(Value::Bool(true))),
        definition::RULES,
    ),
];

const POD_SECURITY: &str = "pod-security.kubernetes.io/";

/// The value at a path, unless it is empty.
fn own<'v>(object: &'v Value, path: &[&str]) -> Option<Cow<'v, Value>> {
    tree::at(object, path).filter(|value| !is_empty(value)).map(Cow::Borrowed)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty() || text == "false",
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// The values at these paths, unless all are empty.
fn members<'v>(object: &'v Value, paths: &[&[&str]]) -> Option<Cow<'v, Value>> {
    let found: Vec<Value> = paths.iter().filter_map(|path| own(object, path)).map(Cow::into_owned).collect();
    (!found.is_empty()).then(|| Cow::Owned(found.into()))
}

fn webhooks(configuration: &Value) -> Option<Cow<'_, Value>> {
    own(configuration, &["webhooks"])
}

fn spec(policy: &Value) -> Option<Cow<'_, Value>> {
    own(policy, &["spec"])
}

/// The labels that ask for a level above `privileged`.
fn pod_security(namespace: &Value) -> Option<Cow<'_, Value>> {
    let labels = tree::at(namespace, &["metadata", "labels"]).and_then(Value::as_object);
    let asks =
        |mode: &&str| labels.and_then(|labels| labels.get(&format!("{POD_SECURITY}{mode}"))).is_some_and(|level| level != "privileged");
    if !["enforce", "audit", "warn"].iter().any(asks) {
        return None;
    }
    let found: Map<String, Value> = labels
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.starts_with(POD_SECURITY))
        .map(|(name, level)| (name.clone(), level.clone()))
        .collect();
    Some(Cow::Owned(found.into()))
}

/// The spec of a flow schema or a priority level that is no default: a server keeps its own ones, with this annotation.
fn own_flow(object: &Value) -> Option<Cow<'_, Value>> {
    let is_kept = tree::text(object, &["metadata", "annotations", "apf.kubernetes.io/autoupdate-spec"]) == "true";
    own(object, &["spec"]).filter(|_| !is_kept)
}

fn annotated<'v>(object: &'v Value, names: &[&str]) -> Option<Cow<'v, Value>> {
    let says = |name: &&str| tree::text(object, &["metadata", "annotations", name]) == "true";
    names.iter().any(says).then_some(Cow::Owned(Value::Bool(true)))
}

impl Unapplied {
    /// The row of definitions with rules.
    #[must_use]
    pub fn definitions() -> &'static Self {
        &UNAPPLIED[UNAPPLIED.len() - 1]
    }

    /// Whether something in this object is not applied.
    #[must_use]
    pub fn is_in(&self, object: &Value) -> bool {
        (self.part)(object).is_some()
    }
}

/// Returns what the writer of an object of the storage `id` is told: of a new part that is not applied, or a changed one.
pub(super) fn warnings(id: &str, part: Part, old: Option<&Value>, new: &Value) -> Option<String> {
    let row = UNAPPLIED.iter().find(|row| row.storage == id).filter(|_| part == Part::Main)?;
    let found = (row.part)(new)?;
    let is_known = old.and_then(|old| (row.part)(old)).is_some_and(|known| known == found);
    (!is_known).then(|| row.sentence.to_owned())
}

/// Logs a row from a place in the code of its own: of one place few lines are written at once (`telemetry/log/pace`), and each row has one line.
macro_rules! log_at_its_own_place {
    ($nth:expr, $row:expr, $name:expr; $($place:literal)*) => {
        match $nth {
            $($place => tracing::warn!(resource = $row.resource, group = $row.group, name = $name, "{}", $row.sentence),)*
            _ => {}
        }
    };
}

/// Which rows the log has already, a bit for each.
#[derive(Debug, Default)]
pub(super) struct Logged(AtomicU32);

impl Writer {
    /// Logs that objects like this one are stored and not applied, once for each kind.
    pub fn log_unapplied(&self, row: &Unapplied, name: &str) {
        let Some(nth) = UNAPPLIED.iter().position(|known| std::ptr::eq(known, row)) else { return };
        let bit = 1 << nth;
        if self.unapplied.0.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            log_at_its_own_place!(nth, row, name; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
        }
    }

    /// Logs what the writer of an object of this resource was warned of, if that is something that is not applied.
    pub fn log_warned(&self, (group, resource): (&str, &str), name: &str, warnings: &[String]) {
        let warned =
            |row: &&Unapplied| (row.group, row.resource) == (group, resource) && warnings.iter().any(|warning| warning == row.sentence);
        if let Some(row) = UNAPPLIED.iter().find(warned) {
            self.log_unapplied(row, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(id: &str, old: Option<&Value>, new: &Value) -> bool {
        warnings(id, Part::Main, old, new).is_some()
    }

    #[test]
    fn each_row_is_of_a_built_in_and_has_its_bit() {
        assert_eq!(UNAPPLIED.len(), 20, "each has its place in `log_unapplied`");
        for row in &UNAPPLIED {
            let resource = registry::test_resource(row.group, row.resource);
            assert_eq!(&*resource.served.storage.id, row.storage, "{}", row.resource);
            assert!(row.sentence.contains(" by this server"), "tests know our own warnings by these words: {}", row.sentence);
        }
        assert_eq!(Unapplied::definitions().resource, "customresourcedefinitions");
    }

    #[test]
    fn what_is_not_applied_is_told_when_it_is_new_or_another() {
        let quota = |hard: Value, label: &str| json!({"metadata": {"labels": {"l": label}}, "spec": {"hard": hard}});
        let one = quota(json!({"pods": "1"}), "a");
        assert!(told("resourcequotas", None, &one));
        assert!(!told("resourcequotas", None, &quota(json!({}), "a")), "it limits nothing");
        assert!(!told("resourcequotas", Some(&one), &quota(json!({"pods": "1"}), "b")), "its writer knows");
        assert!(told("resourcequotas", Some(&one), &quota(json!({"pods": "2"}), "a")));
        assert_eq!(warnings("resourcequotas", Part::Status, None, &one), None);
    }

    #[test]
    fn each_kind_has_its_condition() {
        let annotated =
            |name: &str, value: &str| json!({"metadata": {"name": "x", "annotations": {name: value}}, "spec": {"a": 1}, "value": 1});
        let labelled = |name: &str, value: &str| json!({"metadata": {"labels": {format!("pod-security.kubernetes.io/{name}"): value}}});
        for (id, object, want) in [
            ("validatingwebhookconfigurations", json!({"webhooks": [{}]}), true),
            ("mutatingwebhookconfigurations", json!({"webhooks": []}), false),
            ("validatingadmissionpolicybindings", json!({"spec": {"policyName": "p"}}), true),
            ("mutatingadmissionpolicies", json!({"spec": {"mutations": []}}), true),
            ("limitranges", json!({"spec": {"limits": [{"type": "Pod"}]}}), true),
            ("limitranges", json!({"spec": {"limits": []}}), false),
            ("namespaces", labelled("enforce", "restricted"), true),
            ("namespaces", labelled("warn", "baseline"), true),
            ("namespaces", labelled("enforce", "privileged"), false),
            ("namespaces", labelled("enforce-version", "latest"), false),
            ("flowschemas", annotated("apf.kubernetes.io/autoupdate-spec", "true"), false),
            ("flowschemas", annotated("apf.kubernetes.io/autoupdate-spec", "false"), true),
            ("prioritylevelconfigurations", annotated("a", "b"), true),
            ("priorityclasses", json!({"metadata": {"name": "system-node-critical"}, "value": 1}), false),
            ("priorityclasses", json!({"metadata": {"name": "high"}, "value": 1}), true),
            ("pods", json!({"spec": {"priorityClassName": "high"}}), true),
            ("pods", json!({"spec": {"priorityClassName": "high", "priority": 5}}), false),
            ("pods", json!({"spec": {"priority": 5}}), false),
            ("runtimeclasses", json!({"handler": "h"}), false),
            ("runtimeclasses", json!({"handler": "h", "overhead": {"podFixed": {"cpu": "1"}}}), true),
            ("runtimeclasses", json!({"handler": "h", "scheduling": {"nodeSelector": {"a": "b"}}}), true),
            ("storageclasses", annotated("storageclass.kubernetes.io/is-default-class", "true"), true),
            ("storageclasses", annotated("storageclass.kubernetes.io/is-default-class", "false"), false),
            ("ingressclasses", annotated("ingressclass.kubernetes.io/is-default-class", "true"), true),
            ("serviceaccounts", json!({"imagePullSecrets": [{"name": "s"}]}), true),
            ("serviceaccounts", annotated("kubernetes.io/enforce-mountable-secrets", "true"), true),
            ("serviceaccounts", annotated("kubernetes.io/enforce-mountable-secrets", "false"), false),
            ("apiregistration.k8s.io/apiservices", json!({"spec": {"group": "g", "service": {"name": "s"}}}), true),
            ("apiregistration.k8s.io/apiservices", json!({"spec": {"group": "g"}}), false),
            ("services/specs", json!({"spec": {"type": "LoadBalancer"}}), true),
            ("services/specs", json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": "x.io/y"}}), false),
            ("services/specs", json!({"spec": {"type": "ClusterIP"}}), false),
            ("configmaps", json!({"data": {}}), false),
        ] {
            assert_eq!(told(id, None, &object), want, "{id} {object}");
        }
    }
}
