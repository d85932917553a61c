//! What it is estimated to cost to compare values of the libraries.

use super::args::Rows;
use crate::{
    ast::operator,
    functions::Function,
    library::formats::NAME_SIZE_MAX,
    sizes::{Call, CallCost, Range, TEXT_FACTOR},
};

/// Types whose values are compared at once.
const AT_ONCE: [&str; 9] = [
    "net.IP",
    "net.CIDR",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
];

/// What stands beside the row of `==`.
pub(super) fn functions() -> Rows {
    let mut equality = Function::new(operator::EQUALS);
    equality.estimate = Some(estimate);
    vec![equality]
}

fn estimate(call: &Call<'_>) -> Option<CallCost> {
    let [one, other] = call.args else { return None };
    if one.kind != other.kind {
        return None;
    }
    let followed = |size: u64| Some(CallCost::of(Range { min: 1, max: size }.scaled(TEXT_FACTOR)));
    match one.kind.name() {
        name if AT_ONCE.contains(&name) => Some(CallCost::of(Range::fixed(1))),
        "kubernetes.NamedFormat" => followed(NAME_SIZE_MAX),
        "kubernetes.URL" => followed(other.size.map_or(1, |size| size.max)),
        _ => None,
    }
}
