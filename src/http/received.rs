//! The body of a request, by whatever protocol it comes. Knows no limit.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::streams::StreamBody;

/// What comes of a request's body.
#[derive(Debug)]
pub enum Received {
    /// There is none.
    Nothing,
    /// Over HTTP/1.1.
    Incoming(Incoming),
    /// Over HTTP/2.
    Stream(StreamBody),
}

impl Body for Received {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(match &mut *self {
            Self::Nothing => None,
            Self::Incoming(body) => ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map_err(Into::into)),
            Self::Stream(body) => ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map_err(Into::into)),
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Incoming(body) => body.is_end_stream(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Nothing => SizeHint::with_exact(0),
            Self::Incoming(body) => body.size_hint(),
            Self::Stream(body) => body.size_hint(),
        }
    }
}
