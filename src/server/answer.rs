//! What a server is asked, what it answers, and who makes the answers.

use std::{
    error::Error,
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use rustls::pki_types::CertificateDer;
use tokio::time::Instant;

use super::{budget::Reservation, conn::Conn, heads, request_body::RequestBody, upgraded::Handshake};

/// A request.
#[derive(Debug)]
pub struct Request {
    /// Its head and its body.
    pub http: http::Request<RequestBody>,
    /// What counts the bytes of its head.
    pub head: heads::Read,
}

/// An answer.
#[derive(Debug)]
pub struct Answer<B> {
    /// Its head and its body.
    pub http: Response<B>,
    /// What comes with it.
    pub extras: Extras,
}

/// What comes with an answer besides its head and body.
#[derive(Debug, Default)]
pub struct Extras {
    /// Of a body that was made before it is sent: the bytes that it holds already.
    pub made: Option<Arc<Reservation>>,
    /// Of a body that is made while it is sent, and keeps others waiting.
    pub alone: Option<Alone>,
    /// Is dropped when the body is gone.
    pub guard: Option<Guard>,
    /// Of a body that may stand still.
    pub long_running: Option<LongRunning>,
    /// What the connection becomes after it.
    pub upgrade: Option<Handshake>,
}

/// Of an answer that goes on until its time is over: it may stand still once it has shown what was there when it began, until its time is over.
#[derive(Clone, Debug)]
pub struct LongRunning {
    /// When it ends at the latest.
    pub until: Instant,
    /// Whether what was there is shown: until then it goes on like any answer, for it holds a snapshot of its resource.
    pub may_rest: Arc<AtomicBool>,
}

impl LongRunning {
    pub(super) fn may_rest(&self) -> bool {
        self.may_rest.load(Ordering::Relaxed)
    }
}

/// Of an answer that is larger than what is left, as one at a time may be: since when others wait for it. It has the time of one request in all.
#[derive(Clone, Copy, Debug)]
pub struct Alone(pub Instant);

/// Something that is held until an answer is sent.
pub struct Guard(#[expect(dead_code, reason = "held for its drop")] Box<dyn Send + Sync>);

impl Guard {
    /// Holds this.
    pub fn of(held: impl Send + Sync + 'static) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

/// Answers the requests of one connection.
pub trait Service: Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static;

    /// An answer that is being made.
    type Future: Future<Output = Answer<Self::Body>> + Send + 'static;

    /// Answers a request.
    fn answer(&self, request: Request) -> Self::Future;
}

/// Meets the clients of a server.
pub trait Host: Send + Sync + 'static {
    /// What answers the requests of a connection.
    type Service: Service;

    /// Tells what is wrong with the client's certificate, when that is why a handshake has failed.
    fn refused_certificate(&self, error: &(dyn Error + Send + Sync + 'static)) -> Option<String>;

    /// Takes a connection. Of a TLS connection it is given the certificates that the client has shown.
    fn connected(&self, conn: &Arc<Conn>, certificates: Option<&[CertificateDer<'static>]>) -> Self::Service;
}
