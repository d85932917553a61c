//! The server of a case that needs one only: ours alone, or a kube-apiserver in its place, which shows that what the cases expect is what people know.

use std::{
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::peers::{Running, Site, TOKEN};
use crate::{alone::Alone, client::Client};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A running server, ended when this is dropped.
pub(crate) enum Subject {
    /// `watchcache serve` on its embedded store.
    Ours(Alone),
    /// With `WATCHCACHE_TEST_SUBJECT=kube-apiserver`; the fields are ended in this order.
    Theirs { _apiserver: Running, _etcd: Running, site: Box<Site>, address: SocketAddr },
}

impl Subject {
    pub(crate) async fn start(dir: &Path) -> Result<Self, Failure> {
        if env::var_os("WATCHCACHE_TEST_SUBJECT").is_none_or(|subject| subject != "kube-apiserver") {
            return Alone::start(dir).await.map(Self::Ours);
        }
        let programs = env::var_os("WATCHCACHE_TEST_PEERS").map(PathBuf::from).ok_or("WATCHCACHE_TEST_PEERS is not set")?;
        let site = Site::prepare(&programs).map_err(|error| error.to_string())?;
        let (etcd, etcd_at) = site.etcd()?;
        let (apiserver, address) = site.apiserver("kube-apiserver", etcd_at)?;
        apiserver.ready(&site.client(address)).await.map_err(|error| error.to_string())?;
        Ok(Self::Theirs { _apiserver: apiserver, _etcd: etcd, site: Box::new(site), address })
    }

    /// Tells kubectl where it is and who asks.
    pub(crate) fn name_to(&self, command: &mut Command) {
        match self {
            Self::Ours(alone) => command.args(["--server", &alone.url()]),
            Self::Theirs { site, address, .. } => {
                command.args(["--server", &format!("https://{address}"), "--token", TOKEN, "--certificate-authority"]);
                command.arg(site.path().join("ca.crt"))
            }
        };
    }

    /// The same as a kubeconfig, for other programs.
    pub(crate) fn kubeconfig(&self) -> Value {
        let (cluster, user) = match self {
            Self::Ours(alone) => (json!({"server": alone.url()}), json!({})),
            Self::Theirs { site, address, .. } => (
                json!({"server": format!("https://{address}"), "certificate-authority": site.path().join("ca.crt")}),
                json!({"token": TOKEN}),
            ),
        };
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": user}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        })
    }

    /// A new client of it.
    pub(crate) fn client(&self) -> Client {
        match self {
            Self::Ours(alone) => alone.client(),
            Self::Theirs { site, address, .. } => site.client(*address),
        }
    }
}
