//! Connections that are held: by strangers, by handshakes that do not end, by silence, by WebSockets that read nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
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
    http::Protocol,
};

/// WebSocket watches that read nothing.
const SOCKETS: Size = Size(100, 500);
/// Idle connections that go away at once: half of the usual limit of open files.
const BURST: Size = Size(2000, 9000);
/// How long an answer to a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How a handshake of TLS begins: a record of 512 bytes with a ClientHello of 508.
const HELLO: [u8; 9] = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc];

/// As many connections as there are, each with a 401 whose body has no window.
pub(super) async fn unsent_refusals(target: &Target, count: usize, told: &mut Told) {
    let (end, listener) = (Instant::now() + target.time, Arc::new(target.strange()));
    let (held, unopened) = open_many(count, end, |nth| {
        let listener = listener.clone();
        async move {
            let raw = Raw::open(&listener, nth, 0, Reads::Everything).await?;
            raw.get("/api/v1/configmaps", &[]).await?;
            Ok(raw)
        }
    })
    .await;
    sleep(end.saturating_duration_since(Instant::now())).await;
    told.note("connections", held.len());
    told.note("unopened", unopened);
    told.note("refused", held.iter().map(Raw::refused).sum::<usize>());
    told.note("closed", held.iter().filter(|raw| raw.seen().is_gone()).count());
}

/// As many connections as there are, each in a handshake of a byte a second; who is thrown out comes back.
pub(super) async fn slow_handshakes(target: &Target, count: usize, told: &mut Told) {
    trickle(target, count, &HELLO, told).await;
}

/// As many connections as there are, from one address, that say nothing at all.
pub(super) async fn silent(target: &Target, count: usize, told: &mut Told) {
    trickle(target, count, &[], told).await;
}

/// Each connection says one of these bytes a second, then zeros if there were any; who is thrown out comes back.
async fn trickle(target: &Target, count: usize, words: &'static [u8], told: &mut Told) {
    let end = Instant::now() + target.time;
    let (mut tasks, opened, thrown) = (JoinSet::new(), Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    for nth in 0..count {
        let (listener, opened, thrown) = (target.secure.clone(), opened.clone(), thrown.clone());
        tasks.spawn(async move {
            while Instant::now() < end {
                let Ok(mut stream) = listener.connect(0).await else {
                    sleep(Duration::from_millis(100)).await;
                    continue;
                };
                opened.fetch_add(1, Ordering::Relaxed);
                for at in 0.. {
                    let word = words.get(at).copied().or(words.first().map(|_| 0));
                    let mut byte = [0];
                    // The end, a byte of the server's alert, or nothing for a second.
                    let said = timeout(Duration::from_secs(1), stream.read(&mut byte)).await;
                    let broken = match word {
                        Some(word) if said.is_err() => stream.write_all(&[word]).await.is_err(),
                        _ => false,
                    };
                    if said.is_ok() || broken {
                        thrown.fetch_add(1, Ordering::Relaxed);
                        // This is about what is held, not a flood.
                        sleep(Duration::from_secs(1)).await;
                        break;
                    }
                }
            }
        });
        // Not all in one moment: the listen backlog is no subject of this.
        if nth % 100 == 99 {
            sleep(Duration::from_millis(5)).await;
        }
    }
    sleep(end.saturating_duration_since(Instant::now())).await;
    told.note("connections", count);
    told.note("opened", opened.load(Ordering::Relaxed));
    told.note("closed", thrown.load(Ordering::Relaxed));
}

/// Watches of everything over WebSockets that read the handshake's answer and nothing more.
pub(super) async fn unread_websockets(target: &Target, told: &mut Told) {
    let (count, end, listener) = (target.sizes.of(SOCKETS), Instant::now() + target.time, target.plain.clone());
    let (held, unopened) = open_many(count, end, |nth| {
        let listener = listener.clone();
        async move {
            let mut io = listener.reach(nth, Protocol::Http1).await?;
            let (host, scheme) = (listener.authority(), listener.scheme());
            let token = listener.token().map(|t| format!("Authorization: Bearer {t}\r\n")).unwrap_or_default();
            let head = format!(
                "GET /api/v1/configmaps?watch=true&resourceVersion=0 HTTP/1.1\r\nHost: {host}\r\nOrigin: {scheme}://{host}\r\n{token}\
                 Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            );
            io.write_all(head.as_bytes()).await?;
            let mut answer = [0; 12];
            timeout(HANDSHAKE, io.read_exact(&mut answer)).await??;
            ensure!(answer.ends_with(b" 101"), "{}", String::from_utf8_lossy(&answer));
            Ok(io)
        }
    })
    .await;
    sleep(end.saturating_duration_since(Instant::now())).await;
    told.note("sockets", held.len());
    told.note("unopened", unopened);
}

/// Idle connections that go away all at once.
pub(super) async fn burst(target: &Target, told: &mut Told) {
    let (count, end, listener) = (target.sizes.of(BURST), Instant::now() + target.time, target.plain.clone());
    let (held, unopened) = open_many(count, end, |_| {
        let listener = listener.clone();
        async move {
            let mut talk = listener.talk().await?;
            let (status, _): (u16, _) = talk.whole("GET", "/version", None).await?;
            ensure!(status == 200, "{status}");
            Result::Ok(talk)
        }
    })
    .await;
    sleep(Duration::from_secs(1)).await;
    told.note("connections", held.len());
    told.note("unopened", unopened);
}
