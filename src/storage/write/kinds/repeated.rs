//! How often kube-apiserver reports the same wrong member of `metadata` when an object is changed: each of its rounds of validation does, those that all
//! kinds have and those of the kind (measured on each).

use crate::write::part::Part;
use catalogue::Served;
use model::invalid::{FieldError, TOLD_BYTES_MAX};

/// Rounds of most kinds.
const ROUNDS: usize = 3;

/// Kinds whose objects are judged once more.
const FOUR: [&str; 27] = [
    "apiregistration.k8s.io/apiservices",
    "certificatesigningrequests",
    "clusterrolebindings",
    "clusterroles",
    "configmaps",
    "controllerrevisions",
    "csistoragecapacities",
    "deviceclasses",
    "services/endpoints",
    "ingressclasses",
    "ingress",
    "ipaddresses",
    "jobs",
    "namespaces",
    "minions",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "resourceclaims",
    "resourceclaimtemplates",
    "rolebindings",
    "roles",
    "runtimeclasses",
    "secrets",
    "serviceaccounts",
    "storageclasses",
    "volumeattributesclasses",
];
/// Kinds that have no rules about it of their own.
const TWO: [&str; 2] = ["events", "poddisruptionbudgets"];

/// Members that every round looks at.
const MEMBERS: [&str; 3] = ["metadata.labels", "metadata.annotations", "metadata.ownerReferences"];

fn rounds(storage: &str, part: Part) -> usize {
    match part {
        Part::Main if FOUR.contains(&storage) => 4,
        Part::Main if TWO.contains(&storage) => 2,
        Part::Status if storage == "certificatesigningrequests" => 4,
        Part::Status if matches!(storage, "cronjobs" | "poddisruptionbudgets") => 2,
        Part::Main | Part::Status => ROUNDS,
        Part::Finalizers | Part::Approval | Part::EphemeralContainers | Part::Resize | Part::Server => 1,
    }
}

/// Returns the errors that the later rounds report again.
pub(in crate::write) fn again(served: &Served, part: Part, errors: &[FieldError]) -> Vec<FieldError> {
    let of_every_round = |error: &&FieldError| MEMBERS.iter().any(|member| error.field.starts_with(member));
    let all: Vec<&FieldError> = errors.iter().filter(of_every_round).collect();
    if served.is_custom() || all.iter().map(|error| error.bytes()).sum::<usize>() > TOLD_BYTES_MAX {
        return Vec::new();
    }
    (1..rounds(&served.storage.id, part)).flat_map(|_| all.iter().map(|error| (*error).clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_those_that_were_counted() {
        let cases = [
            ("pods", Part::Main, 4),
            ("pods", Part::Status, 3),
            ("deployments", Part::Main, 3),
            ("poddisruptionbudgets", Part::Main, 2),
            ("cronjobs", Part::Status, 2),
            ("storageclasses", Part::Main, 4),
            ("certificatesigningrequests", Part::Approval, 1),
        ];
        for (storage, part, count) in cases {
            assert_eq!(rounds(storage, part), count, "{storage}");
        }
        let known: Vec<&str> = catalogue::built_in_storages().map(|storage| &*storage.id).collect();
        let unknown: Vec<&&str> = FOUR.iter().chain(&TWO).filter(|id| !known.contains(id)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
