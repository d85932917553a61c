//! Fields that a write does not change, whatever it says: nobody becomes their manager by it (the reset fields of kube-apiserver's strategies).

use std::collections::BTreeMap;

use merge::{Filter, PathElement, PathElementMatcher, Set, SetMatcher};

use crate::write::part::Part;
use catalogue::{Catalogue, Served};

/// Kinds whose status is written with none of the metadata.
const STATUS_WITHOUT_METADATA: [(&str, &str); 12] = [
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("apiregistration.k8s.io", "apiservices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("internal.apiserver.k8s.io", "storageversions"),
    ("networking.k8s.io", "servicecidrs"),
    ("resource.k8s.io", "devicetaintrules"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourcepoolstatusrequests"),
    ("scheduling.k8s.io", "podgroups"),
    ("storage.k8s.io", "volumeattachments"),
    ("storagemigration.k8s.io", "storageversionmigrations"),
];

/// Returns what a write of this part leaves out, by the version in which somebody manages fields.
pub(super) fn filters(catalogue: &Catalogue, served: &Served, part: Part) -> BTreeMap<String, Filter> {
    let Some(filter) = fields(served, part) else { return BTreeMap::new() };
    // The main part of custom resources leaves out what it does in its own version alone.
    let of_all = !served.is_custom() || part == Part::Status;
    let versions = catalogue.served_in(&served.group).filter(|other| of_all && other.resource == served.resource);
    let versions = versions.map(|other| other.api_version()).chain([served.api_version()]);
    versions.map(|version| (version, filter.clone())).collect()
}

/// Returns what a write of this part leaves out; `None` when everything counts.
fn fields(served: &Served, part: Part) -> Option<Filter> {
    let (group, resource) = (&*served.group, &*served.resource);
    let has_status = served.has_subresource("status");
    let without = |paths: &[&[&str]]| {
        let mut set = Set::new();
        for path in paths {
            set.insert(&path.iter().map(|name| PathElement::field(name)).collect::<Vec<_>>());
        }
        Some(Filter::Exclude(set))
    };
    match part {
        Part::Main if (group, resource) == ("certificates.k8s.io", "certificatesigningrequests") => without(&[&["spec"], &["status"]]),
        Part::Main => has_status.then(|| without(&[&["status"]])).flatten(),
        Part::Status => match (group, resource) {
            ("", "pods") => without(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]),
            ("apps", "deployments") => without(&[&["spec"], &["metadata", "labels"]]),
            ("certificates.k8s.io", "certificatesigningrequests") => without(&[&["spec"], &["status", "conditions"]]),
            of if served.is_custom() || STATUS_WITHOUT_METADATA.contains(&of) => without(&[&["metadata"], &["spec"]]),
            _ => without(&[&["spec"]]),
        },
        Part::Approval => without(&[&["spec"], &["status", "certificate"]]),
        Part::Finalizers => without(&[&["status"]]),
        Part::EphemeralContainers => Some(Filter::include([pattern(&["spec", "ephemeralContainers"])])),
        Part::Resize => {
            let kinds = ["containers", "initContainers"].into_iter();
            let patterns = kinds.flat_map(|kind| ["resources", "resizePolicy"].map(|name| pattern(&["spec", kind, ANY, name])));
            Some(Filter::include(patterns))
        }
        Part::Server => None,
    }
}

const ANY: &str = "*";

fn pattern(path: &[&str]) -> SetMatcher {
    let element = |name: &&str| match *name {
        ANY => PathElementMatcher::Any,
        name => PathElementMatcher::Is(PathElement::field(name)),
    };
    SetMatcher::prefix(path.iter().map(element).collect::<Vec<_>>())
}
