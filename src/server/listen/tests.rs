//! The listeners over real sockets: strangers, known clients, and those who would keep us waiting.

mod bodies;
mod chunked;
mod crowds;
mod handshakes;
mod http2;
mod watches;

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderValue, Response, header};
use http_body::Body;
use http_body_util::BodyExt;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsConnector;

use super::super::answer::LongRunning;
use super::super::answer::{Answer, Extras, Request, Service};
use super::super::request_body::RequestBody;
use super::super::whole::{NoBody, Whole};
use super::*;
use auth::authn::{Authenticator, AuthnOutcome, CertificateTrust, Config, Context, Empty, Identity, PresentedChain};

/// The longest body that a service under test reads.
const BODY_BYTES_MAX: usize = 3 << 20;

/// A connection, and what its client has proved.
struct Client {
    conn: Arc<Conn>,
    certificate: PresentedChain,
}

/// Has a function answer all requests.
struct Answers<F> {
    authenticator: Arc<Authenticator>,
    service: F,
}

struct Requests<F>(F, Arc<Client>);

impl<F, Fut, B> Host for Answers<F>
where
    F: Fn(http::Request<RequestBody>, Arc<Client>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    type Service = Requests<F>;

    fn refused_certificate(&self, _: &(dyn Error + Send + Sync + 'static)) -> Option<String> {
        None
    }

    fn connected(&self, conn: &Arc<Conn>, certificates: Option<&[CertificateDer<'static>]>) -> Requests<F> {
        let now = SystemTime::now();
        let certificate = certificates.map_or_else(PresentedChain::none, |chain| self.authenticator.presented(Some(chain), now));
        if let CertificateTrust::Trusted { user, .. } = &self.authenticator.evaluated(&certificate, now).trust {
            conn.certified(&user.name);
        }
        Requests(self.service.clone(), Arc::new(Client { conn: conn.clone(), certificate }))
    }
}

impl<F, Fut, B> Service for Requests<F>
where
    F: Fn(http::Request<RequestBody>, Arc<Client>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    type Body = B;
    type Future = Pin<Box<dyn Future<Output = Answer<B>> + Send>>;

    fn answer(&self, request: Request) -> Self::Future {
        let Request { mut http, head } = request;
        // The head counts for as long as somebody has the request.
        http.extensions_mut().insert(head);
        let answer = (self.0)(http, self.1.clone());
        Box::pin(async move {
            let mut http = answer.await;
            let long_running = http.extensions_mut().remove();
            Answer { http, extras: Extras { long_running, ..Extras::default() } }
        })
    }
}

/// Certificates and tokens in a directory that goes away with it.
struct Papers {
    dir: tempfile::TempDir,
    authority_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Papers {
    fn new() -> Papers {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority_pem = params.self_signed(&key).expect("signed").pem();
        let papers = Papers { dir: tempfile::tempdir().expect("a directory"), authority_pem, issuer: Issuer::new(params, key) };
        let (cert, key) = papers.issue("localhost", ExtendedKeyUsagePurpose::ServerAuth);
        papers.write("server.pem", &cert);
        papers.write("server.key", &key);
        papers.write("ca.pem", &papers.authority_pem);
        papers.write("tokens.csv", "s3cret,bob,2\n");
        papers
    }

    fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.issuer).expect("signed").pem(), key.serialize_pem())
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).expect("written");
    }

    fn files(&self) -> TlsFiles {
        let path = |name: &str| self.dir.path().join(name);
        TlsFiles {
            cert_file: path("server.pem"),
            key_file: path("server.key"),
            named: Vec::new(),
            ticket_keys: Vec::new(),
            only_tls13: false,
            suites: None,
        }
    }

    fn authenticator(&self) -> Arc<Authenticator> {
        let path = |name: &str| Some(self.dir.path().join(name));
        Arc::new(
            Authenticator::load(&Config { client_ca_file: path("ca.pem"), token_file: path("tokens.csv"), ..Config::default() })
                .expect("valid"),
        )
    }

    /// A client that trusts our server, with or without a certificate of its own.
    fn client(&self, own: Option<(String, String)>, alpn: &[&[u8]]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority_pem.as_bytes()).expect("PEM")).expect("a root");
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(cert.as_bytes()).expect("PEM")],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM"),
                )
                .expect("a pair"),
        };
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

/// A server under test: answers with who it thinks the client is, after `/slow`'s pause where asked, to `/never` not at all, to `/large` with [`LARGE`]
/// bytes, to `/faulty` with a body that panics after its first frame, to `/events` with a watch of two events, to `/told` with one that
/// has a length. It reads the body of a request for `/body`, and has [`BODY_TIME`] for it; that of one for `/kept` it reads and keeps.
struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<io::Result<usize>>,
    /// Requests that have reached the service.
    asked: watch::Receiver<usize>,
    metrics: Arc<Metrics>,
}

/// What no limit, and no answer that is not about a limit, comes near to, however slow the machine.
const LONG: Duration = Duration::from_secs(600);
/// How long `/slow` takes to answer.
const SLOW: Duration = Duration::from_millis(1_600);
/// A limit that a test waits for.
const SHORT: Duration = Duration::from_millis(800);
/// How long a request for `/body` may take.
const BODY_TIME: Duration = Duration::from_millis(3_200);
/// More bytes than sockets hold for a client that does not read.
const LARGE: usize = 32 << 20;

/// Without limits of time: a test shortens the one that it is about.
fn limits() -> Limits {
    Limits {
        goaway_chance: 0.0,
        count_max: 64,
        streams_max: 7,
        header_timeout: LONG,
        idle_timeout: LONG,
        header_bytes_max: 16 << 10,
        unread_max: LONG,
        unread_bytes_max: 1 << 20,
        bodies_bytes_max: 1 << 20,
    }
}

fn start(listener: Listener, authenticator: Arc<Authenticator>, limits: Limits, shutdown: Duration) -> Server {
    let address = listener.socket.local_addr().expect("an address");
    let (stop, stopped) = watch::channel(false);
    let (heard, asked) = watch::channel(0);
    let metrics = Metrics::new();
    let listeners = Listeners { listeners: vec![listener], tls: None, metrics: Arc::clone(&metrics) };
    let judge = Arc::clone(&authenticator);
    let service = move |request: http::Request<RequestBody>, client: Arc<Client>| {
        let info = client.conn.clone();
        let identity = match info.listener {
            ListenerKind::Plain => Identity::Local,
            ListenerKind::Secure => {
                let now = SystemTime::now();
                let certificate = judge.evaluated(&client.certificate, now);
                let context = Context { path: "/", certificate: &certificate, is_socket: false, directory: &Empty, now };
                match judge.identify(&mut request.headers().clone(), &context) {
                    AuthnOutcome::Identity(identity) => identity,
                    AuthnOutcome::NeedsRemote(_) => Identity::None,
                }
            }
        };
        heard.send_modify(|count| *count += 1);
        async move {
            let path = request.uri().path().to_owned();
            let (mut code, mut body) = match identity {
                Identity::User(proof) if info.seat.prove(&proof.user.name).is_err() => (429, "too many".to_owned()),
                Identity::User(proof) => (200, proof.user.name.clone()),
                Identity::Local => (200, "local".to_owned()),
                Identity::None => (401, "none".to_owned()),
                Identity::Invalid(_) => (401, "invalid".to_owned()),
            };
            match &*path {
                "/slow" => sleep(SLOW).await,
                "/never" => std::future::pending().await,
                "/livez" => info.seat.probed(),
                "/faulty" => return Response::new(faulty()),
                "/events" => return events(),
                "/told" => {
                    let mut answer = events();
                    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("6"));
                    return answer;
                }
                "/large" => body = "a".repeat(LARGE),
                "/kept" => {
                    let mut sent = request.into_body();
                    while !http_body::Body::is_end_stream(&sent) {
                        sent.frame().await.expect("more of it").expect("it comes");
                    }
                    // As a client of another server does that passes it on.
                    tokio::spawn(async move {
                        sleep(LONG).await;
                        drop(sent);
                    });
                }
                "/body" => {
                    let read = Whole::read(request.into_body(), BODY_BYTES_MAX, &info, Instant::now() + BODY_TIME).await;
                    (code, body) = match read {
                        Ok(whole) => (200, whole.len().to_string()),
                        Err(NoBody::TimedOut) => (504, String::new()),
                        Err(NoBody::Stopping) => (503, String::new()),
                        Err(NoBody::Broken(why)) => (400, why),
                        Err(NoBody::TooLarge) => (413, String::new()),
                        Err(NoBody::NoRoom) => (429, "take all the memory".to_owned()),
                    };
                }
                _ => {}
            }
            Response::builder().status(code).body(axum::body::Body::from(body)).expect("a response")
        }
    };
    let task = tokio::spawn(listeners.serve(Arc::new(Answers { authenticator, service }), limits, shutdown, stopped));
    Server { address, stop, task, asked, metrics }
}

/// A watch: an event, a pause, another one, the end.
fn events() -> Response<axum::body::Body> {
    let frames = stream::iter(["one", "two"]).then(async |event| {
        sleep(SLOW / 4).await;
        Ok::<_, Infallible>(Bytes::from_static(event.as_bytes()))
    });
    let mut answer = Response::new(axum::body::Body::from_stream(frames));
    answer.extensions_mut().insert(LongRunning { until: Instant::now() + LONG, may_rest: Arc::new(true.into()) });
    answer
}

/// A frame, and then a fault of the code that makes the next one.
fn faulty() -> axum::body::Body {
    let frames = stream::iter(0..).map(|n| {
        assert!(n < 1, "a test's panic");
        Ok::<_, Infallible>(Bytes::from_static(b"begun"))
    });
    axum::body::Body::from_stream(frames)
}

impl Server {
    /// Waits until the service has so many requests.
    async fn is_asked(&mut self, count: usize) {
        timeout(LONG, self.asked.wait_for(|asked| *asked >= count)).await.expect("it comes").expect("the server runs");
    }
}

/// Addresses of the plain listener, as the flags have them.
fn loopback() -> Vec<IpAddr> {
    vec![[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()]
}

fn opened(wanted: &Binding, files: Option<&TlsFiles>) -> Result<Listeners, ListenerError> {
    Listeners::new(files, Sockets::bind(wanted)?, None, Metrics::new())
}

fn plain(limits: Limits) -> Server {
    let listener = Listener { socket: bind("--insecure-port", "127.0.0.1:0".parse().expect("an address")).expect("a port"), tls: None };
    let nobody = Arc::new(Authenticator::load(&Config::default()).expect("nothing to read"));
    start(listener, nobody, limits, LONG)
}

fn secure(papers: &Papers, limits: Limits) -> Server {
    let authenticator = papers.authenticator();
    let sockets =
        Sockets::bind(&Binding { secure: Some("127.0.0.1:0".parse().expect("an address")), ..Binding::default() }).expect("bound");
    let verifier = authenticator.handshake_verifier();
    let mut listeners = Listeners::new(Some(&papers.files()), sockets, verifier, Metrics::new()).expect("read");
    start(listeners.listeners.pop().expect("one"), authenticator, limits, LONG)
}

/// Sends a request and reads the whole answer; the connection closes after it.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, header: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n");
    let _ = stream.write_all(request.as_bytes()).await;
    read_all(stream).await
}

async fn read_all(mut stream: impl AsyncRead + Unpin) -> String {
    let mut answer = Vec::new();
    let _ = timeout(LONG, stream.read_to_end(&mut answer)).await.expect("the server ends the connection");
    String::from_utf8_lossy(&answer).into_owned()
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address).await.expect("connected")
}

async fn tls(server: &Server, client: &TlsConnector) -> tokio_rustls::client::TlsStream<TcpStream> {
    client.connect(ServerName::try_from("localhost").expect("a name"), connect(server).await).await.expect("shaken hands")
}

#[tokio::test]
async fn the_secure_door_knows_its_clients() {
    let papers = Papers::new();
    let server = secure(&papers, limits());
    let stranger = papers.client(None, &[]);
    let answers = async |client: &TlsConnector, header: &str| ask(tls(&server, client).await, "/", header).await;
    assert!(answers(&stranger, "").await.contains("401 Unauthorized") && answers(&stranger, "").await.ends_with("none"));
    assert!(answers(&stranger, "Authorization: Bearer wrong\r\n").await.ends_with("invalid"));
    assert!(answers(&stranger, "Authorization: Bearer s3cret\r\n").await.ends_with("bob"));
    let jane = papers.client(Some(papers.issue("jane", ExtendedKeyUsagePurpose::ClientAuth)), &[]);
    let answer = answers(&jane, "").await;
    assert!(answer.contains("200 OK") && answer.ends_with("jane"), "{answer}");
    // A certificate of somebody else's authority: the handshake holds and the answer is a 401.
    let forged = papers.client(Some(Papers::new().issue("jane", ExtendedKeyUsagePurpose::ClientAuth)), &[]);
    assert!(answers(&forged, "").await.ends_with("invalid"));
    assert!(answers(&forged, "Authorization: Bearer s3cret\r\n").await.ends_with("bob"));
}

#[tokio::test]
async fn h2_is_preferred_and_limited() {
    let papers = Papers::new();
    let server = secure(&papers, Limits { idle_timeout: 3 * SHORT, ..limits() });
    let since = Instant::now();
    let mut stream = tls(&server, &papers.client(None, &[b"h2", b"http/1.1"])).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("sent");
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.expect("a frame");
    assert_eq!(head[3], 4, "the first frame is SETTINGS");
    let mut settings = vec![0; usize::from(head[2])];
    stream.read_exact(&mut settings).await.expect("its payload");
    let setting = |id: u8| settings.chunks_exact(6).find(|s| s[1] == id).map(|s| u32::from_be_bytes([s[2], s[3], s[4], s[5]]));
    assert_eq!((setting(3), setting(6)), (Some(7), Some(16 << 10)));
    // It asks for nothing: idle, so it ends by the idle limit.
    read_all(stream).await;
    assert!(since.elapsed() >= 3 * SHORT, "{:?}", since.elapsed());
}

#[tokio::test]
async fn h2_that_asks_for_nothing_is_not_stalled() {
    let server = plain(Limits { header_timeout: SHORT, idle_timeout: 6 * SHORT, ..limits() });
    let since = Instant::now();
    let mut stream = connect(&server).await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("sent");
    read_all(stream).await;
    assert!(since.elapsed() >= 6 * SHORT, "not by the limit for a head: {:?}", since.elapsed());
}

#[tokio::test]
async fn heads_that_are_too_long_are_refused() {
    let server = plain(limits());
    let mut stream = connect(&server).await;
    let filler = vec![b'a'; 1 << 20];
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ").await;
    for _ in 0..10 {
        if stream.write_all(&filler).await.is_err() {
            break;
        }
    }
    // Either the 431 arrives, or the reset of a connection with unread bytes overtook it; never a 200.
    let answer = read_all(stream).await;
    assert!(answer.is_empty() || answer.contains("431"), "{answer}");
    assert!(ask(connect(&server).await, "/", "").await.ends_with("local"));
}

#[tokio::test]
async fn half_requests_and_silence_end() {
    // The idle limit is further off than any answer is waited for: what ends these is the limit for a head.
    let server = plain(Limits { header_timeout: SHORT, idle_timeout: 2 * LONG, ..limits() });
    for start in ["", "G", "PRI * HT", "GET / HTTP/1.1\r\nHost: local"] {
        let mut stream = connect(&server).await;
        stream.write_all(start.as_bytes()).await.expect("sent");
        assert!(!read_all(stream).await.contains("200"), "{start:?}");
    }
}

#[tokio::test]
async fn a_second_head_has_its_own_time_and_an_idle_connection_more() {
    let server = plain(Limits { header_timeout: SHORT, idle_timeout: 2 * LONG, ..limits() });
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut idle = connect(&server).await;
    let mut answer = [0; 512];
    for _ in 0..2 {
        idle.write_all(request).await.expect("sent");
        let n = idle.read(&mut answer).await.expect("answered");
        assert!(answer[..n].ends_with(b"local"));
        // Longer than the header timeout, shorter than the idle one.
        sleep(2 * SHORT).await;
    }
    idle.write_all(b"GET /").await.expect("sent");
    assert_eq!(read_all(idle).await, "");
}

#[tokio::test]
async fn slow_answers_outlive_every_idle_limit() {
    let server = plain(Limits { idle_timeout: SLOW / 4, ..limits() });
    assert!(ask(connect(&server).await, "/slow", "").await.ends_with("local"));
}

/// A head of many headers, and one with a long path, within `--max-header-bytes`; hyper's own limits are 100 headers and 64 KiB.
#[tokio::test]
async fn heads_may_be_of_any_form_up_to_their_limit() {
    let server = plain(Limits { header_bytes_max: 128 << 10, ..limits() });
    let headers = |count: usize| (0..count).map(|n| format!("X-{n}: {n}\r\n")).collect::<String>();
    let answers = async |path: &str, header: &str| ask(connect(&server).await, path, header).await;
    assert!(answers("/", &headers(120)).await.ends_with("local"));
    assert!(answers("/", &headers(4_000)).await.ends_with("local"));
    assert!(answers("/", &headers(4_100)).await.contains("431 "), "more than HTTP/2 would take");
    let path = |length: usize| format!("/{}", "a".repeat(length));
    assert!(answers(&path(60 << 10), "").await.ends_with("local"));
    assert!(answers(&path(65 << 10), "").await.contains("414 "));
}

#[tokio::test]
async fn stopping_lets_answers_finish_and_drops_the_rest() {
    let mut server = plain(limits());
    let (idle, stalled) = (connect(&server).await, connect(&server).await);
    let asking = tokio::spawn(ask(connect(&server).await, "/slow", ""));
    server.is_asked(1).await;
    server.stop.send(true).expect("it listens");
    assert!(asking.await.expect("no panic").ends_with("local"));
    assert_eq!(server.task.await.expect("no panic").expect("served"), 0);
    assert!(TcpStream::connect(server.address).await.is_err());
    drop((idle, stalled));

    let listener = Listener { socket: bind("--insecure-port", "127.0.0.1:0".parse().expect("an address")).expect("a port"), tls: None };
    let nobody = Arc::new(Authenticator::load(&Config::default()).expect("nothing to read"));
    let mut server = start(listener, nobody, limits(), SHORT);
    let asking = tokio::spawn(ask(connect(&server).await, "/never", ""));
    server.is_asked(1).await;
    server.stop.send(true).expect("it listens");
    assert_eq!(server.task.await.expect("no panic").expect("served"), 1);
    assert_eq!(asking.await.expect("no panic"), "");
}

#[test]
fn a_shut_door_says_why_in_one_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let error = |wanted: Binding, files: Option<&TlsFiles>| match opened(&wanted, files) {
        Ok(_) => panic!("it opened"),
        Err(error) => error.to_string(),
    };
    let busy = Binding { plain: loopback(), plain_port: Some(port), ..Binding::default() };
    assert_eq!(error(busy, None), format!("--insecure-port: 127.0.0.1:{port} is already in use"));
    let papers = Papers::new();
    let secure = |address: &str| Binding { secure: Some(address.parse().expect("an address")), ..Binding::default() };
    let with = |change: &dyn Fn(&mut TlsFiles)| {
        let mut files = papers.files();
        change(&mut files);
        error(secure("127.0.0.1:0"), Some(&files))
    };
    assert!(with(&|files| files.cert_file = "/does/not/exist".into()).starts_with("--tls-cert-file /does/not/exist: "));
    assert!(with(&|files| files.cert_file = files.key_file.clone()).ends_with("no certificate in it"));
    assert!(with(&|files| files.key_file = files.cert_file.clone()).ends_with("no private key in it"));
    papers.write("other.key", &papers.issue("x", ExtendedKeyUsagePurpose::ServerAuth).1);
    let mismatch = with(&|files| files.key_file = papers.dir.path().join("other.key"));
    assert!(mismatch.starts_with("--tls-private-key-file ") && !mismatch.contains('\n'), "{mismatch}");
    // A link-local address without its interface: no machine can listen there, whatever addresses it has.
    assert!(error(secure("[fe80::1]:1"), Some(&papers.files())).starts_with("--secure-port: cannot listen on [fe80::1]:1: "));
}

#[test]
fn the_plain_door_is_where_it_is_to_be() {
    // A port that was free may be somebody else's a moment later.
    let listeners = (0..10).find_map(|_| {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
        opened(&Binding { plain: loopback(), plain_port: Some(free), ..Binding::default() }, None).ok()
    });
    let addresses = listeners.expect("bound").addresses();
    assert!(
        !addresses.is_empty() && addresses.iter().all(|(listener, address)| *listener == ListenerKind::Plain && address.ip().is_loopback())
    );
}

#[test]
fn a_port_that_is_free_is_the_same_on_all_addresses() {
    let sockets = Sockets::bind(&Binding { plain: loopback(), plain_port: Some(0), ..Binding::default() }).expect("a port");
    let ports: Vec<u16> = sockets.plain.iter().map(|socket| socket.local_addr().expect("an address").port()).collect();
    assert!(ports.iter().all(|port| *port != 0 && Some(*port) == sockets.insecure_port()), "{ports:?}");
    let elsewhere = IpAddr::from([127, 0, 0, 9]);
    let addresses =
        opened(&Binding { plain: vec![elsewhere], plain_port: Some(0), ..Binding::default() }, None).expect("bound").addresses();
    assert!(matches!(addresses[..], [(ListenerKind::Plain, address)] if address.ip() == elsewhere));
}
