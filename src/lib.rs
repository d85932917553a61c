//! watchcache: the watch cache of a Kubernetes API server, as a program of its own.
//!
//! ```text
//! an event     etcd → source → keeper → cache (store + ring) → dispatch → subscription → codec → http body
//! a read       http → auth → handler → read/plan → (cache view | etcd) → codec → response
//! ```
//!
//! Start at `app` (what is built, in which order) and `docs/architecture.md` (who may use whom).

pub mod app;
pub mod config;
pub mod http;
pub mod keeper;
pub mod read;
pub mod registry;
pub mod source;
pub mod telemetry;
pub mod upkeep;
pub mod write;

#[cfg(test)]
mod laws;
