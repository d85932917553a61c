//! Fuzzes the server with arbitrary bytes over plain connections, as HTTP/1.1 and as HTTP/2: nothing panics, each connection ends, and memory is given back.

use std::{
    convert::Infallible,
    error::Error,
    fs,
    future::Future,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream},
    panic,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use corpus::Subject;
use http::Response;
use http_body_util::{BodyExt, Full};
use rustls::pki_types::CertificateDer;
use telemetry::Metrics;
use tokio::sync::watch;
use watchcache_server::{Answer, Binding, Conn, Extras, Host, Limits, Listeners, Request, Service, Sockets};

/// What a connection, or what it held, may take to be gone after its client has left. A busy machine needs some of it.
const GONE_MAX: Duration = Duration::from_secs(30);
/// Bytes that the process may grow by while it is fuzzed: one input costs it kilobytes, and there is one at a time.
const GROWTH_MAX: usize = 256 << 20;
/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Answers each request with as many bytes as its body had.
struct Echo;

impl Host for Echo {
    type Service = Self;

    fn refused_certificate(&self, _: &(dyn Error + Send + Sync + 'static)) -> Option<String> {
        None
    }

    fn connected(&self, _: &Arc<Conn>, _: Option<&[CertificateDer<'static>]>) -> Self {
        Self
    }
}

impl Service for Echo {
    type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;
    type Future = Pin<Box<dyn Future<Output = Answer<Self::Body>> + Send>>;

    fn answer(&self, request: Request) -> Self::Future {
        Box::pin(async move {
            let (mut body, mut bytes) = (request.http.into_body(), 0);
            while let Some(Ok(frame)) = body.frame().await {
                bytes += frame.data_ref().map_or(0, Bytes::len);
            }
            let answer = Full::new(Bytes::from(vec![b'a'; bytes]));
            Answer { http: Response::new(answer.boxed()), extras: Extras::default() }
        })
    }
}

/// The server that is fuzzed, for as long as the process lives.
struct Fuzzed {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    resident: usize,
    _stop: watch::Sender<bool>,
}

/// What has panicked on a thread of the server.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn fuzzed() -> &'static Fuzzed {
    static FUZZED: OnceLock<Fuzzed> = OnceLock::new();
    FUZZED.get_or_init(|| {
        let sockets = Sockets::bind(&Binding { secure: None, plain: vec![Ipv4Addr::LOCALHOST.into()], plain_port: Some(0) });
        let metrics = Metrics::new();
        let listeners = Listeners::new(None, sockets.expect("a free port"), None, metrics.clone()).expect("no files are read");
        let address = listeners.addresses()[0].1;
        let limits = Limits {
            goaway_chance: 0.0,
            count_max: 64,
            streams_max: 16,
            header_timeout: GONE_MAX / 4,
            idle_timeout: GONE_MAX / 4,
            header_bytes_max: 16 << 10,
            unread_max: GONE_MAX / 4,
            unread_bytes_max: 1 << 20,
            bodies_bytes_max: 1 << 20,
        };
        let (stop, stopped) = watch::channel(false);
        let shown = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if thread::current().name() == Some(SERVER) {
                PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
            }
            shown(info);
        }));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name(SERVER).enable_all().build();
        let runtime = runtime.expect("a runtime");
        thread::spawn(move || runtime.block_on(async { tokio::spawn(listeners.serve(Arc::new(Echo), limits, GONE_MAX, stopped)).await }));
        Fuzzed { address, metrics, resident: resident(), _stop: stop }
    })
}

/// The name of the server's threads.
const SERVER: &str = "server";

/// Bytes of memory that the process has, where the system says so.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// Sends these bytes over a connection of its own, and reads until the server ends it. Whether it has answered.
fn law(input: &[u8]) -> bool {
    let fuzzed = fuzzed();
    let mut stream = TcpStream::connect(fuzzed.address).expect("the server accepts");
    stream.set_read_timeout(Some(GONE_MAX)).expect("a socket");
    // A server that has seen enough may end it before all is sent.
    let sent = stream.write_all(input).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    match (&stream).take(ANSWER_BYTES_MAX as u64).read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => panic!("the connection does not end"),
        // What was not read is reset.
        Err(_) => {}
    }
    drop(stream);
    let panics = std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner));
    assert!(panics.is_empty(), "{panics:?}");
    let metrics = &fuzzed.metrics;
    let held = || [metrics.head_bytes.get(), metrics.unread_bytes.get(), metrics.body_bytes.get()];
    let since = Instant::now();
    while held() != [0; 3] {
        assert!(since.elapsed() < GONE_MAX, "heads, answers and bodies of nobody: {:?} bytes", held());
        thread::sleep(Duration::from_millis(1));
    }
    let grown = resident().saturating_sub(fuzzed.resident);
    assert!(grown < GROWTH_MAX, "the process has grown by {grown} bytes");
    sent.is_ok() && !answer.is_empty()
}

#[test]
fn connections_survive_any_bytes() {
    let subject = Subject {
        name: "connections",
        law,
        words: &[
            "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "expect: 100-continue\r\n",
            "connection: upgrade\r\n",
            "connection: close\r\n",
            "upgrade: websocket\r\n",
            "HTTP/1.0\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "\0\0\0\u{4}\0\0\0\0\0",
            "\0\0\u{8}\u{6}\0\0\0\0\0abcdefgh",
            "\0\0\u{4}\u{8}\0\0\0\0\u{1}\0\0\0\u{1}",
            "\0\0\u{4}\u{3}\0\0\0\0\u{1}\0\0\0\u{8}",
            "\0\0\u{1}\0\u{1}\0\0\0\u{1}a",
        ],
        long: &[
            ["", "GET / HTTP/1.1\r\nhost: a\r\n\r\n", ""],
            ["GET /", "a", " HTTP/1.1\r\n\r\n"],
            ["GET / HTTP/1.1\r\n", "a: b\r\n", "\r\n"],
        ],
    };
    subject.check();
}
