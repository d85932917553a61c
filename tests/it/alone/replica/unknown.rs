//! A stored object that has a field of a release nobody here knows: no client of the replica is shown less of it than the API server behind would show.

use super::*;

/// A ConfigMap as a kube-apiserver stores it, whose message has field 99 besides.
fn config_map(name: &str, unknown: bool) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, u8::try_from(bytes.len()).expect("short")], bytes].concat();
    let metadata = field(1, &[field(1, name.as_bytes()), field(3, b"default"), field(5, name.as_bytes())].concat());
    let raw =
        [metadata, field(2, &[field(1, b"k"), field(2, b"1")].concat()), if unknown { vec![0x98, 6, 1] } else { Vec::new() }].concat();
    let kind = field(1, &[field(1, b"v1"), field(2, b"ConfigMap")].concat());
    [b"k8s\0".to_vec(), kind, field(2, &raw), b"\x1a\0\x22\0".to_vec()].concat()
}

async fn wait_for(client: &Client, wanted: impl Fn(&str) -> bool) -> Outcome {
    let until = Instant::now() + SOON;
    loop {
        let body = String::from_utf8(client.fetch("/readyz?verbose").await?.body.to_vec())?;
        if wanted(&body) {
            return Ok(());
        }
        assert!(Instant::now() < until, "{body}");
        sleep(Duration::from_millis(50)).await;
    }
}

const PLACE: &str = "v1 ConfigMap: #99";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_known_whole_is_forwarded() -> Outcome {
    // Upstream is to show the object in some way, and the replica only as that one does.
    let cluster = Cluster::start_with_all(&["--requestheader-client-ca-file=ca.crt", "--serve-unknown-fields"]).await?;
    let (_replica, at) = cluster.replica("replica", &PROXY).await?;
    let (ours, theirs) = (cluster.site.client(at), cluster.site.client(cluster.upstream_at));
    let mut etcd = proto::testing::Client::connect(&format!("http://{}", cluster.etcd))?;
    etcd.put(("/registry/configmaps/default/whole", config_map("whole", false))).await?;
    let list = asked(&ours, ("GET", MAPS), None, 200).await?;
    let version = list["metadata"]["resourceVersion"].as_str().ok_or("no version")?;
    let mut watch = ours.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await?.map_err(|answer| format!("{answer:?}"))?;
    assert_eq!(forwarded(&ours, "unreadable").await?, 0);

    etcd.put(("/registry/configmaps/default/more", config_map("more", true))).await?;
    assert!(timeout(SOON, watch.next()).await??.is_none(), "the watch ends, and the object is not on it");
    wait_for(&ours, |body| body.contains("configmaps since ") && body.contains(PLACE) && body.contains("readyz check passed")).await?;
    let table = [("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let metadata = [("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")];
    let (mut count, protobuf) = (0, [("Accept", "application/vnd.kubernetes.protobuf")]);
    for target in [
        MAPS,
        &format!("{MAPS}/more"),
        &format!("{MAPS}/whole"),
        &format!("{MAPS}?resourceVersion=0"),
        &format!("{MAPS}?fieldSelector=metadata.name%3Dmore"),
    ] {
        for headers in [&[][..], &table, &metadata, &protobuf] {
            // Upstream writes objects of its own now and then, and its lists have the revision of that.
            loop {
                count += 1;
                let before = seen(&theirs, ("GET", target), headers, "").await?;
                let mine = seen(&ours, ("GET", target), headers, "").await?;
                assert_eq!(forwarded(&ours, "unreadable").await?, count, "{target}");
                if before == seen(&theirs, ("GET", target), headers, "").await? {
                    assert_eq!(mine, before, "{target} {headers:?}");
                    break;
                }
            }
        }
    }
    // Others are as they were.
    assert_eq!(asked(&ours, ("GET", "/api/v1/namespaces"), None, 200).await?["kind"], "NamespaceList");
    assert_eq!(forwarded(&ours, "unreadable").await?, count);

    // Its last state is no event either, and then all is told again.
    let mut watch = ours.watch(&format!("{MAPS}?watch=1")).await?.map_err(|answer| format!("{answer:?}"))?;
    etcd.delete("/registry/configmaps/default/more").await?;
    wait_for(&ours, |body| body.contains("[+]stored-values ok")).await?;
    assert_eq!(forwarded(&ours, "unreadable").await?, count + 1, "the watch was upstream's");
    assert!(timeout(SOON, watch.next()).await??.is_some());
    assert_eq!(asked(&ours, ("GET", MAPS), None, 200).await?["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(forwarded(&ours, "unreadable").await?, count + 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_upstream_it_is_refused_unless_allowed() -> Outcome {
    let cluster = Cluster::start().await?;
    let client = cluster.site.client(cluster.upstream_at);
    let mut etcd = proto::testing::Client::connect(&format!("http://{}", cluster.etcd))?;
    etcd.put(("/registry/configmaps/default/more", config_map("more", true))).await?;
    wait_for(&client, |body| body.contains(PLACE)).await?;
    for (method, target, body) in [
        ("GET", MAPS.to_owned(), None),
        ("GET", format!("{MAPS}/more"), None),
        ("GET", format!("{MAPS}?watch=1"), None),
        ("PUT", format!("{MAPS}/more"), Some(json!({"metadata": {"name": "more"}, "data": {"k": "2"}}))),
    ] {
        let status = asked(&client, (method, &target), body.as_ref(), 500).await?;
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.contains(PLACE) && message.contains("--serve-unknown-fields"), "{method} {target}: {message}");
    }
    // Who wants it so is shown the rest.
    let at = free_address()?;
    let lossy = cluster.site.start("lossy", serve(&cluster.site, cluster.etcd, at, &["--serve-unknown-fields", "--insecure-port=0"]))?;
    let client = cluster.site.client(at);
    lossy.ready(&client).await.map_err(|error| error.to_string())?;
    assert_eq!(asked(&client, ("GET", &format!("{MAPS}/more")), None, 200).await?["data"], json!({"k": "1"}));
    let list = asked(&client, ("GET", MAPS), None, 200).await?;
    assert!(list["items"].as_array().is_some_and(|items| items.iter().any(|item| item["metadata"]["name"] == "more")));
    Ok(())
}
