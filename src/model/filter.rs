//! Which watch sees which event: scope and selectors over an object, and the transition table of spec list-watch §5.1.

use super::{
    Event, Object,
    selector::{Field, FieldMatcher, LabelMatcher},
    shard::Shard,
};

/// Scope and selectors of a request, resolved: nothing in it is parsed again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Only this namespace.
    pub namespace: Option<Box<str>>,
    /// Only this name.
    pub name: Option<Box<str>>,
    /// `labelSelector`.
    pub labels: LabelMatcher,
    /// `fieldSelector` without the exact name and namespace terms that `namespace` and `name` already say.
    pub fields: FieldMatcher,
    /// `shardSelector`, when its gate is on.
    pub shard: Option<Shard>,
}

/// What selectors ask a value of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// The label with this key.
    Label(Box<str>),
    /// A field.
    Field(Field),
}

impl Term {
    /// Its value in an object, if it has one.
    #[must_use]
    pub fn of<'o>(&self, object: &'o Object) -> Option<&'o str> {
        match self {
            Self::Label(key) => object.labels().get(key),
            Self::Field(field) => Some(field.of(object)),
        }
    }
}

impl Filter {
    /// What it asks one certain value of, and that value: its name, then fields, then labels. A namespace is scope, and not told.
    pub fn equalities(&self) -> impl Iterator<Item = (Term, &str)> {
        let name = self.name.as_deref().map(|name| (Term::Field(Field::Name), name));
        let fields = self.fields.equalities().map(|(field, value)| (Term::Field(field), value));
        let labels = self.labels.equalities().map(|(key, value)| (Term::Label(key.into()), value));
        name.into_iter().chain(fields).chain(labels)
    }

    /// The one value that it asks of this, if it does.
    #[must_use]
    pub fn asks(&self, term: &Term) -> Option<&str> {
        match term {
            Term::Label(key) => self.labels.equalities().find(|(asked, _)| **asked == **key).map(|(_, value)| value),
            Term::Field(Field::Name) if self.name.is_some() => self.name.as_deref(),
            Term::Field(field) => self.fields.equalities().find(|(asked, _)| asked == field).map(|(_, value)| value),
        }
    }

    /// Whether the object is in scope and selected.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.name.as_deref().is_none_or(|n| n.as_bytes() == object.name_bytes())
            && self.namespace.as_deref().is_none_or(|n| n.as_bytes() == object.namespace_bytes())
            && self.fields.matches(object)
            && self.labels.matches(object.labels())
            && self.shard.as_ref().is_none_or(|shard| shard.matches(object))
    }

    /// Bytes it holds.
    #[must_use]
    pub fn weight(&self) -> usize {
        let words = [&self.namespace, &self.name].into_iter().flatten().map(|word| word.len()).sum::<usize>();
        size_of::<Self>() + words + self.labels.weight() + self.fields.weight() + self.shard.as_ref().map_or(0, Shard::weight)
    }

    /// What a watcher with this filter sees of a change; `None` when nothing.
    #[must_use]
    pub fn outcome(&self, event: &Event) -> Option<Outcome> {
        let old = event.old.as_deref().is_some_and(|o| self.matches(o));
        let new = event.new.as_deref().is_some_and(|o| self.matches(o));
        match (old, new) {
            (false, true) => Some(Outcome::Added),
            (true, true) => Some(Outcome::Modified),
            (true, false) => Some(Outcome::Deleted),
            (false, false) => None,
        }
    }
}

/// Row of the transition table (spec list-watch §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Body: the object after.
    Added,
    /// Body: the object after.
    Modified,
    /// Body: the object before, under the revision of the change.
    Deleted,
}

/// The type of a watch event on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
    /// `BOOKMARK`
    Bookmark,
    /// `ERROR`
    Error,
}

impl Kind {
    /// As it stands in the event.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }
}

impl From<Outcome> for Kind {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Added => Self::Added,
            Outcome::Modified => Self::Modified,
            Outcome::Deleted => Self::Deleted,
        }
    }
}
