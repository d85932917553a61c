//! Which requests a webhook or a policy is about (`NamedRuleWithOperations`).

use serde_json::Value;

use crate::{Operation, tree};

/// A resource, as rules name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource<'a> {
    /// API group.
    pub group: &'a str,
    /// Version.
    pub version: &'a str,
    /// Plural name.
    pub resource: &'a str,
}

/// What is written. Empty strings where there is none.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// What is done.
    pub operation: Operation,
    /// The resource of the request.
    pub resource: Resource<'a>,
    /// Its subresource.
    pub subresource: &'a str,
    /// The namespace; of a namespace its own name.
    pub namespace: &'a str,
    /// The name of the object; empty while it has none.
    pub name: &'a str,
}

#[derive(Debug)]
pub(super) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resource and subresource.
    resources: Vec<(String, String)>,
    scope: Scope,
    /// Names of objects; empty for all.
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Cluster,
    Namespaced,
    /// Of what no version knows.
    Nothing,
}

impl Rule {
    pub(super) fn read(rule: &Value) -> Self {
        let texts = |name: &str| tree::texts(rule, &[name]).map(str::to_owned).collect::<Vec<_>>();
        let parts = |text: &str| text.split_once('/').map_or((text.to_owned(), String::new()), |(of, sub)| (of.to_owned(), sub.to_owned()));
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            names: texts("resourceNames"),
            resources: tree::texts(rule, &["resources"]).map(parts).collect(),
            scope: match tree::text(rule, &["scope"]) {
                "" | "*" => Scope::All,
                "Cluster" => Scope::Cluster,
                "Namespaced" => Scope::Namespaced,
                _ => Scope::Nothing,
            },
        }
    }

    pub(super) fn names_objects(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether this write, as one of this resource, is one of the rule's.
    pub(super) fn matches(&self, asked: &Asked<'_>, of: &Resource<'_>) -> bool {
        // A request about a namespace has its name as the namespace.
        let is_cluster = (of.group, of.version, of.resource) == ("", "v1", "namespaces") || asked.namespace.is_empty();
        let in_scope = match self.scope {
            Scope::All => true,
            Scope::Cluster => is_cluster,
            Scope::Namespaced => !is_cluster,
            Scope::Nothing => false,
        };
        let names = |items: &[String], wanted: &str| items.iter().any(|item| item == "*" || item == wanted);
        let is = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        in_scope
            && (self.names.is_empty() || self.names.iter().any(|name| name == asked.name))
            && names(&self.operations, asked.operation.name())
            && names(&self.groups, of.group)
            && names(&self.versions, of.version)
            && self.resources.iter().any(|(resource, sub)| is(resource, of.resource) && is(sub, asked.subresource))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(resources: &[&str], scope: &str, (resource, subresource, namespace): (&str, &str, &str)) -> bool {
        let rule = json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": resources, "scope": scope});
        let resource = Resource { group: "", version: "v1", resource };
        Rule::read(&rule).matches(&Asked { operation: Operation::Delete, resource, subresource, namespace, name: "" }, &resource)
    }

    #[test]
    fn subresources_are_named() {
        for (pattern, subresource, want) in [
            ("pods", "", true),
            ("pods", "status", false),
            ("pods/status", "status", true),
            ("pods/*", "", true),
            ("pods/*", "status", true),
            ("*", "status", false),
            ("*/status", "status", true),
            ("*/*", "x", true),
        ] {
            assert_eq!(matches(&[pattern], "*", ("pods", subresource, "n")), want, "{pattern} {subresource}");
        }
    }

    #[test]
    fn a_namespace_is_of_the_cluster() {
        assert!(matches(&["*"], "Cluster", ("namespaces", "", "n")) && !matches(&["*"], "Namespaced", ("namespaces", "", "n")));
        assert!(matches(&["*"], "Namespaced", ("pods", "", "n")) && !matches(&["*"], "Cluster", ("pods", "", "n")));
        assert!(matches(&["*"], "Cluster", ("nodes", "", "")) && !matches(&["*"], "Elsewhere", ("nodes", "", "")));
    }
}
