//! Lists: of an object, or made.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Outcome, Value};
use crate::shape::Shape;

/// A list.
#[derive(Clone, Debug)]
pub enum List<'v> {
    /// One that was made.
    Made(Arc<Made<'v>>),
    /// One of an object: its elements, their shape, and which kind of list it is.
    Json(&'v [Json], &'v Shape, &'v ListKind),
}

/// A list that was made.
#[derive(Clone, Debug)]
pub struct Made<'v> {
    pub(crate) values: Vec<Value<'v>>,
    pub(crate) kind: ListKind,
}

/// How two lists are compared and joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListKind {
    /// Element by element.
    #[default]
    Atomic,
    /// As sets: order does not count.
    Set,
    /// By the values of these fields, by the names that expressions have for them: order does not count.
    Map(Arc<[Box<str>]>),
}

impl<'v> List<'v> {
    /// Returns a list of these values.
    #[must_use]
    pub fn new(values: Vec<Value<'v>>) -> Self {
        Self::of_kind(values, ListKind::Atomic)
    }

    pub(crate) fn of_kind(values: Vec<Value<'v>>, kind: ListKind) -> Self {
        Self::Made(Arc::new(Made { values, kind }))
    }

    /// Returns how many elements it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Made(made) => made.values.len(),
            Self::Json(elements, ..) => elements.len(),
        }
    }

    /// Returns whether it has no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an element, if there are so many.
    ///
    /// # Errors
    /// The element is not of its shape.
    pub fn get(&self, at: usize) -> Option<Outcome<'v>> {
        match self {
            Self::Made(made) => made.values.get(at).cloned().map(Ok),
            Self::Json(elements, shape, _) => elements.get(at).map(|element| Value::of_shape(element, shape)),
        }
    }

    /// Returns its elements.
    pub fn iter(&self) -> impl Iterator<Item = Outcome<'v>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// Returns all elements.
    ///
    /// # Errors
    /// The first element that is not of its shape.
    pub fn values(&self) -> Result<Vec<Value<'v>>, super::Error> {
        self.iter().collect()
    }

    pub(crate) fn kind(&self) -> &ListKind {
        match self {
            Self::Made(made) => &made.kind,
            Self::Json(_, _, kind) => kind,
        }
    }

    /// Appends a value; a list that nobody else has is not copied.
    pub(crate) fn push(self, value: Value<'v>) -> Result<Self, super::Error> {
        match self {
            Self::Made(mut made) if made.kind == ListKind::Atomic => {
                Arc::make_mut(&mut made).values.push(value);
                Ok(Self::Made(made))
            }
            other => {
                let mut values = other.values()?;
                values.push(value);
                Ok(Self::new(values))
            }
        }
    }
}
