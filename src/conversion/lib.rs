//! Objects of custom resources in other versions than the stored one, where that takes more than another `apiVersion`.
//!
//! ```text
//! stored object ─▶ schema of its version ─▶ webhook (or only another apiVersion) ─▶ metadata as it was ─▶ schema of the version that is shown
//! ```
//!
//! [`Converter`] does this for one version of a resource. [`View`] does it for every object and event of the resource, once, and feeds a cacher of that
//! version, from which its readers are served.

#![allow(missing_docs, reason = "the program is its only user: a comment stands where it says more than the name")]

mod converter;
mod growth;
mod kept;
mod metadata;
mod review;
mod view;
mod webhook;

pub use self::webhook::{CONNECTIONS_RESERVED, Caller};
pub use converter::{ConversionError, Converter};
pub use kept::{KeptVersions, Reading};
pub use view::View;
