//! What a replica shows of the API server behind it: the same as its metrics say; and of a server that has none, nothing.

use super::*;
use crate::alone::{Alone, wait::until};

const CLUSTER: &str = "/watchcache/api/v1/cluster";

/// The count and the sum of the times of the requests that were forwarded for this reason, as `/metrics` has them.
async fn times(client: &Client, reason: &str) -> Result<(f64, f64), Failure> {
    let text = String::from_utf8(client.fetch("/metrics").await?.body.to_vec())?;
    let figure = |what: &str| {
        let series = format!("watchcache_forwarded_duration_seconds_{what}{{reason=\"{reason}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).ok_or(format!("no {series}"))
    };
    Ok((figure("count")?, figure("sum")?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upstream_is_shown_as_the_metrics_tell_it() -> Outcome {
    let cluster = Cluster::start().await?;
    let (_replica, at) = cluster.replica("replica", &PROXY).await?;
    let ours = cluster.site.client(at);
    for nth in 0..3 {
        asked(&ours, ("POST", MAPS), Some(&json!({"metadata": {"name": format!("m{nth}")}})), 201).await?;
    }
    asked(&ours, ("POST", MAPS), Some(&json!({"metadata": {"name": "m0"}})), 409).await?;
    asked(&ours, ("GET", &format!("{MAPS}/m0")), None, 200).await?;
    assert_eq!(ours.fetch("/version").await?.status, 200);
    let written =
        |shown: &Value| shown["upstream"]["forwarded"].as_array().into_iter().flatten().find(|row| row["reason"] == "write").cloned();
    let shown = until(&ours, CLUSTER, |shown| written(shown).is_some_and(|row| row["count"] == 4)).await?;
    let (row, upstream) = (written(&shown).ok_or("no row")?, &shown["upstream"]);
    assert_eq!(row["codes"], json!({"201": 3, "409": 1}), "{shown}");
    let (count, sum) = times(&ours, "write").await?;
    assert_eq!((Some(count), Some(sum)), (row["count"].as_f64(), row["seconds"].as_f64()), "{shown}");
    assert_eq!(forwarded(&ours, "write").await?, 4);
    let within = row["within"].as_array().and_then(|buckets| buckets.last()).and_then(|bucket| bucket[1].as_u64());
    assert!(sum > 0.0 && within == Some(4), "{shown}");
    assert_eq!((&upstream["answers"], &upstream["isSource"], &shown["host"]), (&json!(true), &json!(false), &Value::Null), "{shown}");
    assert!(upstream["resources"]["fromMemory"].as_u64() > Some(30), "{shown}");
    assert_eq!(upstream["resources"]["notLoaded"], 0, "what is not there is forwarded");
    let checks: Vec<&str> = upstream["checks"].as_array().into_iter().flatten().filter_map(|check| check["name"].as_str()).collect();
    assert_eq!(checks, ["upstream", "upstream-discovery", "upstream-etcd", "upstream-resources"]);
    let maps = until(&ours, "/watchcache/api/v1/resources?filter=configmaps", |shown| shown["items"][0]["ready"] == true).await?;
    assert_eq!(maps["items"][0]["forwarded"], Value::Null, "{maps}");

    // Upstream goes: that is told, with when and why, and what was forwarded in vain counts too.
    cluster.upstream.signal("KILL")?;
    let gone = until(&ours, CLUSTER, |shown| shown["upstream"]["answers"] == false).await?;
    let fault = &gone["upstream"]["lastFault"];
    assert!(fault["at"].as_u64() > Some(1_700_000_000_000) && fault["why"].as_str().is_some_and(|why| !why.is_empty()), "{gone}");
    asked(&ours, ("POST", MAPS), Some(&json!({"metadata": {"name": "late"}})), 503).await?;
    let gone = until(&ours, CLUSTER, |shown| written(shown).is_some_and(|row| row["count"] == 5)).await?;
    assert_eq!(written(&gone).ok_or("no row")?["codes"]["503"], 1, "{gone}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_nothing_behind_shows_nothing() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    assert_eq!(client.fetch(CLUSTER).await?.status, 404);
    let paths = asked(&client, ("GET", "/watchcache/api/v1"), None, 200).await?;
    let paths: Vec<&str> = paths["paths"].as_array().ok_or("no paths")?.iter().filter_map(|path| path.as_str()).collect();
    assert!(paths.contains(&"/watchcache/api/v1/history") && !paths.contains(&CLUSTER), "{paths:?}");
    Ok(())
}
