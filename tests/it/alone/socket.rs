//! Watches through WebSockets (spec list-watch §4.10): handshakes, frames and ends as kube-apiserver 1.36.3 has them. The tables are its answers; the live
//! case of the same name asks it again.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use futures_util::{StreamExt, future::join_all};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    client_async,
    tungstenite::{Message, client::IntoClientRequest, protocol::frame::coding::CloseCode},
};

use super::{Alone, Outcome, asked};
use crate::{
    client::{Client, Handshake, Socket, SocketFrame},
    live::{
        free_address,
        peers::{Site, TOKEN, send},
    },
};

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
/// The object that is watched.
const NAME: &str = "watched";
/// How long something may take that happens at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(600);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A request: parameters of the watch, headers that differ from a good handshake's, and what comes of it.
type Shake = (&'static str, &'static [(&'static str, &'static str)], &'static str);

const PROTOCOL: &str = "Sec-WebSocket-Protocol";
const ACCEPTED: &str = "101 s3pPLMBiTxaQ9kYGzzhZRbK+xOo=; ADDED, close 1000, end";
const BY_NAME: &str = "resourceVersion=0&timeoutSeconds=1";
/// What an ordinary answer needs besides, so that its end is seen.
const CLOSES: (&str, &str) = ("Connection", "close, Upgrade");

const SHAKES: &[Shake] = &[
    (BY_NAME, &[], ACCEPTED),
    (BY_NAME, &[(PROTOCOL, "any.thing at all")], "101 s3pPLMBiTxaQ9kYGzzhZRbK+xOo= any.thing at all; ADDED, close 1000, end"),
    (BY_NAME, &[(PROTOCOL, "a, b")], "400 "),
    (BY_NAME, &[(PROTOCOL, "a,")], "400 "),
    // The first of two lines counts.
    (BY_NAME, &[(PROTOCOL, "a"), (PROTOCOL, "b")], "101 s3pPLMBiTxaQ9kYGzzhZRbK+xOo= a; ADDED, close 1000, end"),
    (BY_NAME, &[("Sec-WebSocket-Key", "x")], "101 JVxkmtKFjDcI/Pm/AGPEKSN6wT8=; ADDED, close 1000, end"),
    (BY_NAME, &[("Sec-WebSocket-Key", "")], "400 mismatch challenge/response"),
    (BY_NAME, &[("Sec-WebSocket-Version", "8")], "400 missing or bad WebSocket Version; 13"),
    (BY_NAME, &[("Sec-WebSocket-Version", "")], "400 missing or bad WebSocket Version; 13"),
    (BY_NAME, &[("Connection", "keep-alive"), ("Connection", "Upgrade")], "400 not websocket protocol"),
    (BY_NAME, &[("Upgrade", "WebSocket"), ("Connection", "keep-alive, UPGRADE")], ACCEPTED),
    (BY_NAME, &[("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")], ACCEPTED),
    // What cannot be shown ends the stream at its first event.
    (
        BY_NAME,
        &[("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")],
        "101 s3pPLMBiTxaQ9kYGzzhZRbK+xOo=; close 1000, end",
    ),
    ("timeoutSeconds=1&allowWatchBookmarks=true", &[], "101 s3pPLMBiTxaQ9kYGzzhZRbK+xOo=; ADDED, BOOKMARK, close 1000, end"),
    // Not upgrades: an ordinary watch.
    (BY_NAME, &[("Connection", "close")], "200 ADDED"),
    (BY_NAME, &[("Upgrade", "h2c"), CLOSES], "200 ADDED"),
    ("resourceVersionMatch=Exact", &[CLOSES], "422 Invalid"),
    ("resourceVersion=x", &[CLOSES], "500 "),
    ("watch=false", &[CLOSES], "200 ConfigMapList"),
];

/// The same on a listener that asks who comes, without an `Origin`; the other one lets nobody in who has none.
const WITHOUT_ORIGIN: &[Shake] = &[
    (BY_NAME, &[("Origin", "")], "403 "),
    // What is wrong with the request comes before what is wrong with the handshake.
    ("labelSelector=a%20b%20c", &[("Origin", ""), CLOSES], "400 BadRequest"),
];

/// The same on a listener that asks who comes, without an `Authorization` header. `@` is the start of a subprotocol that is a token.
const TOKENS: &[(&str, &str)] = &[
    ("@RIGHT, v1", "101 s3pPLMBiTxaQ9kYGzzhZRbK+xOo= v1; ADDED, close 1000, end"),
    ("v1,@RIGHT", "101 s3pPLMBiTxaQ9kYGzzhZRbK+xOo= v1; ADDED, close 1000, end"),
    ("@RIGHT,", ACCEPTED),
    ("v1, @RIGHT, v2", "400 "),
    ("@RIGHT", "401 Unauthorized"),
    ("@WRONG, v1", "401 Unauthorized"),
    ("@RIGHT, @RIGHT, v1", "401 Unauthorized"),
    ("@RIGHT=, v1", "401 Unauthorized"),
];

/// What a client sends.
enum Say {
    /// A frame: its first byte and its payload.
    Frame(u8, &'static [u8]),
    /// A frame of so many zeros.
    Large(u8, usize),
    /// The head of a frame that does not come.
    Head(u8, u64),
}

use Say::{Frame, Head, Large};

/// What is said after the first event, and what comes back until the answer to a last ping, or until the end.
const TALKS: &[(&[Say], &str)] = &[
    (&[Frame(0x89, b"hello")], "pong hello, alive"),
    (&[Frame(0x89, b"")], "pong , alive"),
    (&[Frame(0x8a, b"unasked")], "alive"),
    (&[Frame(0x81, b"text"), Frame(0x82, b"\xff"), Frame(0x81, b"\xff"), Frame(0xf3, b"?")], "alive"),
    (&[Frame(0x01, b"a"), Frame(0x89, b"between"), Frame(0x00, b"b"), Frame(0x80, b"c")], "pong between, alive"),
    (&[Large(0x82, 32 << 20)], "alive"),
    (&[Head(0x82, (32 << 20) + 1)], "close 1000, end"),
    (&[Frame(0x88, b"\x03\xe8")], "close 1000, end"),
    (&[Frame(0x88, b"\x03\xe9going away")], "close 1000, end"),
    (&[Frame(0x88, b"")], "close 1000, end"),
    (&[Frame(0x81, b"x"), Frame(0x88, b"\x03\xe8")], "close 1000, end"),
];

/// Everything that this server, or another one, answers otherwise than recorded. The object must be there.
pub(crate) async fn differences(client: &Client) -> Result<Vec<String>, Failure> {
    let shakes = shaken(client, SHAKES);
    let talks = join_all(
        TALKS
            .iter()
            .enumerate()
            .map(|(at, (says, expected))| async move { differs(&format!("talk {at}"), expected, talk(client, says, expected).await) }),
    );
    let (shakes, talks) = tokio::join!(shakes, talks);
    Ok(shakes.into_iter().chain(talks).flatten().collect())
}

/// The same of the answers to who has no `Origin`; the server must ask who comes.
pub(crate) async fn differences_without_origin(client: &Client) -> Vec<String> {
    shaken(client, WITHOUT_ORIGIN).await.into_iter().flatten().collect()
}

async fn shaken(client: &Client, shakes: &[Shake]) -> Vec<Option<String>> {
    let shaken = shakes.iter().map(|(parameters, headers, expected)| async move {
        differs(&format!("{parameters} {headers:?}"), expected, shake(client, parameters, headers).await)
    });
    join_all(shaken).await
}

/// The same of the answers to tokens; the server must ask for them.
pub(crate) async fn differences_of_tokens(client: &Client) -> Vec<String> {
    let encoded = |token: &str| format!("base64url.bearer.authorization.k8s.io.{}", BASE64_URL_SAFE_NO_PAD.encode(token));
    let (right, wrong) = (encoded(TOKEN), encoded("nobody's"));
    let asked = join_all(TOKENS.iter().map(|(protocols, expected)| {
        let protocols = protocols.replace("@RIGHT", &right).replace("@WRONG", &wrong);
        async move {
            let got = shake(client, BY_NAME, &[("Authorization", ""), CLOSES, (PROTOCOL, &protocols)]).await;
            differs(&protocols, expected, got)
        }
    }));
    asked.await.into_iter().flatten().collect()
}

fn differs(what: &str, expected: &str, got: Result<String, Failure>) -> Option<String> {
    let got = got.unwrap_or_else(|error| error.to_string());
    (got != expected).then(|| format!("{what}: {got:?}, not {expected:?}"))
}

fn target(parameters: &str) -> String {
    format!("{COLLECTION}?{parameters}&watch=true&fieldSelector=metadata.name%3D{NAME}")
}

/// An answer to a handshake as the tables have it.
async fn shake(client: &Client, parameters: &str, headers: &[(&str, &str)]) -> Result<String, Failure> {
    let (mut socket, headers) = match client.socket(&target(parameters), headers).await? {
        Handshake::Open(socket, headers) => (socket, headers),
        Handshake::Refused(whole) => {
            let value: Option<Value> = whole.body.split(|byte| *byte == b'\n').next().and_then(|line| serde_json::from_slice(line).ok());
            let text = match &value {
                None => String::from_utf8_lossy(&whole.body).into_owned(),
                Some(value) => {
                    let word = |name: &str| value[name].as_str().map(str::to_owned);
                    let kind = word("kind").filter(|kind| kind != "Status");
                    word("type").or(kind).or_else(|| word("reason")).unwrap_or_default()
                }
            };
            let version = whole.header("sec-websocket-version").map(|version| format!("; {version}")).collect::<String>();
            return Ok(format!("{} {text}{version}", whole.status));
        }
    };
    let mut shown = "101".to_owned();
    for name in ["sec-websocket-accept", "sec-websocket-protocol"] {
        headers.iter().filter(|(given, _)| given == name).try_for_each(|(_, value)| write!(shown, " {value}"))?;
    }
    let frames: Vec<String> = socket.rest().await?.iter().map(show).collect();
    Ok(format!("{shown}; {}, end", frames.join(", ")))
}

/// What came back, as the tables have it.
async fn talk(client: &Client, says: &[Say], expected: &str) -> Result<String, Failure> {
    let mut socket = client.socket(&target("resourceVersion=0&timeoutSeconds=300"), &[]).await?.opened()?;
    expect_added(&mut socket).await?;
    for say in says {
        match say {
            Frame(first, payload) => socket.send(*first, payload).await?,
            Large(first, length) => socket.send(*first, &vec![0; *length]).await?,
            Head(first, length) => socket.announce(*first, *length).await?,
        }
    }
    // A socket that is closed with unread bytes is reset, and its last frames may be lost.
    if !expected.ends_with("end") {
        socket.send(0x89, b"alive?").await?;
    }
    let mut shown = Vec::new();
    while let Some(frame) = socket.frame().await? {
        if frame.payload == b"alive?" {
            shown.push("alive".to_owned());
            return Ok(shown.join(", "));
        }
        shown.push(show(&frame));
    }
    shown.push("end".to_owned());
    Ok(shown.join(", "))
}

async fn expect_added(socket: &mut Socket) -> Outcome {
    let first = socket.frame().await?.map(|frame| show(&frame));
    if first.as_deref() == Some("ADDED") { Ok(()) } else { Err(format!("{first:?}, not the object").into()) }
}

/// A frame as the tables have it: an event by its type.
fn show(frame: &SocketFrame) -> String {
    match (frame.first, frame.payload.as_slice()) {
        (0x81, [line @ .., b'\n']) => serde_json::from_slice::<Value>(line)
            .ok()
            .and_then(|event| Some(event["type"].as_str()?.to_owned()))
            .unwrap_or("no event".into()),
        (0x88, [high, low]) => format!("close {}", u16::from_be_bytes([*high, *low])),
        (0x8a, payload) => format!("pong {}", String::from_utf8_lossy(payload)),
        (first, payload) => format!("{first:#x} of {} bytes", payload.len()),
    }
}

/// Makes the object that is watched.
pub(crate) async fn prepare(client: &Client) -> Outcome {
    asked(client, ("POST", COLLECTION), Some(&json!({"metadata": {"name": NAME}, "data": {"a": "<b>"}})), 201).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_are_those_of_kube_apiserver() -> Outcome {
    let (dir, secure) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let flag = |name: &str, file: &str| format!("{name}={}", site.path().join(file).display());
    let server = Alone::start_with(
        dir.path(),
        &[
            &format!("--secure-port={}", secure.port()),
            "--bind-address=127.0.0.1",
            &flag("--tls-cert-file", "server.crt"),
            &flag("--tls-private-key-file", "server.key"),
            &flag("--token-auth-file", "tokens.csv"),
        ],
    )
    .await?;
    let (plain, secure) = (server.client(), site.client(secure));
    prepare(&plain).await?;
    assert_eq!(differences(&plain).await?, [""; 0], "plain");
    assert_eq!(differences(&secure).await?, [""; 0], "TLS");
    assert_eq!(differences_of_tokens(&secure).await, [""; 0]);
    assert_eq!(differences_without_origin(&secure).await, [""; 0]);
    // A page of another origin gets no further on the listener that asks nobody who they are.
    for headers in [
        [("Origin", "http://evil.example"), CLOSES],
        [("Origin", "null"), CLOSES],
        [("Origin", ""), CLOSES],
        [("Sec-Fetch-Site", "cross-site"), CLOSES],
    ] {
        assert_eq!(shake(&plain, BY_NAME, &headers).await?, "403 Forbidden", "{headers:?}");
    }
    assert_eq!(shake(&secure, BY_NAME, &[("Origin", "https://elsewhere.example")]).await?, ACCEPTED);
    assert_eq!(shake(&secure, BY_NAME, &[("Origin", "null")]).await?, "403 ");
    // kube-apiserver sends a second close frame, with 1000, after this one.
    let mut socket = plain.socket(&target(BY_NAME), &[]).await?.opened()?;
    expect_added(&mut socket).await?;
    socket.raw(&[0x81, 1, b'x']).await?;
    assert_eq!(socket.rest().await?.iter().map(show).collect::<Vec<_>>(), ["close 1002"]);
    Ok(())
}

/// A client that is told of the end before it can hear anything may wait for ever: what ends at once is closed a second later, unless the client closes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_at_once_is_not_closed_at_once() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    prepare(&client).await?;
    let not_shown = [("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")];
    let began = Instant::now();
    let mut socket = client.socket(&target(BY_NAME), &not_shown).await?.opened()?;
    socket.send(0x89, b"heard").await?;
    assert_eq!(socket.rest().await?.iter().map(show).collect::<Vec<_>>(), ["pong heard", "close 1000"]);
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    let mut socket = client.socket(&target(BY_NAME), &not_shown).await?.opened()?;
    socket.send(0x88, b"\x03\xe8").await?;
    assert_eq!(socket.rest().await?.iter().map(show).collect::<Vec<_>>(), ["close 1000"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_are_the_lines_of_an_ordinary_watch() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    prepare(&client).await?;
    let query = format!("{COLLECTION}?watch=true&timeoutSeconds=300");
    let counted = counts(&client).await?;
    let mut lines = client.watch(&query).await?.map_err(|refused| format!("{refused:?}"))?;
    let mut request = format!("ws://{}{query}", server.address).into_client_request()?;
    request.headers_mut().insert("Origin", server.url().parse()?);
    let (mut socket, _) = client_async(request, TcpStream::connect(server.address).await?).await?;
    for n in 0..200 {
        // Some of them longer than what one length byte tells, some longer than two do.
        let text = "é".repeat(n * 300);
        asked(&client, ("PATCH", &format!("{COLLECTION}/{NAME}")), Some(&json!({"data": {"a": text}})), 200).await?;
    }
    asked(&client, ("DELETE", &format!("{COLLECTION}/{NAME}")), None, 200).await?;
    let (mut events, mut last) = (0, Vec::new());
    while !last.starts_with(br#"{"type":"DELETED""#) {
        let line = timeout(PATIENCE, lines.next_line()).await??.ok_or("it ended")?;
        let Some(Ok(Message::Text(text))) = timeout(PATIENCE, socket.next()).await? else { return Err("no text for a line".into()) };
        assert!(text.as_bytes().strip_suffix(b"\n") == Some(&line[..]), "event {events}");
        (events, last) = (events + 1, line);
    }
    assert_eq!(events, 202, "the object, its changes and its end");
    socket.close(None).await?;
    let Some(Ok(Message::Close(Some(close)))) = timeout(PATIENCE, socket.next()).await? else { return Err("no close frame".into()) };
    assert_eq!(close.code, CloseCode::Normal);
    assert!(socket.next().await.is_none());
    assert_eq!(counts(&client).await? - counted, events, "those of the socket are not counted");
    Ok(())
}

/// `apiserver_watch_events_total` of the collection.
async fn counts(client: &Client) -> Result<i64, Failure> {
    metric(client, "apiserver_watch_events_total").await
}

/// A metric of watches of the collection, 0 when it is not there.
async fn metric(client: &Client, name: &str) -> Result<i64, Failure> {
    let answer = client.fetch("/metrics").await?;
    let text = String::from_utf8(answer.body.to_vec())?;
    let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains("resource=\"configmaps\""));
    let of_watches = lines.filter(|line| !line.contains("verb=") || line.contains("verb=\"WATCH\""));
    Ok(of_watches.filter_map(|line| line.rsplit(' ').next()?.parse::<i64>().ok()).sum())
}

/// A client that does not read holds no more than a socket's worth, misses nothing when it reads again, and is let go when its time is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_read_waits_alone() -> Outcome {
    const CHANGES: usize = 60;
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    prepare(&client).await?;
    let mut slow = client.socket(&target("timeoutSeconds=300"), &[]).await?.opened()?;
    let stuck = client.socket(&target("timeoutSeconds=20"), &[]).await?.opened()?;
    assert_eq!(metric(&client, "apiserver_longrunning_requests").await?, 2);
    // Several times what the buffers of a socket on loopback hold, and less than what is kept of history.
    let text = "x".repeat(300 << 10);
    for n in 0..CHANGES {
        let patch = json!({"metadata": {"labels": {"n": n.to_string()}}, "data": {"a": text}});
        asked(&client, ("PATCH", &format!("{COLLECTION}/{NAME}")), Some(&patch), 200).await?;
    }
    timeout(PATIENCE, async {
        while metric(&client, "apiserver_longrunning_requests").await? > 1 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok::<_, Failure>(())
    })
    .await??;
    drop(stuck);
    let mut seen = Vec::new();
    while seen.len() <= CHANGES {
        let frame = slow.frame().await?.ok_or("it ended")?;
        let event: Value = serde_json::from_slice(&frame.payload).map_err(|_| format!("after {seen:?}: {}", show(&frame)))?;
        seen.push(event.pointer("/object/metadata/labels/n").and_then(Value::as_str).unwrap_or("none").to_owned());
    }
    let expected: Vec<String> = std::iter::once("none".to_owned()).chain((0..CHANGES).map(|n| n.to_string())).collect();
    assert_eq!(seen, expected);
    Ok(())
}

/// Each ping of six bytes is a write, and nothing bounded them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_pings_and_nothing_else_is_sent_away() -> Outcome {
    const PINGS: usize = 5_000;
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    prepare(&client).await?;
    let mut socket = client.socket(&target("timeoutSeconds=300"), &[]).await?.opened()?;
    expect_added(&mut socket).await?;
    let ping = [0x89, 0x80, 1, 2, 3, 4];
    socket.raw(&ping.repeat(200)).await?;
    for _ in 0..200 {
        assert_eq!(socket.frame().await?.map(|frame| show(&frame)).as_deref(), Some("pong "), "some are answered");
    }
    socket.raw(&ping.repeat(PINGS)).await?;
    let rest = socket.rest().await?;
    assert_eq!(rest.last().map(show).as_deref(), Some("close 1008"));
    assert!(rest.len() < PINGS, "{} were answered", rest.len());
    let metrics = String::from_utf8(client.fetch("/metrics").await?.body.to_vec())?;
    assert!(metrics.contains("watchcache_connections_closed_total{reason=\"flood\"} 1"), "{metrics}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_count_as_connections_and_end_with_the_server() -> Outcome {
    let dir = tempfile::tempdir()?;
    let mut server = Alone::start_with(dir.path(), &["--max-connections=2"]).await?;
    prepare(&server.client()).await?;
    // Clients keep connections; these two are all that there may be, once those of the preparation are gone.
    let open = async || {
        loop {
            match server.client().socket(&target("timeoutSeconds=300"), &[]).await {
                Ok(socket) => return socket.opened(),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let (mut first, second) = (timeout(PATIENCE, open()).await??, timeout(PATIENCE, open()).await??);
    assert!(timeout(PATIENCE, server.client().fetch("/readyz")).await?.is_err(), "a third one is refused");
    drop(second);
    let served = async {
        loop {
            match server.client().fetch("/readyz").await {
                Ok(answer) => return answer.status,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    assert_eq!(timeout(PATIENCE, served).await?, 200);
    send(server.child.id(), "TERM")?;
    let last = first.rest().await?;
    assert_eq!(last.iter().map(show).collect::<Vec<_>>(), ["ADDED", "close 1000"]);
    drop(first);
    let ended = timeout(PATIENCE, async {
        loop {
            match server.child.try_wait() {
                Ok(None) => tokio::time::sleep(Duration::from_millis(50)).await,
                ended => return ended,
            }
        }
    });
    assert!(ended.await??.is_some_and(|status| status.success()));
    Ok(())
}
