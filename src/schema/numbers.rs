//! The limits of numbers, as Go's types of numbers are compared with them.

use serde_json::{Number, Value};

use crate::{
    node::{Kind, Node},
    problem::{Problem, Wrong},
};
use go::strconv::format_float;

/// `maximum`, `minimum` and `multipleOf`.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) multiple_of: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) excludes_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) excludes_minimum: bool,
}

impl Limits {
    pub(crate) fn say_anything(&self) -> bool {
        self.multiple_of.is_some() || self.maximum.is_some() || self.minimum.is_some()
    }
}

/// A number as Go has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Numeric {
    Integer(i64),
    Float(f64),
}

impl Numeric {
    pub(crate) fn of(number: &Number) -> Self {
        number.as_i64().map_or_else(|| Self::Float(number.as_f64().unwrap_or_default()), Self::Integer)
    }

    fn float(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "as Go converts")]
            Self::Integer(number) => number as f64,
            Self::Float(number) => number,
        }
    }

    fn value(self) -> Value {
        match self {
            Self::Integer(number) => number.into(),
            Self::Float(number) => number.into(),
        }
    }

    fn told(self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => format_float(number),
        }
    }
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// `int64(float)`, which is the least number where there is none.
pub(crate) fn truncated(float: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "it is asked for")]
    if (-TWO_TO_63..TWO_TO_63).contains(&float) { float as i64 } else { i64::MIN }
}

/// Whether a float counts as an integer: also one that is as good as one.
pub(crate) fn is_integer(float: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0;
    if !(-MAX..=MAX).contains(&float) {
        return false;
    }
    #[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "as Go converts")]
    let whole = truncated(float) as u64 as f64;
    let difference = (float - whole).abs();
    if float.fract() == 0.0 || float == whole {
        return true;
    }
    // Close to 0 only 0 is.
    if whole == 0.0 {
        return false;
    }
    difference / (float.abs() + whole.abs()).min(f64::MAX) < 1e-9
}

/// Whether a number has a place in the type and format of a schema.
fn has_place(number: Numeric, node: &Node) -> bool {
    let format = format_of(node).unwrap_or_default();
    match (&node.kind, number) {
        (Kind::Integer, Numeric::Integer(number)) => format != "int32" || i32::try_from(number).is_ok(),
        (Kind::Integer, Numeric::Float(number)) => {
            // Go reads the fewest digits that tell the float: those of -2^63 are beyond the least integer.
            let is_whole = number.fract() == 0.0 && number.abs() < TWO_TO_63;
            is_whole && (format != "int32" || i32::try_from(truncated(number)).is_ok())
        }
        #[expect(clippy::cast_possible_truncation, reason = "it is asked for")]
        (Kind::Number, Numeric::Float(number)) if format == "float" => (number as f32).is_finite(),
        _ => true,
    }
}

/// Tells what is wrong with a number, by the schema's type, format and limits.
pub(crate) fn judge(node: &Node, number: Numeric, path: &str, tell: &mut dyn FnMut(&dyn Fn() -> Problem)) {
    let mut fits = |number: Numeric, what: &str| {
        let has_place = has_place(number, node);
        if !has_place {
            tell(&|| Problem::of_whole(misplaced(node, what, path)));
        }
        has_place
    };
    fits(number, "Checked");
    let Some(limits) = &node.numbers else { return };
    let native = |limit: f64, fits: bool| match number {
        Numeric::Integer(_) if fits => Numeric::Integer(truncated(limit)),
        _ => Numeric::Float(limit),
    };
    let multiple_of = limits.multiple_of.map(|factor| native(factor, fits(Numeric::Float(factor), "MultipleOf")));
    let minimum = limits.minimum.map(|limit| native(limit, fits(Numeric::Float(limit), "Minimum boundary")));
    let maximum = limits.maximum.map(|limit| native(limit, fits(Numeric::Float(limit), "Maximum boundary")));
    // Compared as a float, it is told as one.
    let shown = |limit: Numeric, has_place: bool| match limit {
        Numeric::Float(_) if !has_place => Numeric::Float(number.float()).value(),
        _ => number.value(),
    };
    if let Some(factor) = multiple_of {
        multiple(number, factor, path, tell);
    }
    if let Some(limit) = minimum.filter(|limit| is_below(number, *limit, limits.excludes_minimum)) {
        let than = if limits.excludes_minimum { "greater than" } else { "greater than or equal to" };
        let has_place = has_place(Numeric::Float(limits.minimum.unwrap_or_default()), node);
        tell(&|| Problem::of(path, Wrong::Invalid(shown(limit, has_place)), &format!("should be {than} {}", limit.told())));
    }
    if let Some(limit) = maximum.filter(|limit| is_below(*limit, number, limits.excludes_maximum)) {
        let than = if limits.excludes_maximum { "less than" } else { "less than or equal to" };
        let has_place = has_place(Numeric::Float(limits.maximum.unwrap_or_default()), node);
        tell(&|| Problem::of(path, Wrong::Invalid(shown(limit, has_place)), &format!("should be {than} {}", limit.told())));
    }
}

/// The format, if it is one of numbers of its type.
fn format_of(node: &Node) -> Option<&str> {
    let name = &*node.format()?.name;
    let is_of_type = match node.kind {
        Kind::Integer => matches!(name, "int32" | "int64"),
        Kind::Number => matches!(name, "float" | "double"),
        _ => false,
    };
    is_of_type.then_some(name)
}

fn misplaced(node: &Node, what: &str, path: &str) -> String {
    match format_of(node) {
        Some(format) => format!("{what} value must be of type {} with format {format} in {path}", node.kind.name()),
        None => format!("{what} value must be of type {} (default format) in {path}", node.kind.name()),
    }
}

/// Compares integers as integers, all else as floats.
fn is_below(one: Numeric, other: Numeric, or_equal: bool) -> bool {
    match (one, other) {
        (Numeric::Integer(one), Numeric::Integer(other)) => one < other || or_equal && one == other,
        _ => one.float() < other.float() || or_equal && one.float() == other.float(),
    }
}

fn multiple(number: Numeric, factor: Numeric, path: &str, tell: &mut dyn FnMut(&dyn Fn() -> Problem)) {
    if factor.float() <= 0.0 {
        let why = format!("factor MultipleOf declared for {path} must be positive: {}", factor.told());
        tell(&|| Problem { name: Some(path.to_owned()), wrong: Wrong::Invalid(factor.value()), why: why.clone() });
        return;
    }
    let is_multiple = match (number, factor) {
        (Numeric::Integer(number), Numeric::Integer(factor)) => number % factor == 0,
        _ if factor.float() < 1.0 => is_integer(1.0 / factor.float() * number.float()),
        _ => is_integer(number.float() / factor.float()),
    };
    if !is_multiple {
        let value = if matches!(factor, Numeric::Float(_)) { Numeric::Float(number.float()) } else { number };
        tell(&|| Problem::of(path, Wrong::Invalid(value.value()), &format!("should be a multiple of {}", factor.told())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_that_are_as_good_as_integers() {
        for (float, want) in [
            (1.0, true),
            (-2.0, true),
            (0.0, true),
            (1.5, false),
            (1.000_000_000_1, true),
            (1.000_1, false),
            (-1.000_000_000_1, false),
            (1e-20, false),
            (9_007_199_254_740_993.0, false),
            (1e300, false),
        ] {
            assert_eq!(is_integer(float), want, "{float}");
        }
        assert_eq!((truncated(1e30), truncated(-1.9), truncated(1.9)), (i64::MIN, -1, 1));
    }
}
