//! Which program this is: `watchcache_build_info`, and what the first line of the log says.

use prometheus::{IntGaugeVec, Opts};

use super::Catalogue;

/// The version in Cargo.toml.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit, from `commit`, which runs before this is compiled; `unknown` of an unoptimised program, and of one that was compiled without git.
pub const COMMIT: &str = env!("WATCHCACHE_COMMIT");

/// Writes the first line of the log. It comes when nothing of the storage speaks against a start: a refusal is one line.
pub fn tell() {
    tracing::info!(version = VERSION, commit = COMMIT, "watchcache begins");
}

/// Adds `watchcache_build_info{version,commit}`, which is always 1.
pub(super) fn register(catalogue: &Catalogue<'_>) {
    let opts = Opts::new("watchcache_build_info", "1, by the version and the commit of this program.");
    catalogue.add(IntGaugeVec::new(opts, &["version", "commit"])).with_label_values(&[VERSION, COMMIT]).set(1);
}
