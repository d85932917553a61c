//! One gRPC watch stream with many watches on it, and etcd's answers in our words. Resumes nothing: a broken stream is the caller's to reopen.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proto::watch_request::RequestUnion;
use proto::{Event, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::endpoint::Endpoint;
use super::rotation::Rotation;
use super::{EtcdError, Header};
use model::{KeyChange, Revision};

/// How long etcd may take to answer a new stream, or to take a request on an open one. It answers at once, or after a lagging
/// watch's turn under its store lock (0.8 s seen); keepalive finds a dead connection after 10 s.
const STREAM_TIMEOUT: Duration = Duration::from_secs(15);
/// Requests on their way to an etcd that does not read; further ones wait.
const REQUESTS_WAITING_MAX: usize = 100;
/// The kind of an event that wrote a key (`mvccpb.Event.PUT`).
const PUT: i32 = 0;
/// The kind of an event that deleted one (`mvccpb.Event.DELETE`).
const DELETE: i32 = 1;

/// The half of a stream that asks. The stream ends when both halves are dropped, or the endpoint fails.
pub struct WatchSender {
    link: Arc<Link>,
    stream: Asking,
}

/// The half of a stream that hears.
pub struct WatchReceiver {
    link: Arc<Link>,
    stream: Hearing,
}

/// Whose fault a broken stream is.
struct Link {
    rotation: Arc<Rotation>,
    index: usize,
    endpoint: Arc<Endpoint>,
}

/// etcd sends nothing on a stream, not even its headers, before the first watch is created: so the first `create` opens it.
enum Asking {
    NotYet(oneshot::Sender<Streaming<WatchResponse>>),
    Open(mpsc::Sender<WatchRequest>),
    Failed,
}

enum Hearing {
    NotYet(oneshot::Receiver<Streaming<WatchResponse>>),
    Open(Box<Streaming<WatchResponse>>),
    Ended,
}

/// One answer on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchMessage {
    /// Where etcd was when it sent this.
    pub header: Header,
    /// The watch it is about, as named in `create`. `-1` is every watch of the stream for `Progress`, and an unnamed one for `Canceled`.
    pub watch_id: i64,
    /// What it says.
    pub kind: WatchKind,
}

/// What an answer on a stream says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchKind {
    /// The watch exists; nothing about what it has seen.
    Created,
    /// Changes, in the order of their revisions.
    Events {
        /// Never empty unless `more`.
        events: Vec<KeyChange>,
        /// The rest follows in another message of this watch: the last revision here may not be whole.
        more: bool,
    },
    /// Every change up to `header.revision` was sent: to this watch, or to all of the stream when `watch_id` is -1.
    Progress,
    /// The watch is no more; the others of the stream go on. With `watch_id` -1 etcd refused a `create` without saying which
    /// (an id in use, a missing permission): the caller's protocol is broken, or a human must look.
    Canceled {
        /// Set when the watch wanted a revision below this one, which is compacted: load again.
        compacted: Option<Revision>,
        /// etcd's text.
        reason: String,
    },
}

/// A stream on the rotation's best endpoint, after its wait if it failed lately.
pub(super) async fn open(rotation: &Arc<Rotation>) -> Result<(WatchSender, WatchReceiver), EtcdError> {
    let (index, endpoint) = rotation.best()?;
    if let Some(at) = endpoint.retry_at() {
        tokio::time::sleep_until(at).await;
    }
    let link = Arc::new(Link { rotation: rotation.clone(), index, endpoint });
    link.within(link.prepare()).await?;
    let (open, opened) = oneshot::channel();
    let sender = WatchSender { link: link.clone(), stream: Asking::NotYet(open) };
    Ok((sender, WatchReceiver { link, stream: Hearing::NotYet(opened) }))
}

impl Link {
    /// The channel, and with a user a fresh token, since a stream's token is checked again for each of its watches.
    async fn prepare(&self) -> Result<(), EtcdError> {
        self.endpoint.connect().await?.refresh_token().await
    }

    async fn open(&self, first: WatchRequest) -> Result<(mpsc::Sender<WatchRequest>, Streaming<WatchResponse>), EtcdError> {
        let (requests, waiting) = mpsc::channel(REQUESTS_WAITING_MAX);
        requests.send(first).await.map_err(|_| EtcdError::closed())?;
        let opened = self.endpoint.connect().await?.watch().watch(ReceiverStream::new(waiting)).await;
        Ok((requests, opened.map_err(|e| EtcdError::from_status(&e))?.into_inner()))
    }

    /// Bounds what waits for the peer, and remembers a failure as the endpoint's.
    async fn within<T>(&self, work: impl Future<Output = Result<T, EtcdError>>) -> Result<T, EtcdError> {
        let outcome = timeout(STREAM_TIMEOUT, work).await.unwrap_or(Err(EtcdError::Deadline));
        if let Err(error) = &outcome {
            self.failed(error);
        }
        outcome
    }

    fn failed(&self, error: &EtcdError) {
        tracing::debug!(endpoint = self.endpoint.url, %error, "etcd watch stream failed");
        self.endpoint.failed(error);
        self.rotation.leave(self.index);
    }
}

impl WatchSender {
    /// Asks for a watch over `[key, end)` (an empty `end` is the one key) from `start` on, inclusive. Created is told by the
    /// receiver. `watch_id` must be positive and not in use on this stream. An error ends the stream.
    pub async fn create(&mut self, watch_id: i64, key: &[u8], end: &[u8], start: Revision) -> Result<(), EtcdError> {
        assert!(watch_id > 0, "etcd chooses an id itself when it is given none");
        let request = request(RequestUnion::CreateRequest(WatchCreateRequest {
            key: key.to_vec(),
            range_end: end.to_vec(),
            start_revision: start.to_etcd(),
            watch_id,
            progress_notify: true,
            fragment: true,
            ..WatchCreateRequest::default()
        }));
        match &self.stream {
            Asking::NotYet(_) => self.open_with(request).await,
            Asking::Open(requests) => self.link.within(async { requests.send(request).await.map_err(|_| EtcdError::closed()) }).await,
            Asking::Failed => Err(not_open()),
        }
    }

    /// Asks how far every watch of this stream is. etcd answers, with `watch_id` -1, only if all of them are synced, else not at
    /// all: ask again every 100 ms while somebody waits (spec list-watch §2.9).
    pub async fn request_progress(&mut self) -> Result<(), EtcdError> {
        let Asking::Open(requests) = &self.stream else { return Err(not_open()) };
        let sent = requests.send(request(RequestUnion::ProgressRequest(WatchProgressRequest {})));
        let sent = timeout(STREAM_TIMEOUT, sent).await.map_err(|_| EtcdError::Deadline)?;
        sent.map_err(|_| EtcdError::closed())
    }

    async fn open_with(&mut self, first: WatchRequest) -> Result<(), EtcdError> {
        let outcome = self.link.within(self.link.open(first)).await;
        let Asking::NotYet(hearing) = std::mem::replace(&mut self.stream, Asking::Failed) else {
            unreachable!("only called before the stream is open");
        };
        let (requests, answers) = outcome?;
        // The other half may be gone: then nobody listens, which is the caller's choice.
        let _ = hearing.send(answers);
        self.stream = Asking::Open(requests);
        Ok(())
    }
}

fn request(what: RequestUnion) -> WatchRequest {
    WatchRequest { request_union: Some(what) }
}

fn not_open() -> EtcdError {
    EtcdError::Unavailable("etcd watch stream is not open".into())
}

impl WatchReceiver {
    /// The next answer; `None` when the stream has ended and always after that, also after an error. Waits without limit, since an
    /// idle stream is a healthy one: keepalive ends a dead connection. Cancel safe.
    pub async fn message(&mut self) -> Result<Option<WatchMessage>, EtcdError> {
        loop {
            match &mut self.stream {
                Hearing::NotYet(opened) => {
                    self.stream = match opened.await {
                        Ok(stream) => Hearing::Open(Box::new(stream)),
                        Err(_) => Hearing::Ended,
                    };
                }
                Hearing::Open(stream) => {
                    let heard = match stream.message().await {
                        Ok(Some(response)) => return message(response).map(Some).inspect_err(|_| self.stream = Hearing::Ended),
                        Ok(None) => Ok(None),
                        Err(status) => Err(EtcdError::from_status(&status)),
                    };
                    self.stream = Hearing::Ended;
                    let closed = EtcdError::Unavailable("etcd closed the watch stream".into());
                    self.link.failed(heard.as_ref().err().unwrap_or(&closed));
                    return heard;
                }
                Hearing::Ended => return Ok(None),
            }
        }
    }
}

fn message(response: WatchResponse) -> Result<WatchMessage, EtcdError> {
    let header = Header::from_etcd(response.header)?;
    let watch_id = response.watch_id;
    // A refused create is both created and canceled.
    let kind = if response.canceled {
        let compacted = (response.compact_revision > 0).then(|| Revision::from_etcd(response.compact_revision));
        WatchKind::Canceled { compacted, reason: response.cancel_reason }
    } else if response.created {
        WatchKind::Created
    } else if response.events.is_empty() && !response.fragment {
        WatchKind::Progress
    } else {
        let events = response.events.into_iter().map(event).collect::<Result<_, _>>()?;
        WatchKind::Events { events, more: response.fragment }
    };
    Ok(WatchMessage { header, watch_id, kind })
}

fn event(event: Event) -> Result<KeyChange, EtcdError> {
    let kv = event.kv.ok_or_else(|| EtcdError::Other("etcd sent an event without a key".into()))?;
    let value = match event.r#type {
        PUT => Some(Bytes::from(kv.value)),
        DELETE => None,
        unknown => return Err(EtcdError::Other(format!("etcd sent an event of unknown kind {unknown}"))),
    };
    Ok(KeyChange { key: Bytes::from(kv.key), value, revision: Revision::from_etcd(kv.mod_revision) })
}

#[cfg(test)]
mod tests {
    use proto::{KeyValue, ResponseHeader};

    use super::*;

    fn response(revision: i64) -> WatchResponse {
        WatchResponse { header: Some(ResponseHeader { revision, ..Default::default() }), watch_id: 7, ..Default::default() }
    }

    fn check(response: WatchResponse, want: &WatchKind) {
        let got = message(response).expect("a valid answer");
        assert_eq!((got.watch_id, &got.kind), (7, want));
    }

    #[test]
    fn answers_in_our_words() {
        check(WatchResponse { created: true, ..response(5) }, &WatchKind::Created);
        check(response(5), &WatchKind::Progress);
        check(WatchResponse { fragment: true, ..response(5) }, &WatchKind::Events { events: vec![], more: true });
        let compacted = Some(Revision(3));
        check(WatchResponse { canceled: true, compact_revision: 3, ..response(5) }, &WatchKind::Canceled { compacted, reason: "".into() });
        let refused = WatchResponse { created: true, canceled: true, cancel_reason: "duplicate".into(), ..response(5) };
        check(refused, &WatchKind::Canceled { compacted: None, reason: "duplicate".into() });
    }

    #[test]
    fn what_breaks_the_protocol_is_an_error_and_no_panic() {
        let with = |event: Event| message(WatchResponse { events: vec![event], ..response(5) });
        assert!(message(WatchResponse::default()).is_err(), "no header");
        assert!(with(Event::default()).is_err(), "no key");
        assert!(with(Event { r#type: 9, kv: Some(KeyValue::default()), ..Default::default() }).is_err(), "unknown kind");
        assert!(with(Event { kv: Some(KeyValue::default()), ..Default::default() }).is_ok());
    }
}
