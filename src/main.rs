//! Flags → config → app.

use std::{
    io::{Write, stderr, stdout},
    process::ExitCode,
};

use watchcache::{
    app,
    config::{Invocation, Stop},
};

/// Memory that a burst took goes back to the system (docs/decisions/0018-allocator.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let invocation = match Invocation::from_command_line(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(Stop::Asked(text)) => return say(stdout(), &text, ExitCode::SUCCESS),
        Err(Stop::Wrong(line)) => return say(stderr(), &format!("watchcache: {line}\n"), ExitCode::from(2)),
        Err(Stop::AsThere { text, code }) => return say(stderr(), &text, ExitCode::from(code)),
    };
    if let Some(Err(line)) = invocation.log().map(telemetry::start_log) {
        return say(stderr(), &format!("watchcache: {line}\n"), ExitCode::from(2));
    }
    let outcome = match invocation {
        Invocation::Serve(config) => app::run(*config),
        Invocation::Store(config) => app::run_store(config),
        Invocation::Keep(command) => {
            return match app::keep_store(command) {
                Ok(text) => say(stdout(), &text, ExitCode::SUCCESS),
                Err(error) => say(stderr(), &format!("watchcache: {error}\n"), ExitCode::FAILURE),
            };
        }
        Invocation::SetupEnvtest(assets) => {
            return match app::make_envtest_assets(&assets) {
                Ok((path, notes)) => {
                    let _ = say(stderr(), &notes, ExitCode::SUCCESS);
                    say(stdout(), &format!("{path}\n"), ExitCode::SUCCESS)
                }
                Err(line) => say(stderr(), &format!("watchcache: {line}\n"), ExitCode::FAILURE),
            };
        }
        Invocation::Aggregate(manifests) => {
            return match app::print_manifests(&manifests) {
                Ok(text) => say(stdout(), &text, ExitCode::SUCCESS),
                Err(lines) => say(stderr(), &format!("watchcache: {lines}\n"), ExitCode::FAILURE),
            };
        }
    };
    let code = match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            telemetry::say(&format!("watchcache: {error}\n"));
            ExitCode::FAILURE
        }
    };
    telemetry::flush_log();
    code
}

/// Before there is a log, or instead of one. A closed pipe is nobody's fault.
fn say(mut to: impl Write, text: &str, code: ExitCode) -> ExitCode {
    let _ = to.write_all(text.as_bytes());
    code
}
