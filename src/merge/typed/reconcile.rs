//! A set that an older schema told apart in other ways, as the schema of today does.

use super::{As, Kinds, ValidationErrors, Walk, handle};
use crate::{
    path::PathElement,
    schema::{ParseableType, TypeRef},
    set::{Node, Set},
};

/// Returns the set that a manager of these fields has with the type as it is today, or `None` when it is the same: what has become atomic is one field.
///
/// # Errors
///
/// The schema does not have a type that it refers to.
pub fn reconcile_field_set_with_schema(fields: &Set, of: &ParseableType) -> Result<Option<Set>, String> {
    let walk = Walk { schema: &of.schema, of: of.type_ref, depth: 0 };
    let mut errors = ValidationErrors::default();
    let reconciled = level(walk, fields, true, &mut errors);
    if !errors.is_empty() {
        return Err(format!("errors reconciling field set with schema: {errors}"));
    }
    Ok(match reconciled {
        Reconciled::Below(set) => Some(set),
        Reconciled::Same | Reconciled::Atomic => None,
    })
}

/// What becomes of a field that has fields below it.
enum Reconciled {
    Same,
    /// It is a field itself, and nothing below it is one.
    Atomic,
    /// Other fields are below it.
    Below(Set),
}

fn level(walk: Walk<'_>, fields: &Set, is_root: bool, errors: &mut ValidationErrors) -> Reconciled {
    let atom = match walk.atom("inlined type").and_then(|atom| handle(atom, Kinds::All)) {
        Ok(atom) => atom,
        Err(wrong) => {
            errors.extend(wrong);
            return Reconciled::Same;
        }
    };
    match atom {
        As::Scalar(_) => Reconciled::Same,
        As::Map(map) if map.is_deduced => Reconciled::Same,
        As::List(list) if list.is_atomic() => {
            if is_root {
                Reconciled::Same
            } else {
                Reconciled::Atomic
            }
        }
        As::Map(map) if map.is_atomic() => {
            if is_root {
                Reconciled::Same
            } else {
                Reconciled::Atomic
            }
        }
        As::List(list) => below(walk, fields, errors, |_| Some(list.element_type)),
        As::Map(map) => below(walk, fields, errors, |element| {
            let of = match element {
                PathElement::Field(name) => map.member(name.bytes()).1,
                _ => map.element_type,
            };
            (of != TypeRef::NONE).then_some(of)
        }),
    }
}

fn below(walk: Walk<'_>, fields: &Set, errors: &mut ValidationErrors, of: impl Fn(&PathElement) -> Option<TypeRef>) -> Reconciled {
    let nodes = fields.nodes();
    let mut changed: Vec<(usize, Node)> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let Some(of) = of(&node.element) else { continue };
        if node.children.is_empty() {
            // A leaf is one in every schema, if the schema has it.
            if let Err(wrong) = walk.below(of).atom("inlined type").and_then(|atom| handle(atom, Kinds::All).map(drop)) {
                errors.extend(wrong);
            }
            continue;
        }
        let element = node.element.clone();
        match level(walk.below(of), &node.children, false, errors) {
            Reconciled::Same => {}
            Reconciled::Atomic => changed.push((at, Node { element, is_member: true, children: Set::new() })),
            Reconciled::Below(children) => changed.push((at, Node { element, is_member: node.is_member, children })),
        }
    }
    if changed.is_empty() {
        return Reconciled::Same;
    }
    let mut out = nodes.to_vec();
    changed.into_iter().for_each(|(at, node)| out[at] = node);
    Reconciled::Below(Set::of_sorted(out))
}
