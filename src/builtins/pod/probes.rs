//! Probes and hooks of containers, and the signal that stops one.

use super::ports;
use crate::{at::At, causes::Causes, meta, names};

/// The probes of a container, in the order in which they are judged.
pub(super) fn probes(container: &At<'_, '_>, grace: Option<i64>, causes: &mut Causes) {
    for (member, succeeds_once) in [("livenessProbe", true), ("readinessProbe", false), ("startupProbe", true)] {
        let at = container.member(member);
        if at.is_absent() {
            continue;
        }
        probe(&at, grace, causes);
        let (successes, seconds) = (at.member("successThreshold"), at.member("terminationGracePeriodSeconds"));
        if succeeds_once && successes.integer() != 1 {
            causes.invalid_as(&successes, &successes.integer().into(), "must be 1");
        }
        if !succeeds_once && seconds.is_present() {
            causes.invalid(&seconds, "must not be set for readinessProbes");
        }
    }
}

fn probe(at: &At<'_, '_>, grace: Option<i64>, causes: &mut Causes) {
    handler(at, &["exec", "httpGet", "tcpSocket", "grpc"], grace, causes);
    for member in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        meta::not_negative(&at.member(member), causes);
    }
    let seconds = at.member("terminationGracePeriodSeconds");
    if seconds.some_integer().is_some_and(|seconds| seconds <= 0) {
        causes.invalid(&seconds, "must be greater than 0");
    }
}

/// One of the kinds of handlers.
fn handler(at: &At<'_, '_>, kinds: &[&str], grace: Option<i64>, causes: &mut Causes) {
    let mut has_one = false;
    for kind in kinds {
        let handler = at.member(kind);
        if handler.is_absent() {
            continue;
        }
        if std::mem::replace(&mut has_one, true) {
            causes.forbidden(&handler, "may not specify more than 1 handler type");
            continue;
        }
        match *kind {
            "exec" if handler.member("command").len() == 0 => causes.required(&handler.member("command"), ""),
            "httpGet" => http_get(&handler, causes),
            "tcpSocket" | "grpc" => ports::number_or_name(&handler.member("port"), causes),
            "sleep" => sleep(&handler, grace, causes),
            _ => {}
        }
    }
    if !has_one {
        causes.required(at, "must specify a handler type");
    }
}

fn http_get(at: &At<'_, '_>, causes: &mut Causes) {
    meta::present(&at.member("path"), "", causes);
    ports::number_or_name(&at.member("port"), causes);
    let scheme = at.member("scheme");
    if !matches!(scheme.text(), "HTTP" | "HTTPS") {
        causes.not_supported(&scheme.with(&scheme.text().into()), &["HTTP", "HTTPS"]);
    }
    let headers = at.member("httpHeaders");
    for header in headers.items() {
        let name = header.member("name").text();
        causes.each_invalid(&headers.with(&name.into()), names::http_header(name));
    }
}

fn sleep(at: &At<'_, '_>, grace: Option<i64>, causes: &mut Causes) {
    let seconds = at.member("seconds").integer();
    if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        causes.invalid_as(at, &seconds.into(), &why);
    }
}

/// What is done after the start and before the stop (`validateLifecycle`).
pub(super) fn lifecycle(at: &At<'_, '_>, grace: Option<i64>, system: Option<&str>, causes: &mut Causes) {
    for hook in ["postStart", "preStop"] {
        let hook = at.member(hook);
        if hook.is_present() {
            handler(&hook, &["exec", "httpGet", "tcpSocket", "sleep"], grace, causes);
        }
    }
    let signal = at.member("stopSignal");
    if signal.is_present() {
        stop_signal(&signal, system, causes);
    }
}

fn stop_signal(at: &At<'_, '_>, system: Option<&str>, causes: &mut Causes) {
    const WINDOWS: [&str; 2] = ["SIGKILL", "SIGTERM"];
    match system {
        None => causes.forbidden(at, "may not be set for containers with empty `spec.os.name`"),
        Some("windows") if !WINDOWS.contains(&at.text()) => causes.not_supported(at, &WINDOWS),
        Some("linux") if !LINUX_SIGNALS.contains(&at.text()) => causes.not_supported(at, &LINUX_SIGNALS),
        Some(_) => {}
    }
}

const LINUX_SIGNALS: [&str; 65] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];
