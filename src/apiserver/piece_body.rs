//! Bodies that are made while they are sent: lists and documents, a frame at a time.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame};

use server::budget::Reservation;

use super::body::FRAME_BYTES;
use codec::{Document, Listing, Unencodable};
use offload::run_blocking;
use telemetry::RequestTimer;

/// What is written piece by piece, and lets go of what is written.
pub(super) trait Pieces {
    /// Appends what comes next until `out` has `limit` bytes, or the end.
    fn fill(&mut self, out: &mut Vec<u8>, limit: usize) -> Result<(), Unencodable>;
    fn is_done(&self) -> bool;
    /// Bytes that are held for what is not written yet.
    fn held(&self) -> usize;
}

impl Pieces for Document {
    fn fill(&mut self, out: &mut Vec<u8>, limit: usize) -> Result<(), Unencodable> {
        if self.is_defined() { run_blocking(|| self.fill(out, limit)) } else { self.fill(out, limit) }
    }

    fn is_done(&self) -> bool {
        self.is_done()
    }

    fn held(&self) -> usize {
        self.held()
    }
}

impl Pieces for Listing {
    fn fill(&mut self, out: &mut Vec<u8>, limit: usize) -> Result<(), Unencodable> {
        if self.is_defined() { run_blocking(|| self.fill(out, limit)) } else { self.fill(out, limit) }
    }

    fn is_done(&self) -> bool {
        self.is_done()
    }

    fn held(&self) -> usize {
        self.held()
    }
}

pub(super) struct PieceBody<P> {
    /// What was made to see how long the answer is.
    begun: Vec<u8>,
    pieces: P,
    /// What is made and not sent, and what the rest is made of.
    hold: Reservation,
    timer: RequestTimer,
}

impl<P: Pieces> PieceBody<P> {
    /// A body that begins with what was made of these pieces before.
    pub(super) fn new(begun: Vec<u8>, pieces: P, mut hold: Reservation, mut timer: RequestTimer, code: u16) -> Self {
        timer.set_code(code);
        hold.resize(begun.capacity() + pieces.held());
        Self { begun, pieces, hold, timer }
    }
}

impl<P: Pieces + Unpin> Body for PieceBody<P> {
    type Data = Bytes;
    type Error = Unencodable;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Unencodable>>> {
        let this = &mut *self;
        let mut out = mem::take(&mut this.begun);
        if out.is_empty() && !this.pieces.is_done() {
            out.reserve(FRAME_BYTES + (FRAME_BYTES >> 3));
            if let Err(why) = this.pieces.fill(&mut out, FRAME_BYTES) {
                return Poll::Ready(Some(Err(why)));
            }
        }
        this.hold.resize(this.pieces.held());
        if out.is_empty() {
            return Poll::Ready(None);
        }
        this.timer.add_bytes(out.len());
        Poll::Ready(Some(Ok(Frame::data(out.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.begun.is_empty() && self.pieces.is_done()
    }
}
