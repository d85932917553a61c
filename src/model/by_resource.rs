//! One value for most resources, and other values for the few that are kept apart from them.

use std::collections::HashMap;

use crate::ResourceId;

/// A value for each resource: that of its etcd, say. Resources that are not named have the first one.
#[derive(Clone, Debug)]
pub struct ByResource<T> {
    values: Vec<T>,
    apart: HashMap<ResourceId, usize>,
}

impl<T> ByResource<T> {
    /// The same value for all.
    #[must_use]
    pub fn one(value: T) -> Self {
        Self { values: vec![value], apart: HashMap::new() }
    }

    /// Gives these resources a value of their own. A resource that is named twice has the last one.
    pub fn set_apart(&mut self, resources: impl IntoIterator<Item = ResourceId>, value: T) {
        let index = self.values.len();
        self.values.push(value);
        self.apart.extend(resources.into_iter().map(|id| (id, index)));
    }

    /// The value of this resource.
    #[must_use]
    pub fn of(&self, id: &str) -> &T {
        &self.values[self.apart.get(id).copied().unwrap_or(0)]
    }

    /// The value of all resources that have none of their own.
    #[must_use]
    pub fn main(&self) -> &T {
        &self.values[0]
    }

    /// Every value once, the main one first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }

    /// The resources of each value but the main one, in the order of [`Self::iter`].
    #[must_use]
    pub fn apart(&self) -> Vec<Vec<ResourceId>> {
        let mut all = vec![Vec::new(); self.values.len() - 1];
        for (id, index) in &self.apart {
            if let Some(ids) = index.checked_sub(1).and_then(|index| all.get_mut(index)) {
                ids.push(id.clone());
            }
        }
        all.iter_mut().for_each(|ids: &mut Vec<ResourceId>| ids.sort());
        all
    }

    /// The same with a value made of each.
    ///
    /// # Errors
    /// The first value that cannot be made.
    pub fn try_map<U, E>(&self, make: impl FnMut(&T) -> Result<U, E>) -> Result<ByResource<U>, E> {
        Ok(ByResource { values: self.values.iter().map(make).collect::<Result<_, E>>()?, apart: self.apart.clone() })
    }

    /// The same with a value made of each.
    #[must_use]
    pub fn map<U>(&self, make: impl FnMut(&T) -> U) -> ByResource<U> {
        ByResource { values: self.values.iter().map(make).collect(), apart: self.apart.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_set_apart_have_their_own() {
        let mut etcds = ByResource::one("main");
        etcds.set_apart(["events".into(), "pods".into()], "a");
        etcds.set_apart(["pods".into()], "b");
        assert_eq!(["configmaps", "events", "pods"].map(|id| *etcds.of(id)), ["main", "a", "b"]);
        assert_eq!((*etcds.main(), etcds.iter().count()), ("main", 3));
        assert_eq!(etcds.apart(), [vec![ResourceId::from("events")], vec!["pods".into()]]);
        let lengths = etcds.map(|name| name.len());
        assert_eq!((*lengths.of("pods"), *lengths.of("nodes")), (1, 4));
        assert_eq!(etcds.try_map(|name| if *name == "b" { Err("no") } else { Ok(()) }).err(), Some("no"));
    }
}
