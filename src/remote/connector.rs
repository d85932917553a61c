//! How connections to a server are made: its TLS, its name, and what it may speak.

use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;

use super::kubeconfig::Kubeconfig;
use super::trust::settings;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes connections.
pub type Connector = HttpsConnector<HttpConnector>;

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// HTTP/2 where the server offers it.
    All,
    /// HTTP/1.1: for requests that change the protocol of their connection.
    Http1,
}

/// Connections without TLS, which others begin over them.
pub(crate) fn tcp() -> HttpConnector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_nodelay(true);
    http
}

impl Kubeconfig {
    /// Connections to this server, with our certificate if we have one.
    ///
    /// # Errors
    /// When certificate and key do not fit.
    pub fn connector(&self, versions: Versions) -> Result<Connector, String> {
        let tls = settings(&self.trust, self.certificate.as_ref())?;
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let builder = match &self.server_name {
            Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name.clone())),
            None => builder,
        };
        Ok(match versions {
            Versions::All => builder.enable_all_versions().wrap_connector(tcp()),
            Versions::Http1 => builder.enable_http1().wrap_connector(tcp()),
        })
    }
}
