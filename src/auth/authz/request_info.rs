//! What a request asks to do, for authorizers and the audit log. It may be kept and decided again later.

use super::{Attributes, Resource, Target};
use crate::user::User;

/// What a path, a method and a query mean (spec api-surface §1.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// The path, decoded.
    pub path: String,
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
    /// What the field selector of a list, watch or deletecollection wants equal, each field with its value.
    pub fields: Vec<(String, String)>,
}

impl RequestInfo {
    /// Asks an authorizer whether this user may.
    pub fn ask<T>(&self, user: &User, decide: impl FnOnce(&Attributes<'_>) -> T) -> T {
        let fields: Vec<(&str, &str)> = self.fields.iter().map(|(field, value)| (&**field, &**value)).collect();
        let target = if self.is_resource {
            Target::Resource(Resource {
                namespace: &self.namespace,
                group: &self.group,
                version: &self.version,
                resource: &self.resource,
                subresource: &self.subresource,
                name: &self.name,
                fields: &fields,
            })
        } else {
            Target::Path(&self.path)
        };
        decide(&Attributes { user, verb: &self.verb, target })
    }
}
