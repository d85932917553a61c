//! Label and field selectors as they are asked for. They are read in `parse`, and matched as `compiled`.

mod compiled;
mod of_object;
pub mod parse;

pub use compiled::{FieldMatcher, LabelMatcher};
pub use of_object::selects;

use super::Object;

/// A parsed label selector; the empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// AND-ed, sorted by key.
    pub requirements: Vec<LabelRequirement>,
}

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: Box<str>,
    /// What is asked of it.
    pub op: LabelOp,
}

/// Operators of spec list-watch §7.1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LabelOp {
    /// Present.
    Exists,
    /// Absent.
    Absent,
    /// Present with one of these values (sorted): `=`, `==`, `in`.
    In(Vec<Box<str>>),
    /// Absent, or present with none of these values (sorted): `!=`, `notin`.
    NotIn(Vec<Box<str>>),
    /// Present, an integer, greater.
    Greater(i64),
    /// Present, an integer, less.
    Less(i64),
}

impl LabelSelector {
    /// Whether every requirement holds: what [`LabelMatcher`] is compared with.
    #[cfg(any(test, feature = "testing"))]
    pub fn matches(&self, labels: super::Labels<'_>) -> bool {
        self.requirements.iter().all(|r| r.matches(labels.get(&r.key)))
    }

    /// As a text that means the same.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn printed(&self) -> String {
        let requirements = self.requirements.iter().map(|one| match &one.op {
            LabelOp::Exists => one.key.to_string(),
            LabelOp::Absent => format!("!{}", one.key),
            LabelOp::In(set) => format!("{} in ({})", one.key, set.join(",")),
            LabelOp::NotIn(set) => format!("{} notin ({})", one.key, set.join(",")),
            LabelOp::Greater(bound) => format!("{}>{bound}", one.key),
            LabelOp::Less(bound) => format!("{}<{bound}", one.key),
        });
        requirements.collect::<Vec<_>>().join(",")
    }

    /// Whether it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

#[cfg(any(test, feature = "testing"))]
impl LabelRequirement {
    fn matches(&self, value: Option<&str>) -> bool {
        match &self.op {
            LabelOp::Exists => value.is_some(),
            LabelOp::Absent => value.is_none(),
            LabelOp::In(set) => value.is_some_and(|v| set.iter().any(|s| &**s == v)),
            LabelOp::NotIn(set) => value.is_none_or(|v| !set.iter().any(|s| &**s == v)),
            LabelOp::Greater(than) => value.and_then(compiled::integer).is_some_and(|v| v > *than),
            LabelOp::Less(than) => value.and_then(compiled::integer).is_some_and(|v| v < *than),
        }
    }
}

/// One term of a field selector, resolved against the fields of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldTerm {
    /// Which field.
    pub field: Field,
    /// `=` when true, `!=` when false.
    pub equal: bool,
    /// The value asked for.
    pub value: Box<str>,
}

/// A field that selectors may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// `metadata.name`
    Name,
    /// `metadata.namespace`
    Namespace,
    /// The storage's declared field with this index.
    Declared(u16),
}

impl Field {
    /// The field's value in an object; `""` when it has none.
    #[must_use]
    pub fn of(self, object: &Object) -> &str {
        match self {
            Self::Name => object.name(),
            Self::Namespace => object.namespace(),
            Self::Declared(index) => object.field(usize::from(index)),
        }
    }
}
