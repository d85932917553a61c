//! Where the objects are: an etcd cluster, or the embedded store in this process. Both are reached by the same client.

use std::sync::Arc;

use super::StartError;
use crate::config::Config;
use etcd::{ConfigError, Etcd, EtcdConfig};
use store::{Store, StoreConfig};

/// What [`Etcd`] handles lead to.
pub(super) struct Backend {
    config: EtcdConfig,
    store: Option<Store>,
}

impl Backend {
    /// Opens the embedded store when no etcd is named; reads all of it, blocking.
    pub(super) fn open(config: &Config) -> Result<Self, StartError> {
        let store = match &config.embedded {
            None => None,
            Some(embedded) => {
                // It forgets when `controllers` says so, by the same protocol as an etcd.
                let store = Store::open(&embedded.data_dir, StoreConfig::default())?;
                tracing::info!(data_dir = %embedded.data_dir.display(), "the embedded store is open");
                Some(store)
            }
        };
        Ok(Self { config: etcd_config(config), store })
    }

    /// A client of its own: its connections live on the runtime that first uses it.
    pub(super) fn etcd(&self) -> Result<Etcd, ConfigError> {
        match &self.store {
            Some(store) => Ok(Etcd::embedded(store.channel())),
            None => Etcd::new(self.config.clone()),
        }
    }

    /// Whether the objects are in this process.
    pub(super) fn is_embedded(&self) -> bool {
        self.store.is_some()
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

fn etcd_config(config: &Config) -> EtcdConfig {
    EtcdConfig {
        endpoints: config.etcd.servers.clone(),
        ca_file: config.etcd.ca_file.clone(),
        cert_file: config.etcd.client_cert.as_ref().map(|(cert, _)| cert.clone()),
        key_file: config.etcd.client_cert.as_ref().map(|(_, key)| key.clone()),
        user: config.etcd.login.clone(),
    }
}
