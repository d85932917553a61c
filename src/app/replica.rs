//! Makes a replica of the files that the flags name: where its kube-apiserver is, and who we are there.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use upstream::{AuthMode, Followed, Settings, Upstream};

use super::StartError;
use crate::config::{self, SOURCE_FLAG as KUBECONFIG, UpstreamServer};
use ::reload::{FileError, FileRead, Named, Origin, Reloaded};
use apiserver::forward::{FollowedUpstream, Replica};
use client::{Derived, Kubeconfig, KubeconfigFiles, Logins, Trust};
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
            Followed::Files(Reloaded::load_from(files(config), OfFiles::new(config))?)
        }
    };
    let replica = Replica::new(upstream, config.check_groups.clone(), metrics.clone());
    Ok(Arc::new(if config.is_source { replica.of_its_source() } else { replica }))
}

/// As the kubeconfig file says, which all share that ask the same server.
fn of_login(config: &config::Replica, path: &Path, logins: &Logins) -> Result<FollowedUpstream, StartError> {
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

/// What a replica is made of where it is a front proxy, or has no kubeconfig.
struct OfFiles {
    upstream: UpstreamServer,
    is_front_proxy: bool,
    kubeconfig: Option<KubeconfigFiles>,
    /// The files that flags name, but for the kubeconfig.
    files: Vec<Named>,
}

impl OfFiles {
    fn new(config: &config::Replica) -> OfFiles {
        let mut files = files(config);
        let kubeconfig = match &config.upstream {
            UpstreamServer::Url { .. } => None,
            UpstreamServer::Kubeconfig(path) => {
                files.remove(0);
                Some(KubeconfigFiles::of(KUBECONFIG, path))
            }
        };
        OfFiles { upstream: config.upstream.clone(), is_front_proxy: config.proxy.is_some(), kubeconfig, files }
    }

    /// Where upstream is, of what the kubeconfig or the file of its authority says.
    fn place(&self, kubeconfig: Vec<FileRead>, authority: Option<&Vec<u8>>) -> Result<Kubeconfig, FileError> {
        match (&self.upstream, &self.kubeconfig) {
            (UpstreamServer::Url { server, .. }, _) => {
                let trust = authority.map_or(Ok(Trust::System), |pem| Trust::from_pem(pem));
                let at = trust.and_then(|trust| Kubeconfig::of_server(server, trust));
                at.map_err(|what| FileError::new(self.files.first().cloned().unwrap_or_else(Self::nobody), what))
            }
            (UpstreamServer::Kubeconfig(_), Some(files)) => files.value(kubeconfig, None),
            (UpstreamServer::Kubeconfig(path), None) => {
                Err(FileError::new(Named { flag: KUBECONFIG, path: path.clone() }, "it was not read".to_owned()))
            }
        }
    }
}

impl<B> Origin<Upstream<B>> for OfFiles
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    fn read(&self) -> Option<Vec<FileRead>> {
        let mut all = match &self.kubeconfig {
            Some(kubeconfig) => kubeconfig.read()?,
            None => Vec::new(),
        };
        all.extend(self.files.iter().map(|file| FileRead::of(&file.path)));
        Some(all)
    }

    fn value(&self, mut contents: Vec<FileRead>, _before: Option<&Upstream<B>>) -> Result<Upstream<B>, FileError> {
        let flagged = contents.split_off(contents.len().saturating_sub(self.files.len()));
        let mut bytes = Vec::new();
        for (file, read) in self.files.iter().zip(flagged) {
            bytes.push(read.content.map_err(|error| FileError::new(file.clone(), error.to_string()))?);
        }
        let (place, proxy) = bytes.split_at(bytes.len() - if self.is_front_proxy { 2 } else { 0 });
        let at = self.place(contents, place.first())?;
        let wrong = |what| FileError::new(self.files.get(place.len()).cloned().unwrap_or_else(Self::nobody), what);
        let settings = match proxy {
            [chain, key] => Settings { at: Arc::new(at.showing(chain, key).map_err(wrong)?), auth_mode: AuthMode::FrontProxy },
            _ => Settings { at: Arc::new(at), auth_mode: AuthMode::OwnToken },
        };
        Upstream::new(settings).map_err(wrong)
    }
}

impl OfFiles {
    /// What an error names where no flag names a file.
    fn nobody() -> Named {
        Named { flag: "--upstream-server", path: PathBuf::new() }
    }
}
