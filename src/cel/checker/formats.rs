//! Formats that are written out, with a list of values that is written out: whether each value may be written as its clause says.

use super::{Checked, Reference};
use crate::{
    ast::{Call, Expr, Kind, Literal},
    issue::Issues,
    library::format_text::{Clause, Wrong, read},
    types::Type,
};

/// The overload whose calls are looked at.
const OVERLOAD: &str = "string_format";

/// Reports what is wrong with a call at a place.
pub(super) fn validate(checked: &Checked, expr: &Expr, call: &Call, issues: &mut Issues) {
    let (Some(Expr { kind: Kind::Literal(Literal::String(format)), .. }), [Expr { kind: Kind::List(values), .. }]) =
        (&call.target, &call.args[..])
    else {
        return;
    };
    let is_other = matches!(&checked.references[expr.id as usize], Some(Reference::Overloads(ids)) if !ids.contains(&OVERLOAD));
    if &*call.function != "format" || is_other {
        return;
    }
    let mut asked = 0;
    let result = read(
        format,
        true,
        |at| at < values.len(),
        |at, clause| {
            asked = at + 1;
            let value = &values[at].value;
            match refused(checked, value, clause) {
                Some(part) => Err((part.at, clause.refusal(checked.kind(part, false).name()))),
                None => Ok(String::new()),
            }
        },
    );
    match result {
        Ok(_) if values.len() > asked => {
            let text = format!("too many arguments supplied to string.format (expected {asked}, got {})", values.len());
            issues.report(expr.at, text);
        }
        Ok(_) => {}
        Err(Wrong::Format(why)) => issues.report(expr.at, why),
        Err(Wrong::Value((at, why))) => issues.report(at, format!("error during formatting: {why}")),
    }
}

/// The part of a value that cannot be written so.
fn refused<'e>(checked: &Checked, value: &'e Expr, clause: Clause) -> Option<&'e Expr> {
    let kind = checked.kind(value, false);
    if *kind == Type::Dyn {
        return parts(checked, value, clause);
    }
    let is_right = match clause {
        Clause::Text => !matches!(kind, Type::Opaque(_) | Type::Object(_) | Type::Param(_) | Type::Error),
        Clause::Decimal | Clause::Octal => matches!(kind, Type::Int | Type::Uint),
        Clause::Fixed(_) | Clause::Scientific(_) => matches!(kind, Type::Double | Type::String),
        Clause::Binary => matches!(kind, Type::Int | Type::Uint | Type::Bool),
        Clause::Hexadecimal { .. } => matches!(kind, Type::Int | Type::Uint | Type::String | Type::Bytes),
    };
    if is_right { parts(checked, value, clause) } else { Some(value) }
}

/// The part of a list or a map that is written out and cannot be written so.
fn parts<'e>(checked: &Checked, value: &'e Expr, clause: Clause) -> Option<&'e Expr> {
    match &value.kind {
        _ if clause != Clause::Text => None,
        Kind::List(elements) => elements.iter().find_map(|element| refused(checked, &element.value, clause)),
        Kind::Map(entries) => {
            let mut parts = entries.iter().flat_map(|entry| [&entry.key, &entry.value]);
            parts.find_map(|part| refused(checked, part, clause))
        }
        _ => None,
    }
}
