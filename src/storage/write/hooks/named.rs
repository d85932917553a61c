//! What a request names, as the rules of webhooks and policies see it.

use super::session::{Form, Unstored};
use crate::write::object_ref::ObjectRef;
use admission::{
    Operation,
    criteria::{Asked, Criteria, Resource},
};
use registry::ServedResources;

/// A group, a version and a kind.
pub(super) type GroupVersionKind<'a> = (&'a str, &'a str, &'a str);

/// See the file's header.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    /// The object; of an object that is not stored its namespace and its name count.
    pub(super) target: &'a ObjectRef,
    pub(super) form: Form<'a>,
    pub(super) subresource: &'a str,
}

impl<'a> Named<'a> {
    /// The resource of the request.
    pub(super) fn resource(self) -> Resource<'a> {
        if let Form::Unstored(Unstored { group, version, resource, .. }) = self.form {
            return Resource { group, version, resource };
        }
        let served = self.target.served();
        Resource { group: &served.group, version: &served.version, resource: &served.resource }
    }

    /// The kind of the object in the request.
    pub(super) fn kind(self) -> GroupVersionKind<'a> {
        match self.form {
            Form::Object => {
                let served = self.target.served();
                (&served.group, &served.version, &served.kind)
            }
            Form::Other(group, version, kind) | Form::Unstored(Unstored { group, version, kind, .. }) => (group, version, kind),
        }
    }

    pub(super) const fn is_stored(self) -> bool {
        matches!(self.form, Form::Object)
    }

    /// Whether the object is a custom resource.
    pub(super) fn is_custom(self) -> bool {
        self.is_stored() && self.target.served().is_custom()
    }

    pub(super) fn is_namespaces(self) -> bool {
        !matches!(self.form, Form::Unstored(_)) && &*self.target.served().storage.id == "namespaces"
    }

    /// The write of an object of this name.
    pub(super) fn asked(self, operation: Operation, name: &'a str) -> Asked<'a> {
        // A request about a namespace is one in it.
        let own = if self.is_namespaces() { name } else { "" };
        let namespace = self.target.namespace.as_deref().unwrap_or(own);
        Asked { operation, resource: self.resource(), subresource: self.subresource, namespace, name }
    }

    /// The resources of which this object is one too, in other versions or groups.
    pub(super) fn equivalents(self, resources: &'a ServedResources) -> Vec<Resource<'a>> {
        if matches!(self.form, Form::Unstored(_)) {
            return Vec::new();
        }
        let served = self.target.served();
        let is_same = |other: &catalogue::Served| {
            other.storage.id == served.storage.id
                && other.kind == served.kind
                && (self.subresource.is_empty() || other.has_subresource(self.subresource))
        };
        let others = resources.iter().map(|resource| &*resource.served).filter(|other| is_same(other));
        others.map(|other| Resource { group: &other.group, version: &other.version, resource: &other.resource }).collect()
    }

    /// Whether some write of the resource matches.
    pub(super) fn may_match(self, criteria: &Criteria, equivalents: &[Resource<'_>]) -> bool {
        let operations = [Operation::Create, Operation::Update, Operation::Delete];
        // A rule may name objects, and this one is not known yet.
        criteria.names_objects()
            || operations.into_iter().any(|operation| criteria.matched(&self.asked(operation, ""), equivalents).is_some())
    }
}
