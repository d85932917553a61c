//! Posts a review to one webhook.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use client::{Answer, CallError, Client, Identities, Identity, Limits, Trust};
use http::{Uri, header::CONTENT_TYPE};
use tokio::time::timeout;

use go::quote::quoted;
use model::WebhookPlace;

/// Finds where a Service answers.
pub type Resolver = dyn Fn(&Backend<'_>) -> Result<SocketAddr, String> + Send + Sync;

/// A Service, and one of its ports.
#[derive(Clone, Copy, Debug)]
pub struct Backend<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The port of the Service.
    pub port: u16,
}

/// Where a webhook is, and what its certificate is checked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it is; none when what was stored long ago says neither.
    pub place: Option<WebhookPlace>,
    /// The authorities that its certificate is checked with, in PEM; the system's when it is empty.
    pub bundle: Vec<u8>,
}

/// Calls one webhook.
pub struct Caller {
    endpoint: Endpoint,
    client: OnceLock<Result<Client, String>>,
    resolver: Arc<Resolver>,
    identity: Identity,
    limits: Limits,
}

impl Caller {
    /// Returns the caller of a webhook. Connections are made when they are needed, and kept.
    #[must_use]
    pub fn new(endpoint: Endpoint, resolver: Arc<Resolver>, limits: Limits) -> Self {
        Self { endpoint, client: OnceLock::new(), resolver, identity: Identity::default(), limits }
    }

    /// Shows the webhook who we are, by what these say of its host.
    #[must_use]
    pub fn known_by(self, identities: &Identities) -> Self {
        let identity = self.target().map(|target| identities.at(&target)).unwrap_or_default();
        Self { identity, ..self }
    }

    /// Where the webhook is, as `host:port`.
    fn target(&self) -> Option<String> {
        match self.endpoint.place.as_ref()? {
            WebhookPlace::Service { namespace, name, port, .. } => Some(format!("{name}.{namespace}.svc:{port}")),
            WebhookPlace::Url(url) => {
                let url: Uri = url.parse().ok()?;
                let at = url.authority()?;
                Some(format!("{}:{}", at.host(), at.port_u16().unwrap_or(443)))
            }
        }
    }

    /// Makes what connections are made with.
    ///
    /// # Errors
    /// The authorities of the webhook cannot be read.
    pub fn prepare(&self) -> Result<(), String> {
        self.prepared().map(|_| ())
    }

    fn prepared(&self) -> Result<&Client, String> {
        self.client.get_or_init(|| self.client()).as_ref().map_err(Clone::clone)
    }

    /// Posts a review, which must be answered within so many seconds, and returns the body of the answer. `count` is called with the number of bytes of each
    /// part of the body, and returns whether there is room for it.
    ///
    /// # Errors
    /// Why there is no answer that can be used, in client-go's words.
    pub async fn post(&self, seconds: u64, review: Bytes, count: &mut (dyn FnMut(usize) -> bool + Send)) -> Result<Bytes, String> {
        let client = self.prepared()?;
        let shown = self.shown_url(seconds)?;
        let posted = |why: &str| format!("Post {}: {why}", quoted(&shown));
        let url: Uri = match &self.endpoint.place {
            Some(WebhookPlace::Service { namespace, name, path, port }) => {
                let at = (self.resolver)(&Backend { namespace, name, port: *port }).map_err(|why| posted(&why))?;
                format!("https://{at}{path}?timeout={seconds}s").parse()
            }
            _ => shown.parse(),
        }
        .map_err(|error| posted(&format!("{error}")))?;
        let called = timeout(Duration::from_secs(seconds), client.post_counted(&url, review, count)).await;
        let answer = called.unwrap_or(Err(CallError::TimedOut)).map_err(|error| match error {
            CallError::TimedOut => posted("context deadline exceeded"),
            CallError::TooLarge(limit) => posted(&format!("the answer has more than {limit} bytes")),
            CallError::NoRoom => "the answers of webhooks take too much memory, please try again later".to_owned(),
            CallError::Lost(text) | CallError::Failed(text) | CallError::Credentials(text) => {
                let begin = format!("Post {:?}: ", url.to_string());
                posted(&go_words(text.strip_prefix(&begin).unwrap_or(&text), &url))
            }
        })?;
        if answer.status.is_redirection() {
            return Err(posted(&format!("it redirects ({}), which is not followed", answer.status.as_u16())));
        }
        body(answer)
    }

    fn client(&self) -> Result<Client, String> {
        let bundle = &self.endpoint.bundle;
        let trust = if bundle.trim_ascii().is_empty() { Ok(Trust::System) } else { Trust::from_pem(bundle) };
        let trust = trust.map_err(|why| format!("unable to load root certificates: {why}"))?;
        match &self.endpoint.place {
            Some(WebhookPlace::Service { namespace, name, port, .. }) => {
                Client::of_service(&trust, (&format!("{name}.{namespace}.svc"), *port), &self.identity, self.limits)
            }
            _ => Client::known(&trust, &self.identity, self.limits),
        }
    }

    /// Returns the URL as kube-apiserver shows it.
    fn shown_url(&self, seconds: u64) -> Result<String, String> {
        Ok(match &self.endpoint.place {
            Some(WebhookPlace::Url(url)) => format!("{}?timeout={seconds}s", url.trim_end_matches('/')),
            Some(WebhookPlace::Service { namespace, name, path, port }) => {
                let path = if path.is_empty() { "/" } else { path };
                format!("https://{name}.{namespace}.svc:{port}{path}?timeout={seconds}s")
            }
            None => return Err("webhook configuration must have either service or URL".to_owned()),
        })
    }
}

/// Returns the body of an answer that is none of an error.
fn body(answer: Answer) -> Result<Bytes, String> {
    let media = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if let Some(why) = answer.failure() {
        // A text is shown when it says that it is one.
        let is_text = media.starts_with("text/");
        let untold = || Answer { body: Bytes::new(), ..answer.clone() }.failure();
        let is_status =
            answer.body.starts_with(b"{") && serde_json::from_slice::<serde_json::Value>(&answer.body).is_ok_and(|v| v["kind"] == "Status");
        return Err(if is_text || is_status { why } else { untold().unwrap_or(why) });
    }
    if answer.body.is_empty() {
        return Err(format!("0-length response with status code: {} and content type: {media}", answer.status.as_u16()));
    }
    Ok(answer.body)
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
