//! The command line as typed: names, help texts and defaults, nothing checked. Does not know what a valid combination is.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use go::duration;

/// The program's command line.
#[derive(Debug, Parser)]
#[command(
    name = "watchcache",
    version,
    about = "The watch cache of a Kubernetes API server, as a program of its own",
    max_term_width = 120
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Answer the Kubernetes API: reads and watches from memory, writes to etcd or to a store of its own
    Serve(Box<ServeArgs>),
    /// Serve etcd's own gRPC API over the embedded store alone, on loopback
    Store(Box<StoreArgs>),
    /// Print the completions of a shell
    Completions {
        /// The shell that reads them
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Print a page of the manual, for `man`
    Man {
        /// The command whose page it is [default: the program's]
        #[arg(value_name = "COMMAND")]
        page: Option<Page>,
    },
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
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Flags of `watchcache serve`. Flags that mean what a kube-apiserver flag means carry its name (design §1).
#[derive(Args, Debug)]
pub(super) struct ServeArgs {
    /// etcd endpoints, comma separated: http://host:port or https://host:port [default: the embedded store]
    #[arg(long, value_delimiter = ',', value_name = "URL,...", help_heading = "etcd")]
    pub(super) etcd_servers: Vec<String>,
    /// Directory of the embedded store, made when absent; only without --etcd-servers [default: ./watchcache-data]
    #[arg(long, value_name = "DIR", conflicts_with = "etcd_servers", help_heading = "etcd")]
    pub(super) data_dir: Option<PathBuf>,
    /// Key prefix under which the API server keeps its objects
    #[arg(long, default_value = "/registry", value_name = "PREFIX", help_heading = "etcd")]
    pub(super) etcd_prefix: String,
    /// PEM file with the certificate authorities of etcd's own certificate; needed for https, for the system's authorities are not used
    #[arg(long, value_name = "FILE", help_heading = "etcd")]
    pub(super) etcd_cafile: Option<PathBuf>,
    /// PEM file with the client certificate shown to etcd; needs --etcd-keyfile
    #[arg(long, value_name = "FILE", help_heading = "etcd")]
    pub(super) etcd_certfile: Option<PathBuf>,
    /// PEM file with the key of --etcd-certfile
    #[arg(long, value_name = "FILE", help_heading = "etcd")]
    pub(super) etcd_keyfile: Option<PathBuf>,
    /// etcd user; needs --etcd-password-file
    #[arg(long, value_name = "NAME", help_heading = "etcd")]
    pub(super) etcd_username: Option<String>,
    /// File with the password of --etcd-username (one trailing newline is dropped)
    #[arg(long, value_name = "FILE", help_heading = "etcd")]
    pub(super) etcd_password_file: Option<PathBuf>,
    /// How often etcd, or the embedded store, is told to forget what is older, when no kube-apiserver does it (Go duration); 0 = never
    #[arg(long, default_value = "5m", value_parser = duration::parse, value_name = "DURATION", help_heading = "etcd")]
    pub(super) etcd_compaction_interval: Duration,
    /// Write even to an etcd that a kube-apiserver uses: such writes pass by its admission and validation
    #[arg(long, help_heading = "etcd")]
    pub(super) allow_writes: bool,

    /// Port of the plain HTTP listener on 127.0.0.1 and [::1], without authentication; 0 = off
    /// [default: 8001, or 0 when etcd is not on loopback or uses TLS or credentials]
    #[arg(long, value_name = "PORT", help_heading = "Listeners")]
    pub(super) insecure_port: Option<u16>,
    /// Address of the TLS listener
    #[arg(long, default_value = "0.0.0.0", value_name = "IP", help_heading = "Listeners")]
    pub(super) bind_address: IpAddr,
    /// Port of the TLS listener, often 6443; 0 = off
    #[arg(long, default_value_t = 0, value_name = "PORT", help_heading = "Listeners")]
    pub(super) secure_port: u16,
    /// PEM file with the TLS listener's certificate, then its intermediates
    #[arg(long, value_name = "FILE", help_heading = "Listeners")]
    pub(super) tls_cert_file: Option<PathBuf>,
    /// PEM file with the key of --tls-cert-file
    #[arg(long, value_name = "FILE", help_heading = "Listeners")]
    pub(super) tls_private_key_file: Option<PathBuf>,
    /// What the TLS listener tells browsers in Strict-Transport-Security, comma separated: max-age=SECONDS, includeSubDomains, preload
    #[arg(long, value_delimiter = ',', value_name = "DIRECTIVE,...", help_heading = "Listeners")]
    pub(super) strict_transport_security_directives: Vec<String>,
    /// Address under which other hosts find the TLS listener, for the endpoints of the Service default/kubernetes
    /// [default: --bind-address; when that is every address, the one of the default route]
    #[arg(long, value_name = "IP", help_heading = "Listeners")]
    pub(super) advertise_address: Option<IpAddr>,
    /// Range of the addresses of Services; its first one is that of the Service default/kubernetes
    #[arg(long, default_value = "10.0.0.0/24", value_name = "CIDR", help_heading = "Listeners")]
    pub(super) service_cluster_ip_range: String,

    /// PEM file with authorities of client certificates: CN becomes the user, each O a group
    #[arg(long, value_name = "FILE", help_heading = "Who may enter")]
    pub(super) client_ca_file: Option<PathBuf>,
    /// CSV file of bearer tokens: token,user,uid[,"group1,group2"]; read once at start
    #[arg(long, value_name = "FILE", help_heading = "Who may enter")]
    pub(super) token_auth_file: Option<PathBuf>,
    /// PEM files with keys that tokens of service accounts may be signed with: public keys, private keys or certificates
    /// [default: --service-account-signing-key-file]
    #[arg(long, value_name = "FILE", value_delimiter = ',', help_heading = "Who may enter")]
    pub(super) service_account_key_file: Vec<PathBuf>,
    /// PEM file with the private key that signs tokens of service accounts; on the embedded store one is made in the data directory
    #[arg(long, value_name = "FILE", help_heading = "Who may enter")]
    pub(super) service_account_signing_key_file: Option<PathBuf>,
    /// Issuers of tokens of service accounts, one or several; the first one issues
    #[arg(long, default_value = "https://kubernetes.default.svc", value_name = "URL", help_heading = "Who may enter")]
    pub(super) service_account_issuer: Vec<String>,
    /// Whom tokens must be for [default: the issuers]
    #[arg(long, value_delimiter = ',', value_name = "AUDIENCE,...", help_heading = "Who may enter")]
    pub(super) api_audiences: Vec<String>,
    /// Whether a legacy token must be in its Secret still
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Who may enter")]
    pub(super) service_account_lookup: bool,
    /// Whether tokens that kubelets ask for live a year, for clients that do not renew them in time
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Who may enter")]
    pub(super) service_account_extend_token_expiration: bool,
    /// Longest life of a token that is issued (Go duration); 0 = what is asked for, up to 2^32 seconds
    #[arg(long, default_value = "0s", value_parser = duration::parse, value_name = "DURATION", help_heading = "Who may enter")]
    pub(super) service_account_max_token_expiration: Duration,
    /// Where the keys of tokens are served, for /.well-known/openid-configuration [default: /openid/v1/jwks of this server]
    #[arg(long, value_name = "URL", help_heading = "Who may enter")]
    pub(super) service_account_jwks_uri: Option<String>,
    /// Whether Secrets of type bootstrap.kubernetes.io/token in kube-system are tokens
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Who may enter")]
    pub(super) enable_bootstrap_token_auth: bool,
    /// PEM file with authorities of a proxy in front, whose X-Remote-* headers say who the client is
    #[arg(long, value_name = "FILE", help_heading = "Who may enter")]
    pub(super) requestheader_client_ca_file: Option<PathBuf>,
    /// CNs of the proxy's certificate [default: any that its authority has signed]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", help_heading = "Who may enter")]
    pub(super) requestheader_allowed_names: Vec<String>,
    /// Headers that say the client's name; the first one with a value counts
    #[arg(long, default_value = "X-Remote-User", value_delimiter = ',', value_name = "HEADER,...", help_heading = "Who may enter")]
    pub(super) requestheader_username_headers: Vec<String>,
    /// Headers that say its uid
    #[arg(long, value_delimiter = ',', value_name = "HEADER,...", help_heading = "Who may enter")]
    pub(super) requestheader_uid_headers: Vec<String>,
    /// Headers that say its groups
    #[arg(long, default_value = "X-Remote-Group", value_delimiter = ',', value_name = "HEADER,...", help_heading = "Who may enter")]
    pub(super) requestheader_group_headers: Vec<String>,
    /// What headers begin with that say more about it
    #[arg(long, default_value = "X-Remote-Extra-", value_delimiter = ',', value_name = "PREFIX,...", help_heading = "Who may enter")]
    pub(super) requestheader_extra_headers_prefix: Vec<String>,
    /// Who decides what clients of the TLS listener may do, in this order: Node, RBAC, AlwaysAllow, AlwaysDeny
    #[arg(long, default_value = "RBAC", value_delimiter = ',', value_name = "MODE,...", help_heading = "Who may enter")]
    pub(super) authorization_mode: Vec<String>,
    /// Whether a watch ends with an ERROR event (403) when the right to it is taken away; kube-apiserver lets it go on until its time is over
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Who may enter")]
    pub(super) end_forbidden_watches: bool,
    /// Whether clients without credentials may ask, as user system:anonymous in group system:unauthenticated; never with AlwaysAllow
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", help_heading = "Who may enter")]
    pub(super) anonymous_auth: bool,

    /// Shortest length of a watch without timeoutSeconds, in seconds; each gets a random length from this to twice this
    #[arg(long, default_value_t = 1800, value_name = "SECONDS", help_heading = "Requests")]
    pub(super) min_request_timeout: u64,
    /// Turns features on or off, comma separated: ShardedListAndWatch=true|false (alpha, off: the parameter shardSelector)
    #[arg(long, value_delimiter = ',', value_name = "NAME=true|false,...", help_heading = "Requests")]
    pub(super) feature_gates: Vec<String>,
    /// Longest time of any request but a watch (Go duration: 60s, 1m30s)
    #[arg(long, default_value = "60s", value_parser = duration::parse, value_name = "DURATION", help_heading = "Requests")]
    pub(super) request_timeout: Duration,
    /// After SIGTERM, how long open requests and streams may take to end (Go duration)
    #[arg(long, default_value = "10s", value_parser = duration::parse, value_name = "DURATION", help_heading = "Requests")]
    pub(super) shutdown_timeout: Duration,

    /// Open connections, both listeners together; past it newcomers are closed, and first of all clients that have not proved who they are
    #[arg(long, default_value_t = 20_000, value_name = "COUNT", help_heading = "Connections")]
    pub(super) max_connections: usize,
    /// Requests and watches open at once on one HTTP/2 connection; clients open another connection past it
    #[arg(long, default_value_t = 250, value_name = "COUNT", help_heading = "Connections")]
    pub(super) http2_max_streams_per_connection: u32,
    /// Longest time until a client of the TLS listener has proved who it is, for the head of a request, and between two pieces of its body (Go duration)
    #[arg(long, default_value = "10s", value_parser = duration::parse, value_name = "DURATION", help_heading = "Connections")]
    pub(super) read_header_timeout: Duration,
    /// A connection without any open request is closed after this time (Go duration)
    #[arg(long, default_value = "90s", value_parser = duration::parse, value_name = "DURATION", help_heading = "Connections")]
    pub(super) idle_timeout: Duration,
    /// Longest head of a request (request line and headers, each header counted as 32 bytes at least), and what an HTTP/1.1 connection may hold unsent;
    /// past it 431, or 414 for a URI past 64 KiB; bytes, or with Ki, Mi, Gi
    #[arg(long, default_value = "128Ki", value_parser = bytes, value_name = "BYTES", help_heading = "Connections")]
    pub(super) max_header_bytes: u64,
    /// Bytes of answers that clients have not read, of all connections together; past it answers wait to be made; bytes, or with Ki, Mi, Gi
    #[arg(long, default_value = "512Mi", value_parser = bytes, value_name = "BYTES", help_heading = "Connections")]
    pub(super) unread_bytes_limit: u64,
    /// Bytes of request bodies that are on their way, of all connections together; past it requests get 429; bytes, or with Ki, Mi, Gi
    #[arg(long, default_value = "256Mi", value_parser = bytes, value_name = "BYTES", help_heading = "Connections")]
    pub(super) request_bodies_bytes_limit: u64,

    /// How many revisions before now the cache loads at, so that watches survive a restart of this server; 0 = load at now
    #[arg(long, default_value_t = 10_000, value_name = "REVISIONS", help_heading = "Memory")]
    pub(super) warm_start_revisions: u64,
    /// History kept for each resource, as bytes of objects that only history holds; bytes, or with Ki, Mi, Gi
    #[arg(long, default_value = "64Mi", value_parser = bytes, value_name = "BYTES", help_heading = "Memory")]
    pub(super) ring_bytes_limit: u64,
    /// History kept for each resource, in events
    #[arg(long, default_value_t = 102_400, value_name = "EVENTS", help_heading = "Memory")]
    pub(super) ring_events_limit: usize,
    /// Age that history reaches at least, as long as the two limits allow (Go duration)
    #[arg(long, default_value = "75s", value_parser = duration::parse, value_name = "DURATION", help_heading = "Memory")]
    pub(super) history_window: Duration,
    /// Changes that wait for one resource's cacher; past it that resource is relisted; bytes, or with Ki, Mi, Gi
    #[arg(long, default_value = "256Mi", value_parser = bytes, value_name = "BYTES", help_heading = "Memory")]
    pub(super) cacher_inbox_bytes_limit: u64,
    /// Compressed pieces of lists, kept for the next who list the same; bytes, or with Ki, Mi, Gi; 0 keeps none
    #[arg(long, default_value = "128Mi", value_parser = bytes, value_name = "BYTES", help_heading = "Memory")]
    pub(super) compressed_lists_bytes_limit: u64,
    /// Threads of the feed and the cachers, apart from those that serve; 0 = half of the cores, at least one
    #[arg(long, default_value_t = 0, value_name = "COUNT", help_heading = "Memory")]
    pub(super) feed_threads: usize,

    #[command(flatten)]
    pub(super) log: LogArgs,
}

/// Flags of `watchcache store`. Those that etcd has too carry its names.
#[derive(Args, Debug)]
pub(super) struct StoreArgs {
    /// Where to listen, comma separated: http://127.0.0.1:port, http://[::1]:port or http://localhost:port
    #[arg(long, value_delimiter = ',', default_value = "http://127.0.0.1:2379", value_name = "URL,...")]
    pub(super) listen_client_urls: Vec<String>,
    /// Directory of the store, made when absent
    #[arg(long, default_value = "./watchcache-data", value_name = "DIR")]
    pub(super) data_dir: PathBuf,
    /// History that is kept (Go duration); 0 = all of it, until a client compacts
    #[arg(long, default_value = "0", value_parser = duration::parse, value_name = "DURATION")]
    pub(super) auto_compaction_retention: Duration,
    /// How often a quiet watch that wants it is told how far the store is (Go duration)
    #[arg(long, default_value = "10m", value_parser = duration::parse, value_name = "DURATION")]
    pub(super) watch_progress_notify_interval: Duration,
    #[command(flatten)]
    pub(super) log: LogArgs,
}

/// Flags of the log.
#[derive(Args, Debug)]
pub(super) struct LogArgs {
    /// How a log line looks
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT", help_heading = "Log")]
    pub(super) log_format: LogFormat,
    /// Level, or directives: info, debug, info,watchcache::source=debug
    #[arg(long, default_value = "info", value_name = "LEVEL", help_heading = "Log")]
    pub(super) log_level: String,
    /// kube-apiserver's verbosity: 0 to 3 = info, 4 to 5 = debug, 6 and more = trace; --log-level is for more than that
    #[arg(long = "v", short = 'v', value_name = "NUMBER", conflicts_with = "log_level", help_heading = "Log")]
    pub(super) v: Option<u8>,
}

/// A number of bytes: digits, with an optional `Ki`, `Mi` or `Gi`.
fn bytes(text: &str) -> Result<u64, String> {
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
