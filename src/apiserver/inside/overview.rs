//! The server as a whole: how new its memory is, whether it is ready, what takes memory, what it does.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{api::Api, check::Check, path::Health};
use cache::state::snapshot::{Fed, Published};
use model::Shape;
use offload::run_on_thread;
use registry::{Resource, ServedResources};
use telemetry::{RequestCounts, build, resident_bytes};

/// Gathers it, on a thread that may take its time.
pub(super) async fn gather(api: Arc<Api>) -> Bytes {
    run_on_thread(move || tree(&api).to_string().into()).await
}

/// The cachers behind what is served, each with one of the resources that it has the objects of.
pub(super) fn cachers(resources: &ServedResources) -> impl Iterator<Item = &Arc<Resource>> {
    let mut seen: HashSet<*const Published> = HashSet::new();
    resources.iter().filter(move |resource| seen.insert(Arc::as_ptr(&resource.handle.published)))
}

fn tree(api: &Api) -> Value {
    let began = Instant::now();
    let (resources, oldest) = (api.resources.load_full(), api.oldest());
    let mut memory = Memory::default();
    let (mut count, mut followed, mut events, mut cut, mut too_old, mut groups) = (0, 0, 0, 0, 0, 0);
    for resource in cachers(&resources) {
        let (known, metrics) = (resource.handle.published.known(), &resource.metrics);
        memory.add(&resource.handle.published);
        memory.schemas_bytes += schema_bytes(resource);
        groups += resource.handle.published.groups();
        if resource.shown.is_none() {
            count += 1;
            followed += u64::from(known.is_ready());
            memory.objects += known.snapshot.store.len();
            events += metrics.cache_events_received.get();
            cut += metrics.terminated_watchers.get();
            too_old += metrics.watches_too_old.get();
        }
    }
    let sent: u64 = resources.iter().map(|resource| resource.requests.watch_events.get()).sum();
    let requests = api.metrics.request_counts().into_values().fold(RequestCounts::default(), RequestCounts::and);
    json!({
        "kind": "Overview",
        "at": millis(SystemTime::now()),
        "version": build::VERSION,
        "commit": build::COMMIT,
        "role": api.role(),
        "ready": api.is_ready(),
        "checks": checks(api),
        "revision": oldest.revision().0,
        "behind": oldest.is_behind(),
        "ageSeconds": seconds(oldest.age()),
        "feeds": api.condition.feeds.iter().map(|fed| feed(fed, if api.is_fed_by_upstream() { "upstream" } else { "etcd" })).collect::<Vec<_>>(),
        "upstream": api.upstream.as_ref().map(|upstream| upstream.status()),
        "forwarded": api.upstream.as_ref().map(|_| api.metrics.forwarded_counts()),
        "host": api.host.as_ref().map(|host| json!({
            "trouble": host.namespaces.wrong().map(|(why, _)| why),
            "definitionsWrong": host.definitions_wrong.load_full().map(|why| String::clone(&why)),
            "orphanedObjects": host.orphaned.load_full().map(|found| String::clone(&found)),
        })),
        "resources": count,
        // Of these upstream is followed now; an etcd tells of all.
        "followed": api.is_fed_by_upstream().then_some(followed),
        "objects": memory.objects,
        "watches": api.watches.count(),
        "groups": groups,
        "connections": api.metrics.connection_counts(),
        "memory": memory.told(api),
        "counters": {
            "requests": requests,
            "eventsReceived": events,
            "eventsSent": sent,
            "watchesCut": cut,
            "watchesTooOld": too_old,
            "watchesExpired": api.watches.expired.total(),
            "forwardedSeconds": api.upstream.as_ref().map(|_| api.metrics.forwarded_times().iter().map(|times| times.sum).sum::<f64>()),
            "cpuSeconds": api.metrics.cpu_seconds(),
        },
        "viewers": api.inside.viewers.all(),
        "gatheredInMicroseconds": u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
    })
}

/// What the checks of `/readyz` find, with the reasons that probes are not told.
fn checks(api: &Api) -> Vec<Value> {
    found(&api.checks(Health::Readyz))
}

/// What checks have found.
pub(super) fn found(checks: &[Check]) -> Vec<Value> {
    checks.iter().map(|(name, wrong)| json!({ "name": name, "ok": wrong.is_none(), "fails": wrong.as_ref().is_some_and(|wrong| wrong.fails), "why": wrong.as_ref().map(|wrong| &wrong.why) })).collect()
}

fn feed(fed: &Fed, source: &str) -> Value {
    json!({
        "source": source,
        "revision": fed.revision().0,
        "behind": fed.is_behind(),
        "ageSeconds": seconds(fed.age()),
        "note": fed.note().as_deref(),
        "lastFault": fed.fault().map(|last| fault(last.at, &last.why)),
    })
}

/// How something has failed, and when.
pub(super) fn fault(at: SystemTime, why: &str) -> Value {
    json!({ "at": millis(at), "why": why })
}

/// What of the process's memory is counted.
#[derive(Default)]
struct Memory {
    objects: usize,
    objects_bytes: usize,
    ring_bytes: usize,
    logs_bytes: usize,
    schemas_bytes: usize,
}

/// What is kept of the schema by which objects are read.
fn schema_bytes(resource: &Resource) -> usize {
    match &resource.handle.storage.shape {
        Shape::Custom { schema: Some(schema), .. } => schema.weight(),
        _ => 0,
    }
}

impl Memory {
    fn add(&mut self, published: &Published) {
        let known = published.known();
        self.objects_bytes += known.snapshot.store.bytes();
        self.ring_bytes += known.snapshot.ring.bytes();
        self.logs_bytes += published.log_bytes();
    }

    fn told(&self, api: &Api) -> Value {
        let metrics = &api.metrics;
        metrics.resample();
        json!({
            "resident": resident_bytes(),
            "budget": Some(metrics.memory_budget.get()).filter(|budget| *budget > 0),
            "objects": self.objects_bytes,
            "rings": self.ring_bytes,
            "schemas": self.schemas_bytes,
            "groupLogs": self.logs_bytes,
            "store": metrics.store_memory.get(),
            "compressedLists": api.blocks.bytes(),
            "watches": api.inflight.watches_bytes(),
            "watchFilters": api.reader.filters().bytes(),
            "unread": metrics.unread_bytes.get(),
            "requestHeads": metrics.head_bytes.get(),
            "requestBodies": metrics.body_bytes.get(),
        })
    }
}

/// Milliseconds of Unix time.
pub(super) fn millis(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

pub(super) fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64())
}
