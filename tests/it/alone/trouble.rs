//! The server where the system fails it: a log that cannot be written or that nobody reads, few files, a full disk; and what signals do. It serves all the
//! same, and ends when it is told.

use std::{
    io::Write,
    net::TcpStream,
    process::ExitStatus,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
    time::{sleep, timeout},
};

use super::{Alone, Failure, Outcome, asked};

/// How long an end, or a line in the log, may take on a busy machine; each takes well under a second on an idle one.
const SOON: Duration = Duration::from_secs(600);
/// Cancelled requests over HTTP/2 that must fill a pipe and the queue before it with lines of a verbose log.
const CANCELLED_MAX: u32 = 200_000;
/// So many of them on one connection.
const CANCELLED: u32 = 400;
/// Bytes of a ConfigMap's data: a disk of a few MiB is full soon.
const LARGE: usize = 500_000;
/// So many of them do not fit.
const LARGE_MAX: usize = 200;
/// ConfigMaps of 900 kB, and what the client's socket holds of a list of them; the server's holds 4 MiB at most, by Linux's default.
const UNREAD: usize = 30;
const RECEIVED: u32 = 64 << 10;

impl Alone {
    fn signal(&self, signal: Signal) -> Outcome {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    async fn ended(&mut self) -> Result<ExitStatus, Failure> {
        let began = Instant::now();
        while began.elapsed() < SOON {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            sleep(Duration::from_millis(20)).await;
        }
        Err(format!("it has not ended after {SOON:?}\n{}", self.last_words()).into())
    }

    async fn logs(&self, words: &str) -> Outcome {
        let began = Instant::now();
        while !std::fs::read_to_string(&self.log)?.contains(words) {
            if began.elapsed() > SOON {
                return Err(format!("{words:?} is not in the log\n{}", self.last_words()).into());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// The value of a metric without labels, or with them.
    async fn metric(&self, name: &str) -> Result<u64, Failure> {
        let answer = self.client().fetch("/metrics").await?;
        let text = String::from_utf8(answer.body.to_vec())?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.ok_or_else(|| format!("no {name}").into())
    }
}

const LEFT_FOR_FULL: &str = "watchcache_log_lines_dropped_total{reason=\"full\"}";
const LEFT_FOR_FAILED: &str = "watchcache_log_lines_dropped_total{reason=\"failed\"}";

#[tokio::test]
async fn a_log_that_cannot_be_written_costs_its_lines() -> Outcome {
    let dir = tempfile::tempdir()?;
    let mut server = Alone::start_under(dir.path(), "exec 2>/dev/full", &[]).await?;
    // A start says something, and another thread writes it.
    let began = Instant::now();
    while server.metric(LEFT_FOR_FAILED).await? == 0 {
        assert!(began.elapsed() < SOON, "no line is counted");
        sleep(Duration::from_millis(20)).await;
    }
    asked(&server.client(), ("GET", "/api/v1/namespaces/default"), None, 200).await?;
    server.signal(Signal::TERM)?;
    assert_eq!(server.ended().await?.code(), Some(0));
    Ok(())
}

#[tokio::test]
async fn a_log_that_nobody_reads_holds_up_neither_requests_nor_the_end() -> Outcome {
    let dir = tempfile::tempdir()?;
    // Somebody has the other end open and does not read.
    let fifo = "mkfifo \"$0\".fifo && exec 2<>\"$0\".fifo";
    let mut server = Alone::start_under(dir.path(), fifo, &["--log-level", "debug"]).await?;
    let (client, mut count, mut open) = (server.client(), 0, Vec::new());
    while server.metric(LEFT_FOR_FULL).await? == 0 {
        // Each is a line. The header block says `GET`, `http`, `/`, and nobody as the authority.
        let mut requests = TcpStream::connect(server.address)?;
        requests.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")?;
        let cancelled = |stream: u32| {
            let stream = stream.to_be_bytes();
            [&b"\0\0\x03\x01\x05"[..], &stream, b"\x82\x86\x84", b"\0\0\x04\x03\0", &stream, b"\0\0\0\x08"].concat()
        };
        requests.write_all(&(0..CANCELLED).flat_map(|n| cancelled(2 * n + 1)).collect::<Vec<_>>())?;
        open.push(requests);
        count += CANCELLED;
        assert!(count < CANCELLED_MAX, "the log has taken everything");
        asked(&client, ("GET", "/api/v1/namespaces/default"), None, 200).await?;
    }
    asked(&client, ("POST", "/api/v1/namespaces/default/configmaps"), Some(&json!({"metadata": {"name": "a"}})), 201).await?;
    server.signal(Signal::TERM)?;
    assert_eq!(server.ended().await?.code(), Some(0));
    Ok(())
}

#[tokio::test]
async fn a_second_signal_ends_at_once_and_a_hangup_does_not() -> Outcome {
    let dir = tempfile::tempdir()?;
    let mut server = Alone::start_with(dir.path(), &["--shutdown-timeout", "10m"]).await?;
    server.signal(Signal::HUP)?;
    server.logs("SIGHUP is ignored").await?;
    let (client, maps) = (server.client(), "/api/v1/namespaces/default/configmaps");
    for at in 0..UNREAD {
        let large = json!({"metadata": {"name": format!("large-{at}")}, "data": {"text": "a".repeat(900_000)}});
        asked(&client, ("POST", maps), Some(&large), 201).await?;
    }
    // A list that is not read keeps the first signal waiting.
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVED)?;
    let mut open = socket.connect(server.address).await?;
    open.write_all(format!("GET {maps} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
    timeout(SOON, open.read_u8()).await??;
    server.signal(Signal::TERM)?;
    server.logs("stopping").await?;
    sleep(Duration::from_millis(1_500)).await;
    assert!(server.child.try_wait()?.is_none(), "the open request was not waited for\n{}", server.last_words());
    server.signal(Signal::TERM)?;
    assert_eq!(server.ended().await?.code(), Some(1));
    server.logs("a second signal").await
}

/// A balancer sees `/readyz` fail before anybody is turned away.
#[tokio::test]
async fn requests_are_answered_for_a_while_after_the_signal() -> Outcome {
    let dir = tempfile::tempdir()?;
    let mut server = Alone::start_with(dir.path(), &["--shutdown-delay-duration=1h"]).await?;
    server.signal(Signal::TERM)?;
    server.logs("stopping").await?;
    // A connection of its own each time.
    for _ in 0..10 {
        assert_eq!(server.client().fetch("/readyz").await?.status, 500);
        asked(&server.client(), ("GET", "/api/v1/namespaces/default"), None, 200).await?;
    }
    server.signal(Signal::TERM)?;
    assert_eq!(server.ended().await?.code(), Some(1));

    // And no longer than that.
    let (mut server, began) = (Alone::start_with(dir.path(), &["--shutdown-delay-duration=2s"]).await?, Instant::now());
    server.signal(Signal::TERM)?;
    assert_eq!(server.ended().await?.code(), Some(0));
    assert!(began.elapsed() >= Duration::from_secs(2), "it ended at once");
    Ok(())
}

#[tokio::test]
async fn connections_are_as_many_as_files_allow() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_under(dir.path(), "ulimit -Sn 100 && ulimit -Hn 120", &[]).await?;
    assert_eq!(server.metric("process_max_fds").await?, 120, "the soft limit is raised");
    server.logs("56 connections are accepted").await?;
    // One that is there already, beside more than there are files.
    let early = server.client();
    asked(&early, ("GET", "/api/v1/namespaces/default"), None, 200).await?;
    let crowd = (0..150).map(|_| TcpStream::connect(server.address)).collect::<Result<Vec<_>, _>>()?;
    sleep(Duration::from_millis(500)).await;
    for n in 0..20 {
        let map = json!({"metadata": {"name": format!("m{n}")}});
        asked(&early, ("POST", "/api/v1/namespaces/default/configmaps"), Some(&map), 201).await?;
    }
    let log = std::fs::read_to_string(&server.log)?;
    assert!(!log.contains("cannot accept"), "{log}");
    drop(crowd);
    // Newcomers are reset until the server has seen that the others are gone.
    let began = Instant::now();
    while let Err(error) = server.client().fetch("/api/v1/namespaces/default").await {
        assert!(began.elapsed() < SOON, "{error}");
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_full_disk_ends_writes_and_nothing_else() -> Outcome {
    let dir = tempfile::tempdir()?;
    // No file grows beyond 8 or 16 MiB, as the shell counts; the signal that comes with it is not for us.
    let mut server = Alone::start_under(dir.path(), "trap '' XFSZ; ulimit -f 16384", &[]).await?;
    let (client, maps) = (server.client(), "/api/v1/namespaces/default/configmaps");
    let map = |n: usize| json!({"metadata": {"name": format!("m{n}")}, "data": {"large": "x".repeat(LARGE)}}).to_string();
    let mut written = 0;
    let refused = loop {
        let body = map(written);
        let answer = client.ask(&crate::client::Request { method: "POST", target: maps, body: Some(body.as_bytes()) }).await?;
        if answer.status != 201 {
            break answer;
        }
        written += 1;
        assert!(written < LARGE_MAX, "all of it was written");
    };
    let text = String::from_utf8_lossy(&refused.body);
    assert_eq!(refused.status, 500, "{text}");
    assert!(text.contains("etcdserver: mvcc: database space exceeded"), "{text}");
    server.logs("the embedded store has failed").await?;
    // Every further write is refused in the same way; reads, the consistent ones too, show what was acknowledged.
    let small = json!({"metadata": {"name": "small"}});
    let again = asked(&client, ("POST", maps), Some(&small), 500).await?;
    assert_eq!(again["message"], "etcdserver: mvcc: database space exceeded");
    asked(&client, ("DELETE", &format!("{maps}/m0")), None, 500).await?;
    for query in ["", "?resourceVersion=0"] {
        let list = asked(&client, ("GET", &format!("{maps}{query}")), None, 200).await?;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(written), "{query}");
    }
    asked(&client, ("GET", &format!("{maps}/m0")), None, 200).await?;
    let mut watch = client.watch(&format!("{maps}?watch=true&resourceVersion=0")).await?.map_err(|answer| format!("{answer:?}"))?;
    for n in 0..written {
        assert!(watch.next().await?.is_some(), "the watch ended after {n} of {written}");
    }
    assert_eq!(client.fetch("/readyz").await?.status, 200);
    assert_eq!(client.fetch("/livez").await?.status, 200);
    assert_eq!(client.fetch("/readyz/store").await?.status, 500);
    assert_eq!(server.metric("watchcache_store_failed").await?, 1);
    server.signal(Signal::TERM)?;
    assert_eq!(server.ended().await?.code(), Some(0));
    let log = std::fs::read_to_string(&server.log)?;
    assert_eq!(log.matches("the embedded store has failed").count(), 1, "{log}");
    drop(server);
    // The next one has room.
    let server = Alone::start(dir.path()).await?;
    for n in 0..written {
        asked(&server.client(), ("GET", &format!("{maps}/m{n}")), None, 200).await?;
    }
    asked(&server.client(), ("POST", maps), Some(&small), 201).await?;
    assert_eq!(server.client().fetch("/readyz/store").await?.status, 200);
    Ok(())
}
