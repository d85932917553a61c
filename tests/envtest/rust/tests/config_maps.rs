//! Two tests at once, each with a server of its own.

use envtest_rust::{Failure, TestServer};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;

fn named(name: &str) -> Result<ConfigMap, Failure> {
    Ok(serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "1"}}))?)
}

#[tokio::test]
async fn a_watch_sees_what_is_applied() -> Result<(), Failure> {
    let server = TestServer::start().await?;
    let api: Api<ConfigMap> = Api::default_namespaced(server.client().await?);
    api.create(&PostParams::default(), &named("seen")?).await?;
    let config = watcher::Config::default().fields("metadata.name=seen");
    let mut seen = Box::pin(watcher(api.clone(), config).applied_objects());
    assert_eq!(seen.try_next().await?.and_then(|map| map.data).and_then(|data| data.get("a").cloned()).as_deref(), Some("1"));
    let change = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "2"}});
    api.patch("seen", &PatchParams::apply("test").force(), &Patch::Apply(&change)).await?;
    assert_eq!(seen.try_next().await?.and_then(|map| map.data).and_then(|data| data.get("a").cloned()).as_deref(), Some("2"));
    Ok(())
}

#[tokio::test]
async fn each_test_has_a_server_of_its_own() -> Result<(), Failure> {
    let (one, other) = tokio::try_join!(TestServer::start(), TestServer::start())?;
    let api = |client| Api::<ConfigMap>::default_namespaced(client);
    api(one.client().await?).create(&PostParams::default(), &named("mine")?).await?;
    assert!(api(other.client().await?).get_opt("mine").await?.is_none());
    Ok(())
}
