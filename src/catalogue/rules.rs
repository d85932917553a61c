//! How a served resource is written: facts of its Go strategy, as data.

use serde::Deserialize;

/// What differs between resources when they are written (spec api-surface §5, §6, §8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// `metadata.generation` counts the changes of the spec, from 1.
    pub generation: bool,
    /// A PUT of what does not exist creates it.
    pub create_on_update: bool,
    /// A PUT may leave `metadata.resourceVersion` away and then overwrites whatever is there.
    pub unconditional_update: bool,
    /// A DELETE answers with the deleted object, not with a Status.
    pub delete_returns_object: bool,
    /// A finalizer without a `/` need not be a standard one.
    pub any_finalizer: bool,
    /// Which names are accepted.
    pub name: NameRule,
}

/// Which names a resource accepts (spec api-surface §5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameRule {
    /// A DNS subdomain of RFC 1123: `a.b-c`.
    #[default]
    Subdomain,
    /// A DNS label of RFC 1123: `1-a`.
    Label,
    /// Anything that can be one segment of a URL path: `system:node`.
    PathSegment,
    /// A subdomain of at most 52 characters: eleven more make the name of a Job.
    CronJob,
    /// An IP address in canonical form: `10.0.0.1`, `2001:db8::1`.
    IpAddress,
    /// `spec.names.plural` and `spec.group` with a dot between: CustomResourceDefinitions.
    PluralGroup,
    /// `spec.version` and `spec.group` with a dot between: APIServices.
    VersionGroup,
}

/// The rules of every resource that a CustomResourceDefinition declares.
pub(super) const CUSTOM: Rules = Rules {
    generation: true,
    create_on_update: false,
    unconditional_update: false,
    delete_returns_object: false,
    any_finalizer: true,
    name: NameRule::Subdomain,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalogue;

    fn rules(group: &str, resource: &str) -> Rules {
        Catalogue::new(&[]).served(group, "v1", resource).expect("a built-in").rules
    }

    #[test]
    fn the_file_says_how_a_resource_is_written() {
        let of = |rules: Rules| (rules.generation, rules.create_on_update, rules.unconditional_update, rules.delete_returns_object);
        assert_eq!(of(rules("", "configmaps")), (false, false, true, false));
        assert_eq!(of(rules("", "pods")), (true, false, true, true));
        assert_eq!(of(rules("coordination.k8s.io", "leases")), (false, true, false, false));
        assert_eq!(of(rules("storage.k8s.io", "csistoragecapacities")), (false, false, false, false));
        assert_eq!(of(CUSTOM), (true, false, false, false));
    }

    #[test]
    fn some_take_any_finalizer() {
        let catalogue = Catalogue::new(&[]);
        let any = catalogue.all_served().filter(|served| served.rules.any_finalizer);
        assert_eq!(any.count(), 12);
        assert!(rules("coordination.k8s.io", "leases").any_finalizer && !rules("", "configmaps").any_finalizer);
    }

    #[test]
    fn most_names_are_subdomains() {
        let catalogue = Catalogue::new(&[]);
        let mut others: Vec<_> =
            catalogue.all_served().filter(|s| s.rules.name != NameRule::Subdomain).map(|s| (s.resource.as_str(), s.rules.name)).collect();
        others.sort_unstable_by_key(|(resource, _)| *resource);
        assert_eq!(
            others,
            [
                ("apiservices", NameRule::VersionGroup),
                ("certificatesigningrequests", NameRule::PathSegment),
                ("clusterrolebindings", NameRule::PathSegment),
                ("clusterroles", NameRule::PathSegment),
                ("cronjobs", NameRule::CronJob),
                ("customresourcedefinitions", NameRule::PluralGroup),
                ("events", NameRule::PathSegment),
                ("ipaddresses", NameRule::IpAddress),
                ("namespaces", NameRule::Label),
                ("poddisruptionbudgets", NameRule::PathSegment),
                ("rolebindings", NameRule::PathSegment),
                ("roles", NameRule::PathSegment),
                ("services", NameRule::Label),
                ("statefulsets", NameRule::Label),
            ]
        );
    }
}
