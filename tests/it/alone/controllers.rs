//! What kube-controller-manager does for others, done by the server alone: what is deleted goes, what belongs to somebody is looked after.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Alone, Failure, Outcome, asked, wait::until};
use crate::client::Client;

const NAMESPACES: &str = "/api/v1/namespaces";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const ALL: &[&str] = &["--controllers=*"];
/// How long anything may take to come at all.
const PATIENCE: Duration = Duration::from_secs(600);
/// Longer than what would happen takes.
const A_WHILE: Duration = Duration::from_secs(2);

async fn gone(client: &Client, target: &str) -> Outcome {
    until(client, target, Value::is_null).await.map(drop)
}

async fn namespace(client: &Client, name: &str) -> Outcome {
    let body = json!({"metadata": {"name": name}});
    asked(client, ("POST", NAMESPACES), Some(&body), 201).await.map(drop)
}

fn owner(of: &Value, blocks: bool) -> Value {
    let metadata = &of["metadata"];
    json!({"apiVersion": of["apiVersion"], "kind": of["kind"], "name": metadata["name"], "uid": metadata["uid"], "blockOwnerDeletion": blocks})
}

fn named(name: &str, owners: &[Value], finalizers: &[&str]) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": owners, "finalizers": finalizers}})
}

async fn map(client: &Client, name: &str, owners: &[Value], finalizers: &[&str]) -> Result<Value, Failure> {
    asked(client, ("POST", MAPS), Some(&named(name, owners, finalizers)), 201).await
}

/// Deletes with this propagation.
async fn delete(client: &Client, target: &str, propagation: &str) -> Outcome {
    asked(client, ("DELETE", target), Some(&json!({"propagationPolicy": propagation})), 200).await.map(drop)
}

fn condition<'v>(namespace: &'v Value, kind: &str) -> &'v str {
    let all = namespace["status"]["conditions"].as_array().into_iter().flatten();
    all.filter(|condition| condition["type"] == kind).find_map(|condition| condition["message"].as_str()).unwrap_or("")
}

fn definition() -> Value {
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    json!({"metadata": {"name": "things.ex.io"}, "spec": {"group": "ex.io", "scope": "Namespaced", "versions": [version],
        "names": {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"}}})
}

async fn define(client: &Client) -> Outcome {
    asked(client, ("POST", DEFINITIONS), Some(&definition()), 201).await?;
    until(client, "/apis/ex.io/v1/namespaces/default/things", |list| list["items"].is_array()).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_gets_its_account_and_goes_with_all_that_is_in_it() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), ALL).await?;
    let client = server.client();
    define(&client).await?;
    namespace(&client, "x").await?;
    let account = "/api/v1/namespaces/x/serviceaccounts/default";
    let first = until(&client, account, |account| account["metadata"]["uid"].is_string()).await?;
    asked(&client, ("DELETE", account), None, 200).await?;
    until(&client, account, |account| account["metadata"]["uid"].is_string() && account["metadata"]["uid"] != first["metadata"]["uid"])
        .await?;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = [
        ("/api/v1/namespaces/x/pods", pod),
        ("/api/v1/namespaces/x/configmaps", named("plain", &[], &[])),
        ("/api/v1/namespaces/x/configmaps", named("held", &[], &["ex.io/hold"])),
        ("/apis/ex.io/v1/namespaces/x/things", json!({"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": {"name": "t"}})),
    ];
    for (target, body) in &made {
        asked(&client, ("POST", target), Some(body), 201).await?;
    }
    asked(&client, ("DELETE", "/api/v1/namespaces/x"), None, 200).await?;
    let held = until(&client, "/api/v1/namespaces/x", |found| !condition(found, "NamespaceFinalizersRemaining").is_empty()).await?;
    assert_eq!(held["status"]["phase"], "Terminating");
    let told = ["NamespaceContentRemaining", "NamespaceFinalizersRemaining", "NamespaceDeletionContentFailure"];
    assert_eq!(
        told.map(|kind| condition(&held, kind)),
        [
            "Some resources are remaining: configmaps. has 1 resource instances",
            "Some content in the namespace has finalizers remaining: ex.io/hold in 1 resource instances",
            "All content successfully deleted, may be waiting on finalization",
        ]
    );
    gone(&client, "/apis/ex.io/v1/namespaces/x/things/t").await?;
    gone(&client, "/api/v1/namespaces/x/pods/p").await?;
    asked(&client, ("PATCH", "/api/v1/namespaces/x/configmaps/held"), Some(&json!({"metadata": {"finalizers": null}})), 200).await?;
    gone(&client, "/api/v1/namespaces/x").await?;
    gone(&client, account).await
}

/// What was being emptied when the server was killed is emptied after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_goes_although_the_server_is_killed() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--controllers="]).await?;
    let client = server.client();
    namespace(&client, "x").await?;
    for number in 0..200 {
        let body = named(&format!("m{number}"), &[], &[]);
        asked(&client, ("POST", "/api/v1/namespaces/x/configmaps"), Some(&body), 201).await?;
    }
    asked(&client, ("DELETE", "/api/v1/namespaces/x"), None, 200).await?;
    tokio::time::sleep(A_WHILE).await;
    let left = asked(&client, ("GET", "/api/v1/namespaces/x/configmaps"), None, 200).await?;
    assert_eq!(left["items"].as_array().map(Vec::len), Some(200), "no controller is enabled");
    server.kill()?;
    let server = Alone::start_with(dir.path(), ALL).await?;
    gone(&server.client(), "/api/v1/namespaces/x").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_go_or_stay_as_the_deletion_says() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), ALL).await?;
    let client = server.client();
    let at = |name: &str| format!("{MAPS}/{name}");
    let stays = |found: &Value| found["metadata"]["name"].is_string() && found["metadata"]["ownerReferences"].is_null();

    // In the background, through a generation, and of two owners the last one.
    let [a, b] = [map(&client, "a", &[], &[]).await?, map(&client, "b", &[], &[]).await?];
    let child = map(&client, "child", &[owner(&a, false)], &[]).await?;
    map(&client, "grandchild", &[owner(&child, true)], &[]).await?;
    map(&client, "shared", &[owner(&a, false), owner(&b, false)], &[]).await?;
    delete(&client, &at("a"), "Background").await?;
    gone(&client, &at("grandchild")).await?;
    let one = |found: &Value| found["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.len() == 1);
    until(&client, &at("shared"), one).await?;
    delete(&client, &at("b"), "Background").await?;
    gone(&client, &at("shared")).await?;

    // In the foreground: the owner waits for those who block it, and only for those.
    let a = map(&client, "a", &[], &[]).await?;
    map(&client, "blocking", &[owner(&a, true)], &["ex.io/hold"]).await?;
    map(&client, "idle", &[owner(&a, false)], &["ex.io/hold"]).await?;
    delete(&client, &at("a"), "Foreground").await?;
    until(&client, &at("blocking"), |found| found["metadata"]["deletionTimestamp"].is_string()).await?;
    until(&client, &at("idle"), |found| found["metadata"]["deletionTimestamp"].is_string()).await?;
    assert_eq!(asked(&client, ("GET", &at("a")), None, 200).await?["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let free = json!({"metadata": {"finalizers": null}});
    asked(&client, ("PATCH", &at("blocking")), Some(&free), 200).await?;
    gone(&client, &at("a")).await?;
    asked(&client, ("PATCH", &at("idle")), Some(&free), 200).await?;
    gone(&client, &at("idle")).await?;

    // Orphaned.
    let a = map(&client, "a", &[], &[]).await?;
    for name in ["orphan-1", "orphan-2"] {
        map(&client, name, &[owner(&a, true)], &[]).await?;
    }
    delete(&client, &at("a"), "Orphan").await?;
    gone(&client, &at("a")).await?;
    for name in ["orphan-1", "orphan-2"] {
        until(&client, &at(name), stays).await?;
    }

    // A circle.
    let a = map(&client, "a", &[], &[]).await?;
    let b = map(&client, "b", &[owner(&a, true)], &[]).await?;
    asked(&client, ("PATCH", &at("a")), Some(&json!({"metadata": {"ownerReferences": [owner(&b, true)]}})), 200).await?;
    delete(&client, &at("a"), "Foreground").await?;
    gone(&client, &at("a")).await?;
    gone(&client, &at("b")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_that_are_not_there_are_none() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), ALL).await?;
    let client = server.client();
    let at = |name: &str| format!("{MAPS}/{name}");
    let a = map(&client, "a", &[], &[]).await?;
    let other = |uid: &str, kind: &str, version: &str| json!({"apiVersion": version, "kind": kind, "name": "a", "uid": uid});
    // Another one of its name, one of no name, and one that is there and one that is not.
    map(&client, "wrong", &[other("u-1", "ConfigMap", "v1")], &[]).await?;
    map(&client, "absent", &[other("u-2", "Secret", "v1")], &[]).await?;
    map(&client, "half", &[other("u-3", "ConfigMap", "v1"), owner(&a, false)], &[]).await?;
    map(&client, "unknown", &[other("u-4", "Thing", "ex.io/v1")], &[]).await?;
    gone(&client, &at("wrong")).await?;
    gone(&client, &at("absent")).await?;
    until(&client, &at("half"), |found| found["metadata"]["ownerReferences"].as_array().is_some_and(|all| all.len() == 1)).await?;
    // In another namespace: it goes, and an Event says why.
    namespace(&client, "x").await?;
    asked(&client, ("POST", "/api/v1/namespaces/x/configmaps"), Some(&named("stranger", &[owner(&a, false)], &[])), 201).await?;
    gone(&client, "/api/v1/namespaces/x/configmaps/stranger").await?;
    let events = until(&client, "/api/v1/namespaces/x/events", |list| list["items"].as_array().is_some_and(|all| !all.is_empty())).await?;
    let (event, uid) = (&events["items"][0], a["metadata"]["uid"].as_str().ok_or("an object without a uid")?);
    assert_eq!(
        (&event["reason"], &event["type"], &event["involvedObject"]["name"]),
        (&json!("OwnerRefInvalidNamespace"), &json!("Warning"), &json!("stranger"))
    );
    assert_eq!(event["message"], format!("ownerRef [v1/ConfigMap, namespace: x, name: a, uid: {uid}] does not exist in namespace \"x\""));
    // A cluster-scoped object has no owner in a namespace, and stays.
    let cluster = named("scoped", &[owner(&a, false)], &[]);
    asked(&client, ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles"), Some(&cluster), 201).await?;
    until(&client, "/api/v1/namespaces/default/events", |list| list["items"].as_array().is_some_and(|all| !all.is_empty())).await?;
    // A kind that nobody serves may be served one day: then it is looked at.
    assert!(asked(&client, ("GET", &at("unknown")), None, 200).await?["metadata"]["deletionTimestamp"].is_null());
    define(&client).await?;
    gone(&client, &at("unknown")).await?;
    asked(&client, ("DELETE", &at("a")), None, 200).await?;
    tokio::time::sleep(A_WHILE).await;
    asked(&client, ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/scoped"), None, 200).await.map(drop)
}

/// Never both: while a kube-controller-manager holds its Lease nothing is done, and then all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kube_controller_manager_goes_first() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), ALL).await?;
    let client = server.client();
    let check = async |line: &str| -> Outcome {
        let began = Instant::now();
        while !String::from_utf8(client.fetch("/readyz?verbose").await?.body.to_vec())?.contains(line) {
            if began.elapsed() > PATIENCE {
                return Err(format!("/readyz does not say {line}").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    };
    check("[+]controllers ok").await?;
    let lease = |seconds: u32| json!({"metadata": {"name": "kube-controller-manager"}, "spec": {"holderIdentity": "host_1", "leaseDurationSeconds": seconds}});
    asked(&client, ("POST", LEASES), Some(&lease(3600)), 201).await?;
    check("[+]controllers/left-to-kube-controller-manager ok").await?;
    namespace(&client, "x").await?;
    asked(&client, ("DELETE", "/api/v1/namespaces/x"), None, 200).await?;
    tokio::time::sleep(A_WHILE).await;
    let left = asked(&client, ("GET", "/api/v1/namespaces/x"), None, 200).await?;
    assert!(left["status"]["conditions"].is_null(), "{left}");
    asked(&client, ("GET", "/api/v1/namespaces/x/serviceaccounts/default"), None, 404).await?;
    // It is not renewed, and ends after its second; its clock is not asked.
    let target = format!("{LEASES}/kube-controller-manager");
    asked(
        &client,
        ("PATCH", &target),
        Some(&json!({"spec": {"leaseDurationSeconds": 1, "renewTime": "2099-01-01T00:00:00.000000Z"}})),
        200,
    )
    .await?;
    check("[+]controllers ok").await?;
    gone(&client, "/api/v1/namespaces/x").await?;
    asked(&client, ("PATCH", &target), Some(&json!({"spec": {"leaseDurationSeconds": 3600}})), 200).await?;
    check("[+]controllers/left-to-kube-controller-manager ok").await?;
    // Released, as it does when it stops.
    asked(&client, ("PATCH", &target), Some(&json!({"spec": {"holderIdentity": ""}})), 200).await?;
    check("[+]controllers ok").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_a_time_goes_when_it_has_come() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--controllers=*,token-cleaner-controller"]).await?;
    let client = server.client();
    // A Job that has finished.
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    for (name, seconds) in [("soon", 1), ("later", 3600)] {
        let job = json!({"metadata": {"name": name}, "spec": {"ttlSecondsAfterFinished": seconds, "template": template}});
        asked(&client, ("POST", jobs), Some(&job), 201).await?;
        let finished = json!([
            {"type": "FailureTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "Failed", "status": "True", "lastTransitionTime": go_now()},
        ]);
        let status = json!({"status": {"startTime": "2026-01-01T00:00:00Z", "conditions": finished}});
        asked(&client, ("PATCH", &format!("{jobs}/{name}/status")), Some(&status), 200).await?;
    }
    gone(&client, &format!("{jobs}/soon")).await?;
    // Bootstrap tokens, and the token of an account that is gone.
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    for (name, expiration) in [("bootstrap-token-aaaaaa", "2020-01-01T00:00:00Z"), ("bootstrap-token-bbbbbb", "2099-01-01T00:00:00Z")] {
        let secret = json!({"metadata": {"name": name}, "type": "bootstrap.kubernetes.io/token", "stringData": {"expiration": expiration}});
        asked(&client, ("POST", secrets), Some(&secret), 201).await?;
    }
    gone(&client, &format!("{secrets}/bootstrap-token-aaaaaa")).await?;
    for name in ["robot", "nobody"] {
        if name == "robot" {
            let account = json!({"metadata": {"name": name}});
            asked(&client, ("POST", "/api/v1/namespaces/kube-system/serviceaccounts"), Some(&account), 201).await?;
        }
        let annotations = json!({"kubernetes.io/service-account.name": name});
        let secret = json!({"metadata": {"name": name, "annotations": annotations}, "type": "kubernetes.io/service-account-token"});
        asked(&client, ("POST", secrets), Some(&secret), 201).await?;
    }
    gone(&client, &format!("{secrets}/nobody")).await?;
    asked(&client, ("GET", &format!("{secrets}/robot")), None, 200).await?;
    asked(&client, ("DELETE", "/api/v1/namespaces/kube-system/serviceaccounts/robot"), None, 200).await?;
    gone(&client, &format!("{secrets}/robot")).await?;
    asked(&client, ("GET", &format!("{secrets}/bootstrap-token-bbbbbb")), None, 200).await?;
    asked(&client, ("GET", &format!("{jobs}/later")), None, 200).await.map(drop)
}

/// Now, as an API object has it.
fn go_now() -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut text = Vec::new();
    go::timestamp::text_into(i64::try_from(seconds).unwrap_or(0), None, &mut text);
    String::from_utf8_lossy(&text).trim_matches('"').to_owned()
}
