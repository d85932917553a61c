//! Values of built-ins that were stored in another version than new ones are, as those that no write has touched since the storage version moved.
//!
//! Where both versions have the same members, in JSON and in protobuf, only `apiVersion` is another; `versions` has those with other members.

use serde_json::{Map, Value, json};

use super::versions::Version;

/// Of each kind (all of its `apiVersion`): the version in which new values are stored, and those with the same members. Found by comparing the messages of
/// `k8s.io/api` 0.36.3, of all versions that kube-apiserver 1.36.3 decodes.
const SAME_MEMBERS: [(&str, &[&str], &[&str]); 19] = [
    ("admissionregistration.k8s.io/v1", &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"], &["v1beta1"]),
    ("admissionregistration.k8s.io/v1", &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"], &["v1alpha1", "v1beta1"]),
    ("admissionregistration.k8s.io/v1beta1", &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"], &["v1alpha1", "v1"]),
    ("apps/v1", &["ControllerRevision", "StatefulSet"], &["v1beta1", "v1beta2"]),
    ("apps/v1", &["DaemonSet", "Deployment", "ReplicaSet"], &["v1beta2"]),
    ("batch/v1", &["CronJob"], &["v1beta1"]),
    ("certificates.k8s.io/v1", &["CertificateSigningRequest"], &["v1beta1"]),
    ("coordination.k8s.io/v1", &["Lease"], &["v1beta1"]),
    ("flowcontrol.apiserver.k8s.io/v1", &["FlowSchema"], &["v1beta1", "v1beta2", "v1beta3"]),
    ("flowcontrol.apiserver.k8s.io/v1", &["PriorityLevelConfiguration"], &["v1beta3"]),
    ("networking.k8s.io/v1", &["IPAddress", "IngressClass", "ServiceCIDR"], &["v1beta1"]),
    ("node.k8s.io/v1", &["RuntimeClass"], &["v1beta1"]),
    ("policy/v1", &["PodDisruptionBudget"], &["v1beta1"]),
    ("rbac.authorization.k8s.io/v1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"], &["v1beta1"]),
    ("resource.k8s.io/v1", &["DeviceClass"], &["v1beta1", "v1beta2"]),
    ("resource.k8s.io/v1", &["ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"], &["v1beta2"]),
    ("scheduling.k8s.io/v1", &["PriorityClass"], &["v1beta1"]),
    ("storage.k8s.io/v1", &["CSIDriver", "CSINode", "StorageClass"], &["v1beta1"]),
    ("storage.k8s.io/v1", &["CSIStorageCapacity", "VolumeAttachment", "VolumeAttributesClass"], &["v1alpha1", "v1beta1"]),
];

/// Bytes of JSON that a value may become whose members are others: etcd takes less of any value.
const BYTES_MAX: usize = 8 << 20;

/// Makes a value that was stored in another version what it is in the one of new values, if that is known to be possible.
pub(super) fn renew(kind: &str, api_version: &str, object: &mut Map<String, Value>) {
    let Some(found) = object.get("apiVersion").and_then(Value::as_str).filter(|found| *found != api_version) else { return };
    if object.get("kind").and_then(Value::as_str) != Some(kind) {
        return;
    }
    if has_same_members(kind, api_version, found) {
        if (kind, found) == ("PodDisruptionBudget", "policy/v1beta1") {
            select_nothing(object);
        }
        object.insert("apiVersion".to_owned(), api_version.into());
        return;
    }
    let other = Version::of(found, kind).filter(|version| version.stored_as() == api_version);
    if let Some(Value::Object(stored)) = other.and_then(|version| version.stored(object, BYTES_MAX).ok()) {
        *object = stored;
    }
}

fn has_same_members(kind: &str, api_version: &str, found: &str) -> bool {
    let group = api_version.rsplit_once('/').map(|(group, _)| group);
    let Some((found_group, version)) = found.rsplit_once('/') else { return false };
    group == Some(found_group)
        && SAME_MEMBERS
            .iter()
            .any(|(stored_as, kinds, versions)| *stored_as == api_version && kinds.contains(&kind) && versions.contains(&version))
}

/// An empty selector of a budget selects nothing in v1beta1, and everything in v1: kube-apiserver replaces it.
fn select_nothing(budget: &mut Map<String, Value>) {
    let selector = budget.get_mut("spec").and_then(|spec| spec.get_mut("selector"));
    if let Some(selector) = selector.filter(|selector| selector.as_object().is_some_and(Map::is_empty)) {
        *selector =
            json!({"matchExpressions": [{"key": "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match", "operator": "DoesNotExist"}]});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renewed(kind: &str, api_version: &str, value: Value) -> Value {
        let mut object = value.as_object().expect("an object").clone();
        renew(kind, api_version, &mut object);
        Value::Object(object)
    }

    #[test]
    fn a_value_of_another_version_with_the_same_members_is_read() {
        let of = |version: &str| json!({"kind": "RuntimeClass", "apiVersion": version, "metadata": {"name": "r"}, "handler": "h"});
        assert_eq!(renewed("RuntimeClass", "node.k8s.io/v1", of("node.k8s.io/v1beta1")), of("node.k8s.io/v1"));
        for other in ["node.k8s.io/v1alpha1", "node.k8s.io/v9", "policy/v1beta1", "v1beta1"] {
            assert_eq!(renewed("RuntimeClass", "node.k8s.io/v1", of(other)), of(other), "it is told of as it is");
        }
    }

    #[test]
    fn the_storage_version_may_have_been_newer() {
        let of = |version: &str| json!({"kind": "MutatingAdmissionPolicy", "apiVersion": format!("admissionregistration.k8s.io/{version}"), "spec": {"x": 1}});
        assert_eq!(renewed("MutatingAdmissionPolicy", "admissionregistration.k8s.io/v1beta1", of("v1")), of("v1beta1"));
    }

    #[test]
    fn an_empty_selector_of_a_budget_goes_on_to_select_nothing() {
        let of =
            |version: &str, selector: Value| json!({"kind": "PodDisruptionBudget", "apiVersion": version, "spec": {"selector": selector}});
        let read = renewed("PodDisruptionBudget", "policy/v1", of("policy/v1beta1", json!({})));
        assert_eq!(read["spec"]["selector"]["matchExpressions"][0]["operator"], "DoesNotExist");
        let some = json!({"matchLabels": {"a": "b"}});
        assert_eq!(renewed("PodDisruptionBudget", "policy/v1", of("policy/v1beta1", some.clone())), of("policy/v1", some));
    }

    #[test]
    fn an_autoscaler_of_the_first_version_becomes_one_of_the_second() {
        let first = json!({"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1", "metadata": {"name": "h"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}});
        let second = renewed("HorizontalPodAutoscaler", "autoscaling/v2", first);
        assert_eq!(
            (&second["apiVersion"], &second["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"]),
            (&json!("autoscaling/v2"), &json!(50))
        );
    }
}
