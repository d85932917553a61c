//! Which resources are followed: those that are named, or each when it is first asked for; never what is denied, and Secrets only when they are named.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use model::Storage;

/// Resources that are followed only when they are named.
const ONLY_NAMED: &[(&str, &str)] = &[("", "secrets")];

/// The resource that is followed whatever is named: it says which custom resources there are.
const DEFINITIONS: (&str, &str) = ("customresourcedefinitions", "apiextensions.k8s.io");

/// A resource as flags name it: `pods`, `deployments.apps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its plural name.
    pub resource: String,
    /// Its group; empty for the core group.
    pub group: String,
}

/// See the file's header.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The resources that are followed from the start; none: each when it is first asked for.
    pub named: Option<Vec<Wanted>>,
    /// All others are followed from the start too.
    pub all: bool,
    /// Resources that are never followed.
    pub denied: Vec<Wanted>,
    /// How long nobody asks for a resource until it is let go; none: never. Of resources that are not named.
    pub idle: Option<Duration>,
}

/// When a resource is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    Always,
    WhenAsked,
    Never,
}

impl Wanted {
    /// From a flag.
    ///
    /// # Errors
    /// It is no name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte));
        if resource.is_empty() || !is_name(resource) || !is_name(group) {
            return Err(format!("{text:?} names no resource: RESOURCE or RESOURCE.GROUP"));
        }
        Ok(Self { resource: resource.to_owned(), group: group.to_owned() })
    }

    fn is(&self, storage: &Storage) -> bool {
        self.name() == (&*storage.resource, &*storage.group)
    }

    fn name(&self) -> (&str, &str) {
        (&self.resource, &self.group)
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(out, ".{}", self.group) }
    }
}

impl Policy {
    /// Whether this resource is followed from the start.
    #[must_use]
    pub fn is_followed_from_the_start(&self, storage: &Storage) -> bool {
        self.follows(storage) == Follows::Always
    }

    /// The names that are none of these resources': of custom resources, or mistaken.
    #[must_use]
    pub fn unknown<'a>(&self, known: impl Iterator<Item = &'a Arc<Storage>>) -> Vec<String> {
        let known: HashSet<(&str, &str)> = known.map(|storage| (&*storage.resource, &*storage.group)).chain([DEFINITIONS]).collect();
        let names = self.named.iter().flatten().chain(&self.denied);
        names.filter(|wanted| !known.contains(&wanted.name())).map(Wanted::to_string).collect()
    }

    /// When this resource is followed. Definitions always are.
    pub(crate) fn follows(&self, storage: &Storage) -> Follows {
        let is_in = |wanted: &[Wanted]| wanted.iter().any(|wanted| wanted.is(storage));
        if (&*storage.resource, &*storage.group) == DEFINITIONS {
            return Follows::Always;
        }
        let is_only_named = ONLY_NAMED.contains(&(&storage.group, &storage.resource));
        match &self.named {
            _ if is_in(&self.denied) => Follows::Never,
            Some(named) if is_in(named) => Follows::Always,
            _ if self.all && !is_only_named => Follows::Always,
            Some(_) => Follows::Never,
            None if is_only_named => Follows::Never,
            None => Follows::WhenAsked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(resource: &str, group: &str) -> Storage {
        Storage { resource: resource.to_owned(), group: group.to_owned(), ..Storage::test_config_maps() }
    }

    #[test]
    fn names_of_nothing_are_told() {
        let wanted = |names: &[&str]| names.iter().map(|name| Wanted::parse(name).expect("a name")).collect::<Vec<_>>();
        let policy = Policy {
            named: Some(wanted(&["pods", "deployment.apps", "customresourcedefinitions.apiextensions.k8s.io"])),
            denied: wanted(&["widgets.ex.io", "pods"]),
            ..Policy::default()
        };
        let known = [Arc::new(storage("pods", "")), Arc::new(storage("deployments", "apps"))];
        assert_eq!(policy.unknown(known.iter()), ["deployment.apps", "widgets.ex.io"]);
    }

    #[test]
    fn secrets_are_followed_only_when_they_are_named() {
        let wanted = |names: &[&str]| names.iter().map(|name| Wanted::parse(name).expect("a name")).collect::<Vec<_>>();
        let lazily = Policy { denied: wanted(&["events", "widgets.ex.io"]), ..Policy::default() };
        let named = Policy { named: Some(wanted(&["secrets", "deployments.apps"])), denied: wanted(&["pods"]), ..Policy::default() };
        let all = Policy { named: None, all: true, denied: wanted(&["pods"]), idle: None };
        let of = |policy: &Policy, resource, group| policy.follows(&storage(resource, group));
        assert_eq!(of(&lazily, "pods", ""), Follows::WhenAsked);
        assert_eq!(of(&lazily, "secrets", ""), Follows::Never);
        assert_eq!(of(&lazily, "secrets", "ex.io"), Follows::WhenAsked);
        assert_eq!(of(&lazily, "events", ""), Follows::Never);
        assert_eq!(of(&lazily, "widgets", "ex.io"), Follows::Never);
        assert_eq!(of(&named, "secrets", ""), Follows::Always);
        assert_eq!(of(&named, "deployments", "apps"), Follows::Always);
        assert_eq!(of(&named, "deployments", ""), Follows::Never);
        assert_eq!(of(&named, "customresourcedefinitions", "apiextensions.k8s.io"), Follows::Always);
        assert_eq!(of(&all, "deployments", "apps"), Follows::Always);
        assert_eq!((of(&all, "secrets", ""), of(&all, "pods", "")), (Follows::Never, Follows::Never));
        for wrong in ["", ".apps", "Pods", "pods/status", "a b"] {
            Wanted::parse(wrong).expect_err(wrong);
        }
    }
}
