//! An event as the members of a group get it: written when it is dispatched, or, where that may take long, when the first of them takes it. No cacher waits for
//! a representation: what is slow is written on a thread that serves nobody else, once for all groups of an encoder, and delays only those who watch it.

use std::{
    mem,
    sync::Arc,
    task::{Poll, Waker},
};

use bytes::Bytes;
use parking_lot::Mutex;

use super::dispatcher::body;
use codec::{Encoder, Unencodable};
use model::{Event, Outcome, Revision};

/// One event as a group's members get it.
#[derive(Clone, Debug)]
pub struct EncodedEvent {
    /// Revision of the change.
    pub revision: Revision,
    /// The event on the wire.
    pub frame: Frame,
}

/// An event on the wire, shared by all members and by groups of the same encoder.
#[derive(Clone, Debug)]
pub enum Frame {
    /// It is whole; or why it has no such encoding.
    Made(Result<Bytes, Unencodable>),
    /// It is not written yet.
    Later(Arc<Later>),
}

impl EncodedEvent {
    pub(super) fn len(&self) -> usize {
        match &self.frame {
            Frame::Made(frame) => frame.as_ref().map_or(0, Bytes::len),
            Frame::Later(later) => later.weight(),
        }
    }
}

/// A frame that is written when somebody wants it.
pub struct Later {
    encoder: Arc<Encoder>,
    outcome: Outcome,
    event: Arc<Event>,
    /// What the frame is of, in the turns of those that are written.
    whose: Arc<str>,
    state: Mutex<State>,
}

enum State {
    Wanted(Vec<Waker>),
    Untouched,
    Made(Result<Bytes, Unencodable>),
}

impl Later {
    pub(super) fn new(encoder: Arc<Encoder>, outcome: Outcome, event: Arc<Event>, whose: Arc<str>) -> Self {
        Self { encoder, outcome, event, whose, state: Mutex::new(State::Untouched) }
    }

    /// About how many bytes it will have: those of its object, which it keeps.
    fn weight(&self) -> usize {
        body(&self.event, self.outcome).tail_len()
    }

    /// The frame, if it is written.
    pub(super) fn made(&self) -> Option<Result<Bytes, Unencodable>> {
        match &*self.state.lock() {
            State::Made(made) => Some(made.clone()),
            _ => None,
        }
    }

    /// Has it written unless it is, and wakes the waker once it is.
    pub(super) fn poll(self: &Arc<Self>, waker: &Waker) -> Poll<()> {
        let mut state = self.state.lock();
        match &mut *state {
            State::Made(_) => return Poll::Ready(()),
            State::Wanted(wakers) => {
                if !wakers.iter().any(|known| known.will_wake(waker)) {
                    wakers.push(waker.clone());
                }
                return Poll::Pending;
            }
            State::Untouched => *state = State::Wanted(vec![waker.clone()]),
        }
        drop(state);
        let making = Making(self.clone());
        offload::begin_for(self.whose.clone(), move || making.make());
        if self.made().is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn end(&self, made: Result<Bytes, Unencodable>) {
        let before = mem::replace(&mut *self.state.lock(), State::Made(made));
        if let State::Wanted(wakers) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

impl PartialEq for Later {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Later {}

impl std::fmt::Debug for Later {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Later").field("revision", &self.event.revision).finish_non_exhaustive()
    }
}

/// Ends the wait of those who want a frame, whatever becomes of its making.
struct Making(Arc<Later>);

impl Making {
    fn make(self) {
        let Later { encoder, outcome, event, .. } = &*self.0;
        let made = encoder.event((*outcome).into(), body(event, *outcome), event.revision);
        self.0.end(made);
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if self.0.made().is_none() {
            self.0.end(Err(Unencodable::NoKind("the event could not be written".to_owned())));
        }
    }
}
