//! How the rules of one schema are compiled and evaluated: the variables that they see, and what is known of the sizes of values.

use std::sync::Arc;

use cel::{Bindings, Env, Evaluated, Path, Program, Range, Refused, Shape, Sizes, Type, Value as CelValue};
use serde_json::Value;

use crate::{
    OLD, SELF,
    decl::{Decl, DeclKind},
    shape,
};

/// The name of the type of an object that has rules. A kube-apiserver puts a number behind it that nobody can foresee.
const SELF_TYPE: &str = "selfType0";

/// Compiles the rules of one schema.
pub(crate) struct Engine<'d> {
    decl: &'d Arc<Decl>,
    /// `oldSelf` is a value.
    plain: Env,
    /// `oldSelf` may be absent.
    optional: Env,
}

impl<'d> Engine<'d> {
    pub(crate) fn new(decl: &'d Arc<Decl>) -> Self {
        let kind = decl.named(SELF_TYPE);
        let env = declared(cel::environment(), decl, SELF_TYPE).variable(SELF, kind.clone());
        let optional = env.clone().variable(OLD, Type::optional(kind.clone()));
        Self { decl, plain: env.variable(OLD, kind), optional }
    }

    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong with it, in cel-go's words.
    pub(crate) fn compile(&self, text: &str, optional: bool) -> Result<Program, Refused> {
        let env = if optional { &self.optional } else { &self.plain };
        env.compile(text)
    }

    /// Returns what an evaluation costs at most.
    pub(crate) fn cost_max(&self, program: &Program) -> u64 {
        program.estimate(&self.plain, self).max
    }
}

/// Declares the objects of a type by their names.
fn declared(env: Env, decl: &Decl, name: &str) -> Env {
    match &decl.kind {
        DeclKind::Simple(_) => env,
        DeclKind::List(of) => declared(env, of, &format!("{name}.@idx")),
        DeclKind::Map(of) => declared(env, of, &format!("{name}.@elem")),
        DeclKind::Object(fields) => {
            let types = fields.iter().map(|(field, decl)| (field.as_str(), decl.named(&format!("{name}.{field}"))));
            let env = env.object(name, types);
            fields.iter().fold(env, |env, (field, decl)| declared(env, decl, &format!("{name}.{field}")))
        }
    }
}

impl Sizes for Engine<'_> {
    fn size(&self, path: Option<&Path>, _: &Type) -> Option<Range> {
        // The first step is the variable, which is of this type whichever it is.
        let steps = path?.get(1..)?;
        let (last, others) = steps.split_last().map_or((None, steps), |(last, others)| (Some(last.as_str()), others));
        let step = |decl: &'_ Arc<Decl>, step: &str| match step {
            "@items" | "@values" => decl.element().cloned(),
            field => decl.field(field).cloned(),
        };
        let around = others.iter().try_fold(self.decl.clone(), |decl, name| step(&decl, name))?;
        let elements_max = match last {
            None => around.elements_max,
            // Nothing is known of a key.
            Some("@keys") => matches!(around.kind, DeclKind::Map(_)).then_some(0)?,
            Some(name) => step(&around, name)?.elements_max,
        };
        Some(Range { min: 0, max: u64::try_from(elements_max).unwrap_or_default() })
    }
}

/// What one evaluation sees.
pub(crate) struct Activation<'a> {
    pub(crate) value: &'a Value,
    pub(crate) old: Option<&'a Value>,
    pub(crate) shape: &'a Shape,
    /// `oldSelf` may be absent.
    pub(crate) optional: bool,
}

impl<'a> Activation<'a> {
    /// Evaluates an expression; one that costs more than `cost_max` ends.
    pub(crate) fn evaluate(&self, program: &'a Program, cost_max: u64) -> Evaluated<'a> {
        let bindings = Bindings::default().with_outcome(SELF, CelValue::of_shape(self.value, self.shape));
        // What an optional value holds is read by kube-apiserver as plain JSON, whatever its schema says.
        let old_shape = if self.optional { &shape::ANY } else { self.shape };
        let old = self.old.map(|old| CelValue::of_shape(old, old_shape));
        let bindings = match (self.optional, old) {
            (true, Some(Ok(old))) => bindings.with(OLD, CelValue::Optional(Some(Arc::new(old)))),
            (true, None) => bindings.with(OLD, CelValue::Optional(None)),
            (_, Some(old)) => bindings.with_outcome(OLD, old),
            (false, None) => bindings,
        };
        program.evaluate(&bindings, cost_max)
    }
}
