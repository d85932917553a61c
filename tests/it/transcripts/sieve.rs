//! A proxy before etcd that lets everything pass but the ranges by which a server fills its cache of one resource: that cache never becomes ready.
//! Knows HTTP/2, gRPC's frame and three fields of etcd's RangeRequest.

use std::{error::Error, io, net::SocketAddr};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited, combinators::BoxBody};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http2::{SendRequest, handshake},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

const RANGE: &str = "/etcdserverpb.KV/Range";
/// Ranges with at least this limit, or with none, fill a cache: kube-apiserver's and our loads ask for pages of 10,000 (spec list-watch §0.2).
const LARGE: u64 = 5_000;
/// The first page of our loads, by which they learn how large the objects are; nothing in the scenarios asks for as many.
const FIRST: u64 = 16;
/// Longest range request, bytes: two keys and a few numbers.
const REQUEST_LIMIT: usize = 64 * 1024;
/// Streams on one connection: a server has a watch for each resource.
const STREAMS_MOST: u32 = 10_000;

type Failure = Box<dyn Error + Send + Sync>;
type Etcd = SendRequest<BoxBody<Bytes, Failure>>;

/// A listening proxy. Its connections end when it is dropped.
pub(super) struct Sieve {
    /// Where it listens.
    pub(super) address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Sieve {
    /// Passes everything to `etcd` but loads of keys that begin with `prefix`, which are never answered.
    pub(super) async fn listen(etcd: SocketAddr, prefix: &'static str) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                // How a connection ends, its two ends see.
                connections.spawn(async move { drop(connection(client, etcd, prefix).await) });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, accepting })
    }
}

impl Drop for Sieve {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn connection(client: TcpStream, etcd: SocketAddr, prefix: &'static str) -> Result<(), Failure> {
    let upstream = TcpStream::connect(etcd).await?;
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let (sender, upstream) = handshake(TokioExecutor::new(), TokioIo::new(upstream)).await?;
    let service = service_fn(move |request| passed(sender.clone(), request, prefix));
    let mut server = http2::Builder::new(TokioExecutor::new());
    server.max_concurrent_streams(STREAMS_MOST);
    tokio::select! {
        ended = server.serve_connection(TokioIo::new(client), service) => Ok(ended?),
        ended = upstream => Ok(ended?),
    }
}

async fn passed(mut etcd: Etcd, request: Request<Incoming>, prefix: &str) -> Result<Response<Incoming>, Failure> {
    let (head, body) = request.into_parts();
    let body = if head.uri.path() == RANGE {
        let body = Limited::new(body, REQUEST_LIMIT).collect().await?.to_bytes();
        if fills_a_cache(&body, prefix) {
            std::future::pending::<()>().await;
        }
        Full::new(body).map_err(|never| match never {}).boxed()
    } else {
        body.map_err(Failure::from).boxed()
    };
    Ok(etcd.send_request(Request::from_parts(head, body)).await?)
}

/// Whether a gRPC frame has a RangeRequest of many keys below the prefix.
fn fills_a_cache(frame: &[u8], prefix: &str) -> bool {
    let Some(range) = frame.get(5..).and_then(Range::read) else { return false };
    let large = range.limit == 0 || range.limit >= LARGE || range.limit == FIRST;
    range.key.starts_with(prefix.as_bytes()) && range.has_end && large
}

/// What is read of etcd's RangeRequest.
#[derive(Debug, Default, PartialEq, Eq)]
struct Range<'a> {
    /// Field 1.
    key: &'a [u8],
    /// Field 2, `range_end`.
    has_end: bool,
    /// Field 3.
    limit: u64,
}

impl<'a> Range<'a> {
    /// Reads a message whose fields are numbers and bytes, as all of a RangeRequest's are.
    fn read(mut message: &'a [u8]) -> Option<Self> {
        let mut range = Self::default();
        while !message.is_empty() {
            let tag = varint(&mut message)?;
            let value = varint(&mut message)?;
            match (tag >> 3, tag & 7) {
                (field, 2) => {
                    let (bytes, rest) = message.split_at_checked(usize::try_from(value).ok()?)?;
                    message = rest;
                    match field {
                        1 => range.key = bytes,
                        2 => range.has_end = !bytes.is_empty(),
                        _ => {}
                    }
                }
                (3, 0) => range.limit = value,
                (_, 0) => {}
                _ => return None,
            }
        }
        Some(range)
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame around key `/registry/x/`, an end or none, and a limit of 10,000 or 2.
    fn frame(end: bool, large: bool) -> Vec<u8> {
        let mut frame = vec![0; 5];
        frame.extend(b"\x0a\x0c/registry/x/");
        if end {
            frame.extend(b"\x12\x0c/registry/x0");
        }
        frame.extend(if large { &b"\x18\x90\x4e"[..] } else { b"\x18\x02" });
        // Revision 7, serializable.
        frame.extend(b"\x20\x07\x38\x01");
        frame
    }

    #[test]
    fn only_loads_below_the_prefix_are_held() {
        for (end, large, prefix, held) in [
            (true, true, "/registry/x/", true),
            (true, true, "/registry/y/", false),
            (true, false, "/registry/x/", false),
            (false, true, "/registry/x/", false),
        ] {
            assert_eq!(fills_a_cache(&frame(end, large), prefix), held, "{end} {large} {prefix}");
        }
        assert!(!fills_a_cache(b"\0\0", "/registry/x/") && !fills_a_cache(&frame(true, true)[..9], "/registry/x/"));
        assert_eq!(Range::read(b"\x18\x90\x4e"), Some(Range { limit: 10_000, ..Range::default() }));
    }
}
