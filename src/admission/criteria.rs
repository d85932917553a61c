//! Which writes a webhook or a policy is about: rules, the labels of the namespace and of the object.

use serde_json::Value;

use crate::tree;
use model::selector::selects;

mod rule;

use rule::Rule;
pub use rule::{Asked, Resource};

/// See the file's header.
#[derive(Debug)]
pub struct Criteria {
    rules: Vec<Rule>,
    /// What is left out, whatever the rules say.
    excluded: Vec<Rule>,
    /// Without rules everything matches.
    matches_without_rules: bool,
    /// The same object in other versions matches too.
    matches_equivalent: bool,
    namespace_selector: Value,
    object_selector: Value,
}

impl Criteria {
    /// Reads those of a webhook.
    pub(crate) fn of_hook(hook: &Value) -> Self {
        Self::read(hook, "rules", tree::text(hook, &["matchPolicy"]) != "Exact", false)
    }

    /// Reads those of a policy or of a binding: `matchConstraints`, `matchResources`.
    pub(crate) fn of_policy(resources: &Value) -> Self {
        Self::read(resources, "resourceRules", tree::text(resources, &["matchPolicy"]) != "Exact", true)
    }

    fn read(criteria: &Value, rules: &str, matches_equivalent: bool, matches_without_rules: bool) -> Self {
        let all = |name: &str| criteria[name].as_array().into_iter().flatten().map(Rule::read).collect();
        Self {
            rules: all(rules),
            excluded: all("excludeResourceRules"),
            matches_without_rules,
            matches_equivalent,
            namespace_selector: criteria["namespaceSelector"].clone(),
            object_selector: criteria["objectSelector"].clone(),
        }
    }

    /// Returns the resource as which this write matches: that of the request, or an equivalent one that a rule names. None: it does not, whatever the object.
    #[must_use]
    pub fn matched<'r>(&self, asked: &Asked<'r>, equivalents: &[Resource<'r>]) -> Option<Resource<'r>> {
        if self.by(&self.excluded, asked, equivalents).is_some() {
            return None;
        }
        if self.rules.is_empty() && self.matches_without_rules {
            return Some(asked.resource);
        }
        self.by(&self.rules, asked, equivalents)
    }

    /// Returns whether rules name objects.
    #[must_use]
    pub fn names_objects(&self) -> bool {
        self.rules.iter().chain(&self.excluded).any(Rule::names_objects)
    }

    fn by<'r>(&self, rules: &[Rule], asked: &Asked<'r>, equivalents: &[Resource<'r>]) -> Option<Resource<'r>> {
        if rules.iter().any(|rule| rule.matches(asked, &asked.resource)) {
            return Some(asked.resource);
        }
        let others = || equivalents.iter().filter(|other| **other != asked.resource);
        let equivalent = |rule: &Rule| others().find(|other| rule.matches(asked, other)).copied();
        rules.iter().filter(|_| self.matches_equivalent).find_map(equivalent)
    }

    /// Returns whether they look at the labels of the namespace.
    #[must_use]
    pub fn selects_namespaces(&self) -> bool {
        !is_empty(&self.namespace_selector)
    }

    /// Returns whether objects of a namespace with these labels match.
    ///
    /// # Errors
    /// The selector is none.
    pub fn selects_namespace(&self, labels: &Value) -> Result<bool, String> {
        selects(&self.namespace_selector, labels.as_object()).ok_or_else(|| unusable("namespaceSelector"))
    }

    /// Returns whether an object matches, by the labels that it has or had.
    ///
    /// # Errors
    /// The selector is none.
    pub fn selects_object(&self, new: Option<&Value>, old: Option<&Value>) -> Result<bool, String> {
        if is_empty(&self.object_selector) {
            return Ok(true);
        }
        for object in new.into_iter().chain(old) {
            let labels = object["metadata"]["labels"].as_object();
            if selects(&self.object_selector, labels).ok_or_else(|| unusable("objectSelector"))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_empty(selector: &Value) -> bool {
    let has = |name: &str| match &selector[name] {
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => false,
    };
    !has("matchLabels") && !has("matchExpressions")
}

fn unusable(selector: &str) -> String {
    format!("the {selector} is not valid")
}
