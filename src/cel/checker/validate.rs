//! What is looked at in an expression whose types are right: literals that a function must be able to read, lists and maps of several
//! types, and formats.

use super::{Checked, formats};
use crate::{
    ast::{Call, Element, Entry, Expr, Kind, Literal},
    env::Env,
    issue::Issues,
    types::Type,
    value::Timestamp,
};

/// A function in whose arguments lists may be of several types.
const EXEMPT: &str = "format";

/// Reports what an environment that is strict refuses.
pub(crate) fn validate(env: &Env, checked: &Checked, issues: &mut Issues) {
    if env.strict {
        Validator { checked, issues }.visit(&checked.expr, false);
    }
}

struct Validator<'c> {
    checked: &'c Checked,
    issues: &'c mut Issues,
}

impl Validator<'_> {
    fn visit(&mut self, expr: &Expr, is_exempt: bool) {
        match &expr.kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select(select) => self.visit(&select.operand, is_exempt),
            Kind::Call(call) => {
                self.literal(call);
                formats::validate(self.checked, expr, call, self.issues);
                let is_exempt = is_exempt || &*call.function == EXEMPT;
                call.target.iter().chain(&call.args).for_each(|part| self.visit(part, is_exempt));
            }
            Kind::List(elements) => {
                if !is_exempt {
                    self.list(elements);
                }
                elements.iter().for_each(|element| self.visit(&element.value, is_exempt));
            }
            Kind::Map(entries) => {
                if !is_exempt {
                    self.map(entries);
                }
                entries.iter().flat_map(|entry| [&entry.key, &entry.value]).for_each(|part| self.visit(part, is_exempt));
            }
            Kind::Struct(message) => message.fields.iter().for_each(|field| self.visit(&field.value, is_exempt)),
            Kind::Comprehension(one) => {
                [&one.range, &one.init, &one.condition, &one.step, &one.result].into_iter().for_each(|part| self.visit(part, is_exempt));
            }
        }
    }

    fn literal(&mut self, call: &Call) {
        if let Some(Expr { at, kind: Kind::Literal(literal), .. }) = call.args.first()
            && !is_readable(&call.function, literal)
        {
            self.issues.report(*at, format!("invalid {} argument", call.function));
        }
    }

    fn kind(&self, expr: &Expr, is_optional: bool) -> Type {
        let kind = &self.checked.types[expr.id as usize];
        match kind.unwrapped() {
            Some(unwrapped) if is_optional => unwrapped.clone(),
            _ => kind.clone(),
        }
    }

    fn mismatch(&mut self, expr: &Expr, expected: &Type, found: &Type) {
        self.issues.report(expr.at, format!("expected type '{expected}' but found '{found}'"));
    }

    /// Reports the first element that is of another type than the first.
    fn list(&mut self, elements: &[Element]) {
        let Some((first, others)) = elements.split_first() else { return };
        let expected = self.kind(&first.value, first.optional);
        for other in others {
            let found = self.kind(&other.value, other.optional);
            if found != expected {
                return self.mismatch(&other.value, &expected, &found);
            }
        }
    }

    /// Reports all keys and values that are of another type than the first.
    fn map(&mut self, entries: &[Entry]) {
        let Some((first, others)) = entries.split_first() else { return };
        let expected = (self.kind(&first.key, false), self.kind(&first.value, first.optional));
        for other in others {
            let found = (self.kind(&other.key, false), self.kind(&other.value, other.optional));
            if found.0 != expected.0 {
                self.mismatch(&other.key, &expected.0, &found.0);
            }
            if found.1 != expected.1 {
                self.mismatch(&other.value, &expected.1, &found.1);
            }
        }
    }
}

/// Returns whether a function can read a literal.
fn is_readable(function: &str, literal: &Literal) -> bool {
    match (function, literal) {
        ("duration", Literal::String(text)) => crate::value::duration(text).is_ok(),
        ("duration", Literal::Int(_)) => false,
        ("timestamp", Literal::String(text)) => Timestamp::converted(text).is_some_and(|time| time.is_ok()),
        ("timestamp", Literal::Int(seconds)) => Timestamp::of_seconds(*seconds).is_ok(),
        ("matches", Literal::String(text)) => go::regexp::wrong(text).is_none(),
        _ => true,
    }
}
