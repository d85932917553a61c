//! ResourceQuota: what a namespace may have in all. Here is decided what a write adds to which quotas, and whether that is too much; who writes the quotas
//! with the object, so that no two writers take the same rest, is another room.

mod counter;
mod limits;
mod pods;
mod scopes;

use serde_json::{Map, Value};

use super::{
    Denial, LimitedResource, Write,
    resources::{self, Resources},
};
use crate::{Operation, tree};
use go::amount::Amount;

pub use counter::Counter;

/// What a write adds to a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Which of the quotas.
    pub quota: usize,
    /// Its `status.used` with the write.
    pub used: Value,
}

/// Whether a write may change what its namespace uses.
#[must_use]
pub fn concerns(write: &Write<'_>, object: &Value) -> bool {
    Counter::of(write.group, write.resource).is_some_and(|counter| counter.handles(write, object))
}

/// Decides what a write adds to the quotas of its namespace.
///
/// # Errors
/// It would be too much, or the object does not say what a quota counts.
pub fn charge(limited: &[LimitedResource], write: &Write<'_>, object: &Value, quotas: &[&Value]) -> Result<Vec<Charge>, Denial> {
    let Some(counter) = Counter::of(write.group, write.resource).filter(|counter| counter.handles(write, object)) else {
        return Ok(Vec::new());
    };
    let mut matched = Vec::new();
    for (at, quota) in quotas.iter().enumerate() {
        let (name, hard) = (tree::text(quota, &["metadata", "name"]), resources::at(quota, &["status", "hard"]));
        let counted: Vec<&str> = hard.keys().map(String::as_str).filter(|name| counter.counts(name)).collect();
        if counted.is_empty() || !scopes::match_all(&counter, quota, object) {
            continue;
        }
        if let Some(missing) = counter.missing(&counted, object) {
            return Err(format!("failed quota: {name}: {missing}").into());
        }
        let used = resources::at(quota, &["status", "used"]);
        if counted.iter().any(|name| !used.contains_key(*name)) {
            return Err(format!("status unknown for quota: {name}, resources: {}", counted.join(",")).into());
        }
        matched.push((at, hard, used));
    }
    let usage = counter.usage(object);
    let negative: Vec<&str> = usage.iter().filter(|(_, amount)| **amount < Amount::ZERO).map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")).into());
    }
    if !limited.is_empty() {
        let covered = matched.iter().flat_map(|(_, hard, _)| hard.keys().map(String::as_str)).collect();
        let without = |at: Option<usize>| delta(&counter, write, &usage, at.map(|at| quotas[at]));
        let is_idle = match matched.is_empty() {
            true => without(None).values().all(Amount::is_zero),
            false => matched.iter().all(|(at, ..)| without(Some(*at)).values().all(Amount::is_zero)),
        };
        if !is_idle {
            limits::confirm(limited, &counter, write, (object, &usage), (quotas, &covered))?;
        }
    }
    let mut charges = Vec::new();
    for (at, hard, used) in matched {
        let delta = delta(&counter, write, &usage, Some(quotas[at]));
        let asked: Resources = delta.into_iter().filter(|(name, amount)| !amount.is_zero() && hard.contains_key(name)).collect();
        if let Some(charge) = charged(quotas[at], at, &asked, &hard, used)? {
            charges.push(charge);
        }
    }
    Ok(charges)
}

/// What is new to a quota: of an update only what the object did not use before, if it was counted there.
fn delta(counter: &Counter, write: &Write<'_>, usage: &Resources, quota: Option<&Value>) -> Resources {
    let is_counted = |old: &&Value| quota.is_none_or(|quota| scopes::match_all(counter, quota, old));
    let old = write.old.filter(|old| write.operation == Operation::Update && is_counted(old));
    let mut delta = usage.clone();
    for (name, before) in old.map(|old| counter.usage(old)).unwrap_or_default() {
        let rest = delta.entry(name).or_insert(Amount::ZERO);
        rest.sub(&before);
        if *rest < Amount::ZERO {
            *rest = Amount::ZERO;
        }
    }
    delta
}

fn charged(quota: &Value, at: usize, asked: &Resources, hard: &Resources, mut used: Resources) -> Result<Option<Charge>, Denial> {
    if asked.is_empty() {
        return Ok(None);
    }
    let before = used.clone();
    resources::add(&mut used, asked);
    let exceeded: Vec<&str> = asked.keys().map(String::as_str).filter(|name| used[*name] > hard[*name]).collect();
    if !exceeded.is_empty() {
        let printed = |of: &Resources| {
            let parts = exceeded.iter().filter_map(|name| Some(format!("{name}={}", of.get(*name)?)));
            parts.collect::<Vec<_>>().join(",")
        };
        let name = tree::text(quota, &["metadata", "name"]);
        let (asked, before, hard) = (printed(asked), printed(&before), printed(hard));
        return Err(format!("exceeded quota: {name}, requested: {asked}, used: {before}, limited: {hard}").into());
    }
    Ok(Some(Charge { quota: at, used: written(&used) }))
}

/// Amounts as an object has them.
#[must_use]
fn written(amounts: &Resources) -> Value {
    Value::Object(amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect::<Map<_, _>>())
}

/// Adds up what the objects of a namespace use of a quota.
pub struct Sum<'q> {
    quota: &'q Value,
    used: Resources,
}

impl<'q> Sum<'q> {
    /// Nothing yet.
    #[must_use]
    pub fn of(quota: &'q Value) -> Self {
        Self { quota, used: Resources::new() }
    }

    /// Returns the resources in `spec.hard` that this counter counts.
    #[must_use]
    pub fn counted(&self, counter: &Counter) -> Vec<&'q str> {
        let hard = tree::at(self.quota, &["spec", "hard"]).and_then(Value::as_object).into_iter().flatten();
        hard.map(|(name, _)| name.as_str()).filter(|name| counter.counts(name)).collect()
    }

    /// Notes that this counter counts, so that what nobody uses is zero.
    pub fn begin(&mut self, counter: &Counter) {
        for name in self.counted(counter) {
            self.used.entry(name.to_owned()).or_insert(Amount::ZERO);
        }
    }

    /// Adds an object. `is_lost`: it should have been gone for long.
    pub fn add(&mut self, counter: &Counter, object: &Value, is_lost: bool) {
        if !scopes::match_all(counter, self.quota, object) {
            return;
        }
        let mut usage = if is_lost { counter.usage_of_lost() } else { counter.usage(object) };
        usage.retain(|name, _| self.used.contains_key(name));
        resources::add(&mut self.used, &usage);
    }

    /// Returns `status.used`.
    #[must_use]
    pub fn used(&self) -> Value {
        written(&self.used)
    }

    /// Whether the amounts are those of the stored status.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        let (hard, stored) = (resources::at(self.quota, &["spec", "hard"]), resources::at(self.quota, &["status", "hard"]));
        hard == stored && self.used == resources::at(self.quota, &["status", "used"])
    }
}

#[cfg(test)]
mod tests;
