//! Asks upstream, over a few HTTP/2 connections that all resources share, or over HTTP/1.1 if it speaks nothing else; reads an answer whole, or a watch's event
//! by event.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use client::{Answer, CallError, Derived, Login};
use upstream::{AuthMode, Body, Settings, Upstream, UpstreamError};

/// Bytes of one event. etcd takes 1.5 MiB of an object unless it is told otherwise, which are a few times as many as JSON.
const EVENT_BYTES_MAX: usize = 32 << 20;
/// Bytes of one page of a list. Pages are made smaller until they are within.
const PAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes of an answer that says why there is no watch.
const REFUSAL_BYTES_MAX: usize = 1 << 20;
/// How long the head of a watch's answer, and a whole page, may take.
const HEAD_TIME: Duration = Duration::from_secs(30);
const PAGE_TIME: Duration = Duration::from_secs(60);
/// Pages that are asked for at once: those of loads, and how far upstream is.
const PAGES_AT_ONCE: usize = 32;
/// Bytes of the length before an event in protobuf.
const LENGTH_PREFIX: usize = 4;
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// In which form something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Protobuf,
}

/// See the file's header.
pub(crate) struct Asking {
    upstream: Derived<Upstream<Full<Bytes>>>,
    turns: Semaphore,
}

/// A watch's events.
pub(crate) struct Lines {
    headers: HeaderMap,
    body: Body,
    buffer: BytesMut,
    form: Form,
}

/// What comes of a watch.
pub(crate) enum Watched {
    Lines(Lines),
    /// There is another answer, with a status that means an error.
    Refused(Answer),
}

impl Asking {
    /// Of this server, where we are who the file says now.
    ///
    /// # Errors
    /// When certificate and key do not fit.
    pub(crate) fn of(login: Arc<Login>) -> Result<Self, String> {
        let upstream = Derived::new(login, |at, before: Option<&Upstream<_>>| {
            // What is sent is ours: our own credentials go with it, and nobody is named.
            let settings = Settings { at: at.clone(), auth_mode: AuthMode::Impersonation };
            before.map_or_else(|| Upstream::new(settings.clone()), |before| before.anew(settings.clone()))
        });
        Ok(Self { upstream: upstream?, turns: Semaphore::new(PAGES_AT_ONCE) })
    }

    /// Returns who we are there.
    pub(crate) fn login(&self) -> &Arc<Login> {
        self.upstream.login()
    }

    /// A whole answer, in the named forms.
    ///
    /// # Errors
    /// There is none, or it is too long.
    pub(crate) async fn whole(&self, resource: &str, target: &str, accept: &'static str) -> Result<Answer, CallError> {
        let asked = async {
            let _turn = self.turns.acquire().await;
            let response = self.send(resource, target, accept).await?;
            read(response, PAGE_BYTES_MAX).await
        };
        timeout(PAGE_TIME, asked).await.unwrap_or(Err(CallError::TimedOut))
    }

    /// A watch.
    ///
    /// # Errors
    /// There is no answer.
    pub(crate) async fn watch(&self, resource: &str, target: &str, accept: &'static str) -> Result<Watched, CallError> {
        let begun = async {
            let response = self.send(resource, target, accept).await?;
            if response.status() != StatusCode::OK {
                return read(response, REFUSAL_BYTES_MAX).await.map(Watched::Refused);
            }
            let (head, body) = response.into_parts();
            let form = form(&head.headers);
            Ok(Watched::Lines(Lines { headers: head.headers, body, buffer: BytesMut::new(), form }))
        };
        timeout(HEAD_TIME, begun).await.unwrap_or(Err(CallError::TimedOut))
    }

    async fn send(&self, resource: &str, target: &str, accept: &'static str) -> Result<http::Response<Body>, CallError> {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = target.parse::<Uri>().map_err(|error| CallError::Failed(error.to_string()))?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(concat!("watchcache/", env!("CARGO_PKG_VERSION"))));
        let us = upstream::Client { name: resource, is_nobody: false, is_long: false };
        let answer = self.upstream.now().send(request, us).await.map_err(|error| match error {
            UpstreamError::Broken(_) => CallError::Lost(error.to_string()),
            _ => CallError::Failed(error.to_string()),
        })?;
        Ok(answer.response)
    }
}

async fn read(response: http::Response<Body>, bytes_max: usize) -> Result<Answer, CallError> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, bytes_max).collect().await.map_err(|error| match error.is::<LengthLimitError>() {
        true => CallError::TooLarge(bytes_max),
        false => CallError::Lost(client::root_cause(&*error)),
    })?;
    Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
}

fn form(headers: &HeaderMap) -> Form {
    let is_protobuf = headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(PROTOBUF.as_bytes()));
    if is_protobuf { Form::Protobuf } else { Form::Json }
}

impl Lines {
    /// The headers of the answer.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The form of each event.
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// The next event; none after the last one. What is half an event at the end is none. Waits as long as upstream is silent.
    ///
    /// # Errors
    /// The connection is lost, or an event is too long.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        let mut looked = 0;
        loop {
            if let Some(event) = self.cut(looked)? {
                return Ok(Some(event));
            }
            looked = self.buffer.len();
            if looked > EVENT_BYTES_MAX {
                return Err(CallError::TooLarge(EVENT_BYTES_MAX));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.buffer.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
                Some(Err(error)) => return Err(CallError::Lost(client::root_cause(&error))),
                None => return Ok(None),
            }
        }
    }

    /// Cuts off an event that is whole; of a line nothing was found in the first bytes.
    fn cut(&mut self, looked: usize) -> Result<Option<Bytes>, CallError> {
        match self.form {
            Form::Json => Ok(self.buffer[looked..].iter().position(|byte| *byte == b'\n').map(|end| {
                let line = self.buffer.split_to(looked + end + 1).freeze();
                line.slice(..looked + end)
            })),
            Form::Protobuf => {
                let Some(length) = self.buffer.first_chunk::<LENGTH_PREFIX>() else { return Ok(None) };
                let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
                if length > EVENT_BYTES_MAX {
                    return Err(CallError::TooLarge(EVENT_BYTES_MAX));
                }
                if self.buffer.len() < LENGTH_PREFIX + length {
                    return Ok(None);
                }
                self.buffer.advance(LENGTH_PREFIX);
                Ok(Some(self.buffer.split_to(length).freeze()))
            }
        }
    }
}
