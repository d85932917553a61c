//! Admission webhooks in a write. What they are asked and what is believed of their answers is `admission::hooks`; here they are asked.
//!
//! ```text
//! decide ─▶ PluginSession::mutate ─▶ not known: wanted ─▶ the write gives its place back ─▶ HookSession::ask: the whole chain ─▶ known ─▶ decide again
//! ```

mod ask;
mod begin;
mod bound;
mod chain;
mod configured;
mod mutations;
mod named;
mod policies;
mod rights;
mod session;

pub(super) use bound::KnownPolicies;
pub use configured::WebhookIdentities;
pub(super) use configured::{ConfiguredHook, KnownHooks};
pub use session::Unstored;
pub(super) use session::{Form, HookSession, Step};

/// Connections that files are reserved for: those of webhooks that are asked at the same time.
pub const CONNECTIONS_RESERVED: usize = configured::CALLS_AT_ONCE;
