//! What somebody may do, as it is told: rules of roles are not copied, however often a role is bound.

use std::sync::Arc;

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::{aggregate, rbac::PolicyRule};

/// What somebody may do in a namespace, as far as an authorizer can tell it. As JSON it is the status of a SelfSubjectRulesReview.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The rules of each role that is bound, in the order of the bindings.
    pub of_roles: Vec<Arc<[PolicyRule]>>,
    /// Whether an authorizer may allow more than is listed.
    pub incomplete: bool,
    /// Why rules may be missing.
    pub errors: Vec<String>,
}

/// A rule about resources or about paths, as it is told.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToldRule<'r> {
    verbs: &'r [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    api_groups: &'r [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    resources: &'r [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    resource_names: &'r [String],
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "<[String]>::is_empty")]
    non_resource_urls: &'r [String],
}

impl<'r> ToldRule<'r> {
    /// What a rule says about resources, if it says anything.
    #[must_use]
    pub fn of_resources(rule: &'r PolicyRule) -> Option<Self> {
        let PolicyRule { verbs, api_groups, resources, resource_names, .. } = rule;
        (!resources.is_empty()).then_some(Self { verbs, api_groups, resources, resource_names, non_resource_urls: &[] })
    }

    /// What it says about paths.
    #[must_use]
    pub fn of_paths(rule: &'r PolicyRule) -> Option<Self> {
        let PolicyRule { verbs, non_resource_urls, .. } = rule;
        let none = &[];
        (!non_resource_urls.is_empty()).then_some(Self {
            verbs,
            api_groups: none,
            resources: none,
            resource_names: none,
            non_resource_urls,
        })
    }
}

impl ToldRule<'_> {
    /// Its members in the order of the Go type, without those that are left out when they are empty.
    pub fn members(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let Self { verbs, api_groups, resources, resource_names, non_resource_urls } = *self;
        let others = [
            ("apiGroups", api_groups),
            ("resources", resources),
            ("resourceNames", resource_names),
            ("nonResourceURLs", non_resource_urls),
        ];
        std::iter::once(("verbs", verbs)).chain(others.into_iter().filter(|(_, texts)| !texts.is_empty()))
    }
}

impl Rules {
    /// About how many bytes they have as JSON, counted up to a limit.
    #[must_use]
    pub fn bytes_up_to(&self, limit: usize) -> usize {
        const AROUND: usize = 48;
        let mut bytes = 0;
        for rule in self.of_roles.iter().flat_map(|rules| rules.iter()) {
            let PolicyRule { verbs, api_groups, resources, resource_names, non_resource_urls } = rule;
            let texts = [verbs, api_groups, resources, resource_names, non_resource_urls].into_iter().flatten();
            bytes += AROUND + texts.map(|text| text.len() + 3).sum::<usize>();
            if bytes > limit {
                break;
            }
        }
        bytes
    }
}

impl Serialize for Rules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = || self.of_roles.iter().flat_map(|rules| rules.iter());
        let mut status = serializer.serialize_struct("Rules", 4)?;
        status.serialize_field("resourceRules", &all().filter_map(ToldRule::of_resources).collect::<Vec<_>>())?;
        status.serialize_field("nonResourceRules", &all().filter_map(ToldRule::of_paths).collect::<Vec<_>>())?;
        status.serialize_field("incomplete", &self.incomplete)?;
        if !self.errors.is_empty() {
            status.serialize_field("evaluationError", &aggregate(&self.errors))?;
        }
        status.end()
    }
}
