//! `Args` as typed become a checked `Config`, once; every flag with its unit, default and range. Opens no socket and reads only the password file.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use auth::authn;
use clap::{CommandFactory, FromArgMatches};

mod admission_file;
mod aggregated;
mod args;
mod audit;
mod authorization;
mod etcd_program;
mod flags;
mod gates;
mod keeping;
mod kube_apiserver;
pub mod overrides;
mod pages;
mod pflag;
mod plain;
mod plugins;
mod providers;
mod replica;
mod secure;
mod services;
mod source;
mod stand_in;
mod store;
mod tls;
mod tokens;

use admission::plugins::Plugins;
pub use aggregated::{Aggregated, Manifests};
use apiserver::settings::{Callers, Gates, MaxInflight, Times};
use args::{Cli, Command, LogArgs, ServeArgs};
pub use audit::Audit;
use auth::access::settings::{Authorization, Mode};
use auth::providers::settings::Providers;
use controllers::Selection;
pub use keeping::{StoreCommand, Which};
use plain::Port;
pub use replica::{Replica, UpstreamServer};
pub use secure::{Admin, Advertise, ClusterAddresses, SecureListener, SelfSigned};
use server::{Binding, Limits};
pub use services::Services;
pub use source::{ConsistentReads, SOURCE_FLAG, Source};
pub use store::{Embedded, StoreAlone};
use telemetry::Log;
pub use tokens::TokenIssuer;

/// What the command line asks for.
#[derive(Clone, Debug)]
pub enum Invocation {
    /// `watchcache serve`.
    Serve(Box<Config>),
    /// `watchcache store`.
    Store(StoreAlone),
    /// `watchcache store backup` and the like.
    Keep(StoreCommand),
    /// `watchcache aggregate`.
    Aggregate(Manifests),
    /// `watchcache setup-envtest`.
    SetupEnvtest(EnvtestAssets),
}

/// The folder of the programs that envtest starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvtestAssets {
    /// Where it is.
    pub dir: PathBuf,
    /// Whether this program is copied rather than linked to.
    pub copies: bool,
}

/// Everything `watchcache serve` runs with; nothing behind this checks again.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the objects come from.
    pub etcd: Etcd,
    /// The store in this process, when neither an etcd is named nor another source.
    pub embedded: Option<Embedded>,
    /// An API server that the objects come from instead of an etcd.
    pub source: Option<Source>,
    /// Where clients come in.
    pub listeners: Listeners,
    /// The addresses of Services.
    pub cluster_addresses: ClusterAddresses,
    /// How clients on the TLS listener prove who they are.
    pub auth: authn::Config,
    /// Whom to ask whose a token is that nobody here knows.
    pub providers: Providers,
    /// Who issues tokens of service accounts.
    pub issuer: TokenIssuer,
    /// What they may do then.
    pub authorization: Authorization,
    /// Which requests are written down, and where; none for no audit log.
    pub audit: Option<Audit>,
    /// Who answers what this server does not; nobody when it is no replica.
    pub replica: Option<Replica>,
    /// The cluster that this server extends; none when it stands alone or is a replica.
    pub aggregated: Option<Aggregated>,
    /// The controllers of kube-controller-manager that this server runs itself.
    pub controllers: Selection,
    /// Keep the condition `Dangling` of FlowSchemas.
    pub keeps_flow_conditions: bool,
    /// PEM file with the authorities of `kube-root-ca.crt`; none for the one that was made.
    pub root_ca_file: Option<PathBuf>,
    /// What Services get their addresses and ports from.
    pub services: Services,
    /// How many requests there may be at once.
    pub inflight: MaxInflight,
    /// How long things may take.
    pub times: Times,
    /// What one connection, and all of them, may use.
    pub connections: Limits,
    /// What the cache may use.
    pub memory: Memory,
    /// What is served only when asked for.
    pub gates: Gates,
    /// What changes and judges objects that are written.
    pub plugins: Plugins,
    /// Whether there is the page at `/watchcache/`.
    pub page: bool,
    /// Values with fields that are not known are served, and changed, without them.
    pub serve_unknown_fields: bool,
    /// The flags as typed, and defaults, sorted by name.
    pub flags: Vec<(String, String)>,
    /// Flags of kube-apiserver that were given and change nothing.
    pub ignored_flags: Vec<String>,
    pub log: Log,
    /// What the operator should know about this combination, one line each; `app` logs them at start.
    pub warnings: Vec<String>,
}

/// The etcd cluster and how to reach it.
#[derive(Clone)]
pub struct Etcd {
    /// Endpoints, each `http://…` or `https://…`, without a trailing slash; none with the embedded store.
    pub servers: Vec<String>,
    /// Resources that are in an etcd of their own, in the order in which they were given: later ones count.
    pub overrides: Vec<overrides::Override>,
    /// Key prefix, with a leading and without a trailing slash (`/registry`).
    pub prefix: String,
    /// PEM file of the authorities that sign etcd's certificate; the system's when absent.
    pub ca_file: Option<PathBuf>,
    /// PEM files of our client certificate and its key.
    pub client_cert: Option<(PathBuf, PathBuf)>,
    /// User and password.
    pub login: Option<(String, String)>,
    /// How often etcd is compacted, when no kube-apiserver does it; zero never. Default 5 min, kube-apiserver's (spec list-watch §10).
    pub compaction_interval: Duration,
    /// How long Events are kept after their last write; zero for ever. Default an hour, kube-apiserver's.
    pub event_ttl: Duration,
    /// Writes are done although a kube-apiserver uses this etcd.
    pub allow_writes: bool,
}

/// The two listeners. At least one is open.
#[derive(Clone, Debug, Default)]
pub struct Listeners {
    /// Port of the plain listener, 0 for one that is free; `None` = shut.
    pub insecure_port: Option<u16>,
    /// Where the plain listener listens; none for loopback.
    pub insecure_address: Option<IpAddr>,
    /// Whom the plain listener lets in, and whose pages may use the API.
    pub callers: Callers,
    pub secure: Option<SecureListener>,
    /// What is written when the server is ready.
    pub port_file: Option<PathBuf>,
}

impl Listeners {
    /// Returns where the server listens; the plain listener on IPv4 first.
    #[must_use]
    pub fn binding(&self) -> Binding {
        let loopback = || vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        Binding {
            secure: self.secure.as_ref().map(|listener| listener.address),
            plain: self.insecure_address.map_or_else(loopback, |address| vec![address]),
            plain_port: self.insecure_port,
        }
    }
}

/// The least `--memory-budget`, bytes: an empty server takes 27 MB (docs/performance.md, Compare).
const MEMORY_BUDGET_MIN: u64 = 32 << 20;

/// The longest `--watch-gather`: clients' own timers are seconds.
const WATCH_GATHER_MAX: Duration = Duration::from_secs(1);
/// The least `--max-staleness`: a healthy memory is a second or two old, and counts as behind from here on.
const MAX_STALENESS_MIN: Duration = Duration::from_secs(5);

/// Limits of the cache.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Longest pause between two wakes of watches that ask for the same, at most a second. Default 40 ms: a thousand watches take them ([`Pause`]).
    ///
    /// [`Pause`]: cache::dispatch::Pause
    pub watch_gather: Duration,
    /// How far before now the load starts. Default 10,000 revisions.
    pub warm_start_revisions: u64,
    /// Bytes that only the ring of one resource holds. Default 64 MiB.
    pub ring_bytes_limit: u64,
    /// Events in the ring of one resource. Default 102,400, kube-apiserver's (spec list-watch §0.2).
    pub ring_events_limit: usize,
    /// Age the ring reaches at least while the two limits allow it. Default 75 s, kube-apiserver's (spec list-watch §0.2).
    pub history_window: Duration,
    /// Bytes of changes waiting for one cacher; past it the resource is reset alone. Default 256 MiB.
    pub cacher_inbox_bytes_limit: u64,
    /// Bytes of compressed pieces of lists, of all resources together, that are kept for whoever lists the same. Default 128 MiB: lists of 300,000 objects
    /// of 1.5 KB (docs/performance.md, Forms).
    pub compressed_lists_bytes_limit: u64,
    /// Resident bytes above which the process does without what only saves time. Default: none.
    pub budget: Option<u64>,
    /// Threads of the runtime of feed and cachers; at least 1. Default half of the cores.
    pub feed_threads: usize,
}

/// Why there is no `Config`.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// A text was asked for (`--help`, `--version`, completions, the manual): print it to stdout and end with 0.
    Asked(String),
    /// One line for stderr; end with 2.
    Wrong(String),
    /// What a program that this one stands in for says on stderr; end as it does.
    AsThere { text: String, code: u8 },
}

impl Invocation {
    /// Reads a command line (first element: the program's name).
    ///
    /// # Errors
    /// `Stop` says what to print and how to end.
    pub fn from_command_line<I: IntoIterator<Item: Into<OsString> + Clone>>(line: I) -> Result<Self, Stop> {
        let line: Vec<OsString> = line.into_iter().map(Into::into).collect();
        if let Some(stand_in) = stand_in::of(&line) {
            return stand_in.invocation();
        }
        Self::from_own_line(line)
    }

    /// The same of a command line that is no other program's.
    fn from_own_line<I: IntoIterator<Item: Into<OsString> + Clone>>(line: I) -> Result<Self, Stop> {
        let matches = Cli::command().try_get_matches_from(line).map_err(|error| stop(&error))?;
        let cli = Cli::from_arg_matches(&matches).map_err(|error| stop(&error))?;
        let checked = match cli.command {
            Command::Serve(args) => check(*args, flags::of_serve(&matches)).map(|config| Self::Serve(Box::new(config))),
            Command::Store(args) => match args.command {
                Some(command) => Ok(Self::Keep(command)),
                None => store::check(*args).map(Self::Store),
            },
            Command::Aggregate(args) => aggregated::manifests(args).map(Self::Aggregate),
            // Their command lines are read before.
            Command::KubeApiserver(args) | Command::Etcd(args) => {
                Err(format!("{}: give the name of the program first", args.flags.join(" ")))
            }
            Command::SetupEnvtest(args) => Ok(Self::SetupEnvtest(EnvtestAssets { dir: args.dir, copies: args.copy })),
            Command::Completions { shell } => return Err(Stop::Asked(pages::completions(shell))),
            Command::Man { page } => return Err(Stop::Asked(pages::manual(page))),
        };
        checked.map_err(Stop::Wrong)
    }

    #[must_use]
    /// Settings of the log of a command that has one.
    pub fn log(&self) -> Option<&Log> {
        match self {
            Self::Serve(config) => Some(&config.log),
            Self::Store(config) => Some(&config.log),
            Self::Keep(_) | Self::Aggregate(_) | Self::SetupEnvtest(_) => None,
        }
    }
}

/// Deliberately silent about the password.
impl std::fmt::Debug for Etcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Etcd")
            .field("servers", &self.servers)
            .field("overrides", &self.overrides)
            .field("prefix", &self.prefix)
            .field("ca_file", &self.ca_file)
            .field("client_cert", &self.client_cert)
            .field("event_ttl", &self.event_ttl)
            .field("user", &self.login.as_ref().map(|(user, _)| user))
            .finish()
    }
}

/// clap's message as one line: what is wrong and the hint, without usage and pointers to `--help`.
fn stop(error: &clap::Error) -> Stop {
    use clap::error::ErrorKind;
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Stop::Asked(text),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => Stop::Wrong(
            "a command is needed: watchcache serve, watchcache store or watchcache aggregate (see watchcache --help)".to_owned(),
        ),
        _ => {
            let said = text.split("\n\nUsage:").next().unwrap_or(&text).split("\n\nFor more information").next().unwrap_or(&text);
            let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
            Stop::Wrong(line.strip_prefix("error: ").unwrap_or(&line).to_owned())
        }
    }
}

fn check(mut args: ServeArgs, flags: Vec<(String, String)>) -> Result<Config, String> {
    let mut warnings = Vec::new();
    let controllers = Selection::parse(&args.controllers).map_err(|why| format!("--controllers: {why}"))?;
    let plugins = args.plugins.chosen(&controllers, &mut warnings)?;
    let (source, of_source) = source::source(&args)?.unzip();
    let in_memory = store::in_memory(&mut args.data_dir);
    let authorization = authorization::authorization(&args)?;
    let etcd = etcd(&args)?;
    let providers = providers::providers(&args)?;
    let auth = tokens::authenticators(&args, &authorization, &providers);
    let issuer = tokens::issuer(&args, etcd.servers.is_empty() && source.is_none() && args.aggregated.kubeconfig.is_none());
    let cluster_addresses = secure::cluster_addresses(&args.service_cluster_ip_range)?;
    let listeners = listeners(&args, &etcd, (&auth, &issuer), cluster_addresses.first, &mut warnings)?;
    if listeners.secure.is_some() {
        if authorization.modes.contains(&Mode::AlwaysAllow) {
            warnings
                .push("--authorization-mode=AlwaysAllow: every authenticated client may read and write everything, Secrets too".to_owned());
        }
    } else if auth.client_ca_file.is_some() || auth.token_file.is_some() {
        return Err("--client-ca-file and --token-auth-file are for the TLS listener: give --secure-port too".to_owned());
    }
    let audit = audit::audit(&args.audit, &mut warnings)?;
    let admits = replica::Admits {
        modes: &authorization.modes,
        has_account_keys: auth.accounts.as_ref().is_some_and(|accounts| !accounts.key_files.is_empty()),
        has_token_webhook: providers.webhook.is_some(),
        has_client_ca: auth.client_ca_file.is_some(),
        is_secure: listeners.secure.is_some(),
    };
    let replica = match of_source {
        Some(replica) => Some(replica),
        None => replica::replica(&args.replica, args.allow_writes, &admits, &mut warnings)?,
    };
    Ok(Config {
        embedded: (etcd.servers.is_empty() && source.is_none()).then(|| Embedded { in_memory, ..store::embedded(&args) }),
        source,
        etcd,
        listeners,
        cluster_addresses,
        auth,
        providers,
        issuer,
        authorization,
        audit,
        replica,
        aggregated: args.aggregated.aggregated(),
        controllers,
        keeps_flow_conditions: args.enable_priority_and_fairness,
        root_ca_file: args.root_ca_file.clone(),
        services: services::services(&args.service_cluster_ip_range, &args.service_node_port_range)?,
        inflight: MaxInflight {
            reads: args.max_requests_inflight,
            writes: args.max_mutating_requests_inflight,
            watches_bytes: between("--watches-bytes-limit", args.watches_bytes_limit, 1 << 20, 1 << 44)? as usize,
        },
        times: Times {
            min_watch: Duration::from_secs(between("--min-request-timeout", args.min_request_timeout, 1, 30 * 86_400)?),
            request: not_zero("--request-timeout", args.request_timeout)?,
            shutdown_delay: args.shutdown_delay_duration,
            shutdown: args.shutdown_timeout,
            max_staleness: args.max_staleness.map(max_staleness).transpose()?,
        },
        connections: Limits {
            count_max: between("--max-connections", args.max_connections, 1, 1_000_000)?,
            goaway_chance: goaway_chance(args.goaway_chance)?,
            streams_max: between("--http2-max-streams-per-connection", args.http2_max_streams_per_connection, 1, 100_000)?,
            header_timeout: not_zero("--read-header-timeout", args.read_header_timeout)?,
            idle_timeout: not_zero("--idle-timeout", args.idle_timeout)?,
            // hyper refuses a smaller buffer than 8 KiB; the upper end keeps max_connections × this within reason.
            header_bytes_max: between("--max-header-bytes", args.max_header_bytes, 8 << 10, 64 << 20)? as usize,
            unread_max: not_zero("--request-timeout", args.request_timeout)?,
            unread_bytes_max: between("--unread-bytes-limit", args.unread_bytes_limit, 1 << 20, 1 << 40)? as usize,
            bodies_bytes_max: between("--request-bodies-bytes-limit", args.request_bodies_bytes_limit, 1 << 20, 1 << 40)? as usize,
        },
        memory: Memory {
            watch_gather: watch_gather(args.watch_gather)?,
            warm_start_revisions: args.warm_start_revisions,
            ring_bytes_limit: between("--ring-bytes-limit", args.ring_bytes_limit, 64 << 10, 1 << 40)?,
            ring_events_limit: between("--ring-events-limit", args.ring_events_limit, 100, 100_000_000)?,
            history_window: not_zero("--history-window", args.history_window)?,
            // An etcd response may carry 2 MiB of one transaction, and several of them: less would relist under ordinary load.
            cacher_inbox_bytes_limit: between("--cacher-inbox-bytes-limit", args.cacher_inbox_bytes_limit, 4 << 20, 1 << 40)?,
            compressed_lists_bytes_limit: between("--compressed-lists-bytes-limit", args.compressed_lists_bytes_limit, 0, 1 << 40)?,
            budget: memory_budget(args.memory_budget)?,
            feed_threads: feed_threads(args.feed_threads)?,
        },
        gates: gates::gates(&args.feature_gates)?,
        plugins,
        page: args.page,
        serve_unknown_fields: args.serve_unknown_fields,
        flags,
        ignored_flags: Vec::new(),
        log: log(&args.log)?,
        warnings,
    })
}

fn watch_gather(pause: Duration) -> Result<Duration, String> {
    if pause <= WATCH_GATHER_MAX { Ok(pause) } else { Err(format!("--watch-gather: must be at most {WATCH_GATHER_MAX:?}")) }
}

fn max_staleness(most: Duration) -> Result<Duration, String> {
    if most >= MAX_STALENESS_MIN { Ok(most) } else { Err(format!("--max-staleness: must be at least {MAX_STALENESS_MIN:?}")) }
}

fn memory_budget(bytes: u64) -> Result<Option<u64>, String> {
    if bytes == 0 { Ok(None) } else { between("--memory-budget", bytes, MEMORY_BUDGET_MIN, 1 << 44).map(Some) }
}

/// kube-apiserver's range and words.
fn goaway_chance(chance: f64) -> Result<f64, String> {
    if (0.0..=0.02).contains(&chance) { Ok(chance) } else { Err("--goaway-chance can not be less than 0 or greater than 0.02".to_owned()) }
}

fn etcd(args: &ServeArgs) -> Result<Etcd, String> {
    let servers: Vec<String> = args.etcd_servers.iter().map(|url| url.trim().trim_end_matches('/').to_owned()).collect();
    for (server, typed) in servers.iter().zip(&args.etcd_servers) {
        if host_of(server).is_none() {
            return Err(format!("--etcd-servers: {typed:?} is not http://host:port or https://host:port"));
        }
    }
    let overrides = overrides::overrides(&args.etcd_servers_overrides)?;
    let tls = servers.iter().filter(|url| url.starts_with("https://")).count();
    if tls != 0 && tls != servers.len() {
        return Err("--etcd-servers mixes http and https".to_owned());
    }
    let files = args.etcd_cafile.is_some() || args.etcd_certfile.is_some() || args.etcd_keyfile.is_some();
    let tls_apart = overrides.iter().flat_map(|apart| &apart.servers).any(|url| url.starts_with("https://"));
    if tls == 0 && !tls_apart && files {
        return Err("--etcd-cafile, --etcd-certfile and --etcd-keyfile need https:// in --etcd-servers".to_owned());
    }
    let prefix = args.etcd_prefix.trim_matches('/');
    if prefix.is_empty() || prefix.contains("//") {
        return Err(format!("--etcd-prefix: {:?} names no prefix", args.etcd_prefix));
    }
    Ok(Etcd {
        servers,
        overrides,
        prefix: format!("/{prefix}"),
        ca_file: args.etcd_cafile.clone(),
        client_cert: both("--etcd-certfile", args.etcd_certfile.clone(), "--etcd-keyfile", args.etcd_keyfile.clone())?,
        login: login(args)?,
        compaction_interval: args.etcd_compaction_interval,
        event_ttl: args.event_ttl,
        allow_writes: args.allow_writes,
    })
}

fn login(args: &ServeArgs) -> Result<Option<(String, String)>, String> {
    let pair = both("--etcd-username", args.etcd_username.clone(), "--etcd-password-file", args.etcd_password_file.clone())?;
    let Some((user, file)) = pair else { return Ok(None) };
    let text = std::fs::read_to_string(&file).map_err(|error| format!("--etcd-password-file {}: {error}", file.display()))?;
    let password = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    if password.is_empty() {
        return Err(format!("--etcd-password-file {}: empty", file.display()));
    }
    Ok(Some((user, password.to_owned())))
}

fn listeners(
    args: &ServeArgs,
    etcd: &Etcd,
    auth: (&authn::Config, &TokenIssuer),
    service: IpAddr,
    warnings: &mut Vec<String>,
) -> Result<Listeners, String> {
    let of_source =
        args.source_kubeconfig().is_some().then(|| "the objects are a cluster's, whose API server decides who may use them".to_owned());
    let of_a_cluster = args.replica.is_asked().then_some("is a cluster's, to whose kube-apiserver requests are forwarded");
    let of_host = args.aggregated.kubeconfig.is_some().then_some("has resources of a cluster, which decides who may use them");
    let exposed = of_source.or_else(|| exposure(etcd).or(of_a_cluster).or(of_host).map(|why| format!("etcd {why}")));
    let insecure_port = match (args.plain.insecure_port.map(Port::bound), &exposed) {
        (Some(None), _) => None,
        (Some(Some(port)), Some(why)) => {
            let port_text = if port == 0 { "auto".to_owned() } else { port.to_string() };
            warnings.push(format!("--insecure-port={port_text}: every local user may read and write everything, although {why}"));
            Some(port)
        }
        (Some(Some(port)), None) => Some(port),
        (None, Some(_)) => None,
        (None, None) => Some(8001),
    };
    let secure = secure::check(args, auth, service, warnings)?;
    match (insecure_port, &secure) {
        (None, None) => Err(match exposed.filter(|_| args.plain.insecure_port.is_none()) {
            Some(why) => format!("no listener is open: the plain one is off because {why}; give --secure-port, or --insecure-port"),
            None => "no listener is open: give --insecure-port or --secure-port".to_owned(),
        }),
        (Some(port), Some(listener)) if port != 0 && listener.address.port() == port => {
            Err(format!("--insecure-port and --secure-port are both {port}: give them different ports"))
        }
        _ => Ok(Listeners {
            insecure_port,
            insecure_address: args.plain.insecure_bind_address,
            callers: plain::callers(&args.plain, insecure_port.is_some(), warnings)?,
            secure,
            port_file: args.plain.port_file.clone(),
        }),
    }
}

/// Why a listener without authentication would hand out what etcd itself protects.
fn exposure(etcd: &Etcd) -> Option<&'static str> {
    if etcd.login.is_some() {
        return Some("asks for a password");
    }
    let servers = || etcd.servers.iter().chain(etcd.overrides.iter().flat_map(|apart| &apart.servers));
    if servers().any(|url| url.starts_with("https://")) {
        return Some("uses TLS");
    }
    if servers().any(|url| host_of(url).is_none_or(|host| !is_loopback(host))) {
        return Some("is not on loopback");
    }
    None
}

/// The host of `http(s)://host[:port]`; `None` when it is not of that form.
fn host_of(url: &str) -> Option<&str> {
    let authority = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port_fits = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port != 0));
    let host_fits = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b));
    (port_fits && host_fits).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn log(args: &LogArgs) -> Result<Log, String> {
    let directives = match args.v {
        None => args.log_level.clone(),
        Some(0..=2) => "info".to_owned(),
        Some(3) => "info,watchcache_apiserver::request_log=debug".to_owned(),
        Some(4..=5) => "info,watchcache=debug".to_owned(),
        Some(_) => "info,watchcache=trace".to_owned(),
    };
    if let Err(error) = tracing_subscriber::EnvFilter::try_new(&directives) {
        return Err(format!("--log-level {directives:?}: {error}"));
    }
    Ok(Log { format: args.log_format.into(), directives })
}

fn feed_threads(asked: usize) -> Result<usize, String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if asked == 0 { Ok((cores / 2).max(1)) } else { between("--feed-threads", asked, 1, 1_024) }
}

fn both<A, B>(a_flag: &str, a: Option<A>, b_flag: &str, b: Option<B>) -> Result<Option<(A, B)>, String> {
    match (a, b) {
        (Some(a), Some(b)) => Ok(Some((a, b))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(format!("{a_flag} needs {b_flag}")),
        (None, Some(_)) => Err(format!("{b_flag} needs {a_flag}")),
    }
}

fn between<N: PartialOrd + std::fmt::Display>(flag: &str, value: N, least: N, most: N) -> Result<N, String> {
    if value < least || value > most { Err(format!("{flag} {value}: must be from {least} to {most}")) } else { Ok(value) }
}

fn not_zero(flag: &str, value: Duration) -> Result<Duration, String> {
    if value.is_zero() { Err(format!("{flag}: must be more than 0")) } else { Ok(value) }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
