//! watchcache: the watch cache of a Kubernetes API server as a standalone program.
//!
//! ```text
//! an event     etcd → cache (source, feed, cacher, state, dispatch) → apiserver/body → server → client
//! a request    client → server → apiserver (auth) → storage (read or write) → cache or etcd → codec → server → client
//! ```
//!
//! Start at `app` (what is built, in which order) and `docs/architecture.md` (who may use whom).

#![allow(missing_docs, reason = "the program is its only user: a comment stands where it says more than the name")]

pub mod app;
pub mod config;
