//! The rows of volumes, claims, their classes and drivers.

use super::Printer;
use crate::table::{
    cell::{NONE, Row, UNSET, is_deleted, joined, quantity},
    node::Node,
};

const fn printer(print: fn(&Node<'_>, &mut Row<'_>)) -> Printer {
    Printer { paths: &[], print }
}

pub(super) const PRINTERS: &[(&str, Printer)] = &[
    ("/persistentvolumes", printer(volume)),
    ("/persistentvolumeclaims", printer(claim)),
    ("storage.k8s.io/storageclasses", printer(class)),
    ("storage.k8s.io/volumeattributesclasses", printer(attributes_class)),
    ("storage.k8s.io/volumeattachments", printer(attachment)),
    ("storage.k8s.io/csidrivers", printer(driver)),
    ("storage.k8s.io/csinodes", printer(node)),
];

fn volume(object: &Node<'_>, row: &mut Row<'_>) {
    let spec = object.at("spec");
    let claim = spec.at("claimRef");
    let claimed = format!("{}/{}", claim.at("namespace").text(), claim.at("name").text());
    row.name(object).text(&quantity(spec.path("capacity.storage"))).text(&modes(spec.at("accessModes")));
    row.text(spec.at("persistentVolumeReclaimPolicy").text()).text(phase(object));
    row.text(if claim.is_there() { &claimed } else { "" }).text(class_name(object));
    row.pointer_or(spec.at("volumeAttributesClassName"), UNSET).text(object.path("status.reason").text()).age(object);
    row.pointer_or(spec.at("volumeMode"), UNSET);
}

fn claim(object: &Node<'_>, row: &mut Row<'_>) {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let volume = spec.at("volumeName").text();
    row.name(object).text(phase(object)).text(volume);
    if volume.is_empty() {
        row.text("").text("");
    } else {
        row.text(&quantity(status.path("capacity.storage"))).text(&modes(status.at("accessModes")));
    }
    row.text(class_name(object))
        .pointer_or(spec.at("volumeAttributesClassName"), UNSET)
        .age(object)
        .pointer_or(spec.at("volumeMode"), UNSET);
}

fn phase<'n>(object: &'n Node<'_>) -> &'n str {
    if is_deleted(object) { "Terminating" } else { object.path("status.phase").text() }
}

/// The name in the annotation of old, else the field.
fn class_name<'n>(object: &'n Node<'_>) -> &'n str {
    let annotation = object.path("metadata.annotations").at("volume.beta.kubernetes.io/storage-class");
    if annotation.is_there() { annotation.text() } else { object.path("spec.storageClassName").text() }
}

/// Access modes by their short names, each once, in an order of their own.
fn modes(modes: &Node<'_>) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let has = |mode: &str| modes.items().iter().any(|known| known.text() == mode);
    joined(SHORT.into_iter().filter(|(mode, _)| has(mode)).map(|(_, short)| short), ",")
}

fn class(object: &Node<'_>, row: &mut Row<'_>) {
    let name = object.path("metadata.name").text();
    let annotation = |key: &str| object.path("metadata.annotations").at(key).text() == "true";
    let is_default =
        annotation("storageclass.kubernetes.io/is-default-class") || annotation("storageclass.beta.kubernetes.io/is-default-class");
    row.text(&if is_default { format!("{name} (default)") } else { name.to_owned() }).text(object.at("provisioner").text());
    row.pointer_or(object.at("reclaimPolicy"), "Delete").pointer_or(object.at("volumeBindingMode"), "Immediate");
    row.flag(object.at("allowVolumeExpansion").is_true()).age(object);
}

fn attributes_class(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).text(object.at("driverName").text()).age(object);
}

fn attachment(object: &Node<'_>, row: &mut Row<'_>) {
    let spec = object.at("spec");
    row.name(object).text(spec.at("attacher").text()).text(spec.path("source.persistentVolumeName").text());
    row.text(spec.at("nodeName").text()).flag(object.path("status.attached").is_true()).age(object);
}

fn driver(object: &Node<'_>, row: &mut Row<'_>) {
    let spec = object.at("spec");
    let requests = spec.at("tokenRequests");
    let audiences = joined(requests.items().iter().map(|request| request.at("audience").text()), ",");
    let attach = *spec.at("attachRequired") != Node::Bool(false);
    row.name(object).flag(attach).flag(spec.at("podInfoOnMount").is_true()).flag(spec.at("storageCapacity").is_true());
    row.text(if requests.is_there() { &audiences } else { UNSET }).flag(spec.at("requiresRepublish").is_true());
    row.text_or(&joined(spec.at("volumeLifecycleModes").items().iter().map(Node::text), ","), NONE).age(object);
}

fn node(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).count(object.path("spec.drivers").len()).age(object);
}
