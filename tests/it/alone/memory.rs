//! A server whose `--memory-budget` is less than it takes does without all that only saves time: the answers are the same, history is short.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Alone, Failure, Outcome, asked, metric, names, revision};
use crate::client::Client;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// More than the events that history keeps at least (docs/operations.md, `--memory-budget`).
const OBJECTS: usize = 1_050;
/// Five things give way, one every three seconds.
const SOON: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_at_its_budget_answers_the_same() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--memory-budget=32Mi"]).await?;
    let client = server.client();
    let mut revisions = Vec::new();
    for at in 0..OBJECTS {
        let labels = json!({"third": (at % 3).to_string()});
        let body = json!({"metadata": {"name": format!("cm-{at:04}"), "labels": labels}, "data": {"text": "text ".repeat(40)}});
        revisions.push(revision(&asked(&client, ("POST", MAPS), Some(&body), 201).await?)?);
    }
    let began = Instant::now();
    while metric(&client, "watchcache_memory_given_up", "what=\"history\"").await? < 1.0 {
        assert!(began.elapsed() < SOON, "the budget is kept, with a server that takes more");
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(metric(&client, "watchcache_memory_budget_bytes", "").await? as u64, 32 << 20);
    // What gave way last is heard of by a cacher a moment after it is told: the oldest revision is gone then.
    while started_after(&client, revisions[0]).await? != Err(410) {
        assert!(began.elapsed() < SOON, "all of history is still there");
        sleep(Duration::from_millis(100)).await;
    }
    // The last thousand events are there, and with them the past to which they lead back.
    let (at, count) = (revisions[OBJECTS - 100], OBJECTS - 99);
    assert_eq!(started_after(&client, at).await?, Ok(format!("cm-{count:04}")));
    let exact = list(&client, &format!("resourceVersionMatch=Exact&resourceVersion={at}")).await?;
    let made = names(&exact).into_iter().filter(|name| name.starts_with("cm-"));
    assert_eq!(made.collect::<Vec<_>>(), (0..count).map(|at| format!("cm-{at:04}")).collect::<Vec<_>>());
    let selected = list(&client, "resourceVersion=0&labelSelector=third=1").await?;
    assert_eq!(names(&selected).len(), OBJECTS / 3);
    // Forms that would be kept are made anew, and are the same.
    let headers =
        |accept: &str, encoding: &str| [("Accept".to_owned(), accept.to_owned()), ("Accept-Encoding".to_owned(), encoding.to_owned())];
    let target = format!("{MAPS}?resourceVersion=0");
    for headers in [headers(PROTOBUF, "identity"), headers("application/json", "gzip")] {
        let mut first = client.whole("GET", &target, &headers, b"").await?;
        let mut compressed = metric(&client, "watchcache_list_blocks_total", "result=\"compressed\"").await?;
        let mut again = client.whole("GET", &target, &headers, b"").await?;
        // The revision of a list moves with the server's own Lease.
        while first.body != again.body {
            assert!(began.elapsed() < SOON, "no two lists are the same");
            first = again;
            compressed = metric(&client, "watchcache_list_blocks_total", "result=\"compressed\"").await?;
            again = client.whole("GET", &target, &headers, b"").await?;
        }
        assert_eq!((first.status, again.status), (200, 200));
        assert!(headers[1].1 != "gzip" || metric(&client, "watchcache_list_blocks_total", "result=\"compressed\"").await? > compressed);
    }
    assert_eq!(metric(&client, "watchcache_list_blocks_total", "result=\"shared\"").await?, 0.0);
    Ok(())
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Definitions, and about how many bytes of JSON each has.
const KINDS: usize = 8;
const KIND_BYTES: usize = 300 << 10;
/// What the embedded store may have in memory: 32 MiB of pages and 8 MiB of changes, with one change above that.
const STORE_BYTES: u64 = (40 << 20) + KIND_BYTES as u64;

/// 28 definitions of real projects took 132 MB, of which 23 were counted: pages of the store were, to 256 MiB, and what was free was not given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_definitions_take_is_counted_and_bounded() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let mut bytes = 0;
    for at in 0..KINDS {
        let definition = definition(at);
        bytes += definition.to_string().len() as u64;
        asked(&client, ("POST", DEFINITIONS), Some(&definition), 201).await?;
    }
    let began = Instant::now();
    for at in 0..KINDS {
        while client.fetch(&format!("/apis/g{at}.ex.io/v1/things")).await?.status != 200 {
            assert!(began.elapsed() < SOON, "definition {at} is never served");
            sleep(Duration::from_millis(50)).await;
        }
    }
    let overview = asked(&client, ("GET", "/watchcache/api/v1/overview"), None, 200).await?;
    let counted = |what: &str| overview["memory"][what].as_u64().unwrap_or_default();
    let (objects, schemas, rings) = (counted("objects"), counted("schemas"), counted("rings"));
    assert!((bytes / 2..2 * bytes).contains(&objects), "{objects} bytes of objects for {bytes}");
    assert!((bytes / 20..bytes).contains(&schemas), "{schemas} bytes of schemas for {bytes}");
    // Each is written a few times, and its events name it before and after.
    assert!(rings < 10 * bytes, "{rings} bytes of history for {bytes}");
    let mut store = 0;
    while store == 0 {
        assert!(began.elapsed() < SOON, "nobody knows what the store has");
        sleep(Duration::from_millis(100)).await;
        store = metric(&client, "watchcache_store_memory_bytes", "").await? as u64;
    }
    assert!(store <= STORE_BYTES, "the store has {store} bytes");
    Ok(())
}

/// A definition of many properties that say what they are.
fn definition(at: usize) -> Value {
    let property = |nth: usize| (format!("field{nth}"), json!({"type": "string", "description": "What this field is. ".repeat(8)}));
    let group = |nth: usize| {
        let properties: serde_json::Map<_, _> = (0..10).map(property).collect();
        (format!("group{nth}"), json!({"type": "object", "properties": properties}))
    };
    let properties: serde_json::Map<_, _> = (0..KIND_BYTES / 2_200).map(group).collect();
    let spec = json!({"type": "object", "properties": properties});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.g{at}.ex.io")},
        "spec": {
            "group": format!("g{at}.ex.io"),
            "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// The name of what a watch from this revision tells first, or with which code it ends.
async fn started_after(client: &Client, revision: u64) -> Result<Result<String, u64>, Failure> {
    let mut watch = match client.watch(&format!("{MAPS}?watch=1&resourceVersion={revision}")).await? {
        Ok(watch) => watch,
        Err(refused) => return Ok(Err(refused.status.into())),
    };
    let frame: Value = serde_json::from_slice(&watch.next_line().await?.ok_or("the stream ended")?)?;
    let object = &frame["object"];
    Ok(object["metadata"]["name"].as_str().map(str::to_owned).ok_or_else(|| object["code"].as_u64().unwrap_or_default()))
}

async fn list(client: &Client, query: &str) -> Result<Value, Failure> {
    asked(client, ("GET", &format!("{MAPS}?{query}")), None, 200).await
}
