//! Deletes what is in a namespace, by what discovery offers now: every namespaced resource that can be deleted.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use futures_util::stream::{self, StreamExt};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    super::{
        Controllers,
        objects::{Metadata, deletion, place_of, tree},
    },
    conditions::Found,
};
use model::Object;
use registry::{Resource, ServedResources};
use storage::write::{failure::WriteError, options::Propagation};

/// Deletes that are under way at once, of one namespace: the embedded store commits together what comes together.
const DELETES: usize = 64;

/// How long finalizers are given, in seconds.
const FINALIZER_ESTIMATE: u64 = 15;

/// What is left of one resource.
#[derive(Debug, Default)]
struct Remaining {
    /// Seconds until it is gone, it is hoped.
    estimate: u64,
    objects: usize,
    finalizers: BTreeMap<String, usize>,
    error: Option<String>,
}

/// Deletes everything; returns what was found, and how many seconds the rest takes.
pub(super) async fn delete_all(controllers: &Controllers, namespace: &str, deleted_at: &str) -> (Found, u64) {
    let (mut found, mut estimate) = (Found::default(), 0);
    let resources = deletable(&controllers.resources.load());
    let (pods, others): (Vec<_>, Vec<_>) = resources.iter().partition(|resource| is_pods(resource));
    for resource in pods {
        let left = delete_of(controllers, resource, namespace, deleted_at).await;
        estimate = estimate.max(left.estimate);
        if let Some(error) = &left.error {
            found.errors.push(format!("failed to delete pods for namespace: {namespace}, err: {error}"));
            found.content_errors.push(error.clone());
        }
        if left.objects > 0 {
            // The conditions do not count what is left while there are Pods (measured).
            return (found, estimate);
        }
    }
    for resource in others {
        let left = delete_of(controllers, resource, namespace, deleted_at).await;
        estimate = estimate.max(left.estimate);
        found.errors.extend(left.error.clone());
        found.content_errors.extend(left.error);
        if left.objects > 0 {
            found.remaining.insert(format!("{}.{}", resource.served.resource, resource.served.group), left.objects);
        }
        for (finalizer, count) in left.finalizers {
            *found.finalizers.entry(finalizer).or_default() += count;
        }
    }
    (found, estimate)
}

/// The namespaced resources that can be deleted, each in the version that discovery prefers, or in one that asks no webhook.
fn deletable(resources: &ServedResources) -> Vec<Arc<Resource>> {
    let mut all = Vec::new();
    for group in resources.catalogue.groups() {
        let mut names = HashSet::new();
        // The preferred version comes first.
        for served in resources.catalogue.served_in(group).filter(|served| served.namespaced && served.has_verb("delete")) {
            if names.insert(&*served.resource) {
                let found = resources.find(group, &served.version, &served.resource);
                all.extend(found.map(|resource| resources.unconverted(resource).clone()));
            }
        }
    }
    all
}

fn is_pods(resource: &Resource) -> bool {
    (&*resource.served.group, &*resource.served.resource) == ("", "pods")
}

/// Deletes what there is of one resource.
async fn delete_of(controllers: &Controllers, resource: &Arc<Resource>, namespace: &str, deleted_at: &str) -> Remaining {
    match try_delete_of(controllers, resource, namespace, deleted_at).await {
        Ok(left) => left,
        Err(error) => Remaining { error: Some(error.to_string()), ..Remaining::default() },
    }
}

async fn try_delete_of(
    controllers: &Controllers,
    resource: &Arc<Resource>,
    namespace: &str,
    deleted_at: &str,
) -> Result<Remaining, WriteError> {
    let Some(objects) = objects(controllers, resource, namespace).await? else { return Ok(Remaining::default()) };
    let estimate = if is_pods(resource) { graceful_estimate(controllers, resource, &objects, deleted_at) } else { 0 };
    let options = deletion(Propagation::Background, None);
    let mut deletes = stream::iter(objects)
        .map(|object| {
            let (place, options) = (place_of(resource, &object), &options);
            async move { controllers.delete(&place, options).await }
        })
        .buffer_unordered(DELETES);
    let mut failed = None;
    while let Some(done) = deletes.next().await {
        failed = failed.or(done.err());
    }
    if let Some(error) = failed {
        return Ok(Remaining { estimate, error: Some(error.to_string()), ..Remaining::default() });
    }
    let Some(left) = self::objects(controllers, resource, namespace).await? else { return Ok(Remaining::default()) };
    let mut finalizers = BTreeMap::new();
    for finalizer in left.iter().filter_map(|object| Metadata::of(object)).flat_map(|metadata| metadata.finalizers) {
        *finalizers.entry(finalizer).or_default() += 1;
    }
    let objects = left.len();
    Ok(match (estimate, finalizers.is_empty()) {
        (0, true) => {
            let served = &resource.served;
            let gvr = format!("{}/{}, Resource={}", served.group, served.version, served.resource);
            let error = format!("unexpected items still remain in namespace: {namespace} for gvr: {gvr}");
            Remaining { objects, error: Some(error), ..Remaining::default() }
        }
        (0, false) => Remaining { estimate: FINALIZER_ESTIMATE, objects, finalizers, error: None },
        _ => Remaining { estimate, objects, finalizers, error: None },
    })
}

/// The objects that etcd has of a resource, as the cache knows them; none when there are none.
///
/// # Errors
/// The cache is behind, or some cannot be read.
async fn objects(controllers: &Controllers, resource: &Arc<Resource>, namespace: &str) -> Result<Option<Vec<Arc<Object>>>, WriteError> {
    let (count, revision) = controllers.writer.count(resource, namespace).await?;
    if count == 0 {
        return Ok(None);
    }
    let known = controllers.caught_up(resource, revision).await?;
    let prefix = format!("{}{namespace}/", resource.served.storage.key_prefix(&controllers.prefix));
    if let Some((_, broken)) = known.snapshot.broken.iter().find(|(key, _)| key.starts_with(prefix.as_bytes())) {
        return Err(WriteError::Undecodable(broken.why.clone()));
    }
    let objects: Vec<_> = known.snapshot.store.scan(prefix.as_bytes(), b"").cloned().collect();
    Ok((!objects.is_empty()).then_some(objects))
}

/// How long the Pods take to end, in seconds; nothing when that time has passed since the namespace was deleted.
fn graceful_estimate(controllers: &Controllers, pods: &Resource, objects: &[Arc<Object>], deleted_at: &str) -> u64 {
    let since = |now: &str| {
        let [now, then] = [now, deleted_at].map(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
        Some((now? - then?).whole_seconds())
    };
    let graces = objects.iter().filter_map(|object| tree(pods, object)).filter_map(|pod| {
        let phase = pod["status"]["phase"].as_str().unwrap_or("");
        (!matches!(phase, "Succeeded" | "Failed")).then(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64()).flatten()
    });
    let estimate = graces.max().unwrap_or(0).max(0);
    let passed = since(&controllers.writer.now()).unwrap_or(0);
    if passed >= estimate { 0 } else { estimate.unsigned_abs() }
}
