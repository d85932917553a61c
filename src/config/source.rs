//! Flags of a server whose objects come from an API server instead of an etcd.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::args::ServeArgs;
use super::replica::{Replica, UpstreamServer};
use auth::presence::Presence;
use go::duration;
use reflector::{Policy, Wanted};

/// The flag that names it.
pub const SOURCE_FLAG: &str = "--upstream-kubeconfig";
/// What the service account of a pod is mounted as.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The least `--resource-idle-timeout`: clients that look again and again do so every minute or so.
const IDLE_MIN: Duration = Duration::from_secs(60);

/// Where the objects come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum From {
    /// Etcd, or the embedded store.
    Etcd,
    /// An API server, which is listed and watched.
    Upstream,
}

/// How a read is answered that asks for what upstream has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConsistentReads {
    /// From memory, once upstream has said how far it is and memory has come as far; else by upstream.
    Prove,
    /// By upstream.
    Forward,
    /// From memory, however old it is; the answer has a warning.
    Cached,
}

/// The flags as typed.
#[derive(Args, Debug)]
pub(super) struct SourceArgs {
    /// Where the objects come from. `upstream`: from an API server, which this server lists and watches as its clients would; they come here with their own
    /// tokens, about which upstream is asked, and what this server does not answer is forwarded. Upstream is what --upstream-kubeconfig says, in a pod by
    /// default what its service account may reach
    #[arg(long, value_enum, default_value_t = From::Etcd, value_name = "SOURCE", help_heading = "Upstream as the source")]
    pub(super) source: From,
    /// Resources that are followed from the start, comma separated: pods, secrets, deployments.apps; `all` is all but secrets. What is not followed is
    /// forwarded [default: each resource is followed from when it is first asked for, but not secrets]
    #[arg(long, value_delimiter = ',', value_name = "RESOURCE,...", help_heading = "Upstream as the source")]
    resources: Vec<String>,
    /// How long a resource is not asked for until it is no longer followed, if --resources does not name it (Go duration); 0 = follow it for ever
    #[arg(long, default_value = "1h", value_parser = duration::parse, value_name = "DURATION", help_heading = "Upstream as the source")]
    resource_idle_timeout: Duration,
    /// How a read without resourceVersion is answered: `prove` from memory, once it is known to be as new as upstream, `forward` by upstream, `cached` from
    /// memory as it is, with a warning
    #[arg(long, value_enum, default_value_t = ConsistentReads::Prove, value_name = "HOW", help_heading = "Upstream as the source")]
    consistent_reads: ConsistentReads,
    /// Forward what this server does not answer as the client by impersonation, with this server's own credentials, which must have the right to impersonate
    /// users, groups, uids and userextras. Clients may then also come with certificates (--client-ca-file) and through a front proxy (--requestheader-...),
    /// which upstream does not see
    #[arg(long, help_heading = "Upstream as the source")]
    upstream_impersonate: bool,
    /// How long what upstream has said last of a token, and of what its user may read, counts on while upstream does not answer (Go duration); 0 = nobody is
    /// let in then
    #[arg(long, default_value = "1h", value_parser = duration::parse, value_name = "DURATION", help_heading = "Upstream as the source")]
    decisions_while_away: Duration,
    /// Whether upstream answers: one judgement for all that is asked of it.
    #[arg(skip)]
    presence: OnceLock<Arc<Presence>>,
}

/// An API server as the source of the objects.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where it is, and who we are there.
    pub kubeconfig: PathBuf,
    /// What is followed.
    pub policy: Policy,
    /// How a read is answered that asks for what upstream has now.
    pub consistent_reads: ConsistentReads,
}

impl ServeArgs {
    /// The kubeconfig file of the API server whose objects are served; none when they come from an etcd.
    pub(super) fn source_kubeconfig(&self) -> Option<PathBuf> {
        let is_upstream = self.source.source == From::Upstream;
        is_upstream.then(|| self.replica.kubeconfig().cloned().unwrap_or_else(|| PathBuf::from(SERVICE_ACCOUNT)))
    }
}

impl ServeArgs {
    /// Returns the kubeconfig file of the cluster that is asked about tokens and rights, and the flag that names it: this one, or that of a
    /// cluster that is extended or whose
    /// objects are served.
    pub(super) fn host_kubeconfig(&self, flag: &'static str, own: Option<&PathBuf>) -> Option<(&'static str, PathBuf)> {
        let own = own.map(|path| (flag, path.clone()));
        let extended = || self.aggregated.kubeconfig.clone().map(|path| ("--kubeconfig", path));
        own.or_else(extended).or_else(|| self.source_kubeconfig().map(|path| (SOURCE_FLAG, path)))
    }

    /// Whether the server answers that decides about tokens and rights, and how long its decisions count on while it does not.
    pub(super) fn presence(&self) -> Arc<Presence> {
        let counts_for = if self.source.source == From::Upstream { self.source.decisions_while_away } else { Duration::ZERO };
        self.source.presence.get_or_init(|| Arc::new(Presence::new(counts_for))).clone()
    }
}

/// Checks the flags; none when the objects come from an etcd.
pub(super) fn source(args: &ServeArgs) -> Result<Option<(Source, Replica)>, String> {
    let own = &args.source;
    let Some(kubeconfig) = args.source_kubeconfig() else {
        return match () {
            () if !own.resources.is_empty() => Err("--resources is for --source=upstream".to_owned()),
            () if own.upstream_impersonate => Err("--upstream-impersonate is for --source=upstream".to_owned()),
            () if args.etcd_servers.is_empty() && args.replica.is_asked() => {
                Err("--upstream-server and --upstream-kubeconfig need --etcd-servers, or --source=upstream".to_owned())
            }
            () => Ok(None),
        };
    };
    let own_keys = "tokens and certificates are judged by upstream, to which they are forwarded";
    let (impersonates, unseen) = (own.upstream_impersonate, "upstream would not see it: give --upstream-impersonate too");
    let unfit = [
        ("--etcd-servers", !args.etcd_servers.is_empty(), "the objects come from one of them"),
        ("--data-dir", args.data_dir.is_some(), "nothing is stored here"),
        ("--write-admin-kubeconfig", args.write_admin_kubeconfig.is_some(), "nothing is stored here"),
        ("--allow-writes", args.allow_writes, "all writes are forwarded"),
        ("--kubeconfig", args.aggregated.kubeconfig.is_some(), "a server extends a cluster or is in front of it"),
        ("--authorization-mode", !args.authorization_mode.is_empty(), "upstream decides who may do what"),
        ("--authorization-config", args.authorization_config.is_some(), "upstream decides who may do what"),
        ("--client-ca-file", args.client_ca_file.is_some() && !impersonates, unseen),
        ("--token-auth-file", args.token_auth_file.is_some(), own_keys),
        ("--service-account-key-file", !args.service_account_key_file.is_empty(), own_keys),
        ("--service-account-signing-key-file", args.service_account_signing_key_file.is_some(), own_keys),
        ("--requestheader-client-ca-file", args.requestheader_client_ca_file.is_some() && !impersonates, unseen),
        ("--enable-bootstrap-token-auth", args.enable_bootstrap_token_auth, own_keys),
    ];
    if let Some((flag, _, why)) = unfit.iter().find(|(_, is_given, _)| *is_given) {
        return Err(format!("{flag} is not for --source=upstream: {why}"));
    }
    args.replica.check_source()?;
    let wanted = |flag: &str, names: &[String]| {
        names.iter().map(|name| Wanted::parse(name.trim())).collect::<Result<Vec<_>, _>>().map_err(|why| format!("{flag}: {why}"))
    };
    let idle = own.resource_idle_timeout;
    if !idle.is_zero() && idle < IDLE_MIN {
        return Err(format!("--resource-idle-timeout: must be 0 or at least {IDLE_MIN:?}"));
    }
    let (all, names): (Vec<String>, Vec<String>) = own.resources.iter().cloned().partition(|name| name.trim() == "all");
    let policy = Policy {
        named: (!own.resources.is_empty()).then(|| wanted("--resources", &names)).transpose()?,
        all: !all.is_empty(),
        denied: wanted("--exclude-resources", args.replica.excluded())?,
        idle: (!idle.is_zero()).then_some(idle),
    };
    let replica = Replica::of_source(UpstreamServer::Kubeconfig(kubeconfig.clone()), impersonates);
    Ok(Some((Source { kubeconfig, policy, consistent_reads: own.consistent_reads }, replica)))
}
