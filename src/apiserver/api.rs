//! What requests are answered with: the cache, the writer, who decides, and the limits.

use std::{
    sync::{Arc, OnceLock, atomic::AtomicBool},
    time::Duration,
};

use ::audit::Audit;
use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderValue;

use super::{
    check::Behind,
    inflight::Inflight,
    inside::shown::Inside,
    last_use::LastUses,
    open_watches::OpenWatches,
    settings::{Callers, Gates, Times},
    started::Started,
};
use auth::access::Access;
use auth::authn::{Authenticator, Discovery, Issuer};
use auth::providers::Providers;
use cache::state::snapshot::Fed;
use codec::ChunkCache;
use registry::ServedResources;
use storage::read::serve::Reader;
use storage::write::Writer;
use telemetry::Metrics;
use upstream::host::Namespaces;

/// Asks how long the embedded store has been at the commit that is under way.
pub type Pulse = Arc<dyn Fn() -> Option<Duration> + Send + Sync>;

/// What health checks tell of a host cluster and of what this server adds to it.
pub struct Host {
    /// The host's namespaces.
    pub namespaces: Arc<Namespaces>,
    /// Which files of definitions are not served, and why.
    pub definitions_wrong: Arc<ArcSwapOption<String>>,
    /// Which objects are in namespaces that the host does not have.
    pub orphaned: Arc<ArcSwapOption<String>>,
}

/// What every request may use.
pub struct Api {
    /// What is served now.
    pub resources: Arc<ArcSwap<ServedResources>>,
    /// Reads.
    pub reader: Reader,
    /// Pieces of lists in gzip.
    pub blocks: Arc<ChunkCache>,
    /// Writes.
    pub writer: Arc<Writer>,
    /// Decides what clients may do.
    pub access: Arc<Access>,
    /// Who writes down what they did; nobody without a policy.
    pub audit: Option<Arc<Audit>>,
    /// Who answers what this server does not; nobody when it is no replica.
    pub upstream: Option<Arc<dyn Behind>>,
    /// What is known of the cluster that this server extends; nothing when it extends none.
    pub host: Option<Host>,
    /// How many requests there may be.
    pub inflight: Inflight,
    /// The open watches.
    pub watches: Arc<OpenWatches>,
    /// What is shown of this server, and who looks.
    pub inside: Inside,
    /// Metric families.
    pub metrics: Arc<Metrics>,
    /// Who clients are.
    pub identity: Identity,
    /// What the flags say of requests.
    pub settings: RequestSettings,
    /// How the server is.
    pub condition: Condition,
}

/// Finds out who clients are, and issues tokens.
pub struct Identity {
    /// Finds out who clients are.
    pub authenticator: Arc<Authenticator>,
    /// Whom to ask who somebody is.
    pub providers: Arc<Providers>,
    /// How many last uses of tokens are being written.
    pub last_uses: LastUses,
    /// Who issues tokens of service accounts; nobody without a key.
    pub issuer: Option<Arc<Issuer>>,
    /// Where the keys of those tokens are told.
    pub discovery: ArcSwapOption<Discovery>,
}

/// What the flags say of requests: whom to let in, how long they take, what is served.
pub struct RequestSettings {
    /// Whom the plain listener lets in, and whose pages may use the API.
    pub callers: Callers,
    /// What browsers are told at the TLS listener.
    pub strict_transport: Option<HeaderValue>,
    /// Time limits.
    pub times: Times,
    /// What is served only when asked for.
    pub gates: Gates,
    /// Whether there is the page at `/watchcache/`, and its API.
    pub shows_inside: bool,
    /// What `/statusz` and `/flagz` tell.
    pub started: Started,
    /// How old memory may be that answers; any age without it.
    pub max_staleness: Option<Duration>,
}

/// How the server is, as health checks and the pages under `/watchcache/` tell it.
pub struct Condition {
    /// How new memory is, of each etcd; at least one.
    pub feeds: Vec<Arc<Fed>>,
    /// Whether every built-in resource has been loaded once.
    pub loaded: AtomicBool,
    /// Whether the default roles and bindings are there.
    pub has_roles: Arc<AtomicBool>,
    /// Whether the other objects that a server has by itself are there, or are not this server's to make.
    pub has_own_objects: Arc<AtomicBool>,
    /// Whether SIGTERM has come.
    pub stopping: AtomicBool,
    /// Whether the objects are in this process's own store.
    pub embedded: bool,
    /// Asks how long that store has been at a commit.
    pub store_pulse: Option<Pulse>,
    /// Why that store takes no more writes.
    pub store_failed: OnceLock<Arc<str>>,
    /// Tells by its name as a check who runs the controllers; none where nobody is asked to.
    pub controllers: Box<dyn Fn() -> Option<&'static str> + Send + Sync>,
}
