//! Which streams of a connection have something to do, told from wherever that is found out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
};

use wake::Marks;

/// What is kept of the room for marks after a turn: the streams that a crowd of watches has are marked again and again.
const ROOM_MAX: usize = 256;

/// The marks of one connection.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue(Marks<Marked>);

#[derive(Debug, Default)]
struct Marked {
    /// Streams that are to be polled.
    due: Vec<u32>,
    /// Bytes of requests' bodies that were taken, and of which streams.
    taken: Vec<(u32, usize)>,
}

impl ReadyQueue {
    /// So many bytes of this stream's request were taken.
    pub(super) fn taken(&self, stream: u32, bytes: usize) {
        self.0.mark(|marked| marked.taken.push((stream, bytes)));
    }

    /// Takes all marks; whoever marks from now on wakes `waker`.
    pub(super) fn collect(&self, waker: &Waker, due: impl FnMut(u32), taken: impl FnMut((u32, usize))) {
        let mut bytes = Vec::new();
        self.0.look(waker, |marked| {
            marked.due.drain(..).for_each(due);
            if marked.due.capacity() > ROOM_MAX {
                marked.due = Vec::new();
            }
            bytes = std::mem::take(&mut marked.taken);
            false
        });
        bytes.into_iter().for_each(taken);
    }
}

/// Marks one stream.
#[derive(Debug)]
pub(super) struct Bell {
    marks: Arc<ReadyQueue>,
    stream: u32,
    is_due: AtomicBool,
}

impl Bell {
    /// A stream that is not marked.
    pub(super) fn new(marks: &Arc<ReadyQueue>, stream: u32) -> Arc<Self> {
        Arc::new(Self { marks: marks.clone(), stream, is_due: AtomicBool::new(false) })
    }

    /// It is about to be polled.
    pub(super) fn take(&self) {
        self.is_due.swap(false, Ordering::AcqRel);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_due.swap(true, Ordering::AcqRel) {
            self.marks.0.mark(|marked| marked.due.push(self.stream));
        }
    }
}
