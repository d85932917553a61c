//! An HTTPS server for tests, which answers as it is told: well, slowly, never, too much, or half.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

/// What a server was asked.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// What a server does then.
#[derive(Clone, Debug)]
pub enum Reaction {
    /// Answers with this status, content type and body.
    Answer(u16, &'static str, Bytes),
    /// Answers 200 and JSON with a header more.
    WithHeader(&'static str, String, Bytes),
    /// Reacts so after this time.
    After(Duration, Box<Reaction>),
    /// Reacts so once this is true; never when nobody can make it so any more.
    Once(watch::Receiver<bool>, Box<Reaction>),
    /// Answers 200 and JSON with this, and leaves the body open.
    Open(Bytes),
    /// Never answers.
    Hang,
    /// Sends the head and a part of the body, and ends the connection.
    CutOff,
    /// Ends the connection without an answer.
    Drop,
    /// Sends a body without an end.
    Giant,
    /// Answers 200 and JSON with this again and again, without an end.
    Repeated(Bytes),
}

impl Reaction {
    /// 200 and JSON.
    #[must_use]
    pub fn json(value: &serde_json::Value) -> Reaction {
        Reaction::Answer(200, "application/json", value.to_string().into())
    }
}

type React = dyn Fn(&ReceivedRequest) -> Reaction + Send + Sync;

/// A server on loopback under the name `localhost`; it ends when this is dropped.
pub struct Server {
    address: SocketAddr,
    ca_pem: String,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
    connections: Arc<AtomicUsize>,
    cut: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts one that speaks HTTP/1.1 and 2.
    ///
    /// # Panics
    /// When there is no port.
    pub async fn start(react: impl Fn(&ReceivedRequest) -> Reaction + Send + Sync + 'static) -> Server {
        Server::speaking(&[b"h2", b"http/1.1"], react).await
    }

    /// Starts one that speaks these.
    ///
    /// # Panics
    /// When there is no port.
    pub async fn speaking(protocols: &[&[u8]], react: impl Fn(&ReceivedRequest) -> Reaction + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let authority_key = rcgen::KeyPair::generate().expect("a key");
        let mut authority = rcgen::CertificateParams::new(Vec::new()).expect("no names");
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_pem = authority.self_signed(&authority_key).expect("a certificate").pem();
        let issuer = rcgen::Issuer::new(authority, authority_key);
        let key = rcgen::KeyPair::generate().expect("a key");
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "other.example".to_owned()];
        let cert = rcgen::CertificateParams::new(names).expect("names").signed_by(&key, &issuer).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut tls = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .expect("they belong together");
        tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let (asked, connections, cut) =
            (Arc::<Mutex<Vec<ReceivedRequest>>>::default(), Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
        let shared = Arc::new(Shared { acceptor: TlsAcceptor::from(Arc::new(tls)), react: Box::new(react), asked: asked.clone() });
        let task = tokio::spawn({
            let (connections, cut) = (connections.clone(), cut.clone());
            async move {
                // Connections end with their server.
                let mut open = tokio::task::JoinSet::new();
                loop {
                    tokio::select! {
                        accepted = listener.accept() => {
                            let Ok((stream, _)) = accepted else { break };
                            connections.fetch_add(1, Ordering::Relaxed);
                            open.spawn(shared.clone().connection(stream));
                        }
                        () = cut.notified() => open.abort_all(),
                    }
                }
            }
        });
        Server { address, ca_pem, asked, connections, cut, task }
    }

    /// `https://localhost:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// Who has signed its certificate.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// A kubeconfig file for it, at this path of it.
    #[must_use]
    pub fn kubeconfig(&self, path: &str) -> String {
        use base64::Engine;
        let data = base64::prelude::BASE64_STANDARD.encode(&self.ca_pem);
        format!(
            "clusters: [{{name: a, cluster: {{server: '{}{path}', certificate-authority-data: {data}}}}}]\n\
             users: [{{name: a, user: {{token: secret}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n",
            self.url()
        )
    }

    /// What it was asked until now.
    #[must_use]
    pub fn asked(&self) -> Vec<ReceivedRequest> {
        self.asked.lock().clone()
    }

    /// Ends all connections there are, soon.
    pub fn cut(&self) {
        self.cut.notify_one();
    }

    /// How often somebody connected.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

struct Shared {
    acceptor: TlsAcceptor,
    react: Box<React>,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Shared {
    async fn connection(self: Arc<Self>, stream: TcpStream) {
        let Ok(stream) = self.acceptor.accept(stream).await else { return };
        let service = service_fn(move |request| self.clone().answer(request));
        let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Told>, Gone> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Gone)?.to_bytes();
        let asked = ReceivedRequest { method: head.method, uri: head.uri, headers: head.headers, body };
        let reaction = (self.react)(&asked);
        self.asked.lock().push(asked);
        carried_out(reaction).await
    }
}

fn carried_out(reaction: Reaction) -> Pin<Box<dyn Future<Output = Result<Response<Told>, Gone>> + Send>> {
    Box::pin(async move {
        let (status, kind, body) = match reaction {
            Reaction::Answer(status, kind, body) => (status, kind, Told::Whole(Some(body))),
            Reaction::WithHeader(name, value, body) => {
                return Ok(Response::builder().header(name, value).body(Told::Whole(Some(body))).expect("a response"));
            }
            Reaction::After(time, then) => {
                sleep(time).await;
                return carried_out(*then).await;
            }
            Reaction::Open(body) => (200, "application/json", Told::Open(Some(body))),
            Reaction::Once(mut is_so, then) => {
                if is_so.wait_for(|is_so| *is_so).await.is_err() {
                    std::future::pending::<()>().await;
                }
                return carried_out(*then).await;
            }
            Reaction::Hang => std::future::pending().await,
            Reaction::Drop => return Err(Gone),
            Reaction::CutOff => (200, "application/json", Told::Half(false)),
            Reaction::Giant => (200, "application/json", Told::Endless(Bytes::from_static(&[b' '; 16 << 10]))),
            Reaction::Repeated(body) => (200, "application/json", Told::Endless(body)),
        };
        Ok(Response::builder().status(status).header("content-type", kind).body(body).expect("a response"))
    })
}

/// The connection ends here.
#[derive(Debug, thiserror::Error)]
#[error("gone")]
struct Gone;

enum Told {
    Whole(Option<Bytes>),
    Open(Option<Bytes>),
    Half(bool),
    Endless(Bytes),
}

impl Body for Told {
    type Data = Bytes;
    type Error = Gone;

    fn poll_frame(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Gone>>> {
        Poll::Ready(match self.get_mut() {
            Told::Open(body) => match body.take() {
                Some(body) => Some(Ok(Frame::data(body))),
                // Nobody wakes it again.
                None => return Poll::Pending,
            },
            Told::Whole(body) => body.take().map(|body| Ok(Frame::data(body))),
            Told::Half(is_told) if *is_told => Some(Err(Gone)),
            Told::Half(is_told) => {
                *is_told = true;
                Some(Ok(Frame::data(Bytes::from_static(b"{\"a\":"))))
            }
            Told::Endless(body) => Some(Ok(Frame::data(body.clone()))),
        })
    }
}
