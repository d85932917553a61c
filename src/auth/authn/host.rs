//! What a cluster that this server extends says of client certificates and proxies, in its ConfigMap `extension-apiserver-authentication`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;

use super::request_header::RequestHeaders;
use super::x509::Authorities;
use reload::{FileError, Named, Reload};

/// The members of the ConfigMap.
const CLIENT_CA: &str = "client-ca-file";
const PROXY_CA: &str = "requestheader-client-ca-file";

/// Whom a host cluster believes.
#[derive(Debug)]
pub struct HostAuthorities {
    /// Who signs client certificates.
    pub(super) clients: Option<Arc<Authorities>>,
    /// The proxy in front.
    pub(super) proxy: Option<HostProxy>,
}

/// The proxy in front of a host cluster.
#[derive(Clone, Debug)]
pub(super) struct HostProxy {
    pub(super) authorities: Arc<Authorities>,
    pub(super) names: Vec<String>,
    pub(super) headers: RequestHeaders,
}

impl HostAuthorities {
    /// What the data of the ConfigMap say.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn from_data(data: &BTreeMap<String, String>) -> Result<HostAuthorities, String> {
        let authorities = |name: &str| match data.get(name).filter(|pem| !pem.is_empty()) {
            None => Ok(None),
            Some(pem) => Authorities::from_pem(pem.as_bytes()).map(|found| Some(Arc::new(found))).map_err(|why| format!("{name}: {why}")),
        };
        let texts = |name: &str| match data.get(name).filter(|text| !text.is_empty()) {
            None => Ok(Vec::new()),
            Some(text) => serde_json::from_str::<Vec<String>>(text).map_err(|error| format!("{name}: {error}")),
        };
        let names = texts("requestheader-allowed-names")?;
        let headers = RequestHeaders {
            user: texts("requestheader-username-headers")?,
            uid: texts("requestheader-uid-headers")?,
            group: texts("requestheader-group-headers")?,
            extra_prefix: texts("requestheader-extra-headers-prefix")?,
        };
        let proxy = authorities(PROXY_CA)?.map(|authorities| HostProxy { authorities, names, headers });
        Ok(HostAuthorities { clients: authorities(CLIENT_CA)?, proxy })
    }

    /// Whether it says something of proxies.
    #[must_use]
    pub fn has_proxy(&self) -> bool {
        self.proxy.is_some()
    }
}

/// The last ConfigMap that was read, if any.
#[derive(Debug, Default)]
pub(super) struct Host {
    value: ArcSwapOption<HostAuthorities>,
    generation: AtomicU64,
    /// The generation at the last look.
    told: AtomicU64,
    kubeconfig: Vec<Named>,
}

impl Host {
    /// The host cluster of this kubeconfig file.
    pub(super) fn new(kubeconfig: Option<PathBuf>) -> Host {
        let named = kubeconfig.map(|path| Named { flag: "--authentication-kubeconfig", path });
        Host { kubeconfig: named.into_iter().collect(), ..Host::default() }
    }

    pub(super) fn set(&self, value: HostAuthorities) {
        self.value.store(Some(Arc::new(value)));
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub(super) fn now(&self) -> Option<Arc<HostAuthorities>> {
        self.value.load_full()
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

impl Reload for Host {
    fn look(&self) -> Result<bool, FileError> {
        let generation = self.generation();
        Ok(self.told.swap(generation, Ordering::AcqRel) != generation)
    }

    fn files(&self) -> &[Named] {
        &self.kubeconfig
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(members: &[(&str, &str)]) -> BTreeMap<String, String> {
        members.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_config_map_names_authorities_and_headers() {
        let pem = rcgen::generate_simple_self_signed(["a".to_owned()]).expect("made").cert.pem();
        let whole = [(CLIENT_CA, pem.as_str()), (PROXY_CA, &pem), ("requestheader-username-headers", r#"["X-Remote-User"]"#)];
        let both = HostAuthorities::from_data(&data(&whole)).expect("good");
        assert!(
            both.clients.is_some() && both.proxy.is_some_and(|proxy| proxy.headers.user == ["X-Remote-User"] && proxy.names.is_empty())
        );
        let one = HostAuthorities::from_data(&data(&whole[..1])).expect("good");
        assert!(one.clients.is_some() && !one.has_proxy());
        let why = |name: &str, value: &str| HostAuthorities::from_data(&data(&[(name, value)])).map(|_| ()).expect_err(name);
        assert_eq!(why(CLIENT_CA, "x"), "client-ca-file: no certificate in it");
        assert!(why("requestheader-allowed-names", "x").starts_with("requestheader-allowed-names: expected value"));
        assert!(why("requestheader-allowed-names", "[1]").contains("invalid type"));
    }

    #[test]
    fn a_change_is_told_once() {
        let host = Host::new(Some("k".into()));
        assert!(!host.look().expect("no file is read") && host.now().is_none() && host.files().len() == 1);
        host.set(HostAuthorities { clients: None, proxy: None });
        assert!(host.look().expect("no file is read") && !host.look().expect("no file is read") && host.generation() == 1);
    }
}
