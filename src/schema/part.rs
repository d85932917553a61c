//! A schema inside of another, as defaults of definitions are judged by: the whole is compiled once, however many defaults there are.

use serde_json::Value;

use model::invalid::FieldError;

use crate::{
    Schema,
    embedded::{Embedded, EmbeddedMut, Path, walk, walk_mut},
    node::Node,
    prune, validate,
};

/// A schema inside of a compiled one, or all of it.
#[derive(Clone, Copy, Debug)]
pub struct Part<'s> {
    node: &'s Node,
    /// Its values are whole objects, with a head.
    is_resource: bool,
}

impl Schema {
    /// Returns all of it as a part.
    #[must_use]
    pub fn part(&self) -> Part<'_> {
        Part { node: &self.root, is_resource: false }
    }

    /// Whether a default somewhere in it has something that its schema does not know.
    #[must_use]
    pub fn has_unpruned_default(&self) -> bool {
        fn is_in(node: &Node) -> bool {
            let part = Part { node, is_resource: false };
            node.default.as_deref().is_some_and(|default| !part.knows_all_of(default)) || node.all().any(is_in)
        }
        is_in(&self.root)
    }
}

impl<'s> Part<'s> {
    /// The same of whole objects, whose head is judged as that of one inside of another.
    #[must_use]
    pub fn as_resource(self) -> Self {
        Self { is_resource: true, ..self }
    }

    /// The schema of the items.
    #[must_use]
    pub fn items(self) -> Option<Self> {
        self.node.items.as_deref().map(Self::of)
    }

    /// The schema of a property.
    #[must_use]
    pub fn property(self, name: &str) -> Option<Self> {
        self.node.property(name).map(Self::of)
    }

    fn of(node: &'s Node) -> Self {
        Self { node, is_resource: false }
    }

    /// Whether nothing of a value would be pruned.
    #[must_use]
    pub fn knows_all_of(self, value: &Value) -> bool {
        let mut pruned = value.clone();
        prune::part(&mut pruned, self.node, self.is_resource);
        pruned == *value
    }

    /// As [`Schema::each_embedded`].
    ///
    /// # Errors
    /// That of `with`.
    pub fn each_embedded<E>(self, value: &Value, with: &mut dyn FnMut(Embedded<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.is_resource
            && !self.node.embedded
            && let Value::Object(members) = value
        {
            with(Embedded { path: "", members })?;
        }
        if self.node.has.embedded { walk(self.node, value, &mut Path::default(), with) } else { Ok(()) }
    }

    /// As [`Schema::each_embedded_mut`].
    ///
    /// # Errors
    /// That of `with`.
    pub fn each_embedded_mut<E>(self, value: &mut Value, with: &mut dyn FnMut(EmbeddedMut<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.is_resource
            && !self.node.embedded
            && let Value::Object(members) = value
        {
            with(EmbeddedMut { path: "", members })?;
        }
        if self.node.has.embedded { walk_mut(self.node, value, &mut Path::default(), with) } else { Ok(()) }
    }

    /// Returns what is wrong with a value at a path.
    #[must_use]
    pub fn wrong_at(self, path: &str, value: &Value) -> Vec<FieldError> {
        validate::wrong(self.node, value, None, path)
    }
}
