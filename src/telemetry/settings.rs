//! What the log is set up with.

/// Settings of the log.
#[derive(Clone, Debug)]
pub struct Log {
    /// Text or JSON.
    pub format: LogFormat,
    /// `tracing` directives (`info`, `info,cache=debug`).
    pub directives: String,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}
