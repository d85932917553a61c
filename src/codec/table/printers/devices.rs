//! The rows of resource.k8s.io: device classes, claims, slices.

use super::{NAME_AND_AGE, Printer, name_and_age};
use crate::table::{
    cell::{Row, is_deleted},
    node::Node,
};

pub(super) const PRINTERS: &[(&str, Printer)] = &[
    ("resource.k8s.io/deviceclasses", Printer { paths: NAME_AND_AGE, print: name_and_age }),
    ("resource.k8s.io/resourceclaimtemplates", Printer { paths: NAME_AND_AGE, print: name_and_age }),
    ("resource.k8s.io/resourceclaims", Printer { paths: &[], print: claim }),
    (
        "resource.k8s.io/resourceslices",
        Printer { paths: &["metadata.name", "metadata.creationTimestamp", "spec.nodeName", "spec.driver", "spec.pool.name"], print: slice },
    ),
];

fn claim(object: &Node<'_>, row: &mut Row<'_>) {
    let reserved = !object.path("status.reservedFor").items().is_empty();
    let state = match (is_deleted(object), object.path("status.allocation").is_there()) {
        (true, false) => "deleted",
        (false, false) => "pending",
        (true, true) if reserved => "deleted,allocated,reserved",
        (true, true) => "deleted,allocated",
        (false, true) if reserved => "allocated,reserved",
        (false, true) => "allocated",
    };
    row.name(object).text(state).age(object);
}

fn slice(object: &Node<'_>, row: &mut Row<'_>) {
    let spec = object.at("spec");
    row.name(object).text(spec.at("nodeName").text()).text(spec.at("driver").text()).text(spec.path("pool.name").text()).age(object);
}
