//! The body of upstream's answer on its way to the client.

use std::{error::Error, sync::Arc};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use http_body::{Frame, SizeHint};
use upstream::{CachedBody, DocumentCache};

/// The body of upstream's answer. Its length says nothing of what is held of it.
pub(super) struct Passing {
    pub(super) body: upstream::Body,
    /// One that has no end of its own ends when the server stops.
    pub(super) stopped: Option<BoxFuture<'static, ()>>,
    /// A document, until it is known to be too long.
    pub(super) kept: Option<(Box<CachedBody>, Arc<DocumentCache>)>,
}

impl http_body::Body for Passing {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.stopped.as_mut().is_some_and(|stopped| stopped.poll_unpin(cx).is_ready()) {
            self.stopped = None;
            return std::task::Poll::Ready(None);
        }
        let frame = std::task::ready!(std::pin::Pin::new(&mut self.body).poll_frame(cx));
        if let Some((mut keeping, documents)) = self.kept.take() {
            let is_fine = match &frame {
                Some(Ok(frame)) => frame.data_ref().is_none_or(|data| keeping.takes(data)),
                Some(Err(_)) => false,
                None => true,
            };
            // hyper may not ask again once the end is known.
            if is_fine && (frame.is_none() || self.body.is_end_stream()) {
                documents.keep(*keeping);
            } else if is_fine {
                self.kept = Some((keeping, documents));
            }
        }
        std::task::Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
