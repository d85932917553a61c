//! The policy: `audit.k8s.io/v1` Policy, read and validated in kube-apiserver's words. The first rule that fits a request decides. Pure.

use serde_json::{Map, Value};

use auth::User;
use auth::authz::RequestInfo;
use go::quote::quoted;
use model::{
    invalid::{FieldError, joined},
    legal,
};

use crate::event::{Level, Stage};

/// Which requests are logged, and how much of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<PolicyRule>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

/// What the policy says about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The level.
    pub level: Level,
    /// The stages that are not.
    pub omit_stages: Vec<Stage>,
    /// Whether `metadata.managedFields` of objects is left out.
    pub omit_managed_fields: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PolicyRule {
    level: Level,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    non_resource_urls: Vec<String>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    names: Vec<String>,
}

const VERSION: &str = "audit.k8s.io/v1";

impl Policy {
    /// Reads a policy. What it has and no Policy has is returned beside it: kube-apiserver only warns of that.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn read(document: &Value) -> Result<(Self, Vec<String>), String> {
        let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
        match (text("apiVersion"), text("kind")) {
            (VERSION, "Policy") => {}
            ("", "" | "Policy") => return Err("unknown group version field audit.k8s.io/__internal, Kind=Policy in policy".to_owned()),
            (version, kind) => {
                let (kind, version) = (quoted(kind), quoted(version));
                return Err(format!(
                    r#"failed decoding: no kind {kind} is registered for version {version} in scheme "pkg/runtime/scheme.go:111""#
                ));
            }
        }
        let mut reader = Reader::default();
        let members = ["kind", "apiVersion", "metadata", "rules", "omitStages", "omitManagedFields"];
        let fields = reader.fields(document, "", "Policy", &members).map_err(decoding)?;
        let raw = Raw {
            rules: reader.each(&fields, "rules", Reader::rule).map_err(decoding)?,
            omit_stages: fields.texts("omitStages").map_err(decoding)?,
            omit_managed_fields: fields.flag("omitManagedFields").map_err(decoding)?.unwrap_or_default(),
        };
        let wrong = raw.wrong();
        if !wrong.is_empty() {
            return Err(joined(&wrong));
        }
        if raw.rules.is_empty() {
            return Err("loaded illegal policy with 0 rules".to_owned());
        }
        reader.unknown.sort_unstable();
        Ok((raw.checked(), reader.unknown))
    }

    /// Returns the rule of a request; without a user it is not authenticated.
    #[must_use]
    pub fn rule(&self, user: Option<&User>, info: &RequestInfo) -> Rule {
        match self.rules.iter().find(|rule| rule.fits(user, info)) {
            Some(rule) => Rule {
                level: rule.level,
                omit_stages: self.omit_stages.iter().chain(&rule.omit_stages).copied().collect(),
                omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
            },
            None => Rule { level: Level::None, omit_stages: self.omit_stages.clone(), omit_managed_fields: self.omit_managed_fields },
        }
    }
}

impl PolicyRule {
    fn fits(&self, user: Option<&User>, info: &RequestInfo) -> bool {
        let has = |list: &[String], text: &str| list.iter().any(|item| item == text);
        let fits_user = self.users.is_empty() || user.is_some_and(|user| has(&self.users, &user.name));
        let fits_group =
            self.user_groups.is_empty() || user.is_some_and(|user| user.groups.iter().any(|group| has(&self.user_groups, group)));
        if !fits_user || !fits_group || !(self.verbs.is_empty() || has(&self.verbs, &info.verb)) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            // What is in no namespace has the empty one.
            return info.is_resource
                && (self.namespaces.is_empty() || has(&self.namespaces, &info.namespace))
                && (self.resources.is_empty() || self.resources.iter().any(|of| of.fits(info)));
        }
        self.non_resource_urls.is_empty() || !info.is_resource && self.non_resource_urls.iter().any(|url| fits_path(url, &info.path))
    }
}

fn fits_path(url: &str, path: &str) -> bool {
    url == "*" || url == path || url.ends_with('*') && path.starts_with(url.trim_end_matches('*'))
}

impl GroupResources {
    fn fits(&self, info: &RequestInfo) -> bool {
        if self.group != info.group && self.group != "*" {
            return false;
        }
        let fits_name = self.names.is_empty() || self.names.contains(&info.name);
        self.resources.is_empty() || fits_name && self.resources.iter().any(|resource| fits_resource(resource, info))
    }
}

fn fits_resource(pattern: &str, info: &RequestInfo) -> bool {
    let whole = match &*info.subresource {
        "" => pattern == info.resource,
        subresource => pattern.split_once('/').is_some_and(|(resource, sub)| {
            let fits = resource == info.resource && sub == subresource;
            fits || resource == "*" && sub == subresource
        }),
    };
    whole || pattern == "*" || pattern.strip_suffix("/*") == Some(&info.resource)
}

/// A policy whose fields have the right types.
struct Raw {
    rules: Vec<RawRule>,
    omit_stages: Vec<String>,
    omit_managed_fields: bool,
}

struct RawRule {
    level: String,
    omit_stages: Vec<String>,
    rest: PolicyRule,
}

impl Raw {
    fn wrong(&self) -> Vec<FieldError> {
        let mut wrong = wrong_stages(&self.omit_stages, "omitStages");
        for (at, rule) in self.rules.iter().enumerate() {
            rule.wrong(&format!("rules[{at}]"), &mut wrong);
        }
        wrong
    }

    /// Every level and stage is known by now.
    fn checked(self) -> Policy {
        let rules = self.rules.into_iter().map(|raw| PolicyRule {
            level: Level::of(&raw.level).unwrap_or_default(),
            omit_stages: stages(&raw.omit_stages),
            ..raw.rest
        });
        Policy { rules: rules.collect(), omit_stages: stages(&self.omit_stages), omit_managed_fields: self.omit_managed_fields }
    }
}

fn stages(names: &[String]) -> Vec<Stage> {
    names.iter().filter_map(|name| Stage::of(name)).collect()
}

fn wrong_stages(names: &[String], path: &str) -> Vec<FieldError> {
    let allowed: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
    let why = format!("allowed stages are {}", allowed.join(","));
    let unknown = names.iter().enumerate().filter(|(_, name)| Stage::of(name).is_none());
    unknown.map(|(at, name)| FieldError::invalid(format!("{path}[{at}]"), &name.as_str().into(), &why)).collect()
}

impl RawRule {
    fn wrong(&self, path: &str, wrong: &mut Vec<FieldError>) {
        let levels: Vec<&str> = Level::ALL.iter().map(|level| level.name()).collect();
        let field = format!("{path}.level");
        if self.level.is_empty() {
            wrong.push(FieldError::required(field, ""));
        } else if Level::of(&self.level).is_none() {
            wrong.push(FieldError::not_supported(field, &self.level.as_str().into(), &levels));
        }
        let urls = &self.rest.non_resource_urls;
        for (at, url) in urls.iter().enumerate().filter(|(_, url)| *url != "*") {
            let mut tell = |why| wrong.push(FieldError::invalid(format!("{path}.nonResourceURLs[{at}]"), &url.as_str().into(), why));
            if !url.starts_with('/') {
                tell("non-resource URL rules must begin with a '/' character");
            }
            let before_last = url.char_indices().next_back().map_or("", |(last, _)| &url[..last]);
            if before_last.contains('*') {
                tell("non-resource URL wildcards '*' must be the final character of the rule");
            }
        }
        for of in &self.rest.resources {
            let why = legal::wrong_subdomain(&of.group);
            if !matches!(&*of.group, "" | "*") && !why.is_empty() {
                wrong.push(FieldError::invalid(format!("{path}.resources.group"), &of.group.as_str().into(), &why.join(",")));
            }
            if !of.names.is_empty() && of.resources.is_empty() {
                let why = "using resourceNames requires at least one resource";
                wrong.push(FieldError::invalid(format!("{path}.resources.resourceNames"), &of.names.clone().into(), why));
            }
        }
        wrong.extend(wrong_stages(&self.omit_stages, &format!("{path}.omitStages")));
        let has_resources = !self.rest.resources.is_empty() || !self.rest.namespaces.is_empty();
        if !urls.is_empty() && has_resources {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            wrong.push(FieldError::invalid(format!("{path}.nonResourceURLs"), &urls.clone().into(), why));
        }
    }
}

/// Reads a document, and keeps the paths that no Policy has.
#[derive(Default)]
struct Reader {
    unknown: Vec<String>,
}

/// A struct of the document: where it is, and what Go calls it.
struct Fields<'a> {
    members: Option<&'a Map<String, Value>>,
    path: String,
    /// `PolicyRule.rules`: the type that the first field of an error is in, and how to come to it.
    go_path: String,
}

impl Reader {
    fn fields<'a>(&mut self, value: &'a Value, path: &str, go_path: &str, known: &[&str]) -> Result<Fields<'a>, String> {
        let members = match value {
            Value::Null => None,
            Value::Object(members) => Some(members),
            other => return Err(mistyped(other, go_path, &format!("v1.{}", go_path.split('.').next().unwrap_or_default()))),
        };
        let unknown = members.into_iter().flatten().map(|(name, _)| name).filter(|name| !known.contains(&name.as_str()));
        self.unknown.extend(unknown.map(|name| if path.is_empty() { name.clone() } else { format!("{path}.{name}") }));
        Ok(Fields { members, path: path.to_owned(), go_path: go_path.to_owned() })
    }

    /// The structs of a list.
    fn each<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        read: fn(&mut Self, &Value, &str) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let dot = if fields.path.is_empty() { "" } else { "." };
        let items = fields.list(name, "[]v1.PolicyRule")?;
        items.iter().enumerate().map(|(at, item)| read(self, item, &format!("{}{dot}{name}[{at}]", fields.path))).collect()
    }

    fn rule(&mut self, value: &Value, path: &str) -> Result<RawRule, String> {
        let members =
            ["level", "users", "userGroups", "verbs", "resources", "namespaces", "nonResourceURLs", "omitStages", "omitManagedFields"];
        let fields = self.fields(value, path, "PolicyRule.rules", &members)?;
        Ok(RawRule {
            level: fields.text("level", "v1.Level")?,
            omit_stages: fields.texts("omitStages")?,
            rest: PolicyRule {
                level: Level::default(),
                users: fields.texts("users")?,
                user_groups: fields.texts("userGroups")?,
                verbs: fields.texts("verbs")?,
                resources: self.each(&fields, "resources", Self::group)?,
                namespaces: fields.texts("namespaces")?,
                non_resource_urls: fields.texts("nonResourceURLs")?,
                omit_stages: Vec::new(),
                omit_managed_fields: fields.flag("omitManagedFields")?,
            },
        })
    }

    fn group(&mut self, value: &Value, path: &str) -> Result<GroupResources, String> {
        let fields = self.fields(value, path, "GroupResources.rules.resources", &["group", "resources", "resourceNames"])?;
        Ok(GroupResources {
            group: fields.text("group", "string")?,
            resources: fields.texts("resources")?,
            names: fields.texts("resourceNames")?,
        })
    }
}

impl Fields<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.members.and_then(|members| members.get(name)).filter(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, value: &Value, go_type: &str) -> String {
        mistyped(value, &format!("{}.{name}", self.go_path), go_type)
    }

    fn text(&self, name: &str, go_type: &str) -> Result<String, String> {
        let text = self.get(name).map(|value| value.as_str().ok_or_else(|| self.wrong(name, value, go_type)));
        Ok(text.transpose()?.unwrap_or_default().to_owned())
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        self.get(name).map(|value| value.as_bool().ok_or_else(|| self.wrong(name, value, "bool"))).transpose()
    }

    fn list(&self, name: &str, go_type: &str) -> Result<&[Value], String> {
        let list = self.get(name).map(|value| value.as_array().ok_or_else(|| self.wrong(name, value, go_type)));
        Ok(list.transpose()?.map_or(&[], Vec::as_slice))
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, String> {
        let texts = self.list(name, "[]string")?.iter();
        texts.map(|value| value.as_str().map(str::to_owned).ok_or_else(|| self.wrong(name, value, "string"))).collect()
    }
}

fn mistyped(value: &Value, field: &str, go_type: &str) -> String {
    let found = go::json::kind(value);
    format!("json: cannot unmarshal {found} into Go struct field {field} of type {go_type}")
}

fn decoding(why: String) -> String {
    format!("failed decoding: {why}")
}

#[cfg(test)]
mod tests;
