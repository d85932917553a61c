//! The named fields on the way to a set's members: those that a schema declares.

use super::{Node, Set};
use crate::{
    path::PathElement,
    schema::{Schema, TypeRef},
};

impl Set {
    /// Returns the set with every declared field that leads to a member as a member.
    #[must_use]
    pub fn ensure_named_fields_are_members(&self, schema: &Schema, of: TypeRef) -> Self {
        if self.is_empty() {
            return Self::new();
        }
        let atom = schema.atom(of);
        let nodes = self.nodes().iter().map(|node| {
            if node.children.is_empty() {
                return node.clone();
            }
            let (is_named, below) = match (&node.element, &atom.map, &atom.list) {
                (PathElement::Field(name), Some(map), _) => map.member(name.bytes()),
                (PathElement::Key(_), _, Some(list)) => (false, list.element_type),
                _ => (false, TypeRef::NONE),
            };
            Node {
                element: node.element.clone(),
                is_member: node.is_member || is_named,
                children: node.children.ensure_named_fields_are_members(schema, below),
            }
        });
        Self::of_sorted(nodes.collect())
    }
}
