//! A schema as those see it who make other things of it, such as types.

use crate::{
    Rule, Schema,
    node::{Additional, Kind, ListKind, Node},
};

/// A schema inside of a compiled one, or the whole.
#[derive(Clone, Copy, Debug)]
pub struct View<'s>(&'s Node);

impl Schema {
    /// Returns the schema of whole objects.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View(&self.root)
    }

    /// Returns how many of its nodes have rules. [`View::rules_at`] numbers them.
    #[must_use]
    pub fn rule_sets(&self) -> usize {
        self.rule_sets
    }
}

impl<'s> View<'s> {
    /// Returns `type`, also where `x-kubernetes-int-or-string` stands beside it; empty if there is none.
    #[must_use]
    pub fn kind(self) -> &'s str {
        match &self.0.kind {
            Kind::IntOrString(said) => said,
            kind => kind.name(),
        }
    }

    /// Returns `x-kubernetes-int-or-string`.
    #[must_use]
    pub fn is_int_or_string(self) -> bool {
        matches!(self.0.kind, Kind::IntOrString(_))
    }

    /// Returns `nullable`.
    #[must_use]
    pub fn is_nullable(self) -> bool {
        self.0.nullable
    }

    /// Returns `x-kubernetes-embedded-resource`.
    #[must_use]
    pub fn is_embedded(self) -> bool {
        self.0.embedded
    }

    /// Returns `x-kubernetes-preserve-unknown-fields`.
    #[must_use]
    pub fn preserves(self) -> bool {
        self.0.preserves
    }

    /// Returns `format`; empty if there is none.
    #[must_use]
    pub fn format(self) -> &'s str {
        self.0.format.as_ref().map_or("", |format| &format.name)
    }

    /// Returns `maxLength`.
    #[must_use]
    pub fn length_max(self) -> Option<i64> {
        self.0.texts.as_ref()?.length_max
    }

    /// Returns `maxItems`.
    #[must_use]
    pub fn items_max(self) -> Option<i64> {
        self.0.sizes.as_ref()?.items_max
    }

    /// Returns `maxProperties`.
    #[must_use]
    pub fn properties_max(self) -> Option<i64> {
        self.0.sizes.as_ref()?.properties_max
    }

    /// Returns whether there is a `default` other than null.
    #[must_use]
    pub fn has_default(self) -> bool {
        self.0.default.is_some()
    }

    /// Returns `required`.
    #[must_use]
    pub fn required(self) -> &'s [Box<str>] {
        &self.0.required
    }

    /// Returns the length in bytes of the longest text of `enum`; none without an `enum`.
    #[must_use]
    pub fn longest_choice(self) -> Option<usize> {
        self.0.choices.as_ref().map(|choices| choices.longest_text())
    }

    /// Returns `properties`, sorted by name.
    pub fn properties(self) -> impl Iterator<Item = (&'s str, Self)> {
        self.0.properties.iter().map(|(name, node)| (&**name, Self(node)))
    }

    /// Returns one of `properties`.
    #[must_use]
    pub fn property(self, name: &str) -> Option<Self> {
        self.0.property(name).map(Self)
    }

    /// Returns the schema of `additionalProperties`.
    #[must_use]
    pub fn additional(self) -> Option<Self> {
        match &self.0.additional {
            Some(Additional::Like(node)) => Some(Self(node)),
            _ => None,
        }
    }

    /// Returns `items`.
    #[must_use]
    pub fn items(self) -> Option<Self> {
        self.0.items.as_deref().map(Self)
    }

    /// Returns `x-kubernetes-list-map-keys` of a list of type `map`.
    #[must_use]
    pub fn map_keys(self) -> Option<&'s [Box<str>]> {
        self.0.list.as_ref().filter(|list| list.kind == ListKind::Map).map(|list| &*list.keys)
    }

    /// Returns whether it is a list of type `set`.
    #[must_use]
    pub fn is_set(self) -> bool {
        self.0.list.as_ref().is_some_and(|list| list.kind == ListKind::Set)
    }

    /// Returns `x-kubernetes-validations`.
    #[must_use]
    pub fn rules(self) -> &'s [Rule] {
        &self.0.rules
    }

    /// Returns which of all nodes with rules it is; only of one that has some.
    #[must_use]
    pub fn rules_at(self) -> usize {
        self.0.rules_at
    }

    /// Returns whether it or a schema below it has rules.
    #[must_use]
    pub fn has_rules(self) -> bool {
        self.0.has.rules
    }
}
