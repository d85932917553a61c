//! Metrics of admission webhooks, as kube-apiserver has them.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use prometheus::{HistogramVec, IntCounterVec};

use super::{Catalogue, ResourceMetrics};

const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
/// Webhooks that have series of their own; those after them share [`OTHER`].
const NAMES_MAX: usize = 1_000;
/// The name of webhooks that have no series of their own.
const OTHER: &str = "other";
/// The code of a webhook that cannot be called.
const UNAVAILABLE: u16 = 503;
/// Codes above this one are counted as it.
const CODE_MAX: u16 = 600;

#[derive(Debug)]
pub(super) struct AdmissionWebhooks {
    requests: IntCounterVec,
    durations: HistogramVec,
    rejections: IntCounterVec,
    fail_open: IntCounterVec,
    names: Mutex<HashSet<String>>,
}

/// A question to an admission webhook.
#[derive(Clone, Copy, Debug)]
pub struct WebhookCall<'a> {
    /// The name of the webhook.
    pub name: &'a str,
    /// It may change the object.
    pub is_mutating: bool,
    /// The operation, as `CREATE`.
    pub operation: &'a str,
    /// How long it took.
    pub time: Duration,
}

/// What came of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookResult {
    /// The write goes on.
    Admitted,
    /// The webhook refuses the write with this code.
    Rejected(u16),
    /// The webhook cannot be called, and the write is refused.
    Unavailable,
    /// The webhook cannot be called, and the write goes on.
    FailedOpen,
    /// The question or the answer cannot be used here.
    Failed,
}

impl AdmissionWebhooks {
    pub(super) fn new(catalogue: &Catalogue<'_>) -> Self {
        Self {
            requests: catalogue.counter(
                "apiserver_admission_webhook_request_total",
                "Admission webhook request total, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify whether the request was rejected or not and an HTTP status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
                &["name", "type", "operation", "code", "rejected"],
            ),
            durations: catalogue.histogram(
                "apiserver_admission_webhook_admission_duration_seconds",
                "Admission webhook latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
                &["name", "type", "operation", "rejected"],
                SECONDS.to_vec(),
            ),
            rejections: catalogue.counter(
                "apiserver_admission_webhook_rejection_count",
                "Admission webhook rejection count, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection code if the webhook rejects the request with an HTTP status code (honored by the apiserver when the code is greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
                &["name", "type", "operation", "error_type", "rejection_code"],
            ),
            fail_open: catalogue.counter(
                "apiserver_admission_webhook_fail_open_count",
                "Admission webhook fail open count, identified by name and broken out for each admission type (validating or admit).",
                &["name", "type"],
            ),
            names: Mutex::default(),
        }
    }

    /// Returns the name by which a webhook is counted.
    fn name<'n>(&self, name: &'n str) -> &'n str {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.contains(name) {
            return name;
        }
        if names.len() >= NAMES_MAX {
            return OTHER;
        }
        names.insert(name.to_owned());
        name
    }

    fn count(&self, call: WebhookCall<'_>, result: WebhookResult) {
        let WebhookCall { name, is_mutating, operation, time } = call;
        let (name, of) = (self.name(name), if is_mutating { "admit" } else { "validating" });
        let (code, error) = match result {
            WebhookResult::Admitted => (200, None),
            WebhookResult::Rejected(code) => (code.min(CODE_MAX), Some("no_error")),
            WebhookResult::Unavailable => (UNAVAILABLE, Some("calling_webhook_error")),
            WebhookResult::FailedOpen => (UNAVAILABLE, None),
            WebhookResult::Failed => (0, Some("apiserver_internal_error")),
        };
        let (code, rejected) = (code.to_string(), if error.is_some() { "true" } else { "false" });
        self.requests.with_label_values(&[name, of, operation, &code, rejected]).inc();
        self.durations.with_label_values(&[name, of, operation, rejected]).observe(time.as_secs_f64());
        if let Some(error) = error {
            self.rejections.with_label_values(&[name, of, operation, error, &code]).inc();
        }
        if result == WebhookResult::FailedOpen {
            self.fail_open.with_label_values(&[name, of]).inc();
        }
    }
}

impl ResourceMetrics {
    /// Counts a question to an admission webhook about an object of this resource.
    pub fn webhook_called(&self, call: WebhookCall<'_>, result: WebhookResult) {
        self.all().admission_webhooks.count(call, result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    #[test]
    fn names_are_bounded() {
        let metrics = Metrics::new();
        let one = metrics.resource("", "pods");
        for at in 0..NAMES_MAX + 5 {
            let name = format!("h{at}.x.io");
            let call = WebhookCall { name: &name, is_mutating: false, operation: "CREATE", time: Duration::ZERO };
            one.webhook_called(call, WebhookResult::Admitted);
        }
        let text = metrics.render();
        let text = String::from_utf8_lossy(&text);
        let of = |name: &str| {
            format!(
                "apiserver_admission_webhook_request_total{{code=\"200\",name=\"{name}\",operation=\"CREATE\",rejected=\"false\",type=\"validating\"}}"
            )
        };
        assert!(text.contains(&format!("{} 5\n", of(OTHER))) && text.contains(&format!("{} 1\n", of("h999.x.io"))));
        assert!(!text.contains(&of("h1000.x.io")));
    }
}
