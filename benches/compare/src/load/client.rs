//! One TLS connection with a client certificate, HTTP/1.1 or HTTP/2. Knows no Kubernetes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{Form, Protocol, REQUEST_SECONDS, Target};
use crate::certs::Certificates;

/// The window of a stream and of a connection, bytes: Go's HTTP/2 client, which most Kubernetes clients are, offers 4 MB a stream.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;

/// Bytes of an error body that are worth showing.
const ERROR_BYTES_LIMIT: usize = 4096;

/// An open connection. Clones of an HTTP/2 one share it.
pub(crate) struct Connection {
    target: Target,
    sender: Sender,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// The client side of TLS for one protocol.
///
/// AES-128 comes first, as in Go's clients: servers that follow the client's order then use the cipher that Go servers choose, and every
/// subject pays for the same one. Sessions are not resumed, so that every handshake is a full one.
pub(crate) fn tls(certificates: &Certificates, protocol: Protocol) -> Result<Arc<ClientConfig>> {
    let mut provider = default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != cipher_suite::TLS13_AES_128_GCM_SHA256.suite());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificates.path("ca.crt")).context("read ca.crt")?)?;
    let chain = vec![CertificateDer::from_pem_file(certificates.path("admin.crt")).context("read admin.crt")?];
    let key = PrivateKeyDer::from_pem_file(certificates.path("admin.key")).context("read admin.key")?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    config.resumption = Resumption::disabled();
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    Ok(Arc::new(config))
}

impl Connection {
    /// Connects, in bounded time.
    pub(crate) async fn open(target: &Target, tls: &Arc<ClientConfig>, protocol: Protocol) -> Result<Self> {
        let sender =
            timeout(Duration::from_secs(REQUEST_SECONDS), connect(target, tls, protocol)).await.context("connecting took too long")?;
        Ok(Self { target: target.clone(), sender: sender.with_context(|| format!("connect to {}", target.address))? })
    }

    /// Another handle on the same HTTP/2 connection; `None` for HTTP/1.1, which has one request at a time.
    pub(crate) fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => Some(Self { target: self.target.clone(), sender: Sender::Http2(sender.clone()) }),
        }
    }

    /// A GET of uncompressed JSON that must be answered with 200.
    pub(crate) async fn read(&mut self, path: &str) -> Result<Response<Incoming>> {
        self.read_as(path, Form::Json, false).await
    }

    /// A GET that must be answered with 200 and in this form.
    pub(crate) async fn read_as(&mut self, path: &str, form: Form, gzip: bool) -> Result<Response<Incoming>> {
        let answer = self.send(Method::GET, path, (form, gzip), Bytes::new()).await?;
        let content_type = answer.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let fits = content_type.starts_with(form.content_type().as_bytes());
        ensure!(fits || form == Form::Json, "GET {path} came as {:?}, not as {form:?}", String::from_utf8_lossy(content_type));
        Ok(answer)
    }

    /// A request with a JSON body, which is a merge patch if the method is PATCH, that must be answered with 2xx; the answer's body.
    pub(crate) async fn write(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let answer = self.send(method, path, (Form::Json, false), body).await?;
        Ok(answer.into_body().collect().await.context("read the answer")?.to_bytes())
    }

    async fn send(&mut self, method: Method, path: &str, wanted: (Form, bool), body: Bytes) -> Result<Response<Incoming>> {
        let named = format!("{method} {path}");
        let exchange = async {
            let request = self.request(method, path, wanted, body)?;
            match &mut self.sender {
                Sender::Http1(sender) => {
                    sender.ready().await?;
                    anyhow::Ok(sender.send_request(request).await?)
                }
                Sender::Http2(sender) => {
                    sender.ready().await?;
                    Ok(sender.send_request(request).await?)
                }
            }
        };
        let answer = timeout(Duration::from_secs(REQUEST_SECONDS), exchange).await.with_context(|| format!("{named} took too long"))?;
        let answer = answer.with_context(|| named.clone())?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        bail!("{named}: {}", refusal(answer).await)
    }

    fn request(&self, method: Method, path: &str, (form, gzip): (Form, bool), body: Bytes) -> Result<Request<Full<Bytes>>> {
        let address = self.target.address;
        let request = match self.sender {
            Sender::Http1(_) => Request::builder().uri(path).header(HOST, address.to_string()),
            Sender::Http2(_) => Request::builder().uri(format!("https://{address}{path}")).version(Version::HTTP_2),
        };
        let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let mut request = request.method(method).header(ACCEPT, form.accept());
        if gzip {
            request = request.header(ACCEPT_ENCODING, "gzip");
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, content_type);
        }
        Ok(request.body(Full::new(body))?)
    }
}

async fn connect(target: &Target, tls: &Arc<ClientConfig>, protocol: Protocol) -> Result<Sender> {
    let tcp = TcpStream::connect(target.address).await?;
    tcp.set_nodelay(true)?;
    let name = ServerName::from(target.address.ip());
    let stream = TokioIo::new(TlsConnector::from(Arc::clone(tls)).connect(name, tcp).await?);
    // The connection tasks end when the last handle is dropped; what ends them early shows as an error of the request that was on them.
    match protocol {
        Protocol::Http1 => {
            let (sender, connection) = http1::handshake(stream).await?;
            tokio::spawn(connection);
            Ok(Sender::Http1(sender))
        }
        Protocol::Http2 => {
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .handshake(stream)
                .await?;
            tokio::spawn(connection);
            Ok(Sender::Http2(sender))
        }
    }
}

async fn refusal(answer: Response<Incoming>) -> String {
    let status: StatusCode = answer.status();
    let body = Limited::new(answer.into_body(), ERROR_BYTES_LIMIT).collect().await;
    let body = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default();
    format!("{status} {body}")
}
