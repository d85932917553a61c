//! The webhooks that are configured, as the cache has them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use admission::hooks::{Hook, HookKind};
use model::{Epoch, Revision};
use webhook::{Caller, Identities, Limits};

/// Webhooks that are asked at the same time; others wait within the time that they have.
pub(super) const CALLS_AT_ONCE: usize = 256;
/// Calls of one webhook at the same time.
const CALLS_OF_ONE: usize = 64;
/// How long an answer may take at most, whatever a configuration says.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of an answer: a patch of the largest object, as base64.
const ANSWER_BYTES_MAX: usize = 8 << 20;

pub(super) const LIMITS: Limits = Limits { timeout: CALL_TIMEOUT, answer_bytes_max: ANSWER_BYTES_MAX, concurrent_max: CALLS_OF_ONE };

/// A webhook, and what calls it.
pub(in crate::write) struct ConfiguredHook {
    pub(super) hook: Hook,
    pub(super) caller: Caller,
}

/// All webhooks of a kind, in the order in which they are asked.
pub(super) type All = Arc<Vec<Arc<ConfiguredHook>>>;

/// What is known of the configurations of both kinds.
pub(in crate::write) struct KnownHooks {
    mutating: Mutex<Known>,
    validating: Mutex<Known>,
    /// The places of calls.
    pub(super) calls: Semaphore,
}

impl Default for KnownHooks {
    fn default() -> Self {
        Self { mutating: Mutex::default(), validating: Mutex::default(), calls: Semaphore::new(CALLS_AT_ONCE) }
    }
}

#[derive(Default)]
pub(super) struct Known {
    /// Of which snapshot it is.
    pub(super) at: Option<(Epoch, Revision)>,
    pub(super) all: All,
    /// By the name of a configuration, as it was at a revision: expressions are compiled, and connections kept.
    pub(super) read: HashMap<String, (Revision, Vec<Arc<ConfiguredHook>>)>,
}

/// Who the server is at webhooks of each kind.
#[derive(Default)]
pub struct WebhookIdentities {
    /// At those that change objects.
    pub mutating: Identities,
    /// At those that judge them.
    pub validating: Identities,
}

impl WebhookIdentities {
    pub(super) const fn of(&self, kind: HookKind) -> &Identities {
        match kind {
            HookKind::Mutating => &self.mutating,
            HookKind::Validating => &self.validating,
        }
    }
}

impl KnownHooks {
    pub(super) fn of(&self, kind: HookKind) -> &Mutex<Known> {
        match kind {
            HookKind::Mutating => &self.mutating,
            HookKind::Validating => &self.validating,
        }
    }
}
