//! One rule: what it allows, whether it covers another rule, and how messages print it.

use std::collections::{BTreeSet, HashMap};

use go::quote::quoted;

use super::PolicyRule;
use crate::authz::{Attributes, Resource, Target};

const ALL: &str = "*";

/// Missing parts that are told; their text has about a megabyte.
const MISSING_MAX: usize = 20_000;

/// Whether the list has the value, or the star.
fn has(list: &[String], value: &str) -> bool {
    list.iter().any(|of| of == value || of == ALL)
}

impl PolicyRule {
    pub(in crate::authz) fn allows(&self, asked: &Attributes<'_>) -> bool {
        has(&self.verbs, asked.verb)
            && match &asked.target {
                Target::Resource(resource) => {
                    has(&self.api_groups, resource.group)
                        && self.resources.iter().any(|of| is_resource(of, resource))
                        && (self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == resource.name))
                }
                Target::Path(path) => self.non_resource_urls.iter().any(|url| covers_path(url, path)),
            }
    }

    /// The rule in its smallest parts, until a visit ends it.
    fn each_part<'a>(&'a self, visit: &mut impl FnMut(Part<'a>) -> Option<()>) -> Option<()> {
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let part = |name| Part { verb, what: What::Resource { group, resource, name } };
                    if self.resource_names.is_empty() {
                        visit(part(None))?;
                    }
                    for name in &self.resource_names {
                        visit(part(Some(name)))?;
                    }
                }
            }
        }
        for path in &self.non_resource_urls {
            for verb in &self.verbs {
                visit(Part { verb, what: What::Path(path) })?;
            }
        }
        Some(())
    }

    fn covers(&self, part: &Part<'_>) -> bool {
        has(&self.verbs, part.verb)
            && match part.what {
                What::Resource { group, resource, name } => {
                    has(&self.api_groups, group)
                        && covers_resource(&self.resources, resource)
                        && (self.resource_names.is_empty() || name.is_some_and(|name| self.resource_names.iter().any(|of| of == name)))
                }
                What::Path(path) => self.resource_names.is_empty() && self.non_resource_urls.iter().any(|url| covers_path(url, path)),
            }
    }

    fn words(&self) -> usize {
        [&self.verbs, &self.api_groups, &self.resources, &self.resource_names, &self.non_resource_urls].iter().map(|list| list.len()).sum()
    }

    /// As kube-apiserver tells a rule: only the lists that are not empty.
    fn told(&self) -> String {
        let lists = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let told: Vec<String> =
            lists.iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| format!("{name}:{}", quoted_list(list))).collect();
        format!("{{{}}}", told.join(", "))
    }
}

/// As Go prints a list of strings with `%q`.
pub(super) fn quoted_list(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|text| quoted(text)).collect();
    format!("[{}]", quoted.join(" "))
}

/// Whether a rule's `pods`, `pods/log`, `*/log` or `*` means this resource.
fn is_resource(of: &str, asked: &Resource<'_>) -> bool {
    if of == ALL {
        return true;
    }
    if asked.subresource.is_empty() {
        return of == asked.resource;
    }
    let resource = of.strip_suffix(asked.subresource).and_then(|rest| rest.strip_suffix('/'));
    resource.is_some_and(|resource| resource == asked.resource || resource == ALL)
}

fn covers_resource(held: &[String], wanted: &str) -> bool {
    has(held, wanted)
        || wanted.split_once('/').is_some_and(|(_, subresource)| held.iter().any(|of| of.strip_prefix("*/") == Some(subresource)))
}

/// Whether a rule's path, perhaps with stars at its end, means this one.
fn covers_path(of: &str, path: &str) -> bool {
    of == path || of.ends_with('*') && path.starts_with(of.trim_end_matches('*'))
}

/// A verb on a resource, perhaps by its name, or on a path.
#[derive(Clone, Copy)]
struct Part<'a> {
    verb: &'a str,
    what: What<'a>,
}

#[derive(Clone, Copy)]
enum What<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str> },
    Path(&'a str),
}

impl Part<'_> {
    fn rule(&self) -> PolicyRule {
        let one = |text: &str| vec![text.to_owned()];
        let rule = PolicyRule { verbs: one(self.verb), ..PolicyRule::default() };
        match self.what {
            What::Resource { group, resource, name } => {
                PolicyRule { api_groups: one(group), resources: one(resource), resource_names: name.map(one).unwrap_or_default(), ..rule }
            }
            What::Path(path) => PolicyRule { non_resource_urls: one(path), ..rule },
        }
    }
}

/// The smallest parts of `wanted` that no rule of `held` covers. `None` if more than `MISSING_MAX` are missing, or if more than `steps` words must be
/// compared: a rule of a thousand words has more parts than anyone can look at.
pub(in crate::authz) fn missing<'a>(
    held: impl IntoIterator<Item = &'a PolicyRule> + Clone,
    wanted: &[PolicyRule],
    mut steps: usize,
) -> Option<Vec<PolicyRule>> {
    let mut missing = Vec::new();
    for rule in wanted {
        rule.each_part(&mut |part| {
            for rule in held.clone() {
                steps = steps.checked_sub(rule.words())?;
                if rule.covers(&part) {
                    return Some(());
                }
            }
            missing.push(part.rule());
            (missing.len() <= MISSING_MAX).then_some(())
        })?;
    }
    Some(missing)
}

/// What is missing, a line for each resource or path, sorted. Parts that differ only in the verb are told together.
pub(super) fn told(missing: Vec<PolicyRule>) -> String {
    let mut places = HashMap::new();
    let mut compact: Vec<PolicyRule> = Vec::new();
    for part in missing {
        if part.non_resource_urls.is_empty() {
            let place =
                *places.entry((part.api_groups.clone(), part.resources.clone(), part.resource_names.clone())).or_insert(compact.len());
            if let Some(rule) = compact.get_mut(place) {
                rule.verbs.extend(part.verbs);
                continue;
            }
        }
        compact.push(part);
    }
    let lines: BTreeSet<String> = compact.iter().map(PolicyRule::told).collect();
    lines.into_iter().collect::<Vec<_>>().join("\n")
}
