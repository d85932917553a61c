//! The body of a list in gzip: pieces of `codec::GzipList` in frames.

use std::{
    convert::Infallible,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame};

use server::budget::Reservation;

use super::gzip::FRAME_BYTES;
use codec::{GzipList, Wrote};
use telemetry::{Metrics, RequestTimer};

/// A list, piece by piece.
pub(super) struct GzipBody {
    list: GzipList,
    /// What the next frame has so far.
    out: Vec<u8>,
    is_over: bool,
    /// What is held for what is not sent.
    hold: Reservation,
    timer: RequestTimer,
    metrics: Arc<Metrics>,
}

impl GzipBody {
    /// A body of this list, of which nothing is written yet.
    pub(super) fn new(list: GzipList, hold: Reservation, mut timer: RequestTimer, metrics: Arc<Metrics>) -> Self {
        timer.set_code(200);
        Self { list, out: Vec::new(), is_over: false, hold, timer, metrics }
    }
}

impl Body for GzipBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.out.is_empty() && !this.is_over {
            this.out.reserve(FRAME_BYTES + (FRAME_BYTES >> 1));
        }
        while !this.is_over && this.out.len() < FRAME_BYTES {
            match this.list.step(&mut this.out) {
                Wrote::Open => {}
                Wrote::Shared => this.metrics.blocks_shared.inc(),
                // Others run before the next one is compressed.
                Wrote::Compressed(is_whole) => {
                    this.metrics.blocks_compressed.inc_by(is_whole.into());
                    this.hold.resize(this.list.held() + this.out.capacity());
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Wrote::End => this.is_over = true,
            }
        }
        if this.out.is_empty() {
            return Poll::Ready(None);
        }
        this.timer.add_bytes(this.out.len());
        this.hold.resize(this.list.held());
        Poll::Ready(Some(Ok(Frame::data(mem::take(&mut this.out).into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over && self.out.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use futures_util::task::noop_waker_ref;

    use super::*;
    use codec::{ChunkCache, Encoder, ListMeta, Listing, ingest::test_config_map};
    use model::{Epoch, Object};
    use telemetry::{Scope, Verb};

    fn objects() -> Vec<Arc<Object>> {
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state
        };
        let mut text = || (0..40).map(|_| format!("{:x}", noise())).collect::<String>();
        (0..2_000).map(|at| test_config_map(&format!("o-{at:04}"), at, &text())).collect()
    }

    /// Frames of a list, and how often it let others run.
    fn frames(form: &Arc<Encoder>, objects: &[Arc<Object>], blocks: &Arc<ChunkCache>) -> (Vec<Bytes>, usize) {
        let list = Listing::new(form.clone(), &ListMeta::default(), objects.to_vec()).expect("JSON");
        let list = GzipList::new(list, Epoch(1), None, blocks.clone());
        let metrics = Metrics::new();
        let timer = metrics.served("", "v1", "configmaps").request(Verb::List, Scope::Cluster);
        let mut body = GzipBody::new(list, Reservation::of_a_test(), timer, metrics.clone());
        let (mut frames, mut pauses) = (Vec::new(), 0);
        loop {
            match Pin::new(&mut body).poll_frame(&mut Context::from_waker(noop_waker_ref())) {
                Poll::Ready(Some(Ok(frame))) => frames.extend(frame.into_data()),
                Poll::Ready(None) => break,
                Poll::Pending => pauses += 1,
            }
        }
        assert!(body.is_end_stream());
        assert_eq!(metrics.blocks_compressed.get(), pauses as u64);
        (frames, pauses)
    }

    #[test]
    fn others_run_between_blocks_and_frames_are_small() {
        let (form, objects) = (Arc::new(Encoder::built_in("v1", "ConfigMap", "ConfigMapList", "")), objects());
        let blocks = Arc::new(ChunkCache::new(16 << 20));
        let (first, pauses) = frames(&form, &objects, &blocks);
        assert!(pauses > 10, "{pauses} blocks were compressed");
        let (second, pauses) = frames(&form, &objects, &blocks);
        assert_eq!((first.concat(), 0), (second.concat(), pauses));
        // A frame is full with the block that fills it.
        let (last, full) = second.split_last().expect("some frames");
        assert!(full.iter().all(|frame| (FRAME_BYTES..4 * FRAME_BYTES).contains(&frame.len())) && last.len() < 4 * FRAME_BYTES);
        let (mut text, stream) = (Vec::new(), first.concat());
        GzDecoder::new(&stream[..]).read_to_end(&mut text).expect("gzip");
        let mut whole = Vec::new();
        Listing::new(form, &ListMeta::default(), objects).and_then(|mut list| list.fill(&mut whole, usize::MAX)).expect("JSON");
        assert!(text == whole);
    }
}
