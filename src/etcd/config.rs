//! Where etcd is and who we are there, checked before anything connects. Knows files and addresses, opens no socket.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::error::deepest;

/// A connection on which something is asked and nothing came for this long is pinged. kube-apiserver waits 30 s; etcd takes pings that are 5 s apart
/// (`--grpc-keepalive-min-time`) and none where nothing is asked.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(6);
/// A ping without an answer for this long ends the connection (kube-apiserver: 10 s), so that another endpoint is asked.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a TCP connection may take. kube-apiserver waits 20 s (spec list-watch §6.1); we have other endpoints to try within one request's 60 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where etcd is, and as whom we come: what the `--etcd-*` flags say.
#[derive(Clone, Default)]
pub struct EtcdConfig {
    /// `http://host:port` or `https://host:port`, one for each member.
    pub endpoints: Vec<String>,
    /// PEM bundle of the authorities that may sign etcd's certificate; needed for `https://`.
    pub ca_file: Option<PathBuf>,
    /// PEM of our client certificate; comes with `key_file`.
    pub cert_file: Option<PathBuf>,
    /// PEM of our client certificate's key; comes with `cert_file`.
    pub key_file: Option<PathBuf>,
    /// User name and password, when etcd has authentication enabled.
    pub user: Option<(String, String)>,
}

/// Hand-written, so that no log line shows a password.
impl std::fmt::Debug for EtcdConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdConfig")
            .field("endpoints", &self.endpoints)
            .field("ca_file", &self.ca_file)
            .field("cert_file", &self.cert_file)
            .field("key_file", &self.key_file)
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .finish()
    }
}

/// A flag about etcd that cannot be right; its text is one line for a human.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not one endpoint was named.
    #[error("no etcd endpoint given: name at least one, such as http://127.0.0.1:2379")]
    NoEndpoint,
    /// An endpoint is not `http(s)://host:port`.
    #[error("etcd endpoint {endpoint:?}: {problem}")]
    Endpoint {
        /// As typed.
        endpoint: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A TLS file cannot be read, or holds something else.
    #[error("{role} {}: {problem}", path.display())]
    File {
        /// What the file is for.
        role: &'static str,
        /// As typed.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A client certificate without its key, or the reverse.
    #[error("an etcd client certificate and its key come together: only the {0} is given")]
    HalfIdentity(&'static str),
    /// The key does not belong to the certificate, or is of an unknown kind.
    #[error("etcd client certificate and key cannot be used together: {0}")]
    Identity(rustls::Error),
    /// `https://` without an authority to trust.
    #[error("etcd endpoint {0:?} is https and needs --etcd-cafile: the system's certificate authorities are not used")]
    NoAuthority(String),
}

/// One endpoint, ready to be connected to.
pub(super) struct Address {
    /// As typed: what the logs call it.
    pub(super) url: String,
    /// Everything a connection needs.
    pub(super) endpoint: Endpoint,
    /// Name and password, if we come with any.
    pub(super) user: Option<(String, String)>,
}

impl EtcdConfig {
    /// Parses every endpoint and reads every file.
    pub(super) fn check(self) -> Result<Vec<Address>, ConfigError> {
        let parsed = self.endpoints.iter().map(|e| parse_endpoint(e)).collect::<Result<Vec<_>, _>>()?;
        if parsed.is_empty() {
            return Err(ConfigError::NoEndpoint);
        }
        let tls = self.tls()?;
        if let (None, Some(first)) = (&self.ca_file, parsed.iter().find(|p| p.https)) {
            return Err(ConfigError::NoAuthority(first.url.clone()));
        }
        parsed.into_iter().map(|p| self.address(p, &tls)).collect()
    }

    fn address(&self, parsed: Parsed, tls: &ClientTlsConfig) -> Result<Address, ConfigError> {
        let Parsed { url, uri, https } = parsed;
        let mut endpoint = Endpoint::from(uri)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT);
        if https {
            endpoint = endpoint
                .tls_config(tls.clone())
                .map_err(|error| ConfigError::Endpoint { endpoint: url.clone(), problem: deepest(&error) })?;
        }
        Ok(Address { url, endpoint, user: self.user.clone() })
    }

    /// The TLS half. Everything is tried with rustls here, since the client would say what is wrong only when it connects.
    fn tls(&self) -> Result<ClientTlsConfig, ConfigError> {
        let mut tls = ClientTlsConfig::new();
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.ca_file {
            let role = "etcd certificate authority file";
            let pem = read(role, path)?;
            for authority in certificates(role, path, &pem)? {
                roots.add(authority).map_err(|e| file_error(role, path, e.to_string()))?;
            }
            tls = tls.ca_certificate(Certificate::from_pem(pem));
        }
        match (&self.cert_file, &self.key_file) {
            (Some(cert), Some(key)) => Ok(tls.identity(identity(roots, cert, key)?)),
            (None, None) => Ok(tls),
            (Some(_), None) => Err(ConfigError::HalfIdentity("certificate")),
            (None, Some(_)) => Err(ConfigError::HalfIdentity("key")),
        }
    }
}

fn identity(roots: RootCertStore, cert: &Path, key: &Path) -> Result<Identity, ConfigError> {
    let (cert_role, key_role) = ("etcd client certificate file", "etcd client key file");
    let (cert_pem, key_pem) = (read(cert_role, cert)?, read(key_role, key)?);
    let chain = certificates(cert_role, cert, &cert_pem)?;
    let secret = PrivateKeyDer::from_pem_slice(&key_pem).map_err(|e| file_error(key_role, key, e.to_string()))?;
    rustls::ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(ConfigError::Identity)?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, secret)
        .map_err(ConfigError::Identity)?;
    Ok(Identity::from_pem(cert_pem, key_pem))
}

fn read(role: &'static str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    fs::read(path).map_err(|e| file_error(role, path, e.to_string()))
}

fn certificates(role: &'static str, path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().map_err(|e| file_error(role, path, e.to_string()))?;
    if found.is_empty() { Err(file_error(role, path, "no PEM certificate in it".into())) } else { Ok(found) }
}

fn file_error(role: &'static str, path: &Path, problem: String) -> ConfigError {
    ConfigError::File { role, path: path.to_owned(), problem }
}

#[derive(Debug)]
struct Parsed {
    url: String,
    uri: Uri,
    https: bool,
}

fn parse_endpoint(text: &str) -> Result<Parsed, ConfigError> {
    let url = text.trim();
    let wrong = |problem: &str| ConfigError::Endpoint { endpoint: text.to_owned(), problem: problem.to_owned() };
    let https = match url.split_once("://") {
        Some(("http", _)) => false,
        Some(("https", _)) => true,
        Some((scheme, _)) => return Err(wrong(&format!("scheme {scheme:?} is neither http nor https"))),
        None => return Err(wrong(&format!("no scheme: write http://{url} or https://{url}"))),
    };
    let uri: Uri = url.parse().map_err(|e| wrong(&format!("not a URL: {e}")))?;
    if uri.path_and_query().is_some_and(|p| p.as_str() != "/") {
        return Err(wrong("a path or query has no meaning here"));
    }
    let authority = uri.authority().filter(|a| !a.host().is_empty()).ok_or_else(|| wrong("no host"))?;
    if authority.as_str().contains('@') {
        return Err(wrong("user and password do not belong into the URL"));
    }
    if authority.port_u16().is_none() {
        return Err(wrong("no port: etcd's is 2379 by default, but it must be named"));
    }
    Ok(Parsed { url: url.to_owned(), uri, https })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(endpoints: &[&str]) -> EtcdConfig {
        EtcdConfig { endpoints: endpoints.iter().map(ToString::to_string).collect(), ..EtcdConfig::default() }
    }

    fn refusal(config: EtcdConfig) -> String {
        match config.check() {
            Ok(_) => "accepted".into(),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn endpoints_that_cannot_be_right_are_refused_with_a_reason() {
        for (endpoints, want) in [
            (&[][..], "no etcd endpoint given"),
            (&["127.0.0.1:2379"], "no scheme: write http://127.0.0.1:2379"),
            (&["http://a:1", "b:2379"], "\"b:2379\": no scheme"),
            (&["unix:///run/etcd.sock"], "scheme \"unix\""),
            (&["http://"], "not a URL"),
            (&["http://:2379"], "no host"),
            (&["http://a"], "no port"),
            (&["http://a:99999"], "no port"),
            (&["http://a:1/registry"], "a path or query"),
            (&["http://root:pw@a:1"], "user and password"),
            (&["https://a:2379"], "is https and needs --etcd-cafile"),
        ] {
            let text = refusal(at(endpoints));
            assert!(text.contains(want), "{endpoints:?}: {text}");
            assert!(!text.contains('\n'), "one line: {text}");
        }
    }

    #[test]
    fn a_password_is_not_in_the_debug_text() {
        let config = EtcdConfig { user: Some(("root".into(), "hunter2".into())), ..at(&["http://127.0.0.1:1"]) };
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a valid name");
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn tls_files_are_checked_before_anything_connects() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).expect("writable");
            Some(path)
        };
        let ((cert, key), (_, other_key)) = (pair(), pair());
        let good = EtcdConfig {
            ca_file: file("ca", &cert),
            cert_file: file("cert", &cert),
            key_file: file("key", &key),
            ..at(&["https://127.0.0.1:2379"])
        };
        assert_eq!(refusal(good.clone()), "accepted");
        for (config, want) in [
            (EtcdConfig { ca_file: Some(dir.path().join("absent")), ..good.clone() }, "No such file"),
            (EtcdConfig { ca_file: file("junk", "junk"), ..good.clone() }, "no PEM certificate in it"),
            (EtcdConfig { key_file: file("nokey", &cert), ..good.clone() }, "etcd client key file"),
            (EtcdConfig { key_file: file("other", &other_key), ..good.clone() }, "cannot be used together"),
            (EtcdConfig { key_file: None, ..good.clone() }, "only the certificate is given"),
            (EtcdConfig { cert_file: None, ..good.clone() }, "only the key is given"),
            (EtcdConfig { endpoints: vec!["https://a..b:2379".into()], ..good }, "etcd endpoint \"https://a..b:2379\": invalid dns name"),
        ] {
            let text = refusal(config);
            assert!(text.contains(want), "{text}");
        }
    }
}
