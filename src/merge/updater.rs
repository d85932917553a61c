//! What a write does to an object and to its managers.

mod prune;

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde_json::Value;

use crate::{
    managers::{Conflicts, Managers, VersionedSet},
    schema::ParseableType,
    set::{Filter, Set},
    typed::{Comparison, TypedValue, reconcile_field_set_with_schema},
    value::equals,
};

/// Makes an object of one version that of another.
pub trait Converter {
    /// Returns the object in a version, which may be the one that it has.
    ///
    /// # Errors
    ///
    /// There is no such version, or the object cannot be converted.
    fn convert<'a>(&self, object: &'a TypedValue<'_>, version: &str) -> Result<TypedValue<'a>, ConvertError>;

    /// Returns the type that the object has in a version. Who knows it without converting says so here: every write asks it for each manager.
    ///
    /// # Errors
    ///
    /// As of [`Converter::convert`].
    fn type_of(&self, object: &TypedValue<'_>, version: &str) -> Result<ParseableType, ConvertError> {
        Ok(self.convert(object, version)?.parseable_type().clone())
    }
}

/// Why an object is not converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConvertError {
    /// There is no such version any more: what is managed in it is dropped.
    MissingVersion(String),
    /// It does not succeed.
    Failed(String),
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingVersion(text) | Self::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ConvertError {}

/// Why a write is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateError {
    /// Others manage what it changes.
    Conflicts(Conflicts),
    /// It does not succeed.
    Failed(String),
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflicts(conflicts) => conflicts.fmt(f),
            Self::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for UpdateError {}

fn failed(what: &str, why: impl fmt::Display) -> UpdateError {
    UpdateError::Failed(format!("{what}: {why}"))
}

/// What an apply makes.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The object, or `None` when it stays as it is.
    pub object: Option<Value>,
    /// Who manages what from now on. A set that is the same as before shares its memory ([`Set::is_same`]).
    pub managers: Managers,
}

/// Takes writes to objects.
#[derive(Debug)]
pub struct Updater<'c, C> {
    converter: &'c C,
    filters: Cow<'c, BTreeMap<String, Filter>>,
}

impl<'c, C: Converter> Updater<'c, C> {
    /// Makes one to whom all fields count.
    #[must_use]
    pub const fn new(converter: &'c C) -> Self {
        Self { converter, filters: Cow::Owned(BTreeMap::new()) }
    }

    /// Makes one to whom only those fields count that the filter of their version leaves.
    #[must_use]
    pub const fn with_filters(converter: &'c C, filters: &'c BTreeMap<String, Filter>) -> Self {
        Self { converter, filters: Cow::Borrowed(filters) }
    }

    /// Takes an update: `manager` manages what it changes from now on, and others no longer do. The object becomes `new`. Both are of `version`.
    ///
    /// # Errors
    ///
    /// An object cannot be converted to the version of a manager.
    pub fn update(
        &self,
        live: &TypedValue<'_>,
        new: &TypedValue<'_>,
        version: &str,
        managers: Managers,
        manager: &str,
    ) -> Result<Managers, UpdateError> {
        let mut managers = self.reconcile(live, managers)?;
        let comparison = self.change(live, new, version, &mut managers, manager, true)?;
        let before = managers.remove(manager).map_or_else(Set::new, |managed| managed.set);
        let mut set = before.difference(&comparison.removed).union(&comparison.modified).union(&comparison.added);
        if let Some(filter) = self.filters.get(version) {
            set = filter.filter(&set);
        }
        if !set.is_empty() {
            managers.insert(manager.to_owned(), VersionedSet { set, version: version.to_owned(), applied: false });
        }
        Ok(managers)
    }

    /// Takes an apply: the object gets what `config` says and loses what `manager` applied before and nobody wants any more. All are of `version`.
    ///
    /// # Errors
    ///
    /// Another manager has a field otherwise, and `force` is not set; or an object cannot be merged or converted.
    pub fn apply(
        &self,
        live: &TypedValue<'_>,
        config: &TypedValue<'_>,
        version: &str,
        managers: Managers,
        manager: &str,
        force: bool,
    ) -> Result<Applied, UpdateError> {
        let mut managers = self.reconcile(live, managers)?;
        let merged = live.merge(config).map_err(|e| failed("failed to merge config", e))?;
        let mut set = config.to_field_set().map_err(|e| failed("failed to get field set", e))?;
        if let Some(filter) = self.filters.get(version) {
            set = filter.filter(&set);
        }
        let last = managers.remove(manager);
        if let Some(last) = last.as_ref().filter(|last| last.set == set) {
            set = last.set.clone();
        }
        managers.insert(manager.to_owned(), VersionedSet { set, version: version.to_owned(), applied: true });
        let pruned = {
            let merged = merged.as_ref().map_or_else(|| live.borrow(), |merged| TypedValue::borrowed(merged, live.parseable_type()));
            self.prune(&merged, &managers, manager, last.as_ref()).map_err(|e| failed("failed to prune fields", e))?
        };
        let object = pruned.or(merged);
        match &object {
            Some(object) => {
                let new = TypedValue::borrowed(object, live.parseable_type());
                self.change(live, &new, version, &mut managers, manager, force)?;
            }
            None => managers.retain(|_, managed| !managed.set.is_empty()),
        }
        Ok(Applied { object: object.filter(|object| !equals(live.value(), object)), managers })
    }

    /// Takes from all managers but one what changes from `old` to `new`.
    fn change(
        &self,
        old: &TypedValue<'_>,
        new: &TypedValue<'_>,
        version: &str,
        managers: &mut Managers,
        workflow: &str,
        force: bool,
    ) -> Result<Comparison, UpdateError> {
        let comparison = old.compare(new).map_err(|e| failed("failed to compare objects", e))?;
        let mut changes = BTreeMap::from([(version.to_owned(), self.filtered(comparison, version))]);
        let mut conflicts: Vec<(&str, Set)> = Vec::new();
        let mut missing: Vec<String> = Vec::new();
        for (manager, managed) in managers.iter().filter(|(manager, _)| *manager != workflow) {
            let change = match changes.get(&managed.version) {
                Some(change) => change,
                None => match self.comparison(old, new, &managed.version)? {
                    Some(comparison) => {
                        let change = self.filtered(comparison, &managed.version);
                        changes.entry(managed.version.clone()).or_insert(change)
                    }
                    None => {
                        missing.push(manager.clone());
                        continue;
                    }
                },
            };
            let conflict = managed.set.intersection(&change.touched);
            if !conflict.is_empty() {
                conflicts.push((manager, conflict));
            }
        }
        if !force && !conflicts.is_empty() {
            return Err(UpdateError::Conflicts(Conflicts::from_managers(conflicts.iter().map(|(manager, set)| (*manager, set)))));
        }
        let taken: BTreeMap<String, Set> = conflicts.into_iter().map(|(manager, set)| (manager.to_owned(), set)).collect();
        missing.iter().for_each(|manager| drop(managers.remove(manager)));
        managers.retain(|manager, managed| {
            if manager != workflow {
                if let Some(taken) = taken.get(manager) {
                    managed.set = managed.set.difference(taken);
                }
                if let Some(change) = changes.get(&managed.version) {
                    managed.set = managed.set.difference(&change.comparison.removed);
                }
            }
            !managed.set.is_empty()
        });
        Ok(changes.remove(version).map(|change| change.comparison).unwrap_or_default())
    }

    /// The differences of two objects in another version, if it is still there.
    fn comparison(&self, old: &TypedValue<'_>, new: &TypedValue<'_>, version: &str) -> Result<Option<Comparison>, UpdateError> {
        let Some(old) = there(self.converter.convert(old, version), "failed to convert old object")? else { return Ok(None) };
        let Some(new) = there(self.converter.convert(new, version), "failed to convert new object")? else { return Ok(None) };
        old.compare(&new).map(Some).map_err(|e| failed("failed to compare objects", e))
    }

    fn filtered(&self, comparison: Comparison, version: &str) -> Change {
        let comparison = comparison.filter_fields(self.filters.get(version));
        Change { touched: comparison.modified.union(&comparison.added), comparison }
    }

    /// What managers manage with the types as they are today. Those of versions that are gone manage nothing.
    fn reconcile(&self, live: &TypedValue<'_>, managers: Managers) -> Result<Managers, UpdateError> {
        let mut types: BTreeMap<String, Option<ParseableType>> = BTreeMap::new();
        let mut reconciled = Managers::new();
        for (manager, mut managed) in managers {
            let of = match types.get(&managed.version) {
                Some(of) => of,
                None => {
                    let of = match self.converter.type_of(live, &managed.version) {
                        Ok(of) => Some(of),
                        Err(ConvertError::MissingVersion(_)) => None,
                        Err(ConvertError::Failed(why)) => return Err(UpdateError::Failed(why)),
                    };
                    types.entry(managed.version.clone()).or_insert(of)
                }
            };
            let Some(of) = of else { continue };
            if let Some(set) = reconcile_field_set_with_schema(&managed.set, of).map_err(UpdateError::Failed)? {
                managed.set = set;
            }
            reconciled.insert(manager, managed);
        }
        Ok(reconciled)
    }
}

/// What changes in one version.
struct Change {
    comparison: Comparison,
    /// What is modified or added.
    touched: Set,
}

/// What was converted; `None` when its version is not there.
fn there<T>(converted: Result<T, ConvertError>, what: &str) -> Result<Option<T>, UpdateError> {
    match converted {
        Ok(converted) => Ok(Some(converted)),
        Err(ConvertError::MissingVersion(_)) => Ok(None),
        Err(e @ ConvertError::Failed(_)) => Err(failed(what, e)),
    }
}

#[cfg(test)]
mod tests;
