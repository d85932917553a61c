//! Replicas of one group share out their watches.

use super::*;

/// Forty watches of one replica; another one of its group has none. The watches that end do so cleanly, on a connection that ends with them, and their clients miss nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_out_their_watches() -> Outcome {
    const WATCHES: usize = 40;
    let cluster = Cluster::start().await?;
    let group = [PROXY[0], PROXY[1], "--replica-group=blue"];
    let ((_one, one), (_two, two)) = (cluster.replica("one", &group).await?, cluster.replica("two", &group).await?);
    let writer = cluster.site.client(one);
    let first = asked(&writer, ("POST", MAPS), Some(&json!({"metadata": {"name": "a"}})), 201).await?;
    let from = first["metadata"]["resourceVersion"].as_str().ok_or("no version")?.to_owned();
    let mut watchers = tokio::task::JoinSet::new();
    let last = format!("{}", WATCHES * 2);
    for nth in 0..WATCHES {
        // Some may lose rights, and some may not.
        let clients = [one, two].map(|at| cluster.site.client(at));
        let (mut version, last) = (from.clone(), last.clone());
        watchers.spawn(async move {
            let (mut moves, mut seen) = (0, Vec::new());
            loop {
                let target = format!("{MAPS}?watch=1&resourceVersion={version}&fieldSelector=metadata.name%3Da");
                let mut watch = clients[moves % 2].watch(&target).await?.map_err(|answer| format!("{answer:?}"))?;
                while let Some(frame) = watch.next().await? {
                    let event: Value = serde_json::from_slice(&frame.line)?;
                    assert_eq!(event["type"], "MODIFIED", "{nth}: {event}");
                    version = event["object"]["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
                    seen.push(event["object"]["data"]["k"].as_str().unwrap_or_default().to_owned());
                    if seen.last() == Some(&last) {
                        return Ok::<_, Failure>((moves, seen));
                    }
                }
                moves += 1;
            }
        });
    }
    for nth in 1..=WATCHES * 2 {
        let body = json!({"metadata": {"name": "a"}, "data": {"k": nth.to_string()}});
        asked(&writer, ("PUT", &format!("{MAPS}/a")), Some(&body), 200).await?;
        sleep(Duration::from_millis(600)).await;
    }
    let (mut moved, all) = (0, (1..=WATCHES * 2).map(|nth| nth.to_string()).collect::<Vec<_>>());
    while let Some(watcher) = watchers.join_next().await {
        let (moves, seen) = watcher??;
        assert_eq!(seen, all, "nothing is lost and nothing comes twice");
        assert!(moves < 4, "{moves}: back and forth");
        moved += moves % 2;
    }
    assert!((15..=25).contains(&moved), "{moved} of {WATCHES} have moved");
    Ok(())
}
