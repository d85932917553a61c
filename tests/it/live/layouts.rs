//! Replicas of a real kube-apiserver whose resources lie in several etcds, by flags that say so and flags that do not; and of one that begins to serve
//! something else while they run.

use std::{
    env,
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{
    free_address,
    peers::{Running, Site},
};
use crate::{
    alone::{Failure, Outcome, asked},
    client::Client,
};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JOBS: &str = "/apis/batch/v1/jobs";
const SOON: Duration = Duration::from_secs(120);

/// A replica with these flags.
fn replica(site: &Site, name: &str, etcd: SocketAddr, upstream: SocketAddr, flags: &[&str]) -> Result<(Running, Client), Failure> {
    let (at, plain) = (free_address()?, free_address()?);
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.args(["serve", "--etcd-servers", &format!("http://{etcd}"), &format!("--insecure-port={}", plain.port())]);
    command.args(site.secured(at)).args(site.replica_of(upstream)).args(flags);
    Ok((site.start(name, command)?, site.client(at)))
}

/// Waits until an answer has all these words.
async fn told(client: &Client, target: &str, words: &[&str]) -> Result<String, Failure> {
    let began = Instant::now();
    loop {
        let text = match client.fetch(target).await {
            Ok(answer) => String::from_utf8_lossy(&answer.body).into_owned(),
            Err(error) => error.to_string(),
        };
        if words.iter().all(|word| text.contains(word)) {
            return Ok(text);
        }
        assert!(began.elapsed() < SOON, "{target}: {text}");
        sleep(Duration::from_millis(50)).await;
    }
}

async fn forwarded(client: &Client, reason: &str) -> Result<u64, Failure> {
    let text = String::from_utf8(client.fetch("/metrics").await?.body.to_vec())?;
    let of = |line: &&str| line.starts_with("watchcache_forwarded_requests_total") && line.contains(&format!("\"{reason}\""));
    Ok(text.lines().filter(of).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}

/// Without the revision of the list, which another moment has changed.
async fn items(client: &Client, target: &str) -> Result<Value, Failure> {
    Ok(asked(client, ("GET", target), None, 200).await?["items"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn what_clients_see_is_what_the_cluster_has() -> Outcome {
    let programs = env::var_os("WATCHCACHE_TEST_PEERS").map(PathBuf::from).ok_or("WATCHCACHE_TEST_PEERS is not set")?;
    let site = Site::prepare(&programs).map_err(|error| error.to_string())?;
    let ((_etcd, etcd), (_second, second), (_third, third)) =
        (site.etcd()?, site.etcd_called("etcd-events")?, site.etcd_called("etcd-leases")?);
    let (of_events, of_leases) = (format!("/events#http://{second}"), format!("coordination.k8s.io/leases#http://{third}"));
    let (both, one) = (format!("--etcd-servers-overrides={of_events},{of_leases}"), format!("--etcd-servers-overrides={of_events}"));
    let (kube, kube_at) = site.apiserver_with("kube-apiserver", etcd, &[&both])?;
    let theirs = site.client(kube_at);
    kube.ready(&theirs).await.map_err(|error| error.to_string())?;
    let event =
        json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "Tried"});
    asked(&theirs, ("POST", EVENTS), Some(&event), 201).await?;
    asked(&theirs, ("POST", LEASES), Some(&json!({"metadata": {"name": "l"}})), 201).await?;
    asked(&theirs, ("POST", MAPS), Some(&json!({"metadata": {"name": "m"}})), 201).await?;

    let names = ["told-both", "told-one", "told-none", "other-prefix", "other-etcd"];
    let flags = [&*both, &*one, "--v=1", "--etcd-prefix=/elsewhere", "--v=1"];
    let etcds = [etcd, etcd, etcd, etcd, second];
    let mut replicas = Vec::new();
    for ((name, flag), etcd) in names.iter().zip(flags).zip(etcds) {
        replicas.push(replica(&site, name, etcd, kube_at, &[flag])?);
    }
    // Those whose etcd is the cluster's are ready, and know what they do not have.
    for ((running, ours), elsewhere) in
        replicas.iter().zip([&[][..], &["leases.coordination.k8s.io"], &["leases.coordination.k8s.io", "events"]])
    {
        running.ready(ours).await.map_err(|error| error.to_string())?;
        let says = ours.fetch("/readyz/upstream-resources").await?;
        let says = String::from_utf8_lossy(&says.body).into_owned();
        assert_eq!(says.matches("forwarded").count(), elsewhere.len(), "{says}");
        assert!(elsewhere.iter().all(|name| says.contains(&format!("{name}: forwarded"))), "{says}");
    }
    // The others are not, and say why.
    told(&replicas[3].1, "/readyz/upstream-etcd", &["no namespace kube-system", "--etcd-prefix"]).await?;
    told(&replicas[4].1, "/readyz/upstream-etcd", &["no namespace kube-system"]).await?;
    for (_, ours) in &replicas[3..] {
        assert_eq!(ours.fetch("/readyz").await?.status, 500);
    }
    for ((_, ours), name) in replicas.iter().zip(names) {
        for target in
            [EVENTS, LEASES, MAPS, "/api/v1/events", "/apis/events.k8s.io/v1/events", "/api/v1/namespaces", "/apis/apps/v1/deployments"]
        {
            assert_eq!(items(ours, target).await?, items(&theirs, target).await?, "{name} {target}");
        }
    }
    let handed: Vec<u64> = {
        let mut all = Vec::new();
        for (_, ours) in &replicas {
            all.push(forwarded(ours, "incomplete").await?);
        }
        all
    };
    assert_eq!(handed, [0, 1, 4, 7, 7], "{names:?}");
    // Events of their own etcd, live and in order.
    let ours = &replicas[0].1;
    let list = asked(ours, ("GET", EVENTS), None, 200).await?;
    let target = format!("{EVENTS}?watch=1&resourceVersion={}", list["metadata"]["resourceVersion"].as_str().ok_or("no version")?);
    let mut watch = ours.watch(&target).await?.map_err(|answer| format!("{answer:?}"))?;
    for n in 0..20 {
        let mut event = event.clone();
        event["metadata"]["name"] = json!(format!("e-{n}"));
        let made = asked(ours, ("POST", EVENTS), Some(&event), 201).await?;
        let seen = timeout(SOON, watch.next()).await??.ok_or("the watch has ended")?;
        assert_eq!(serde_json::from_slice::<Value>(&seen.line)?["object"], made);
    }

    // The cluster no longer serves a group, and then serves it again.
    asked(ours, ("GET", JOBS), None, 200).await?;
    let mut watch = ours.watch(&format!("{JOBS}?watch=1")).await?.map_err(|answer| format!("{answer:?}"))?;
    drop(kube);
    let kube = site.apiserver_at("kube-apiserver-less", kube_at, etcd, &[&both, "--runtime-config=batch/v1=false"])?;
    kube.ready(&theirs).await.map_err(|error| error.to_string())?;
    told(ours, "/readyz/upstream-discovery", &["batch/v1/jobs"]).await?;
    while timeout(SOON, watch.next()).await??.is_some() {}
    let (here, there) = (ours.fetch(JOBS).await?, theirs.fetch(JOBS).await?);
    assert_eq!((here.status, &here.body), (404, &there.body));
    asked(ours, ("GET", MAPS), None, 200).await?;
    drop(kube);
    let kube = site.apiserver_at("kube-apiserver-again", kube_at, etcd, &[&both])?;
    kube.ready(&theirs).await.map_err(|error| error.to_string())?;
    // What the server said before counts for two minutes more, for there might be several behind one address: until then it is forwarded.
    assert_eq!(items(ours, JOBS).await?, json!([]));
    Ok(())
}
