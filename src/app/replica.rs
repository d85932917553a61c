//! Makes a replica of the files that the flags name: where its kube-apiserver is, and who we are there.

use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use upstream::{AuthMode, Followed, Settings, Upstream};

use super::StartError;
use crate::config::{self, SOURCE_FLAG as KUBECONFIG, UpstreamServer};
use ::reload::{Named, Reloaded, Wrong};
use apiserver::hand_on::Replica;
use client::{Derived, Kubeconfig, Logins, Trust};
use telemetry::Metrics;

/// The replica that the flags ask for.
pub(super) fn replica(config: &config::Replica, logins: &Logins, metrics: &Arc<Metrics>) -> Result<Arc<Replica>, StartError> {
    let upstream = match &config.upstream {
        UpstreamServer::Kubeconfig(path) if config.proxy.is_none() => of_login(config, path, logins)?,
        upstream => {
            if let UpstreamServer::Url { server, .. } = upstream {
                Kubeconfig::of_server(server, Trust::System)
                    .map_err(|why| StartError::Upstream(format!("--upstream-server {server}: {why}")))?;
            }
            let (config, files) = (config.clone(), files(config));
            Followed::Files(Reloaded::load(files, move |contents| Upstream::new(settings(&config, contents)?).map_err(|what| (0, what)))?)
        }
    };
    let replica = Replica::new(upstream, config.check_groups.clone(), metrics.clone());
    Ok(Arc::new(if config.is_source { replica.of_its_source() } else { replica }))
}

/// As the kubeconfig file says, which all share that ask the same server.
fn of_login(config: &config::Replica, path: &Path, logins: &Logins) -> Result<Followed<Body>, StartError> {
    let login = logins.open(KUBECONFIG, path).map_err(|error| StartError::Upstream(error.to_string()))?;
    let (is_source, impersonates) = (config.is_source, config.impersonates);
    let upstream = Derived::new(login, move |at, before: Option<&Upstream<_>>| {
        // In front of its source our own rights are for our own questions.
        let names_clients = if is_source { impersonates } else { at.has_identity() };
        let auth_mode = if names_clients { AuthMode::Impersonation } else { AuthMode::OwnToken };
        let settings = Settings { at: at.clone(), auth_mode };
        match before {
            Some(before) => before.anew(settings),
            None => Upstream::new(settings),
        }
    });
    upstream.map(Followed::Login).map_err(|why| StartError::Upstream(format!("{KUBECONFIG} {}: {why}", path.display())))
}

/// First the one that says where upstream is or whom it is signed by, then the certificate and its key.
fn files(config: &config::Replica) -> Vec<Named> {
    let named = |flag, path: &Path| Named { flag, path: path.to_owned() };
    let place = match &config.upstream {
        UpstreamServer::Url { ca_file, .. } => ca_file.as_ref().map(|path| named("--upstream-cafile", path)),
        UpstreamServer::Kubeconfig(path) => Some(named(KUBECONFIG, path)),
    };
    let proxy = config.proxy.iter();
    let proxy = proxy.flat_map(|(chain, key)| [named("--proxy-client-cert-file", chain), named("--proxy-client-key-file", key)]);
    place.into_iter().chain(proxy).collect()
}

fn settings(config: &config::Replica, contents: &[Vec<u8>]) -> Result<Settings, Wrong> {
    let (place, proxy) = contents.split_at(contents.len() - if config.proxy.is_some() { 2 } else { 0 });
    let at = match &config.upstream {
        UpstreamServer::Url { server, .. } => {
            place.first().map_or(Ok(Trust::System), |pem| Trust::from_pem(pem)).and_then(|trust| Kubeconfig::of_server(server, trust))
        }
        // It names files of its own, beside itself.
        UpstreamServer::Kubeconfig(path) => Kubeconfig::read(KUBECONFIG, path).map_err(|error| error.what),
    };
    let at = at.map_err(|what| (0, what))?;
    Ok(match proxy {
        [chain, key] => {
            let at = at.showing(chain, key).map_err(|what| (place.len(), what))?;
            Settings { at: Arc::new(at), auth_mode: AuthMode::FrontProxy }
        }
        _ => Settings { at: Arc::new(at), auth_mode: AuthMode::OwnToken },
    })
}
