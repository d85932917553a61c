//! Objects of the network and of storage that kube-apiserver 1.36.3 has judged, in their stored version. What is done to them is `KIND` or `KIND/PART`.

use serde_json::Value;

use crate::{
    FieldError, attachment, cases, claim, csi, endpoints, ingress, ip_range, network_policy, runtime_class, storage_class, volume,
};

type Create = fn(&Value) -> Vec<FieldError>;
type Update = fn(&Value, &Value) -> Vec<FieldError>;

/// What judges a kind: a new object, a changed one, a changed status.
const KINDS: [(&str, Create, Update, Update); 16] = [
    ("Ingress", ingress::create, ingress::update, ingress::update_status),
    ("IngressClass", ingress::create_class, ingress::update_class, nothing),
    ("NetworkPolicy", network_policy::create, network_policy::update, nothing),
    ("Endpoints", endpoints::create, endpoints::update, nothing),
    ("EndpointSlice", endpoints::create_slice, endpoints::update_slice, nothing),
    ("IPAddress", ip_range::create_address, ip_range::update_address, nothing),
    ("ServiceCIDR", ip_range::create_service_range, ip_range::update_service_range, nothing),
    ("StorageClass", storage_class::create, storage_class::update, nothing),
    ("VolumeAttributesClass", storage_class::create_attributes, storage_class::update_attributes, nothing),
    ("CSIDriver", csi::create_driver, csi::update_driver, nothing),
    ("CSINode", csi::create_node, csi::update_node, nothing),
    ("CSIStorageCapacity", csi::create_capacity, csi::update_capacity, nothing),
    ("PersistentVolumeClaim", claim::create, claim::update, claim::update_status),
    ("PersistentVolume", volume::create, volume::update, nothing),
    ("VolumeAttachment", attachment::create, attachment::update, attachment::update),
    ("RuntimeClass", runtime_class::create, runtime_class::update, nothing),
];

fn nothing(_: &Value, _: &Value) -> Vec<FieldError> {
    Vec::new()
}

fn judge(op: &str, object: &Value, old: &Value) -> Vec<FieldError> {
    let (kind, part) = op.split_once('/').unwrap_or((op, ""));
    let (_, create, update, update_status) = KINDS.iter().find(|(known, ..)| *known == kind).expect("the kind is in the table");
    match part {
        "" if old.is_null() => create(object),
        "" => update(old, object),
        _ => update_status(old, object),
    }
}

#[test]
fn recorded_cases() {
    for recorded in [include_str!("testdata/network.jsonl"), include_str!("testdata/storage.jsonl")] {
        cases::check(recorded, judge);
    }
}

/// More cases, of the file that this variable names.
#[test]
fn cases_of_a_file() {
    cases::check_file("NETWORK_CASES", judge);
}
