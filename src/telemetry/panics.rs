//! What happens on a panic: a panic of a request or a connection ends only that, any other panic ends the process with status 1, so that a supervisor
//! starts it again. A server that has lost a cacher, its feed or its store's writer would look alive but not work.

use std::cell::Cell;
use std::panic::{PanicHookInfo, set_hook};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::{backtrace, thread};

use super::log;

thread_local! {
    /// Whether this thread works for a request or a connection at this moment.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Work of a request or a connection: whoever polls it answers for its panics.
pub struct Contained<F> {
    /// `None` once it is dropped.
    work: Option<Pin<Box<F>>>,
}

struct Inside {
    before: bool,
}

/// A future whose panic ends only itself.
pub fn contained<F: Future>(work: F) -> Contained<F> {
    Contained { work: Some(Box::pin(work)) }
}

/// The same for work on a thread of its own.
pub fn contain<T>(work: impl FnOnce() -> T) -> T {
    let _inside = Inside::enter();
    work()
}

/// From now on every panic that is not contained ends the process. The log must have begun.
pub(super) fn install() {
    set_hook(Box::new(panicked));
}

fn panicked(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    // One line, whatever an assertion prints.
    let text = text.unwrap_or("(no text)").lines().map(str::trim).collect::<Vec<_>>().join("; ");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let name = thread::current().name().unwrap_or("(no name)").to_owned();
    let trace = backtrace::Backtrace::capture();
    let trace = (trace.status() == backtrace::BacktraceStatus::Captured).then_some(&trace).map(tracing::field::display);
    if INSIDE.get() {
        return tracing::error!(place, thread = name, trace, "a panic: {text}");
    }
    tracing::error!(place, thread = name, trace, "a panic outside of requests: {text}; the process ends with status 1");
    log::end(1);
}

impl Inside {
    fn enter() -> Self {
        Self { before: INSIDE.replace(true) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.before);
    }
}

impl<F: Future> Future for Contained<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _inside = Inside::enter();
        self.work.as_mut().expect("it is there until it is dropped").as_mut().poll(context)
    }
}

impl<F> Drop for Contained<F> {
    fn drop(&mut self) {
        let _inside = Inside::enter();
        self.work = None;
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;
    use crate::settings::{Log, LogFormat};

    /// What the child of the test below is to do.
    const ROLE: &str = "WATCHCACHE_TEST_PANIC";
    /// How the child ends when nobody ends it.
    const WENT_ON: i32 = 17;

    fn fall() {
        assert_eq!(std::hint::black_box(1), 2, "a test's panic");
    }

    /// A process with the log and the runtime of the server, in which something panics.
    fn child(role: &str) -> ! {
        log::start(&Log { format: LogFormat::Text, directives: "info".to_owned() }).expect("the first log of this process");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        match role {
            "task" => drop(runtime.spawn(async { fall() })),
            "thread" => drop(thread::spawn(fall)),
            "blocking" => drop(runtime.spawn_blocking(fall)),
            "contained" => {
                let outcome = runtime.block_on(async { tokio::spawn(contained(async { fall() })).await });
                assert!(outcome.expect_err("it panics").is_panic());
                let outcome = runtime.block_on(async { tokio::task::spawn_blocking(|| contain(fall)).await });
                assert!(outcome.expect_err("it panics").is_panic());
            }
            "after" => {
                // The thread that contained one answers for its next one.
                let outcome = std::panic::catch_unwind(|| contain(fall));
                assert!(outcome.is_err());
                fall();
            }
            _ => unreachable!("a role of this test"),
        }
        if role == "contained" {
            log::end(WENT_ON);
        }
        // Of a task's panic nobody hears otherwise.
        thread::sleep(Duration::from_secs(60));
        log::end(WENT_ON)
    }

    #[test]
    fn a_panic_of_what_is_needed_ends_the_process() {
        if let Ok(role) = std::env::var(ROLE) {
            child(&role);
        }
        let myself = "panics::tests::a_panic_of_what_is_needed_ends_the_process";
        for (role, code) in [("task", 1), ("thread", 1), ("blocking", 1), ("after", 1), ("contained", WENT_ON)] {
            let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
            command.args(["--exact", myself, "--nocapture"]).env(ROLE, role).env_remove("RUST_BACKTRACE");
            let output = command.stdin(Stdio::null()).output().expect("the child starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{role}: {said}");
            assert!(said.contains("a test's panic") && said.contains("panics.rs"), "{role}: {said}");
            assert_eq!(said.contains("the process ends with status 1"), code == 1, "{role}: {said}");
        }
    }
}
