//! How connections to a server are made: its TLS, its name, and what it may speak.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use tokio::time::timeout;
use tower::{Service, ServiceExt};

use super::kubeconfig::Kubeconfig;
use super::trust::{Certificate, settings};

/// How long a connection may take to be made, and as long again its TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A quiet connection is asked after this time, so often, and so many times (Go's numbers): HTTP/1.1 has no pings.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 9;

/// Makes connections. One that is not made in time fails: a server that takes connections and says nothing, for one.
#[derive(Clone)]
pub struct Connector(pub(crate) HttpsConnector<HttpConnector>);

/// A connection to a server.
pub struct Made {
    /// What is sent and comes.
    pub stream: <HttpsConnector<HttpConnector> as Service<Uri>>::Response,
    /// Whether HTTP/2 is spoken on it; HTTP/1.1 otherwise.
    pub is_http2: bool,
}

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// HTTP/2 where the server offers it.
    All,
    /// HTTP/1.1.
    Http1,
}

/// Connections without TLS, which others begin over them.
pub(crate) fn tcp() -> HttpConnector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_nodelay(true);
    http.set_keepalive(Some(KEEPALIVE));
    http.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    http.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    http
}

impl Connector {
    /// Makes one connection.
    ///
    /// # Errors
    /// When there is none in time.
    pub async fn connect(&mut self, server: Uri) -> Result<Made, Box<dyn Error + Send + Sync>> {
        let stream = self.ready().await?.call(server).await?;
        Ok(Made { is_http2: stream.connected().is_negotiated_h2(), stream })
    }
}

impl Service<Uri> for Connector {
    type Response = <HttpsConnector<HttpConnector> as Service<Uri>>::Response;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let made = timeout(2 * CONNECT_TIMEOUT, self.0.call(server));
        Box::pin(async move { made.await.unwrap_or_else(|_| Err("the connection was not made in time".into())) })
    }
}

impl Kubeconfig {
    /// Connections to this server, with our certificate if we have one.
    ///
    /// # Errors
    /// When certificate and key do not fit.
    pub fn connector(&self, versions: Versions) -> Result<Connector, String> {
        self.connector_showing(self.certificate.as_ref(), versions)
    }

    /// Connections to this server that show no certificate.
    ///
    /// # Errors
    /// When what is trusted makes no sense.
    pub fn connector_of_nobody(&self, versions: Versions) -> Result<Connector, String> {
        self.connector_showing(None, versions)
    }

    fn connector_showing(&self, certificate: Option<&Certificate>, versions: Versions) -> Result<Connector, String> {
        let tls = settings(&self.trust, certificate)?;
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let builder = match &self.server_name {
            Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name.clone())),
            None => builder,
        };
        Ok(match versions {
            Versions::All => Connector(builder.enable_all_versions().wrap_connector(tcp())),
            Versions::Http1 => Connector(builder.enable_http1().wrap_connector(tcp())),
        })
    }
}
