//! Estimates of sizes and costs, from the least to the most. Sums and products stay at the largest number instead of running over.

use crate::{ast::Literal, types::Type};

/// How large something is, or what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

/// 2^64.
const END: f64 = 18_446_744_073_709_551_616.0;
/// What following a text once costs for each character.
pub const TEXT_FACTOR: f64 = 0.1;
/// What each character of a regular expression costs for each unit of the text.
pub const REGEX_FACTOR: f64 = 0.25;

impl Range {
    /// Of what nothing is known.
    pub const UNKNOWN: Self = Self { min: 0, max: u64::MAX };
    /// Nothing.
    pub const ZERO: Self = Self::fixed(0);

    /// Returns what is known exactly.
    #[must_use]
    pub const fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    /// Returns the sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// Returns the product.
    #[must_use]
    pub const fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Returns it multiplied by a factor and rounded up.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    /// Returns the range that covers both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Returns a number multiplied by a factor and rounded up.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as cel-go multiplies; a cast stays in the range"
)]
pub fn scaled(value: u64, factor: f64) -> u64 {
    let value = value as f64;
    if value > 0.0 && factor > 0.0 && value > u64::MAX as f64 / factor {
        return u64::MAX;
    }
    let product = (value * factor).ceil();
    if product >= END { u64::MAX } else { product as u64 }
}

/// Where in a variable a value is: the variable, then names of fields, `@items`, `@keys`, `@values` and `@indices`.
pub type Path = [String];

/// What the caller knows of the sizes of variables and their parts.
pub trait Sizes {
    /// Returns the size of the value at this place, of this type.
    fn size(&self, path: Option<&Path>, kind: &Type) -> Option<Range>;
}

/// A caller that knows no sizes.
#[derive(Debug)]
pub struct NoSizes;

impl Sizes for NoSizes {
    fn size(&self, _path: Option<&Path>, _kind: &Type) -> Option<Range> {
        None
    }
}

/// An argument whose call is estimated.
#[derive(Clone, Debug)]
pub struct Node<'e> {
    /// Where it is.
    pub path: Option<Vec<String>>,
    /// Its type.
    pub kind: Type,
    /// Its size, as far as the expression shows it.
    pub size: Option<Range>,
    /// Its value, if it is a literal.
    pub literal: Option<&'e Literal>,
}

/// A call that is estimated.
pub struct Call<'e> {
    /// The overload.
    pub overload: &'e str,
    /// What it is called on.
    pub target: Option<&'e Node<'e>>,
    /// Its arguments.
    pub args: &'e [Node<'e>],
    /// What the caller knows.
    pub sizes: &'e dyn Sizes,
}

/// What a call costs, without its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCost {
    /// The cost.
    pub cost: Range,
    /// The size of the result, if that is known.
    pub result: Option<Range>,
}

impl CallCost {
    /// Returns a cost; nothing is known of the result.
    #[must_use]
    pub const fn of(cost: Range) -> Self {
        Self { cost, result: None }
    }

    /// Returns a cost, with the size of the result.
    #[must_use]
    pub const fn with_result(cost: Range, result: Range) -> Self {
        Self { cost, result: Some(result) }
    }
}

impl Call<'_> {
    /// Returns the size of an argument, as far as anybody knows it.
    #[must_use]
    pub fn size(&self, node: &Node<'_>) -> Range {
        node.size.or_else(|| self.sizes.size(node.path.as_deref(), &node.kind)).unwrap_or(Range::UNKNOWN)
    }

    /// Returns the elements of a list, as far as its type shows them; also what the type of a map or of an optional value is of first.
    #[must_use]
    pub fn items(&self, list: &Node<'_>) -> Option<Node<'static>> {
        let kind = (*list.kind.params().first()?).clone();
        let path = list.path.clone().map(|mut path| {
            path.push("@items".to_owned());
            path
        });
        Some(Node { path, kind, size: None, literal: None })
    }
}
