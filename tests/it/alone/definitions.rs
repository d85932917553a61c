//! What definitions cost others: none may hold up another one, another resource's events, or make a built-in unusable.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use store::{Store, StoreConfig};

use super::{Alone, Failure, Outcome, asked};
use crate::client::{Client, Request};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Bytes of a request that etcd takes.
const ETCD_BYTES_MAX: usize = 3 << 19;
/// By so many bytes a definition is made smaller, so many times at most, until etcd takes it: a condition has more.
const STEP: usize = 60;
const STEPS: usize = 20;
/// How long anything may take to come at all.
const PATIENCE: Duration = Duration::from_secs(600);
/// Longer than the pause after which everything was looked at again.
const AT_REST: Duration = Duration::from_secs(6);

/// The loop over definitions ended at the first that failed, and began again every second, with a line of the log each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_cannot_be_written_holds_up_no_other() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let (client, began) = (server.client(), Instant::now());
    // Sorted before the others, and as large as etcd takes it: there is no room for a condition.
    create_largest(&client, "a.ex.io").await?;
    for group in ["b.ex.io", "c.ex.io"] {
        asked(&client, ("POST", DEFINITIONS), Some(&definition(group, "things", "v1", 0)), 201).await?;
        served(&client, &format!("/apis/{group}/v1/things")).await?;
    }
    let object = asked(&client, ("GET", &format!("{DEFINITIONS}/things.a.ex.io")), None, 200).await?;
    assert_eq!(object.pointer("/status/conditions").and_then(Value::as_array), None, "it could be written: this shows nothing");
    let lines = || -> Result<usize, Failure> {
        let log = std::fs::read_to_string(&server.log)?;
        Ok(log.lines().filter(|line| line.contains("the status of a definition cannot be written")).count())
    };
    while lines()? == 0 {
        assert!(began.elapsed() < PATIENCE, "nothing is said of it:\n{}", server.last_words());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(AT_REST).await;
    // A line every ten seconds, however often it fails.
    let (lines, most) = (lines()?, 2 + began.elapsed().as_secs() / 10);
    assert!(lines as u64 <= most, "{lines} lines in {:?}:\n{}", began.elapsed(), server.last_words());
    Ok(())
}

/// All definitions were read for each change of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_work_on_one_definition() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    for number in 0..20 {
        asked(&client, ("POST", DEFINITIONS), Some(&definition(&format!("g{number}.ex.io"), "things", "v1", 0)), 201).await?;
    }
    for number in 0..20 {
        served(&client, &format!("/apis/g{number}.ex.io/v1/things")).await?;
    }
    // Each is written three times, and read once for each write; the last of them may be still to come.
    const READS: u64 = 3 * 20;
    let before = reads(&client).await?;
    assert!(before <= READS, "{before} reads of 20 definitions");
    let patch = json!({"spec": {"names": {"shortNames": ["th"]}}});
    asked(&client, ("PATCH", &format!("{DEFINITIONS}/things.g7.ex.io")), Some(&patch), 200).await?;
    let began = Instant::now();
    loop {
        let list = asked(&client, ("GET", "/apis/g7.ex.io/v1"), None, 200).await?;
        if list.pointer("/resources/0/shortNames").is_some() {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "the new name is never shown: {list}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(reads(&client).await? > before, "the write is read");
    tokio::time::sleep(AT_REST).await;
    let after = reads(&client).await?;
    assert!(after <= READS + 2, "{after} reads with a write, the acceptance of its names, and a rest");
    Ok(())
}

/// The series of a definition's resource stayed for ever, and so did those of a version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_go_with_their_resource() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let object = format!("{DEFINITIONS}/things.gone.ex.io");
    asked(&client, ("POST", DEFINITIONS), Some(&definition("gone.ex.io", "things", "v1", 0)), 201).await?;
    served(&client, "/apis/gone.ex.io/v1/things").await?;
    let (all, of_version) = (r#"group="gone.ex.io""#, r#"group="gone.ex.io",resource="things",version="v1""#);
    assert!(series(&client, all).await? > 20 && series(&client, of_version).await? > 0, "they are there while it is");
    let mut versions = ["v1", "v2"].map(|version| definition("gone.ex.io", "things", version, 0)["spec"]["versions"][0].clone());
    versions[0]["served"] = json!(false);
    versions[1]["storage"] = json!(false);
    asked(&client, ("PATCH", &object), Some(&json!({"spec": {"versions": versions}})), 200).await?;
    served(&client, "/apis/gone.ex.io/v2/things").await?;
    gone(&client, of_version).await?;
    assert!(series(&client, all).await? > 20, "its other version is served");
    asked(&client, ("DELETE", &object), None, 200).await?;
    gone(&client, "gone.ex.io").await?;
    // What comes back is counted again.
    asked(&client, ("POST", DEFINITIONS), Some(&definition("gone.ex.io", "things", "v1", 0)), 201).await?;
    served(&client, "/apis/gone.ex.io/v1/things").await?;
    assert!(series(&client, all).await? > 20);
    Ok(())
}

/// Lines of `/metrics` in which this stands.
async fn series(client: &Client, text: &str) -> Result<usize, Failure> {
    let answer = client.fetch("/metrics").await?;
    Ok(String::from_utf8_lossy(&answer.body).lines().filter(|line| line.contains(text)).count())
}

/// Waits until there are no such lines.
async fn gone(client: &Client, text: &str) -> Outcome {
    let began = Instant::now();
    while series(client, text).await? > 0 {
        assert!(began.elapsed() < PATIENCE, "{text} stays");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// After one POST, lists of the built-in were 500 for good. As kube-apiserver 1.36.3 answers: the definition is taken, its resource is nowhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_in_a_built_in_group_has_no_resource() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    for (group, plural, built_in) in [
        ("apiextensions.k8s.io", "customresourcedefinitions", DEFINITIONS),
        ("apiregistration.k8s.io", "apiservices", "/apis/apiregistration.k8s.io/v1/apiservices"),
        ("networking.k8s.io", "networkpolicies", "/apis/networking.k8s.io/v1/networkpolicies"),
    ] {
        asked(&client, ("POST", DEFINITIONS), Some(&definition(group, plural, "v9", 0)), 201).await?;
        established(&client, &format!("{plural}.{group}")).await?;
        let collection = format!("/apis/{group}/v9/{plural}");
        let object = json!({"apiVersion": format!("{group}/v9"), "kind": "Thing", "metadata": {"name": "x"}});
        for (method, target, body) in [
            ("GET", &collection, None),
            ("POST", &collection, Some(&object)),
            ("GET", &format!("{collection}/x"), None),
            ("GET", &format!("/apis/{group}/v9"), None),
        ] {
            let status = asked(&client, (method, target), body, 404).await?;
            assert_eq!(status["message"], "the server could not find the requested resource", "{method} {target}");
        }
        asked(&client, ("GET", built_in), None, 200).await?;
    }
    Ok(())
}

/// What a definition of before has left under a built-in's keys, or anything else that cannot be read, is deleted by its key: as kube-apiserver 1.36.3
/// does it with the feature gate AllowUnsafeMalformedObjectDeletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_can_be_deleted() -> Outcome {
    let dir = tempfile::tempdir()?;
    let (maps, map) = ("/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/bad");
    let definition = format!("{DEFINITIONS}/bad.ex.io");
    let store = Store::open(&dir.path().join("data"), StoreConfig::default())?;
    let mut etcd = proto::testing::Client::new(store.channel());
    etcd.put(("/registry/configmaps/default/bad", "nonsense")).await?;
    let other = r#"{"apiVersion":"ex.io/v1","kind":"Other","metadata":{"name":"bad.ex.io"}}"#;
    etcd.put(("/registry/apiextensions.k8s.io/customresourcedefinitions/bad.ex.io", other)).await?;
    drop(etcd);
    store.close().await;
    let server = Alone::start_with(dir.path(), &["--feature-gates=AllowUnsafeMalformedObjectDeletion=true"]).await?;
    let client = server.client();
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "ignoreStoreReadErrorWithClusterBreakingPotential": true});
    for (object, collection, kind) in [(map, maps, "ConfigMap"), (&*definition, DEFINITIONS, "CustomResourceDefinition")] {
        asked(&client, ("GET", collection), None, 500).await?;
        asked(&client, ("DELETE", object), None, 500).await?;
        let refused = asked(&client, ("DELETE", collection), Some(&options), 422).await?;
        assert!(refused["message"].as_str().is_some_and(|why| why.contains("is not allowed with DELETECOLLECTION")), "{refused}");
        let name = object.rsplit('/').next();
        let want = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": {"name": name, "kind": kind}, "code": 200});
        assert_eq!(asked(&client, ("DELETE", object), Some(&options), 200).await?, want);
        let refused = asked(&client, ("DELETE", object), Some(&options), 422).await?;
        assert!(
            refused["message"].as_str().is_some_and(|why| why.contains("is exclusively used to delete corrupt object(s)")),
            "{refused}"
        );
        served(&client, collection).await?;
    }
    asked(&client, ("POST", maps), Some(&json!({"metadata": {"name": "good"}})), 201).await?;
    asked(&client, ("DELETE", &format!("{maps}/good")), Some(&options), 422).await?;
    asked(&client, ("GET", &format!("{maps}/good")), None, 200).await?;
    Ok(())
}

/// As kube-apiserver notes what its own controllers write (recorded).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_writes_conditions_manages_them() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    asked(&client, ("POST", &format!("{DEFINITIONS}?fieldManager=me")), Some(&definition("a.ex.io", "things", "v1", 0)), 201).await?;
    established(&client, "things.a.ex.io").await?;
    let object = asked(&client, ("GET", &format!("{DEFINITIONS}/things.a.ex.io")), None, 200).await?;
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
    assert_eq!(entries.len(), 2, "{object}");
    let ours = entries.iter().find(|entry| entry["manager"] == "kube-apiserver").ok_or("the server manages nothing")?;
    assert_eq!(
        (&ours["operation"], &ours["subresource"], &ours["apiVersion"]),
        (&json!("Update"), &json!("status"), &json!("apiextensions.k8s.io/v1"))
    );
    let condition = json!({".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:reason": {}, "f:status": {}, "f:type": {}});
    let names = json!({"f:kind": {}, "f:listKind": {}, "f:plural": {}, "f:singular": {}});
    let conditions = json!({"k:{\"type\":\"Established\"}": condition, "k:{\"type\":\"NamesAccepted\"}": condition});
    let mut fields = ours["fieldsV1"].clone();
    // Only what is in a built-in group has this one.
    fields["f:status"]["f:conditions"].as_object_mut().ok_or("no conditions")?.retain(|key, _| !key.contains("Approval"));
    assert_eq!(fields, json!({"f:status": {"f:acceptedNames": names, "f:conditions": conditions}}));
    Ok(())
}

/// Definitions that v1beta1 has made may preserve all: objects are judged by the schema, which need not be structural, and nothing is taken away from them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_preserves_all_judges_objects() -> Outcome {
    let dir = tempfile::tempdir()?;
    let store = Store::open(&dir.path().join("data"), StoreConfig::default())?;
    let mut etcd = proto::testing::Client::new(store.channel());
    let names = json!({"plural": "olds", "singular": "old", "kind": "Old", "listKind": "OldList"});
    let schema = json!({"properties": {"spec": {"properties": {
        "size": {"type": "integer", "maximum": 5}, "either": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["a"]}]}}}}});
    let old = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition", "metadata": {"name": "olds.ex.io", "uid": "1", "creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"group": "ex.io", "version": "v1", "scope": "Cluster", "names": names, "preserveUnknownFields": true, "validation": {"openAPIV3Schema": schema},
            "versions": [{"name": "v1", "served": true, "storage": true}], "conversion": {"strategy": "None"}},
        "status": {"acceptedNames": names, "storedVersions": ["v1"], "conditions": [
            {"type": "NamesAccepted", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z", "reason": "NoConflicts", "message": "no conflicts found"},
            {"type": "Established", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"}]},
    });
    etcd.put(("/registry/apiextensions.k8s.io/customresourcedefinitions/olds.ex.io", old.to_string())).await?;
    drop(etcd);
    store.close().await;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    served(&client, "/apis/ex.io/v1/olds").await?;
    let object = |name: &str, spec: Value| json!({"apiVersion": "ex.io/v1", "kind": "Old", "metadata": {"name": name}, "spec": spec, "more": {"null": null}});
    let kept = json!({"size": 3, "other": {"a": null}, "either": {"a": 1}});
    let made = asked(&client, ("POST", "/apis/ex.io/v1/olds?fieldValidation=Strict"), Some(&object("a", kept.clone())), 201).await?;
    assert_eq!((&made["spec"], &made["more"]), (&kept, &json!({"null": null})));
    for (spec, why) in [
        (json!({"size": 6}), "spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5"),
        (json!({"size": "x"}), r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#),
        (json!({"either": {"b": 1}}), r#""spec.either" must validate at least one schema (anyOf)"#),
    ] {
        let refused = asked(&client, ("POST", "/apis/ex.io/v1/olds"), Some(&object("b", spec)), 422).await?;
        assert!(refused["message"].as_str().is_some_and(|told| told.contains(why)), "{refused}");
    }
    Ok(())
}

/// A float is judged as one, although it is stored as an integer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_floats_are_judged_as_floats() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let mut scaled = definition("a.ex.io", "things", "v1", 0);
    let integer = json!({"type": "integer", "maximum": 100});
    let spec = json!({"type": "object", "properties": {"replicas": integer, "n": integer, "text": {"type": "string"}}});
    scaled["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {"spec": spec}});
    scaled["spec"]["versions"][0]["subresources"] =
        json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    asked(&client, ("POST", DEFINITIONS), Some(&scaled), 201).await?;
    served(&client, "/apis/a.ex.io/v1/things").await?;
    let object = |name: &str, spec: Value| json!({"apiVersion": "a.ex.io/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec});
    for (spec, why) in [
        (json!({"n": 3e6}), "spec.n: Invalid value: 3e+06: spec.n in body should be less than or equal to 100"),
        (json!({"text": 2.0}), r#"spec.text: Invalid value: "number": spec.text in body must be of type string: "number""#),
        (json!({"replicas": 2.0}), ".spec.replicas accessor error: 2 is of the type float64, expected int64"),
    ] {
        let refused = asked(&client, ("POST", "/apis/a.ex.io/v1/things"), Some(&object("b", spec)), 422).await?;
        assert!(refused["message"].as_str().is_some_and(|told| told.contains(why)), "{refused}");
    }
    asked(&client, ("POST", "/apis/a.ex.io/v1/things"), Some(&object("a", json!({"n": 7.0}))), 201).await?;
    let answer = client.ask(&Request { method: "GET", target: "/apis/a.ex.io/v1/things/a", body: None }).await?;
    assert!(String::from_utf8_lossy(&answer.body).contains(r#""spec":{"n":7}"#), "{}", String::from_utf8_lossy(&answer.body));
    Ok(())
}

/// Creates a definition that is as large as etcd takes it, but for less than a condition has.
async fn create_largest(client: &Client, group: &str) -> Outcome {
    let small = asked(client, ("POST", &format!("{DEFINITIONS}?dryRun=All")), Some(&definition(group, "things", "v1", 0)), 201).await?;
    // What is stored has a few bytes more than what is shown, and so has the request.
    let most = ETCD_BYTES_MAX - small.to_string().len();
    for less in (0..STEPS).map(|step| step * STEP) {
        let body = definition(group, "things", "v1", most - less).to_string();
        let answer = client.ask(&Request { method: "POST", target: DEFINITIONS, body: Some(body.as_bytes()) }).await?;
        if answer.status == 201 {
            return Ok(());
        }
    }
    Err("etcd takes none of them".into())
}

/// A definition of a cluster-scoped resource with a description of this length.
fn definition(group: &str, plural: &str, version: &str, bytes: usize) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": "x".repeat(bytes)});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

pub(super) async fn served(client: &Client, collection: &str) -> Outcome {
    let began = Instant::now();
    loop {
        let answer = client.ask(&Request { method: "GET", target: collection, body: None }).await?;
        if answer.status == 200 {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("{collection}: {} {}", answer.status, String::from_utf8_lossy(&answer.body)).into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn established(client: &Client, name: &str) -> Outcome {
    let began = Instant::now();
    loop {
        let object = asked(client, ("GET", &format!("{DEFINITIONS}/{name}")), None, 200).await?;
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        if conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True") {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("never established: {object}").into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn reads(client: &Client) -> Result<u64, Failure> {
    let answer = client.fetch("/metrics").await?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let line = text.lines().find(|line| line.starts_with("watchcache_definitions_read_total "));
    Ok(line.and_then(|line| line.rsplit(' ').next()).ok_or("no such metric")?.parse()?)
}
