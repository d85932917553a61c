//! `kill -9` and a new start: whatever was acknowledged is there, revisions go on, and a watch from before resumes.

use std::{
    collections::BTreeMap,
    env,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use super::{Alone, Outcome, asked, revision};
use crate::client::{Client, Request, Watch};

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
/// How often the server is killed under load, unless `WATCHCACHE_KILLS` says otherwise.
const KILLS: u64 = 5;
/// How long an event may take.
const PATIENCE: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_watches_resume() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let mut made = Vec::new();
    for index in 0..20 {
        let body = json!({"metadata": {"name": format!("cm-{index}")}, "data": {"index": index.to_string()}});
        made.push(asked(&client, ("POST", COLLECTION), Some(&body), 201).await?);
    }
    asked(&client, ("DELETE", &format!("{COLLECTION}/cm-7")), None, 200).await?;
    let gone = made.remove(7);
    let middle = revision(&made[9])?;
    let list = asked(&client, ("GET", COLLECTION), None, 200).await?;
    server.kill()?;

    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let again = asked(&client, ("GET", COLLECTION), None, 200).await?;
    assert_eq!(again["items"], list["items"], "the objects are those of before");
    assert_eq!(again["items"].as_array().map(Vec::len), Some(19));
    for object in &made {
        let target = format!("{COLLECTION}/{}", object["metadata"]["name"].as_str().ok_or("a name")?);
        assert_eq!(&asked(&client, ("GET", &target), None, 200).await?, object);
    }
    asked(&client, ("GET", &format!("{COLLECTION}/cm-7")), None, 404).await?;

    let new = asked(&client, ("POST", COLLECTION), Some(&json!({"metadata": {"name": "cm-new"}})), 201).await?;
    assert!(revision(&new)? > revision(&list)?, "{} after {}", revision(&new)?, revision(&list)?);
    let watch = client.watch(&format!("{COLLECTION}?watch=true&resourceVersion={middle}")).await?;
    let mut watch = watch.map_err(|refused| format!("{refused:?}"))?;
    let mut expected: Vec<(String, u64)> = Vec::new();
    for object in &made[10..] {
        expected.push((format!("ADDED {}", name(object)), revision(object)?));
    }
    let mut seen = Vec::new();
    while seen.len() < expected.len() + 2 {
        seen.push(next(&mut watch).await?);
    }
    let (deleted, added) = (seen.remove(seen.len() - 2), seen.pop().ok_or("no last event")?);
    assert_eq!(seen, expected, "what came after the revision that the watch names");
    assert_eq!(deleted.0, format!("DELETED {}", name(&gone)));
    assert_eq!(added, (format!("ADDED {}", name(&new)), revision(&new)?));
    Ok(())
}

/// Killed in the middle of writes, again and again: every acknowledged write is there, at the revision that it was told, and no revision is used twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_kill_under_load() -> Outcome {
    let dir = tempfile::tempdir()?;
    let mut acknowledged: BTreeMap<u64, (String, String)> = BTreeMap::new();
    let kills = env::var("WATCHCACHE_KILLS").map_or(Ok(KILLS), |text| text.parse())?;
    for round in 0..kills {
        let server = Alone::start(dir.path()).await?;
        check(&server.client(), &acknowledged).await?;
        let done = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (0..8).map(|writer| tokio::spawn(write(server.client(), round, writer, done.clone()))).collect();
        tokio::time::timeout(PATIENCE, reached(&done, 40 + 17 * (round % 7))).await.map_err(|_| format!("{done:?} writes are too few"))?;
        server.kill()?;
        for writer in writers {
            for (revision, write) in writer.await? {
                let twice = acknowledged.insert(revision, write);
                assert_eq!(twice, None, "revision {revision} was given twice");
            }
        }
    }
    let server = Alone::start(dir.path()).await?;
    check(&server.client(), &acknowledged).await
}

async fn reached(done: &AtomicU64, count: u64) {
    while done.load(Ordering::Relaxed) < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Creates objects one after another until the server is gone; what was acknowledged, by revision.
async fn write(client: Client, round: u64, writer: u64, done: Arc<AtomicU64>) -> Vec<(u64, (String, String))> {
    let mut acknowledged = Vec::new();
    for index in 0_u64.. {
        let name = format!("cm-{round}-{writer}-{index}");
        let body = json!({"metadata": {"name": name}}).to_string();
        let request = Request { method: "POST", target: COLLECTION, body: Some(body.as_bytes()) };
        let Ok(answer) = client.ask(&request).await else { break };
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
        let object: Value = serde_json::from_slice(&answer.body).expect("an answer that came whole");
        let revision = revision(&object).expect("an object has a revision");
        acknowledged.push((revision, (name, object["metadata"]["uid"].as_str().unwrap_or("").to_owned())));
        done.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

async fn check(client: &Client, acknowledged: &BTreeMap<u64, (String, String)>) -> Outcome {
    let list = asked(client, ("GET", COLLECTION), None, 200).await?;
    let mut there = BTreeMap::new();
    for object in list["items"].as_array().ok_or("no items")? {
        there.insert(revision(object)?, (name(object).to_owned(), object["metadata"]["uid"].as_str().unwrap_or("").to_owned()));
    }
    for (revision, write) in acknowledged {
        assert_eq!(there.get(revision), Some(write), "revision {revision} was acknowledged");
    }
    Ok(())
}

async fn next(watch: &mut Watch) -> Result<(String, u64), Box<dyn std::error::Error + Send + Sync>> {
    let frame = tokio::time::timeout(PATIENCE, watch.next()).await??.ok_or("the watch ended")?;
    let event: Value = serde_json::from_slice(&frame.line)?;
    Ok((format!("{} {}", event["type"].as_str().unwrap_or(""), name(&event["object"])), revision(&event["object"])?))
}

fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("")
}
