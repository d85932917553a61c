//! Why an expression has no value.

use std::{borrow::Cow, fmt};

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An error that `&&` and `||` may absorb.
    Failed(Cow<'static, str>),
    /// The evaluation took more than it may: it ends at once.
    CostExceeded,
}

impl Error {
    /// Returns an error with this text.
    #[must_use]
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Failed(text.into())
    }

    /// Returns the error of a function that has no overload for its arguments.
    #[must_use]
    pub const fn no_such_overload() -> Self {
        Self::Failed(Cow::Borrowed("no such overload"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(text) => f.write_str(text),
            Self::CostExceeded => f.write_str("operation cancelled: actual cost limit exceeded"),
        }
    }
}

impl std::error::Error for Error {}
