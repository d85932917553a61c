//! Authentication (`authn`, and `providers`, who ask others) and authorization (`authz`, and `access`, which follows the cluster's roles).
//!
//! `authn` and `authz` open no socket and ask no clock: callers hand in headers, certificates, objects and the time, and say when to look at files again
//! (`reload`).

#![allow(missing_docs, reason = "the program is its only user: a comment stands where it says more than the name")]

pub mod access;
pub mod authn;
pub mod authz;
mod names;
pub mod presence;
pub mod providers;
pub mod right;
pub mod strict;
mod user;

pub use strict::NoConfiguration;
pub use user::{ANONYMOUS, AUTHENTICATED, MASTERS, MONITORING, UNAUTHENTICATED, User};
