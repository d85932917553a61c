//! The metrics of `/metrics/slis`: how health checks have ended, each time that an endpoint was asked. In a registry of their own, as in kube-apiserver.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{Gauge, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

/// Content-Type of [`Slis::render`].
pub const SLIS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// See the file's header.
#[derive(Debug)]
pub struct Slis {
    registry: Registry,
    last: IntGaugeVec,
    all: IntCounterVec,
}

impl Slis {
    /// Nothing was checked yet.
    pub(super) fn new() -> Slis {
        let opts = |name: &str, help: &str| Opts::new(name, help);
        let last = opts("kubernetes_healthcheck", "[STABLE] This metric records the result of a single healthcheck.");
        let last = IntGaugeVec::new(last, &["name", "type"]).expect("names and labels are constants of this file");
        let all = opts("kubernetes_healthchecks_total", "[STABLE] This metric records the results of all healthcheck.");
        let all = IntCounterVec::new(all, &["name", "type", "status"]).expect("names and labels are constants of this file");
        let start = Gauge::new("process_start_time_seconds", "[ALPHA] Start time of the process since unix epoch in seconds.");
        let start = start.expect("names are constants of this file");
        start.set(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64());
        let registry = Registry::new();
        registry.register(Box::new(last.clone())).expect("each name is used once");
        registry.register(Box::new(all.clone())).expect("each name is used once");
        registry.register(Box::new(start)).expect("each name is used once");
        Slis { registry, last, all }
    }

    /// A check of this endpoint, `readyz` say, has passed or failed.
    pub fn checked(&self, name: &str, endpoint: &str, passed: bool) {
        self.last.with_label_values(&[name, endpoint]).set(i64::from(passed));
        self.all.with_label_values(&[name, endpoint, if passed { "success" } else { "error" }]).inc();
    }

    /// Returns the families that have a series.
    #[cfg(test)]
    pub(super) fn told(&self) -> Vec<prometheus::proto::MetricFamily> {
        self.registry.gather()
    }

    /// In Prometheus' text format.
    pub fn render(&self) -> Vec<u8> {
        let mut text = String::new();
        if let Err(error) = TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "metrics cannot be written");
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines are those of kube-apiserver 1.36.3.
    #[test]
    fn checks_are_told_as_kube_apiserver_tells_them() {
        let slis = Slis::new();
        for passed in [false, true, true] {
            slis.checked("etcd", "readyz", passed);
        }
        let text = String::from_utf8(slis.render()).expect("UTF-8");
        let told = text.split("process_start_time_seconds ").next().expect("a first part");
        assert_eq!(
            told,
            "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n\
             # TYPE kubernetes_healthcheck gauge\n\
             kubernetes_healthcheck{name=\"etcd\",type=\"readyz\"} 1\n\
             # HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.\n\
             # TYPE kubernetes_healthchecks_total counter\n\
             kubernetes_healthchecks_total{name=\"etcd\",status=\"error\",type=\"readyz\"} 1\n\
             kubernetes_healthchecks_total{name=\"etcd\",status=\"success\",type=\"readyz\"} 2\n\
             # HELP "
        );
    }
}
