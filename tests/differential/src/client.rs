//! One server, and requests to it over connections that are kept.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

const PATIENCE: Duration = Duration::from_secs(60);

/// Where a server is and how it is spoken to.
#[derive(Clone)]
pub(crate) struct Server {
    address: String,
    tls: Option<Arc<ClientConfig>>,
    token: Option<String>,
}

/// What a server answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: String,
    /// The texts of the `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

impl Server {
    /// `url` is `http://ADDRESS` or `https://ADDRESS`.
    pub(crate) fn new(url: &str, ca: Option<&Path>, token: Option<&str>) -> Result<Self> {
        let token = token.map(str::to_owned);
        if let Some(address) = url.strip_prefix("http://") {
            return Ok(Self { address: address.trim_end_matches('/').to_owned(), tls: None, token });
        }
        let Some(address) = url.strip_prefix("https://") else { bail!("{url} is no URL of a server") };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca.context("an https URL needs the authority of its certificate")?)? {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let tls = Some(Arc::new(config.with_root_certificates(roots).with_no_client_auth()));
        Ok(Self { address: address.trim_end_matches('/').to_owned(), tls, token })
    }

    /// A connection that is opened when it is first needed.
    pub(crate) fn connection(&self) -> Connection {
        Connection { server: self.clone(), sender: None }
    }
}

/// One connection, opened anew when it ends.
pub(crate) struct Connection {
    server: Server,
    sender: Option<http1::SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// Sends one request; `media` is the type of the body.
    pub(crate) async fn send(&mut self, method: &str, path: &str, media: &str, body: &str) -> Result<Answer> {
        for attempt in 0.. {
            match timeout(PATIENCE, self.attempt(method, path, media, body)).await.context("no answer in time").and_then(|answer| answer) {
                Ok(answer) => return Ok(answer),
                Err(error) if attempt == 1 => return Err(error.context(format!("{method} {path} at {}", self.server.address))),
                Err(_) => self.sender = None,
            }
        }
        unreachable!("the second attempt returns")
    }

    async fn attempt(&mut self, method: &str, path: &str, media: &str, body: &str) -> Result<Answer> {
        if self.sender.as_ref().is_none_or(|sender| sender.is_closed()) {
            self.sender = Some(connect(&self.server).await?);
        }
        let sender = self.sender.as_mut().context("just opened")?;
        sender.ready().await?;
        let mut request =
            Request::builder().method(method).uri(path).header("host", &self.server.address).header("accept", "application/json");
        if let Some(token) = &self.server.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if !body.is_empty() {
            request = request.header("content-type", media);
        }
        let answer = sender.send_request(request.body(Full::new(Bytes::from(body.to_owned())))?).await?;
        let code = answer.status().as_u16();
        let warnings = answer.headers().get_all("warning").iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        // What watchcache alone does not apply, it says.
        let warnings = warnings.filter(|warning| !warning.contains(" by this server")).collect();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok(Answer { code, body: String::from_utf8_lossy(&body).into_owned(), warnings })
    }
}

async fn connect(server: &Server) -> Result<http1::SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(&server.address).await.with_context(|| format!("connect to {}", server.address))?;
    stream.set_nodelay(true)?;
    let Some(tls) = &server.tls else { return spoken(TokioIo::new(stream)).await };
    let host = server.address.rsplit_once(':').map_or(server.address.as_str(), |(host, _)| host).to_owned();
    let stream = TlsConnector::from(tls.clone()).connect(ServerName::try_from(host)?, stream).await?;
    spoken(TokioIo::new(stream)).await
}

async fn spoken<T>(io: T) -> Result<http1::SendRequest<Full<Bytes>>>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(io).await?;
    tokio::task::spawn_local(async move {
        // A broken connection shows in the request that is on it.
        let _ = connection.await;
    });
    Ok(sender)
}
