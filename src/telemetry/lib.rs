//! Metric families under kube-apiserver's names (spec list-watch §8), and the log. Other rooms get handles; nothing here knows what they do.

#![allow(missing_docs, reason = "the program is its only user: a comment stands where it says more than the name")]

mod admission;
mod authentication;
pub mod build;
mod conversion;
mod counts;
mod family;
mod log;
mod panics;
mod pod_security;
mod process;
mod request;
mod resource;
mod sampled;
mod settings;
mod slis;

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder, exponential_buckets,
};

pub use admission::{WebhookCall, WebhookResult};
pub use conversion::ConversionFailure;
pub use counts::{Forwarded, ForwardedTimes, RequestCounts};
use family::{Family, Labels};
pub use log::{end, flush as flush_log, say, start as start_log};
pub use panics::{Contained, contain, contained};
pub use pod_security::{JudgedWrite, PodEvaluation};
pub use process::{open_files_limits, resident_bytes};
pub use request::{RequestTimer, Scope, Verb};
pub use resource::{EtcdTimer, ResourceFigures, ResourceMetrics, ServedMetrics};
pub use sampled::SampledGauge;
pub use settings::{Log, LogFormat};
pub use slis::{SLIS_CONTENT_TYPE, Slis};

/// Content-Type of `Metrics::render`.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// Buckets of `etcd_request_duration_seconds` and `apiserver_request_duration_seconds`.
const LATENCY: &[f64] =
    &[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0];
/// Buckets of the freshness wait, which ends after 3 s.
const READ_WAIT: &[f64] = &[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0];
/// Buckets of `watchcache_forwarded_duration_seconds`: few, for there is one row of them for each reason.
const FORWARDED: &[f64] = &[0.005, 0.025, 0.1, 0.5, 2.0, 10.0];
/// Buckets of `apiserver_watch_list_duration_seconds`.
const WATCH_LIST: &[f64] = &[0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0];

const G_R: &[&str] = &["group", "resource"];
const G_V_R: &[&str] = &["group", "version", "resource"];
const G_R_INDEX: &[&str] = &["group", "resource", "index"];
const OPERATION: &[&str] = &["operation", "group", "resource"];
const REQUEST: &[&str] = &["verb", "group", "version", "resource", "subresource", "scope", "component"];
const REQUEST_DRY: &[&str] = &["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"];
const REQUEST_CODE: &[&str] = &["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"];

/// Every metric family of the process, in a registry of its own.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    process: process::Process,
    families: Families,
    authentication_config: authentication::AuthenticationConfig,
    admission_webhooks: admission::AdmissionWebhooks,
    pod_security: pod_security::PodSecurity,
    conversion_webhooks: conversion::ConversionWebhooks,
    /// What `/metrics/slis` tells.
    pub slis: Slis,
    /// All families that have labels.
    labelled: Vec<Box<dyn Family>>,
    /// Sets gauges whenever metrics are asked for.
    sampler: OnceLock<Sampler>,
    /// `watchcache_watch_filters_bytes`: different filters that watches hold; set when it is asked for.
    pub watch_filters_bytes: IntGauge,
    /// `watchcache_unknown_keys_total`: keys under the prefix that fit no resource; the feed counts them.
    pub unknown_keys: IntCounter,
    /// `watchcache_definitions_read_total`: CustomResourceDefinitions read for serving; the registry counts them.
    pub definitions_read: IntCounter,
    /// `watchcache_memory_budget_bytes`: `--memory-budget`, 0 when there is none.
    pub memory_budget: IntGauge,
    /// `watchcache_memory_given_up{what}`: 1 for what the server does without.
    pub memory_given_up: IntGaugeVec,
    /// `watchcache_store_failed`: 1 once the embedded store takes no more writes.
    pub store_failed: SampledGauge,
    /// `watchcache_store_stalled`: 1 while the embedded store's disk does not take a write.
    pub store_stalled: SampledGauge,
    /// `watchcache_store_size_bytes`: the embedded store's file.
    pub store_size: SampledGauge,
    /// `watchcache_store_free_bytes`: what of it no change that is kept takes.
    pub store_free: SampledGauge,
    /// `watchcache_store_quota_bytes`: `--quota-backend-bytes`, 0 when there is none.
    pub store_quota: SampledGauge,
    /// `watchcache_store_memory_bytes`: what of the embedded store may be in memory.
    pub store_memory: SampledGauge,
    /// `watchcache_list_blocks_total{result="shared"}`: pieces of lists in gzip that were there already.
    pub blocks_shared: IntCounter,
    /// `watchcache_list_blocks_total{result="compressed"}`: those that had to be made.
    pub blocks_compressed: IntCounter,
    /// `watchcache_head_bytes`: what the heads of requests take, and what is made of them.
    pub head_bytes: IntGauge,
    /// `watchcache_unread_bytes`: what `--unread-bytes-limit` bounds.
    pub unread_bytes: IntGauge,
    /// `watchcache_request_body_bytes`: what `--request-bodies-bytes-limit` bounds.
    pub body_bytes: IntGauge,
    /// `apiserver_audit_event_total`: events for the audit log.
    pub audit_events: IntCounter,
    /// `apiserver_audit_error_total{plugin}`: those that were lost.
    pub audit_errors: IntCounterVec,
    /// `apiserver_audit_level_total{level}`: requests by what the policy says.
    pub audit_levels: IntCounterVec,
    /// `apiserver_audit_requests_rejected_total`: requests that were refused because they could not be told.
    pub audit_rejected: IntCounter,
    /// `watchcache_forwarded_requests_total{reason,code}`: requests that upstream answered, and why.
    forwarded: IntCounterVec,
    /// `watchcache_forwarded_duration_seconds{reason}`: how long their answers took to begin.
    forwarded_duration: HistogramVec,
    /// `watchcache_kept_answers_total`: documents of upstream that were answered as they were kept.
    pub kept_answers: IntCounter,
    /// `watchcache_upstream_up{server}`: whether upstream answered when it was asked last.
    pub upstream_up: IntGaugeVec,
    /// `watchcache_etcd_proven`: whether upstream has said that this etcd is its own.
    pub etcd_proven: SampledGauge,
    /// `watchcache_incomplete{group,resource}`: 1 for what upstream has otherwise than this etcd.
    pub incomplete: IntGaugeVec,
    /// `watchcache_feed_up`: whether memory follows etcd; set when it is asked for.
    pub feed_up: IntGauge,
    /// `watchcache_feed_age_seconds`: how old memory may be; set when it is asked for.
    pub feed_age: SampledGauge,
    /// `watchcache_ready`: whether `/readyz` passes; set when it is asked for.
    pub ready: IntGauge,
    /// `watchcache_certificate_expiration_timestamp_seconds{flag,file}`: when the certificates end that this server shows.
    pub certificate_ends: IntGaugeVec,
    /// `watchcache_connections{kind}`: what `--max-connections` bounds.
    pub connections: IntGaugeVec,
    /// `watchcache_connections_closed_total{reason}`: connections that were not let in or had to go.
    pub connections_closed: IntCounterVec,
}

/// Sets the gauges whose values somebody else knows.
struct Sampler(Box<dyn Fn(&Metrics) + Send + Sync>);

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sampler")
    }
}

/// The labelled families; handles are resolved from them once.
#[derive(Debug)]
struct Families {
    cache_events_received: IntCounterVec,
    cache_events_dispatched: IntCounterVec,
    cache_initializations: IntCounterVec,
    cache_resource_version: IntGaugeVec,
    cache_read_wait: HistogramVec,
    cache_consistent_read: IntCounterVec,
    history_events: IntGaugeVec,
    history_bytes: IntGaugeVec,
    history_oldest_revision: IntGaugeVec,
    resource_bytes: IntGaugeVec,
    resource_age: IntGaugeVec,
    loads_refused: IntCounterVec,
    cache_list: IntCounterVec,
    cache_list_fetched: IntCounterVec,
    cache_list_returned: IntCounterVec,
    init_events: IntCounterVec,
    terminated_watchers: IntCounterVec,
    watches_too_old: IntCounterVec,
    watch_events: IntCounterVec,
    watch_events_sizes: HistogramVec,
    watch_list_duration: HistogramVec,
    storage_list: IntCounterVec,
    storage_list_fetched: IntCounterVec,
    storage_list_evaluated: IntCounterVec,
    storage_list_returned: IntCounterVec,
    storage_events_received: IntCounterVec,
    resource_objects: IntGaugeVec,
    selector_indexes: IntGaugeVec,
    storage_objects: IntGaugeVec,
    decode_errors: IntCounterVec,
    undecodable: IntGaugeVec,
    etcd_duration: HistogramVec,
    etcd_requests: IntCounterVec,
    etcd_errors: IntCounterVec,
    etcd_bookmarks: IntCounterVec,
    requests: IntCounterVec,
    request_duration: HistogramVec,
    longrunning: IntGaugeVec,
    response_sizes: HistogramVec,
    inflight: IntGaugeVec,
    terminations: IntCounterVec,
}

/// Registers families while they are named; names are written once, here, so a clash is a mistake of this file.
struct Catalogue<'a> {
    registry: &'a Registry,
    labelled: RefCell<Vec<Box<dyn Family>>>,
}

impl Catalogue<'_> {
    fn add<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let family = made.expect("names and labels are constants of this file");
        #[cfg(test)]
        reference::note(&family);
        self.registry.register(Box::new(family.clone())).expect("each name is used once");
        family
    }

    fn add_labelled<T: MetricVecBuilder + 'static>(&self, made: prometheus::Result<MetricVec<T>>) -> MetricVec<T> {
        let family = self.add(made);
        self.labelled.borrow_mut().push(Box::new(family.clone()));
        family
    }

    fn counter(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.add_labelled(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn gauge(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.add_labelled(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    fn histogram(&self, name: &str, help: &str, labels: &[&str], buckets: Vec<f64>) -> HistogramVec {
        self.add_labelled(HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets), labels))
    }
}

impl Metrics {
    /// All families, nothing counted.
    pub fn new() -> Arc<Metrics> {
        let registry = Registry::new();
        let catalogue = Catalogue { registry: &registry, labelled: RefCell::default() };
        let families = Families::new(&catalogue);
        let authentication_config = authentication::AuthenticationConfig::new(&catalogue);
        let admission_webhooks = admission::AdmissionWebhooks::new(&catalogue);
        let pod_security = pod_security::PodSecurity::new(&catalogue);
        let conversion_webhooks = conversion::ConversionWebhooks::new(&catalogue);
        let watch_filters_bytes = catalogue.add(IntGauge::new(
            "watchcache_watch_filters_bytes",
            "Bytes of the different filters (scope and selectors) that watches hold, each counted once however many watches have it.",
        ));
        let unknown_keys = catalogue
            .add(IntCounter::new("watchcache_unknown_keys_total", "Keys under the etcd prefix that fit no resource and were ignored."));
        let definitions_read = catalogue.add(IntCounter::new(
            "watchcache_definitions_read_total",
            "CustomResourceDefinitions that were read to serve their resources: once for each write.",
        ));
        let memory_budget = catalogue.add(gauge("watchcache_memory_budget_bytes", "--memory-budget, 0 without one."));
        let memory_given_up = catalogue.gauge(
            "watchcache_memory_given_up",
            "1 for what the server does without to keep within --memory-budget: messages, blocks, snapshots, old_history, history.",
            &["what"],
        );
        let sampled = |name: &str, help: &str| SampledGauge::new(&catalogue, name, help);
        let store_failed = sampled(
            "watchcache_store_failed",
            "1 when the storage of the embedded store has failed: writes are refused until a restart. Absent without an embedded store.",
        );
        let store_stalled = sampled(
            "watchcache_store_stalled",
            "1 while the disk of the embedded store has not taken a write for more than 5 s. Absent without an embedded store.",
        );
        let store_size = sampled("watchcache_store_size_bytes", "Size of the embedded store's file. Absent without an embedded store.");
        let store_free = sampled(
            "watchcache_store_free_bytes",
            "Bytes of the embedded store's file that no kept change takes: free pages, the unused ends of others, and trees. Absent without an embedded store.",
        );
        let store_quota = sampled(
            "watchcache_store_quota_bytes",
            "Bytes of changes above which the embedded store takes no more, 0 without such a limit. Absent without an embedded store.",
        );
        let store_memory = sampled(
            "watchcache_store_memory_bytes",
            "Bytes of pages and of recent changes that the embedded store has in memory at most. Absent without an embedded store.",
        );
        let blocks = catalogue.counter(
            "watchcache_list_blocks_total",
            "Pieces of lists in gzip: shared were kept from before, compressed had to be made. If lists repeat and few are shared, raise --compressed-lists-bytes-limit.",
            &["result"],
        );
        let blocks = |result: &str| blocks.with_label_values(&[result]);
        let (blocks_shared, blocks_compressed) = (blocks("shared"), blocks("compressed"));
        let head_bytes =
            catalogue.add(gauge("watchcache_head_bytes", "Bytes of heads of requests under way and of watches, past 16 KiB a connection. At 128 MiB, and earlier for one user or address, requests get 429."));
        let unread_bytes = catalogue.add(gauge(
            "watchcache_unread_bytes",
            "Bytes of answers that clients have not read, past 128 KiB a connection; --unread-bytes-limit bounds them.",
        ));
        let body_bytes = catalogue.add(gauge(
            "watchcache_request_body_bytes",
            "Bytes of request bodies under way, past 128 KiB a connection; --request-bodies-bytes-limit bounds them.",
        ));
        let forwarded = catalogue.counter(
            "watchcache_forwarded_requests_total",
            "Requests that were forwarded to the upstream, by the code of the answer and the reason: write, document (discovery, OpenAPI, unknown paths), not_served (not here, or not by the upstream), loading, unreadable, incomplete (this etcd does not have what the upstream has), release (the upstream is of another minor, which shows the resource otherwise), subresource, behind.",
            &["reason", "code"],
        );
        let forwarded_duration = catalogue.histogram(
            "watchcache_forwarded_duration_seconds",
            "Time until the answer of --upstream-server to a request that was forwarded began, by the reason.",
            &["reason"],
            FORWARDED.into(),
        );
        let kept_answers = catalogue.add(IntCounter::new(
            "watchcache_kept_answers_total",
            "Documents of --upstream-server that were answered as they were kept, for it did not answer.",
        ));
        let upstream_up =
            catalogue.gauge("watchcache_upstream_up", "1 when --upstream-server answered when it was asked last.", &["server"]);
        let etcd_proven = sampled(
            "watchcache_etcd_proven",
            "1 when this etcd is known to be that of --upstream-server. Absent where there is none to compare with.",
        );
        let incomplete = catalogue.gauge(
            "watchcache_incomplete",
            "1 for a resource of which --upstream-server has something else than this etcd: its requests are forwarded.",
            &["group", "resource"],
        );
        let feed_up = catalogue.add(gauge("watchcache_feed_up", "1 while memory follows its source, 0 when it is behind: more than 5 s behind etcd; with --source=upstream when a resource is cut off, or was not heard of for 100 s."));
        let feed_age = sampled(
            "watchcache_feed_age_seconds",
            "Memory has everything that etcd had so many seconds ago. Absent before etcd has been heard. With --source=upstream how long upstream has said nothing; of a resource that is behind, its own age.",
        );
        let ready = catalogue.add(gauge("watchcache_ready", "1 while /readyz passes."));
        let certificate_ends = catalogue.gauge(
            "watchcache_certificate_expiration_timestamp_seconds",
            "When a certificate that this server shows to clients, etcd or upstream ends, by the flag that names its file; of --tls-cert-file, --tls-sni-cert-key, --proxy-client-cert-file and --etcd-certfile, not those in kubeconfig files.",
            &["flag", "file"],
        );
        let connections = catalogue.gauge("watchcache_connections", "Open connections, by whose they are: stranger (nobody has authenticated yet), known, local (the plain listener). --max-connections bounds them.", &["kind"]);
        let connections_closed = catalogue.counter(
            "watchcache_connections_closed_total",
            "Connections that were not let in (full, address_share) or closed (user_share, displaced, unproven, requests: a stranger asked too often; flood: too many control frames; heads; unread).",
            &["reason"],
        );
        let counter = |name: &str, help: &str| catalogue.add(IntCounter::new(name, help));
        let audit_events = counter("apiserver_audit_event_total", "Audit events generated and sent to the audit backend.");
        let audit_rejected =
            counter("apiserver_audit_requests_rejected_total", "Requests rejected because the audit backend could not log them.");
        let audit_errors =
            catalogue.counter("apiserver_audit_error_total", "Audit events that were lost, by the plugin that lost them.", &["plugin"]);
        let audit_levels =
            catalogue.counter("apiserver_audit_level_total", "Requests by the level that the audit policy gives them.", &["level"]);
        catalogue.add(Ok(log::DROPPED.clone()));
        build::register(&catalogue);
        let process = process::Process::new(&catalogue);
        let labelled = catalogue.labelled.into_inner();
        Arc::new(Metrics {
            process,
            families,
            authentication_config,
            admission_webhooks,
            pod_security,
            conversion_webhooks,
            slis: Slis::new(),
            labelled,
            sampler: OnceLock::new(),
            watch_filters_bytes,
            unknown_keys,
            definitions_read,
            memory_budget,
            memory_given_up,
            store_failed,
            store_stalled,
            store_size,
            store_free,
            store_quota,
            store_memory,
            blocks_shared,
            blocks_compressed,
            head_bytes,
            unread_bytes,
            body_bytes,
            audit_events,
            audit_errors,
            audit_levels,
            audit_rejected,
            forwarded,
            forwarded_duration,
            kept_answers,
            upstream_up,
            etcd_proven,
            incomplete,
            feed_up,
            feed_age,
            ready,
            certificate_ends,
            connections,
            connections_closed,
            registry,
        })
    }

    /// Handles of one resource, for the cache and the feed. Resolve once and keep.
    pub fn resource(self: &Arc<Metrics>, group: &str, resource: &str) -> ResourceMetrics {
        ResourceMetrics::new(self, group, resource)
    }

    /// Handles of one served version of a resource, for requests. Resolve once and keep.
    pub fn served(self: &Arc<Metrics>, group: &str, version: &str, resource: &str) -> ServedMetrics {
        ServedMetrics::new(self, group, version, resource)
    }

    /// A request was forwarded for this reason; its answer, of this code, began after so long.
    pub fn was_forwarded(&self, reason: &str, code: &str, time: Duration) {
        self.forwarded.with_label_values(&[reason, code]).inc();
        self.forwarded_duration.with_label_values(&[reason]).observe(time.as_secs_f64());
    }

    /// Forgets the series of each resource of which `is_served` (group, version where a series has one, resource) says that it is gone. Looks at every
    /// series, which takes as long as [`Metrics::render`].
    pub fn forget(&self, is_served: impl Fn(&str, Option<&str>, &str) -> bool) {
        let is_gone = |labels: &Labels<'_>| {
            let Some(resource) = labels.get("resource").filter(|resource| !resource.is_empty()) else { return false };
            let (resource, group) = match labels.get("group") {
                Some(group) => (*resource, *group),
                // `apiserver_storage_objects` has both in one.
                None => resource.split_once('.').unwrap_or((resource, "")),
            };
            !is_served(group, labels.get("version").copied(), resource)
        };
        self.labelled.iter().for_each(|family| family.forget(&is_gone));
    }

    /// Calls this whenever metrics are asked for, so that the gauges that it sets are of that moment. It must not wait. Only the first one counts.
    pub fn sample(&self, sampler: impl Fn(&Metrics) + Send + Sync + 'static) {
        let _ = self.sampler.set(Sampler(Box::new(sampler)));
    }

    /// Samples the gauges that are sampled on demand.
    pub fn resample(&self) {
        if let Some(Sampler(sample)) = self.sampler.get() {
            sample(self);
        }
    }

    /// Returns the text format, with the figures of this moment.
    pub fn render(&self) -> Vec<u8> {
        self.process.refresh();
        self.resample();
        let mut text = String::new();
        if let Err(error) = TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "metrics cannot be written");
        }
        text.into_bytes()
    }
}

fn gauge(name: &str, help: &str) -> prometheus::Result<IntGauge> {
    IntGauge::new(name, help)
}

impl Families {
    fn new(c: &Catalogue<'_>) -> Families {
        let buckets = |start, factor, count| exponential_buckets(start, factor, count).expect("constants that make buckets");
        Families {
            cache_events_received: c.counter("apiserver_watch_cache_events_received_total", "Data events applied to the watch cache.", G_R),
            cache_events_dispatched: c.counter("apiserver_watch_cache_events_dispatched_total", "Events taken up for dispatch.", G_R),
            cache_initializations: c.counter("apiserver_watch_cache_initializations_total", "Times the watch cache was loaded.", G_R),
            cache_resource_version: c.gauge("apiserver_watch_cache_resource_version", "Revision of the watch cache modulo 10^15.", G_R),
            cache_read_wait: c.histogram(
                "apiserver_watch_cache_read_wait_seconds",
                "Time spent waiting for the watch cache to become fresh.",
                G_R,
                READ_WAIT.into(),
            ),
            cache_consistent_read: c.counter(
                "apiserver_watch_cache_consistent_read_total",
                "Consistent reads from the watch cache.",
                &["group", "resource", "success", "fallback"],
            ),
            loads_refused: c.counter(
                "watchcache_loads_refused_total",
                "Loads of a resource that were refused, for its objects do not fit into --memory-budget (--source=upstream).",
                G_R,
            ),
            resource_age: c.gauge(
                "watchcache_resource_age_seconds",
                "How old what memory has of a resource may be. Absent before its source has been heard, and with --source=upstream while it is not followed. There upstream proves a quiet resource once a minute.",
                G_R,
            ),
            history_events: c.gauge("watchcache_history_events", "Events that the history holds now; --ring-events-limit bounds them.", G_R),
            history_bytes: c.gauge(
                "watchcache_history_bytes",
                "Bytes that the history holds now beside the current objects: its events and the objects that they replaced; --ring-bytes-limit bounds them.",
                G_R,
            ),
            history_oldest_revision: c.gauge(
                "watchcache_history_oldest_revision",
                "The oldest revision that a watch can go on from, modulo 10^15 as in apiserver_watch_cache_resource_version.",
                G_R,
            ),
            resource_bytes: c.gauge("watchcache_resource_bytes", "Bytes of the current objects in memory.", G_R),
            cache_list: c.counter("apiserver_cache_list_total", "LIST requests served from the watch cache.", G_R_INDEX),
            cache_list_fetched: c.counter(
                "apiserver_cache_list_fetched_objects_total",
                "Objects read from the watch cache for LIST requests.",
                G_R_INDEX,
            ),
            cache_list_returned: c.counter(
                "apiserver_cache_list_returned_objects_total",
                "Objects returned for LIST requests from the watch cache.",
                G_R,
            ),
            init_events: c.counter("apiserver_init_events_total", "Initial and replayed events processed for watchers.", G_R),
            terminated_watchers: c.counter("apiserver_terminated_watchers_total", "Watchers ended because they were too slow.", G_R),
            watches_too_old: c.counter(
                "watchcache_watches_too_old_total",
                "Watches that were answered 410 when they began: history does not reach back to what they asked for.",
                G_R,
            ),
            watch_events: c.counter("apiserver_watch_events_total", "Events sent in watch streams.", G_V_R),
            watch_events_sizes: c.histogram(
                "apiserver_watch_events_sizes",
                "Bytes of events sent in watch streams.",
                G_V_R,
                buckets(1024.0, 2.0, 8),
            ),
            watch_list_duration: c.histogram(
                "apiserver_watch_list_duration_seconds",
                "From the receipt of a watch-list request to its annotated bookmark.",
                &["group", "version", "resource", "scope"],
                WATCH_LIST.into(),
            ),
            storage_list: c.counter("apiserver_storage_list_total", "LIST requests served from etcd.", G_R),
            storage_list_fetched: c.counter(
                "apiserver_storage_list_fetched_objects_total",
                "Objects read from etcd for LIST requests.",
                G_R,
            ),
            storage_list_evaluated: c.counter(
                "apiserver_storage_list_evaluated_objects_total",
                "Objects tested for LIST requests from etcd.",
                G_R,
            ),
            storage_list_returned: c.counter(
                "apiserver_storage_list_returned_objects_total",
                "Objects returned for LIST requests from etcd.",
                G_R,
            ),
            storage_events_received: c.counter("apiserver_storage_events_received_total", "Events received from etcd watches.", G_R),
            resource_objects: c.gauge("apiserver_resource_objects", "Objects stored.", G_R),
            selector_indexes: c.gauge("watchcache_selector_indexes", "Labels and fields that selectors ask for so often that objects are found by them without a scan; 8 of a resource at most, and one that is not used for 10 minutes is dropped.", G_R),
            storage_objects: c.gauge("apiserver_storage_objects", "Objects stored (deprecated form).", &["resource"]),
            decode_errors: c.counter("apiserver_storage_decode_errors_total", "Stored objects that could not be decoded.", G_R),
            undecodable: c.gauge(
                "watchcache_undecodable_objects",
                "Stored objects that cannot be decoded now; while there are any, lists answer 500.",
                G_R,
            ),
            etcd_duration: c.histogram("etcd_request_duration_seconds", "etcd request latency.", OPERATION, LATENCY.into()),
            etcd_requests: c.counter("etcd_requests_total", "etcd requests.", OPERATION),
            etcd_errors: c.counter("etcd_request_errors_total", "etcd requests that failed.", OPERATION),
            etcd_bookmarks: c.counter("etcd_bookmark_total", "Progress notifications received from etcd.", G_R),
            requests: c.counter("apiserver_request_total", "Requests by verb, resource and code.", REQUEST_CODE),
            request_duration: c.histogram(
                "apiserver_request_duration_seconds",
                "Latency of requests; a watch counts at its end.",
                REQUEST_DRY,
                LATENCY.into(),
            ),
            longrunning: c.gauge("apiserver_longrunning_requests", "Open long-running requests.", REQUEST),
            response_sizes: c.histogram("apiserver_response_sizes", "Bytes of GET and LIST responses.", REQUEST, buckets(1000.0, 10.0, 7)),
            inflight: c.gauge("apiserver_current_inflight_requests", "Requests being served, watches apart.", &["request_kind"]),
            terminations: c.counter(
                "apiserver_request_terminations_total",
                "Requests that the server ended in self-defence.",
                &["verb", "group", "version", "resource", "subresource", "scope", "component", "code"],
            ),
        }
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
