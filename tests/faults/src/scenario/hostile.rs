//! Callers that mean no good: huge headers, half requests, idle connections. The server's cost is bounded, and others are answered.

use std::{path::Path, time::Duration};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

use crate::{
    options::Options,
    stage::{Stage, Verdict},
    validate::{Expiry, Guarantee},
};

/// Bytes of headers that a hostile request tries to send (issue: 10 MB).
const HEADER_BYTES: usize = 10_000_000;
/// Hostile requests of each kind at the same time.
const AT_ONCE: usize = 20;
/// Connections that send half a request and fall silent.
const HALVES: usize = 500;
/// How long an honest request may take meanwhile: far less than one behind 500 half requests or 10,000 idle connections would, if it had to wait for them.
const HONEST: Duration = Duration::from_secs(20);
/// How long the answer to a huge request is waited for, and how long a connection may take to be opened.
const ANSWER: Duration = Duration::from_secs(5);
/// Connections opened between two looks at the honest request.
const STEP: usize = 500;

pub(super) async fn hostile(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::single(options, dir).await?;
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    let before = stage.server.cost()?.rss_mib;
    let mut worst = before;

    for kind in [Huge::Line, Huge::Many, Huge::Target] {
        let answers = futures_util::future::join_all((0..AT_ONCE).map(|nth| huge(&stage, kind, nth))).await;
        honest(&mut stage, &mut worst, kind.name()).await?;
        let taken = answers.iter().filter(|a| a.as_deref() == Some("200")).count();
        stage.note(kind.name(), answers.into_iter().map(|a| a.unwrap_or_else(|| "closed".into())).max().unwrap_or_default());
        if taken > 0 {
            stage.blame(Guarantee::Bounded, format!("{taken} requests with 10 MB of {} were served", kind.name()));
        }
    }

    let mut held = Vec::new();
    for nth in 0..HALVES {
        if let Some(stream) = half(&stage, nth).await {
            held.push(stream);
        }
    }
    honest(&mut stage, &mut worst, "half requests").await?;
    stage.note("halves", held.len().to_string());

    let mut refused = 0;
    for nth in 0..options.idle {
        match timeout(ANSWER, stage.server.listener.connect(nth)).await {
            Ok(Ok(stream)) => held.push(stream),
            _ => refused += 1,
        }
        if nth % STEP == 0 {
            honest(&mut stage, &mut worst, "idle connections").await?;
        }
    }
    honest(&mut stage, &mut worst, "idle connections").await?;
    stage.note("idle", format!("{}-{refused}", options.idle));
    stage.note("peak_rss_mib", format!("{before}>{worst}"));
    if worst > before + options.hostile_mib {
        stage.blame(Guarantee::Bounded, format!("the server grew from {before} to {worst} MiB"));
    }
    drop(held);
    honest(&mut stage, &mut worst, "afterwards").await?;
    writers.stop().await?;
    stage.verdict(Expiry::Never).await
}

/// An honest request on a connection of its own, and the server's memory at this moment.
async fn honest(stage: &mut Stage, worst: &mut u64, meanwhile: &'static str) -> Result<()> {
    let start = Instant::now();
    let answer = stage.server.listener.get("/api/v1/namespaces/faults-0/configmaps?resourceVersion=0", HONEST).await;
    *worst = (*worst).max(stage.server.cost()?.rss_mib);
    match answer {
        Ok((200, _)) => {}
        Ok((status, _)) => stage.blame(Guarantee::Bounded, format!("{meanwhile}: an honest request got {status}")),
        Err(error) => stage.blame(Guarantee::Bounded, format!("{meanwhile}: an honest request got none: {error:#}, {:?}", start.elapsed())),
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Huge {
    /// One header of 10 MB.
    Line,
    /// Many headers, together 10 MB.
    Many,
    /// A request target of 10 MB.
    Target,
}

impl Huge {
    fn name(self) -> &'static str {
        match self {
            Self::Line => "one_header",
            Self::Many => "many_headers",
            Self::Target => "long_target",
        }
    }

    fn request(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + 100);
        match self {
            Self::Line => {
                bytes.extend_from_slice(b"GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ");
                bytes.resize(HEADER_BYTES, b'a');
            }
            Self::Many => {
                bytes.extend_from_slice(b"GET /version HTTP/1.1\r\nHost: 127.0.0.1");
                while bytes.len() < HEADER_BYTES {
                    bytes.extend_from_slice(b"\r\nX-Many: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
                }
            }
            Self::Target => {
                bytes.extend_from_slice(b"GET /version?");
                bytes.resize(HEADER_BYTES, b'a');
                bytes.extend_from_slice(b" HTTP/1.1\r\nHost: 127.0.0.1");
            }
        }
        bytes.extend_from_slice(b"\r\n\r\n");
        bytes
    }
}

/// Sends all of it if it may; the status the server answers, `None` when it just closes or says nothing.
async fn huge(stage: &Stage, kind: Huge, nth: usize) -> Option<String> {
    let mut stream = stage.server.listener.connect(nth).await.ok()?;
    let request = kind.request();
    let (mut read, mut write) = stream.split();
    let mut answer = [0; 64];
    let sending = async {
        let _closed_in_the_middle_is_fine = write.write_all(&request).await;
        std::future::pending::<usize>().await
    };
    let n = timeout(ANSWER, async {
        tokio::select! {
            n = read.read(&mut answer) => n.unwrap_or(0),
            n = sending => n,
        }
    })
    .await
    .ok()?;
    std::str::from_utf8(&answer[..n]).ok()?.split_whitespace().nth(1).map(str::to_owned)
}

async fn half(stage: &Stage, nth: usize) -> Option<TcpStream> {
    let mut stream = stage.server.listener.connect(nth).await.ok()?;
    stream.write_all(b"GET /api/v1/configmaps HTTP/1.1\r\nHo").await.ok()?;
    Some(stream)
}
