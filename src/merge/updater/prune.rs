//! What an apply takes away: fields that its manager applied before, does not apply any more, and nobody else manages.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::Value;

use super::{Converter, UpdateError, Updater, failed, there};
use crate::{
    managers::{Managers, VersionedSet},
    set::Set,
    typed::TypedValue,
};

impl<C: Converter> Updater<'_, C> {
    /// Returns the merged object without these fields, or `None` when it stays as it is.
    pub(super) fn prune(
        &self,
        merged: &TypedValue<'_>,
        managers: &Managers,
        applying: &str,
        last: Option<&VersionedSet>,
    ) -> Result<Option<Value>, UpdateError> {
        let Some(last) = last.filter(|last| !last.set.is_empty()) else { return Ok(None) };
        let now = &managers[applying];
        // All that was applied before is applied again, and with it whatever contains it.
        if last.version == now.version && last.set.difference(&now.set).is_empty() {
            return Ok(None);
        }
        self.prune_last(merged, managers, applying, last)
    }

    /// The same, whatever is applied again.
    pub(super) fn prune_last(
        &self,
        merged: &TypedValue<'_>,
        managers: &Managers,
        applying: &str,
        last: &VersionedSet,
    ) -> Result<Option<Value>, UpdateError> {
        let now = &managers[applying];
        let Some(merged) = there(self.converter.convert(merged, &last.version), "failed to convert merged object to last applied version")?
        else {
            return Ok(None);
        };
        let pruned = without(&merged, &named(&merged, &last.set));
        let pruned = self.add_back_owned(&merged, pruned, &last.version, managers).map_err(|e| failed("failed add back owned items", e))?;
        let pruned = self.add_back_dangling(&merged, &pruned, last).map_err(|e| failed("failed add back dangling items", e))?;
        let converted = self.converter.convert(&pruned, &now.version).map_err(|e| UpdateError::Failed(e.to_string()))?;
        Ok(Some(converted.into_value().into_owned()))
    }

    /// Returns the pruned object with all that managers of any version manage.
    fn add_back_owned<'m>(
        &self,
        merged: &'m TypedValue<'_>,
        pruned: TypedValue<'m>,
        version: &str,
        managers: &Managers,
    ) -> Result<TypedValue<'m>, UpdateError> {
        let mut managed: BTreeMap<&str, Set> = BTreeMap::new();
        for VersionedSet { set, version, .. } in managers.values() {
            let of_version = managed.entry(version).or_default();
            *of_version = of_version.union(set);
        }
        // Those of its own version come first: a conversion may need what was pruned.
        let own = managed.remove(version);
        let others = managed;
        let pruned = match own {
            Some(managed) => self.add_back_owned_of(merged, &pruned, version, &managed)?.map_or(pruned, |(_, pruned)| pruned),
            None => pruned,
        };
        if others.is_empty() {
            return Ok(pruned);
        }
        let (mut merged, mut pruned) = (merged.borrow().into_owned(), pruned.into_owned());
        for (version, managed) in others {
            let added = self.add_back_owned_of(&merged, &pruned, version, &managed)?;
            if let Some((of_merged, of_pruned)) = added.map(|(merged, pruned)| (merged.into_owned(), pruned.into_owned())) {
                (merged, pruned) = (of_merged, of_pruned);
            }
        }
        Ok(pruned)
    }

    /// Returns both objects in a version, the pruned one with all that is managed in it; `None` when there is no such version.
    fn add_back_owned_of<'m>(
        &self,
        merged: &'m TypedValue<'_>,
        pruned: &TypedValue<'_>,
        version: &str,
        managed: &Set,
    ) -> Result<Option<(TypedValue<'m>, TypedValue<'m>)>, UpdateError> {
        let at = |which: &str| format!("failed to convert {which} object at version {version}");
        let Some(merged) = there(self.converter.convert(merged, version), &at("merged"))? else { return Ok(None) };
        let Some(pruned) = there(self.converter.convert(pruned, version), &at("pruned"))? else { return Ok(None) };
        let fields = |which: &str, object: &TypedValue<'_>| {
            let set = object.to_field_set();
            let set = set.map_err(|e| failed(&format!("failed to create field set from {which} object at version {version}"), e))?;
            Ok(named(object, &set))
        };
        let of_merged = fields("merged", &merged)?;
        let of_pruned = fields("pruned", &pruned)?;
        let unwanted = of_merged.difference(&of_pruned.union(&named(&merged, managed)));
        let pruned = match merged.remove_items(&unwanted) {
            Some(value) => TypedValue::unvalidated(Cow::Owned(value), merged.parseable_type()),
            None => merged.clone(),
        };
        Ok(Some((merged, pruned)))
    }

    /// Returns the merged object without what was applied last and is not in the pruned one. What nobody manages stays.
    fn add_back_dangling<'m>(
        &self,
        merged: &'m TypedValue<'_>,
        pruned: &TypedValue<'_>,
        last: &VersionedSet,
    ) -> Result<TypedValue<'m>, UpdateError> {
        let what = "failed to convert pruned object to last applied version";
        let Some(pruned) = there(self.converter.convert(pruned, &last.version), what)? else { return Ok(merged.borrow()) };
        let fields = |which: &str, object: &TypedValue<'_>| {
            let set = object.to_field_set();
            let set = set.map_err(|e| failed(&format!("failed to create field set from {which} object in last applied version"), e))?;
            Ok(named(merged, &set))
        };
        let of_pruned = fields("pruned", &pruned)?;
        let of_merged = fields("merged", merged)?;
        Ok(without(merged, &of_merged.difference(&of_pruned).intersection(&named(merged, &last.set))))
    }
}

/// A set with the declared fields that lead to its members, by the type of an object.
fn named(object: &TypedValue<'_>, set: &Set) -> Set {
    let of = object.parseable_type();
    set.ensure_named_fields_are_members(&of.schema, of.type_ref)
}

fn without<'m>(object: &'m TypedValue<'_>, items: &Set) -> TypedValue<'m> {
    match object.remove_items(items) {
        Some(value) => TypedValue::unvalidated(Cow::Owned(value), object.parseable_type()),
        None => object.borrow(),
    }
}
