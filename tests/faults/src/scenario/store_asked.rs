//! Clients of `watchcache store` that ask for more than they may have: what it holds for them stays bounded, and others are answered.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use proto::testing::{Client, get, put, txn, watch as watching};
use proto::{DeleteRangeRequest, RangeRequest, RequestOp, TxnRequest, WatchCreateRequest};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::Code;

use crate::{
    etcd::{Etcd, patient},
    options::Options,
    stage::Verdict,
    validate::{Guarantee, Violation},
};

/// What is stored: keys, and bytes of each value.
const KEYS: usize = 5;
const VALUE_BYTES: usize = 1_000_000;
/// As many operations as a transaction may have.
const RANGES: usize = 128;
/// Ranges at once on one connection, answers that are not read, watches that are not read, halves of bodies.
const AT_ONCE: usize = 64;
const UNREAD: usize = 100;
const WATCHES: usize = 200;
const HALVES: usize = 100;
/// How long an honest request may take meanwhile: far less than one would that waits for clients that do not read.
const HONEST: Duration = Duration::from_secs(20);
/// How long the store is left with what it holds before its memory is read.
const HELD: Duration = Duration::from_secs(2);

/// The store, and what was seen of it.
struct Asked {
    store: Etcd,
    port: u16,
    before_mib: u64,
    worst: Duration,
    violations: Vec<Violation>,
    notes: Vec<(&'static str, String)>,
}

pub(super) async fn asked(options: &Options, dir: &Path) -> Result<Verdict> {
    let ports = options.ports();
    let store = Etcd::start_store(&options.server, dir, &ports).await?;
    let port = ports.etcd(0);
    let mut client = patient(port)?;
    for n in 0..KEYS {
        client.put(put(format!("k{n}"), "x".repeat(VALUE_BYTES))).await?;
    }
    client.put(put("small", "v")).await?;
    let before_mib = store.cost()?.rss_mib;
    let mut asked = Asked { store, port, before_mib, worst: Duration::ZERO, violations: Vec::new(), notes: Vec::new() };
    for (name, ops) in [
        ("ranges", ranges()),
        ("nested", nested(ranges())),
        ("with a put", with_put(ranges())),
        ("nested with a put", nested(with_put(ranges()))),
    ] {
        asked.transaction(name, ops).await?;
    }
    asked.ranges_at_once().await?;
    asked.unread("POST /v3/kv/range", r#"{"key":"aw==","range_end":"bA=="}"#, UNREAD).await?;
    asked.unread("POST /v3/watch", r#"{"create_request":{"key":"aw==","range_end":"bA==","start_revision":"1"}}"#, UNREAD).await?;
    asked.unread_watches().await?;
    asked.halves().await?;
    asked.deletion().await?;
    asked.memory(options.attacks.attack_mib)?;
    Ok(asked.verdict())
}

fn all() -> RangeRequest {
    RangeRequest { key: b"k".to_vec(), range_end: b"l".to_vec(), ..RangeRequest::default() }
}

fn ranges() -> Vec<RequestOp> {
    (1..RANGES).map(|_| RequestOp::from(all())).collect()
}

fn nested(inside: Vec<RequestOp>) -> Vec<RequestOp> {
    vec![TxnRequest { success: inside, ..TxnRequest::default() }.into()]
}

fn with_put(mut ops: Vec<RequestOp>) -> Vec<RequestOp> {
    ops.truncate(RANGES - 2);
    ops.push(put("small", "v").into());
    ops
}

impl Asked {
    /// A client that takes everything.
    fn client(&self) -> Result<Client> {
        let mut client = patient(self.port)?;
        client.kv = client.kv.max_decoding_message_size(usize::MAX);
        Ok(client)
    }

    async fn transaction(&mut self, name: &str, ops: Vec<RequestOp>) -> Result<()> {
        match self.client()?.txn(txn([], ops)).await {
            Err(status) if status.code() == Code::InvalidArgument && status.message() == "etcdserver: request is too large" => {}
            outcome => self.blame(format!("a transaction ({name}) is not refused: {:?}", outcome.map(|_| "answered"))),
        }
        self.honest(name).await
    }

    /// Many whole ranges on one connection: each is answered or refused.
    async fn ranges_at_once(&mut self) -> Result<()> {
        let client = self.client()?;
        let reads = (0..AT_ONCE).map(|_| {
            let mut client = client.clone();
            async move { client.range(all()).await.map(|answer| answer.kvs.len()) }
        });
        let outcomes = futures_util::future::join_all(reads);
        let (outcomes, honest) = tokio::join!(outcomes, honest(self.port));
        self.took("ranges at once", honest);
        let answered = outcomes.iter().filter(|outcome| matches!(outcome, Ok(KEYS))).count();
        self.notes.push(("answered", format!("{answered}/{AT_ONCE}")));
        for outcome in outcomes {
            match outcome {
                Ok(KEYS) => {}
                Err(status) if status.code() == Code::ResourceExhausted => {}
                other => self.blame(format!("a range has ended with {other:?}")),
            }
        }
        if answered == 0 {
            self.blame("no range was answered".to_owned());
        }
        Ok(())
    }

    /// Requests over HTTP/1.1 whose answers nobody reads.
    async fn unread(&mut self, line: &'static str, body: &str, count: usize) -> Result<()> {
        let mut held = Vec::new();
        for _ in 0..count {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
            let request = format!("{line} HTTP/1.1\r\nHost: store\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(request.as_bytes()).await?;
            held.push(stream);
        }
        tokio::time::sleep(HELD).await;
        self.honest(line).await
    }

    /// Watches of the whole history on streams that nobody reads.
    async fn unread_watches(&mut self) -> Result<()> {
        let (mut held, mut client) = (Vec::new(), self.client()?);
        for nth in 0..WATCHES {
            if nth % AT_ONCE == 0 {
                client = self.client()?;
            }
            let create = WatchCreateRequest { range_end: b"l".to_vec(), start_revision: 1, prev_kv: true, ..watching("k") };
            held.push(timeout(HONEST, client.watch(create)).await.context("a watch is opened in time")??);
        }
        tokio::time::sleep(HELD).await;
        self.honest("unread watches").await
    }

    /// Bodies that do not come to their end.
    async fn halves(&mut self) -> Result<()> {
        let mut held = Vec::new();
        for _ in 0..HALVES {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
            let head = "POST /v3/kv/put HTTP/1.1\r\nHost: store\r\nContent-Length: 4000000\r\n\r\n";
            let body = "{\"value\":\"".to_owned() + &"A".repeat(3_000_000);
            // It is refused in the middle when there is no room for it.
            let _ = timeout(Duration::from_secs(1), stream.write_all((head.to_owned() + &body).as_bytes())).await;
            held.push(stream);
        }
        self.honest("half bodies").await
    }

    /// One that shows less than it may.
    async fn deletion(&mut self) -> Result<()> {
        let delete = DeleteRangeRequest { key: b"k".to_vec(), range_end: b"l".to_vec(), prev_kv: true };
        let mut client = self.client()?;
        // What the ones before it held is given back once the store has seen that they are gone.
        let start = Instant::now();
        loop {
            match client.delete_range(delete.clone()).await {
                Ok(answer) if answer.prev_kvs.len() == KEYS => return Ok(()),
                Err(status) if status.code() == Code::ResourceExhausted && start.elapsed() < HONEST => tokio::time::sleep(HELD).await,
                outcome => {
                    self.blame(format!("a deletion has ended with {:?}", outcome.map(|answer| answer.prev_kvs.len())));
                    return Ok(());
                }
            }
        }
    }

    async fn honest(&mut self, meanwhile: &str) -> Result<()> {
        let took = honest(self.port).await;
        self.took(meanwhile, took);
        Ok(())
    }

    fn took(&mut self, meanwhile: &str, took: Result<Duration>) {
        match took {
            Ok(took) => self.worst = self.worst.max(took),
            Err(error) => self.blame(format!("{meanwhile}: an honest client got {error:#}")),
        }
    }

    fn memory(&mut self, mib: u64) -> Result<()> {
        let (before, cost) = (self.before_mib, self.store.cost()?);
        self.notes.push(("mib", format!("{before}/{}/{}", cost.peak_mib, cost.rss_mib)));
        self.notes.push(("honest", format!("{}ms", self.worst.as_millis())));
        if cost.peak_mib > before + mib {
            self.blame(format!("the store grew from {before} to {} MiB", cost.peak_mib));
        }
        Ok(())
    }

    fn blame(&mut self, detail: String) {
        self.violations.push(Violation { guarantee: Guarantee::Bounded, client: None, detail });
    }

    fn verdict(self) -> Verdict {
        Verdict { violations: self.violations, notes: self.notes, ..Verdict::default() }
    }
}

/// How long a read and a write of little take at most, on a connection of their own.
async fn honest(port: u16) -> Result<Duration> {
    let start = Instant::now();
    let mut client = patient(port)?;
    timeout(HONEST, client.range(get("small"))).await.context("no answer to a read")??;
    timeout(HONEST, client.put(put("small", "v"))).await.context("no answer to a write")??;
    Ok(start.elapsed())
}
