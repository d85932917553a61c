//! Admission policies, validating and mutating: what a policy and its bindings say, and what comes of its expressions. Who looks objects up,
//! and what becomes of a write, is `storage/write/hooks`.

mod binding;
mod evaluate;
mod mutate;

use cel::{Admission, Env, Program, Refused, Type};
use mutate::Mutation;
use serde_json::Value;

use crate::{criteria::Criteria, hooks::GROUP, tree};

pub use binding::{Binding, NotFound, ParamRef};
pub use evaluate::{Decision, Evaluated, Inputs};
pub use mutate::Change;

/// Resources about whose objects no policy is evaluated: policies themselves, and what is asked before anything else may be.
const EXEMPT: [(&str, &str); 10] = [
    (GROUP, "validatingadmissionpolicies"),
    (GROUP, "validatingadmissionpolicybindings"),
    (GROUP, "mutatingadmissionpolicies"),
    (GROUP, "mutatingadmissionpolicybindings"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Returns whether no policy is evaluated about objects of this group and plural name.
#[must_use]
pub fn is_exempt(group: &str, resource: &str) -> bool {
    EXEMPT.contains(&(group, resource))
}

/// The name of expressions for what others have declared.
const VARIABLES: &str = "variables";

/// An expression, and what it was compiled to.
#[derive(Debug)]
struct Expression {
    source: String,
    /// What it is, or what is wrong with it.
    program: Result<Program, String>,
}

/// One of `validations`.
#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: String,
}

/// A policy.
#[derive(Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// The writes that it is about.
    pub criteria: Criteria,
    /// `apiVersion` and kind of its parameters, if it has any.
    pub param_kind: Option<(String, String)>,
    /// An error lets the write go on.
    pub ignores_failure: bool,
    /// It is evaluated again when the object changes after it.
    pub is_reinvoked: bool,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
    mutations: Vec<Mutation>,
}

impl Policy {
    /// Reads a policy.
    #[must_use]
    pub fn read(policy: &Value) -> Self {
        let spec = &policy["spec"];
        let all = |name: &str| spec[name].as_array().into_iter().flatten();
        let param = &spec["paramKind"];
        let params = param.is_object();
        // Each sees those before it.
        let env = |authorizer, patches| cel::admission_environment(Admission { params, authorizer, patches });
        let (mut asking, mut plain, mut patching) = (env(true, false), env(false, false), env(true, true));
        let mut variables = Vec::new();
        for variable in all("variables") {
            let (name, source) = (tree::text(variable, &["name"]), tree::text(variable, &["expression"]));
            let expression = Expression::compile(&asking, source, &[]);
            let kind = expression.program.as_ref().map_or(Type::Dyn, |program| program.result_type().declared());
            let full = format!("{VARIABLES}.{name}");
            [asking, plain, patching] = [asking, plain, patching].map(|env| env.variable(&full, kind.clone()));
            variables.push((full, expression));
        }
        let condition = |condition: &Value| Expression::compile(&asking, tree::text(condition, &["expression"]), &[Type::Bool]);
        let validation = |validation: &Value| Validation {
            expression: condition(validation),
            message: tree::text(validation, &["message"]).trim().to_owned(),
            message_expression: match tree::text(validation, &["messageExpression"]) {
                "" => None,
                source => Some(Expression::compile(&plain, source, &[Type::String])),
            },
            reason: tree::text(validation, &["reason"]).to_owned(),
        };
        let annotation = |annotation: &Value| {
            let source = tree::text(annotation, &["valueExpression"]);
            (tree::text(annotation, &["key"]).to_owned(), Expression::compile(&asking, source, &[Type::String, Type::Null]))
        };
        Self {
            name: tree::text(policy, &["metadata", "name"]).to_owned(),
            criteria: Criteria::of_policy(&spec["matchConstraints"]),
            param_kind: params.then(|| (tree::text(param, &["apiVersion"]).to_owned(), tree::text(param, &["kind"]).to_owned())),
            ignores_failure: tree::text(spec, &["failurePolicy"]) == "Ignore",
            conditions: all("matchConditions").map(condition).collect(),
            validations: all("validations").map(validation).collect(),
            annotations: all("auditAnnotations").map(annotation).collect(),
            is_reinvoked: tree::text(spec, &["reinvocationPolicy"]) == "IfNeeded",
            mutations: all("mutations").map(|mutation| Mutation::read(mutation, &patching)).collect(),
            variables,
        }
    }
}

impl Expression {
    /// Compiles an expression whose value is of one of these types; any if there is none.
    fn compile(env: &Env, source: &str, types: &[Type]) -> Self {
        Self::compile_where(env, source, types, |kind| types.is_empty() || *kind == Type::Dyn)
    }

    /// The same where nothing unknown is of a type.
    fn compile_exactly(env: &Env, source: &str, types: &[Type]) -> Self {
        Self::compile_where(env, source, types, |_| false)
    }

    fn compile_where(env: &Env, source: &str, types: &[Type], may_be: impl Fn(&Type) -> bool) -> Self {
        let program = match env.compile(source) {
            Ok(program) if types.contains(program.result_type()) || may_be(program.result_type()) => Ok(program.without_estimate()),
            Ok(program) => Err(match types {
                [one] => format!("must evaluate to {one} but got {}", program.result_type()),
                many => {
                    let names: Vec<String> = many.iter().map(Type::to_string).collect();
                    format!("must evaluate to one of [{}] but got {}", names.join(" "), program.result_type())
                }
            }),
            Err(Refused::Compilation(issues)) => Err(format!("compilation failed: {issues}")),
            Err(Refused::Instantiation(why)) => Err(format!("program instantiation failed: {why}")),
        };
        Self { source: source.to_owned(), program }
    }
}
