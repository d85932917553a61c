//! The policies that are stored, as the cache has them, each with its bindings.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use admission::{
    hooks::HookKind,
    policies::{Binding, Policy},
};
use model::{Epoch, Revision};

/// A policy with its bindings.
pub(in crate::write) struct BoundPolicy {
    pub(super) policy: Arc<Policy>,
    /// Those that name it.
    pub(super) bindings: Vec<Binding>,
}

/// The policies that are stored, as they were last read.
#[derive(Default)]
pub(in crate::write) struct KnownPolicies {
    mutating: Mutex<Known>,
    validating: Mutex<Known>,
}

impl KnownPolicies {
    pub(super) const fn of(&self, kind: HookKind) -> &Mutex<Known> {
        match kind {
            HookKind::Mutating => &self.mutating,
            HookKind::Validating => &self.validating,
        }
    }
}

type At = (Epoch, Revision);

#[derive(Default)]
pub(super) struct Known {
    /// Of which snapshots of policies and bindings it is.
    pub(super) at: Option<(At, At)>,
    /// Policies by name, each as it was at a revision: what has not changed is not compiled again.
    pub(super) read: HashMap<String, (Revision, Arc<Policy>)>,
    pub(super) all: Vec<Arc<BoundPolicy>>,
}
