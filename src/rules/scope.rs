//! Where in a schema rules stand: the type of their values there, and how many such values one object may have.

use std::{cell::OnceCell, sync::Arc};

use schema::{Schema, View};

use crate::decl::{Decl, REQUEST_BYTES_MAX};

/// A schema inside of another, with what is known of it from above.
#[derive(Debug)]
pub struct Scope<'s> {
    pub(crate) view: View<'s>,
    /// Made when rules want it: it may take long.
    decl: OnceCell<Option<Arc<Decl>>>,
    is_root: bool,
    /// It or one around it has rules.
    has_rules: bool,
    /// The most values of it that one object has, as far as the limits around it say.
    values_max: Option<u64>,
}

impl<'s> Scope<'s> {
    /// Returns the scope of whole objects.
    #[must_use]
    pub fn root(schema: &'s Schema) -> Self {
        Self::of(schema, true)
    }

    pub(crate) fn of(schema: &'s Schema, is_root: bool) -> Self {
        let view = schema.view();
        Self { view, decl: OnceCell::new(), is_root, has_rules: !view.rules().is_empty(), values_max: Some(1) }
    }

    /// Returns the scope of a property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<Self> {
        let of = |decl: &Arc<Decl>| cel::escape(name).and_then(|name| decl.field(&name).cloned());
        Some(self.below(self.view.property(name)?, of))
    }

    /// Returns the scope of the values of `additionalProperties`.
    #[must_use]
    pub fn additional(&self) -> Option<Self> {
        Some(self.below(self.view.additional()?, |decl| decl.element().cloned()))
    }

    /// Returns the scope of items.
    #[must_use]
    pub fn items(&self) -> Option<Self> {
        Some(self.below(self.view.items()?, |decl| decl.element().cloned()))
    }

    fn below(&self, view: View<'s>, of: impl FnOnce(&Arc<Decl>) -> Option<Arc<Decl>>) -> Self {
        let has_rules = self.has_rules || !view.rules().is_empty();
        let values_max = self.values_max.zip(self.elements_max()).map(|(values, each)| values.saturating_mul(each));
        let known = if self.has_rules { self.decl().and_then(of) } else { None };
        let decl = known.map_or_else(OnceCell::new, |known| OnceCell::from(Some(known)));
        Self { view, decl, is_root: false, has_rules, values_max }
    }

    /// Returns by how much the number of values grows below it; none where nothing limits it.
    fn elements_max(&self) -> Option<u64> {
        let limit = |max: Option<i64>| max.map(|max| u64::try_from(max).unwrap_or_default());
        match self.view.kind() {
            "object" if self.view.additional().is_some() => limit(self.view.properties_max()),
            "array" => limit(self.view.items_max()),
            _ => Some(1),
        }
    }

    /// Returns the type of its values; none of what expressions do not see.
    pub(crate) fn decl(&self) -> Option<&Arc<Decl>> {
        self.decl.get_or_init(|| Decl::of(self.view, self.is_root || self.view.is_embedded())).as_ref()
    }

    /// Returns how often a rule here is evaluated at most for one object.
    pub(crate) fn times(&self, decl: &Decl) -> u64 {
        self.values_max.unwrap_or_else(|| fitting(decl))
    }

    /// Returns how often, were there no limits around it.
    #[cfg(test)]
    pub(crate) fn unbounded_times(&self) -> Option<u64> {
        self.decl().map(|decl| fitting(decl))
    }
}

/// Returns how many values of a type a request has room for.
fn fitting(decl: &Decl) -> u64 {
    // At least a comma is between two of them.
    u64::try_from(REQUEST_BYTES_MAX / (decl.bytes_min + 1)).unwrap_or_default()
}
