//! Signals: the first SIGTERM or SIGINT drains, the second one exits at once, SIGHUP does not end a service.

use std::io::{IsTerminal, stderr};

use tokio::signal::unix::{Signal, SignalKind, signal};

use telemetry;

/// The signals of this process, from when it is made.
pub(super) struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
    /// Somebody sits in front of it: then SIGHUP says that they are gone.
    on_terminal: bool,
}

impl Signals {
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: signal(SignalKind::hangup())?,
            on_terminal: stderr().is_terminal(),
        })
    }

    /// The name of the signal that asks for the end.
    pub(super) async fn stop(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.term.recv() => return "SIGTERM",
                _ = self.int.recv() => return "SIGINT",
                _ = self.hup.recv() => {
                    if self.on_terminal {
                        return "SIGHUP";
                    }
                    tracing::info!("SIGHUP is ignored: flags are read at the start, certificates and tokens when their files change");
                }
            }
        }
    }

    /// From now on the next one ends the process, whatever is still open.
    pub(super) fn end_at_next(mut self) {
        tokio::spawn(async move {
            let signal = self.stop().await;
            tracing::warn!(signal, "a second signal: exiting at once, open requests and streams are cut");
            telemetry::end(1);
        });
    }
}
