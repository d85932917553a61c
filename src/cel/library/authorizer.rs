//! What expressions ask of the authorizer of the server, and its decisions.

use std::{fmt::Debug, sync::Arc};

use model::legal;

/// Decides what a user may do.
pub trait Authorizer: Debug + Send + Sync + 'static {
    /// Decides a question of an expression. What fails is a decision with an error.
    fn decide(&self, question: &Question) -> Decision;
}

/// What a user wants to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The service account that is asked about, by its namespace and name; none: the user of the request.
    pub account: Option<(String, String)>,
    /// The verb.
    pub verb: String,
    /// What it is done to.
    pub target: Target,
}

/// What something is done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A path that is no resource.
    Path(String),
    /// A resource of any version.
    Resource(ResourceCheck),
}

/// A resource, and which of its objects. What is empty is not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceCheck {
    /// The group.
    pub group: String,
    /// The resource.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name of one object.
    pub name: String,
    /// A selector of fields, which may be none.
    pub field_selector: String,
    /// A selector of labels, which may be none.
    pub label_selector: String,
}

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong, if anything did.
    pub error: Option<String>,
}

/// An authorizer and the user about whom it is asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    authorizer: Arc<dyn Authorizer>,
    account: Option<(String, String)>,
}

/// An authorizer that is asked about a path.
#[derive(Clone, Debug)]
pub(crate) struct PathAsked {
    asked: Asked,
    path: String,
}

/// An authorizer that is asked about a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupAsked {
    asked: Asked,
    group: String,
}

/// An authorizer that is asked about a resource.
#[derive(Clone, Debug)]
pub(crate) struct ResourceAsked {
    asked: Asked,
    check: ResourceCheck,
}

impl Asked {
    pub(crate) fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer, account: None }
    }

    /// # Errors
    /// There is no such path.
    pub(crate) fn path(&self, path: &str) -> Result<PathAsked, &'static str> {
        filled(path, "path must not be empty")?;
        Ok(PathAsked { asked: self.clone(), path: path.to_owned() })
    }

    pub(crate) fn group(&self, group: &str) -> GroupAsked {
        GroupAsked { asked: self.clone(), group: group.to_owned() }
    }

    /// # Errors
    /// No account is called so.
    pub(crate) fn service_account(&self, namespace: &str, name: &str) -> Result<Self, &'static str> {
        if !legal::wrong_subdomain(name).is_empty() {
            return Err("Invalid service account name");
        }
        if namespace.len() > 63 || !legal::is_label(namespace) {
            return Err("Invalid service account namespace");
        }
        Ok(Self { account: Some((namespace.to_owned(), name.to_owned())), authorizer: Arc::clone(&self.authorizer) })
    }

    /// Returns it as it is asked about this resource.
    pub(crate) fn resource(&self, check: ResourceCheck) -> ResourceAsked {
        ResourceAsked { asked: self.clone(), check }
    }

    fn decide(&self, verb: &str, target: Target) -> Decision {
        self.authorizer.decide(&Question { account: self.account.clone(), verb: verb.to_owned(), target })
    }
}

impl PathAsked {
    pub(crate) fn check(&self, verb: &str) -> Decision {
        self.asked.decide(verb, Target::Path(self.path.clone()))
    }
}

impl GroupAsked {
    /// # Errors
    /// There is no such resource.
    pub(crate) fn resource(&self, resource: &str) -> Result<ResourceAsked, &'static str> {
        filled(resource, "resource must not be empty")?;
        let check = ResourceCheck { group: self.group.clone(), resource: resource.to_owned(), ..ResourceCheck::default() };
        Ok(self.asked.resource(check))
    }
}

impl ResourceAsked {
    /// Returns it with one field set to a text.
    pub(crate) fn with(&self, field: fn(&mut ResourceCheck) -> &mut String, text: &str) -> Self {
        let mut asked = self.clone();
        text.clone_into(field(&mut asked.check));
        asked
    }

    pub(crate) fn check(&self, verb: &str) -> Decision {
        self.asked.decide(verb, Target::Resource(self.check.clone()))
    }
}

fn filled(text: &str, why: &'static str) -> Result<(), &'static str> {
    if text.trim().is_empty() { Err(why) } else { Ok(()) }
}
