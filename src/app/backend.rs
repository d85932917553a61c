//! Where the objects are: an etcd cluster, or the embedded store in this process. Both are reached by the same client.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{StartError, keeping};
use crate::config::Config;
use apiserver::api::Pulse;
use catalogue::built_in_storages;
use etcd::{ConfigError, Etcd, EtcdConfig};
use model::{ByResource, ResourceId};
use store::{Store, StoreConfig};
use telemetry::{Metrics, build};
use tokio::sync::watch;

/// What [`Etcd`] handles lead to.
pub(super) struct Backend {
    configs: ByResource<EtcdConfig>,
    store: Option<Store>,
    /// The objects come from elsewhere.
    has_none: bool,
    /// Of a store in memory.
    _keys: Option<KeysDir>,
}

/// The directory of keys and certificates that the server makes for itself, of a store in memory: it goes away with it.
struct KeysDir(PathBuf);

impl KeysDir {
    /// Makes it for the owner alone; one that is there already is somebody else's.
    fn make(path: &Path) -> Result<Self, StartError> {
        let made = DirBuilder::new().mode(0o700).create(path);
        made.map_err(|error| StartError::Made(format!("{}: {error}", path.display())))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for KeysDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, dir = %self.0.display(), "the keys of this server are still there");
        }
    }
}

impl Backend {
    /// Opens the embedded store when no etcd is named; reads all of it, blocking.
    pub(super) fn open(config: &Config) -> Result<Self, StartError> {
        let store = match &config.embedded {
            None => None,
            Some(embedded) => {
                // It forgets when `controllers` says so, by the same protocol as an etcd.
                let settings = StoreConfig { quota_bytes: embedded.quota_bytes, ..StoreConfig::default() };
                let store = if embedded.in_memory { Store::open_in_memory(settings)? } else { Store::open(&embedded.data_dir, settings)? };
                Some(store)
            }
        };
        build::tell();
        if let Some(embedded) = &config.embedded {
            let data_dir = if embedded.in_memory { ":memory:".into() } else { embedded.data_dir.display().to_string() };
            tracing::info!(data_dir, "the embedded store is open");
        }
        let in_memory = config.embedded.as_ref().filter(|embedded| embedded.in_memory);
        let keys = in_memory.map(|embedded| KeysDir::make(&embedded.data_dir)).transpose()?;
        Ok(Self { configs: etcd_configs(config), store, has_none: config.source.is_some(), _keys: keys })
    }

    /// A client of its own: its connections live on the runtime that first uses it.
    pub(super) fn etcd(&self) -> Result<Etcd, ConfigError> {
        self.client(self.configs.main())
    }

    /// The same of each etcd.
    pub(super) fn etcds(&self) -> Result<ByResource<Etcd>, ConfigError> {
        self.configs.try_map(|config| self.client(config))
    }

    fn client(&self, config: &EtcdConfig) -> Result<Etcd, ConfigError> {
        match &self.store {
            _ if self.has_none => Ok(Etcd::none()),
            Some(store) => Ok(Etcd::embedded(store.channel())),
            None => Etcd::new(config.clone()),
        }
    }

    /// Whether the objects are in this process.
    pub(super) fn is_embedded(&self) -> bool {
        self.store.is_some()
    }

    /// How to ask how long the embedded store has been at a commit; none with an etcd.
    pub(super) fn pulse(&self) -> Option<Pulse> {
        self.store.as_ref().map(|store| Arc::new(store.pulse()) as Pulse)
    }

    /// Lets the commands about a store reach the embedded one, and tells what it takes, until the server stops.
    pub(super) fn keep(&self, stopped: watch::Receiver<bool>, metrics: &Arc<Metrics>) {
        if let Some(store) = &self.store {
            tokio::spawn(store.serve_socket(stopped));
            keeping::measure(store.sizes(), metrics);
        }
    }

    /// Ends with the reason when the embedded store has failed; never with an etcd.
    pub(super) async fn failed(&self) -> Arc<str> {
        match &self.store {
            Some(store) => store.failed().await,
            None => std::future::pending().await,
        }
    }

    /// The last of the requests are answered and durable then.
    pub(super) async fn close(&self) {
        if let Some(store) = &self.store {
            store.close().await;
        }
    }
}

/// The etcd of all resources, and those of the resources that have one of their own. Overrides that name the same servers share one.
fn etcd_configs(config: &Config) -> ByResource<EtcdConfig> {
    let mut configs = ByResource::one(etcd_config(config, &config.etcd.servers));
    let mut servers: BTreeMap<BTreeSet<&str>, Vec<ResourceId>> = BTreeMap::new();
    for storage in built_in_storages() {
        if let Some(apart) = config.etcd.overrides.iter().max_by_key(|apart| apart.fit(&storage.group, &storage.resource))
            && apart.fit(&storage.group, &storage.resource).is_some()
        {
            servers.entry(apart.servers.iter().map(String::as_str).collect()).or_default().push(storage.id.clone());
        }
    }
    let main: BTreeSet<&str> = config.etcd.servers.iter().map(String::as_str).collect();
    for (servers, ids) in servers.into_iter().filter(|(servers, _)| *servers != main) {
        let servers: Vec<String> = servers.into_iter().map(str::to_owned).collect();
        tracing::info!(?servers, resources = ids.join(","), "these resources have an etcd of their own");
        configs.set_apart(ids, etcd_config(config, &servers));
    }
    for apart in &config.etcd.overrides {
        if !built_in_storages().any(|storage| apart.fit(&storage.group, &storage.resource).is_some()) {
            tracing::warn!("--etcd-servers-overrides: {}/{} is no resource that is stored under this name", apart.group, apart.resource);
        }
    }
    configs
}

fn etcd_config(config: &Config, servers: &[String]) -> EtcdConfig {
    let uses_tls = servers.iter().any(|url| url.starts_with("https://"));
    EtcdConfig {
        endpoints: servers.to_vec(),
        ca_file: config.etcd.ca_file.clone().filter(|_| uses_tls),
        cert_file: config.etcd.client_cert.as_ref().filter(|_| uses_tls).map(|(cert, _)| cert.clone()),
        key_file: config.etcd.client_cert.as_ref().filter(|_| uses_tls).map(|(_, key)| key.clone()),
        user: config.etcd.login.clone(),
    }
}
