//! The log: text for people or JSON for machines, on standard error.

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Sets up the process's log. Call once, first.
///
/// # Errors
/// One line: directives that cannot be read, or a log that is set up already.
pub fn start(log: &Log) -> Result<(), String> {
    let filter = EnvFilter::try_new(&log.directives).map_err(|error| format!("--log-level {:?}: {error}", log.directives))?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    let set = match log.format {
        LogFormat::Text => subscriber.try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).try_init(),
    };
    set.map_err(|error| format!("the log cannot be set up: {error}"))
}
