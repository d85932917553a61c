//! Many watches on few HTTP/2 connections: what an event costs in writes.

use std::{
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::{Context, Poll},
};

use ::cache::dispatch::{
    Dispatcher, Group, GroupKey, GroupLimits,
    group::{Seat, Taken},
};
use codec::Encoder;
use http_body::Frame;
use model::{Event, Filter, Revision, test_object};
use tokio::io::{DuplexStream, ReadBuf, duplex};

use super::*;
use crate::answer::LongRunning;

const CONNECTIONS: usize = 10;
const WATCHES: usize = 100;

/// A connection that counts its writes.
struct Counting(DuplexStream, Arc<AtomicUsize>);

impl AsyncRead for Counting {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counting {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// What a group has for one member.
struct Member {
    seat: Seat,
    seen: Revision,
}

impl Body for Member {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (this, mut out) = (&mut *self, Vec::new());
        match this.seat.take(&mut this.seen, usize::MAX, &mut out, cx.waker()) {
            Taken::Some => Poll::Ready(Some(Ok(Frame::data(out.concat().into())))),
            Taken::Nothing => Poll::Pending,
            _ => Poll::Ready(None),
        }
    }
}

/// The dispatcher of one resource, whose only group has every watch.
struct Source {
    dispatcher: Dispatcher,
    group: Arc<Group>,
    revision: Revision,
}

impl Source {
    fn new() -> Self {
        let (mut dispatcher, encoder) =
            (Dispatcher::new(GroupLimits::default()), Arc::new(Encoder::built_in("v1", "ConfigMap", "ConfigMapList", "")));
        let group =
            dispatcher.group(GroupKey { representation: "v1/configmaps".into(), filter: Filter::default().into() }, encoder, Revision(1));
        Self { dispatcher, group, revision: Revision(1) }
    }

    /// One more event for everybody.
    fn tell(&mut self) {
        let before = self.revision;
        self.revision = Revision(before.0 + 1);
        let event = Event { revision: self.revision, old: None, new: Some(Arc::new(test_object("a", self.revision.0))), at_ms: 0 };
        self.dispatcher.dispatch(&[Arc::new(event)], before, 0).now();
    }
}

/// Connections with so many watches each; the events that each stream has brought are counted. How many writes each of these events took, of all connections.
async fn writes_of(connections: usize, watches: usize, events: usize) -> Vec<usize> {
    let (limits, metrics) = (Limits { streams_max: 250, ..limits() }, Metrics::new());
    let (_stop, stop) = watch::channel(false);
    let (mut source, (heard, mut hear)) = (Source::new(), watch::channel(0));
    let group = source.group.clone();
    let service = move |_: http::Request<RequestBody>, _: Arc<Client>| {
        let seat = group.sit();
        assert!(seat.join(Revision(1)));
        async move {
            let mut answer = Response::new(Member { seat, seen: Revision(1) });
            let may_rest = Arc::new(AtomicBool::new(true));
            answer.extensions_mut().insert(LongRunning { until: Instant::now() + LONG, may_rest });
            answer
        }
    };
    let shared = Arc::new(Shared {
        protocols: connection::protocols(&limits),
        connections: super::super::Connections::new(limits.count_max, limits.header_timeout, &metrics),
        heads: Heads::new(limits.header_bytes_max, metrics.head_bytes.clone()),
        unread: Budget::new(limits.unread_bytes_max, metrics.unread_bytes.clone()),
        bodies: Budget::new(limits.bodies_bytes_max, metrics.body_bytes.clone()),
        limits,
        host: Arc::new(Answers { authenticator: Arc::new(Authenticator::load(&Config::default()).expect("nothing to read")), service }),
        stop,
    });
    let (writes, address) = (Arc::<AtomicUsize>::default(), SocketAddr::from(([127, 0, 0, 1], 1)));
    for _ in 0..connections {
        let (client, server) = duplex(1 << 20);
        let seat = shared.connections.admit(address.ip(), true).expect("there is room");
        let info = shared.info(Ends { peer: address, local: address }, ListenerKind::Plain, seat);
        let (io, of) = (Counting(server, writes.clone()), shared.clone());
        tokio::spawn(async move {
            let service = of.host.connected(&info, None);
            connection::serve(io, &of.protocols, &of.limits, info, service).await
        });
        let (sender, connection) = h2::client::handshake(client).await.expect("HTTP/2");
        tokio::spawn(connection);
        for _ in 0..watches {
            let request = http::Request::get("http://localhost/").body(()).expect("a request");
            let (answer, _) = sender.clone().ready().await.expect("ready").send_request(request, true).expect("sent");
            let (mut body, heard) = (answer.await.expect("an answer").into_body(), heard.clone());
            tokio::spawn(async move {
                while let Some(Ok(data)) = body.data().await {
                    body.flow_control().release_capacity(data.len()).expect("it was taken");
                    heard.send_modify(|count| *count += 1);
                }
            });
        }
    }
    let mut taken = Vec::new();
    for event in 1..=events {
        let before = writes.load(Ordering::SeqCst);
        source.tell();
        let all = timeout(LONG, hear.wait_for(|heard| *heard == event * connections * watches)).await;
        all.expect("every watch hears of it").expect("they watch");
        taken.push(writes.load(Ordering::SeqCst) - before);
    }
    taken
}

/// It was one write for each watch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_one_write_a_connection() {
    let taken = writes_of(CONNECTIONS, WATCHES, 20).await;
    // Answers to the windows that clients open may come in a write of their own.
    assert!(taken.iter().all(|writes| (CONNECTIONS..=3 * CONNECTIONS).contains(writes)), "{taken:?}");
    let mean = taken.iter().sum::<usize>() as f64 / taken.len() as f64;
    assert!(mean <= 2.0 * CONNECTIONS as f64, "{mean}: {taken:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_alone_is_one_write_an_event() {
    let taken = writes_of(1, 1, 50).await;
    assert!(taken.iter().sum::<usize>() <= 75, "{taken:?}");
}
