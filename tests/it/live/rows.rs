//! The output of a program that goes on, such as `get -w`, line by line and with patience.

use std::{
    io::{self, BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// How long a line may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program and the lines that it has written so far; killed when this is dropped.
pub(super) struct Rows {
    child: Child,
    lines: mpsc::Receiver<String>,
    seen: Vec<String>,
}

impl Rows {
    /// Starts the program.
    pub(super) fn of(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().expect("it was asked for");
        let (sender, lines) = mpsc::channel();
        // The thread ends with the pipe, or with whoever listens.
        thread::spawn(move || BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Ok(Self { child, lines, seen: Vec::new() })
    }

    /// Waits until there are so many lines in all; all of them.
    pub(super) fn wait_for(&mut self, count: usize) -> Result<&[String], String> {
        let deadline = Instant::now() + PATIENCE;
        while self.seen.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).map_err(|_| format!("{} of {count} rows: {:?}", self.seen.len(), self.seen))?;
            self.seen.push(line);
        }
        Ok(&self.seen)
    }

    /// Waits until the program has ended by itself, and says that it succeeded.
    pub(super) fn ends_well(mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(None) => thread::sleep(Duration::from_millis(20)),
                ended => return Err(format!("{ended:?}: {:?}", self.seen)),
            }
        }
        Err(format!("it has not ended after {PATIENCE:?}: {:?}", self.seen))
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
