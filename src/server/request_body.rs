//! The body of a request, by whatever protocol it comes, and what becomes of a body that is not read to its end.

use std::{
    error::Error,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, header::EXPECT};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::streams::StreamBody;

/// How much of a body that nobody wants is read, so that its connection can go on (Go's number), bytes.
const DRAINED_BYTES_MAX: usize = 256 << 10;

/// How long the answer waits for such a body. It comes right behind the head; a client that sends none still gets its answer, and a new connection.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// What comes of a request's body.
#[derive(Debug)]
pub enum RequestBody {
    /// There is none.
    Nothing,
    /// Over HTTP/1.1.
    Incoming(Http1Body),
    /// Over HTTP/2.
    Stream(StreamBody),
}

/// A body over HTTP/1.1. What was not read of it when it is dropped can still be drained.
#[derive(Debug)]
pub struct Http1Body {
    body: Option<Incoming>,
    remains: Remains,
}

/// What is left of the body of a request over HTTP/1.1: shared by the body and by the connection that it comes from.
#[derive(Clone, Debug)]
pub(super) struct Remains(Arc<Mutex<Rest>>);

#[derive(Debug)]
struct Rest {
    state: State,
    /// The client sends its body when it is told to (`Expect: 100-continue`), which is when somebody reads it.
    is_held_back: bool,
}

#[derive(Debug)]
enum State {
    /// Somebody may still read it.
    Open,
    /// It was read to its end.
    Read,
    /// It was dropped before that.
    Left(Incoming),
    /// Nobody asks any more: a body that is dropped now is gone.
    Closed,
}

impl RequestBody {
    /// The body of this request, as hyper has it.
    pub(super) fn http1(request: Request<Incoming>) -> Request<Self> {
        if request.body().is_end_stream() {
            return request.map(|_| Self::Nothing);
        }
        let is_held_back = request.headers().contains_key(EXPECT);
        let remains = Remains(Arc::new(Mutex::new(Rest { state: State::Open, is_held_back })));
        request.map(|body| Self::Incoming(Http1Body { body: Some(body), remains }))
    }

    /// What will be left of it; nothing of a body whose protocol goes on without its end.
    pub(super) fn remains(&self) -> Option<Remains> {
        match self {
            Self::Incoming(body) => Some(body.remains.clone()),
            Self::Nothing | Self::Stream(_) => None,
        }
    }
}

impl Remains {
    /// Reads what the service has left of a body, within limits. Whether its end was reached: only then can the connection take another request.
    pub(super) async fn drain(&self) -> bool {
        let mut body = {
            let mut rest = self.0.lock();
            match mem::replace(&mut rest.state, State::Closed) {
                State::Read => return true,
                State::Left(body) if !rest.is_held_back => body,
                State::Left(_) | State::Open | State::Closed => return false,
            }
        };
        if body.size_hint().lower() > DRAINED_BYTES_MAX as u64 {
            return false;
        }
        let read = async {
            let mut bytes = 0;
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { return false };
                bytes += frame.data_ref().map_or(0, Bytes::len);
                if bytes > DRAINED_BYTES_MAX {
                    return false;
                }
            }
            true
        };
        timeout(DRAIN_MAX, read).await.unwrap_or(false)
    }
}

impl Http1Body {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        self.remains.0.lock().is_held_back = false;
        let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
        // Whoever knows that nothing follows asks no more, and may keep the body.
        if frame.is_none() || body.is_end_stream() {
            self.end();
        }
        Poll::Ready(frame)
    }

    /// Nothing is left.
    fn end(&mut self) {
        self.body = None;
        self.remains.0.lock().state = State::Read;
    }
}

impl Drop for Http1Body {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        let mut rest = self.remains.0.lock();
        if matches!(rest.state, State::Open) {
            rest.state = if body.is_end_stream() { State::Read } else { State::Left(body) };
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(match &mut *self {
            Self::Nothing => None,
            Self::Incoming(body) => ready!(body.poll_frame(cx)).map(|frame| frame.map_err(Into::into)),
            Self::Stream(body) => ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map_err(Into::into)),
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Incoming(body) => body.body.as_ref().is_none_or(Body::is_end_stream),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Nothing => SizeHint::with_exact(0),
            Self::Incoming(body) => body.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint),
            Self::Stream(body) => body.size_hint(),
        }
    }
}
