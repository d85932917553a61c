//! Clusters with more than one etcd, and replicas on an etcd that is not their cluster's: clients see what upstream shows, and the operator is told.

use super::*;

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// `watchcache store` in a folder of its own.
fn store(site: &Site, name: &str) -> Result<(Running, SocketAddr), Failure> {
    let at = free_address()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.args(["store", "--listen-client-urls", &format!("http://{at}"), "--data-dir"]).arg(site.path().join(name));
    Ok((site.start(name, command)?, at))
}

/// A cluster whose events are in another etcd.
async fn apart() -> Result<(Cluster, Running, String), Failure> {
    let site = Site::prepare(Path::new("")).map_err(|error| error.to_string())?;
    let ((store_running, etcd), (other, other_at)) = (store(&site, "store")?, store(&site, "events-store")?);
    let (upstream_at, overrides) = (free_address()?, format!("--etcd-servers-overrides=/events#http://{other_at}"));
    let flags = ["--requestheader-client-ca-file=ca.crt", "--insecure-port=0", &overrides];
    let upstream = site.start("upstream", serve(&site, etcd, upstream_at, &flags))?;
    upstream.ready(&site.client(upstream_at)).await.map_err(|error| error.to_string())?;
    Ok((Cluster { site, _store: store_running, etcd, upstream, upstream_at }, other, overrides))
}

fn event(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "Tried"})
}

fn revision(object: &Value) -> Result<u64, Failure> {
    Ok(object["metadata"]["resourceVersion"].as_str().ok_or("no version")?.parse()?)
}

/// Whether a list has an object as it was written then.
fn has(list: &Value, object: &Value) -> bool {
    let same = |item: &Value| ["uid", "resourceVersion"].iter().all(|name| item["metadata"][name] == object["metadata"][name]);
    list["items"].as_array().is_some_and(|items| items.iter().any(same))
}

/// Waits until a check says something that has all these words.
async fn told(client: &Client, check: &str, words: &[&str]) -> Result<String, Failure> {
    let began = Instant::now();
    loop {
        if let Ok(answer) = client.fetch(check).await {
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            if words.iter().all(|word| text.contains(word)) {
                return Ok(text);
            }
            assert!(began.elapsed() < SOON, "{check}: {text}");
        }
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_override_has_revisions_of_its_own() -> Outcome {
    let (cluster, _other, overrides) = apart().await?;
    let theirs = cluster.site.client(cluster.upstream_at);
    for n in 0..30 {
        asked(&theirs, ("POST", MAPS), Some(&json!({"metadata": {"name": format!("m-{n}")}})), 201).await?;
    }
    let first = asked(&theirs, ("POST", EVENTS), Some(&event("first")), 201).await?;
    let map = asked(&theirs, ("GET", &format!("{MAPS}/m-29")), None, 200).await?;
    assert!(revision(&first)? < revision(&map)?, "events have revisions of their own: {first} {map}");
    // On both servers: a list at the events' own revision, a watch from there, an update, both groups, a delete.
    let (_replica, at) = cluster.replica("replica", &[PROXY[0], PROXY[1], &overrides]).await?;
    for client in [&theirs, &cluster.site.client(at)] {
        let before = asked(client, ("GET", EVENTS), None, 200).await?;
        let target = format!("{EVENTS}?watch=1&resourceVersion={}", before["metadata"]["resourceVersion"].as_str().ok_or("no version")?);
        let mut watch = client.watch(&target).await?.map_err(|answer| format!("{answer:?}"))?;
        let made = asked(client, ("POST", EVENTS), Some(&event("second")), 201).await?;
        assert!(revision(&made)? > revision(&before)?);
        let seen = timeout(SOON, watch.next()).await??.ok_or("the watch has ended")?;
        assert_eq!(serde_json::from_slice::<Value>(&seen.line)?["object"], made);
        let listed = asked(client, ("GET", EVENTS), None, 200).await?;
        assert!(has(&listed, &made), "{listed}");
        assert!(revision(&listed)? >= revision(&made)? && revision(&listed)? < revision(&map)?, "{listed}");
        let exact = format!("{EVENTS}?resourceVersion={}&resourceVersionMatch=Exact", revision(&before)?);
        let exact = asked(client, ("GET", &exact), None, 200).await?;
        assert!(!has(&exact, &made) && revision(&exact)? == revision(&before)?, "{exact}");
        let newer = asked(client, ("GET", "/apis/events.k8s.io/v1/namespaces/default/events/second"), None, 200).await?;
        assert_eq!(newer["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
        asked(client, ("DELETE", &format!("{EVENTS}/second")), None, 200).await?;
        assert_eq!(asked(client, ("GET", MAPS), None, 200).await?["items"].as_array().map(Vec::len), Some(30));
    }
    let ours = cluster.site.client(at);
    for reason in ["incomplete", "not_served", "loading"] {
        assert_eq!(forwarded(&ours, reason).await?, 0, "{reason}");
    }
    assert_eq!(ours.fetch("/readyz/upstream-resources").await?.status, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_an_etcd_that_nobody_named_is_read_upstream() -> Outcome {
    let (cluster, _other, _) = apart().await?;
    let theirs = cluster.site.client(cluster.upstream_at);
    let made = asked(&theirs, ("POST", EVENTS), Some(&event("e")), 201).await?;
    let (_replica, at) = cluster.replica("replica", &PROXY).await?;
    let ours = cluster.site.client(at);
    // From the first answer on.
    for target in [EVENTS, "/api/v1/events", "/apis/events.k8s.io/v1/events", &format!("{EVENTS}/e")] {
        assert_eq!(read(&ours, target).await?, read(&theirs, target).await?, "{target}");
    }
    let mut watch = ours.watch(&format!("{EVENTS}?watch=1")).await?.map_err(|answer| format!("{answer:?}"))?;
    let seen = timeout(SOON, watch.next()).await??.ok_or("the watch has ended")?;
    assert_eq!(serde_json::from_slice::<Value>(&seen.line)?["object"], made);
    assert_eq!(forwarded(&ours, "incomplete").await?, 5);
    told(&ours, "/readyz/upstream-resources", &["events: forwarded", "another etcd"]).await?;
    let verbose = String::from_utf8(ours.fetch("/readyz?verbose").await?.body.to_vec())?;
    assert!(
        verbose.contains("[-]upstream-resources failed, the others stand without it") && verbose.contains("[+]upstream-etcd ok"),
        "{verbose}"
    );
    let metrics = String::from_utf8(ours.fetch("/metrics").await?.body.to_vec())?;
    assert!(metrics.contains(r#"watchcache_incomplete{group="",resource="events"} 1"#), "{metrics}");
    assert!(metrics.contains(r#"watchcache_incomplete{group="",resource="pods"} 0"#) && metrics.contains("watchcache_etcd_proven 1"));
    // All else is in memory.
    asked(&ours, ("GET", MAPS), None, 200).await?;
    assert_eq!(forwarded(&ours, "incomplete").await?, 5);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_etcd_answers_nothing() -> Outcome {
    let (cluster, stranger) = (Cluster::start().await?, Cluster::start().await?);
    let theirs = cluster.site.client(cluster.upstream_at);
    asked(&theirs, ("POST", MAPS), Some(&json!({"metadata": {"name": "a"}})), 201).await?;
    for (name, etcd, flag, words) in [
        ("other-prefix", cluster.etcd, "--etcd-prefix=/elsewhere", ["kube-system", "--etcd-prefix"]),
        ("other-cluster", stranger.etcd, "--insecure-port=0", ["another cluster's", "--etcd-servers"]),
    ] {
        let at = free_address()?;
        let server = format!("--upstream-server=https://{}", cluster.upstream_at);
        let flags = [&*server, "--upstream-cafile=ca.crt", PROXY[0], PROXY[1], flag];
        let running = cluster.site.start(name, serve(&cluster.site, etcd, at, &flags))?;
        let ours = cluster.site.client(at);
        told(&ours, "/readyz/upstream-etcd", &words).await?;
        assert_eq!(ours.fetch("/readyz").await?.status, 500, "{name}");
        assert_eq!(running.ended(), None);
        for target in [MAPS, "/api/v1/namespaces/default/configmaps/a", "/api/v1/namespaces", "/apis/apps/v1/deployments"] {
            assert_eq!(read(&ours, target).await?, read(&theirs, target).await?, "{name} {target}");
        }
        assert_eq!(forwarded(&ours, "incomplete").await?, 4, "{name}");
    }
    Ok(())
}

/// The cluster's events move to another etcd while a replica runs that was not told: its watches end, and their clients are led upstream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_that_moves_is_followed_upstream() -> Outcome {
    let cluster = Cluster::start().await?;
    let (_replica, at) = cluster.replica("replica", &PROXY).await?;
    let (ours, theirs) = (cluster.site.client(at), cluster.site.client(cluster.upstream_at));
    asked(&ours, ("POST", EVENTS), Some(&event("before")), 201).await?;
    let mut watch = ours.watch(&format!("{EVENTS}?watch=1")).await?.map_err(|answer| format!("{answer:?}"))?;
    let seen = timeout(SOON, watch.next()).await??.ok_or("the watch has ended")?;
    assert!(String::from_utf8_lossy(&seen.line).contains(r#""name":"before""#));
    cluster.upstream.signal("KILL")?;
    told(&ours, "/readyz/upstream-discovery", &["cannot be read"]).await?;
    let (_other, other_at) = store(&cluster.site, "events-store")?;
    let overrides = format!("--etcd-servers-overrides=/events#http://{other_at}");
    let flags = ["--requestheader-client-ca-file=ca.crt", "--insecure-port=0", &overrides];
    let upstream = cluster.site.start("upstream-again", serve(&cluster.site, cluster.etcd, cluster.upstream_at, &flags))?;
    upstream.ready(&theirs).await.map_err(|error| error.to_string())?;
    told(&ours, "/readyz/upstream-resources", &["events: forwarded"]).await?;
    while let Some(seen) = timeout(SOON, watch.next()).await?? {
        assert!(!String::from_utf8_lossy(&seen.line).contains("ERROR"), "the watch ends cleanly: {seen:?}");
    }
    assert_eq!(asked(&ours, ("GET", EVENTS), None, 200).await?["items"], json!([]));
    Ok(())
}
