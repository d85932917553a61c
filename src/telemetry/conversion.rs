//! Metrics of calls of conversion webhooks, as kube-apiserver has them.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec};

use super::{Catalogue, Metrics};

const LABELS: &[&str] = &["result", "failure_type"];
const SECONDS: &[f64] = &[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

#[derive(Debug)]
pub(super) struct ConversionWebhooks {
    requests: IntCounterVec,
    durations: HistogramVec,
}

/// Why a call of a conversion webhook came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversionFailure {
    /// There is no answer.
    Call,
    /// It is no ConversionReview, or one that refuses.
    MalformedResponse,
    /// It has not as many objects as were sent.
    PartialResponse,
    /// One of its objects is not the one that was sent.
    InvalidObject,
}

impl ConversionFailure {
    fn name(self) -> &'static str {
        match self {
            Self::Call => "conversion_webhook_call_failure",
            Self::MalformedResponse => "conversion_webhook_malformed_response_failure",
            Self::PartialResponse => "conversion_webhook_partial_response_failure",
            Self::InvalidObject => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

impl ConversionWebhooks {
    pub(super) fn new(catalogue: &Catalogue<'_>) -> Self {
        Self {
            requests: catalogue.counter(
                "apiserver_conversion_webhook_request_total",
                "Counter for conversion webhook requests with success/failure and failure error type",
                LABELS,
            ),
            durations: catalogue.histogram(
                "apiserver_conversion_webhook_duration_seconds",
                "Conversion webhook request latency",
                LABELS,
                SECONDS.to_vec(),
            ),
        }
    }
}

impl Metrics {
    /// A conversion webhook was called, and its answer was used, or not.
    pub fn conversion_webhook_called(&self, failure: Option<ConversionFailure>, time: Duration) {
        let labels = [if failure.is_some() { "failure" } else { "success" }, failure.map_or("", ConversionFailure::name)];
        self.conversion_webhooks.requests.with_label_values(&labels).inc();
        self.conversion_webhooks.durations.with_label_values(&labels).observe(time.as_secs_f64());
    }
}
