//! Which types are assignable to which, and what the types are that are not known yet. After cel-go's checker, step by step.

use std::{collections::HashMap, sync::Arc};

use crate::types::Type;

/// What stands for types that were not known. Changes that a failed attempt made are undone.
#[derive(Debug, Default)]
pub(crate) struct Mapping {
    found: HashMap<Arc<str>, Type>,
    /// What was there before each change, newest last.
    changes: Vec<(Arc<str>, Option<Type>)>,
    fresh: u32,
}

impl Mapping {
    /// Returns a type that is not known yet.
    pub(crate) fn fresh(&mut self) -> Type {
        let name = format!("_var{}", self.fresh);
        self.fresh += 1;
        Type::Param(name.into())
    }

    fn add(&mut self, name: &Arc<str>, kind: Type) {
        let before = self.found.insert(name.clone(), kind);
        self.changes.push((name.clone(), before));
    }

    fn find(&self, kind: &Type) -> Option<&Type> {
        match kind {
            Type::Param(name) => self.found.get(name),
            _ => None,
        }
    }

    /// Returns whether a value of `one` may be where `other` is expected; if so, what was learned is kept.
    pub(crate) fn is_assignable(&mut self, one: &Type, other: &Type) -> bool {
        self.attempt(|mapping| mapping.assign(one, other))
    }

    pub(crate) fn are_assignable(&mut self, ones: &[Type], others: &[Type]) -> bool {
        self.attempt(|mapping| mapping.assign_all(ones.iter().collect(), others.iter().collect()))
    }

    fn attempt(&mut self, try_it: impl FnOnce(&mut Self) -> bool) -> bool {
        self.changes.clear();
        let succeeded = try_it(self);
        while let Some((name, before)) = self.changes.pop().filter(|_| !succeeded) {
            match before {
                Some(kind) => self.found.insert(name, kind),
                None => self.found.remove(&name),
            };
        }
        succeeded
    }

    fn assign_all(&mut self, ones: Vec<&Type>, others: Vec<&Type>) -> bool {
        ones.len() == others.len() && ones.into_iter().zip(others).all(|(one, other)| self.assign(one, other))
    }

    fn assign(&mut self, one: &Type, other: &Type) -> bool {
        if let Type::Param(name) = other {
            match self.substitution(one, other, name) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Param(name) = one {
            return self.substitution(other, one, name).0;
        }
        if one.is_dyn_or_error() || other.is_dyn_or_error() {
            return true;
        }
        if *one == Type::Null || *other == Type::Null {
            return is_nullable(if *one == Type::Null { other } else { one });
        }
        match (one, other) {
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(_), Type::List(_)) | (Type::Map(_), Type::Map(_)) => self.assign_all(one.params(), other.params()),
            (Type::Opaque(a), Type::Opaque(b)) => a.name == b.name && self.assign_all(one.params(), other.params()),
            _ => one == other,
        }
    }

    /// Whether `param` (or what stands for it) may stand for `one`, and whether something stood for it already.
    fn substitution(&mut self, one: &Type, param: &Type, name: &Arc<str>) -> (bool, bool) {
        if one == param {
            return (true, true);
        }
        if let Some(found) = self.found.get(name).cloned() {
            if *one == found {
                return (true, true);
            }
            if !self.assign(one, &found) {
                return (false, true);
            }
            let general = most_general(one, &found).clone();
            if self.is_absent(param, &general) {
                self.add(name, general);
            }
            return (true, true);
        }
        if self.is_absent(param, one) {
            self.add(name, one.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether a type does not appear in another.
    fn is_absent(&self, kind: &Type, within: &Type) -> bool {
        if kind == within {
            return false;
        }
        match within {
            Type::Param(_) => self.find(within).is_none_or(|found| self.is_absent(kind, found)),
            _ => within.params().into_iter().all(|param| self.is_absent(kind, param)),
        }
    }

    /// Returns a type with what is known of its parts; with `as_dyn`, what is not known is dynamic.
    pub(crate) fn substitute(&self, kind: &Type, as_dyn: bool) -> Type {
        if !has_param(kind) {
            return kind.clone();
        }
        let mut left = crate::types::PARTS_MAX;
        self.substitute_within(kind, as_dyn, &mut left)
    }

    fn substitute_within(&self, kind: &Type, as_dyn: bool, left: &mut u32) -> Type {
        if *left == 0 {
            return Type::Dyn;
        }
        *left -= 1;
        let mut inner = |kind: &Type| self.substitute_within(kind, as_dyn, left);
        match kind {
            Type::Param(_) => match self.find(kind) {
                Some(found) => inner(found),
                None if as_dyn => Type::Dyn,
                None => kind.clone(),
            },
            Type::List(items) => Type::list(inner(items)),
            Type::Map(of) => {
                let keys = inner(&of.0);
                Type::map(keys, inner(&of.1))
            }
            Type::Type(Some(of)) => Type::type_of(inner(of)),
            Type::Opaque(opaque) => Type::opaque_of(&opaque.name, opaque.params.iter().map(inner).collect()),
            _ => kind.clone(),
        }
    }
}

/// Returns a declared type with fresh types for its parameters.
pub(crate) fn instantiate(kind: &Type, fresh: &[(Arc<str>, Type)]) -> Type {
    match kind {
        Type::Param(name) => fresh.iter().find(|(known, _)| known == name).map_or_else(|| kind.clone(), |(_, kind)| kind.clone()),
        Type::List(items) => Type::list(instantiate(items, fresh)),
        Type::Map(of) => Type::map(instantiate(&of.0, fresh), instantiate(&of.1, fresh)),
        Type::Type(Some(of)) => Type::type_of(instantiate(of, fresh)),
        Type::Opaque(opaque) if !opaque.params.is_empty() => {
            Type::opaque_of(&opaque.name, opaque.params.iter().map(|param| instantiate(param, fresh)).collect())
        }
        _ => kind.clone(),
    }
}

/// Adds the parameters of a type, each once.
pub(crate) fn params_into(kind: &Type, names: &mut Vec<Arc<str>>) {
    match kind {
        Type::Param(name) if !names.contains(name) => names.push(name.clone()),
        _ => kind.params().into_iter().for_each(|param| params_into(param, names)),
    }
}

fn has_param(kind: &Type) -> bool {
    matches!(kind, Type::Param(_)) || kind.params().into_iter().any(has_param)
}

fn is_nullable(kind: &Type) -> bool {
    matches!(kind, Type::Null | Type::Opaque(_) | Type::Object(_) | Type::Duration | Type::Timestamp)
}

/// Returns the more general of two types that fit.
pub(crate) fn most_general<'t>(one: &'t Type, other: &'t Type) -> &'t Type {
    if is_equal_or_less_specific(one, other) { one } else { other }
}

fn is_equal_or_less_specific(one: &Type, other: &Type) -> bool {
    let is_open = |kind: &Type| matches!(kind, Type::Dyn | Type::Param(_));
    if is_open(one) {
        return true;
    }
    if is_open(other) {
        return false;
    }
    let (ones, others) = (one.params(), other.params());
    match (one, other) {
        (Type::Type(_), Type::Type(_)) => true,
        (Type::Opaque(a), Type::Opaque(b)) if a.name != b.name || ones.len() != others.len() => false,
        (Type::Opaque(_), Type::Opaque(_)) | (Type::List(_), Type::List(_)) | (Type::Map(_), Type::Map(_)) => {
            ones.into_iter().zip(others).all(|(one, other)| is_equal_or_less_specific(one, other))
        }
        _ => one == other,
    }
}
