//! What a server shows of itself to people: the API below `/watchcache/api/v1/` says what is so, the same as `/metrics`; who has no right to it sees none of
//! it.

mod many;
mod odd;

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    time::{sleep, timeout},
};

use super::{Alone, Failure, Outcome, asked, metric, secure::start, wait::until};
use crate::{
    client::{Client, query},
    live::{free_address, peers::Site},
};

const API: &str = "/watchcache/api/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// How long something may take to be so.
const SOON: Duration = Duration::from_secs(600);

async fn get(client: &Client, target: &str) -> Result<Value, Failure> {
    asked(client, ("GET", target), None, 200).await
}

async fn status(client: &Client, method: &str, target: &str) -> Result<u16, Failure> {
    Ok(client.ask(&crate::client::Request { method, target, body: None }).await?.status)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_shown_is_what_the_metrics_say() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    for nth in 0..20 {
        asked(&client, ("POST", MAPS), Some(&json!({"metadata": {"name": format!("m{nth}")}, "data": {"a": "x".repeat(1_000)}})), 201)
            .await?;
    }
    let maps = |answer: &Value| {
        answer["items"].as_array().into_iter().flatten().find(|row| row["name"] == "configmaps").cloned().unwrap_or_default()
    };
    let target = format!("{API}/resources?filter=configmaps");
    let figure = async |family: &str| metric(&client, family, "resource=\"configmaps\"").await;
    let figures = async || -> Result<[f64; 3], Failure> {
        Ok([
            figure("apiserver_resource_objects").await?,
            figure("apiserver_watch_cache_events_received_total").await?,
            figure("watchcache_history_events").await?,
        ])
    };
    // What the server itself writes at its start may come between two looks; then both are looked at again.
    let began = Instant::now();
    let shown = loop {
        let (before, shown, after) = (figures().await?, maps(&get(&client, &target).await?), figures().await?);
        if before == after && before[1] >= 20.0 {
            let same = [&shown["objects"], &shown["counters"]["eventsReceived"], &shown["ring"]["events"]].map(Value::as_f64);
            assert_eq!(same, before.map(Some), "{shown}");
            break shown;
        }
        assert!(began.elapsed() < SOON, "{before:?} {after:?}");
        sleep(Duration::from_millis(100)).await;
    };
    let bytes = shown["bytes"].as_u64().ok_or("no bytes")?;
    assert!((20_000..60_000).contains(&bytes), "twenty objects of some 1,300 bytes: {shown}");
    for nth in 0..20 {
        asked(&client, ("DELETE", &format!("{MAPS}/m{nth}")), None, 200).await?;
    }
    let left = |answer: &Value| maps(answer)["objects"] == shown["objects"].as_u64().map_or(0, |objects| objects - 20);
    let emptied = maps(&until(&client, &target, left).await?);
    assert!(emptied["bytes"].as_u64().is_some_and(|left| left + 20_000 < bytes), "what is deleted is counted no more: {emptied}");

    let mut stream = client.watch(&format!("{API}/overview?watch=true")).await?.map_err(|answer| format!("{}", answer.status))?;
    let mut revisions = Vec::new();
    for _ in 0..3 {
        let line = timeout(SOON, stream.next_line()).await??.ok_or("the stream has ended")?;
        let overview: Value = serde_json::from_slice(&line)?;
        assert_eq!(
            (&overview["kind"], &overview["ready"], &overview["viewers"]),
            (&json!("Overview"), &json!(true), &json!(1)),
            "{overview}"
        );
        revisions.push(overview["revision"].as_u64().ok_or("no revision")?);
    }
    assert!(revisions.is_sorted() && revisions[0] > 40, "{revisions:?}");
    let overview = get(&client, &format!("{API}/overview")).await?;
    assert!(overview["memory"]["resident"].as_u64() > overview["memory"]["objects"].as_u64(), "{overview}");
    drop(stream);
    until(&client, &format!("{API}/overview"), |overview| overview["viewers"] == 0).await?;
    for (target, code) in [
        ("/resources?limit=501", 400),
        ("/resources?sort=weight", 400),
        ("/nothing", 404),
        ("/watches/999999", 404),
        ("/history/api/v1/namespaces/default/nothing", 404),
        ("/history/metrics", 404),
        ("/history/api/v1/namespaces/default/configmaps/m1?revision=x", 400),
    ] {
        assert_eq!(status(&client, "GET", &format!("{API}{target}")).await?, code, "{target}");
    }
    assert_eq!(status(&client, "POST", &format!("{API}/overview")).await?, 405);
    let first = get(&client, &format!("{API}/resources?limit=1&sort=name")).await?;
    let second = get(&client, &format!("{API}/resources?limit=1&sort=name&offset=1")).await?;
    assert!(first["total"].as_u64() > Some(30) && first["items"].as_array().map(Vec::len) == Some(1), "{first}");
    assert!(first["items"][0]["name"].as_str() < second["items"][0]["name"].as_str(), "{first} {second}");
    Ok(())
}

/// A client that does not read is told apart: how much it lacks is known although its watch cannot send, and the more so the more there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_nobody_reads_is_behind() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let mut watch = client.called("slowpoke/1").watch(&format!("{MAPS}?watch=1")).await?.map_err(|answer| format!("{}", answer.status))?;
    let target = format!("{API}/watches?sort=-lag");
    // More than the system's buffers of a connection and the log of a group of watches take.
    for nth in 0..40 {
        let body = json!({"metadata": {"name": format!("m{nth}")}, "data": {"text": "x".repeat(400_000)}});
        asked(&client, ("POST", MAPS), Some(&body), 201).await?;
    }
    let shown = until(&client, &target, |answer| answer["items"][0]["lag"]["atMost"] == true).await?;
    let row = &shown["items"][0];
    assert_eq!(row["agent"], "slowpoke/1", "{shown}");
    assert!(row["lag"]["events"].as_u64() > Some(2) && row["lag"]["seconds"].as_f64() > Some(0.0), "{row}");
    assert!(row["connectionUnreadBytes"].as_u64() > Some(100_000), "{row}");
    let mut seen = 0;
    while seen < 40 {
        seen += usize::from(timeout(SOON, watch.next_line()).await??.ok_or("the watch has ended")?.len() > 400_000);
    }
    until(&client, &target, |answer| answer["items"][0]["lag"]["events"] == 0).await?;
    for nth in 40..80 {
        let body = json!({"metadata": {"name": format!("m{nth}")}, "data": {"text": "x".repeat(400_000)}});
        asked(&client, ("POST", MAPS), Some(&body), 201).await?;
    }
    let shown = until(&client, &target, |answer| answer["items"][0]["lag"]["atMost"] == true).await?;
    // It cannot be told that it ends: its connection ends.
    asked(&client, ("DELETE", &format!("{API}/watches/{}", shown["items"][0]["id"])), None, 200).await?;
    until(&client, &target, |answer| answer["open"] == 0).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_are_seen_and_can_be_ended() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let target = format!(
        "{MAPS}{}",
        query(&[("watch", "1"), ("labelSelector", "app in (<b>, \u{202e}x)"), ("fieldSelector", "metadata.name!=none")])
    );
    assert_eq!(status(&client, "GET", &target).await?, 400, "no label has such a value");
    let target = format!("{MAPS}{}", query(&[("watch", "1"), ("labelSelector", "app=a")]));
    let mut watch = client.called("<img src=x>/1").watch(&target).await?.map_err(|answer| format!("{}", answer.status))?;
    let mut other = client.watch("/api/v1/secrets?watch=1").await?.map_err(|answer| format!("{}", answer.status))?;
    let list = format!("{API}/watches?filter=%3Cimg");
    let shown = until(&client, &list, |answer| answer["items"][0]["phase"] == "live").await?;
    let row = &shown["items"][0];
    assert_eq!((&shown["open"], &shown["total"]), (&json!(2), &json!(1)), "{shown}");
    assert_eq!(
        (&row["user"], &row["agent"], &row["resource"], &row["namespace"], &row["labelSelector"]),
        (&json!("system:unsecured"), &json!("<img src=x>/1"), &json!("configmaps"), &json!("default"), &json!("app=a")),
        "{row}"
    );
    assert_eq!((&row["lag"]["events"], &row["form"], &row["fellBehind"]), (&json!(0), &json!("objects in JSON"), &json!(0)), "{row}");
    for nth in 0..5 {
        let body = json!({"metadata": {"name": format!("m{nth}"), "labels": {"app": "a"}}});
        asked(&client, ("POST", MAPS), Some(&body), 201).await?;
    }
    let shown = until(&client, &list, |answer| answer["items"][0]["events"] == 5).await?;
    assert!(shown["items"][0]["bytes"].as_u64() > Some(500), "{shown}");
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(timeout(SOON, watch.next_line()).await??.ok_or("it has ended")?);
    }
    let number = &shown["items"][0]["id"];
    let ended = asked(&client, ("DELETE", &format!("{API}/watches/{number}")), None, 200).await?;
    assert_eq!(&ended["id"], number);
    assert_eq!(timeout(SOON, watch.next_line()).await??, None, "it ends as if its time were over");
    // Its client sees the end a moment before it is taken off the list.
    while status(&client, "DELETE", &format!("{API}/watches/{number}")).await? != 404 {
        sleep(Duration::from_millis(20)).await;
    }
    asked(&client, ("POST", "/api/v1/namespaces/default/secrets"), Some(&json!({"metadata": {"name": "s"}})), 201).await?;
    assert!(timeout(SOON, other.next_line()).await??.is_some(), "others go on");
    until(&client, &format!("{API}/watches"), |answer| answer["open"] == 1).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_has_each_state() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let revision = |object: &Value| object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let body = |value: &str| json!({"metadata": {"name": "a"}, "data": {"k": value}});
    let made = asked(&client, ("POST", MAPS), Some(&body("1")), 201).await?;
    let changed = asked(&client, ("PUT", &format!("{MAPS}/a?fieldManager=painter")), Some(&body("2")), 200).await?;
    asked(&client, ("DELETE", &format!("{MAPS}/a")), None, 200).await?;
    let again = asked(&client, ("POST", MAPS), Some(&body("3")), 201).await?;
    let history = format!("{API}/history{MAPS}/a");
    let told = until(&client, &history, |answer| answer["items"].as_array().map(Vec::len) == Some(4)).await?;
    let kinds: Vec<&str> = told["items"].as_array().into_iter().flatten().filter_map(|item| item["type"].as_str()).collect();
    assert_eq!(kinds, ["ADDED", "DELETED", "MODIFIED", "ADDED"], "{told}");
    assert_eq!(
        (told["items"][0]["revision"].as_u64(), told["items"][2]["manager"].as_str()),
        (Some(revision(&again)), Some("painter")),
        "{told}"
    );
    assert!(told["items"][0]["at"].as_u64() > Some(1_700_000_000_000) && told["before"].is_null(), "{told}");
    for (at, value) in [(revision(&made), "1"), (revision(&changed), "2"), (revision(&again), "3")] {
        let state = get(&client, &format!("{history}?revision={at}")).await?;
        assert_eq!((revision(&state), &state["data"]["k"], &state["kind"]), (at, &json!(value), &json!("ConfigMap")));
    }
    let deleted = told["items"][1]["revision"].as_u64().ok_or("no revision")?;
    assert_eq!(status(&client, "GET", &format!("{history}?revision={deleted}")).await?, 404);
    assert_eq!(status(&client, "GET", &format!("{history}?revision=0")).await?, 410, "the ring does not reach back so far");
    assert_eq!(status(&client, "GET", &format!("{history}?revision=99999999")).await?, 400);
    let page = get(&client, &format!("{API}/history{MAPS}?limit=3")).await?;
    let before = page["before"].as_u64().ok_or("there is more")?;
    let rest = get(&client, &format!("{API}/history{MAPS}?before={before}")).await?;
    assert_eq!(page["items"].as_array().map(Vec::len), Some(3));
    assert_eq!(rest["items"].as_array().into_iter().flatten().filter(|item| item["name"] == "a").count(), 1, "{rest}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_no_right_sees_none_of_it() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let mut tokens = fs::read_to_string(site.path().join("tokens.csv"))?;
    tokens.push_str("montoken,mon,20,\"system:monitoring\"\n");
    fs::write(site.path().join("tokens.csv"), tokens)?;
    let server = start(dir.path(), &site, listener, &[]).await?;
    let (admin, jane, monitor) = (site.client(listener), site.client_of(listener, "janetoken"), site.client_of(listener, "montoken"));
    let group = "rbac.authorization.k8s.io";
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]});
    let binding = json!({
        "metadata": {"name": "r"}, "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "jane"}],
    });
    asked(&admin, ("POST", &format!("{RBAC}/namespaces/default/roles")), Some(&role), 201).await?;
    asked(&admin, ("POST", &format!("{RBAC}/namespaces/default/rolebindings")), Some(&binding), 201).await?;
    asked(&admin, ("POST", "/api/v1/namespaces/default/secrets"), Some(&json!({"metadata": {"name": "s"}})), 201).await?;
    asked(&admin, ("POST", MAPS), Some(&json!({"metadata": {"name": "a"}})), 201).await?;
    until(&jane, &format!("{API}/history{MAPS}/a"), |answer| answer["items"].as_array().is_some_and(|items| !items.is_empty())).await?;
    let own = [
        "/watchcache/",
        "/watchcache/app.js",
        "/watchcache/api/v1/overview",
        "/watchcache/api/v1/overview?watch=1",
        "/watchcache/api/v1/resources",
        "/watchcache/api/v1/watches",
    ];
    for target in own {
        assert_eq!(status(&site.client_of(listener, ""), "GET", target).await?, 403, "{target}");
        assert_eq!(status(&jane, "GET", target).await?, 403, "{target}");
        if !target.contains("watch=") {
            assert_eq!((status(&monitor, "GET", target).await?, status(&admin, "GET", target).await?), (200, 200), "{target}");
        }
    }
    let mut stream = monitor.watch(own[3]).await?.map_err(|answer| format!("{}", answer.status))?;
    assert!(timeout(SOON, stream.next_line()).await??.is_some(), "who monitors may follow");
    for (target, seen) in [
        (format!("{API}/history{MAPS}"), 200),
        (format!("{API}/history/api/v1/namespaces/default/secrets/s"), 403),
        (format!("{API}/history/api/v1/namespaces/kube-system/configmaps"), 403),
        (format!("{API}/history/api/v1/configmaps"), 403),
        (format!("{API}/history/%61pi/v1/namespaces/default/secrets"), 403),
        (format!("{API}/%68istory/api/v1/namespaces/default/secrets"), 403),
        (format!("{API}/history//api/v1/namespaces/default/secrets"), 403),
    ] {
        assert_eq!(status(&jane, "GET", &target).await?, seen, "{target}");
    }
    // Who looks after the server sees no objects for that, and ends nothing.
    assert_eq!(status(&monitor, "GET", &format!("{API}/history{MAPS}/a")).await?, 403);
    assert_eq!(status(&monitor, "DELETE", &format!("{API}/watches/1")).await?, 403);
    assert_eq!(status(&monitor, "GET", "/metrics").await?, 200);
    drop(server);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_loads_nothing_from_elsewhere_and_can_be_off() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let whole = client.whole("GET", "/watchcache/", &[], b"").await?;
    let header = |name: &str| whole.header(name).next().unwrap_or_default().to_owned();
    assert!(header("content-security-policy").starts_with("default-src 'none'; script-src 'self';"), "{:?}", whole.headers);
    assert_eq!((whole.status, &*header("content-type"), &*header("x-frame-options")), (200, "text/html; charset=utf-8", "DENY"));
    let tag = header("etag");
    let kept = client.whole("GET", "/watchcache/", &[("If-None-Match".to_owned(), tag)], b"").await?;
    assert_eq!((kept.status, kept.body.len()), (304, 0));
    let moved = client.whole("GET", "/watchcache", &[], b"").await?;
    assert_eq!((moved.status, moved.header("location").next()), (302, Some("watchcache/")));
    let foreign = [("Sec-Fetch-Site".to_owned(), "cross-site".to_owned())];
    assert_eq!(client.whole("GET", "/watchcache/api/v1/watches", &foreign, b"").await?.status, 403, "no other site reads it");
    drop(server);
    let without = tempfile::tempdir()?;
    let server = Alone::start_with(without.path(), &["--page=false"]).await?;
    for target in ["/watchcache", "/watchcache/", "/watchcache/api/v1/overview", &format!("{API}/history{MAPS}")] {
        assert_eq!(status(&server.client(), "GET", target).await?, 404, "{target}");
    }
    assert_eq!(status(&server.client(), "GET", "/watchcache/status").await?, 200);
    Ok(())
}

/// A watch at a revision that history does not reach is told 410 inside of its stream, and counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_too_late_is_counted() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--ring-events-limit=100"]).await?;
    let client = server.client();
    let first = asked(&client, ("POST", MAPS), Some(&json!({"metadata": {"name": "first"}})), 201).await?;
    for nth in 0..105 {
        asked(&client, ("POST", MAPS), Some(&json!({"metadata": {"name": format!("m{nth}")}})), 201).await?;
    }
    let from = first["metadata"]["resourceVersion"].as_str().ok_or("no revision")?;
    until(&client, &format!("{API}/resources?filter=configmaps"), |answer| {
        answer["items"][0]["ring"]["floor"].as_u64() > from.parse().ok()
    })
    .await?;
    let mut watch =
        client.watch(&format!("{MAPS}?watch=1&resourceVersion={from}")).await?.map_err(|answer| format!("{}", answer.status))?;
    let line: Value = serde_json::from_slice(&timeout(SOON, watch.next_line()).await??.ok_or("nothing")?)?;
    assert_eq!(line["object"]["code"], 410, "{line}");
    until(&client, &format!("{API}/overview"), |overview| overview["counters"]["watchesTooOld"] == 1).await?;
    assert!((metric(&client, "watchcache_watches_too_old_total", "resource=\"configmaps\"").await? - 1.0).abs() < 0.1);
    let expired = get(&client, &format!("{API}/expired-watches")).await?;
    let one = &expired["items"][0];
    assert_eq!(
        (&expired["ever"], &expired["total"], &one["resource"], &one["namespace"], &one["when"]),
        (&json!(1), &json!(1), &json!("configmaps"), &json!("default"), &json!("beginning")),
        "{expired}"
    );
    let (seen, floor) = (one["revision"].as_u64().ok_or("no revision")?, one["floor"].as_u64().ok_or("no floor")?);
    assert!(seen.to_string() == from && floor > seen && one["missed"] == floor - seen, "{one}");
    assert_eq!(get(&client, &format!("{API}/expired-watches?filter=nobody")).await?["total"], 0);
    assert_eq!(get(&client, &format!("{API}/overview")).await?["counters"]["watchesExpired"], 1);
    Ok(())
}
