//! A replica that keeps some namespaces hands requests for the others on, and clients see no difference.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_namespaces_are_read_upstream() -> Outcome {
    let cluster = Cluster::start().await?;
    let (_replica, at) = cluster.replica("replica", &[PROXY[0], PROXY[1], "--include-namespaces=default,team"]).await?;
    let (ours, theirs) = (cluster.site.client(at), cluster.site.client(cluster.upstream_at));
    let mut versions = Vec::new();
    for namespace in ["team", "other"] {
        asked(&ours, ("POST", "/api/v1/namespaces"), Some(&json!({"metadata": {"name": namespace}})), 201).await?;
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        let made = asked(&ours, ("POST", &maps), Some(&json!({"metadata": {"name": "a"}})), 201).await?;
        versions.push(made["metadata"]["resourceVersion"].as_str().ok_or("no version")?.to_owned());
    }
    let before = forwarded(&ours, "not_served").await?;
    let mut elsewhere = 0;
    for (target, is_ours) in [
        ("/api/v1/namespaces/team/configmaps", true),
        ("/api/v1/namespaces/team/configmaps/a", true),
        ("/api/v1/namespaces/team/configmaps/none", true),
        ("/api/v1/namespaces/default/configmaps?resourceVersion=0", true),
        ("/api/v1/namespaces", true),
        ("/api/v1/nodes", true),
        // Tokens rest on them.
        ("/api/v1/serviceaccounts", true),
        ("/api/v1/namespaces/other/configmaps", false),
        ("/api/v1/namespaces/other/configmaps/a", false),
        ("/api/v1/configmaps", false),
        ("/api/v1/configmaps?fieldSelector=metadata.namespace%3Dteam", false),
    ] {
        let items = |(status, body): (u16, String)| {
            let mut list: Value = serde_json::from_str(&body).unwrap_or_default();
            // Two lists are of two moments.
            list["metadata"]["resourceVersion"].take();
            (status, list)
        };
        let request = ("GET", target);
        let (answer, expected) = (items(seen(&ours, request, &[], "").await?), items(seen(&theirs, request, &[], "").await?));
        assert_eq!(answer, expected, "{target}");
        elsewhere += u64::from(!is_ours);
        assert_eq!(forwarded(&ours, "not_served").await?, before + elsewhere, "{target}");
    }
    // Watches of both.
    for (namespace, version) in ["team", "other"].iter().zip(versions) {
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        let mut watch = ours.watch(&format!("{maps}?watch=1&resourceVersion={version}")).await?.map_err(|answer| format!("{answer:?}"))?;
        let newer = asked(&ours, ("PUT", &format!("{maps}/a")), Some(&json!({"metadata": {"name": "a"}, "data": {"k": "2"}})), 200).await?;
        let event = timeout(SOON, watch.next()).await??.ok_or("the watch has ended")?;
        assert_eq!(serde_json::from_slice::<Value>(&event.line)?["object"], newer, "{namespace}");
    }
    let metrics = String::from_utf8(ours.fetch("/metrics").await?.body.to_vec())?;
    let count = metrics.lines().find(|line| line.starts_with("apiserver_resource_objects") && line.contains("\"configmaps\""));
    assert!(count.is_some_and(|line| line.ends_with(" 1")), "one of two is in memory: {count:?}");
    Ok(())
}
