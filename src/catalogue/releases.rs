//! What other releases of Kubernetes show otherwise than the one whose answers this server makes: objects, and the Tables of them.
//!
//! Compared were 1.35.4, 1.36.3 and 1.37.2: fields and defaults by their Go types and recorded answers, the columns by what the three servers answer, cells by
//! their sources.

use codec::proto;
use model::Shape;

use crate::{Conversion, MINOR, Served};

/// What is read from etcd with other defaults by another minor, because a feature is on there: `maxUnavailable` of a rolling update,
/// `preventPodSchedulingIfMissing`.
const DEFAULTED_OTHERWISE: [(&str, &str); 2] = [("apps/v1", "StatefulSet"), ("storage.k8s.io/v1", "CSIDriver")];

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

/// Whether a kube-apiserver of a minor shows the stored objects of a resource as this server does.
#[must_use]
pub fn shows(minor: &str, served: &Served) -> bool {
    minor == MINOR || !depends_on_minor(served)
}

/// Whether it prints the Tables of a resource as this server does, if it shows the objects so.
#[must_use]
pub fn prints(minor: &str, served: &Served) -> bool {
    minor == MINOR || matches!(minor, "35" | "37") && !is_printed_otherwise(minor, &format!("{}/{}", served.group, served.resource))
}

/// Whether another minor than ours shows the same stored objects otherwise: it prints some field by default, has other defaults, or converts fields that our
/// conversion does not have.
fn depends_on_minor(served: &Served) -> bool {
    let Shape::BuiltIn { kind, api_version } = &served.storage.shape else { return false };
    if DEFAULTED_OTHERWISE.contains(&(api_version.as_str(), kind.as_str())) {
        return true;
    }
    let has = |api_version: &str, kind: &str, what: fn(proto::Message) -> bool| proto::message(api_version, kind).is_some_and(what);
    let is_converted = served.conversion != Conversion::None;
    has(api_version, kind, proto::Message::is_printed_otherwise)
        || is_converted && has(api_version, kind, |message| !message.is_the_same_in_all())
        || is_converted && has(&served.api_version(), &served.kind, |message| !message.is_the_same_in_all())
}

fn is_printed_otherwise(minor: &str, resource: &str) -> bool {
    minor.parse().is_ok_and(|minor: u32| PRINTED_OTHERWISE.contains(&(minor, resource)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalogue, builtins::BUILT_INS};

    #[test]
    fn every_difference_names_a_resource() {
        let names: Vec<String> = BUILT_INS.served.iter().map(|served| format!("{}/{}", served.group, served.resource)).collect();
        for (minor, name) in PRINTED_OTHERWISE {
            assert!(matches!(minor, 35 | 37) && names.iter().any(|known| known == name), "{minor} {name}");
        }
        assert!(BUILT_INS.served.iter().all(|served| prints(MINOR, served) && shows(MINOR, served)));
    }

    #[test]
    fn what_was_not_compared_is_not_believed() {
        let catalogue = Catalogue::new(&[]);
        let served = |group, resource| catalogue.served(group, "v1", resource).expect("a built-in");
        let (pods, classes) = (served("", "pods"), served("storage.k8s.io", "storageclasses"));
        assert!(prints("37", pods) && !prints("37", classes));
        for minor in ["34", "38", "99", "", "36+"] {
            assert!(!prints(minor, pods), "{minor}");
        }
    }

    /// What is shown otherwise in front of another minor is little.
    #[test]
    fn few_resources_depend_on_the_minor() {
        let catalogue = Catalogue::new(&[]);
        let odd = catalogue.all_served().filter(|served| !shows("37", served));
        let mut odd: Vec<String> = odd.map(|served| format!("{} {}", served.resource, served.api_version())).collect();
        odd.sort();
        let expected = [
            "csidrivers storage.k8s.io/v1",
            "csinodes storage.k8s.io/v1",
            "horizontalpodautoscalers autoscaling/v1",
            "statefulsets apps/v1",
        ];
        assert_eq!(odd, expected);
    }
}
