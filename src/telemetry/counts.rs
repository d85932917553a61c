//! What `/metrics` counts, added up for who shows it: read from the very series.

use std::collections::BTreeMap;

use prometheus::core::Collector;
use serde::Serialize;

use super::Metrics;

/// Requests on a resource that were answered, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestCounts {
    /// All of them.
    pub all: u64,
    pub gets: u64,
    pub lists: u64,
    /// Watches that have ended.
    pub watches: u64,
    pub writes: u64,
    /// Answered 410: what they asked for is too old.
    pub gone: u64,
    /// Answered 429.
    pub too_many: u64,
    /// Answered 500 and above.
    pub failed: u64,
}

impl RequestCounts {
    fn add(&mut self, verb: &str, code: &str, count: u64) {
        self.all += count;
        match verb {
            "GET" => self.gets += count,
            "LIST" => self.lists += count,
            "WATCH" => self.watches += count,
            _ => self.writes += count,
        }
        match code {
            "410" => self.gone += count,
            "429" => self.too_many += count,
            code if code.starts_with('5') => self.failed += count,
            _ => {}
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            gets: self.gets + other.gets,
            lists: self.lists + other.lists,
            watches: self.watches + other.watches,
            writes: self.writes + other.writes,
            gone: self.gone + other.gone,
            too_many: self.too_many + other.too_many,
            failed: self.failed + other.failed,
        }
    }
}

/// Requests that upstream has answered for one reason, with one code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the labels of `watchcache_forwarded_requests_total`")]
pub struct Forwarded {
    pub reason: String,
    pub code: String,
    pub count: u64,
}

/// How long the answers took to begin of all requests that were forwarded for one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardedTimes {
    /// Why they were.
    pub reason: String,
    /// How many they are.
    pub count: u64,
    /// All their times together, seconds.
    pub sum: f64,
    /// How many took at most so many seconds.
    pub buckets: Vec<(f64, u64)>,
}

impl Metrics {
    /// Counts the requests on each resource, by group and plural name. Looks at every series of `apiserver_request_total`.
    #[must_use]
    pub fn request_counts(&self) -> BTreeMap<(String, String), RequestCounts> {
        let mut counts: BTreeMap<(String, String), RequestCounts> = BTreeMap::new();
        for family in self.families.requests.collect() {
            for series in family.get_metric() {
                let label = |name: &str| series.get_label().iter().find(|label| label.name() == name).map_or("", |label| label.value());
                let key = (label("group").to_owned(), label("resource").to_owned());
                counts.entry(key).or_default().add(label("verb"), label("code"), series.get_counter().get_value() as u64);
            }
        }
        counts
    }

    /// Counts the requests that upstream has answered, by reason and code.
    #[must_use]
    pub fn forwarded_counts(&self) -> Vec<Forwarded> {
        let mut counts = Vec::new();
        for family in self.forwarded.collect() {
            for series in family.get_metric() {
                let label = |name: &str| series.get_label().iter().find(|label| label.name() == name).map_or("", |label| label.value());
                let count = series.get_counter().get_value() as u64;
                counts.push(Forwarded { reason: label("reason").to_owned(), code: label("code").to_owned(), count });
            }
        }
        counts
    }

    /// Tells how long upstream took to answer, by reason.
    #[must_use]
    pub fn forwarded_times(&self) -> Vec<ForwardedTimes> {
        let mut times = Vec::new();
        for family in self.forwarded_duration.collect() {
            for series in family.get_metric() {
                let (reason, histogram) = (series.get_label().first().map_or("", |label| label.value()), series.get_histogram());
                let bounded = histogram.get_bucket().iter().filter(|bucket| bucket.upper_bound().is_finite());
                let buckets = bounded.map(|bucket| (bucket.upper_bound(), bucket.cumulative_count())).collect();
                let (count, sum) = (histogram.get_sample_count(), histogram.get_sample_sum());
                times.push(ForwardedTimes { reason: reason.to_owned(), count, sum, buckets });
            }
        }
        times
    }

    /// Counts the open connections, by whose they are.
    #[must_use]
    pub fn connection_counts(&self) -> BTreeMap<String, i64> {
        let mut counts = BTreeMap::new();
        for family in self.connections.collect() {
            for series in family.get_metric() {
                let kind = series.get_label().first().map_or("", |label| label.value());
                counts.insert(kind.to_owned(), series.get_gauge().get_value() as i64);
            }
        }
        counts
    }

    /// CPU time of the process so far, seconds.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        self.process.cpu_seconds()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Scope, Verb};

    #[test]
    fn requests_are_counted_by_resource_verb_and_code() {
        let metrics = Metrics::new();
        let pods = metrics.served("", "v1", "pods");
        let end = |verb, code| pods.request(verb, Scope::Cluster).set_code(code);
        [(Verb::Get, 200), (Verb::List, 410), (Verb::List, 200), (Verb::Watch, 429), (Verb::Patch, 500)]
            .into_iter()
            .for_each(|(v, c)| end(v, c));
        metrics.served("apps", "v1", "deployments").request(Verb::Create, Scope::Namespace).set_code(201);
        let counts = metrics.request_counts();
        let wanted = RequestCounts { all: 5, gets: 1, lists: 2, watches: 1, writes: 1, gone: 1, too_many: 1, failed: 1 };
        assert_eq!(counts[&(String::new(), "pods".to_owned())], wanted);
        let all = counts.into_values().filter(|counts| counts.all > 0).fold(RequestCounts::default(), RequestCounts::and);
        assert_eq!((all.all, all.writes), (6, 2));
    }

    #[test]
    fn what_was_forwarded_is_told_with_its_times() {
        let metrics = Metrics::new();
        for (code, millis) in [("200", 3), ("200", 90), ("503", 20_000)] {
            metrics.was_forwarded("write", code, Duration::from_millis(millis));
        }
        metrics.was_forwarded("document", "200", Duration::ZERO);
        let counts = metrics.forwarded_counts();
        assert_eq!(counts.iter().filter(|row| row.reason == "write").map(|row| row.count).sum::<u64>(), 3, "{counts:?}");
        let times = metrics.forwarded_times();
        let write = times.iter().find(|row| row.reason == "write").expect("it was counted");
        assert_eq!((times.len(), write.count), (2, 3));
        assert!((write.sum - 20.093).abs() < 1e-6, "{write:?}");
        assert_eq!(write.buckets, [(0.005, 1), (0.025, 1), (0.1, 2), (0.5, 2), (2.0, 2), (10.0, 2)]);
    }
}
