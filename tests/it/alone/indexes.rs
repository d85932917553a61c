//! Indexes that are learned from selectors: what lists and watches answer stays the same, and they look at what they return.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Alone, Failure, Outcome, asked, metric, names};
use crate::client::Client;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const OF_MAPS: &str = "resource=\"configmaps\"";
const OBJECTS: usize = 1_200;
/// Objects of one rack.
const RACK: usize = 12;
/// An index is made when the cacher tidies, every 5 s.
const SOON: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selector_that_is_asked_often_gets_an_index() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    for at in 0..OBJECTS {
        let labels = json!({"rack": format!("r{}", at / RACK), "all": "yes"});
        asked(&client, ("POST", MAPS), Some(&json!({"metadata": {"name": format!("cm-{at:04}"), "labels": labels}})), 201).await?;
    }
    let asks = |rack: usize| format!("resourceVersion=0&labelSelector=all=yes,rack=r{rack}");
    let scanned = list(&client, &asks(7)).await?;
    let began = Instant::now();
    // Both labels are learned; the narrow one answers.
    while metric(&client, "watchcache_selector_indexes{", OF_MAPS).await? < 1.0 {
        assert!(began.elapsed() < SOON, "no index");
        for _ in 0..10 {
            assert_eq!(list(&client, &asks(7)).await?["items"], scanned["items"]);
        }
        sleep(Duration::from_millis(200)).await;
    }
    while looked_at(&client, &asks(7)).await?.1 > RACK as f64 {
        assert!(began.elapsed() < SOON, "no index by the narrow label");
        sleep(Duration::from_millis(200)).await;
    }
    let (found, looked) = looked_at(&client, &asks(7)).await?;
    assert_eq!((found["items"].clone(), looked), (scanned["items"].clone(), RACK as f64));
    pages(&client).await?;
    // What is written moves in the index: out of a rack, into another one, away.
    for (at, rack) in [(84, "r8"), (85, "none")] {
        let labels = json!({"metadata": {"labels": {"rack": rack}}});
        let headers = [("Content-Type".to_owned(), "application/merge-patch+json".to_owned())];
        let patched = client.whole("PATCH", &format!("{MAPS}/cm-{at:04}"), &headers, labels.to_string().as_bytes()).await?;
        assert_eq!(patched.status, 200);
    }
    asked(&client, ("DELETE", &format!("{MAPS}/cm-0086")), None, 200).await?;
    let fresh = |rack: usize| format!("labelSelector=all=yes,rack=r{rack}");
    let (seven, looked) = looked_at(&client, &fresh(7)).await?;
    assert_eq!((names(&seven), looked), ((87..96).map(name).collect(), 9.0));
    assert_eq!(names(&list(&client, &fresh(8)).await?), std::iter::once(84).chain(96..108).map(name).collect::<Vec<_>>());
    // A watch that begins with the state begins with the same objects.
    let target = format!("{MAPS}?watch=1&resourceVersion=0&{}", fresh(8));
    let mut watch = client.watch(&target).await?.map_err(|refused| format!("{refused:?}"))?;
    for at in std::iter::once(84).chain(96..108) {
        let event: Value = serde_json::from_slice(&watch.next_line().await?.ok_or("the stream ended")?)?;
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!(name(at))));
    }
    Ok(())
}

/// A page says whether another key follows, selected or not: as without an index.
async fn pages(client: &Client) -> Outcome {
    let page = |rack: usize, limit: usize| format!("limit={limit}&labelSelector=all=yes,rack=r{rack}");
    let first = list(client, &page(7, 5)).await?;
    assert_eq!(names(&first), (84..89).map(name).collect::<Vec<_>>());
    let token = first["metadata"]["continue"].as_str().ok_or("no token")?;
    let rest = list(client, &format!("{}&continue={token}", page(7, 100))).await?;
    assert_eq!((names(&rest), &rest["metadata"]["continue"]), ((89..96).map(name).collect(), &Value::Null));
    assert!(list(client, &page(7, RACK)).await?["metadata"]["continue"].is_string(), "keys of other racks follow");
    let last = OBJECTS / RACK - 1;
    assert!(list(client, &page(last, RACK)).await?["metadata"]["continue"].is_null(), "no key follows");
    Ok(())
}

fn name(at: usize) -> String {
    format!("cm-{at:04}")
}

async fn list(client: &Client, query: &str) -> Result<Value, Failure> {
    asked(client, ("GET", &format!("{MAPS}?{query}")), None, 200).await
}

/// A list, and how many objects it looked at.
async fn looked_at(client: &Client, query: &str) -> Result<(Value, f64), Failure> {
    const LOOKED: &str = "apiserver_cache_list_fetched_objects_total{";
    let before = metric(client, LOOKED, OF_MAPS).await?;
    let listed = list(client, query).await?;
    Ok((listed, metric(client, LOOKED, OF_MAPS).await? - before))
}
