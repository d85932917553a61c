//! The body of a request that can be sent once more, as long as it is short: for a server that says that it has not looked at the request. Trailers end it:
//! they could name what was taken out of the head.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

/// Bytes of a body that are kept until its request is answered.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// One sending of a body.
#[derive(Debug)]
pub(crate) struct Replay<B> {
    kept: Arc<Mutex<Kept<B>>>,
    /// Which sending this is: an older one gets nothing any more.
    turn: u32,
    /// Pieces that it has sent.
    sent: usize,
}

#[derive(Debug)]
struct Kept<B> {
    body: B,
    pieces: Vec<Bytes>,
    bytes: usize,
    turn: u32,
    /// All that was read of the body is in `pieces`.
    is_whole: bool,
}

/// The request was sent once more.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this sending was given up")]
struct GivenUp;

impl<B> Replay<B> {
    /// The first sending.
    pub(crate) fn new(body: B) -> Self {
        let kept = Kept { body, pieces: Vec::new(), bytes: 0, turn: 0, is_whole: true };
        Self { kept: Arc::new(Mutex::new(kept)), turn: 0, sent: 0 }
    }

    /// What a later sending begins with.
    pub(crate) fn source(&self) -> Source<B> {
        Source(Arc::clone(&self.kept))
    }
}

/// Where further sendings come from.
pub(crate) struct Source<B>(Arc<Mutex<Kept<B>>>);

impl<B> Source<B> {
    /// The next sending, if all of the body is there still.
    pub(crate) fn again(&self) -> Option<Replay<B>> {
        let mut kept = self.0.lock();
        if !kept.is_whole {
            return None;
        }
        kept.turn += 1;
        Some(Replay { kept: Arc::clone(&self.0), turn: kept.turn, sent: 0 })
    }
}

impl<B> Body for Replay<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let mut kept = this.kept.lock();
        if kept.turn != this.turn {
            return Poll::Ready(Some(Err(GivenUp.into())));
        }
        if let Some(piece) = kept.pieces.get(this.sent) {
            this.sent += 1;
            return Poll::Ready(Some(Ok(Frame::data(piece.clone()))));
        }
        let frame = ready!(Pin::new(&mut kept.body).poll_frame(cx)).filter(|frame| !frame.as_ref().is_ok_and(Frame::is_trailers));
        match &frame {
            Some(Ok(frame)) => match frame.data_ref() {
                Some(data) if kept.is_whole && kept.bytes + data.len() <= KEPT_BYTES_MAX => {
                    kept.bytes += data.len();
                    kept.pieces.push(data.clone());
                    this.sent += 1;
                }
                // Too long: what is kept is of no use any more.
                _ => {
                    kept.is_whole = false;
                    this.sent = 0;
                    kept.pieces = Vec::new();
                }
            },
            Some(Err(_)) => kept.is_whole = false,
            None => {}
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        let kept = self.kept.lock();
        self.sent >= kept.pieces.len() && kept.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let kept = self.kept.lock();
        // What is sent again is told by the request's headers.
        if self.turn == 0 && kept.bytes == 0 && kept.is_whole { kept.body.size_hint() } else { SizeHint::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use super::*;

    /// A body of these pieces.
    #[derive(Debug)]
    struct Pieces(VecDeque<Bytes>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty()
        }
    }

    fn body(pieces: &[usize]) -> Replay<Pieces> {
        Replay::new(Pieces(pieces.iter().map(|length| Bytes::from(vec![7; *length])).collect()))
    }

    fn next(body: &mut Replay<Pieces>) -> Option<Result<usize, String>> {
        match Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(frame) => {
                frame.map(|frame| frame.map(|frame| frame.into_data().expect("data").len()).map_err(|error| error.to_string()))
            }
            Poll::Pending => panic!("it is all there"),
        }
    }

    #[test]
    fn a_short_body_is_sent_again_wherever_it_was_given_up() {
        for read in 0..=3 {
            let mut first = body(&[1, 2, 3]);
            let source = first.source();
            for _ in 0..read {
                next(&mut first);
            }
            let mut second = source.again().expect("it is short");
            assert_eq!(next(&mut first), Some(Err("this sending was given up".to_owned())));
            assert!(!second.is_end_stream());
            let lengths: Vec<_> = std::iter::from_fn(|| next(&mut second)).collect();
            assert_eq!(lengths, [Ok(1), Ok(2), Ok(3)], "after {read}");
            assert!(second.is_end_stream());
            let mut third = source.again().expect("it is short");
            assert_eq!(next(&mut third), Some(Ok(1)));
        }
    }

    #[test]
    fn trailers_end_it() {
        let trailers =
            http::HeaderMap::from_iter([(http::HeaderName::from_static("x-remote-user"), http::HeaderValue::from_static("root"))]);
        let frames = [Ok(Frame::data(Bytes::from_static(b"a"))), Ok(Frame::trailers(trailers))];
        let body = http_body_util::StreamBody::new(futures_util::stream::iter(frames.map(|frame: Result<_, Infallible>| frame)));
        let mut sent = Replay::new(body);
        let mut next = || Pin::new(&mut sent).poll_frame(&mut Context::from_waker(std::task::Waker::noop()));
        assert!(matches!(next(), Poll::Ready(Some(Ok(frame))) if frame.is_data()));
        assert!(matches!(next(), Poll::Ready(None)));
    }

    #[test]
    fn a_long_body_is_sent_once() {
        let mut long = body(&[KEPT_BYTES_MAX, 1, 5]);
        let source = long.source();
        assert_eq!(next(&mut long), Some(Ok(KEPT_BYTES_MAX)));
        assert_eq!((next(&mut long), next(&mut long), next(&mut long)), (Some(Ok(1)), Some(Ok(5)), None));
        assert!(long.is_end_stream() && source.again().is_none());
        assert!(long.kept.lock().pieces.is_empty(), "it keeps nothing");
    }
}
