//! Answers that nobody reads: HTTP/2 streams whose windows stay shut ask for more than the server's memory. It makes a little of each, others are answered,
//! and after some times `--request-timeout` the streams end.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use h2::client::{Builder, SendRequest};
use http::Request;
use serde_json::json;
use tokio::{net::TcpStream, task::JoinHandle};

use super::{Alone, Failure, Outcome, asked};
use crate::live::say;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const OBJECTS: usize = 30;
/// Bytes of each object: together 6 MB, and lists of them in 100 streams 600 MB.
const BYTES: usize = 200_000;
const STREAMS: usize = 100;
/// What the server may hold: `--unread-bytes-limit`, the four answers that are worked on at once, and room for the allocator.
const MEMORY: u64 = 256 << 20;
const LIMIT: Duration = Duration::from_secs(3);
const TRIES: usize = 20;
/// How long things take at most on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(600);

/// Every way to write a list, and one large object: query, `Accept`, `Accept-Encoding`.
const FORMS: &[(&str, &str, &str, &str)] = &[
    ("", "?pretty=true", "application/json", ""),
    ("", "", "application/json", ""),
    ("", "", "application/yaml", ""),
    ("", "", "application/vnd.kubernetes.protobuf", ""),
    ("", "", "application/json", "gzip"),
    ("", "", "application/vnd.kubernetes.protobuf", "gzip"),
    ("", "?includeObject=Object", "application/json;as=Table;v=v1;g=meta.k8s.io", ""),
    ("/o-1", "?pretty=true", "application/json", ""),
    ("/o-1", "", "application/yaml", ""),
    ("/o-1", "", "application/json", ""),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_reads_is_not_made_and_ends() -> Outcome {
    let dir = tempfile::tempdir()?;
    let flags = ["--unread-bytes-limit", "128Mi", "--request-timeout", "3s", "--idle-timeout", "4s", "--compressed-lists-bytes-limit", "0"];
    let server = Alone::start_with(dir.path(), &flags).await?;
    let client = server.client();
    let text = "text \u{e9}<> ".repeat(BYTES / 10);
    for at in 0..OBJECTS {
        asked(&client, ("POST", MAPS), Some(&json!({"metadata": {"name": format!("o-{at}")}, "data": {"text": text}})), 201).await?;
    }
    // Messages of objects in protobuf stay with the objects; they are no part of what is measured. A busy machine may need more than one request's time.
    for _ in 0..TRIES {
        if client.whole("GET", MAPS, &[("Accept".to_owned(), FORMS[3].2.to_owned())], b"").await?.status == 200 {
            break;
        }
    }
    let before = memory(&server)?;
    for forms in FORMS.chunks(FORMS.len() / 2) {
        let mut unread = Vec::new();
        for form in forms {
            unread.push((form, Unread::ask(&server, form).await?));
        }
        let (asked_at, mut peak, mut others) = (Instant::now(), 0, 0);
        while asked_at.elapsed() < LIMIT || (others == 0 && asked_at.elapsed() < PATIENCE) {
            // A request has three seconds, which a busy machine may take for other things.
            let answered = client.fetch("/api/v1/namespaces/default").await?.status;
            assert!([200, 504].contains(&answered), "others are answered: {answered}");
            others += usize::from(answered == 200);
            peak = peak.max(memory(&server)?);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(others > 0, "nobody else is answered");
        say(&format!("{} MB more while {} streams are not read", peak.saturating_sub(before) >> 20, forms.len() * STREAMS));
        assert!(peak < before + MEMORY, "{before} bytes became {peak}");
        for (form, unread) in unread {
            let ended = unread.ended().await?;
            assert!(ended >= LIMIT / 2, "{form:?}: ended after {ended:?}");
        }
    }
    let text = String::from_utf8(client.fetch("/metrics").await?.body.to_vec())?;
    assert!(text.contains("\nwatchcache_unread_bytes 0\n"), "everything was let go");
    Ok(())
}

/// Streams that take nothing.
struct Unread {
    streams: Vec<JoinHandle<Result<(), h2::Error>>>,
    began: Instant,
    _sender: Arc<SendRequest<bytes::Bytes>>,
}

impl Unread {
    async fn ask(server: &Alone, (name, query, accept, encoding): &(&str, &str, &str, &str)) -> Result<Self, Failure> {
        let began = Instant::now();
        // One byte, so that the server has to begin each answer.
        let mut builder = Builder::new();
        builder.initial_window_size(1);
        let (mut sender, connection) = builder.handshake(TcpStream::connect(server.address).await?).await?;
        tokio::spawn(connection);
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            let url = format!("{}{MAPS}{name}{query}", server.url());
            let mut request = Request::get(url).header("accept", *accept);
            if !encoding.is_empty() {
                request = request.header("accept-encoding", *encoding);
            }
            sender = sender.ready().await?;
            let (answer, _) = sender.send_request(request.body(())?, true)?;
            streams.push(tokio::spawn(async move {
                let mut body = answer.await?.into_body();
                // What comes is not given back to the window.
                while let Some(data) = body.data().await {
                    data?;
                }
                Ok(())
            }));
        }
        Ok(Self { streams, began, _sender: Arc::new(sender) })
    }

    /// Waits until each has ended; how long after it was asked the last one did.
    async fn ended(self) -> Result<Duration, Failure> {
        for stream in self.streams {
            let ended = tokio::time::timeout(PATIENCE, stream).await??;
            assert!(ended.is_err(), "an answer that was not read came to its end");
        }
        Ok(self.began.elapsed())
    }
}

/// Bytes of the server's memory.
fn memory(server: &Alone) -> Result<u64, Failure> {
    let text = fs::read_to_string(format!("/proc/{}/statm", server.child.id()))?;
    let pages: u64 = text.split(' ').nth(1).ok_or("no resident pages")?.parse()?;
    Ok(pages * 4096)
}
