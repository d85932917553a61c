//! The lines of the log on their way out: a queue bounded in bytes, and one thread that writes. Whoever logs never waits for the disk or the pipe behind
//! it; what finds no room, or cannot be written, is dropped and counted.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use prometheus::IntCounter;

/// Bytes of lines that wait for the disk or the pipe; some 5,000 lines.
pub(super) const QUEUE_BYTES_MAX: usize = 1 << 20;

/// What a line begins with that is a bar: it has no end of line, and the next line takes its place.
pub(super) const BAR_BEGINS: char = '\r';

/// What empties the place of a bar; what cuts a bar at the edge of the terminal, and what ends that.
const EMPTY: &[u8] = b"\r\x1b[K";
const UNWRAPPED: &[u8] = b"\x1b[?7l";
const WRAPPED: &[u8] = b"\x1b[?7h";

/// Pause before another try on a pipe that takes nothing now and says so, because somebody has made it non-blocking.
const PAUSE: Duration = Duration::from_millis(10);

/// The way to the writing thread; a clone is the same one.
#[derive(Clone)]
pub(super) struct Lines(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    came: Condvar,
    done: Condvar,
    counters: Dropped,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The thread has a line in hand.
    writing: bool,
}

/// Counters of lines that were not written.
pub(super) struct Dropped {
    /// The queue had no room.
    pub(super) full: IntCounter,
    /// The write failed.
    pub(super) failed: IntCounter,
}

impl Lines {
    /// Starts the thread that writes.
    pub(super) fn start(sink: impl Write + Send + 'static, counters: Dropped) -> io::Result<Self> {
        let shared = Arc::new(Shared { queue: Mutex::default(), came: Condvar::new(), done: Condvar::new(), counters });
        let lines = Self(shared.clone());
        thread::Builder::new().name("log".into()).spawn(move || shared.write(sink))?;
        Ok(lines)
    }

    /// Takes a whole line, or drops it.
    pub(super) fn offer(&self, line: &[u8]) {
        let mut queue = self.0.queue.lock();
        if queue.bytes + line.len() > QUEUE_BYTES_MAX {
            return self.0.counters.full.inc();
        }
        queue.bytes += line.len();
        queue.lines.push_back(line.to_vec());
        self.0.came.notify_one();
    }

    /// Waits until everything is written, but not longer than this.
    pub(super) fn flush(&self, limit: Duration) {
        let busy = |queue: &mut Queue| queue.writing || !queue.lines.is_empty();
        // Out of time or done: there is nothing else to do.
        let _ = self.0.done.wait_while_for(&mut self.0.queue.lock(), busy, limit);
    }
}

impl Shared {
    fn write(&self, mut sink: impl Write) {
        let (mut torn, mut has_bar) = (false, false);
        loop {
            let mut line = self.next();
            let is_bar = line.first() == Some(&(BAR_BEGINS as u8));
            if is_bar {
                line = [EMPTY, UNWRAPPED, &line[1..], WRAPPED].concat();
            } else if has_bar {
                line.splice(0..0, EMPTY.iter().copied());
            }
            has_bar = is_bar;
            if torn {
                // A full disk has taken the beginning of a line.
                line.insert(0, b'\n');
            }
            match write_line(&mut sink, &line) {
                Ok(()) => torn = false,
                Err(written) => {
                    torn |= written > 0;
                    self.counters.failed.inc();
                }
            }
        }
    }

    /// The next line, when there is one; the one before is done with.
    fn next(&self) -> Vec<u8> {
        let mut queue = self.queue.lock();
        queue.writing = false;
        loop {
            if let Some(line) = queue.lines.pop_front() {
                queue.bytes -= line.len();
                queue.writing = true;
                return line;
            }
            // What a burst took goes back.
            queue.lines.shrink_to(16);
            self.done.notify_all();
            self.came.wait(&mut queue);
        }
    }
}

/// Writes all of it, or tells how many bytes went before it failed.
fn write_line(sink: &mut impl Write, line: &[u8]) -> Result<(), usize> {
    let mut written = 0;
    while written < line.len() {
        match sink.write(&line[written..]) {
            Ok(0) => return Err(written),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
            Err(_) => return Err(written),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Takes what it is told to: each write waits for a word.
    struct Sink {
        words: mpsc::Receiver<io::Result<usize>>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = self.words.recv().unwrap_or(Ok(usize::MAX))?.min(bytes.len());
            self.taken.lock().extend(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Bench {
        lines: Lines,
        words: mpsc::Sender<io::Result<usize>>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Bench {
        fn new() -> Self {
            let counter = || IntCounter::new("lines", "of a test").expect("a name");
            let ((words, heard), taken) = (mpsc::channel(), Arc::<Mutex<Vec<u8>>>::default());
            let sink = Sink { words: heard, taken: taken.clone() };
            let lines = Lines::start(sink, Dropped { full: counter(), failed: counter() }).expect("a thread");
            Self { lines, words, taken }
        }

        fn dropped(&self) -> (u64, u64) {
            let counters = &self.lines.0.counters;
            (counters.full.get(), counters.failed.get())
        }

        /// The sink takes everything from now on.
        fn written(self) -> String {
            drop(self.words);
            self.lines.flush(Duration::from_secs(60));
            let taken = self.taken.lock();
            String::from_utf8(taken.clone()).expect("text")
        }
    }

    #[test]
    fn a_sink_that_takes_nothing_holds_up_nobody() {
        let bench = Bench::new();
        let line = [b'x'; 1 << 10];
        for _ in 0..3_000 {
            bench.lines.offer(&line);
        }
        bench.lines.flush(Duration::from_millis(1));
        let (full, failed) = bench.dropped();
        // One line more may be in the thread's hand.
        assert!((3_000 - 1_025..=3_000 - 1_024).contains(&full), "{full}");
        assert_eq!(failed, 0);
        assert_eq!(bench.written().len() as u64 / 1024, 3_000 - full);
    }

    #[test]
    fn the_next_line_takes_the_place_of_a_bar() {
        let bench = Bench::new();
        for line in ["one\n", "\rsaving [## ]", "\rsaving [###]", "two\n", "three\n"] {
            bench.lines.offer(line.as_bytes());
        }
        let bar = |text: &str| format!("\r\x1b[K\x1b[?7l{text}\x1b[?7h");
        assert_eq!(bench.written(), format!("one\n{}{}\r\x1b[Ktwo\nthree\n", bar("saving [## ]"), bar("saving [###]")));
    }

    #[test]
    fn a_disk_that_was_full_gets_the_lines_that_come_after() {
        let bench = Bench::new();
        let full = || Err(io::Error::from(ErrorKind::StorageFull));
        for word in [full(), Ok(3), full(), full(), Err(ErrorKind::WouldBlock.into())] {
            bench.words.send(word).expect("the sink hears");
        }
        for line in ["lost\n", "torn\n", "lost too\n", "whole\n"] {
            bench.lines.offer(line.as_bytes());
        }
        let lines = bench.lines.clone();
        assert_eq!(bench.written(), "tor\nwhole\n");
        assert_eq!(lines.0.counters.failed.get(), 3);
    }
}
