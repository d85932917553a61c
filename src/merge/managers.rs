//! Managers, what each of them manages, and the conflicts between them.

use std::{collections::BTreeMap, fmt};

use go::quote::quoted;

use crate::{path::Path, set::Set};

/// What a manager manages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedSet {
    /// The fields.
    pub set: Set,
    /// The version whose fields they are.
    pub version: String,
    /// Whether it has applied them, rather than written them in an update.
    pub applied: bool,
}

/// All managers of an object, by name.
pub type Managers = BTreeMap<String, VersionedSet>;

/// A field that another manager manages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager.
    pub manager: String,
    /// The field.
    pub path: Path,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conflict with {}: {}", quoted(&self.manager), self.path)
    }
}

/// The fields that others manage, by manager, each manager's in the order of [`Set::iterate`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    /// Makes the conflicts with managers of these fields.
    #[must_use]
    pub fn from_managers<'a>(sets: impl IntoIterator<Item = (&'a str, &'a Set)>) -> Self {
        let mut conflicts = Vec::new();
        for (manager, set) in sets {
            set.iterate(&mut |path| conflicts.push(Conflict { manager: manager.to_owned(), path: path.clone() }));
        }
        Self(conflicts)
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [conflict] = &self.0[..] {
            return conflict.fmt(f);
        }
        let mut by_manager: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
        self.0.iter().for_each(|conflict| by_manager.entry(&conflict.manager).or_default().push(&conflict.path));
        for (at, (manager, paths)) in by_manager.iter().enumerate() {
            write!(f, "{}conflicts with {}:", if at > 0 { "\n" } else { "" }, quoted(manager))?;
            paths.iter().try_for_each(|path| write!(f, "\n- {path}"))?;
        }
        Ok(())
    }
}

impl std::error::Error for Conflicts {}
