//! What a connection speaks: HTTP/2 when it begins with that preface, else HTTP/1.1 by hyper; and while an HTTP/1.1 watch lasts, its chunks alone.
//!
//! Such a watch has its connection to itself. When hyper has written the head of the answer, hyper is let go with its buffers, and an event goes from the body
//! to the socket without it. When the watch has ended, hyper comes back for the next request (decision 0029).

use std::{
    convert::Infallible,
    error::Error,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, Request, Response, Version,
    header::{CONNECTION, CONTENT_LENGTH},
};
use http_body::{Body, Frame, SizeHint};
use http2::PREFACE;
use hyper::{body::Incoming, server::conn::http1, service::Service};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{activity::Activity, budget::Account, chunks::Chunks, request_body::RequestBody, rewind::Rewind, streams::Streams};

/// How both protocols are spoken; the same for all connections.
pub(super) struct ProtocolConfig {
    pub(super) http1: http1::Builder,
    pub(super) http2: http2::Limits,
    /// How long an answer over HTTP/2 may stand still.
    pub(super) answers_stand_max: Duration,
}

/// Where the body of a watch waits when the head of its answer is made.
pub(super) struct Handover<B>(Arc<Mutex<Option<B>>>);

impl<B> Clone for Handover<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B> Default for Handover<B> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// Whether the answer to a request may be written without hyper: nothing of the request is still to come, and the connection goes on after it.
pub(super) fn may_leave<B: Body>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_11 && request.body().is_end_stream() && !says_close(request.headers())
}

fn says_close(headers: &HeaderMap) -> bool {
    headers.get_all(CONNECTION).iter().any(|value| value.as_bytes().to_ascii_lowercase().windows(5).any(|part| part == b"close"))
}

/// The body of an answer, as hyper gets it.
pub(super) enum Answer<B> {
    /// hyper writes it.
    Whole(B),
    /// hyper writes the head, and then this waits here.
    Head(Option<B>, Handover<B>),
}

impl<B: Body> Answer<B> {
    /// An answer whose body leaves hyper by this way, if there is one: it has something to show, chunks for that, and a connection that goes on after it.
    pub(super) fn of(answer: Response<B>, leaves: Option<Handover<B>>) -> Response<Self> {
        let (headers, body) = (answer.headers(), answer.body());
        let has_length = headers.contains_key(CONTENT_LENGTH) || body.size_hint().exact().is_some();
        let leaves = leaves.filter(|_| !has_length && !body.is_end_stream() && !says_close(headers));
        answer.map(|body| match leaves {
            Some(handover) => Self::Head(Some(body), handover),
            None => Self::Whole(body),
        })
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Answer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match &mut *self {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            // hyper has the head in its buffer when it asks for the body.
            Self::Head(body, handover) => {
                if let Some(body) = body.take() {
                    *handover.0.lock() = Some(body);
                }
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(body) if body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Head(..) => SizeHint::default(),
        }
    }
}

/// A stream as hyper wants it.
type Io<IO> = TokioIo<Rewind<IO>>;

/// The service, as hyper wants it.
pub(super) struct ForHyper<S>(S);

impl<S, Fut, B> Service<Request<Incoming>> for ForHyper<S>
where
    S: Fn(Request<RequestBody>) -> Fut,
    Fut: Future<Output = Result<Response<B>, Infallible>>,
{
    type Response = Response<B>;
    type Error = Infallible;
    type Future = Fut;

    fn call(&self, request: Request<Incoming>) -> Fut {
        (self.0)(RequestBody::http1(request))
    }
}

/// One connection.
pub(super) struct Protocol<'a, IO, S, Fut, B>
where
    S: Fn(Request<RequestBody>) -> Fut,
    Fut: Future<Output = Result<Response<Answer<B>>, Infallible>>,
    B: Body<Data = Bytes> + Unpin + 'static,
{
    protocols: &'a ProtocolConfig,
    io: Rewind<IO>,
    activity: &'a Arc<Activity>,
    account: &'a Arc<Account>,
    handover: Handover<B>,
    state: State<IO, S, Fut, B>,
    /// After the answer under way it ends.
    is_last: bool,
}

/// Boxed: what is over takes no room.
enum State<IO, S, Fut, B>
where
    S: Fn(Request<RequestBody>) -> Fut,
    Fut: Future<Output = Result<Response<Answer<B>>, Infallible>>,
    B: Body<Data = Bytes> + Unpin + 'static,
{
    /// The first bytes come.
    Begins(Vec<u8>, S),
    Http1(Box<http1::Connection<Io<IO>, ForHyper<S>>>),
    Http2(Box<Streams<IO, S, Answer<B>>>),
    Watch(Box<Chunks<B>>, S),
    Over,
}

impl<'a, IO, S, Fut, B> Protocol<'a, IO, S, Fut, B>
where
    IO: AsyncRead + AsyncWrite + Unpin + 'static,
    S: Fn(Request<RequestBody>) -> Fut + Unpin,
    Fut: Future<Output = Result<Response<Answer<B>>, Infallible>> + Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Answers the requests of a connection by `service`, which puts watches that [may leave](may_leave) into `handover`. What the client has not read counts
    /// in this account.
    pub(super) fn new(
        protocols: &'a ProtocolConfig,
        io: Rewind<IO>,
        activity: &'a Arc<Activity>,
        account: &'a Arc<Account>,
        handover: Handover<B>,
        service: S,
    ) -> Self {
        Self { protocols, io, activity, account, handover, state: State::Begins(Vec::new(), service), is_last: false }
    }

    /// Takes no more requests. What is being answered goes on.
    pub(super) fn graceful_shutdown(mut self: Pin<&mut Self>) {
        self.is_last = true;
        match &mut self.state {
            // Who has asked nothing is waiting for nothing.
            State::Begins(..) => self.state = State::Over,
            State::Http1(connection) => Pin::new(&mut **connection).graceful_shutdown(),
            State::Http2(streams) => streams.goodbye(),
            State::Watch(..) | State::Over => {}
        }
    }

    /// Whether something is written that waits for the client. hyper does not tell.
    pub(super) fn has_unwritten(&self) -> bool {
        matches!(&self.state, State::Http2(streams) if streams.has_unwritten())
    }

    fn http1(&self, service: S) -> State<IO, S, Fut, B> {
        State::Http1(Box::new(self.protocols.http1.serve_connection(TokioIo::new(self.io.clone()), ForHyper(service))))
    }

    /// The preface was read.
    fn http2(&self, service: S) -> State<IO, S, Fut, B> {
        self.activity.begins_h2();
        let ProtocolConfig { http2, answers_stand_max, .. } = self.protocols;
        State::Http2(Box::new(Streams::new(self.io.clone(), self.activity, self.account, *http2, *answers_stand_max, service)))
    }

    /// hyper is let go. What it has read and not looked at is read again.
    fn take_back(&mut self, connection: http1::Connection<Io<IO>, ForHyper<S>>) -> S {
        let parts = connection.into_parts();
        self.io.unread(&parts.read_buf);
        parts.service.0
    }

    /// Reads until it is clear what is spoken.
    fn poll_begins(&mut self, mut begun: Vec<u8>, service: S, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        loop {
            let mut buffer = [0; PREFACE.len()];
            let mut read = ReadBuf::new(&mut buffer[begun.len()..]);
            match Pin::new(&mut self.io).poll_read(cx, &mut read)? {
                Poll::Ready(()) => {}
                Poll::Pending => {
                    self.state = State::Begins(begun, service);
                    return Poll::Pending;
                }
            }
            let is_end = read.filled().is_empty();
            begun.extend_from_slice(read.filled());
            let is_http1 = is_end || !PREFACE.starts_with(&begun);
            if is_http1 || begun.len() == PREFACE.len() {
                self.state = if is_http1 {
                    self.io.unread(&begun);
                    self.http1(service)
                } else {
                    self.http2(service)
                };
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<IO, S, Fut, B> Future for Protocol<'_, IO, S, Fut, B>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Fn(Request<RequestBody>) -> Fut + Unpin,
    Fut: Future<Output = Result<Response<Answer<B>>, Infallible>> + Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Output = Result<(), Box<dyn Error + Send + Sync>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            match std::mem::replace(&mut this.state, State::Over) {
                State::Begins(begun, service) => ready!(this.poll_begins(begun, service, cx))?,
                State::Http1(mut connection) => {
                    if let Poll::Ready(ended) = Pin::new(&mut *connection).poll(cx) {
                        // Another protocol may follow.
                        this.take_back(*connection);
                        return Poll::Ready(ended.map_err(Into::into));
                    }
                    // What hyper has made is written when nothing waits for the client.
                    let body = if this.activity.is_blocked() { None } else { this.handover.0.lock().take() };
                    let Some(body) = body else {
                        this.state = State::Http1(connection);
                        return Poll::Pending;
                    };
                    let service = this.take_back(*connection);
                    this.state = State::Watch(Box::new(Chunks::new(body)), service);
                }
                State::Http2(mut streams) => {
                    let ended = streams.poll(cx);
                    this.state = State::Http2(streams);
                    return ended;
                }
                State::Watch(mut chunks, service) => match chunks.poll(&mut this.io, cx) {
                    Poll::Pending => {
                        this.state = State::Watch(chunks, service);
                        return Poll::Pending;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Ready(Ok(())) if this.is_last => {}
                    Poll::Ready(Ok(())) => this.state = this.http1(service),
                },
                State::Over => return Pin::new(&mut this.io).poll_shutdown(cx).map_err(Into::into),
            }
        }
    }
}
