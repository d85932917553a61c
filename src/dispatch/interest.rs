//! Which groups can match an event: each group is filed under its most selective equality term, an event looks up its own terms.
//!
//! An event costs its labels, its declared fields and the groups it finds, never the number of watchers. What is found here is a candidate; the
//! group's filter decides.

use std::{collections::HashMap, sync::Arc};

use super::group::{Group, GroupKey};
use crate::model::{
    Event, Filter,
    selector::{Field, LabelOp},
};

/// An equality that an object must satisfy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Term {
    Name(Box<str>),
    Field(u16, Box<str>),
    Label(Box<str>, Box<str>),
    Namespace(Box<str>),
    All,
}

/// The index of a resource's groups.
#[derive(Default)]
pub struct Interest {
    groups: HashMap<Term, Vec<Arc<Group>>>,
    /// Declared fields and label keys that some group is filed under: only these are looked up.
    fields: HashMap<u16, usize>,
    labels: HashMap<Box<str>, usize>,
}

impl Interest {
    /// Files a group.
    pub fn add(&mut self, group: &Arc<Group>) {
        let term = most_selective(&group.key().filter);
        match &term {
            Term::Field(index, _) => *self.fields.entry(*index).or_default() += 1,
            Term::Label(key, _) => *self.labels.entry(key.clone()).or_default() += 1,
            Term::Name(_) | Term::Namespace(_) | Term::All => {}
        }
        self.groups.entry(term).or_default().push(group.clone());
    }

    /// Takes a group out.
    pub fn remove(&mut self, key: &GroupKey) {
        let term = most_selective(&key.filter);
        if let Some(filed) = self.groups.get_mut(&term) {
            filed.retain(|g| g.key() != key);
            if filed.is_empty() {
                self.groups.remove(&term);
            }
        }
        match &term {
            Term::Field(index, _) => release(&mut self.fields, index),
            Term::Label(label, _) => release(&mut self.labels, label),
            Term::Name(_) | Term::Namespace(_) | Term::All => {}
        }
    }

    /// Calls `visit` once for every group that can match the event.
    pub fn candidates(&self, event: &Event, mut visit: impl FnMut(&Arc<Group>)) {
        if self.groups.is_empty() {
            return;
        }
        let (old, new) = (event.old.as_deref(), event.new.as_deref());
        let Some(any) = new.or(old) else { return };
        let mut look = |term: Term| {
            if let Some(filed) = self.groups.get(&term) {
                filed.iter().for_each(&mut visit);
            }
        };
        look(Term::All);
        look(Term::Name(any.name().into()));
        if !any.namespace().is_empty() {
            look(Term::Namespace(any.namespace().into()));
        }
        for &index in self.fields.keys() {
            for value in two(old.map(|o| o.field(usize::from(index))), new.map(|o| o.field(usize::from(index)))) {
                look(Term::Field(index, value.into()));
            }
        }
        if self.labels.is_empty() {
            return;
        }
        let before = old.into_iter().flat_map(|o| &o.labels);
        let after = new.into_iter().flat_map(|o| &o.labels).filter(|(key, value)| old.and_then(|o| o.label(key)) != Some(&**value));
        for (key, value) in before.chain(after).filter(|(key, _)| self.labels.contains_key(key)) {
            look(Term::Label(key.clone(), value.clone()));
        }
    }
}

/// The values, each once.
fn two<T: PartialEq>(old: Option<T>, new: Option<T>) -> impl Iterator<Item = T> {
    let old = if old == new { None } else { old };
    old.into_iter().chain(new)
}

fn release<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// A name is nearly one object; a declared field (`spec.nodeName`) a few; a label may be many; a namespace more; then everything.
fn most_selective(filter: &Filter) -> Term {
    if let Some(name) = &filter.name {
        return Term::Name(name.clone());
    }
    for term in filter.fields.terms.iter().filter(|t| t.equal) {
        match term.field {
            Field::Name => return Term::Name(term.value.clone()),
            Field::Declared(index) => return Term::Field(index, term.value.clone()),
            Field::Namespace => {}
        }
    }
    let single = filter.labels.requirements.iter().find_map(|r| match &r.op {
        LabelOp::In(values) if values.len() == 1 => Some(Term::Label(r.key.clone(), values[0].clone())),
        _ => None,
    });
    single.or_else(|| filter.namespace.clone().map(Term::Namespace)).unwrap_or(Term::All)
}
