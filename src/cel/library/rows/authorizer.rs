//! Functions of the authorizer.

use std::sync::Arc;

use super::{
    args::{Rows, opaque, text},
    costs,
};
use crate::{
    functions::{Code, Function},
    library::authorizer::{Asked, Authorizer, Decision, GroupAsked, PathAsked, ResourceAsked, ResourceCheck},
    sizes::{Call, CallCost, Range, TEXT_FACTOR},
    types::Type,
    value::{Error, Opaque, Outcome, Value},
};

/// The name of the type of authorizers.
pub const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
/// The name of the type of authorizers that are asked about a resource.
pub const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
const DECISION: &str = "kubernetes.authorization.Decision";

/// What one decision costs.
const DECISION_COST: u64 = 350_000;

macro_rules! of_type {
    ($kind:ty, $name:expr) => {
        impl Opaque for $kind {
            fn type_name(&self) -> &str {
                $name
            }

            fn equals(&self, _other: &dyn Opaque) -> bool {
                false
            }
        }
    };
}

of_type!(Asked, AUTHORIZER);
of_type!(PathAsked, PATH_CHECK);
of_type!(GroupAsked, GROUP_CHECK);
of_type!(ResourceAsked, RESOURCE_CHECK);
of_type!(Decision, DECISION);

/// Returns the value of an authorizer that is asked about the user of the request.
#[must_use]
pub fn authorizer_value<'v>(authorizer: Arc<dyn Authorizer>) -> Value<'v> {
    Value::opaque(Asked::new(authorizer))
}

/// Returns the value of an authorizer that is asked about one resource.
#[must_use]
pub fn resource_check_value<'v>(authorizer: Arc<dyn Authorizer>, check: ResourceCheck) -> Value<'v> {
    Value::opaque(Asked::new(authorizer).resource(check))
}

pub(super) fn functions() -> Rows {
    let one = |function: Function| function.costs(costs::one, costs::one_estimate);
    let (authorizer, resource) = (|| Type::object(AUTHORIZER), || Type::object(RESOURCE_CHECK));
    let (path, group) = (|| Type::object(PATH_CHECK), || Type::object(GROUP_CHECK));
    let mut rows = vec![
        one(Function::new("path").member("authorizer_path", [authorizer(), Type::String], path(), |_, args| {
            made(opaque::<Asked>(args, 0)?.path(text(args, 1)?))
        })),
        one(Function::new("group").member("authorizer_group", [authorizer(), Type::String], group(), |_, args| {
            Ok(Value::opaque(opaque::<Asked>(args, 0)?.group(text(args, 1)?)))
        })),
        one(Function::new("serviceAccount").member(
            "authorizer_serviceaccount",
            [authorizer(), Type::String, Type::String],
            authorizer(),
            |_, args| made(opaque::<Asked>(args, 0)?.service_account(text(args, 1)?, text(args, 2)?)),
        )),
        one(Function::new("resource").member("groupcheck_resource", [group(), Type::String], resource(), |_, args| {
            made(opaque::<GroupAsked>(args, 0)?.resource(text(args, 1)?))
        })),
        Function::new("check")
            .member("pathcheck_check", [path(), Type::String], Type::object(DECISION), |_, args| {
                Ok(Value::opaque(opaque::<PathAsked>(args, 0)?.check(text(args, 1)?)))
            })
            .member("resourcecheck_check", [resource(), Type::String], Type::object(DECISION), |_, args| {
                Ok(Value::opaque(opaque::<ResourceAsked>(args, 0)?.check(text(args, 1)?)))
            })
            .costs(|_, _, _| Some(DECISION_COST), |_| Some(CallCost::of(Range::fixed(DECISION_COST)))),
    ];
    rows.extend(fields());
    rows.extend(decisions());
    rows
}

/// Functions that set a field of a resource.
fn fields() -> impl Iterator<Item = Function> {
    let field = |name: &'static str, id: &'static str, code: Code| {
        Function::new(name).member(id, [Type::object(RESOURCE_CHECK), Type::String], Type::object(RESOURCE_CHECK), code)
    };
    [
        field("subresource", "resourcecheck_subresource", |_, args| with(args, |check| &mut check.subresource))
            .costs(costs::one, costs::one_estimate),
        field("namespace", "resourcecheck_namespace", |_, args| with(args, |check| &mut check.namespace))
            .costs(costs::one, costs::one_estimate),
        field("name", "resourcecheck_name", |_, args| with(args, |check| &mut check.name)).costs(costs::one, costs::one_estimate),
        field("fieldSelector", "authorizer_fieldselector", |_, args| with(args, |check| &mut check.field_selector))
            .costs(selector_spent, selector_estimate),
        field("labelSelector", "authorizer_labelselector", |_, args| with(args, |check| &mut check.label_selector))
            .costs(selector_spent, selector_estimate),
    ]
    .into_iter()
}

/// Functions of what was decided.
fn decisions() -> impl Iterator<Item = Function> {
    let part = |name: &'static str, id: &'static str, result: Type, code: Code| {
        Function::new(name).member(id, [Type::object(DECISION)], result, code).costs(costs::one, costs::one_estimate)
    };
    [
        part("errored", "decision_errored", Type::Bool, |_, args| Ok(Value::Bool(opaque::<Decision>(args, 0)?.error.is_some()))),
        part("error", "decision_error", Type::String, |_, args| {
            Ok(Value::string(opaque::<Decision>(args, 0)?.error.clone().unwrap_or_default()))
        }),
        part("allowed", "decision_allowed", Type::Bool, |_, args| Ok(Value::Bool(opaque::<Decision>(args, 0)?.allowed))),
        part("reason", "decision_reason", Type::String, |_, args| Ok(Value::string(&*opaque::<Decision>(args, 0)?.reason))),
    ]
    .into_iter()
}

fn with<'v>(args: &[Value<'v>], field: fn(&mut ResourceCheck) -> &mut String) -> Outcome<'v> {
    Ok(Value::opaque(opaque::<ResourceAsked>(args, 0)?.with(field, text(args, 1)?)))
}

fn made<'v>(value: Result<impl Opaque, &'static str>) -> Outcome<'v> {
    value.map(Value::opaque).map_err(Error::new)
}

fn selector_spent(_overload: &str, args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    (args.len() > 1).then(|| selector(Range::fixed(costs::size(args, 1))).max)
}

fn selector_estimate(call: &Call<'_>) -> Option<CallCost> {
    let [selector] = call.args else { return None };
    Some(CallCost::of(self::selector(call.size(selector))))
}

/// A list, what following the text costs, and for each two characters a list and an object.
fn selector(length: Range) -> Range {
    Range::fixed(10).plus(length.scaled(TEXT_FACTOR)).plus(length.scaled(0.5).scaled(50.0))
}
