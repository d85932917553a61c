//! Bodies that are hard work are judged while others are answered: one runtime thread is enough for both (docs/performance.md, "The worst bodies").

use std::time::{Duration, Instant};

use super::{Alone, Failure, Outcome};
use crate::{client::Client, live::say};

/// Bytes of each body: some seconds of work for an unoptimised server.
const BYTES: usize = 512 << 10;
/// Times that a body is sent until small requests have not waited for it: who has to wait does so each time, but on a machine that stands still for a second
/// anybody waits.
const TRIES: usize = 20;

/// What a small request waited for at most, and how long the large one took meanwhile.
#[derive(Debug)]
struct Round {
    small_max: Duration,
    large: Duration,
}

impl Round {
    fn waited(&self) -> bool {
        self.small_max * 2 > self.large
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_answered_while_the_worst_bodies_are_judged() -> Outcome {
    let dir = tempfile::tempdir()?;
    // With one thread, whoever keeps it keeps it from all others.
    let server = Alone::start_on(dir.path(), &[], &[("TOKIO_WORKER_THREADS", "1")]).await?;
    let mut rounds = Vec::new();
    for (method, target, media, body) in bodies() {
        let mut last = round(&server.client(), method, target, media, body.clone()).await?;
        for _ in 1..TRIES {
            if last.waited() {
                last = round(&server.client(), method, target, media, body.clone()).await?;
            }
        }
        rounds.push(last);
    }
    say(&format!("small requests beside large ones: {rounds:?}"));
    // The machine may be busy with other things, and both wait for it; a request that waited for the large one would have taken all of its time, each time.
    assert!(!rounds.iter().any(Round::waited), "small requests waited for large ones: {rounds:?}");
    Ok(())
}

/// Sends the body, and small requests one after another until it is answered.
async fn round(client: &Client, method: &'static str, target: &'static str, media: &str, body: Vec<u8>) -> Result<Round, Failure> {
    let headers = [("Content-Type".to_owned(), media.to_owned())];
    let began = Instant::now();
    let large = tokio::spawn({
        let client = client.clone();
        async move { client.whole(method, target, &headers, &body).await.map(|_| began.elapsed()) }
    });
    let mut small_max = Duration::ZERO;
    while !large.is_finished() {
        let asked = Instant::now();
        assert_eq!(client.fetch("/api/v1/namespaces/default").await?.status, 200);
        small_max = small_max.max(asked.elapsed());
    }
    Ok(Round { small_max, large: large.await?? })
}

/// Requests, their media types and bodies: a very many of something small.
fn bodies() -> Vec<(&'static str, &'static str, &'static str, Vec<u8>)> {
    let (pods, maps) = ("/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps");
    let pod =
        |items: &str| format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"containers":[{{"name":"c","image":"i","env":[{items}]}}]}}}}"#);
    let many = |item: &str| vec![item; BYTES / (item.len() + 1)].join(",");
    let members = (0..BYTES / 12).map(|i| format!(r#""k{i}":"""#)).collect::<Vec<_>>().join(",");
    let lines: String = (0..BYTES / 10).map(|i| format!("  k{i}: ''\n")).collect();
    vec![
        ("POST", pods, "application/json", pod(&many("{}")).into_bytes()),
        ("POST", maps, "application/json", format!(r#"{{"metadata":{{"name":"a"}},"data":{{{members}}}}}"#).into_bytes()),
        ("POST", maps, "application/yaml", format!("metadata:\n  name: b\ndata:\n{lines}").into_bytes()),
        (
            "PATCH",
            "/api/v1/namespaces/default",
            "application/merge-patch+json",
            format!(r#"{{"metadata":{{"labels":{{{members}}}}}}}"#).into_bytes(),
        ),
    ]
}
