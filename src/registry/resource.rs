//! A served resource, as requests hold it.

use std::{sync::Arc, time::Duration};

use super::representation::Encoders;
use cache::{cacher::Handle, state::snapshot::Published};
use catalogue::Served;
use conversion::{ConversionError, Converter, View};
use model::Object;
use telemetry::{ResourceMetrics, ServedMetrics};

/// A served resource with all that serving it takes; made once, when the catalogue changes.
pub struct Resource {
    /// What clients see.
    pub served: Arc<Served>,
    /// How it is written.
    pub encoders: Encoders,
    /// Its cacher: of the stored objects, or of those in its own version.
    pub handle: Handle,
    /// How its objects are made of the stored ones, where its definition says that.
    pub shown: Option<Shown>,
    /// What asks the webhook of its definition to convert between any of its versions.
    pub webhook: Option<Arc<Converter>>,
    /// Figures of the stored resource.
    pub metrics: Arc<ResourceMetrics>,
    /// Figures of the served version.
    pub requests: Arc<ServedMetrics>,
}

/// A version that is made of what is stored.
pub struct Shown {
    pub converter: Arc<Converter>,
    /// What is kept of it.
    pub view: View,
    /// The stored objects.
    pub(super) source: Arc<Published>,
}

/// How long what is kept of a version is waited for before an object is converted for one request alone.
const KEPT_WAIT: Duration = Duration::from_secs(1);

impl Shown {
    /// Returns stored objects in the version, in the same order: as they are kept, if they are. A version that is kept up has each of them converted anyway.
    ///
    /// # Errors
    /// The webhook fails, or too many wait for it.
    pub async fn objects(&self, objects: &[Arc<Object>]) -> Result<Vec<Arc<Object>>, ConversionError> {
        self.view.want();
        if let Some(newest) = objects.iter().map(|object| object.revision).max().filter(|_| self.view.is_live()) {
            self.view.reaches(newest, KEPT_WAIT).await;
        }
        let kept: Vec<Option<Arc<Object>>> = objects.iter().map(|object| self.view.find(object.key(), object.revision)).collect();
        let missing: Vec<Arc<Object>> =
            objects.iter().zip(&kept).filter(|(_, kept)| kept.is_none()).map(|(object, _)| object.clone()).collect();
        let made = if missing.is_empty() { Vec::new() } else { self.converter.objects(&missing).await? };
        together(kept, made)
    }

    /// Returns one stored object in the version.
    ///
    /// # Errors
    /// As of [`Self::objects`].
    pub async fn object(&self, object: Arc<Object>) -> Result<Arc<Object>, ConversionError> {
        let made = self.objects(std::slice::from_ref(&object)).await?;
        made.into_iter().next().ok_or_else(|| ConversionError::miscounted(0, 1))
    }
}

/// Fills the gaps of what is kept with what was made for them, in their order.
///
/// # Errors
/// There are fewer or more than gaps: a list would lack objects, or have one in the place of another.
fn together<T>(kept: Vec<Option<T>>, made: Vec<T>) -> Result<Vec<T>, ConversionError> {
    let (count, gaps) = (made.len(), kept.iter().filter(|kept| kept.is_none()).count());
    if count != gaps {
        return Err(ConversionError::miscounted(count, gaps));
    }
    let mut made = made.into_iter();
    Ok(kept.into_iter().filter_map(|kept| kept.or_else(|| made.next())).collect())
}

impl Resource {
    /// The cacher's snapshot of the stored objects.
    #[must_use]
    pub fn source(&self) -> &Arc<Published> {
        self.shown.as_ref().map_or(&self.handle.published, |shown| &shown.source)
    }
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
        shown: None,
        webhook: None,
        metrics: figures,
        requests: Arc::new(metrics.served(group, "v1", resource)),
        served,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_lacks_an_object_is_an_error() {
        assert_eq!(together(vec![Some(1), None, Some(3), None], vec![2, 4]), Ok(vec![1, 2, 3, 4]));
        assert_eq!(together(vec![Some(1)], Vec::new()), Ok(vec![1]));
        for (kept, made, why) in [
            (vec![Some(1), None, None], vec![2], "the conversion has made 1 objects of 2"),
            (vec![None], vec![], "the conversion has made 0 objects of 1"),
            (vec![Some(1)], vec![2], "the conversion has made 1 objects of 0"),
        ] {
            assert_eq!(together(kept, made).map_err(|error| error.to_string()), Err(why.to_owned()));
        }
    }
}
