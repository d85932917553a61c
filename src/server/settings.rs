//! What a server is set up with.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use rustls::CipherSuite;

/// Where the listeners are. At least one is open.
#[derive(Clone, Debug, Default)]
pub struct Binding {
    /// The TLS listener; port 0 for one that is free.
    pub secure: Option<SocketAddr>,
    /// Addresses of the plain listener.
    pub plain: Vec<IpAddr>,
    /// Port of the plain listener, 0 for one that is free; `None` = shut.
    pub plain_port: Option<u16>,
}

/// Limits of connections.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections, both listeners together.
    pub count_max: usize,
    /// How often a request on an HTTP/2 connection makes the connection take no more, so that its client comes again, perhaps to another server: 0 to 0.02.
    pub goaway_chance: f64,
    /// Streams of one HTTP/2 connection.
    pub streams_max: u32,
    /// From the accept to the proof of who a client is, the head of a request, and the next piece of its body.
    pub header_timeout: Duration,
    /// A connection without an open request.
    pub idle_timeout: Duration,
    /// Bytes of a request's head, and of what an HTTP/1.1 connection holds unsent: hyper has one limit for both.
    pub header_bytes_max: usize,
    /// How long an answer that is no watch may stand still because its client does not read.
    pub unread_max: Duration,
    /// Bytes of answers that clients have not read, of all connections together, besides 128 KiB for each connection.
    pub unread_bytes_max: usize,
    /// Bytes of request bodies that are on their way, of all connections together, besides 128 KiB for each connection.
    pub bodies_bytes_max: usize,
}

/// The files that the TLS listener speaks with, and what it speaks.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// PEM file: certificate, then intermediates.
    pub cert_file: PathBuf,
    /// PEM file: private key.
    pub key_file: PathBuf,
    /// Further certificates, for some names.
    pub named: Vec<NamedPair>,
    /// Files with the keys of session tickets; the first makes them.
    pub ticket_keys: Vec<PathBuf>,
    /// Whether TLS 1.2 is refused.
    pub only_tls13: bool,
    /// The suites of TLS 1.2 that may be used; none: all that there are.
    pub suites: Option<Vec<CipherSuite>>,
}

/// A certificate with its key, and the names that clients ask for it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPair {
    /// Those that the flag gives, with `*` for a first label; when there are none, those of the certificate count.
    pub names: Vec<String>,
    /// PEM file: certificate, then intermediates.
    pub cert_file: PathBuf,
    /// PEM file: private key.
    pub key_file: PathBuf,
}
