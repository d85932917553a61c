//! The body of a request on its way from the connection that hears it to whoever reads it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use thiserror::Error;

use super::ready::ReadyQueue;

/// The rest of a body does not come.
#[derive(Clone, Copy, Debug, Error)]
#[error("the client is gone, or does not want the stream any more")]
pub struct BodyGone;

/// What has come of a body and was not taken: no more than the window of its stream, for the client is told of what is taken.
#[derive(Debug)]
pub(super) struct Inbox {
    stream: u32,
    marks: Arc<ReadyQueue>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    data: BytesMut,
    trailers: Option<HeaderMap>,
    end: End,
    /// Of whoever waits for more.
    reader: Option<Waker>,
    /// Nobody reads it.
    is_left: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// More may come.
    Open,
    /// All of it has come.
    Whole,
    /// The rest does not come.
    Gone,
}

impl Inbox {
    /// The body of a stream's request, and its reader's side. Its length, if that is known.
    pub(super) fn new(stream: u32, marks: &Arc<ReadyQueue>, left: Option<u64>) -> (Arc<Self>, StreamBody) {
        let state = State { data: BytesMut::new(), trailers: None, end: End::Open, reader: None, is_left: false };
        let inbox = Arc::new(Self { stream, marks: marks.clone(), state: Mutex::new(state) });
        (inbox.clone(), StreamBody { inbox, left })
    }

    /// More has come. False: nobody wants it.
    pub(super) fn push(&self, data: &[u8], is_end: bool) -> bool {
        self.change(|state| {
            if !state.is_left {
                state.data.extend_from_slice(data);
            }
            if is_end {
                state.end = End::Whole;
            }
        })
    }

    /// Takes what comes after all data, if anybody will read it: the stream may go on for long.
    pub(super) fn finish(&self, trailers: HeaderMap) {
        self.change(|state| (state.trailers, state.end) = ((!state.is_left).then_some(trailers), End::Whole));
    }

    /// Nothing more comes.
    pub(super) fn gone(&self) {
        self.change(|state| {
            if state.end == End::Open {
                state.end = End::Gone;
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) -> bool {
        let (reader, is_left) = {
            let mut state = self.state.lock();
            change(&mut state);
            (state.reader.take(), state.is_left)
        };
        reader.into_iter().for_each(Waker::wake);
        !is_left
    }
}

/// The body of a request that came over HTTP/2.
#[derive(Debug)]
pub struct StreamBody {
    inbox: Arc<Inbox>,
    left: Option<u64>,
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = BodyGone;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyGone>>> {
        let data = {
            let mut state = self.inbox.state.lock();
            if state.data.is_empty() {
                if let Some(trailers) = state.trailers.take() {
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                return match state.end {
                    End::Whole => Poll::Ready(None),
                    End::Gone => Poll::Ready(Some(Err(BodyGone))),
                    End::Open => {
                        state.reader = Some(cx.waker().clone());
                        Poll::Pending
                    }
                };
            }
            std::mem::take(&mut state.data).freeze()
        };
        self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
        self.inbox.marks.taken(self.inbox.stream, data.len());
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        let state = self.inbox.state.lock();
        state.end == End::Whole && state.data.is_empty() && state.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        let unread = {
            let mut state = self.inbox.state.lock();
            (state.is_left, state.reader, state.trailers) = (true, None, None);
            std::mem::take(&mut state.data).len()
        };
        if unread > 0 {
            // Others of the connection are not to wait for what nobody reads.
            self.inbox.marks.taken(self.inbox.stream, unread);
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn taken(marks: &ReadyQueue) -> usize {
        let mut bytes = 0;
        marks.collect(Waker::noop(), |_| {}, |(_, more)| bytes += more);
        bytes
    }

    #[tokio::test]
    async fn a_body_comes_in_order_and_what_is_taken_is_told() {
        let marks = Arc::<ReadyQueue>::default();
        let (inbox, mut body) = Inbox::new(1, &marks, Some(6));
        assert!(inbox.push(b"one", false) && inbox.push(b"two", false) && !body.is_end_stream());
        let data = body.frame().await.expect("data").expect("no fault").into_data().expect("data");
        assert_eq!((&data[..], taken(&marks), body.size_hint().exact()), (&b"onetwo"[..], 6, Some(0)));
        inbox.finish(HeaderMap::new());
        assert!(body.frame().await.expect("trailers").expect("no fault").is_trailers() && body.is_end_stream());
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn what_nobody_reads_is_given_back() {
        let marks = Arc::<ReadyQueue>::default();
        let (inbox, body) = Inbox::new(1, &marks, None);
        assert!(inbox.push(b"one", false));
        drop(body);
        assert_eq!((taken(&marks), inbox.push(b"two", true), taken(&marks)), (3, false, 0), "the second one is given back by who pushes");
        inbox.finish(HeaderMap::from_iter([(http::header::TE, "x".parse().expect("a value"))]));
        assert!(inbox.state.lock().trailers.is_none());
        let (inbox, body) = Inbox::new(1, &marks, None);
        inbox.finish(HeaderMap::new());
        drop(body);
        assert!(inbox.state.lock().trailers.is_none(), "those that came before");
    }

    #[tokio::test]
    async fn a_client_that_is_gone_is_an_error_and_only_before_the_end() {
        let marks = Arc::<ReadyQueue>::default();
        let (inbox, mut body) = Inbox::new(1, &marks, None);
        let gone = tokio::spawn(async move { body.frame().await.expect("not the end").is_err() });
        tokio::task::yield_now().await;
        inbox.gone();
        assert!(gone.await.expect("no panic"));
        let (inbox, mut body) = Inbox::new(1, &marks, None);
        assert!(inbox.push(b"all", true));
        inbox.gone();
        assert!(body.frame().await.expect("data").is_ok() && body.frame().await.is_none());
    }
}
