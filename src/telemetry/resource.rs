//! Handles of one resource: plain counters, resolved once, so that hot paths look nothing up.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use prometheus::{Histogram, IntCounter, IntGaugeVec};

use super::Metrics;
use super::request::{RequestLabels, RequestTimer, Scope, Series, Verb};

/// Figures of one stored resource; cheap to clone.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each field is the family of its name in spec list-watch §8; help texts are in lib.rs")]
pub struct ResourceMetrics {
    pub cache_events_received: IntCounter,
    pub cache_events_dispatched: IntCounter,
    pub cache_initializations: IntCounter,
    pub cache_read_wait: Histogram,
    pub cache_list: IntCounter,
    pub cache_list_fetched: IntCounter,
    pub cache_list_returned: IntCounter,
    pub init_events: IntCounter,
    pub terminated_watchers: IntCounter,
    /// Watches that were answered 410 when they began.
    pub watches_too_old: IntCounter,
    pub storage_list: IntCounter,
    pub storage_list_fetched: IntCounter,
    pub storage_list_evaluated: IntCounter,
    pub storage_list_returned: IntCounter,
    pub storage_events_received: IntCounter,
    pub decode_errors: IntCounter,
    pub etcd_bookmarks: IntCounter,
    rare: Arc<Rare>,
}

/// Series that most resources never use; made at their first use, so that `/metrics` is not full of zeros.
#[derive(Debug)]
struct Rare {
    metrics: Arc<Metrics>,
    group: String,
    resource: String,
    consistent_reads: [OnceLock<IntCounter>; 4],
    loads_refused: OnceLock<IntCounter>,
    etcd: [OnceLock<EtcdSeries>; EtcdOperation::COUNT],
}

/// What the cache holds of a resource that is loaded.
#[derive(Clone, Copy, Debug)]
pub struct ResourceFigures {
    /// Everything up to here is in it.
    pub revision: u64,
    /// Objects.
    pub objects: usize,
    /// Bytes of them.
    pub object_bytes: usize,
    /// Indexes that were learned.
    pub indexes: usize,
    /// Events of its history.
    pub history_events: usize,
    /// Bytes that they hold.
    pub history_bytes: usize,
    /// The oldest revision that a watch can go on from.
    pub oldest_revision: u64,
    /// Stored objects that cannot be decoded.
    pub undecodable: usize,
}

/// A float holds a revision below it exactly; what is above is shown modulo it, as kube-apiserver does.
const REVISIONS_EXACT: u64 = 1_000_000_000_000_000;

/// Sets the series with these labels, or removes it when there is no value.
fn show(family: &IntGaugeVec, labels: &[&str], value: Option<u64>) {
    match value {
        Some(value) => family.with_label_values(labels).set(i64::try_from(value).unwrap_or(i64::MAX)),
        // That it is not there is what is wanted.
        None => drop(family.remove_label_values(labels)),
    }
}

#[derive(Debug)]
struct EtcdSeries {
    requests: IntCounter,
    errors: IntCounter,
    duration: Histogram,
}

/// What is asked of etcd, as the metrics call it (spec list-watch §8).
#[derive(Clone, Copy, Debug)]
enum EtcdOperation {
    Get,
    List,
    Create,
    Update,
    Delete,
}

impl EtcdOperation {
    const COUNT: usize = 5;

    fn label(self) -> &'static str {
        match self {
            EtcdOperation::Get => "get",
            EtcdOperation::List => "list",
            EtcdOperation::Create => "create",
            EtcdOperation::Update => "update",
            EtcdOperation::Delete => "delete",
        }
    }
}

impl ResourceMetrics {
    pub(super) fn new(metrics: &Arc<Metrics>, group: &str, resource: &str) -> ResourceMetrics {
        let f = &metrics.families;
        let gr = &[group, resource];
        let index = &[group, resource, ""];
        ResourceMetrics {
            cache_events_received: f.cache_events_received.with_label_values(gr),
            cache_events_dispatched: f.cache_events_dispatched.with_label_values(gr),
            cache_initializations: f.cache_initializations.with_label_values(gr),
            cache_read_wait: f.cache_read_wait.with_label_values(gr),
            cache_list: f.cache_list.with_label_values(index),
            cache_list_fetched: f.cache_list_fetched.with_label_values(index),
            cache_list_returned: f.cache_list_returned.with_label_values(gr),
            init_events: f.init_events.with_label_values(gr),
            terminated_watchers: f.terminated_watchers.with_label_values(gr),
            watches_too_old: f.watches_too_old.with_label_values(gr),
            storage_list: f.storage_list.with_label_values(gr),
            storage_list_fetched: f.storage_list_fetched.with_label_values(gr),
            storage_list_evaluated: f.storage_list_evaluated.with_label_values(gr),
            storage_list_returned: f.storage_list_returned.with_label_values(gr),
            storage_events_received: f.storage_events_received.with_label_values(gr),
            decode_errors: f.decode_errors.with_label_values(gr),
            etcd_bookmarks: f.etcd_bookmarks.with_label_values(gr),
            rare: Arc::new(Rare {
                metrics: Arc::clone(metrics),
                group: group.to_owned(),
                resource: resource.to_owned(),
                consistent_reads: Default::default(),
                loads_refused: OnceLock::new(),
                etcd: Default::default(),
            }),
        }
    }

    /// Returns the families of the process.
    pub(super) fn all(&self) -> &Metrics {
        &self.rare.metrics
    }

    /// Shows what the cache holds of the resource, or that it does not know: then the series are absent.
    pub fn show(&self, figures: Option<&ResourceFigures>) {
        let Rare { metrics, group, resource, .. } = &*self.rare;
        let f = &metrics.families;
        let dotted = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
        let (both, one) = ([group.as_str(), resource.as_str()], [dotted.as_str()]);
        let figure = |of: fn(&ResourceFigures) -> u64| figures.map(of);
        show(&f.cache_resource_version, &both, figure(|figures| figures.revision % REVISIONS_EXACT));
        show(&f.history_oldest_revision, &both, figure(|figures| figures.oldest_revision % REVISIONS_EXACT));
        show(&f.resource_objects, &both, figure(|figures| figures.objects as u64));
        show(&f.storage_objects, &one, figure(|figures| figures.objects as u64));
        show(&f.selector_indexes, &both, figure(|figures| figures.indexes as u64));
        show(&f.resource_bytes, &both, figure(|figures| figures.object_bytes as u64));
        show(&f.history_events, &both, figure(|figures| figures.history_events as u64));
        show(&f.history_bytes, &both, figure(|figures| figures.history_bytes as u64));
        show(&f.undecodable, &both, figure(|figures| figures.undecodable as u64));
    }

    /// Shows how old what the cache holds may be; nothing before its source has been heard.
    pub fn show_age(&self, age: Option<Duration>) {
        let Rare { metrics, group, resource, .. } = &*self.rare;
        show(&metrics.families.resource_age, &[group, resource], age.map(|age| age.as_secs()));
    }

    /// A consistent read was answered: fresh in time, or by etcd instead.
    pub fn consistent_read(&self, success: bool, fallback: bool) {
        let rare = &self.rare;
        let series = rare.consistent_reads[usize::from(success) * 2 + usize::from(fallback)].get_or_init(|| {
            let word = |yes: bool| if yes { "true" } else { "false" };
            rare.metrics.families.cache_consistent_read.with_label_values(&[&rare.group, &rare.resource, word(success), word(fallback)])
        });
        series.inc();
    }

    /// A load was refused, for its objects do not fit into the budget.
    pub fn load_refused(&self) {
        let rare = &self.rare;
        rare.loads_refused.get_or_init(|| rare.metrics.families.loads_refused.with_label_values(&[&rare.group, &rare.resource])).inc();
    }

    /// A read of one key begins; its time and its outcome are those of `etcd_request*`.
    pub fn etcd_get(&self) -> EtcdTimer<'_> {
        self.etcd(EtcdOperation::Get)
    }

    /// A read of a range: a list, or a page of a load.
    pub fn etcd_list(&self) -> EtcdTimer<'_> {
        self.etcd(EtcdOperation::List)
    }

    /// A transaction that writes a key that must not exist. One whose condition does not hold has not failed, here as below.
    pub fn etcd_create(&self) -> EtcdTimer<'_> {
        self.etcd(EtcdOperation::Create)
    }

    /// A transaction that writes a key that must be as it was.
    pub fn etcd_update(&self) -> EtcdTimer<'_> {
        self.etcd(EtcdOperation::Update)
    }

    /// A transaction that deletes a key.
    pub fn etcd_delete(&self) -> EtcdTimer<'_> {
        self.etcd(EtcdOperation::Delete)
    }

    fn etcd(&self, operation: EtcdOperation) -> EtcdTimer<'_> {
        let rare = &self.rare;
        let series = rare.etcd[operation as usize].get_or_init(|| {
            let labels = &[operation.label(), rare.group.as_str(), rare.resource.as_str()];
            let families = &rare.metrics.families;
            EtcdSeries {
                requests: families.etcd_requests.with_label_values(labels),
                errors: families.etcd_errors.with_label_values(labels),
                duration: families.etcd_duration.with_label_values(labels),
            }
        });
        EtcdTimer { series, started: Instant::now(), failed: true }
    }
}

/// A request to etcd under way; dropped without `succeeded` it counts as failed.
#[derive(Debug)]
pub struct EtcdTimer<'a> {
    series: &'a EtcdSeries,
    started: Instant,
    failed: bool,
}

impl EtcdTimer<'_> {
    /// etcd answered.
    pub fn succeeded(mut self) {
        self.failed = false;
    }
}

impl Drop for EtcdTimer<'_> {
    fn drop(&mut self) {
        self.series.requests.inc();
        self.series.duration.observe(self.started.elapsed().as_secs_f64());
        if self.failed {
            self.series.errors.inc();
        }
    }
}

/// Figures of one served version of a resource; cheap to clone.
#[derive(Clone, Debug)]
pub struct ServedMetrics {
    /// Events written to clients.
    pub watch_events: IntCounter,
    /// Bytes of each of them.
    pub watch_events_sizes: Histogram,
    lazy: Arc<Served>,
}

#[derive(Debug)]
struct Served {
    metrics: Arc<Metrics>,
    group: String,
    version: String,
    resource: String,
    watch_lists: [OnceLock<Histogram>; Scope::COUNT],
    requests: [[OnceLock<Arc<Series>>; Scope::COUNT]; Verb::COUNT],
}

impl ServedMetrics {
    pub(super) fn new(metrics: &Arc<Metrics>, group: &str, version: &str, resource: &str) -> ServedMetrics {
        let labels = &[group, version, resource];
        ServedMetrics {
            watch_events: metrics.families.watch_events.with_label_values(labels),
            watch_events_sizes: metrics.families.watch_events_sizes.with_label_values(labels),
            lazy: Arc::new(Served {
                metrics: Arc::clone(metrics),
                group: group.to_owned(),
                version: version.to_owned(),
                resource: resource.to_owned(),
                watch_lists: Default::default(),
                requests: Default::default(),
            }),
        }
    }

    /// Starts a request on the resource itself.
    pub fn request(&self, verb: Verb, scope: Scope) -> RequestTimer {
        let served = &self.lazy;
        let series = served.requests[verb as usize][scope as usize].get_or_init(|| {
            let labels = RequestLabels { verb, group: &served.group, version: &served.version, resource: &served.resource, scope };
            Series::new(&served.metrics, &labels)
        });
        RequestTimer::start(Arc::clone(series))
    }

    /// From the receipt of a watch-list request to its annotated bookmark.
    pub fn watch_list_duration(&self, scope: Scope) -> &Histogram {
        let served = &self.lazy;
        served.watch_lists[scope as usize].get_or_init(|| {
            let labels = &[served.group.as_str(), &served.version, &served.resource, scope.label()];
            served.metrics.families.watch_list_duration.with_label_values(labels)
        })
    }
}
