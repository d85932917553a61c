//! A served resource, as requests hold it.

use std::sync::Arc;

use super::representation::Encoders;
use cache::cacher::Handle;
use catalogue::Served;
use telemetry::{ResourceMetrics, ServedMetrics};

/// A served resource with all that serving it takes; made once, when the catalogue changes.
pub struct Resource {
    /// What clients see.
    pub served: Arc<Served>,
    /// How it is written.
    pub encoders: Encoders,
    /// Its cacher.
    pub handle: Handle,
    /// Figures of the stored resource.
    pub metrics: Arc<ResourceMetrics>,
    /// Figures of the served version.
    pub requests: Arc<ServedMetrics>,
}

/// Returns a built-in resource with a cacher that nobody runs.
///
/// # Panics
/// There is no such built-in.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub fn test_resource(group: &str, resource: &str) -> Resource {
    use cache::cacher::cacher;
    use cache::dispatch::GroupLimits;
    use cache::state::{ring::RingLimits, snapshot::Fed};
    use catalogue::Catalogue;
    use codec::Encoder;
    use telemetry::Metrics;
    let served = Catalogue::new(&[]).served(group, "v1", resource).expect("a built-in").clone();
    let metrics = Metrics::new();
    let figures = Arc::new(metrics.resource(group, resource));
    let limits = RingLimits { events_max: 1, bytes_max: 1, window_ms: 0 };
    let (_, given_up) = tokio::sync::watch::channel(model::GivenUp::Nothing);
    let (_, handle, _) =
        cacher(served.storage.clone(), limits, GroupLimits::default(), Arc::new(Fed::default()), given_up, figures.clone());
    Resource {
        encoders: Encoders::new(
            Encoder::built_in(&served.api_version(), &served.kind, &served.list_kind, ""),
            served.clone(),
            std::time::Duration::default,
        ),
        handle,
        metrics: figures,
        requests: Arc::new(metrics.served(group, "v1", resource)),
        served,
    }
}
