//! How many connections of clients fit into this process's limit of open files. Each connection is one file, and so is each to another server.

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::config::Config;
use auth::access::settings::Mode;
use auth::{access, providers};
use telemetry::open_files_limits;
use upstream::host;

/// Files that every server has besides connections of clients: some 20 at rest (runtimes, signals, listeners, log, store), one for each connection to etcd, one
/// that waits at each listener, those that `/metrics` reads from `/proc`; and room for what nobody thought of.
const RESERVED: u64 = 64;

/// What is reserved is at most this part of all files: connections to other servers have limits that are seldom reached, and none at all to a server that takes
/// no clients.
const RESERVED_PART: u64 = 2;

/// Raises the limit of open files as far as the system lets us; answers how many of the connections that are wanted fit, and what an operator should know about
/// it.
pub(super) fn connections(config: &Config) -> (usize, Option<String>) {
    let wanted = config.connections.count_max;
    // Without /proc nothing is known, and accept will tell.
    let Some((now, most)) = open_files_limits() else { return (wanted, None) };
    if now < most {
        let limit = |number: u64| (number != u64::MAX).then_some(number);
        // A sandbox may forbid it; what counts is what there is then.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit(most), maximum: limit(most) });
    }
    fitting(wanted, open_files_limits().map_or(now, |(now, _)| now), elsewhere(config))
}

/// Logs what the operator should know about the flags, and once those that change nothing.
pub(super) fn report_flags(warnings: &[String], ignored: &[String]) {
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    if !ignored.is_empty() {
        tracing::info!(flags = ignored.join(" "), "flags that change nothing here are ignored");
    }
}

/// Connections to other servers that what the flags name may need, and webhooks, which definitions and configurations name, where they are called from here.
fn elsewhere(config: &Config) -> u64 {
    let authorizers = config.authorization.modes.iter().filter(|mode| matches!(mode, Mode::Webhook(_))).count();
    let providers = &config.providers;
    let reviewers = usize::from(providers.webhook.is_some()) + usize::from(providers.cluster.is_some());
    let when = |is_named: bool, connections: usize| if is_named { connections } else { 0 };
    let converts = config.replica.is_none() && config.source.is_none();
    let all = authorizers * access::CONNECTIONS_EACH
        + when(converts, conversion::CONNECTIONS_RESERVED + storage::write::CONNECTIONS_RESERVED)
        + reviewers * providers::CONNECTIONS_EACH
        + when(providers.oidc.is_some(), providers::CONNECTIONS_OPENID)
        + when(config.aggregated.is_some(), host::CONNECTIONS_MAX)
        + when(config.audit.as_ref().is_some_and(|audit| audit.webhook.is_some()), audit::SENDING_MAX)
        + when(config.replica.is_some(), upstream::CONNECTIONS_RESERVED)
        + when(config.source.is_some(), reflector::CONNECTIONS_RESERVED);
    u64::try_from(all).unwrap_or(u64::MAX)
}

fn fitting(wanted: usize, files: u64, elsewhere: u64) -> (usize, Option<String>) {
    let reserved = RESERVED.saturating_add(elsewhere.min((files / RESERVED_PART).saturating_sub(RESERVED)));
    let fit = usize::try_from(files.saturating_sub(reserved)).unwrap_or(usize::MAX).max(1);
    if wanted <= fit {
        return (wanted, None);
    }
    let warning = format!(
        "{files} files may be open, of which {reserved} are not for clients: {fit} connections are accepted, not {wanted} (--max-connections); \
         raise the hard limit (LimitNOFILE=, ulimit -Hn)"
    );
    (fit, Some(warning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Invocation;

    #[test]
    fn what_does_not_fit_is_not_accepted() {
        assert_eq!(fitting(20_000, 65_536, 0), (20_000, None));
        assert_eq!(fitting(20_000, u64::MAX, 0), (20_000, None));
        assert_eq!(fitting(20_000, 20_064, 0), (20_000, None));
        let (fit, warning) = fitting(20_000, 1_024, 0);
        assert_eq!(fit, 960);
        assert!(warning.is_some_and(|line| line.contains("960") && line.contains("LimitNOFILE")));
        assert_eq!(fitting(20_000, 64, 0).0, 1, "a server that serves one at a time is one");
        assert_eq!(fitting(20_000, 3, 9).0, 1);
    }

    /// A question to a webhook found no file, and that was told as a judgement.
    #[test]
    fn connections_to_other_servers_have_files_of_their_own() {
        assert_eq!(fitting(20_000, 20_320, 256), (20_000, None));
        assert_eq!(fitting(20_000, 20_319, 256).0, 19_999);
        assert_eq!(fitting(20_000, 1_024, 256).0, 704);
        assert_eq!(fitting(20_000, 1_024, 15_424).0, 512, "clients have half");
        assert_eq!(fitting(20_000, 65_536, 15_424), (20_000, None));
    }

    #[test]
    fn what_the_flags_name_is_counted() {
        let of = |args: &[&str]| {
            let line = ["watchcache", "serve", "--data-dir=d", "--secure-port=0"].iter().chain(args);
            match Invocation::from_command_line(line) {
                Ok(Invocation::Serve(config)) => elsewhere(&config),
                other => panic!("{args:?}: {:?}", other.err()),
            }
        };
        let webhooks = (conversion::CONNECTIONS_RESERVED + storage::write::CONNECTIONS_RESERVED) as u64;
        let of = |args: &[&str]| of(args) - webhooks;
        assert_eq!(of(&[]), 0);
        let authorizer = ["--authorization-mode=RBAC,Webhook", "--authorization-webhook-config-file=w"];
        assert_eq!(of(&authorizer), 256);
        assert_eq!(of(&[&authorizer[..], &["--authentication-token-webhook-config-file=t"]].concat()), 512);
        let provider = ["--oidc-issuer-url=https://o", "--oidc-client-id=us"];
        assert_eq!(of(&provider), 64);
    }

    #[test]
    fn each_resource_that_is_followed_has_a_file() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let kubeconfig = format!("--upstream-kubeconfig={}", file.path().display());
        let line = [
            "watchcache",
            "serve",
            "--secure-port=6443",
            "--tls-cert-file=c",
            "--tls-private-key-file=k",
            "--source=upstream",
            &kubeconfig,
        ];
        let Ok(Invocation::Serve(config)) = Invocation::from_command_line(line) else { panic!("flags that are no good") };
        assert!(elsewhere(&config) >= (upstream::CONNECTIONS_RESERVED + reflector::CONNECTIONS_RESERVED) as u64, "{}", elsewhere(&config));
    }
}
