//! Whom to ask whose a token is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::authn::Algorithm;
use crate::authn::oidc::Flags;
use crate::presence::Presence;

/// Whom to ask.
#[derive(Clone, Debug, Default)]
pub struct Providers {
    /// OpenID providers.
    pub oidc: Option<Oidc>,
    /// A webhook.
    pub webhook: Option<TokenWebhook>,
    /// The cluster that this server extends.
    pub cluster: Option<HostCluster>,
    /// Issuers of service accounts' tokens: no OpenID provider may be one of them.
    pub account_issuers: Vec<String>,
}

/// OpenID providers.
#[derive(Clone, Debug)]
pub enum Oidc {
    /// `--oidc-…`: one.
    Flags {
        /// The provider; without what is in the file of its authorities.
        flags: Box<Flags>,
        /// `--oidc-ca-file`.
        ca_file: Option<PathBuf>,
        /// `--oidc-signing-algs`.
        algorithms: Vec<Algorithm>,
    },
    /// `--authentication-config`: as many as it has.
    File {
        path: PathBuf,
        /// `--anonymous-auth` is given, so the file may not speak of it.
        anonymous_flag: bool,
    },
}

/// A server that answers TokenReviews.
#[derive(Clone, Debug)]
pub struct TokenWebhook {
    /// `--authentication-token-webhook-config-file`: a kubeconfig file.
    pub config_file: PathBuf,
    /// `--authentication-token-webhook-version`.
    pub version: TokenReviewVersion,
    /// `--authentication-token-webhook-cache-ttl`.
    pub cache_ttl: Duration,
}

/// Version of `authentication.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenReviewVersion {
    V1,
    V1Beta1,
}

/// A cluster whose Kubernetes API says who somebody is.
#[derive(Clone, Debug)]
pub struct HostCluster {
    /// The flag that named the file.
    pub flag: &'static str,
    /// The kubeconfig file that says where it is, and who we are there.
    pub kubeconfig: PathBuf,
    /// `--authentication-skip-lookup`, or files say all that is in it: its ConfigMap is not read.
    pub skip_lookup: bool,
    /// `--authentication-tolerate-lookup-failure`: the server starts without the ConfigMap.
    pub tolerate_lookup_failure: bool,
    /// No file says who signs the certificate of a proxy, so the ConfigMap must.
    pub needs_proxy: bool,
    /// It stands behind this server and knows all clients: without its word nothing is known of a token.
    pub is_upstream: bool,
    /// Whether it answers at all, and how long what it has said of a token counts while it does not.
    pub presence: Arc<Presence>,
}

impl Providers {
    /// Whether there is anybody who is asked about tokens.
    #[must_use]
    pub fn any(&self) -> bool {
        self.oidc.is_some() || self.webhook.is_some() || self.cluster.is_some()
    }
}
