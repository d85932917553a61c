//! A kubeconfig file: where a server is, whom its certificate must be of, and who we are there, as client-go reads it. Relative
//! paths start at the file's directory.

mod exec;
mod file;
mod identities;
mod rules;
mod server;
#[cfg(test)]
mod tests;
mod watched;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use go::quote::quoted;
use go::yaml::reader;
use http::{HeaderName, HeaderValue, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::ServerName;
use thiserror::Error;

use self::file::{Chosen, Cluster, File, User};
use self::server::Server;
use self::watched::ReadFiles;
use super::credentials::{Authorization, Credentials, token_of};
use super::proxy::Proxy;
use super::trust::{Certificate, Trust, certificate, settings};

pub use self::identities::{Identities, Identity};
pub use self::watched::KubeconfigFiles;

/// What stands in the name of a header unescaped: Go's `headerKeyEscape`, RFC 7230 tokens without `%`.
const HEADER_TOKEN: AsciiSet = NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Why a kubeconfig file cannot be used. One line with the flag.
#[derive(Debug, Error)]
#[error("{flag} {}: {what}", path.display())]
pub struct KubeconfigError {
    /// The flag that named the file.
    pub flag: &'static str,
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

/// What a kubeconfig file says of the cluster and user of its current context, or of its only one.
#[derive(Clone, Debug)]
pub struct Kubeconfig {
    /// `http(s)://host[:port][/path]`, without a slash at its end.
    server: String,
    pub(crate) trust: Trust,
    /// `tls-server-name`.
    pub(crate) server_name: Option<ServerName<'static>>,
    pub(crate) certificate: Option<Arc<Certificate>>,
    pub(crate) credentials: Credentials,
    /// Headers that name whom we act as.
    impersonation: Vec<(HeaderName, HeaderValue)>,
    pub(crate) proxy: Option<Arc<Proxy>>,
}

/// The files that a kubeconfig file names.
trait Files {
    /// Returns what is in a file, or why it cannot be read.
    fn read(&self, path: &Path) -> Result<Vec<u8>, String>;
    /// Returns where a file is.
    fn resolve(&self, path: &Path) -> PathBuf;
    /// Returns the kubeconfig file.
    fn kubeconfig_file(&self) -> &Path;
}

impl Kubeconfig {
    /// Reads the file that a flag names; of a directory, what the service account of a pod is mounted as: its token, which is read
    /// again, and the authority of the server that
    /// the environment names.
    ///
    /// # Errors
    /// One line with the flag, the file and what is wrong with it.
    pub fn read(flag: &'static str, path: &Path) -> Result<Kubeconfig, KubeconfigError> {
        let read = ReadFiles::read(path, None);
        Kubeconfig::of_files(&read, None).map_err(|what| KubeconfigError { flag, path: path.to_owned(), what })
    }

    /// What these files say. A credential plugin that is the one of `before` goes on with what it has.
    fn of_files(read: &ReadFiles, before: Option<&Kubeconfig>) -> Result<Kubeconfig, String> {
        if read.is_service_account() {
            return Kubeconfig::in_cluster(read, |name| std::env::var(name).ok());
        }
        let document = reader::parse(&utf8(read.kubeconfig()?)).map_err(|wrong| wrong.to_string())?;
        let chosen = File::read(&document.value)?.chosen()?;
        Kubeconfig::of_chosen(chosen, read, before)
    }

    /// Of a server that flags name, and what is trusted there.
    ///
    /// # Errors
    /// What is wrong with its URL.
    pub fn of_server(server: &str, trust: Trust) -> Result<Kubeconfig, String> {
        let server = if server.contains("://") { Server::read(server) } else { Server::read(&format!("https://{server}")) }?;
        if server.user.is_some() {
            return Err("not http(s)://host[:port][/path]".to_owned());
        }
        Ok(Kubeconfig {
            server: server.url,
            trust,
            server_name: None,
            certificate: None,
            credentials: Credentials::None,
            impersonation: Vec::new(),
            proxy: None,
        })
    }

    /// Of the cluster in whose pod this server runs (client-go's `InClusterConfig`).
    fn in_cluster(files: &ReadFiles, variable: impl Fn(&str) -> Option<String>) -> Result<Kubeconfig, String> {
        let named = |name: &str| variable(name).filter(|value| !value.is_empty());
        let (Some(host), Some(port)) = (named("KUBERNETES_SERVICE_HOST"), named("KUBERNETES_SERVICE_PORT")) else {
            return Err("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod of a cluster".to_owned());
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        // It is read again later; here it is seen whether it can be.
        let token = Path::new("token");
        files.read(token).and_then(|bytes| token_of(&bytes)).map_err(|why| format!("token: {why}"))?;
        let trust = files.read(Path::new("ca.crt")).and_then(|pem| Trust::from_pem(&pem)).map_err(|why| format!("ca.crt: {why}"))?;
        let at = Kubeconfig::of_server(&format!("https://{host}:{port}"), trust)?;
        Ok(Kubeconfig { credentials: Credentials::token_file(files.resolve(token), None), ..at })
    }

    /// The same server, where we are nobody.
    #[must_use]
    pub fn as_nobody(self) -> Kubeconfig {
        Kubeconfig { certificate: None, credentials: Credentials::None, impersonation: Vec::new(), ..self }
    }

    /// The same server, where we show this certificate (PEM) and nothing else.
    ///
    /// # Errors
    /// What is wrong with the certificate or its key.
    pub fn showing(self, chain: &[u8], key: &[u8]) -> Result<Kubeconfig, String> {
        Ok(Kubeconfig { certificate: Some(Arc::new(certificate(chain, key)?)), ..self.as_nobody() })
    }

    /// Whether we are somebody there.
    #[must_use]
    pub fn has_identity(&self) -> bool {
        self.certificate.is_some() || !matches!(self.credentials, Credentials::None)
    }

    /// What is sent to say who we are.
    #[must_use]
    pub fn authorization(&self) -> Authorization {
        let proxy = self.proxy.as_ref().filter(|proxy| proxy.forwards(&self.url("")));
        let proxy = proxy.and_then(|proxy| proxy.authorization());
        Authorization::of(self.credentials.clone()).acting_as(self.impersonation.clone()).through(proxy)
    }

    /// `http(s)://host[:port][/path]`, without a slash at its end.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The URL of a path at this server; the path is empty or begins with a slash, and may have a query.
    #[must_use]
    pub fn url(&self, path: &str) -> Uri {
        format!("{}{path}", self.server).parse().expect("the server's URL was checked, and our paths have only characters of URLs")
    }

    /// Of what was chosen in a file.
    fn of_chosen(chosen: Chosen, files: &dyn Files, before: Option<&Kubeconfig>) -> Result<Kubeconfig, String> {
        rules::check(&chosen, files)?;
        let Chosen { cluster, user, user_name, mut warnings, .. } = chosen;
        let server = Server::read(&cluster.server).map_err(|why| format!("server {}: {why}", quoted(&cluster.server)))?;
        let proxy = Proxy::read(&cluster.proxy_url)?.map(Arc::new);
        let impersonation = user.impersonation()?;
        let mut of_server = Kubeconfig {
            server: server.url,
            trust: Trust::System,
            server_name: None,
            certificate: None,
            credentials: Credentials::None,
            impersonation,
            proxy,
        };
        if server.is_https {
            of_server.trust = cluster.trust(files)?;
            of_server.server_name = cluster.server_name()?;
            of_server.certificate = user.certificate(files)?.map(Arc::new);
            of_server.credentials = user.credentials(&user_name, files)?;
            let plugin = exec::plugin(&user_name, &user, &cluster, files)?;
            if let Some(plugin) = plugin.filter(|_| !of_server.has_identity() && server.user.is_none()) {
                of_server.credentials = Credentials::plugin(plugin, before.map(|before| &before.credentials));
            }
        } else if user.has_credentials() || cluster.has_trust() {
            warnings.push("the server is not https: authorities and credentials are not used (as in client-go)".to_owned());
        }
        if let Some((name, password)) = &server.user {
            of_server.credentials = Credentials::basic(name, password)?;
        }
        for warning in warnings {
            tracing::warn!(kubeconfig = %files.kubeconfig_file().display(), server = of_server.server, "{warning}");
        }
        Ok(of_server)
    }
}

impl Cluster {
    fn has_trust(&self) -> bool {
        !self.certificate_authority.is_empty() || !self.certificate_authority_data.is_empty() || self.insecure_skip_tls_verify
    }

    /// The bytes of its authorities, where it has any.
    fn authorities(&self, files: &dyn Files) -> Result<Option<Vec<u8>>, String> {
        either("certificate-authority", &self.certificate_authority, &self.certificate_authority_data, files)
    }

    fn trust(&self, files: &dyn Files) -> Result<Trust, String> {
        match (self.authorities(files)?, self.insecure_skip_tls_verify) {
            (Some(_), true) => Err("specifying a root certificates file with the insecure flag is not allowed".to_owned()),
            (Some(pem), false) => Trust::from_pem(&pem).map_err(|why| match self.certificate_authority.as_str() {
                "" => format!("certificate-authority-data: {why}"),
                file => format!("certificate-authority {}: {why}", files.resolve(Path::new(file)).display()),
            }),
            (None, true) => Ok(Trust::Anyone),
            (None, false) => Ok(Trust::System),
        }
    }

    fn server_name(&self) -> Result<Option<ServerName<'static>>, String> {
        let name = self.tls_server_name.as_str();
        let name = (!name.is_empty()).then(|| ServerName::try_from(name.to_owned()));
        name.transpose().map_err(|_| format!("tls-server-name {}: not a name", quoted(&self.tls_server_name)))
    }
}

impl User {
    /// Whether something says who we are.
    fn has_credentials(&self) -> bool {
        let texts = [&self.client_certificate, &self.token, &self.token_file, &self.username];
        let has_text = texts.iter().any(|text| !text.is_empty());
        has_text || !self.client_certificate_data.is_empty() || self.exec.is_some() || self.auth_provider.is_some()
    }

    fn credentials(&self, name: &str, files: &dyn Files) -> Result<Credentials, String> {
        if let Some(provider) = &self.auth_provider {
            return Err(format!("auth-provider {} of user {}: {}", quoted(provider), quoted(name), way_out(provider)));
        }
        let has_token = !self.token.is_empty() || !self.token_file.is_empty();
        if has_token && !self.username.is_empty() {
            return Err("username/password or bearer token may be set, but not both".to_owned());
        }
        if !self.token_file.is_empty() {
            let path = Path::new(&self.token_file);
            // It is read again later; here it is seen whether it can be.
            let read = files.read(path).and_then(|bytes| token_of(&bytes));
            match read {
                Err(why) if self.token.is_empty() => return Err(format!("tokenFile {}: {why}", files.resolve(path).display())),
                Err(_) | Ok(_) => {}
            }
            return Ok(Credentials::token_file(files.resolve(path), Some(&self.token).filter(|token| !token.is_empty())));
        }
        if !self.token.is_empty() {
            return Credentials::token(&self.token);
        }
        // A password alone is nobody's, as in client-go.
        if self.username.is_empty() { Ok(Credentials::None) } else { Credentials::basic(&self.username, &self.password) }
    }

    fn certificate(&self, files: &dyn Files) -> Result<Option<Certificate>, String> {
        let Some(chain) = either("client-certificate", &self.client_certificate, &self.client_certificate_data, files)? else {
            return Ok(None);
        };
        let key = either("client-key", &self.client_key, &self.client_key_data, files)?.unwrap_or_default();
        let pair = certificate(&chain, &key).and_then(|pair| settings(&Trust::Anyone, Some(&pair)).map(|_| pair));
        pair.map(Some).map_err(|why| format!("client-certificate: {why}"))
    }

    /// Headers that name whom we act as.
    fn impersonation(&self) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        if self.impersonate.is_empty() {
            return Ok(Vec::new());
        }
        let value = |member: &str, text: &str| {
            HeaderValue::from_str(text).map_err(|_| format!("{member} {}: it has characters that no header may have", quoted(text)))
        };
        let mut headers = vec![(HeaderName::from_static("impersonate-user"), value("as", &self.impersonate)?)];
        if !self.impersonate_uid.is_empty() {
            headers.push((HeaderName::from_static("impersonate-uid"), value("as-uid", &self.impersonate_uid)?));
        }
        for group in &self.impersonate_groups {
            headers.push((HeaderName::from_static("impersonate-group"), value("as-groups", group)?));
        }
        for (key, values) in &self.impersonate_extra {
            let name = format!("impersonate-extra-{}", utf8_percent_encode(key, &HEADER_TOKEN));
            let name = HeaderName::try_from(name).map_err(|_| format!("as-user-extra {}: not the name of a header", quoted(key)))?;
            for text in values {
                headers.push((name.clone(), value("as-user-extra", text)?));
            }
        }
        Ok(headers)
    }
}

/// A text in UTF-16, which begins with its mark, as UTF-8; others as they are.
fn utf8(text: Vec<u8>) -> Vec<u8> {
    let unit: fn([u8; 2]) -> u16 = match text.get(..2) {
        Some([0xff, 0xfe]) => u16::from_le_bytes,
        Some([0xfe, 0xff]) => u16::from_be_bytes,
        _ => return text,
    };
    let units: Vec<u16> = text[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    String::from_utf16(&units).map_or(text, String::into_bytes)
}

/// What to use instead of an auth provider, which Kubernetes' clients have no longer.
fn way_out(provider: &str) -> &'static str {
    match provider {
        "gcp" => {
            "it is gone from Kubernetes' clients; use exec with gke-gcloud-auth-plugin (`gcloud container clusters get-credentials` writes it)"
        }
        "azure" => "it is gone from Kubernetes' clients; use exec with kubelogin (`kubelogin convert-kubeconfig` writes it)",
        "oidc" => {
            "auth providers are not supported; use exec with a plugin such as kubelogin (`kubectl oidc-login`), a tokenFile, or a client certificate"
        }
        _ => "auth providers are not supported; use exec with a credential plugin, a token or tokenFile, or a client certificate",
    }
}

/// The bytes that stand in the kubeconfig itself, or those of a file.
fn either(member: &str, file: &str, data: &[u8], files: &dyn Files) -> Result<Option<Vec<u8>>, String> {
    match (file, data) {
        ("", []) => Ok(None),
        (file, []) => {
            let path = Path::new(file);
            files.read(path).map(Some).map_err(|why| format!("{member} {}: {why}", files.resolve(path).display()))
        }
        (_, data) => Ok(Some(data.to_vec())),
    }
}
