//! Errors for clients that ask for the metadata of a list as that of one object, or the other way round (spec api-surface §3.3), and for an
//! `includeObject` of a Table that does not exist.

use super::{accept::Shape, status::Status};
use catalogue::Served;
use go::quote::quoted;

/// The failure of an answer that is there, but is not of the kind that was asked for. It comes after every other failure: kube-apiserver finds out
/// when it converts the answer. Its texts name its Go types.
pub(super) fn mismatch(asked: Shape, served: &Served, is_scale: bool, is_list: bool) -> Option<Status> {
    let go = match served.is_custom() {
        true => "*unstructured.Unstructured".to_owned(),
        false if is_scale && !is_list => "*autoscaling.Scale".to_owned(),
        false => go_type(served),
    };
    match asked {
        // An `Unstructured` passes for a list until its items are asked for.
        Shape::Partial(asked) if served.is_custom() && asked.list && !is_list => Some(Status::internal("content is not a list".to_owned())),
        asked => mismatch_of(asked, &go, is_list),
    }
}

/// The same of an object of this Go type, or of a list of those.
pub(super) fn mismatch_of(asked: Shape, go: &str, is_list: bool) -> Option<Status> {
    let Shape::Partial(asked) = asked else { return None };
    let why = match (asked.list, is_list) {
        (true, true) | (false, false) => return None,
        (false, true) => format!("you requested PartialObjectMetadata, but the requested object is a list ({go}List)"),
        (true, false) => format!("you requested PartialObjectMetadataList, but the requested object is not a list ({go})"),
    };
    Some(Status::not_acceptable_as(why))
}

/// 400 for an `includeObject` that is none (spec api-surface §4.1). It too is found out when the answer is converted.
pub(super) fn no_such_include(word: &str) -> Status {
    let why = "must be 'Metadata', 'Object', 'None', or empty";
    Status::bad_request(format!("Unable to convert to Table as requested: includeObject: Invalid value: {}: {why}", quoted(word)))
}

/// kube-apiserver's internal type of a built-in: its package is named like the group's first word, and Events of both groups are core's.
fn go_type(served: &Served) -> String {
    let package = match served.group.as_str() {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    format!("*{package}.{}", served.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::Partial;
    use catalogue::Catalogue;
    use codec::MetaVersion;

    /// Recorded from kube-apiserver 1.36.3.
    #[test]
    fn texts_name_the_go_types() {
        let catalogue = Catalogue::new(&[]);
        let check = |group: &str, resource: &str, list: bool, expect: Option<&str>| {
            let served = catalogue.served(group, "v1", resource).expect("a built-in");
            let told = mismatch(Shape::Partial(Partial { version: MetaVersion::V1, list }), served, false, !list);
            assert_eq!(told.map(|status| (status.code, status.message)), expect.map(|text| (406, text.to_owned())));
        };
        let list = "you requested PartialObjectMetadata, but the requested object is a list";
        let object = "you requested PartialObjectMetadataList, but the requested object is not a list";
        check("", "configmaps", false, Some(&format!("{list} (*core.ConfigMapList)")));
        check("", "nodes", true, Some(&format!("{object} (*core.Node)")));
        check("events.k8s.io", "events", false, Some(&format!("{list} (*core.EventList)")));
        check("apps", "deployments", false, Some(&format!("{list} (*apps.DeploymentList)")));
        check("rbac.authorization.k8s.io", "roles", false, Some(&format!("{list} (*rbac.RoleList)")));
        check("flowcontrol.apiserver.k8s.io", "flowschemas", false, Some(&format!("{list} (*flowcontrol.FlowSchemaList)")));
        let crd = format!("{object} (*apiextensions.CustomResourceDefinition)");
        check("apiextensions.k8s.io", "customresourcedefinitions", true, Some(&crd));
    }

    #[test]
    fn a_scale_is_of_its_own_type() {
        let catalogue = Catalogue::new(&[]);
        let served = catalogue.served("apps", "v1", "deployments").expect("a built-in");
        let told = mismatch(Shape::Partial(Partial { version: MetaVersion::V1, list: true }), served, true, false).expect("no list");
        assert!(told.message.ends_with("is not a list (*autoscaling.Scale)"), "{}", told.message);
    }

    #[test]
    fn what_fits_is_not_refused() {
        let catalogue = Catalogue::new(&[]);
        let served = catalogue.served("", "v1", "pods").expect("a built-in");
        for list in [true, false] {
            assert!(mismatch(Shape::Partial(Partial { version: MetaVersion::V1Beta1, list }), served, false, list).is_none());
            assert!(mismatch(Shape::Whole, served, false, list).is_none());
        }
    }
}
