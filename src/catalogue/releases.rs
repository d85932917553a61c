//! Which Tables other releases of Kubernetes print otherwise than the one whose columns are recorded here.
//!
//! Compared were 1.35.4, 1.36.3 and 1.37.2: the columns by what the three servers answer, cells by their sources.

use crate::MINOR;

/// Resources whose Tables a release prints otherwise: a column, its description, or a cell.
const PRINTED_OTHERWISE: &[(u32, &str)] = &[
    (35, "/nodes"),
    (35, "apps/controllerrevisions"),
    (35, "apps/daemonsets"),
    (35, "apps/deployments"),
    (35, "apps/replicasets"),
    (35, "autoscaling/horizontalpodautoscalers"),
    (35, "discovery.k8s.io/endpointslices"),
    (35, "networking.k8s.io/ingressclasses"),
    (35, "networking.k8s.io/networkpolicies"),
    (37, "apiextensions.k8s.io/customresourcedefinitions"),
    (37, "networking.k8s.io/ipaddresses"),
    (37, "networking.k8s.io/servicecidrs"),
    (37, "rbac.authorization.k8s.io/clusterrolebindings"),
    (37, "rbac.authorization.k8s.io/rolebindings"),
    (37, "resource.k8s.io/resourceslices"),
    (37, "storage.k8s.io/storageclasses"),
    (37, "storage.k8s.io/volumeattributesclasses"),
];

/// Whether a release prints the Tables of a resource as the recorded one does.
#[must_use]
pub fn prints(minor: &str, group: &str, resource: &str) -> bool {
    minor == MINOR || matches!(minor, "35" | "37") && !is_printed_otherwise(minor, &format!("{group}/{resource}"))
}

fn is_printed_otherwise(minor: &str, resource: &str) -> bool {
    minor.parse().is_ok_and(|minor: u32| PRINTED_OTHERWISE.contains(&(minor, resource)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtins::BUILT_INS;

    #[test]
    fn every_difference_names_a_resource() {
        let names: Vec<String> = BUILT_INS.served.iter().map(|served| format!("{}/{}", served.group, served.resource)).collect();
        for (minor, name) in PRINTED_OTHERWISE {
            assert!(matches!(minor, 35 | 37) && names.iter().any(|known| known == name), "{minor} {name}");
        }
        assert!(BUILT_INS.served.iter().all(|served| prints(MINOR, &served.group, &served.resource)));
    }

    #[test]
    fn what_was_not_compared_is_not_believed() {
        assert!(prints("37", "", "pods") && !prints("37", "storage.k8s.io", "storageclasses"));
        for minor in ["34", "38", "99", "", "36+"] {
            assert!(!prints(minor, "", "pods"), "{minor}");
        }
    }
}
