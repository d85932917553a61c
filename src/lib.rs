//! watchcache: the watch cache of a Kubernetes API server as a standalone program.
//!
//! ```text
//! an event     etcd → source → cacher → cache (store + ring) → dispatch → subscription → codec → http body
//! a read       http → auth → handler → read/plan → (cache view | etcd) → codec → response
//! ```
//!
//! Start at `app` (what is built, in which order) and `docs/architecture.md` (who may use whom).

#![allow(missing_docs, reason = "the program is its only user: a comment stands where it says more than the name")]

pub mod app;
pub mod config;
