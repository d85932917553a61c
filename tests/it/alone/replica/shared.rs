//! Replicas of one group share out their watches.

use std::{
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::*;

/// Forty watches of one replica; another one of its group has none. The watches that end do so cleanly, on a connection that ends with them, and their clients
/// miss nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_out_their_watches() -> Outcome {
    const WATCHES: usize = 40;
    /// The group is even when the watches that have moved are about half.
    const SHARE: RangeInclusive<usize> = 15..=25;
    /// How long it must stay so.
    const STAYS: Duration = Duration::from_secs(12);
    /// What the last write has.
    const LAST: &str = "last";
    let cluster = Cluster::start().await?;
    let group = [PROXY[0], PROXY[1], "--replica-group=blue"];
    let ((_one, one), (_two, two)) = (cluster.replica("one", &group).await?, cluster.replica("two", &group).await?);
    let writer = cluster.site.client(one);
    let write = async |text: &str| {
        let body = json!({"metadata": {"name": "a"}, "data": {"k": text}});
        asked(&writer, ("PUT", &format!("{MAPS}/a")), Some(&body), 200).await
    };
    let first = asked(&writer, ("POST", MAPS), Some(&json!({"metadata": {"name": "a"}})), 201).await?;
    let from = first["metadata"]["resourceVersion"].as_str().ok_or("no version")?.to_owned();
    let mut watchers = tokio::task::JoinSet::new();
    // Watches that are at the second replica, as their clients know it.
    let moved = Arc::new(AtomicUsize::new(0));
    for nth in 0..WATCHES {
        // Some may lose rights, and some may not.
        let clients = [one, two].map(|at| cluster.site.client(at));
        let (mut version, moved) = (from.clone(), moved.clone());
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
                    if seen.last().is_some_and(|seen| seen == LAST) {
                        return Ok::<_, Failure>((moves, seen));
                    }
                }
                moves += 1;
                if moves % 2 == 1 {
                    moved.fetch_add(1, Relaxed)
                } else {
                    moved.fetch_sub(1, Relaxed)
                };
            }
        });
    }
    // Writes go on while watches move, and for some looks of the replicas at each other after that.
    let (began, mut even_since, mut all) = (Instant::now(), None::<Instant>, Vec::new());
    while even_since.is_none_or(|since| since.elapsed() < STAYS) {
        let text = format!("{}", all.len());
        write(&text).await?;
        all.push(text);
        sleep(Duration::from_millis(200)).await;
        let count = moved.load(Relaxed);
        assert!(began.elapsed() < 2 * SOON, "{count} of {WATCHES} have moved");
        even_since = if SHARE.contains(&count) { even_since.or_else(|| Some(Instant::now())) } else { None };
    }
    write(LAST).await?;
    all.push(LAST.to_owned());
    let mut moved = 0;
    while let Some(watcher) = watchers.join_next().await {
        let (moves, seen) = watcher??;
        assert_eq!(seen, all, "nothing is lost and nothing comes twice");
        assert!(moves < 4, "{moves}: back and forth");
        moved += moves % 2;
    }
    assert!(SHARE.contains(&moved), "{moved} of {WATCHES} have moved");
    Ok(())
}
