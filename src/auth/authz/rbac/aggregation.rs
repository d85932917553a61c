//! Aggregated ClusterRoles: their rules are collected from other ClusterRoles, as Kubernetes' clusterrole-aggregation-controller does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;

use super::{PolicyRule, RbacIndex, Role};
use crate::authz::or_default;

/// `aggregationRule` of a ClusterRole.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::authz) struct Rule {
    #[serde(deserialize_with = "or_default")]
    pub(in crate::authz) cluster_role_selectors: Vec<Selector>,
}

/// A `LabelSelector`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::authz) struct Selector {
    #[serde(deserialize_with = "or_default")]
    match_labels: HashMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    match_expressions: Vec<Expression>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Expression {
    key: String,
    operator: String,
    #[serde(deserialize_with = "or_default")]
    values: Vec<String>,
}

impl Selector {
    /// Whether each expression has an operator that exists, with values if it needs them and without if not.
    fn is_valid(&self) -> bool {
        self.match_expressions.iter().all(|expression| match &*expression.operator {
            "In" | "NotIn" => !expression.values.is_empty(),
            "Exists" | "DoesNotExist" => expression.values.is_empty(),
            _ => false,
        })
    }

    fn matches(&self, labels: &HashMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|Expression { key, operator, values }| match &**operator {
                "In" => labels.get(key).is_some_and(|value| values.contains(value)),
                "NotIn" => labels.get(key).is_none_or(|value| !values.contains(value)),
                "Exists" => labels.contains_key(key),
                _ => !labels.contains_key(key),
            })
    }
}

/// A ClusterRole that should have other rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregated {
    /// Its name.
    pub name: Arc<str>,
    /// The rules.
    pub rules: Vec<PolicyRule>,
}

impl RbacIndex {
    /// The aggregating ClusterRoles whose rules are not those of the roles that they select, with the rules that they should have. A role may select another
    /// one that is in the list too: once all are written, ask again, until the list is empty. A role with a selector that makes no sense stays as it is.
    #[must_use]
    pub fn aggregated(&self) -> Vec<Aggregated> {
        let mut roles: Vec<(&Arc<str>, &Role)> = self.cluster_roles.iter().map(|(name, role)| (name, &**role)).collect();
        roles.sort_by_key(|(name, _)| *name);
        let changed = |(name, role): &(&Arc<str>, &Role)| {
            let rules = union(&roles, name, role.aggregation_rule.as_ref()?)?;
            let differs = !rules.iter().copied().eq(role.rules.iter());
            differs.then(|| Aggregated { name: Arc::clone(name), rules: rules.into_iter().cloned().collect() })
        };
        roles.iter().filter_map(changed).collect()
    }
}

/// The rules of all roles that one selects, each once: by selector, then by the role's name. `roles` are sorted.
fn union<'a>(roles: &[(&Arc<str>, &'a Role)], name: &str, rule: &Rule) -> Option<Vec<&'a PolicyRule>> {
    let (mut rules, mut seen) = (Vec::new(), HashSet::new());
    for selector in &rule.cluster_role_selectors {
        if !selector.is_valid() {
            return None;
        }
        let selected = roles.iter().filter(|(of, role)| ***of != *name && selector.matches(&role.metadata.labels));
        rules.extend(selected.flat_map(|(_, role)| role.rules.iter()).filter(|rule| seen.insert(*rule)));
    }
    Some(rules)
}
