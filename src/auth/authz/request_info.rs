//! What a request asks to do, for authorizers and the audit log. It may be kept and decided again later.

use super::{Attributes, Resource, Selectors, Target};
use crate::user::User;

/// What a path, a method and a query mean (spec api-surface §1.2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestInfo {
    /// The path, decoded.
    pub path: Box<str>,
    /// `get`, `list`, `watch`, …; of a path that is no resource the lower-case method.
    pub verb: String,
    /// Whether it is about a resource; else only path and verb count.
    pub is_resource: bool,
    /// API group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Namespace; empty for none.
    pub namespace: String,
    /// Plural name.
    pub resource: String,
    /// Subresource; empty for none.
    pub subresource: String,
    /// Name of the object, or the one that a list's field selector asks for; empty for none.
    pub name: String,
    /// What a list, watch or deletecollection selects.
    pub selectors: Selectors,
}

impl RequestInfo {
    /// Bytes that it takes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let texts = [&self.verb, &self.group, &self.version, &self.namespace, &self.resource, &self.subresource, &self.name];
        size_of::<Self>() + self.path.len() + texts.iter().map(|text| text.len()).sum::<usize>() + self.selectors.weight()
    }

    /// What an authorizer is asked about this user.
    #[must_use]
    pub fn attributes<'a>(&'a self, user: &'a User) -> Attributes<'a> {
        let target = if self.is_resource {
            Target::Resource(Resource {
                namespace: &self.namespace,
                group: &self.group,
                version: &self.version,
                resource: &self.resource,
                subresource: &self.subresource,
                name: &self.name,
                selectors: &self.selectors,
            })
        } else {
            Target::Path(&self.path)
        };
        Attributes { user, verb: &self.verb, target }
    }
}
