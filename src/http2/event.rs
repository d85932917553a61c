//! What a client may have, and what happens on its connection.

use bytes::Bytes;
use http::{HeaderMap, Request};

/// What a client may have.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams at once.
    pub streams_max: u32,
    /// Bytes of the fields of a request, each counted with 32 more.
    pub header_bytes_max: usize,
    /// Bytes of one body that may come before they are taken.
    pub stream_window: u32,
    /// The same for all bodies.
    pub connection_window: u32,
    /// Streams that it may break by its faults, beside those that end as they should.
    pub faults_max: u32,
}

/// What has happened.
#[derive(Debug)]
pub enum Event<T> {
    /// A stream began.
    Request {
        /// Its number.
        stream: u32,
        /// Without its body.
        request: Request<()>,
        /// It has no body.
        is_end: bool,
    },
    /// A part of a request's body.
    Data {
        /// Of which stream.
        stream: u32,
        /// Not empty, but at the end; they are to be [taken](crate::Server::taken).
        data: Bytes,
        /// The last part.
        is_end: bool,
    },
    /// What comes after a request's body.
    Trailers {
        /// Of which stream.
        stream: u32,
        /// Its fields.
        trailers: HeaderMap,
    },
    /// A stream is over before its end: the client does not want it, or has broken it.
    Gone {
        /// Which one.
        stream: u32,
        /// What the caller kept of it.
        own: Option<T>,
    },
    /// There may be more room to send: of one stream, or of all.
    Room(Option<u32>),
}
