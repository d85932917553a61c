//! The command line as typed: names, help texts and defaults, nothing checked.

#![allow(rustdoc::broken_intra_doc_links, reason = "the doc comments are the help texts, where [::1] is an address")]

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::aggregated::{AggregatedArgs, ManifestsArgs};
use super::audit::AuditArgs;
use super::keeping::StoreCommand;
use super::plain::{PlainArgs, Port, port};
use super::plugins::PluginArgs;
use super::replica::ReplicaArgs;
use super::source::SourceArgs;
use super::tls::named_pair;
use go::duration;
use server::NamedPair;

/// The program's command line.
#[derive(Debug, Parser)]
#[command(name = "watchcache", version, about = "The watch cache of a Kubernetes API server as a standalone program", max_term_width = 120)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve the Kubernetes API: reads and watches from memory, writes to etcd or to the embedded store
    Serve(Box<ServeArgs>),
    /// Serve only the embedded store, with etcd's gRPC API, on loopback; or save, restore, check or defragment one
    Store(Box<StoreArgs>),
    /// Make what a cluster needs to be extended by this server, as its APIServices say
    Aggregate(ManifestsArgs),
    /// Serve as kube-apiserver, with its flags, on the etcd that --etcd-servers names; the program does the same under the name kube-apiserver
    #[command(name = "kube-apiserver", disable_help_flag = true)]
    KubeApiserver(StandIn),
    /// Serve the embedded store as etcd, with its flags; the program does the same under the name etcd
    #[command(name = "etcd", disable_help_flag = true)]
    Etcd(StandIn),
    /// Make the folder for KUBEBUILDER_ASSETS, with this program as etcd and kube-apiserver, and print its path
    SetupEnvtest(SetupArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Print a manual page, for `man`
    Man {
        /// The command that the page describes [default: the program]
        #[arg(value_name = "COMMAND")]
        page: Option<Page>,
    },
}

/// The command line of another program, which is read before this one is.
#[derive(Args, Debug)]
pub(super) struct StandIn {
    /// Flags of that program; --help lists them, and what becomes of each
    #[arg(value_name = "FLAG", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(super) flags: Vec<String>,
}

/// Flags of `watchcache setup-envtest`.
#[derive(Args, Clone, Debug)]
pub(super) struct SetupArgs {
    /// The folder, created if it does not exist
    #[arg(value_name = "DIR", default_value = "./watchcache-envtest")]
    pub(super) dir: PathBuf,
    /// Copy this program instead of linking to it, for a folder that outlives it
    #[arg(long)]
    pub(super) copy: bool,
}

/// The shells that packages carry completions for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Fish,
    Zsh,
}

/// The commands with a page of their own.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Page {
    Serve,
    Store,
    Aggregate,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl From<LogFormat> for telemetry::LogFormat {
    fn from(typed: LogFormat) -> Self {
        match typed {
            LogFormat::Text => Self::Text,
            LogFormat::Json => Self::Json,
        }
    }
}

/// Flags of `watchcache serve`. Flags that mean what a kube-apiserver flag means carry its name.
#[derive(Args, Debug)]
pub(super) struct ServeArgs {
    /// etcd endpoints, comma separated: http://host:port or https://host:port [default: the embedded store]
    #[arg(long, value_delimiter = ',', value_name = "URL,...", help_heading = "etcd")]
    pub(super) etcd_servers: Vec<String>,
    /// Resources in an etcd of their own, comma separated: GROUP/RESOURCE#SERVERS, where servers are separated by semicolons
    /// (/events#http://etcd4:2379;http://etcd5:2379); the same as kube-apiserver's. They share prefix, certificates and user with --etcd-servers. Custom
    /// resources have none of their own
    #[arg(long, value_delimiter = ',', requires = "etcd_servers", value_name = "OVERRIDE,...", help_heading = "etcd")]
    pub(super) etcd_servers_overrides: Vec<String>,
    /// Directory of the embedded store, created if it does not exist; :memory: keeps everything in memory, until the end of the process; not with
    /// --etcd-servers [default: ./watchcache-data]
    #[arg(long, value_name = "DIR", conflicts_with = "etcd_servers", help_heading = "etcd")]
    pub(super) data_dir: Option<PathBuf>,
    /// Bytes of changes, a number or one with Ki, Mi or Gi, above which the embedded store refuses to put more until some are deleted and compacted; 0 = as
    /// many as the disk takes
    #[arg(long, default_value = "0", value_parser = bytes, value_name = "BYTES", conflicts_with = "etcd_servers", help_heading = "etcd")]
    pub(super) quota_backend_bytes: u64,
    /// Prefix of all keys of objects in etcd; the same as kube-apiserver's
    #[arg(long, default_value = "/registry", value_name = "PREFIX", help_heading = "etcd")]
    pub(super) etcd_prefix: String,
    /// PEM file with the certificate authorities that sign etcd's certificate; required for https, because the system's authorities are not used
    #[arg(long, value_name = "FILE", help_heading = "etcd")]
    pub(super) etcd_cafile: Option<PathBuf>,
    /// PEM file with the client certificate for etcd; needs --etcd-keyfile
    #[arg(long, value_name = "FILE", help_heading = "etcd")]
    pub(super) etcd_certfile: Option<PathBuf>,
    /// PEM file with the private key of --etcd-certfile
    #[arg(long, value_name = "FILE", help_heading = "etcd")]
    pub(super) etcd_keyfile: Option<PathBuf>,
    /// etcd user; needs --etcd-password-file
    #[arg(long, value_name = "NAME", help_heading = "etcd")]
    pub(super) etcd_username: Option<String>,
    /// File with the password of --etcd-username; one newline at its end is ignored
    #[arg(long, value_name = "FILE", help_heading = "etcd")]
    pub(super) etcd_password_file: Option<PathBuf>,
    /// Time between compactions of etcd or of the embedded store, when no kube-apiserver does them (Go duration); 0 = never compact
    #[arg(long, default_value = "5m", value_parser = duration::parse, value_name = "DURATION", help_heading = "etcd")]
    pub(super) etcd_compaction_interval: Duration,
    /// How long an Event is kept after its last write (Go duration); 0 = for ever
    #[arg(long, default_value = "1h", value_parser = duration::parse, value_name = "DURATION", help_heading = "etcd")]
    pub(super) event_ttl: Duration,
    /// Allow writes to an etcd that a kube-apiserver uses; they bypass its admission and validation
    #[arg(long, help_heading = "etcd")]
    pub(super) allow_writes: bool,
    /// Keep the condition Dangling of FlowSchemas, as a server does that schedules requests by them. This one limits requests by --max-requests-inflight alone
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Controllers")]
    pub(super) enable_priority_and_fairness: bool,
    /// Controllers of kube-controller-manager that this server runs itself, comma separated, as kube-controller-manager has it: * is all that are on by
    /// default, NAME that one, -NAME not that one; empty is none. They stand back while a kube-controller-manager holds its Lease, and never run on the etcd of
    /// a kube-apiserver
    #[arg(long, value_delimiter = ',', default_value = "*", value_name = "NAME,...", help_heading = "Controllers")]
    pub(super) controllers: Vec<String>,
    /// PEM file with the authorities that sign this server's certificate, for the ConfigMap kube-root-ca.crt of each namespace [default: the authority that
    /// --write-admin-kubeconfig has made]
    #[arg(long, value_name = "FILE", help_heading = "Controllers")]
    pub(super) root_ca_file: Option<PathBuf>,
    /// Serve stored objects that have fields of a release of Kubernetes newer than this server knows without these fields; who writes such an object as it was
    /// read deletes them
    #[arg(long, help_heading = "etcd")]
    pub(super) serve_unknown_fields: bool,

    #[command(flatten)]
    pub(super) plain: PlainArgs,
    /// Address on which the TLS listener listens
    #[arg(long, default_value = "0.0.0.0", value_name = "IP", help_heading = "Listeners")]
    pub(super) bind_address: IpAddr,
    /// Port of the TLS listener, often 6443; 0 = off, auto = one that is free
    #[arg(long, default_value = "0", value_parser = port, value_name = "PORT", help_heading = "Listeners")]
    pub(super) secure_port: Port,
    /// PEM file with the certificate of the TLS listener, followed by its intermediates. This and all other files of the TLS listener are read again when they
    /// change
    #[arg(long, value_name = "FILE", help_heading = "Listeners")]
    pub(super) tls_cert_file: Option<PathBuf>,
    /// PEM file with the private key of --tls-cert-file
    #[arg(long, value_name = "FILE", help_heading = "Listeners")]
    pub(super) tls_private_key_file: Option<PathBuf>,
    /// Directory in which a self-signed certificate of the TLS listener is made at the first start and kept: apiserver.crt and apiserver.key. Not used with
    /// --tls-cert-file
    #[arg(long, value_name = "DIR", help_heading = "Listeners")]
    pub(super) cert_dir: Option<PathBuf>,
    /// File to write, with credentials of an administrator for kubectl. Certificates for it and for the TLS listener are made in the data directory of the
    /// embedded store, and renewed there. With --tls-cert-file, that certificate is served, and the kubeconfig trusts what is in that file
    #[arg(long, value_name = "FILE", help_heading = "Listeners")]
    pub(super) write_admin_kubeconfig: Option<PathBuf>,
    /// A certificate and its key for clients that ask for these names: foo.crt,foo.key:*.foo.com,foo.com; without names, those of the certificate count.
    /// An IP address is for clients that come to it and ask for no name. A name counts before a wildcard, the flag's names before a certificate's.
    /// May be given several times; the first one counts
    #[arg(long, value_parser = named_pair, value_name = "CERT,KEY[:NAME,...]", help_heading = "Listeners")]
    pub(super) tls_sni_cert_key: Vec<NamedPair>,
    /// File with at least 32 secret bytes, with which clients resume TLS sessions at every server that has the same file, and after a restart. May be given
    /// several times: the first one makes tickets, all of them open tickets. Read again when it changes [default: sessions are resumed at one server and until
    /// its end]
    #[arg(long, value_name = "FILE", help_heading = "Listeners")]
    pub(super) tls_session_ticket_key_file: Vec<PathBuf>,
    /// Lowest version of TLS: VersionTLS12 or VersionTLS13 [default: VersionTLS12]
    #[arg(long, value_name = "VERSION", help_heading = "Listeners")]
    pub(super) tls_min_version: Option<String>,
    /// Cipher suites of TLS 1.2, by Go's names, comma separated; those of TLS 1.3 are always on [default: all that are supported]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", help_heading = "Listeners")]
    pub(super) tls_cipher_suites: Vec<String>,
    /// Directives of the header Strict-Transport-Security on the TLS listener, comma separated: max-age=SECONDS, includeSubDomains, preload
    /// [default: no header]
    #[arg(long, value_delimiter = ',', value_name = "DIRECTIVE,...", help_heading = "Listeners")]
    pub(super) strict_transport_security_directives: Vec<String>,
    /// Address of the TLS listener as other hosts reach it, for the endpoints of the Service default/kubernetes
    /// [default: --bind-address; if that is 0.0.0.0 or ::, the address of the default route]
    #[arg(long, value_name = "IP", help_heading = "Listeners")]
    pub(super) advertise_address: Option<IpAddr>,
    /// Range of the cluster IPs of Services, or two of different families, comma separated; the Service default/kubernetes gets the first address of the first
    /// one
    #[arg(long, default_value = "10.0.0.0/24", value_name = "CIDR[,CIDR]", help_heading = "Listeners")]
    pub(super) service_cluster_ip_range: String,
    /// Range of the node ports of Services, first and last one
    #[arg(long, default_value = "30000-32767", value_name = "PORT-PORT", help_heading = "Listeners")]
    pub(super) service_node_port_range: String,

    /// PEM file with the authorities that sign client certificates; CN becomes the user, each O a group
    #[arg(long, value_name = "FILE", help_heading = "Authentication and authorization")]
    pub(super) client_ca_file: Option<PathBuf>,
    /// CSV file with bearer tokens: token,user,uid[,"group1,group2"]
    #[arg(long, value_name = "FILE", help_heading = "Authentication and authorization")]
    pub(super) token_auth_file: Option<PathBuf>,
    /// PEM files with the keys that verify service account tokens, comma separated: public keys, private keys or certificates
    /// [default: --service-account-signing-key-file]
    #[arg(long, value_name = "FILE", value_delimiter = ',', help_heading = "Authentication and authorization")]
    pub(super) service_account_key_file: Vec<PathBuf>,
    /// PEM file with the private key that signs service account tokens
    /// [default: on the embedded store without --service-account-key-file, a key that is created in the data directory; otherwise no tokens are issued]
    #[arg(long, value_name = "FILE", help_heading = "Authentication and authorization")]
    pub(super) service_account_signing_key_file: Option<PathBuf>,
    /// Issuer of service account tokens; may be given several times: all are accepted, the first one is written into new tokens
    #[arg(long, default_value = "https://kubernetes.default.svc", value_name = "URL", help_heading = "Authentication and authorization")]
    pub(super) service_account_issuer: Vec<String>,
    /// Audiences of this server, comma separated; a token must be issued for one of them [default: --service-account-issuer]
    #[arg(long, value_delimiter = ',', value_name = "AUDIENCE,...", help_heading = "Authentication and authorization")]
    pub(super) api_audiences: Vec<String>,
    /// Whether a legacy service account token is accepted only while its Secret exists
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Authentication and authorization")]
    pub(super) service_account_lookup: bool,
    /// Whether tokens that kubelets request for Pods are valid for a year, for clients that do not renew them in time
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Authentication and authorization")]
    pub(super) service_account_extend_token_expiration: bool,
    /// Longest lifetime of an issued token (Go duration); 0 = as long as requested, up to 2^32 seconds
    #[arg(long, default_value = "0s", value_parser = duration::parse, value_name = "DURATION", help_heading = "Authentication and authorization")]
    pub(super) service_account_max_token_expiration: Duration,
    /// URL of the keys of service account tokens that /.well-known/openid-configuration names [default: /openid/v1/jwks of this server]
    #[arg(long, value_name = "URL", help_heading = "Authentication and authorization")]
    pub(super) service_account_jwks_uri: Option<String>,
    /// Whether Secrets of type bootstrap.kubernetes.io/token in kube-system are accepted as bearer tokens
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Authentication and authorization")]
    pub(super) enable_bootstrap_token_auth: bool,
    /// PEM file with the authorities that sign the certificate of a proxy in front; the X-Remote-* headers of that proxy name the user
    #[arg(long, value_name = "FILE", help_heading = "Authentication and authorization")]
    pub(super) requestheader_client_ca_file: Option<PathBuf>,
    /// Common names that the proxy's certificate may have, comma separated [default: any]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", help_heading = "Authentication and authorization")]
    pub(super) requestheader_allowed_names: Vec<String>,
    /// Headers with the user's name, comma separated; the first one with a value counts
    #[arg(
        long,
        default_value = "X-Remote-User",
        value_delimiter = ',',
        value_name = "HEADER,...",
        help_heading = "Authentication and authorization"
    )]
    pub(super) requestheader_username_headers: Vec<String>,
    /// Headers with the user's uid, comma separated [default: none]
    #[arg(long, value_delimiter = ',', value_name = "HEADER,...", help_heading = "Authentication and authorization")]
    pub(super) requestheader_uid_headers: Vec<String>,
    /// Headers with the user's groups, comma separated
    #[arg(
        long,
        default_value = "X-Remote-Group",
        value_delimiter = ',',
        value_name = "HEADER,...",
        help_heading = "Authentication and authorization"
    )]
    pub(super) requestheader_group_headers: Vec<String>,
    /// Prefixes of headers with extra facts about the user, comma separated
    #[arg(
        long,
        default_value = "X-Remote-Extra-",
        value_delimiter = ',',
        value_name = "PREFIX,...",
        help_heading = "Authentication and authorization"
    )]
    pub(super) requestheader_extra_headers_prefix: Vec<String>,
    /// URL of an OpenID provider whose tokens are accepted: the claim `iss`; https only
    #[arg(long, value_name = "URL", help_heading = "Authentication and authorization")]
    pub(super) oidc_issuer_url: Option<String>,
    /// Client id that the tokens of the OpenID provider must be for: the claim `aud`
    #[arg(long, value_name = "ID", help_heading = "Authentication and authorization")]
    pub(super) oidc_client_id: Option<String>,
    /// PEM file with the authorities that sign the OpenID provider's certificate [default: the system's authorities]
    #[arg(long, value_name = "FILE", help_heading = "Authentication and authorization")]
    pub(super) oidc_ca_file: Option<PathBuf>,
    /// Claim with the user's name [default: sub]
    #[arg(long, value_name = "CLAIM", help_heading = "Authentication and authorization")]
    pub(super) oidc_username_claim: Option<String>,
    /// Text before each user's name; - for none [default: the issuer and #, none for the claim email]
    #[arg(long, value_name = "TEXT", help_heading = "Authentication and authorization")]
    pub(super) oidc_username_prefix: Option<String>,
    /// Claim with the user's groups: a text or a list of texts [default: no groups]
    #[arg(long, value_name = "CLAIM", help_heading = "Authentication and authorization")]
    pub(super) oidc_groups_claim: Option<String>,
    /// Text before each group
    #[arg(long, value_name = "TEXT", help_heading = "Authentication and authorization")]
    pub(super) oidc_groups_prefix: Option<String>,
    /// Claim that tokens must have, with its value; may be given several times
    #[arg(long, value_name = "CLAIM=VALUE", help_heading = "Authentication and authorization")]
    pub(super) oidc_required_claim: Vec<String>,
    /// Algorithms that tokens of the OpenID provider may be signed with, comma separated: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512
    /// [default: RS256]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", help_heading = "Authentication and authorization")]
    pub(super) oidc_signing_algs: Vec<String>,
    /// File with an AuthenticationConfiguration (apiserver.config.k8s.io/v1): OpenID providers, instead of the --oidc-* flags, and who needs no credentials,
    /// instead of --anonymous-auth; read again when it changes. CEL expressions are not supported
    #[arg(long, value_name = "FILE", help_heading = "Authentication and authorization")]
    pub(super) authentication_config: Option<PathBuf>,
    /// Kubeconfig file of a cluster that this server extends: it is asked, with a TokenReview, whose a bearer token is that nobody here knows, and its
    /// ConfigMap kube-system/extension-apiserver-authentication says which client certificates and proxies are believed
    #[arg(long, value_name = "FILE", help_heading = "Authentication and authorization")]
    pub(super) authentication_kubeconfig: Option<PathBuf>,
    /// Whether the ConfigMap of --authentication-kubeconfig is not read
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Authentication and authorization")]
    pub(super) authentication_skip_lookup: bool,
    /// Whether the server starts when the ConfigMap of --authentication-kubeconfig cannot be read
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Authentication and authorization")]
    pub(super) authentication_tolerate_lookup_failure: bool,
    /// Kubeconfig file of a webhook that is asked, with a TokenReview, whose a bearer token is that nobody here knows
    #[arg(long, value_name = "FILE", help_heading = "Authentication and authorization")]
    pub(super) authentication_token_webhook_config_file: Option<PathBuf>,
    /// Version of the TokenReview that the webhook gets and answers: v1 or v1beta1
    #[arg(long, default_value = "v1beta1", value_name = "VERSION", help_heading = "Authentication and authorization")]
    pub(super) authentication_token_webhook_version: String,
    /// How long answers of the webhook are kept (Go duration)
    #[arg(long, default_value = "2m", value_parser = duration::parse, value_name = "DURATION", help_heading = "Authentication and authorization")]
    pub(super) authentication_token_webhook_cache_ttl: Duration,
    /// Authorizers of the TLS listener in the order in which they are asked, comma separated: Node, RBAC, Webhook, AlwaysAllow, AlwaysDeny [default: RBAC]
    #[arg(long, value_delimiter = ',', value_name = "MODE,...", help_heading = "Authentication and authorization")]
    pub(super) authorization_mode: Vec<String>,
    /// File with an AuthorizationConfiguration, instead of --authorization-mode and --authorization-webhook-*; read again when it changes
    #[arg(long, value_name = "FILE", help_heading = "Authentication and authorization")]
    pub(super) authorization_config: Option<PathBuf>,
    /// kubeconfig file of the webhook that --authorization-mode=Webhook asks
    #[arg(long, value_name = "FILE", help_heading = "Authentication and authorization")]
    pub(super) authorization_webhook_config_file: Option<PathBuf>,
    /// Version of the SubjectAccessReviews that the webhook gets: v1 or v1beta1 [default: v1beta1]
    #[arg(long, value_name = "VERSION", help_heading = "Authentication and authorization")]
    pub(super) authorization_webhook_version: Option<String>,
    /// How long a yes of a webhook counts (Go duration); 0 = once [default: 5m; with --authorization-kubeconfig 10s]
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", help_heading = "Authentication and authorization")]
    pub(super) authorization_webhook_cache_authorized_ttl: Option<Duration>,
    /// How long any other answer of a webhook counts (Go duration); 0 = once [default: 30s; with --authorization-kubeconfig 10s]
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", help_heading = "Authentication and authorization")]
    pub(super) authorization_webhook_cache_unauthorized_ttl: Option<Duration>,
    /// kubeconfig file of a host cluster whose kube-apiserver decides instead of --authorization-mode
    #[arg(long, value_name = "FILE", help_heading = "Authentication and authorization")]
    pub(super) authorization_kubeconfig: Option<PathBuf>,
    /// With --authorization-kubeconfig, paths that everyone may get, comma separated; * at the end stands for any text
    /// [default: /healthz,/readyz,/livez]
    #[arg(long, value_delimiter = ',', value_name = "PATH,...", help_heading = "Authentication and authorization")]
    pub(super) authorization_always_allow_paths: Vec<String>,
    /// Whether a watch ends with an ERROR event (403) when the user loses the right to it; kube-apiserver lets the watch go on
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Authentication and authorization")]
    pub(super) end_forbidden_watches: bool,
    /// Whether clients without credentials are the user system:anonymous in the group system:unauthenticated; never with AlwaysAllow [default: true]
    #[arg(long, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Authentication and authorization")]
    pub(super) anonymous_auth: Option<bool>,

    /// Shortest duration of a watch without timeoutSeconds, in seconds; each gets a random duration from this to twice this
    #[arg(long, default_value_t = 1800, value_name = "SECONDS", help_heading = "Requests")]
    pub(super) min_request_timeout: u64,
    /// How far memory may be behind etcd and still answer, when etcd does not answer or its changes come late: lists and GETs with a resourceVersion, and
    /// watches. Older: they are forwarded by a read replica, else refused (503). At least 5s [default: any age, as with kube-apiserver]
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", help_heading = "Requests")]
    pub(super) max_staleness: Option<Duration>,
    /// Features to turn on or off, comma separated, by kube-apiserver's names: ShardedListAndWatch=true|false (the parameter shardSelector; alpha, default
    /// false), ConstrainedImpersonation=true|false (the constrained verbs of impersonation; beta, default true),
    /// DRAResourceClaimGranularStatusAuthorization=true|false (rights to parts of a ResourceClaim's status; beta, default true),
    /// AllowUnsafeMalformedObjectDeletion=true|false (the parameter ignoreStoreReadErrorWithClusterBreakingPotential; alpha; by default it counts only for
    /// objects that cannot be read). Of the other gates of 1.36 only the default value is taken
    #[arg(long, value_delimiter = ',', value_name = "NAME=true|false,...", help_heading = "Requests")]
    pub(super) feature_gates: Vec<String>,
    /// Serve the page at /watchcache/, which shows this server from inside, and its API under /watchcache/api/v1/, to administrators, to the group
    /// system:monitoring and to whom a role names these paths
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Requests")]
    pub(super) page: bool,
    /// Longest duration of a request that is not a watch (Go duration: 60s, 1m30s)
    #[arg(long, default_value = "60s", value_parser = duration::parse, value_name = "DURATION", help_heading = "Requests")]
    pub(super) request_timeout: Duration,
    /// Most reads under way at once; more get 429. One user has at most seven times the places that are free, so that others always find one. Exempt are
    /// system:masters, health checks, and watches once they have begun; 0 = no limit
    #[arg(long, default_value_t = 400, value_name = "COUNT", help_heading = "Requests")]
    pub(super) max_requests_inflight: usize,
    /// The same for writes
    #[arg(long, default_value_t = 200, value_name = "COUNT", help_heading = "Requests")]
    pub(super) max_mutating_requests_inflight: usize,
    /// Most memory for open watches, all together, each counted as 10 KiB; above it, watches get 429. One user has at most seven times what is free, and those
    /// who have more than a thousandth of all leave a quarter to the others. Exempt are system:masters; in bytes, or with Ki, Mi, Gi
    #[arg(long, default_value = "4Gi", value_parser = bytes, value_name = "BYTES", help_heading = "Requests")]
    pub(super) watches_bytes_limit: u64,
    /// Longest time after SIGTERM until open requests and streams are cut (Go duration)
    #[arg(long, default_value = "10s", value_parser = duration::parse, value_name = "DURATION", help_heading = "Requests")]
    pub(super) shutdown_timeout: Duration,
    /// How long requests are still answered after SIGTERM, while /readyz fails already, so that balancers notice (Go duration)
    #[arg(long, default_value = "0s", value_parser = duration::parse, value_name = "DURATION", help_heading = "Requests")]
    pub(super) shutdown_delay_duration: Duration,

    /// Chance with which a request ends its HTTP/2 connection gently, so that clients spread over several servers: 0 to 0.02
    #[arg(long, default_value_t = 0.0, value_name = "FRACTION", help_heading = "Connections")]
    pub(super) goaway_chance: f64,
    /// Most open connections, both listeners together; when all are taken, unauthenticated clients are closed first, then new connections
    #[arg(long, default_value_t = 20_000, value_name = "COUNT", help_heading = "Connections")]
    pub(super) max_connections: usize,
    /// Most requests and watches open at once on one HTTP/2 connection; for more, clients open another connection
    #[arg(long, default_value_t = 250, value_name = "COUNT", help_heading = "Connections")]
    pub(super) http2_max_streams_per_connection: u32,
    /// How long watches that were just sent an event may wait at most for more, which then go out together: 40 us for each watch of the same, so few do not
    /// wait, and the first event after a rest never does (Go duration, 0s = do not wait)
    #[arg(long, default_value = "40ms", value_parser = duration::parse, value_name = "DURATION", help_heading = "Connections")]
    pub(super) watch_gather: Duration,
    /// Longest time until a client of the TLS listener is authenticated, for the head of a request, and between two pieces of its body (Go duration)
    #[arg(long, default_value = "10s", value_parser = duration::parse, value_name = "DURATION", help_heading = "Connections")]
    pub(super) read_header_timeout: Duration,
    /// Time after which a connection without open requests is closed (Go duration)
    #[arg(long, default_value = "90s", value_parser = duration::parse, value_name = "DURATION", help_heading = "Connections")]
    pub(super) idle_timeout: Duration,
    /// Largest head of a request: request line and headers, each header counted as at least 32 bytes; a larger one gets 431, a URI above 64 KiB 414.
    /// Also the most that an HTTP/1.1 connection buffers unsent; in bytes, or with Ki, Mi, Gi
    #[arg(long, default_value = "128Ki", value_parser = bytes, value_name = "BYTES", help_heading = "Connections")]
    pub(super) max_header_bytes: u64,
    /// Most memory for answers that clients have not read, all connections together; above it, a client gets no more before it reads; in bytes, or with Ki, Mi,
    /// Gi
    #[arg(long, default_value = "512Mi", value_parser = bytes, value_name = "BYTES", help_heading = "Connections")]
    pub(super) unread_bytes_limit: u64,
    /// Most memory for bodies of open requests, all connections together; above it, requests get 429; in bytes, or with Ki, Mi, Gi
    #[arg(long, default_value = "256Mi", value_parser = bytes, value_name = "BYTES", help_heading = "Connections")]
    pub(super) request_bodies_bytes_limit: u64,

    /// How far back the cache loads at the start, in revisions, so that watches resume after a restart of this server; 0 = load the newest revision
    #[arg(long, default_value_t = 10_000, value_name = "REVISIONS", help_heading = "Memory")]
    pub(super) warm_start_revisions: u64,
    /// Most history per resource, counted as the objects that only the history holds; in bytes, or with Ki, Mi, Gi
    #[arg(long, default_value = "64Mi", value_parser = bytes, value_name = "BYTES", help_heading = "Memory")]
    pub(super) ring_bytes_limit: u64,
    /// Most history per resource, in events
    #[arg(long, default_value_t = 102_400, value_name = "EVENTS", help_heading = "Memory")]
    pub(super) ring_events_limit: usize,
    /// Age up to which history is kept, if --ring-bytes-limit and --ring-events-limit allow (Go duration)
    #[arg(long, default_value = "75s", value_parser = duration::parse, value_name = "DURATION", help_heading = "Memory")]
    pub(super) history_window: Duration,
    /// Most changes that may wait for the cacher of one resource; above it, the resource is loaded anew; in bytes, or with Ki, Mi, Gi
    #[arg(long, default_value = "256Mi", value_parser = bytes, value_name = "BYTES", help_heading = "Memory")]
    pub(super) cacher_inbox_bytes_limit: u64,
    /// Most memory for compressed pieces of lists, which later lists of the same objects share; pieces that nobody asks for go after five to ten minutes; in
    /// bytes, or with Ki, Mi, Gi; 0 = keep none
    #[arg(long, default_value = "128Mi", value_parser = bytes, value_name = "BYTES", help_heading = "Memory")]
    pub(super) compressed_lists_bytes_limit: u64,
    /// Memory of the process (RSS) above which it does without what only saves time, in this order, until it is within: kept protobuf messages, compressed
    /// lists, snapshots and indexes, three quarters of the history, nearly all of it; in bytes, or with Ki, Mi, Gi; 0 = no budget
    #[arg(long, default_value = "0", value_parser = bytes, value_name = "BYTES", help_heading = "Memory")]
    pub(super) memory_budget: u64,
    /// Threads for the feed and the cachers, separate from those that serve requests; 0 = half of the cores, at least one
    #[arg(long, default_value_t = 0, value_name = "COUNT", help_heading = "Memory")]
    pub(super) feed_threads: usize,

    #[command(flatten)]
    pub(super) plugins: PluginArgs,
    #[command(flatten)]
    pub(super) audit: AuditArgs,
    #[command(flatten)]
    pub(super) replica: ReplicaArgs,
    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[command(flatten)]
    pub(super) aggregated: AggregatedArgs,
    #[command(flatten)]
    pub(super) log: LogArgs,
}

/// Flags of `watchcache store`. Those that etcd has too carry its names.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    pub(super) command: Option<StoreCommand>,
    /// Addresses to listen on, comma separated: http://127.0.0.1:port, http://[::1]:port or http://localhost:port
    #[arg(long, value_delimiter = ',', default_value = "http://127.0.0.1:2379", value_name = "URL,...")]
    pub(super) listen_client_urls: Vec<String>,
    /// Directory of the store, created if it does not exist; :memory: keeps everything in memory, until the end of the process
    #[arg(long, default_value = "./watchcache-data", value_name = "DIR")]
    pub(super) data_dir: PathBuf,
    /// Age of the history that is kept (Go duration); 0 = all of it, until a client compacts
    #[arg(long, default_value = "0", value_parser = duration::parse, value_name = "DURATION")]
    pub(super) auto_compaction_retention: Duration,
    /// Bytes of changes, a number or one with Ki, Mi or Gi, above which nothing is put until some are deleted and compacted; 0 = as many as the disk takes
    #[arg(long, default_value = "0", value_parser = bytes, value_name = "BYTES")]
    pub(super) quota_backend_bytes: u64,
    /// Time between progress notifications on a quiet watch that asked for them (Go duration)
    #[arg(long, default_value = "10m", value_parser = duration::parse, value_name = "DURATION")]
    pub(super) watch_progress_notify_interval: Duration,
    #[command(flatten)]
    pub(super) log: LogArgs,
}

/// Flags of the log.
#[derive(Args, Debug)]
pub(super) struct LogArgs {
    /// Format of log lines
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT", help_heading = "Log")]
    pub(super) log_format: LogFormat,
    /// Log level, or comma separated directives: info, debug, info,watchcache_cache::source=debug
    #[arg(long, default_value = "info", value_name = "LEVEL", help_heading = "Log")]
    pub(super) log_level: String,
    /// Log level as kube-apiserver's verbosity: 0 to 2 = info, 3 = info and a line for each request, 4 to 5 = debug, 6 and more = trace
    #[arg(long = "v", short = 'v', value_name = "NUMBER", conflicts_with = "log_level", help_heading = "Log")]
    pub(super) v: Option<u8>,
}

/// A number of bytes: digits, with an optional `Ki`, `Mi` or `Gi`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let factor: u64 = match unit {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err("not a number of bytes: digits, then nothing, Ki, Mi or Gi".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "not a number of bytes: digits, then nothing, Ki, Mi or Gi".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "too many bytes for 64 bits".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bytes_have_binary_units() {
        assert_eq!(bytes("64Mi"), Ok(64 << 20));
        assert_eq!(bytes("12"), Ok(12));
        assert!(bytes("Mi").is_err());
        assert!(bytes("1MB").is_err());
        assert!(bytes("99999999999Gi").is_err());
    }
}
