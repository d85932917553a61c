//! Calls the conversion webhook of one definition, within limits.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use client::{CallError, Client, Limits, Trust};
use http::{Uri, header::CONTENT_TYPE};
use tokio::sync::Semaphore;

use super::answers::Held;
use catalogue::{ConversionWebhook, WebhookPlace};
use telemetry::Metrics;

/// How long a call may take, its turn included (kube-apiserver's time).
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Calls of one definition's webhook at the same time.
pub(crate) const CALLS_AT_ONCE: usize = 4;
/// Connections that files are reserved for: those of the webhooks of as many definitions as a busy cluster has. Each definition has its own, so that one that hangs
/// takes nothing from another.
pub const CONNECTIONS_RESERVED: usize = 32 * CALLS_AT_ONCE;
/// Bytes of an answer: what the objects of a call may have grown to.
pub(crate) const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Requests that wait for one definition's webhook at the same time; the next one is told to come again.
pub(crate) const WAITING_MAX: usize = 64;

/// Finds where a Service answers.
pub type Resolver = dyn Fn(&Backend<'_>) -> Result<SocketAddr, String> + Send + Sync;

/// A Service, and one of its ports.
#[derive(Clone, Copy, Debug)]
pub struct Backend<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub port: u16,
}

/// Calls one webhook. The converters of a definition's versions share it.
pub struct Caller {
    pub(crate) webhook: ConversionWebhook,
    client: OnceLock<Result<Client, String>>,
    resolver: Arc<Resolver>,
    pub(crate) waiting: Arc<Semaphore>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Caller {
    #[must_use]
    pub fn new(webhook: ConversionWebhook, resolver: Arc<Resolver>, metrics: Arc<Metrics>) -> Self {
        Self { webhook, client: OnceLock::new(), resolver, waiting: Arc::new(Semaphore::new(WAITING_MAX)), metrics }
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
        let client = self.client.get_or_init(|| self.client()).as_ref().map_err(Clone::clone)?;
        let shown = self.shown_url()?;
        let posted = |why: &str| format!("Post {}: {why}", go::quote::quoted(&shown));
        let url: Uri = match &self.webhook.place {
            Some(WebhookPlace::Service { namespace, name, path, port }) => {
                let backend = Backend { namespace, name, port: *port };
                let at = (self.resolver)(&backend).map_err(|why| posted(&why))?;
                format!("https://{at}{path}?timeout=30s").parse()
            }
            _ => shown.parse(),
        }
        .map_err(|error| posted(&format!("{error}")))?;
        let answer =
            client.post_counted(&url, review.into(), &mut |bytes| held.take(definition, bytes)).await.map_err(|error| match error {
                CallError::TimedOut => posted("context deadline exceeded"),
                CallError::TooLarge(limit) => posted(&format!("the answer has more than {limit} bytes")),
                CallError::NoRoom => "the answers of conversion webhooks take too much memory, please try again later".to_owned(),
                CallError::Lost(text) | CallError::Failed(text) | CallError::Credentials(text) => {
                    let begin = format!("Post {:?}: ", url.to_string());
                    posted(&go_words(text.strip_prefix(&begin).unwrap_or(&text), &url))
                }
            })?;
        if answer.status.is_redirection() {
            return Err(posted(&format!("it redirects ({}), which is not followed", answer.status.as_u16())));
        }
        let media = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        if let Some(why) = answer.failure() {
            // A text is shown when it says that it is one.
            let is_text = media.starts_with("text/");
            let untold = || client::Answer { body: Bytes::new(), ..answer.clone() }.failure();
            let is_status = answer.body.starts_with(b"{")
                && serde_json::from_slice::<serde_json::Value>(&answer.body).is_ok_and(|v| v["kind"] == "Status");
            return Err(if is_text || is_status { why } else { untold().unwrap_or(why) });
        }
        if answer.body.is_empty() {
            return Err(format!("0-length response with status code: {} and content type: {media}", answer.status.as_u16()));
        }
        Ok(answer.body)
    }

    fn client(&self) -> Result<Client, String> {
        let bundle = &self.webhook.bundle;
        let trust = if bundle.trim_ascii().is_empty() { Ok(Trust::System) } else { Trust::from_pem(bundle) };
        let trust = trust.map_err(|why| format!("unable to load root certificates: {why}"))?;
        let limits = Limits { timeout: CALL_TIMEOUT, answer_bytes_max: ANSWER_BYTES_MAX, concurrent_max: CALLS_AT_ONCE };
        match &self.webhook.place {
            Some(WebhookPlace::Service { namespace, name, port, .. }) => {
                Client::of_service(&trust, &format!("{name}.{namespace}.svc"), *port, limits)
            }
            _ => Client::trusting(&trust, limits),
        }
    }

    /// The URL as kube-apiserver tells it.
    fn shown_url(&self) -> Result<String, String> {
        Ok(match &self.webhook.place {
            Some(WebhookPlace::Url(url)) => format!("{}?timeout=30s", url.trim_end_matches('/')),
            Some(WebhookPlace::Service { namespace, name, path, port }) => {
                let path = if path.is_empty() { "/" } else { path };
                format!("https://{name}.{namespace}.svc:{port}{path}?timeout=30s")
            }
            None => return Err("webhook configuration must have either service or URL".to_owned()),
        })
    }
}

/// How the end of a connection is told, which is `EOF` for a Go program.
const ENDS: [&str; 3] =
    ["connection closed before message completed", "unexpected EOF during handshake", "without sending TLS close_notify"];

/// What went wrong with a connection, as a Go program tells it.
fn go_words(text: &str, url: &Uri) -> String {
    let at = url.authority().map(|at| if at.port().is_some() { at.to_string() } else { format!("{at}:443") }).unwrap_or_default();
    if text.starts_with("Connection refused") {
        format!("dial tcp {at}: connect: connection refused")
    } else if text.starts_with("Connection reset") {
        format!("read tcp {at}: read: connection reset by peer")
    } else if ENDS.iter().any(|end| text.contains(end)) {
        "EOF".to_owned()
    } else {
        text.to_owned()
    }
}
