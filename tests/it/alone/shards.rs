//! Shards of a collection (`shardSelector`): the parts together are the whole, in lists and in watches, and without the gate nothing is cut.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use super::{Alone, Outcome, asked};
use crate::client::{Client, Watch};

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
const GATE: &str = "--feature-gates=ShardedListAndWatch=true";
/// How many objects are made; that all their hashes lie in one half happens once in 2^39 runs.
const OBJECTS: usize = 40;
/// The two halves, as they are asked for and shown.
const HALVES: [&str; 2] = [
    "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')",
    "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')",
];
/// How long an event may take.
const PATIENCE: Duration = Duration::from_secs(600);

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_halves_are_the_whole() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &[GATE]).await?;
    let client = server.client();
    for index in 0..OBJECTS {
        let body = json!({"metadata": {"name": format!("cm-{index:02}"), "labels": {"third": (index % 3).to_string()}}});
        asked(&client, ("POST", COLLECTION), Some(&body), 201).await?;
    }
    let revision = list(&client, "").await?["metadata"]["resourceVersion"].as_str().ok_or("no revision")?.to_owned();
    for options in [
        "".to_owned(),
        "&labelSelector=third%3D1".to_owned(),
        "&resourceVersion=0".to_owned(),
        format!("&resourceVersion={revision}&resourceVersionMatch=Exact"),
        "&limit=7".to_owned(),
    ] {
        let whole = pages(&client, &options).await?;
        let mut halves = BTreeMap::new();
        for half in HALVES {
            let part = pages(&client, &format!("{options}&shardSelector={}", encoded(half))).await?;
            assert!(!part.is_empty() && part.len() < whole.len(), "{options}: {} of {}", part.len(), whole.len());
            for (name, item) in part {
                assert!(halves.insert(name.clone(), item).is_none(), "{options}: {name} is in both halves");
            }
        }
        assert_eq!(halves, whole, "{options}");
    }
    let first = list(&client, &format!("&limit=1&shardSelector={}", encoded(HALVES[0]))).await?;
    assert_eq!(first["metadata"]["shardInfo"], json!({"selector": HALVES[0]}));
    assert_eq!(first["metadata"]["remainingItemCount"], OBJECTS - 1, "counts the whole, as the real server does");
    changed(&client, &revision).await
}

/// Watches from a revision: each half sees exactly the events of its objects, byte for byte those of the whole.
async fn changed(client: &Client, revision: &str) -> Outcome {
    let mut whole = watch(client, &format!("&resourceVersion={revision}")).await?;
    let mut halves = Vec::new();
    for half in HALVES {
        let shard = format!("&shardSelector={}", encoded(half));
        let members = pages(client, &shard).await?;
        // A stream that begins with the state has the same members.
        let mut state = watch(client, &shard).await?;
        for (name, line) in events(&mut state, members.len()).await? {
            assert!(members.contains_key(&name) && line.starts_with("{\"type\":\"ADDED\""), "{line}");
        }
        halves.push((members, watch(client, &format!("&resourceVersion={revision}{shard}")).await?));
    }
    for index in 0..OBJECTS {
        let target = format!("{COLLECTION}/cm-{index:02}");
        let mut object = asked(client, ("GET", &target), None, 200).await?;
        object["data"] = json!({"changed": "yes"});
        asked(client, ("PUT", &target), Some(&object), 200).await?;
        if index % 2 == 0 {
            asked(client, ("DELETE", &target), None, 200).await?;
        }
    }
    let all = events(&mut whole, OBJECTS + OBJECTS / 2).await?;
    for (members, half) in &mut halves {
        let expected: Vec<_> = all.iter().filter(|(name, _)| members.contains_key(name)).cloned().collect();
        assert_eq!(events(half, expected.len()).await?, expected);
    }
    half_deleted(client).await
}

/// What is deleted of one half is kept of the other.
async fn half_deleted(client: &Client) -> Outcome {
    let shard = format!("shardSelector={}", encoded(HALVES[0]));
    let (mut kept, part) = (pages(client, "").await?, pages(client, &format!("&{shard}")).await?);
    let deleted = asked(client, ("DELETE", &format!("{COLLECTION}?{shard}")), None, 200).await?;
    assert_eq!(deleted["metadata"]["shardInfo"]["selector"], HALVES[0]);
    kept.retain(|name, _| !part.contains_key(name));
    assert_eq!(pages(client, "").await?, kept);
    Ok(())
}

/// Recorded from kube-apiserver 1.36.3: which mistakes come before that in the shard selector, and which after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_selector_is_refused_only_behind_the_gate() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &[GATE]).await?;
    let client = server.client();
    let wrong = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500,
        "message": "invalid shard selector: unexpected expression kind 3; expected shardRange() call or || operator",
    });
    for options in ["", "&resourceVersion=abc", "&continue=abc", "&watch=1", "&watch=1&resourceVersion=abc", "&shardSelector=also"] {
        assert_eq!(asked(&client, ("GET", &format!("{COLLECTION}?shardSelector=bogus{options}")), None, 500).await?, wrong, "{options}");
    }
    asked(&client, ("DELETE", &format!("{COLLECTION}?shardSelector=bogus")), None, 500).await?;
    asked(&client, ("GET", "/api/v1/watch/namespaces/default/configmaps?shardSelector=bogus"), None, 500).await?;
    for (options, status) in
        [("limit=x", 400), ("labelSelector=a%3Db%3Dc", 400), ("fieldSelector=foo%3Dbar", 400), ("resourceVersionMatch=Exact", 422)]
    {
        asked(&client, ("GET", &format!("{COLLECTION}?shardSelector=bogus&{options}")), None, status).await?;
    }
    assert_eq!(list(&client, "&shardSelector=").await?["metadata"].get("shardInfo"), None);
    drop(server);

    let server = Alone::start(dir.path()).await?;
    for selector in ["bogus", &encoded(HALVES[0])] {
        assert_eq!(list(&server.client(), &format!("&shardSelector={selector}")).await?["metadata"].get("shardInfo"), None);
    }
    Ok(())
}

async fn list(client: &Client, options: &str) -> Result<Value, Failure> {
    asked(client, ("GET", &format!("{COLLECTION}?{}", options.trim_start_matches('&'))), None, 200).await
}

/// All pages of a list: items by name.
async fn pages(client: &Client, options: &str) -> Result<BTreeMap<String, Value>, Failure> {
    let mut items = BTreeMap::new();
    let mut more = String::new();
    loop {
        let page = list(client, &format!("{options}{more}")).await?;
        let shown = usize::from(options.contains("shardSelector"));
        assert_eq!(page["metadata"].get("shardInfo").into_iter().count(), shown, "{page}");
        for item in page["items"].as_array().ok_or("no items")? {
            let name = item["metadata"]["name"].as_str().ok_or("no name")?.to_owned();
            assert!(items.insert(name, item.clone()).is_none(), "{item} twice");
        }
        let Some(token) = page["metadata"]["continue"].as_str() else { return Ok(items) };
        more = format!("&continue={token}");
    }
}

async fn watch(client: &Client, options: &str) -> Result<Watch, Failure> {
    client.watch(&format!("{COLLECTION}?watch=true{options}")).await?.map_err(|refused| format!("{refused:?}").into())
}

/// The next events: the object's name, and the whole line.
async fn events(watch: &mut Watch, count: usize) -> Result<Vec<(String, String)>, Failure> {
    let mut events = Vec::new();
    while events.len() < count {
        let line = tokio::time::timeout(PATIENCE, watch.next_line()).await??.ok_or("the stream ended")?;
        let event: Value = serde_json::from_slice(&line)?;
        let name = event["object"]["metadata"]["name"].as_str().ok_or("no name")?.to_owned();
        events.push((name, String::from_utf8(line)?));
    }
    Ok(events)
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
