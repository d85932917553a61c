//! Which program this one stands in for: by the name that it is called by, or by its first argument.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{CommandFactory, FromArgMatches};

use super::args::{Cli, Command};
use super::{Invocation, Stop, etcd_program, kube_apiserver, store};

/// What etcd says besides when it cannot read its command line.
const ETCD_USAGE: &str =
    "Usage:\n\n  etcd [flags]\n    Start an etcd server.\n\n  etcd -h | --help\n    Show the help information about etcd.\n";

/// A command line of another program.
pub(super) enum StandIn {
    /// kube-apiserver's, without its name.
    KubeApiserver(Vec<OsString>),
    /// etcd's, without its name.
    Etcd(Vec<OsString>),
}

/// Finds the program whose command line this is; none when it is our own.
pub(super) fn of(line: &[OsString]) -> Option<StandIn> {
    let called = line.first().and_then(|name| Path::new(name).file_name());
    let named = |name: Option<&OsStr>, rest: &[OsString]| match name.and_then(OsStr::to_str) {
        Some(kube_apiserver::NAME) => Some(StandIn::KubeApiserver(rest.to_vec())),
        Some(etcd_program::NAME) => Some(StandIn::Etcd(rest.to_vec())),
        _ => None,
    };
    let first = line.get(1).map(OsString::as_os_str);
    named(called, line.get(1..).unwrap_or_default()).or_else(|| named(first, line.get(2..).unwrap_or_default()))
}

impl StandIn {
    /// Reads it.
    ///
    /// # Errors
    /// `Stop` says what to print and how to end, as the other program does.
    pub(super) fn invocation(self) -> Result<Invocation, Stop> {
        match self {
            Self::KubeApiserver(rest) => {
                let refused = |why: String| Stop::AsThere { text: format!("Error: {why}\n"), code: 1 };
                of_kube_apiserver(&texts(rest).map_err(refused)?)
            }
            Self::Etcd(rest) => of_etcd(&texts(rest).map_err(|why| Stop::AsThere { text: format!("{why}\n"), code: 2 })?),
        }
    }
}

fn texts(line: Vec<OsString>) -> Result<Vec<String>, String> {
    line.into_iter().map(|word| word.into_string().map_err(|word| format!("an argument is not UTF-8: {}", word.display()))).collect()
}

fn of_kube_apiserver(line: &[String]) -> Result<Invocation, Stop> {
    let refused = |why: String| Stop::AsThere { text: format!("Error: {why}\n"), code: 1 };
    let server = match kube_apiserver::read(line).map_err(refused)? {
        kube_apiserver::Asks::Text(text) => return Err(Stop::Asked(text)),
        kube_apiserver::Asks::Server(server) => server,
    };
    let own = ["watchcache", "serve"].into_iter().map(str::to_owned).chain(server.flags);
    match Invocation::from_own_line(own) {
        Ok(Invocation::Serve(mut config)) => {
            config.warnings.extend(server.warnings);
            config.ignored_flags = server.ignored;
            Ok(Invocation::Serve(config))
        }
        Ok(other) => Ok(other),
        Err(Stop::Wrong(why)) => Err(refused(as_there(&why).to_owned())),
        Err(other) => Err(other),
    }
}

/// A mistake as kube-apiserver says it: without the flag before texts that are its own.
fn as_there(why: &str) -> &str {
    const FLAGS: [&str; 3] = ["--authorization-mode: ", "--tls-min-version: ", "--tls-cipher-suites: "];
    FLAGS.iter().find_map(|flag| why.strip_prefix(flag)).unwrap_or(why)
}

fn of_etcd(line: &[String]) -> Result<Invocation, Stop> {
    let refused = |why: String| Stop::AsThere { text: format!("{}: {why}\n", etcd_program::NAME), code: 1 };
    let asked = match etcd_program::read(line) {
        Ok(etcd_program::Asks::Text(text)) => return Err(Stop::Asked(text)),
        Ok(etcd_program::Asks::Store(asked)) => asked,
        Err(etcd_program::Wrong::Line(why)) => return Err(Stop::AsThere { text: format!("{why}\n{ETCD_USAGE}"), code: 2 }),
        Err(etcd_program::Wrong::Asked(why)) => return Err(refused(why)),
    };
    let own = ["watchcache", "store"].into_iter().map(str::to_owned).chain(asked.flags);
    let matches = Cli::command().try_get_matches_from(own).map_err(|error| super::stop(&error));
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches).map_err(|error| super::stop(&error)));
    let args = match cli {
        Ok(Cli { command: Command::Store(args) }) => args,
        Ok(_) => return Err(refused("no store".to_owned())),
        Err(Stop::Wrong(why)) => return Err(refused(why)),
        Err(other) => return Err(other),
    };
    let mut config = store::check(*args).map_err(refused)?;
    if !asked.advertised.is_empty() {
        config.client_urls = asked.advertised;
    }
    config.unsynced = asked.unsynced;
    config.warnings = asked.warnings;
    config.ignored_flags = asked.ignored;
    Ok(Invocation::Store(config))
}
