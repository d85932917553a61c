//! A visit to upstream: some GETs on a connection of their own, so that a balancer may lead each visit to another server.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use client::{Authorization, Connector, root_cause};
use futures_util::future::poll_fn;
use http::{HeaderMap, Request, StatusCode};
use http_body::Body as _;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::upstream::{HEADER_BYTES_MAX, Upstream};

/// Bytes of one answer: the discovery of thousands of custom resources has a few megabytes.
const BODY_BYTES_MAX: usize = 32 << 20;

/// See the file's header. It ends when it is dropped.
pub struct Visit {
    client: legacy::Client<Connector, String>,
    server: String,
    ours: Option<Arc<Authorization>>,
}

/// A whole answer.
#[derive(Debug)]
#[expect(missing_docs, reason = "the parts of an answer")]
pub struct Whole {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl<B> Upstream<B>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Begins a visit; the connection is made with the first GET.
    ///
    /// # Errors
    /// Our credentials cannot be had.
    pub async fn visit(&self) -> Result<Visit, String> {
        let (connector, ours) = self.ours();
        if let Some(ours) = &ours {
            ours.apply(&mut HeaderMap::new()).await?;
        }
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http1_max_buf_size(HEADER_BYTES_MAX)
            .build(connector);
        Ok(Visit { client, server: self.server(), ours })
    }
}

impl Visit {
    /// Gets this path, with headers that say who asks.
    ///
    /// # Errors
    /// There is no answer, or too long a one.
    pub async fn get(&self, path: &str, headers: HeaderMap) -> Result<Whole, String> {
        let mut request =
            Request::builder().uri(format!("{}{path}", self.server)).body(String::new()).map_err(|error| error.to_string())?;
        *request.headers_mut() = headers;
        let sent = match &self.ours {
            Some(ours) => Some((ours, ours.apply(request.headers_mut()).await?)),
            None => None,
        };
        let (head, mut body) = self.client.request(request).await.map_err(|error| root_cause(&error))?.into_parts();
        if let Some((ours, sent)) = sent.filter(|_| head.status == StatusCode::UNAUTHORIZED) {
            ours.renew(&sent).await;
        }
        let mut whole = Vec::new();
        while let Some(frame) = poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame.map_err(|error| root_cause(&error))?;
            whole.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
            if whole.len() > BODY_BYTES_MAX {
                return Err(format!("its answer to {path} has more than {BODY_BYTES_MAX} bytes"));
            }
        }
        Ok(Whole { status: head.status, headers: head.headers, body: whole.into() })
    }
}
