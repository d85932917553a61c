//! The body of a list in protobuf: its messages, which are made before, in frames. Knows no object.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::body::FRAME_BYTES;
use crate::{
    codec::{
        ITEMS, WireList,
        proto::{ENVELOPE_TAIL, field_into},
    },
    telemetry::RequestTimer,
};

/// A list, piece by piece.
pub(super) struct WireBody {
    list: WireList,
    next: usize,
    left: usize,
    timer: RequestTimer,
}

impl WireBody {
    /// A body of this list.
    pub(super) fn new(list: WireList, mut timer: RequestTimer) -> Self {
        timer.set_code(200);
        Self { left: list.len, list, next: 0, timer }
    }

    /// How long it is altogether, before its first frame.
    pub(super) fn len(&self) -> usize {
        self.left
    }

    /// The next piece, or all of it.
    pub(super) fn fill(&mut self, limit: usize) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.list.head);
        out.reserve(self.left.min(limit.saturating_add(limit >> 3)).saturating_sub(out.len()));
        while out.len() < limit
            && let Some(item) = self.list.items.get_mut(self.next)
        {
            // Let go of at once: what is not kept with its object is not needed twice.
            field_into(ITEMS, &std::mem::take(item), &mut out);
            self.next += 1;
        }
        if self.next == self.list.items.len() {
            out.extend_from_slice(ENVELOPE_TAIL);
        }
        self.left -= out.len();
        self.timer.add_bytes(out.len());
        out
    }
}

impl Body for WireBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(self.fill(FRAME_BYTES).into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::proto::field_len;
    use crate::telemetry::{Metrics, Scope, Verb};

    fn body(items: usize) -> WireBody {
        let served = Metrics::new().served("", "v1", "configmaps");
        let messages: Vec<Bytes> = (0..items).map(|_| Bytes::from_static(&[7; 300])).collect();
        let len = b"head".len() + messages.iter().map(|item| field_len(ITEMS, item.len())).sum::<usize>() + ENVELOPE_TAIL.len();
        let list = WireList { head: b"head".to_vec(), items: messages, len };
        WireBody::new(list, served.request(Verb::List, Scope::Cluster))
    }

    #[test]
    fn pieces_are_the_whole() {
        for items in [0, 1, 10, 1_000] {
            let whole = body(items).fill(usize::MAX);
            assert_eq!(whole.len(), body(items).len());
            assert!(whole.starts_with(b"head") && whole.ends_with(ENVELOPE_TAIL));
            let (mut body, mut pieces) = (body(items), Vec::new());
            while !body.is_end_stream() {
                pieces.extend_from_slice(&body.fill(1_000));
            }
            assert_eq!(pieces, whole);
        }
    }
}
