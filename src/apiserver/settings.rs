//! What the API server is set up with.

use std::time::Duration;

use super::origins::Origins;
use storage::write::MalformedDeletion;

/// Time limits.
#[derive(Clone, Debug)]
pub struct Times {
    /// A watch without `timeoutSeconds` gets a random length from this to twice this (spec list-watch §4.6). Default 1800 s.
    pub min_watch: Duration,
    /// Any other request (spec list-watch §2.14). Default 60 s.
    pub request: Duration,
    /// From SIGTERM, when `/readyz` begins to fail, until nothing new is let in. Default 0, kube-apiserver's.
    pub shutdown_delay: Duration,
    /// From then to the end of the last connection. Default 10 s.
    pub shutdown: Duration,
    /// How old memory may be that answers. Default: of any age, as with kube-apiserver.
    pub max_staleness: Option<Duration>,
}

/// How many requests may be under way at once; zero for no limit.
#[derive(Clone, Copy, Debug)]
pub struct MaxInflight {
    /// GET and HEAD, of watches those that begin. Default 400, kube-apiserver's.
    pub reads: usize,
    /// All others. Default 200, kube-apiserver's.
    pub writes: usize,
    /// Bytes of open watches, all together. Default 4 GiB.
    pub watches_bytes: usize,
}

/// Features that can be turned on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `ShardedListAndWatch` (KEP-5866, alpha): the parameter `shardSelector` has an effect.
    pub sharded_list_and_watch: bool,
    /// `AllowUnsafeMalformedObjectDeletion` (alpha).
    pub malformed_deletion: MalformedDeletion,
    /// `ConstrainedImpersonation` (KEP-5284, beta): the constrained verbs of impersonation count.
    pub constrained_impersonation: bool,
    /// `DRAResourceClaimGranularStatusAuthorization` (beta): who writes the status of a ResourceClaim needs rights to what changes in it.
    pub granular_claim_status: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            sharded_list_and_watch: false,
            malformed_deletion: MalformedDeletion::default(),
            constrained_impersonation: true,
            granular_claim_status: true,
        }
    }
}

/// Whom the plain listener lets in.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    /// Names of the server besides those of loopback, in lower case.
    pub hosts: Vec<String>,
    /// Whether it may be called by any address: it listens beyond loopback. A page cannot give its own name an address in `Host`.
    pub by_address: bool,
    /// Pages of other origins; none without `--cors-allowed-origins`. They may use the TLS listener too.
    pub origins: Option<Origins>,
}
