//! A kubeconfig file: where a server is, whom its certificate must be of, and who we are there. Read once; relative paths start at the file's directory.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use go::quote::quoted;
use go::yaml::reader;
use http::Uri;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

use super::credentials::{Authorization, Credentials, token_of};
use super::trust::{Certificate, Trust, certificate};

/// Bytes that a kubeconfig file, or a file that it names, may have.
const FILE_BYTES_MAX: u64 = 1 << 20;

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
#[derive(Debug)]
pub struct Kubeconfig {
    /// `http(s)://host[:port][/path]`, without a slash at its end.
    server: String,
    pub(crate) trust: Trust,
    /// `tls-server-name`.
    pub(crate) server_name: Option<ServerName<'static>>,
    pub(crate) certificate: Option<Certificate>,
    pub(crate) credentials: Credentials,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[derive(Default)]
struct File {
    current_context: String,
    clusters: Vec<Named>,
    contexts: Vec<Named>,
    users: Vec<Named>,
}

/// `name`, and one member with the rest.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Cluster {
    server: String,
    tls_server_name: String,
    insecure_skip_tls_verify: bool,
    certificate_authority: String,
    certificate_authority_data: String,
    proxy_url: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct User {
    client_certificate: String,
    client_certificate_data: String,
    client_key: String,
    client_key_data: String,
    token: String,
    #[serde(rename = "tokenFile")]
    token_file: String,
    username: String,
    password: String,
    exec: Option<Value>,
    auth_provider: Option<Value>,
    #[serde(rename = "as")]
    impersonate: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

impl Kubeconfig {
    /// Reads the file that a flag names; of a directory, what the service account of a pod is mounted as: its token, which is read again, and the authority of the server that
    /// the environment names.
    ///
    /// # Errors
    /// One line with the flag, the file and what is wrong with it.
    pub fn read(flag: &'static str, path: &Path) -> Result<Kubeconfig, KubeconfigError> {
        let directory = path.parent().unwrap_or(Path::new(""));
        let read = || -> Result<Kubeconfig, String> {
            if path.is_dir() {
                return Kubeconfig::in_cluster(path, |name| std::env::var(name).ok());
            }
            let document = reader::parse(&bytes_of(path)?).map_err(|wrong| wrong.to_string())?;
            Kubeconfig::from_tree(document.value, directory)
        };
        read().map_err(|what| KubeconfigError { flag, path: path.to_owned(), what })
    }

    /// The file in which a change of what [`Kubeconfig::read`] reads shows: a service account has its authority in one.
    #[must_use]
    pub fn file(path: &Path) -> PathBuf {
        if path.is_dir() { path.join("ca.crt") } else { path.to_owned() }
    }

    /// Of a server that flags name, and what is trusted there.
    ///
    /// # Errors
    /// What is wrong with its URL.
    pub fn of_server(server: &str, trust: Trust) -> Result<Kubeconfig, String> {
        let server = server_url(server, true)?;
        Ok(Kubeconfig { server, trust, server_name: None, certificate: None, credentials: Credentials::None })
    }

    /// Of the cluster in whose pod this server runs (client-go's `InClusterConfig`).
    fn in_cluster(directory: &Path, variable: impl Fn(&str) -> Option<String>) -> Result<Kubeconfig, String> {
        let named = |name: &str| variable(name).filter(|value| !value.is_empty());
        let (Some(host), Some(port)) = (named("KUBERNETES_SERVICE_HOST"), named("KUBERNETES_SERVICE_PORT")) else {
            return Err("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod of a cluster".to_owned());
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let token = directory.join("token");
        // It is read again later; here it is seen whether it can be.
        bytes_of(&token).and_then(|bytes| token_of(&bytes)).map_err(|why| format!("token: {why}"))?;
        let trust = bytes_of(&directory.join("ca.crt")).and_then(|pem| Trust::from_pem(&pem)).map_err(|why| format!("ca.crt: {why}"))?;
        let at = Kubeconfig::of_server(&format!("https://{host}:{port}"), trust)?;
        Ok(Kubeconfig { credentials: Credentials::TokenFile(token), ..at })
    }

    /// The same server, where we are nobody.
    #[must_use]
    pub fn as_nobody(self) -> Kubeconfig {
        Kubeconfig { certificate: None, credentials: Credentials::None, ..self }
    }

    /// The same server, where we show this certificate (PEM) and nothing else.
    ///
    /// # Errors
    /// What is wrong with the certificate or its key.
    pub fn showing(self, chain: &[u8], key: &[u8]) -> Result<Kubeconfig, String> {
        Ok(Kubeconfig { certificate: Some(certificate(chain, key)?), credentials: Credentials::None, ..self })
    }

    /// Whether we are somebody there.
    #[must_use]
    pub fn has_identity(&self) -> bool {
        self.certificate.is_some() || !matches!(self.credentials, Credentials::None)
    }

    /// What is sent as `Authorization`.
    #[must_use]
    pub fn authorization(&self) -> Authorization {
        Authorization::of(self.credentials.clone())
    }

    /// Of the tree of a file in this directory.
    fn from_tree(tree: Value, directory: &Path) -> Result<Kubeconfig, String> {
        let file: File = typed(tree)?;
        let (name, context) = file.context()?;
        let missing = |what: &str| format!("{what} was not specified for context {}", quoted(name));
        let of = |all: &[Named], member: &str, what: &str, wanted: &str| {
            let named = all.iter().find(|named| named.name == wanted);
            let named = named.ok_or_else(|| format!("{what} {} was not found for context {}", quoted(wanted), quoted(name)))?;
            Ok::<Value, String>(named.rest.get(member).cloned().unwrap_or_default())
        };
        if context.user.is_empty() {
            return Err(missing("user"));
        }
        if context.cluster.is_empty() {
            return Err(missing("cluster"));
        }
        let user: User = typed(of(&file.users, "user", "user", &context.user)?)?;
        let cluster: Cluster = typed(of(&file.clusters, "cluster", "cluster", &context.cluster)?)?;
        let (credentials, certificate) = user.identity(&context.user, directory)?;
        cluster.kubeconfig(&context.cluster, credentials, certificate, directory)
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
}

impl File {
    fn context(&self) -> Result<(&str, Context), String> {
        let named = match (self.current_context.as_str(), &self.contexts[..]) {
            ("", [only]) => only,
            ("", []) => return Err("no configuration has been provided: there is no context".to_owned()),
            ("", _) => return Err("current-context is not set, and there are several contexts".to_owned()),
            (current, all) => {
                all.iter().find(|named| named.name == current).ok_or_else(|| format!("context {} does not exist", quoted(current)))?
            }
        };
        Ok((&named.name, typed(named.rest.get("context").cloned().unwrap_or_default())?))
    }
}

impl Cluster {
    fn kubeconfig(
        &self,
        name: &str,
        credentials: Credentials,
        certificate: Option<Certificate>,
        directory: &Path,
    ) -> Result<Kubeconfig, String> {
        if self.server.is_empty() {
            return Err(format!("no server found for cluster {}", quoted(name)));
        }
        if !self.proxy_url.is_empty() {
            return Err(format!("proxy-url of cluster {}: proxies are not supported", quoted(name)));
        }
        if !self.certificate_authority.is_empty() && !self.certificate_authority_data.is_empty() {
            return Err(format!("certificate-authority-data and certificate-authority are both specified for {name}"));
        }
        let authorities = either("certificate-authority", &self.certificate_authority, &self.certificate_authority_data, directory)?;
        let trust = match (authorities, self.insecure_skip_tls_verify) {
            (Some(_), true) => return Err("specifying a root certificates file with the insecure flag is not allowed".to_owned()),
            (Some(pem), false) => Trust::from_pem(&pem).map_err(|why| format!("certificate-authority: {why}"))?,
            (None, true) => Trust::Anyone,
            (None, false) => Trust::System,
        };
        let server_name = match self.tls_server_name.as_str() {
            "" => None,
            name => Some(ServerName::try_from(name.to_owned()).map_err(|_| format!("tls-server-name {}: not a name", quoted(name)))?),
        };
        let has_tls = trust != Trust::System || certificate.is_some();
        let server = server_url(&self.server, has_tls).map_err(|why| format!("server {}: {why}", quoted(&self.server)))?;
        Ok(Kubeconfig { server, trust, server_name, certificate, credentials })
    }
}

/// The URL without query, fragment and last slash. Without a scheme it is `https` when something is said of TLS, as in client-go.
fn server_url(text: &str, has_tls: bool) -> Result<String, String> {
    let scheme = if has_tls { "https" } else { "http" };
    let whole = if text.contains("://") { text.to_owned() } else { format!("{scheme}://{text}") };
    let url = go::url::parse(&whole)?;
    if !matches!(url.scheme.as_str(), "http" | "https") {
        return Err("the scheme must be http or https".to_owned());
    }
    if url.host.is_empty() || url.user.is_some() {
        return Err("not http(s)://host[:port][/path]".to_owned());
    }
    let end = whole.find(['?', '#']).unwrap_or(whole.len());
    let server = whole[..end].trim_end_matches('/').to_owned();
    let uri: Uri = server.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    if uri.host().is_none() { Err("it has no host".to_owned()) } else { Ok(server) }
}

impl User {
    fn identity(&self, name: &str, directory: &Path) -> Result<(Credentials, Option<Certificate>), String> {
        let unsupported = [
            (self.exec.is_some(), "exec", "credential plugins are not supported; name a token or a certificate"),
            (self.auth_provider.is_some(), "auth-provider", "auth providers are not supported; name a token or a certificate"),
            (!self.impersonate.is_empty(), "as", "impersonation is not supported"),
        ];
        if let Some((_, member, why)) = unsupported.iter().find(|(is_there, ..)| *is_there) {
            return Err(format!("{member} of user {}: {why}", quoted(name)));
        }
        let has_password = !self.username.is_empty() || !self.password.is_empty();
        if !self.token.is_empty() && has_password {
            return Err(format!("more than one authentication method found for {name}; found [token basicAuth], only one is allowed"));
        }
        let credentials = if !self.token_file.is_empty() {
            let path = directory.join(&self.token_file);
            // It is read again later; here it is seen whether it can be.
            bytes_of(&path).and_then(|bytes| token_of(&bytes)).map_err(|why| format!("tokenFile {}: {why}", path.display()))?;
            Credentials::TokenFile(path)
        } else if !self.token.is_empty() {
            Credentials::token(&self.token)?
        } else if has_password {
            Credentials::basic(&self.username, &self.password)?
        } else {
            Credentials::None
        };
        let both = |file: &str, data: &str| !file.is_empty() && !data.is_empty();
        if both(&self.client_certificate, &self.client_certificate_data) || both(&self.client_key, &self.client_key_data) {
            return Err(format!("client-certificate or client-key and its data are both specified for {name}"));
        }
        let chain = either("client-certificate", &self.client_certificate, &self.client_certificate_data, directory)?;
        let key = either("client-key", &self.client_key, &self.client_key_data, directory)?;
        let certificate = match (chain, key) {
            (None, _) => None,
            (Some(_), None) => {
                return Err(format!(
                    "client-key-data or client-key must be specified for {name} to use the clientCert authentication method."
                ));
            }
            (Some(chain), Some(key)) => Some(certificate(&chain, &key).map_err(|why| format!("client-certificate: {why}"))?),
        };
        Ok((credentials, certificate))
    }
}

/// The bytes of a file, or those that stand in the kubeconfig itself.
fn either(member: &str, file: &str, data: &str, directory: &Path) -> Result<Option<Vec<u8>>, String> {
    match (file, data) {
        ("", "") => Ok(None),
        ("", data) => BASE64_STANDARD.decode(data).map(Some).map_err(|error| format!("{member}-data: {error}")),
        (file, _) => {
            let path = directory.join(file);
            bytes_of(&path).map(Some).map_err(|why| format!("{member} {}: {why}", path.display()))
        }
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    let length = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("more than {FILE_BYTES_MAX} bytes"));
    }
    fs::read(path).map_err(|error| error.to_string())
}

/// Null is as if nothing were there, as in Go.
fn typed<T: for<'de> Deserialize<'de> + Default>(value: Value) -> Result<T, String> {
    match without_nulls(value) {
        Value::Null => Ok(T::default()),
        value => serde_json::from_value(value).map_err(|error| error.to_string()),
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            members.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name, without_nulls(value))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: &str = "
apiVersion: v1
kind: Config
clusters:
- name: there
  cluster:
    server: https://localhost:8443/authenticate/
    certificate-authority: ca.pem
- name: other
  cluster: {server: 'localhost:1'}
users:
- name: we
  user: {tokenFile: token}
- name: other
contexts:
- name: one
  context: {cluster: there, user: we, namespace: x}
- name: two
  context: {cluster: other, user: other}
current-context: one
";

    /// Reads a file beside which there are a bundle, a key and a token.
    fn read(change: impl Fn(String) -> String) -> Result<Kubeconfig, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a valid name");
        let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        for (name, text) in [("ca.pem", pem.as_str()), ("key.pem", &key), ("token", " secret\n"), ("empty", "\n")] {
            fs::write(directory.path().join(name), text).expect("written");
        }
        let path = directory.path().join("config");
        let text =
            change(FILE.to_owned()).replace("CA-DATA", &BASE64_STANDARD.encode(&pem)).replace("KEY-DATA", &BASE64_STANDARD.encode(&key));
        fs::write(&path, text).expect("written");
        let read = Kubeconfig::read("--a-flag", &path);
        read.map_err(|error| error.to_string().replace(&directory.path().display().to_string(), "DIR"))
    }

    fn wrong(from: &str, to: &str) -> String {
        assert!(FILE.contains(from), "{from}");
        let error = read(|file| file.replace(from, to)).expect_err(to);
        error.strip_prefix("--a-flag DIR/config: ").expect("the flag and the file").to_owned()
    }

    #[test]
    fn the_current_context_says_where_and_who() {
        let config = read(|file| file).expect("good");
        assert_eq!(config.url("").to_string(), "https://localhost:8443/authenticate");
        assert_eq!(config.url("/apis?a=b").to_string(), "https://localhost:8443/authenticate/apis?a=b");
        assert!(matches!(&config.credentials, Credentials::TokenFile(path) if path.ends_with("token")), "{:?}", config.credentials);
        assert!(matches!(config.trust, Trust::Authorities(all) if all.len() == 1));
        let two = read(|file| file.replace("current-context: one", "current-context: two")).expect("good");
        assert_eq!((two.url("/").to_string().as_str(), two.trust), ("http://localhost:1/", Trust::System));
        let secure = read(|file| {
            file.replace("current-context: one", "current-context: two")
                .replace("'localhost:1'", "'localhost:1', certificate-authority-data: CA-DATA")
        });
        assert_eq!(secure.expect("good").url("").to_string(), "https://localhost:1/");
    }

    #[test]
    fn users_have_tokens_certificates_or_passwords() {
        let user = |user: &'static str| read(move |file| file.replace("{tokenFile: token}", user));
        let data = user("{client-certificate-data: CA-DATA, client-key-data: KEY-DATA}").expect("good");
        assert!(data.certificate.is_some() && matches!(data.credentials, Credentials::None));
        assert!(user("{client-certificate: ca.pem, client-key: key.pem}").expect("good").certificate.is_some());
        let Credentials::Fixed(value) = user("{username: a, password: b}").expect("good").credentials else { panic!("a header") };
        assert_eq!(value, "Basic YTpi");
        assert!(matches!(user("{token: abc}").expect("good").credentials, Credentials::Fixed(value) if value == "Bearer abc"));
        let named =
            read(|file| file.replace("certificate-authority: ca.pem", "insecure-skip-tls-verify: true\n    tls-server-name: example.com"));
        let named = named.expect("good");
        assert!(named.trust == Trust::Anyone && named.server_name == ServerName::try_from("example.com").ok());
    }

    #[test]
    fn a_pod_is_its_service_account() {
        let directory = tempfile::tempdir().expect("a directory");
        let of = |host: &'static str| {
            let variable = move |name: &str| Some(if name.ends_with("HOST") { host } else { "443" }.to_owned());
            Kubeconfig::in_cluster(directory.path(), variable)
        };
        assert!(of("10.0.0.1").expect_err("no token").starts_with("token: "));
        fs::write(directory.path().join("token"), "secret").expect("written");
        assert!(of("10.0.0.1").expect_err("no authority").starts_with("ca.crt: "));
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a valid name");
        fs::write(directory.path().join("ca.crt"), made.cert.pem()).expect("written");
        assert_eq!(Kubeconfig::file(directory.path()), directory.path().join("ca.crt"));
        assert_eq!(Kubeconfig::file(&directory.path().join("token")), directory.path().join("token"));
        let config = of("fd00::1").expect("good");
        assert_eq!((config.server(), config.has_identity()), ("https://[fd00::1]:443", true));
        assert!(matches!(&config.credentials, Credentials::TokenFile(path) if path.ends_with("token")));
        let nobody = config.as_nobody();
        assert!(!nobody.has_identity() && nobody.server() == "https://[fd00::1]:443");
        assert!(of("").expect_err("no pod").contains("KUBERNETES_SERVICE_HOST"));
    }

    #[test]
    fn what_cannot_be_used_is_refused_in_one_line() {
        assert_eq!(wrong("current-context: one", "current-context: three"), "context \"three\" does not exist");
        assert_eq!(wrong("current-context: one", "{}"), "yaml: line 21: simple key expect ':'");
        assert_eq!(wrong("current-context: one", ""), "current-context is not set, and there are several contexts");
        assert_eq!(wrong(FILE, ""), "no configuration has been provided: there is no context");
        assert_eq!(wrong("cluster: there, ", ""), "cluster was not specified for context \"one\"");
        assert_eq!(wrong("user: we,", "user: nobody,"), "user \"nobody\" was not found for context \"one\"");
        assert_eq!(wrong("    server: https://localhost:8443/authenticate/\n", ""), "no server found for cluster \"there\"");
        assert_eq!(wrong("https://", "ftp://"), "server \"ftp://localhost:8443/authenticate/\": the scheme must be http or https");
        assert_eq!(
            wrong("certificate-authority: ca.pem", "proxy-url: http://p"),
            "proxy-url of cluster \"there\": proxies are not supported"
        );
        assert_eq!(wrong("ca.pem", "none.pem"), "certificate-authority DIR/none.pem: No such file or directory (os error 2)");
        assert_eq!(wrong("ca.pem", "token"), "certificate-authority: unable to parse bytes as PEM block");
        assert_eq!(wrong("tokenFile: token", "tokenFile: empty"), "tokenFile DIR/empty: read empty token");
        let user = |user| wrong("{tokenFile: token}", user);
        assert!(user("{exec: {command: x}}").starts_with("exec of user \"we\": credential plugins are not supported"));
        assert!(user("{auth-provider: {name: x}}").starts_with("auth-provider of user \"we\": "));
        assert_eq!(user("{as: root}"), "as of user \"we\": impersonation is not supported");
        assert!(user("{token: a, username: b}").starts_with("more than one authentication method found for we"));
        assert!(user("{client-certificate: ca.pem}").starts_with("client-key-data or client-key must be specified for we"));
        assert!(user("{token: [a]}").contains("invalid type"));
        let both = wrong("certificate-authority: ca.pem", "certificate-authority: ca.pem\n    insecure-skip-tls-verify: true");
        assert_eq!(both, "specifying a root certificates file with the insecure flag is not allowed");
        let gone = Kubeconfig::read("--a-flag", Path::new("nowhere")).expect_err("no file").to_string();
        assert_eq!(gone, "--a-flag nowhere: No such file or directory (os error 2)");
    }

    proptest! {
        #[test]
        fn never_panics(server in ".{0,30}", text in "[ -~\n]{0,200}") {
            if let Ok(good) = server_url(&server, true) {
                let uri: Uri = format!("{good}/a?b=c").parse().expect("it was checked");
                prop_assert!(uri.host().is_some());
            }
            if let Ok(document) = reader::parse(text.as_bytes()) {
                let _ = Kubeconfig::from_tree(document.value, Path::new(""));
            }
        }
    }
}
