//! The log backend: a thread of its own writes one line an event, to a file or to standard output.

use std::{
    io::{self, Write},
    path::PathBuf,
    thread,
};

use prometheus::IntCounterVec;
use tokio::runtime::Builder;

use crate::{
    Counters,
    queue::{Batches, Encoding, Message, Mode, Queue, Truncation},
    rotate::RotatingFile,
};

/// As metrics name it.
const PLUGIN: &str = "log";

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `audit.k8s.io/v1` Event.
    Json,
    /// Text.
    Legacy,
}

/// Where and how events are written.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// The file; none for standard output.
    pub path: Option<PathBuf>,
    /// How a line looks.
    pub format: Format,
    /// When the file is moved aside; none for never.
    pub rotation: Option<Rotation>,
    /// Whether requests wait.
    pub mode: Mode,
    /// What becomes of large events.
    pub truncation: Option<Truncation>,
}

/// When the file is moved aside, and what becomes of the old ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes that the file may have.
    pub bytes_max: u64,
    /// Old files that are kept; zero for all.
    pub backups_max: usize,
    /// Days that old files are kept; zero for ever.
    pub days_max: u32,
    /// Whether old files are compressed.
    pub compress: bool,
}

/// Starts the thread.
///
/// # Errors
/// The file cannot be made or written to, or there is no thread.
pub fn start(config: &LogConfig, counters: &Counters) -> io::Result<Queue> {
    let sink: Box<dyn Write + Send> = match &config.path {
        Some(path) => Box::new(RotatingFile::prepare(path.clone(), config.rotation)?),
        None => Box::new(io::stdout()),
    };
    let encoding = if config.format == Format::Json { Encoding::JsonLine } else { Encoding::TextLine };
    let (queue, batches) = Queue::new(PLUGIN, encoding, config.mode, config.truncation, counters.errors.clone());
    let errors = counters.errors.clone();
    let work = move || match Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime.block_on(write(batches, sink, &errors)),
        // The queue ends, and each event is lost and counted.
        Err(error) => tracing::error!(%error, "the audit log has no timer and writes nothing"),
    };
    thread::Builder::new().name("audit-log".into()).spawn(work)?;
    Ok(queue)
}

/// Writes what comes until nothing can come any more. A line that cannot be written is lost and counted.
async fn write(mut batches: Batches, mut sink: Box<dyn Write + Send>, errors: &IntCounterVec) {
    while let Some(batch) = batches.next().await {
        for message in batch {
            match message {
                Message::Event(event) => {
                    let outcome = sink.write_all(&event.bytes).and_then(|()| sink.flush());
                    if let Err(error) = &outcome {
                        errors.with_label_values(&[PLUGIN]).inc();
                        tracing::error!(plugin = PLUGIN, %error, "an audit event could not be written and is lost");
                    }
                    // Who sent it may have gone away.
                    event.written.map(|written| written.send(outcome.is_ok()));
                }
                Message::Flush(told) => drop(told.send(())),
            }
        }
    }
}

#[cfg(test)]
mod tests;
