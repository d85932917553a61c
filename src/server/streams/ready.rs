//! Which streams of a connection have something to do, told from wherever that is found out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
};

use parking_lot::Mutex;

/// What is kept of the room for marks after a turn: the streams that a crowd of watches has are marked again and again.
const ROOM_MAX: usize = 256;

/// The marks of one connection.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue(Mutex<Marked>);

#[derive(Debug, Default)]
struct Marked {
    /// The connection's.
    waker: Option<Waker>,
    /// Streams that are to be polled.
    due: Vec<u32>,
    /// Bytes of requests' bodies that were taken, and of which streams.
    taken: Vec<(u32, usize)>,
    /// The connection knows that there are marks, or will look.
    is_told: bool,
}

impl ReadyQueue {
    /// So many bytes of this stream's request were taken.
    pub(super) fn taken(&self, stream: u32, bytes: usize) {
        self.mark(|marked| marked.taken.push((stream, bytes)));
    }

    fn mark(&self, mark: impl FnOnce(&mut Marked)) {
        let waker = {
            let mut marked = self.0.lock();
            mark(&mut marked);
            if std::mem::replace(&mut marked.is_told, true) { None } else { marked.waker.clone() }
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Takes all marks; whoever marks from now on wakes `waker`.
    pub(super) fn collect(&self, waker: &Waker, mut due: impl FnMut(u32), taken: impl FnMut((u32, usize))) {
        let bytes = {
            let mut marked = self.0.lock();
            if !marked.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
                marked.waker = Some(waker.clone());
            }
            marked.is_told = false;
            marked.due.drain(..).for_each(&mut due);
            if marked.due.capacity() > ROOM_MAX {
                marked.due = Vec::new();
            }
            std::mem::take(&mut marked.taken)
        };
        bytes.into_iter().for_each(taken);
    }
}

/// ReadyQueue one stream.
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
            self.marks.mark(|marked| marked.due.push(self.stream));
        }
    }
}
