//! Authentication (`authn`) and authorization (`authz`).
//!
//! It opens no socket and asks no clock: callers hand in headers, certificates, objects and the time, and say when to look at files again (`reload`).

pub mod authn;
pub mod authz;
mod names;
mod recent;
pub mod reload;
pub mod shared;
mod strict;
mod user;

pub use strict::NoConfiguration;
pub use user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};
