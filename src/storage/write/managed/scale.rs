//! Managed fields of a scale: its one field stands for the replicas of the parent, in whose managers its own are.

use merge::{Managers, Path, PathElement, Set, VersionedSet};
use serde_json::Value;

use super::{MANAGED_FIELDS, entries::Managed};
use crate::write::{failure::WriteError, tree};
use catalogue::{Origin, ScalePaths, Served};
use registry::ServedResources;

pub(in crate::write) const API_VERSION: &str = "autoscaling/v1";

/// The managers of an object whose scale is written.
pub(in crate::write) struct ParentManagers {
    managed: Managed,
    /// Where the replicas are in each version; `None` in one without a scale.
    paths: Vec<(String, Option<Path>)>,
    /// The version of the request.
    api_version: String,
}

impl ParentManagers {
    /// Reads those of a parent.
    ///
    /// # Errors
    /// They cannot be read.
    pub(in crate::write) fn of(resources: &ServedResources, served: &Served, parent: &Value) -> Result<Self, WriteError> {
        let managed = Managed::read(tree::metadata(parent).get(MANAGED_FIELDS)).map_err(WriteError::Raw)?;
        let siblings = resources.catalogue.served_in(&served.group).filter(|sibling| sibling.storage.id == served.storage.id);
        let paths = match &served.origin {
            Origin::Custom(custom) => {
                custom.versions.iter().map(|version| (version.api_version.clone(), version.scale.as_ref().map(path))).collect()
            }
            Origin::BuiltIn(_) => siblings.map(|sibling| (sibling.api_version(), Some(replicas()))).collect(),
        };
        Ok(Self { managed, paths, api_version: served.api_version() })
    }

    /// Returns the path of the replicas in a version; `None` if it is not known.
    fn path(&self, version: &str) -> Option<Option<&Path>> {
        self.paths.iter().find(|(known, _)| known == version).map(|(_, path)| path.as_ref())
    }

    /// Returns the entries of the scale: who manages the replicas.
    pub(in crate::write) fn of_scale(&self) -> Vec<Value> {
        let mut scale = Managed::default();
        for (manager, fields) in &self.managed.managers {
            let Some(Some(path)) = self.path(&fields.version) else { continue };
            if fields.set.has(&path.0) {
                let set = one(&replicas());
                scale.managers.insert(manager.clone(), VersionedSet { set, version: API_VERSION.to_owned(), applied: fields.applied });
                scale.times.extend(self.managed.times.get(manager).map(|time| (manager.clone(), time.clone())));
            }
        }
        scale.entries()
    }

    /// Returns the entries of the parent after a write of the scale, which has these.
    ///
    /// # Errors
    /// They cannot be read.
    pub(in crate::write) fn of_parent(self, scale: Option<&Value>) -> Result<Vec<Value>, WriteError> {
        let mut scale: Managers = Managed::read(scale).map_err(WriteError::Raw)?.managers;
        let mut parent = Managed::default();
        for (manager, fields) in &self.managed.managers {
            let Some(path) = self.path(&fields.version) else { continue };
            let kept = match path.filter(|path| fields.set.has(&path.0)) {
                None => fields.clone(),
                Some(_) if scale.remove(manager).is_some() => fields.clone(),
                Some(path) => VersionedSet { set: fields.set.difference(&one(path)), ..fields.clone() },
            };
            if !kept.set.is_empty() {
                parent.managers.insert(manager.clone(), kept);
                parent.times.extend(self.managed.times.get(manager).map(|time| (manager.clone(), time.clone())));
            }
        }
        let own = self.path(&self.api_version).flatten();
        for (manager, fields) in scale {
            if let Some(path) = own.filter(|_| fields.set.has(&replicas().0)) {
                // When is not told.
                parent
                    .managers
                    .insert(manager, VersionedSet { set: one(path), version: self.api_version.clone(), applied: fields.applied });
            }
        }
        Ok(parent.entries())
    }
}

fn replicas() -> Path {
    Path::fields(&["spec", "replicas"])
}

fn one(path: &Path) -> Set {
    let mut set = Set::new();
    set.insert(&path.0);
    set
}

fn path(scale: &ScalePaths) -> Path {
    Path(scale.spec.iter().map(|name| PathElement::field(name)).collect())
}
