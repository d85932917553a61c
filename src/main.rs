//! Flags → config → app.

use std::{
    io::{Write, stderr, stdout},
    process::ExitCode,
};

use watchcache::{
    app,
    config::{Config, Stop},
    telemetry,
};

fn main() -> ExitCode {
    let config = match Config::from_command_line(std::env::args_os()) {
        Ok(config) => config,
        Err(Stop::Asked(text)) => return say(stdout(), &text, ExitCode::SUCCESS),
        Err(Stop::Wrong(line)) => return say(stderr(), &format!("watchcache: {line}\n"), ExitCode::from(2)),
    };
    if let Err(line) = telemetry::start_log(&config.log) {
        return say(stderr(), &format!("watchcache: {line}\n"), ExitCode::from(2));
    }
    match app::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => say(stderr(), &format!("watchcache: {error}\n"), ExitCode::FAILURE),
    }
}

/// A closed pipe is nobody's fault.
fn say(mut to: impl Write, text: &str, code: ExitCode) -> ExitCode {
    let _ = to.write_all(text.as_bytes());
    code
}
