//! Answers are whole whatever becomes of the bodies of their requests: expected or not, read or not, of any size, in one piece or in chunks, one request after
//! the other.
//!
//! | variable | meaning |
//! |---|---|
//! | `WATCHCACHE_BODIES_CONNECTIONS` | how many connections are judged (60 for each listener) |
//! | `WATCHCACHE_BODIES_SEED` | the seed of a run to repeat |
//! | `WATCHCACHE_TEST_SUBJECT` | `kube-apiserver`: that one is judged instead of ours, with `WATCHCACHE_TEST_PEERS` |

use std::{env, fmt::Write as _, io, ops::AddAssign, path::PathBuf, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    time::{sleep, timeout},
};

use super::{Failure, Outcome, asked, secure};
use crate::{
    client::Client,
    live::{free_address, peers::Site, say},
};

/// How long one connection may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// The list that must not be cut: so many objects, of so many bytes.
const OBJECTS: usize = 24;
const OBJECT_BYTES: usize = 64 << 10;

/// Around what a server reads of a body that it has no use for, and what it takes at most.
const SIZES: [usize; 12] = [0, 1, 2, 100, 5_000, 100_000, 262_143, 262_145, 1_000_000, 2_900_000, 3_300_000, 4_000_000];

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// One request, and the status that is due.
struct Asked {
    method: &'static str,
    target: String,
    headers: &'static [&'static str],
    body: Vec<u8>,
    in_chunks: bool,
    status: u16,
}

/// What was seen of all connections.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    requests: usize,
    with_bodies: usize,
    whole: usize,
    /// Answers that ended before their end.
    short: usize,
    /// Answers that were due and did not come, or had another status.
    lost: usize,
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.with_bodies += other.with_bodies;
        self.whole += other.whole;
        self.short += other.short;
        self.lost += other.lost;
    }
}

impl Asked {
    /// One of the kinds that there are, with a body of a size that is likely to matter. `has_users`: the listener asks who a client is.
    fn random(rng: &mut StdRng, has_users: bool, number: u32) -> Self {
        let size = *SIZES.choose(rng).expect("there are some");
        let json = &["Content-Type: application/json"][..];
        let object =
            |size: usize| json!({"metadata": {"name": format!("o-{number}")}, "data": {"k": "x".repeat(size)}}).to_string().into_bytes();
        let (method, target, headers, body, status) = match rng.random_range(0..10) {
            0 | 1 => ("GET", format!("{CONFIG_MAPS}?resourceVersion=0&labelSelector=large"), json, vec![b'x'; size], 200),
            2 => ("GET", format!("{CONFIG_MAPS}/large-1"), json, vec![b'{'; size], 200),
            3 => ("GET", format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1&labelSelector=large"), json, vec![b'x'; size.min(100_000)], 200),
            4 => ("POST", "/nope".to_owned(), json, object(size), 404),
            5 => ("PUT", CONFIG_MAPS.to_owned(), json, object(size), 405),
            6 => ("POST", CONFIG_MAPS.to_owned(), &["Content-Type: text/plain"][..], object(size.max(1)), 415),
            7 if has_users => {
                ("POST", CONFIG_MAPS.to_owned(), &["Content-Type: application/json", "Authorization: Bearer nobody"][..], object(size), 401)
            }
            7 | 8 => ("DELETE", format!("{CONFIG_MAPS}/absent"), json, b"{}".repeat(usize::from(size > 0)), 404),
            _ => match size {
                0..=1_000_000 => ("POST", format!("{CONFIG_MAPS}?dryRun=All"), json, object(size), 201),
                _ => ("POST", CONFIG_MAPS.to_owned(), json, object(size.max(3_300_000)), 413),
            },
        };
        Self { method, target, headers, body, in_chunks: rng.random_bool(0.3), status }
    }

    /// Head and body as they are sent.
    fn written(&self, token: &str) -> (Vec<u8>, Vec<u8>) {
        let Self { method, target, headers, body, in_chunks, .. } = self;
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: judge\r\n");
        for header in *headers {
            head.push_str(&format!("{header}\r\n"));
        }
        if !token.is_empty() && !headers.iter().any(|header| header.starts_with("Authorization")) {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if !in_chunks {
            head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
            return (head.into_bytes(), body.clone());
        }
        head.push_str("Transfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n");
        let mut chunks = Vec::new();
        for part in body.chunks(50_000) {
            chunks.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            chunks.extend_from_slice(part);
            chunks.extend_from_slice(b"\r\n");
        }
        chunks.extend_from_slice(b"0\r\nX-End: yes\r\n\r\n");
        (head.into_bytes(), chunks)
    }
}

/// What stands at the beginning of these bytes.
enum Found {
    Answer {
        status: u16,
        /// The connection ends after it.
        closes: bool,
        bytes: usize,
    },
    /// More must come.
    Part { status: Option<u16> },
}

fn found(raw: &[u8]) -> Found {
    let Some(head_len) = memchr::memmem::find(raw, b"\r\n\r\n").map(|at| at + 4) else { return Found::Part { status: None } };
    let head = String::from_utf8_lossy(&raw[..head_len]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let closes = header("connection:") == Some("close");
    let part = Found::Part { status: Some(status) };
    let mut rest = &raw[head_len..];
    if header("transfer-encoding:") == Some("chunked") {
        loop {
            let Some(line) = memchr::memmem::find(rest, b"\r\n") else { return part };
            let size = std::str::from_utf8(&rest[..line]).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok());
            let Some(after) = size.and_then(|size| rest.get(line + 2 + size + 2..)) else { return part };
            rest = after;
            if size == Some(0) {
                return Found::Answer { status, closes, bytes: raw.len() - rest.len() };
            }
        }
    }
    let length = header("content-length:").and_then(|length| length.parse().ok()).unwrap_or(0);
    if rest.len() < length { part } else { Found::Answer { status, closes, bytes: head_len + length } }
}

/// Sends these requests over one connection, and judges what comes back.
async fn judge(io: impl AsyncRead + AsyncWrite, asked: &[Asked], token: &str, rng: &mut StdRng, told: &mut String) -> io::Result<Seen> {
    let (mut from, mut to) = split(io);
    let (in_one, late, pause) = (rng.random_bool(0.5), rng.random_bool(0.3), Duration::from_millis(rng.random_range(0..20)));
    // Who reads only when all is sent must not ask for what nobody takes meanwhile.
    let reads_late = late && asked.len() == 1;
    let send = async {
        for one in asked {
            let (mut head, body) = one.written(token);
            if in_one {
                head.extend_from_slice(&body);
                to.write_all(&head).await?;
            } else {
                to.write_all(&head).await?;
                to.flush().await?;
                sleep(pause).await;
                to.write_all(&body).await?;
            }
            to.flush().await?;
        }
        io::Result::Ok(())
    };
    let mut seen = Seen { requests: asked.len(), with_bodies: asked.iter().filter(|one| !one.body.is_empty()).count(), ..Seen::default() };
    let read = async {
        let (mut raw, mut room) = (Vec::new(), vec![0; 64 << 10]);
        for one in asked {
            loop {
                match found(&raw) {
                    Found::Answer { status, closes, bytes } => {
                        raw.drain(..bytes);
                        if status == 100 {
                            continue;
                        }
                        let is_due = status == one.status;
                        seen.whole += usize::from(is_due);
                        seen.lost += usize::from(!is_due);
                        if !is_due {
                            let _ = writeln!(
                                told,
                                "{status} and not {} to {} {} with {} bytes",
                                one.status,
                                one.method,
                                one.target,
                                one.body.len()
                            );
                        }
                        if closes {
                            return;
                        }
                        break;
                    }
                    Found::Part { status } => {
                        let read = from.read(&mut room).await;
                        if let Ok(bytes @ 1..) = read {
                            raw.extend_from_slice(&room[..bytes]);
                            continue;
                        }
                        let _ = writeln!(
                            told,
                            "{read:?} after {} bytes ({status:?}) to {} {} with {} bytes, in chunks {}, of {}",
                            raw.len(),
                            one.method,
                            one.target,
                            one.body.len(),
                            one.in_chunks,
                            asked.len()
                        );
                        match status {
                            Some(_) => seen.short += 1,
                            None => seen.lost += 1,
                        }
                        return;
                    }
                }
            }
        }
    };
    if reads_late {
        // Whether all of it is taken is the server's affair, if it answers.
        let _ = send.await;
        read.await;
    } else {
        // As net/http does: the answer counts, and ends the request.
        let mut send = Box::pin(send);
        let mut read = Box::pin(read);
        tokio::select! {
            () = &mut read => {}
            _ = &mut send => read.await,
        }
    }
    Ok(seen)
}

async fn judged(client: &Client, token: &str, name: &str) -> Outcome {
    for object in 0..OBJECTS {
        let large =
            json!({"metadata": {"name": format!("large-{object}"), "labels": {"large": ""}}, "data": {"k": "y".repeat(OBJECT_BYTES)}});
        asked(client, ("POST", CONFIG_MAPS), Some(&large), 201).await?;
    }
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("WATCHCACHE_BODIES_SEED").unwrap_or_else(|| rand::rng().random());
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut all, mut told) = (Seen::default(), String::new());
    for connection in 0..number("WATCHCACHE_BODIES_CONNECTIONS").unwrap_or(60) {
        let count = if rng.random_bool(0.6) { 1 } else { rng.random_range(2..5) };
        let asked: Vec<Asked> = (0..count).map(|at| Asked::random(&mut rng, !token.is_empty(), connection as u32 * 8 + at)).collect();
        let io = client.raw().await?;
        all += timeout(PATIENCE, judge(io, &asked, token, &mut rng, &mut told))
            .await
            .map_err(|_| format!("seed {seed}: a connection stands still\n{told}"))??;
    }
    say(&format!("{name}: {all:?} (seed {seed})"));
    if (all.short, all.lost) == (0, 0) { Ok(()) } else { Err(format!("{all:?}, seed {seed}\n{told}").into()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_whole_whatever_becomes_of_bodies() -> Outcome {
    let dir = tempfile::tempdir()?;
    if env::var_os("WATCHCACHE_TEST_SUBJECT").is_some_and(|subject| subject == "kube-apiserver") {
        let programs = env::var_os("WATCHCACHE_TEST_PEERS").map(PathBuf::from).ok_or("WATCHCACHE_TEST_PEERS is not set")?;
        let site = Site::prepare(&programs).map_err(|error| error.to_string())?;
        let (_etcd, etcd_at) = site.etcd()?;
        let (apiserver, address) = site.apiserver("kube-apiserver", etcd_at)?;
        let client = site.client(address);
        apiserver.ready(&client).await.map_err(|error| error.to_string())?;
        return judged(&client, crate::live::peers::TOKEN, "kube-apiserver").await;
    }
    let listener = free_address()?;
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = secure::start(dir.path(), &site, listener, &[]).await?;
    judged(&server.client(), "", "plain HTTP").await?;
    for object in 0..OBJECTS {
        asked(&server.client(), ("DELETE", &format!("{CONFIG_MAPS}/large-{object}")), None, 200).await?;
    }
    judged(&site.client(listener), crate::live::peers::TOKEN, "TLS").await
}

/// A stop lets answers end that are under way, also those to requests whose bodies nobody reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_cuts_no_answer() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = secure::start(dir.path(), &site, listener, &[]).await?;
    let client = site.client(listener);
    for object in 0..OBJECTS {
        let large = json!({"metadata": {"name": format!("large-{object}")}, "data": {"k": "y".repeat(OBJECT_BYTES)}});
        asked(&client, ("POST", CONFIG_MAPS), Some(&large), 201).await?;
    }
    let mut clients = Vec::new();
    for at in 0..16 {
        let client = if at % 2 == 0 { client.clone() } else { server.client() };
        clients.push(tokio::spawn(async move {
            let target = format!("{CONFIG_MAPS}?resourceVersion=0");
            let head = format!(
                "GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: 300000\r\n\r\n",
                crate::live::peers::TOKEN
            );
            let (mut from, mut to) = split(client.raw().await?);
            to.write_all(head.as_bytes()).await?;
            to.flush().await?;
            let mut raw = vec![0; 100];
            from.read_exact(&mut raw).await?;
            // The server stops; the body still comes, and the answer is read late.
            sleep(Duration::from_millis(500)).await;
            let _ = to.write_all(&vec![b'x'; 300_000]).await;
            let _ = to.flush().await;
            let ended = from.read_to_end(&mut raw).await;
            Ok::<_, io::Error>((
                matches!(found(&raw), Found::Answer { status: 200, .. }),
                raw.len(),
                ended.map_err(|error| error.to_string()),
            ))
        }));
    }
    sleep(Duration::from_millis(300)).await;
    server.terminate()?;
    for client in clients {
        let (is_whole, bytes, ended) = client.await??;
        assert!(is_whole, "{bytes} bytes, {ended:?}");
    }
    Ok(())
}

/// Over HTTP/2 a refused body costs its stream alone, and a stop lets the others end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_whole_whatever_becomes_of_bodies() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = secure::start(dir.path(), &site, listener, &[]).await?;
    let client = site.client(listener);
    for object in 0..OBJECTS {
        let large =
            json!({"metadata": {"name": format!("large-{object}"), "labels": {"large": ""}}, "data": {"k": "y".repeat(OBJECT_BYTES)}});
        asked(&client, ("POST", CONFIG_MAPS), Some(&large), 201).await?;
    }
    let (token, mut rng, mut streams) = (crate::live::peers::TOKEN, StdRng::seed_from_u64(7), Vec::new());
    for at in 0..48 {
        if at % 12 == 0 {
            let client = if at % 24 == 0 { client.clone() } else { server.client() };
            let (sender, connection) = h2::client::handshake(client.raw().await?).await?;
            streams.push((sender, tokio::spawn(connection), Vec::new(), at % 24 == 0));
        }
        let (sender, _, answers, has_users) = streams.last_mut().ok_or("there is a connection")?;
        let asked = Asked::random(&mut rng, *has_users, at);
        let mut request = http::Request::builder().method(asked.method).uri(format!("http://localhost{}", asked.target));
        for header in asked.headers {
            let (name, value) = header.split_once(": ").ok_or("a header")?;
            request = request.header(name, value);
        }
        if !asked.headers.iter().any(|header| header.starts_with("Authorization")) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        *sender = sender.clone().ready().await?;
        let (answer, mut send) = sender.send_request(request.body(())?, false)?;
        let (status, body) = (asked.status, bytes::Bytes::from(asked.body));
        tokio::spawn(async move {
            // Whether all of it is taken is the server's affair, if it answers.
            send.reserve_capacity(body.len());
            let _ = send.send_data(body, true);
        });
        let what = format!("{} {}", asked.method, asked.target);
        // Each by itself: what is unread of one takes the window of all.
        answers.push(tokio::spawn(async move {
            let answer = timeout(PATIENCE, answer).await?.map_err(|error| format!("{what}: {error}"))?;
            let (due, mut body) = (answer.status().as_u16() == status, answer.into_body());
            while let Some(part) = body.data().await {
                let part = part.map_err(|error| format!("{what}: {error}"))?;
                body.flow_control().release_capacity(part.len())?;
            }
            if due { Ok(()) } else { Err::<(), Failure>(format!("{what}: not {status}").into()) }
        }));
    }
    // Some are under way then, and none is cut.
    let stop = async {
        sleep(Duration::from_millis(200)).await;
        server.terminate()
    };
    let judge = async {
        for (sender, connection, answers, _) in streams {
            for answer in answers {
                answer.await??;
            }
            drop(sender);
            timeout(PATIENCE, connection).await??.map_err(|error| format!("the connection has no good end: {error}"))?;
        }
        Ok::<_, Failure>(())
    };
    let (stopped, judged) = tokio::join!(stop, judge);
    stopped.and(judged)
}
