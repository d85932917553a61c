//! Makes a replica of the files that the flags name: where its kube-apiserver is, and who we are there.

use std::path::Path;
use std::sync::Arc;

use upstream::{AuthMode, Settings};

use super::StartError;
use crate::config::{self, UpstreamServer};
use ::reload::{Named, Wrong};
use apiserver::hand_on::Replica;
use client::{Kubeconfig, Trust};
use telemetry::Metrics;

const KUBECONFIG: &str = "--upstream-kubeconfig";

/// The replica that the flags ask for.
pub(super) fn replica(config: &config::Replica, metrics: &Arc<Metrics>) -> Result<Arc<Replica>, StartError> {
    if let UpstreamServer::Url { server, .. } = &config.upstream {
        Kubeconfig::of_server(server, Trust::System).map_err(|why| StartError::Upstream(format!("--upstream-server {server}: {why}")))?;
    }
    let config = config.clone();
    let (groups, is_source) = (config.check_groups.clone(), config.is_source);
    let replica = Replica::new(files(&config), move |contents| settings(&config, contents), groups, metrics.clone())?;
    Ok(Arc::new(if is_source { replica.of_its_source() } else { replica }))
}

/// First the one that says where upstream is or whom it is signed by, then the certificate and its key.
fn files(config: &config::Replica) -> Vec<Named> {
    let named = |flag, path: &Path| Named { flag, path: path.to_owned() };
    let place = match &config.upstream {
        // It is read once, as by all others that ask upstream.
        _ if config.is_source => None,
        UpstreamServer::Url { ca_file, .. } => ca_file.as_ref().map(|path| named("--upstream-cafile", path)),
        UpstreamServer::Kubeconfig(path) => Some(named(KUBECONFIG, path)),
    };
    let proxy = config.proxy.iter();
    let proxy = proxy.flat_map(|(chain, key)| [named("--proxy-client-cert-file", chain), named("--proxy-client-key-file", key)]);
    place.into_iter().chain(proxy).collect()
}

fn settings(config: &config::Replica, contents: &[Vec<u8>]) -> Result<Settings, Wrong> {
    if config.is_source
        && let UpstreamServer::Kubeconfig(path) = &config.upstream
    {
        // Our own rights are for our own questions: what is handed on goes over connections that show nobody.
        let read = || Kubeconfig::read(KUBECONFIG, path).map_err(|error| (0, error.what));
        if config.impersonates {
            return Ok(Settings { at: read()?, auth_mode: AuthMode::Impersonation, ours: None });
        }
        return Ok(Settings { at: read()?.as_nobody(), auth_mode: AuthMode::OwnToken, ours: Some(read()?) });
    }
    let (place, proxy) = contents.split_at(contents.len() - if config.proxy.is_some() { 2 } else { 0 });
    let at = match &config.upstream {
        UpstreamServer::Url { server, .. } => {
            place.first().map_or(Ok(Trust::System), |pem| Trust::from_pem(pem)).and_then(|trust| Kubeconfig::of_server(server, trust))
        }
        // It names files of its own, beside itself.
        UpstreamServer::Kubeconfig(path) => Kubeconfig::read(KUBECONFIG, path).map_err(|error| error.what),
    };
    let at = at.map_err(|what| (0, what))?;
    if let [chain, key] = proxy {
        let at = at.showing(chain, key).map_err(|what| (place.len(), what))?;
        return Ok(Settings { at, auth_mode: AuthMode::FrontProxy, ours: None });
    }
    let auth_mode = if at.has_identity() { AuthMode::Impersonation } else { AuthMode::OwnToken };
    Ok(Settings { at, auth_mode, ours: None })
}
