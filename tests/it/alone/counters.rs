//! Many clients read, change and write the same few objects, each in its own way: no acknowledged change may be lost.

use std::{collections::BTreeMap, env, time::Duration};

use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};

use super::{Alone, Outcome, asked};
use crate::{
    client::{Client, Request, Watch},
    live::say,
};

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
const OBJECTS: usize = 10;
const CLIENTS: usize = 50;
/// Seconds of writes, unless `WATCHCACHE_RMW_SECONDS` says otherwise.
const SECONDS: u64 = 5;
/// How long the watch may take to show the last write.
const PATIENCE: Duration = Duration::from_secs(600);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How a client changes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// GET, then a PUT that names the revision it read.
    Put,
    /// GET, then a JSON patch that tests what it read.
    TestAndReplace,
    /// A merge patch of a key that nobody else writes, without reading.
    OwnKey,
}

/// What a client did.
#[derive(Debug, Default)]
struct Tally {
    /// Increments of the shared count that were acknowledged.
    counted: usize,
    /// The own key and the last value acknowledged for it.
    own: Option<(String, usize)>,
    /// Changes that the server refused because somebody else was first.
    refused: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_change_is_lost() -> Outcome {
    let seconds = env::var("WATCHCACHE_RMW_SECONDS").map_or(Ok(SECONDS), |text| text.parse())?;
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    for index in 0..OBJECTS {
        let body = json!({"metadata": {"name": format!("counter-{index}")}, "data": {"count": "0"}});
        asked(&client, ("POST", COLLECTION), Some(&body), 201).await?;
    }
    let list = asked(&client, ("GET", COLLECTION), None, 200).await?;
    let from = list["metadata"]["resourceVersion"].as_str().ok_or("no revision")?;
    let watch =
        client.watch(&format!("{COLLECTION}?watch=true&resourceVersion={from}")).await?.map_err(|refused| format!("{refused:?}"))?;

    let end = Instant::now() + Duration::from_secs(seconds);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        // Of four clients two patch with a test, one puts, one has a key of its own.
        let way = [Way::TestAndReplace, Way::Put, Way::TestAndReplace, Way::OwnKey][number % 4];
        clients.spawn(work(server.client(), number, way, end));
    }
    let mut counted = [0; OBJECTS];
    let mut own = BTreeMap::new();
    let mut by_way: BTreeMap<Way, (usize, usize)> = BTreeMap::new();
    while let Some(done) = clients.join_next().await {
        let (number, way, tally) = done??;
        counted[number % OBJECTS] += tally.counted;
        let changes = tally.counted + tally.own.as_ref().map_or(0, |(_, value)| *value);
        let sum = by_way.entry(way).or_default();
        (sum.0, sum.1) = (sum.0 + changes, sum.1 + tally.refused);
        own.extend(tally.own.map(|(key, value)| ((number % OBJECTS, key), value)));
    }
    say(&format!("alone counters: {seconds} s, (acknowledged, refused) {by_way:?}"));
    for (index, counted) in counted.iter().enumerate() {
        let object = asked(&client, ("GET", &format!("{COLLECTION}/counter-{index}")), None, 200).await?;
        assert_eq!(count(&object)?, *counted, "counter-{index}");
        for ((_, key), value) in own.iter().filter(|((of, _), _)| *of == index) {
            assert_eq!(object["data"][key], value.to_string(), "{key} of counter-{index}");
        }
    }
    followed(watch, counted).await?;
    assert!(by_way.values().all(|(changes, _)| *changes > 0), "everybody gets on: {by_way:?}");
    assert!(by_way[&Way::Put].1 > 0 && by_way[&Way::TestAndReplace].1 > 0, "without contention this shows nothing: {by_way:?}");
    Ok(())
}

async fn work(client: Client, number: usize, way: Way, end: Instant) -> Result<(usize, Way, Tally), Failure> {
    let target = format!("{COLLECTION}/counter-{}", number % OBJECTS);
    let mut tally = Tally::default();
    // Everybody makes one change at least, however slow the machine is.
    while Instant::now() < end || tally.counted == 0 && tally.own.is_none() {
        if way == Way::OwnKey {
            let (key, value) = tally.own.take().unwrap_or((format!("own-{number}"), 0));
            let patch = json!({"data": {&key: (value + 1).to_string()}});
            asked(&client, ("PATCH", &target), Some(&patch), 200).await?;
            tally.own = Some((key, value + 1));
            continue;
        }
        let mut object = asked(&client, ("GET", &target), None, 200).await?;
        let (old, new) = (count(&object)?.to_string(), (count(&object)? + 1).to_string());
        let (method, body) = if way == Way::Put {
            object["data"]["count"] = Value::String(new);
            ("PUT", object)
        } else {
            let test = json!({"op": "test", "path": "/data/count", "value": old});
            ("PATCH", json!([test, {"op": "replace", "path": "/data/count", "value": new}]))
        };
        let body = body.to_string();
        let answer = client.ask(&Request { method, target: &target, body: Some(body.as_bytes()) }).await?;
        match answer.status {
            200 => tally.counted += 1,
            // Somebody else was first: a revision that is no longer (409), a test that does not hold (422).
            409 => tally.refused += 1,
            422 if way == Way::TestAndReplace => tally.refused += 1,
            status => return Err(format!("{way:?}: {status} {}", String::from_utf8_lossy(&answer.body)).into()),
        }
    }
    Ok((number, way, tally))
}

/// The watch shows every count of every object once: no increment was made on another one's base.
async fn followed(mut watch: Watch, ends: [usize; OBJECTS]) -> Outcome {
    let mut shown = [0; OBJECTS];
    while shown != ends {
        let frame = tokio::time::timeout(PATIENCE, watch.next()).await.map_err(|_| format!("{shown:?}, not {ends:?}"))??;
        let event: Value = serde_json::from_slice(&frame.ok_or("the watch ended")?.line)?;
        let name = event.pointer("/object/metadata/name").and_then(Value::as_str).and_then(|name| name.strip_prefix("counter-"));
        let index: usize = name.ok_or_else(|| format!("{event}"))?.parse()?;
        let next = count(&event["object"])?;
        if next != shown[index] && next != shown[index] + 1 {
            return Err(format!("counter-{index} went from {} to {next}", shown[index]).into());
        }
        shown[index] = next;
    }
    Ok(())
}

fn count(object: &Value) -> Result<usize, Failure> {
    Ok(object.pointer("/data/count").and_then(Value::as_str).ok_or_else(|| format!("no count: {object}"))?.parse()?)
}
