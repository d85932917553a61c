//! Makes the feed of each etcd.

use std::sync::Arc;

use crate::config::Config;
use cache::source::driver::{Driver, SourceConfig};
use cache::state::snapshot::Fed;
use etcd::Etcd;
use model::ByResource;
use registry::FeedHandle;
use telemetry::Metrics;

/// A driver for each etcd, and how the registry commands it. They have nothing in common: each etcd has revisions of its own.
pub(super) fn feeds(
    etcds: &ByResource<Etcd>,
    prefix: &str,
    config: &Config,
    metrics: &Arc<Metrics>,
) -> (Vec<Driver>, ByResource<FeedHandle>) {
    let mut only = std::iter::once(Vec::new()).chain(etcds.apart());
    let mut drivers = Vec::new();
    let ends = etcds.map(|etcd| {
        let source = SourceConfig {
            prefix: prefix.to_owned(),
            only: only.next().unwrap_or_default(),
            warm_start_revisions: config.memory.warm_start_revisions,
            inbox_bytes_max: usize::try_from(config.memory.cacher_inbox_bytes_limit).unwrap_or(usize::MAX),
        };
        let fed = Arc::new(Fed::default());
        let (driver, commands) = Driver::new(etcd.clone(), source, fed.clone(), metrics.clone());
        drivers.push(driver);
        FeedHandle { commands, fed }
    });
    (drivers, ends)
}
