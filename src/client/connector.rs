//! How connections to a server are made: its TLS, its name, and what it may speak.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tower::{Service, ServiceExt};

use super::credentials::{Credentials, Plugin};
use super::kubeconfig::Kubeconfig;
use super::stream::{Dialer, Revocable, Wire};
use super::trust::{Certificate, settings};

/// How long a connection may take to be made, and as long again its TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A quiet connection is asked after this time, so often, and so many times (Go's numbers): HTTP/1.1 has no pings.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 9;

/// Makes connections. One that is not made in time fails: a server that takes connections and says nothing, for one.
#[derive(Clone)]
pub struct Connector(Way);

#[derive(Clone)]
enum Way {
    /// With this certificate, or none.
    Fixed(HttpsConnector<Dialer>),
    /// With the certificate that a plugin issues.
    Plugin(Arc<OfPlugin>),
}

/// What connections are made of whose certificate a plugin issues.
struct OfPlugin {
    plugin: Arc<Plugin>,
    at: Kubeconfig,
    versions: Versions,
    made: Mutex<Option<ForCertificate>>,
}

/// What makes connections with the certificate that was issued last, or none.
struct ForCertificate {
    certificate: Option<Arc<Certificate>>,
    connector: HttpsConnector<Dialer>,
}

/// A connection to a server.
pub struct Made {
    /// What is sent and comes.
    pub stream: <Connector as Service<Uri>>::Response,
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
    /// Of servers that a certificate is judged for by these settings, and by this name instead of theirs.
    pub(crate) fn of_tls(tls: ClientConfig, name: Option<ServerName<'static>>) -> Connector {
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_only();
        let builder = match name {
            Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
            None => builder,
        };
        Connector(Way::Fixed(builder.enable_http1().wrap_connector(Dialer::new(tcp()))))
    }

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
    type Response = Revocable<MaybeHttpsStream<Wire>>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match &mut self.0 {
            Way::Fixed(connector) => connector.poll_ready(cx),
            Way::Plugin(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let late = || "the connection was not made in time".into();
        match &mut self.0 {
            Way::Fixed(connector) => {
                let made = timeout(2 * CONNECT_TIMEOUT, connector.call(server));
                Box::pin(async move { made.await.unwrap_or_else(|_| Err(late())).map(Revocable::lasting) })
            }
            Way::Plugin(of_plugin) => {
                let of_plugin = of_plugin.clone();
                Box::pin(async move {
                    let rotations = of_plugin.plugin.rotations();
                    let mut connector = of_plugin.connector().await?;
                    let made = timeout(2 * CONNECT_TIMEOUT, async { connector.ready().await?.call(server).await });
                    made.await.unwrap_or_else(|_| Err(late())).map(|stream| Revocable::until(stream, rotations))
                })
            }
        }
    }
}

impl OfPlugin {
    /// Connections with the certificate of now.
    async fn connector(&self) -> Result<HttpsConnector<Dialer>, String> {
        let certificate = self.plugin.issued().await.map_err(|why| format!("getting credentials: {why}"))?.certificate.clone();
        let mut made = self.made.lock();
        if let Some(made) = made.as_ref().filter(|made| made.certificate == certificate) {
            return Ok(made.connector.clone());
        }
        let connector = self.at.https(certificate.as_deref(), self.versions)?;
        *made = Some(ForCertificate { certificate, connector: connector.clone() });
        Ok(connector)
    }
}

impl Kubeconfig {
    /// Connections to this server, with our certificate if we have one.
    ///
    /// # Errors
    /// When certificate and key do not fit.
    pub fn connector(&self, versions: Versions) -> Result<Connector, String> {
        if let Credentials::Plugin(plugin) = &self.credentials {
            let (plugin, at) = (plugin.clone(), self.clone());
            return Ok(Connector(Way::Plugin(Arc::new(OfPlugin { plugin, at, versions, made: Mutex::default() }))));
        }
        self.https(self.certificate.as_deref(), versions).map(|https| Connector(Way::Fixed(https)))
    }

    /// Connections to this server that show no certificate.
    ///
    /// # Errors
    /// When what is trusted makes no sense.
    pub fn connector_of_nobody(&self, versions: Versions) -> Result<Connector, String> {
        self.https(None, versions).map(|https| Connector(Way::Fixed(https)))
    }

    fn https(&self, certificate: Option<&Certificate>, versions: Versions) -> Result<HttpsConnector<Dialer>, String> {
        let tls = settings(&self.trust, certificate)?;
        let dialer = Dialer::new(tcp()).through(self.proxy.as_ref(), &tls);
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let builder = match &self.server_name {
            Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name.clone())),
            None => builder,
        };
        Ok(match versions {
            Versions::All => builder.enable_all_versions().wrap_connector(dialer),
            Versions::Http1 => builder.enable_http1().wrap_connector(dialer),
        })
    }
}
