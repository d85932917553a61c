//! Every metric family that the server has is written to by somebody: the life of a server moves each, but those that only a fault or a flag moves.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use store::{Store, StoreConfig};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::sleep};

use super::{Alone, Failure, Outcome, asked};
use crate::client::Client;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// A revision that comes long after the test.
const FUTURE: u64 = 9_000_000;
/// What the names of families begin with.
const PREFIXES: [&str; 4] = ["apiserver_", "etcd_", "process_", "watchcache_"];
/// The name and the value of labels that look like that of a family.
const OF_LABELS: [&str; 2] = ["apiserver_id_hash", "apiserver_internal_error"];
/// How long the last of them may take on a busy machine.
const SOON: Duration = Duration::from_secs(600);

/// What moves only when something is wrong or a flag asks for it, and the tests in which it does.
const OF_FAULTS: [(&str, &str); 30] = [
    ("apiserver_admission_webhook_admission_duration_seconds", "a webhook is asked: `hooks`"),
    ("apiserver_admission_webhook_fail_open_count", "a webhook cannot be called and is ignored: `hooks`"),
    ("apiserver_admission_webhook_rejection_count", "a webhook refuses: `hooks`"),
    ("apiserver_admission_webhook_request_total", "a webhook is asked: `hooks`"),
    ("apiserver_audit_error_total", "the audit log cannot be written: `audit`"),
    ("apiserver_audit_event_total", "there is an audit policy: `audit`"),
    ("apiserver_audit_level_total", "there is an audit policy: `audit`"),
    ("apiserver_audit_requests_rejected_total", "the audit log cannot be written: `audit`"),
    ("apiserver_conversion_webhook_duration_seconds", "a definition has a conversion webhook: `conversion::view::tests`"),
    ("apiserver_conversion_webhook_request_total", "a definition has a conversion webhook: `conversion::view::tests`"),
    ("apiserver_terminated_watchers_total", "the ring has moved past a watcher: `unread`"),
    ("watchcache_certificate_expiration_timestamp_seconds", "a certificate is in a file: `app::certificates`"),
    ("watchcache_connections_closed_total", "a connection is not let in or has to go: `http::listen::tests`"),
    ("watchcache_etcd_proven", "the server is a read replica: `replica::layout`"),
    ("watchcache_forwarded_duration_seconds", "the server is a read replica: `replica::shown`"),
    ("watchcache_forwarded_requests_total", "the server is a read replica: `replica`"),
    ("watchcache_incomplete", "upstream has something else than this etcd: `replica::layout`"),
    ("watchcache_kept_answers_total", "a replica's kube-apiserver is away: `live::away`"),
    ("watchcache_loads_refused_total", "an API server sends more than there is memory for: `reflector::tests`"),
    ("watchcache_log_lines_dropped_total", "the log is full or floods: `trouble`"),
    ("watchcache_memory_budget_bytes", "there is a budget: `memory`"),
    ("watchcache_memory_given_up", "the server is over its budget: `memory`"),
    ("watchcache_resource_age_seconds", "what brings objects is silent: `reflector::tests`"),
    ("watchcache_selector_indexes", "selectors look at many objects in vain: `indexes`"),
    ("watchcache_store_failed", "the disk is full: `trouble`"),
    ("watchcache_store_quota_bytes", "there is a quota: `backups`"),
    ("watchcache_store_stalled", "the disk hangs: `store::tests::lives`"),
    ("watchcache_upstream_up", "the server is a read replica: `replica`"),
    ("watchcache_unread_bytes", "a client does not read: `backlog`"),
    ("watchcache_watches_too_old_total", "a watch begins at a revision that history does not reach: `inside`"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_family_has_a_writer() -> Outcome {
    let families = families()?;
    let faults = BTreeSet::from(OF_FAULTS.map(|(name, _)| name.to_owned()));
    assert!(families.len() > 40 && faults.is_subset(&families), "{families:?}");
    let dir = tempfile::tempdir()?;
    found_at_the_start(&dir.path().join("data")).await?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    live(&client).await?;
    // What is counted while it lasts: a watch, and a request whose head is long and whose body has not come.
    let target = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=a=b";
    let mut watch = client.watch(&format!("{MAPS}?{target}")).await?.map_err(|refused| format!("{refused:?}"))?;
    watch.next().await?.ok_or("no initial event")?;
    let mut half = TcpStream::connect(server.address).await?;
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\nIf-None-Match: {}\r\n\r\n",
        server.address,
        "x".repeat(20_000)
    );
    half.write_all(head.as_bytes()).await?;

    let (mut moved, began) = (BTreeSet::new(), Instant::now());
    loop {
        let samples = samples(&client).await?;
        moved.extend(samples.iter().map(|(series, _)| family(series)));
        let rest: Vec<&String> = families.difference(&moved).filter(|name| !faults.contains(*name)).collect();
        if rest.is_empty() {
            for operation in ["get", "list", "create", "update", "delete"] {
                let series = format!("etcd_requests_total{{group=\"\",operation=\"{operation}\",resource=\"configmaps\"}}");
                assert!(samples.iter().any(|(name, _)| *name == series), "{series}");
            }
            return Ok(());
        }
        assert!(began.elapsed() < SOON, "nobody writes {rest:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Leaves a key that fits no resource and a value that is no object.
async fn found_at_the_start(data: &Path) -> Outcome {
    let store = Store::open(data, StoreConfig::default())?;
    let mut etcd = proto::testing::Client::new(store.channel());
    etcd.put(("/registry/nobodys/a", "{}")).await?;
    etcd.put(("/registry/limitranges/default/a", "nonsense")).await?;
    drop(etcd);
    store.close().await;
    Ok(())
}

/// Reads and writes of every kind.
async fn live(client: &Client) -> Outcome {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({"metadata": {"name": "widgets.ex.io"}, "spec": {
        "group": "ex.io", "scope": "Namespaced", "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
    }});
    asked(client, ("POST", DEFINITIONS), Some(&definition), 201).await?;
    let map = |name: &str| json!({"metadata": {"name": name, "labels": {"a": "b"}}, "data": {"text": "text ".repeat(20_000)}});
    for name in ["one", "two", "three"] {
        asked(client, ("POST", MAPS), Some(&map(name)), 201).await?;
    }
    let (one, two) = (format!("{MAPS}/one"), format!("{MAPS}/two"));
    asked(client, ("PUT", &one), Some(&json!({"metadata": {"name": "one", "labels": {"a": "b"}}})), 200).await?;
    asked(client, ("POST", MAPS), Some(&map("four")), 201).await?;
    asked(client, ("DELETE", &two), None, 200).await?;
    asked(client, ("GET", &one), None, 200).await?;
    let list = asked(client, ("GET", MAPS), None, 200).await?;
    let at = list["metadata"]["resourceVersion"].as_str().ok_or("no revision")?;
    // One key at an exact revision is etcd's to answer, and the future is an error of its.
    let exact = |at: &str| format!("{MAPS}?fieldSelector=metadata.name=one&resourceVersionMatch=Exact&resourceVersion={at}");
    let found = asked(client, ("GET", &exact(at)), None, 200).await?;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{found}");
    asked(client, ("GET", &exact(&FUTURE.to_string())), None, 504).await?;
    let in_vain = client.fetch(&format!("{MAPS}?resourceVersion={FUTURE}&timeout=200ms")).await?;
    assert_eq!(in_vain.status, 504, "{:?}", in_vain.body);
    let gzip = [("Accept".to_owned(), "application/json".to_owned()), ("Accept-Encoding".to_owned(), "gzip".to_owned())];
    assert_eq!(client.whole("GET", MAPS, &gzip, b"").await?.status, 200);
    let refused: Value = asked(client, ("GET", "/api/v1/limitranges"), None, 500).await?;
    assert!(refused["message"].as_str().is_some_and(|why| why.contains("/registry/limitranges/default/a")), "{refused}");
    Ok(())
}

/// The names that `src/telemetry` registers, read from its source: a family of which there is no sample is not in `/metrics`.
fn families() -> Result<BTreeSet<String>, Failure> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut ahead, mut names) = (vec![src.join("telemetry")], BTreeSet::new());
    while let Some(path) = ahead.pop() {
        if path.is_dir() {
            ahead.extend(fs::read_dir(&path)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?);
        } else {
            let text = fs::read_to_string(&path)?;
            let is_word = |text: &&str| text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            let words = text
                .split('"')
                .filter(is_word)
                .filter(|word| !OF_LABELS.contains(word))
                .filter(|word| PREFIXES.iter().any(|prefix| word.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty())));
            names.extend(words.map(str::to_owned));
        }
    }
    Ok(names)
}

/// Every series that is not 0 now.
async fn samples(client: &Client) -> Result<Vec<(String, f64)>, Failure> {
    let text = String::from_utf8(client.fetch("/metrics").await?.body.to_vec())?;
    let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    let samples = lines.map(|(series, value)| Ok((series.to_owned(), value.parse()?))).collect::<Result<Vec<(String, f64)>, Failure>>()?;
    Ok(samples.into_iter().filter(|(_, value)| *value != 0.0).collect())
}

/// The family of a series: of a histogram, by its number of observations.
fn family(series: &str) -> String {
    let name = series.split('{').next().unwrap_or(series);
    name.strip_suffix("_count").unwrap_or(name).to_owned()
}
