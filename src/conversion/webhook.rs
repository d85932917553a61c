//! Calls the conversion webhook of one definition, within limits.

use std::{sync::Arc, time::Duration};

use ::webhook::{Endpoint, Held, Limits, Resolver};
use bytes::Bytes;
use tokio::sync::Semaphore;

use catalogue::ConversionWebhook;
use telemetry::Metrics;

/// How long a call may take, its turn included (kube-apiserver's time).
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Calls of one definition's webhook at the same time.
pub(crate) const CALLS_AT_ONCE: usize = 4;
/// Connections that files are reserved for: those of the webhooks of as many definitions as a busy cluster has. Each definition has its own, so that one that
/// hangs takes nothing from another.
pub const CONNECTIONS_RESERVED: usize = 32 * CALLS_AT_ONCE;
/// Bytes of an answer: what the objects of a call may have grown to.
pub(crate) const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Requests that wait for one definition's webhook at the same time; the next one is told to come again.
pub(crate) const WAITING_MAX: usize = 64;

/// Calls one webhook. The converters of a definition's versions share it.
pub struct Caller {
    pub(crate) webhook: ConversionWebhook,
    caller: ::webhook::Caller,
    pub(crate) waiting: Arc<Semaphore>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Caller {
    #[must_use]
    pub fn new(webhook: ConversionWebhook, resolver: Arc<Resolver>, metrics: Arc<Metrics>) -> Self {
        let endpoint = Endpoint { place: webhook.place.clone(), bundle: webhook.bundle.clone() };
        let limits = Limits { timeout: CALL_TIMEOUT, answer_bytes_max: ANSWER_BYTES_MAX, concurrent_max: CALLS_AT_ONCE };
        let caller = ::webhook::Caller::new(endpoint, resolver, limits);
        Self { webhook, caller, waiting: Arc::new(Semaphore::new(WAITING_MAX)), metrics }
    }

    /// Whom it asks.
    #[must_use]
    pub fn webhook(&self) -> &ConversionWebhook {
        &self.webhook
    }

    /// Posts a ConversionReview, and returns the body of the answer. Its bytes are counted in `held` as they come.
    ///
    /// # Errors
    /// What is told after `conversion webhook for GROUP/VERSION, Kind=KIND failed: `.
    pub(crate) async fn call(&self, definition: &str, review: Vec<u8>, held: &mut Held) -> Result<Bytes, String> {
        self.caller.post(CALL_TIMEOUT.as_secs(), review.into(), &mut |bytes| held.take(definition, bytes)).await
    }
}
