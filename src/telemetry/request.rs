//! One request's figures: started once, finished by a drop, so that no path forgets.

use std::sync::Arc;
use std::time::Instant;

use prometheus::{Histogram, IntCounter, IntGauge};

use super::Metrics;

/// Verbs as the metrics write them (spec list-watch §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the label values in upper case")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub(super) const COUNT: usize = 8;

    fn label(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::List => "LIST",
            Verb::Watch => "WATCH",
            Verb::Create => "POST",
            Verb::Update => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
            Verb::DeleteCollection => "DELETECOLLECTION",
        }
    }

    fn reads(self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }
}

/// How much a request spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One object, named by the path or by an exact `metadata.name` selector.
    Resource,
    Namespace,
    /// Everything.
    Cluster,
}

impl Scope {
    pub(super) const COUNT: usize = 3;

    pub(super) fn label(self) -> &'static str {
        match self {
            Scope::Resource => "resource",
            Scope::Namespace => "namespace",
            Scope::Cluster => "cluster",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLabels<'a> {
    pub(super) verb: Verb,
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    /// Plural.
    pub(super) resource: &'a str,
    pub(super) scope: Scope,
}

/// The resolved series of one set of labels.
#[derive(Debug)]
pub(super) struct Series {
    metrics: Arc<Metrics>,
    verb: Verb,
    labels: [String; 7],
    ok: IntCounter,
    duration: Histogram,
    open: IntGauge,
    sizes: Option<Histogram>,
}

impl Series {
    pub(super) fn new(metrics: &Arc<Metrics>, labels: &RequestLabels<'_>) -> Arc<Series> {
        let RequestLabels { verb, group, version, resource, scope } = *labels;
        // Requests on a subresource count as their resource's.
        let plain = [verb.label(), group, version, resource, "", scope.label(), "apiserver"];
        let families = &metrics.families;
        let open = if verb == Verb::Watch {
            families.longrunning.with_label_values(&plain)
        } else {
            families.inflight.with_label_values(&[if verb.reads() { "readOnly" } else { "mutating" }])
        };
        Arc::new(Series {
            ok: families.requests.with_label_values(&coded(&plain, "200")),
            duration: families.request_duration.with_label_values(&dry(&plain)),
            open,
            sizes: matches!(verb, Verb::Get | Verb::List).then(|| families.response_sizes.with_label_values(&plain)),
            labels: plain.map(str::to_owned),
            verb,
            metrics: Arc::clone(metrics),
        })
    }
}

fn dry<'a>(plain: &[&'a str; 7]) -> [&'a str; 8] {
    let [verb, group, version, resource, subresource, scope, component] = *plain;
    [verb, "", group, version, resource, subresource, scope, component]
}

fn coded<'a>(plain: &[&'a str; 7], code: &'a str) -> [&'a str; 9] {
    let [verb, group, version, resource, subresource, scope, component] = *plain;
    [verb, "", group, version, resource, subresource, scope, component, code]
}

/// A request being served: one more in flight (or one more open watch), and at its drop one more done, with its length, size and code.
/// Keep it in the body of the answer, so that it ends when the answer does.
#[derive(Debug)]
pub struct RequestTimer {
    series: Arc<Series>,
    started: Instant,
    code: u16,
    bytes: u64,
}

impl RequestTimer {
    pub(super) fn start(series: Arc<Series>) -> RequestTimer {
        series.open.inc();
        RequestTimer { series, started: Instant::now(), code: 0, bytes: 0 }
    }

    /// The answer's status code. Without one the request counts under code 0: its client left before there was an answer, or became a WebSocket.
    pub fn set_code(&mut self, code: u16) {
        self.code = code;
    }

    /// Further bytes of the answer's body.
    pub fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// The server gave this request up (a 504, say): `apiserver_request_terminations_total`.
    pub fn terminated(&mut self, code: u16) {
        self.code = code;
        let [verb, group, version, resource, subresource, scope, component] = self.series.labels.each_ref().map(String::as_str);
        let code = code.to_string();
        let labels = [verb, group, version, resource, subresource, scope, component, code.as_str()];
        self.series.metrics.families.terminations.with_label_values(&labels).inc();
    }
}

impl Drop for RequestTimer {
    fn drop(&mut self) {
        let series = &self.series;
        series.open.dec();
        series.duration.observe(self.started.elapsed().as_secs_f64());
        if let Some(sizes) = series.sizes.as_ref().filter(|_| self.code != 0) {
            sizes.observe(self.bytes as f64);
        }
        if self.code == 200 {
            return series.ok.inc();
        }
        let plain = series.labels.each_ref().map(String::as_str);
        let code = self.code.to_string();
        series.metrics.families.requests.with_label_values(&coded(&plain, &code)).inc();
        tracing::trace!(verb = ?series.verb, code = self.code, "request done");
    }
}
