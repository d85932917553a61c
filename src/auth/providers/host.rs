//! The ConfigMap in which a host cluster says whom it believes: read at the start, and again and again, for the authenticator.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::sleep;

use arc_swap::ArcSwapOption;

use super::ProvidersError;
use super::settings::HostCluster;
use crate::authn::{Authenticator, HostAuthorities};
use client::{Client, Limits, Login};

/// The ConfigMap.
const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
/// Between two looks.
const LOOK: Duration = Duration::from_secs(10);
/// One request may take so long, and its answer may be so large: the most that a ConfigMap has, twice.
const LIMITS: Limits = Limits { timeout: Duration::from_secs(10), answer_bytes_max: 2 << 20, concurrent_max: 1 };

/// The host cluster.
pub(super) struct Host {
    client: Client,
    login: Arc<Login>,
    tolerates_failure: bool,
    /// It must say something of proxies.
    needs_proxy: bool,
    /// What was read last, be it good or bad.
    seen: Option<BTreeMap<String, String>>,
    wrong: Arc<Missing>,
}

/// What the host does not say: why, and whether it did before.
pub(super) type Missing = ArcSwapOption<(String, bool)>;

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl Host {
    pub(super) fn new(login: &Arc<Login>, config: &HostCluster) -> Result<Host, ProvidersError> {
        let client = Client::following(login, LIMITS).map_err(|why| ProvidersError::Other(format!("{}: {why}", config.flag)))?;
        let (tolerates_failure, needs_proxy) = (config.tolerate_lookup_failure, config.needs_proxy);
        Ok(Host { client, login: login.clone(), tolerates_failure, needs_proxy, seen: None, wrong: Arc::default() })
    }

    /// Why the host does not say whom it believes, if so.
    pub(super) fn wrong(&self) -> Arc<Missing> {
        self.wrong.clone()
    }

    /// Reads it for the first time.
    ///
    /// # Errors
    /// It cannot be read, or says nothing of proxies, and that is not tolerated.
    pub(super) async fn first(&mut self, authenticator: &Authenticator) -> Result<(), ProvidersError> {
        match self.look(authenticator).await {
            Ok(()) => Ok(()),
            Err(why) if self.tolerates_failure => {
                tracing::warn!(%why, "the host cluster does not say whom it believes; client certificates and proxies are not believed until it does");
                Ok(())
            }
            Err(why) => {
                let line = format!("{}: unable to load configmap based request-header-client-ca-file: {why}", self.login.flag());
                Err(ProvidersError::Other(line))
            }
        }
    }

    /// Looks at it for ever.
    pub(super) async fn follow(mut self, authenticator: &Authenticator) {
        let mut last = None;
        loop {
            sleep(LOOK).await;
            let now = self.look(authenticator).await.err();
            if now != last {
                match &now {
                    Some(why) => tracing::warn!(%why, "the host cluster does not say whom it believes; what it said before counts"),
                    None => tracing::info!("the host cluster says whom it believes"),
                }
            }
            last = now;
        }
    }

    /// Takes what it says, if that has changed. A ConfigMap that is wrong changes nothing.
    async fn look(&mut self, authenticator: &Authenticator) -> Result<(), String> {
        let outcome = self.read(authenticator).await;
        self.wrong.store(outcome.as_ref().err().map(|why| Arc::new((why.clone(), self.seen.is_some()))));
        outcome
    }

    async fn read(&mut self, authenticator: &Authenticator) -> Result<(), String> {
        let answer = self.client.get(&self.login.url(PATH)).await.map_err(|error| error.to_string())?;
        if let Some(why) = answer.failure() {
            return Err(why);
        }
        let data = serde_json::from_slice::<ConfigMap>(&answer.body).map_err(|error| format!("ConfigMap: {error}"))?.data;
        let authorities = HostAuthorities::from_data(&data).map_err(|why| format!("ConfigMap: {why}"))?;
        let is_whole = authorities.has_proxy() || !self.needs_proxy;
        if self.seen.as_ref() != Some(&data) {
            authenticator.trust_host(authorities);
            self.seen = Some(data);
        }
        if is_whole { Ok(()) } else { Err("missing content for CA bundle requestheader-client-ca-file".to_owned()) }
    }
}
