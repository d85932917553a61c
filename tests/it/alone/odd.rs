//! Custom resources that somebody wrote into etcd by hand: what is wrong with them stands in nobody's way.

use std::time::Duration;

use serde_json::json;
use store::{Store, StoreConfig};

use super::{Alone, Outcome, asked};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/ex.io/v1/things";

/// Labels that are numbers made every list of the resource fail, and the object could be neither changed nor deleted. What is shown and done now is what
/// kube-apiserver 1.36.3 shows and does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_that_is_none_is_left_out() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let definition = json!({"metadata": {"name": "things.ex.io"},
        "spec": {"group": "ex.io", "scope": "Cluster", "names": names, "versions": [version]}});
    asked(&client, ("POST", DEFINITIONS), Some(&definition), 201).await?;
    while client.fetch(THINGS).await?.status != 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.kill()?;
    let store = Store::open(&dir.path().join("data"), StoreConfig::default())?;
    let mut etcd = proto::testing::Client::new(store.channel());
    for name in ["a", "b"] {
        let metadata = json!({"name": name, "uid": "u", "generation": 1, "labels": {"a": 1, "b": "c"}, "annotations": {"d": "e"},
            "finalizers": "f", "ownerReferences": [{"name": 5}], "other": {}});
        let thing = json!({"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": metadata, "spec": {"x": 1}});
        etcd.put((format!("/registry/ex.io/things/{name}"), thing.to_string())).await?;
    }
    drop(etcd);
    store.close().await;

    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    while client.fetch(THINGS).await?.status == 404 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let target = format!("{THINGS}/a");
    let found = asked(&client, ("GET", &target), None, 200).await?;
    let version = &found["metadata"]["resourceVersion"];
    let metadata = json!({"name": "a", "uid": "u", "generation": 1, "annotations": {"d": "e"}, "resourceVersion": version});
    assert_eq!(found, json!({"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": metadata, "spec": {"x": 1}}));
    let listed = asked(&client, ("GET", THINGS), None, 200).await?;
    assert_eq!((&listed["items"][0], listed["items"].as_array().map(Vec::len)), (&found, Some(2)));
    let patch = json!({"metadata": {"labels": {"x": "y"}}});
    let patched = asked(&client, ("PATCH", &format!("{target}?fieldValidation=Strict")), Some(&patch), 200).await?;
    assert_eq!((&patched["metadata"]["labels"], &patched["metadata"]["annotations"]), (&json!({"x": "y"}), &json!({"d": "e"})));
    let target = format!("{THINGS}/b");
    let mut whole = asked(&client, ("GET", &target), None, 200).await?;
    whole["spec"] = json!({"x": 2});
    assert_eq!(asked(&client, ("PUT", &target), Some(&whole), 200).await?["metadata"]["generation"], 2);
    asked(&client, ("DELETE", &target), None, 200).await?;
    asked(&client, ("DELETE", THINGS), None, 200).await?;
    assert_eq!(asked(&client, ("GET", THINGS), None, 200).await?["items"], json!([]));
    Ok(())
}
