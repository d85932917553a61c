//! Storage version migration: a write that changes nothing stores the object again when other bytes are stored than would be now, and only then.

use serde_json::{Value, json};
use store::{Store, StoreConfig};

use super::{Alone, Failure, Outcome, asked, revision};
use crate::client::Client;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ms.ex.io";
const OBJECTS_V2: &str = "/apis/ex.io/v2/namespaces/default/ms";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// The ways in which clients write an object as it is: method, subresource, media type.
const WRITES: [(&str, &str, &str); 8] = [
    ("PATCH", "", MERGE),
    ("PATCH", "/status", MERGE),
    ("PATCH", "/scale", MERGE),
    ("PUT", "", "application/json"),
    ("PUT", "/status", "application/json"),
    ("PUT", "/scale", "application/json"),
    ("PATCH", "", APPLY),
    ("PATCH", "", "application/json-patch+json"),
];

/// A request with this media type that must be answered 200; the answer.
async fn sent(client: &Client, (method, target, media): (&str, &str, &str), body: &Value) -> Result<Value, Failure> {
    let head = [("content-type".to_owned(), media.to_owned())];
    let answer = client.whole(method, target, &head, body.to_string().as_bytes()).await?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    if answer.status != 200 {
        return Err(format!("{method} {target} {media}: {} {text}", answer.status).into());
    }
    Ok(serde_json::from_str(&text)?)
}

fn version(name: &str, storage: bool) -> Value {
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}, "scale": scale}, "schema": {"openAPIV3Schema": schema}})
}

async fn define(client: &Client, versions: &Value) -> Outcome {
    let names = json!({"plural": "ms", "singular": "m", "kind": "M", "listKind": "MList"});
    let spec = json!({"group": "ex.io", "scope": "Namespaced", "names": names, "versions": versions});
    asked(client, ("POST", DEFINITIONS), Some(&json!({"metadata": {"name": "ms.ex.io"}, "spec": spec})), 201).await?;
    Ok(())
}

/// Waits until a path is answered with this status: a definition that was written comes into force in a moment, and stays.
pub(super) async fn answers(client: &Client, target: &str, status: u16) -> Outcome {
    while client.fetch(target).await?.status != status {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Writes an object as it is; the object after that.
async fn touched(client: &Client, object: &str, write: (&str, &str, &str)) -> Result<Value, Failure> {
    let (method, sub, media) = write;
    let target = format!("{object}{sub}");
    let current = asked(client, ("GET", &target), None, 200).await?;
    let body = match (method, media) {
        ("PUT", _) => current,
        (_, APPLY) => json!({"apiVersion": "ex.io/v2", "kind": "M", "metadata": {"name": current["metadata"]["name"]}, "spec": {"x": 1}}),
        (_, MERGE) => json!({}),
        _ => json!([]),
    };
    let query = if media == APPLY { "?fieldManager=applier" } else { "" };
    sent(client, (method, &format!("{target}{query}"), media), &body).await?;
    asked(client, ("GET", object), None, 200).await
}

/// Nothing was written, so the whole resource could not be read once the old version was gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_changes_nothing_moves_an_object_to_the_storage_version() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    define(&client, &json!([version("v1", true)])).await?;
    answers(&client, "/apis/ex.io/v1/ms", 200).await?;
    let name = |at: usize| format!("m{at}");
    for at in 0..WRITES.len() {
        let object = json!({"apiVersion": "ex.io/v1", "kind": "M", "metadata": {"name": name(at)}, "spec": {"replicas": 1}});
        asked(&client, ("POST", "/apis/ex.io/v1/namespaces/default/ms"), Some(&object), 201).await?;
        let applied = json!({"apiVersion": "ex.io/v1", "kind": "M", "metadata": {"name": name(at)}, "spec": {"x": 1}});
        let target = format!("/apis/ex.io/v1/namespaces/default/ms/{}?fieldManager=applier", name(at));
        sent(&client, ("PATCH", &target, APPLY), &applied).await?;
    }
    let moved = json!({"spec": {"versions": [version("v1", false), version("v2", true)]}});
    asked(&client, ("PATCH", DEFINITION), Some(&moved), 200).await?;
    answers(&client, "/apis/ex.io/v2/ms", 200).await?;
    for (at, write) in WRITES.into_iter().enumerate() {
        let object = format!("{OBJECTS_V2}/{}", name(at));
        let before = asked(&client, ("GET", &object), None, 200).await?;
        // A dry run writes nothing.
        sent(&client, ("PATCH", &format!("{object}?dryRun=All"), MERGE), &json!({})).await?;
        let after = touched(&client, &object, write).await?;
        assert!(revision(&after)? > revision(&before)?, "{write:?} has not moved it");
        // A scale that changes nothing moves entries of managed fields, twice, as in kube-apiserver.
        for write in WRITES.into_iter().filter(|write| write.2 != APPLY && write.1 != "/scale") {
            let again = touched(&client, &object, write).await?;
            assert_eq!(revision(&again)?, revision(&after)?, "{write:?} of what is stored as it should be");
        }
    }
    let stored = json!({"status": {"storedVersions": ["v2"]}});
    asked(&client, ("PATCH", &format!("{DEFINITION}/status")), Some(&stored), 200).await?;
    asked(&client, ("PATCH", DEFINITION), Some(&json!({"spec": {"versions": [version("v2", true)]}})), 200).await?;
    answers(&client, "/apis/ex.io/v1/ms", 404).await?;
    let list = asked(&client, ("GET", "/apis/ex.io/v2/ms"), None, 200).await?;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(WRITES.len()));
    asked(&client, ("DELETE", DEFINITION), None, 200).await?;
    answers(&client, DEFINITION, 404).await
}

/// What is stored in another form than the server writes is written again by a write that changes nothing, once: protobuf, members in another order,
/// an older storage version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_changes_nothing_stores_built_ins_as_they_are_stored_now() -> Outcome {
    let dir = tempfile::tempdir()?;
    let store = Store::open(&dir.path().join("data"), StoreConfig::default())?;
    let mut etcd = proto::testing::Client::new(store.channel());
    let metadata = r#"{"name":"NAME","namespace":"default","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z"}"#;
    let canonical = format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata},"data":{{"a":"b"}}}}"#);
    let other_order = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","data":{{"a":"b"}},"metadata":{metadata}}}"#);
    // `k8s\0`, then Unknown{typeMeta: {apiVersion: v1, kind: ConfigMap}, raw: ConfigMap{metadata, data}}.
    let message = [
        delimited(
            1,
            &[text(1, "protobuf"), text(3, "default"), text(5, "u"), delimited(8, &[vec![8], varint(1_767_225_600)].concat())].concat(),
        ),
        delimited(2, &[text(1, "a"), text(2, "b")].concat()),
    ]
    .concat();
    let unknown = [delimited(1, &[text(1, "v1"), text(2, "ConfigMap")].concat()), delimited(2, &message)].concat();
    let protobuf = [b"k8s\0".as_slice(), &unknown].concat();
    let values = [
        ("canonical", format!("{}\n", canonical.replace("NAME", "canonical")).into_bytes()),
        ("order", other_order.replace("NAME", "order").into_bytes()),
        ("protobuf", protobuf),
    ];
    for (name, value) in &values {
        etcd.put((format!("/registry/configmaps/default/{name}"), value.clone())).await?;
    }
    drop(etcd);
    store.close().await;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    for (name, is_written) in [("canonical", false), ("order", true), ("protobuf", true)] {
        let object = format!("/api/v1/namespaces/default/configmaps/{name}");
        let before = asked(&client, ("GET", &object), None, 200).await?;
        assert_eq!(before["data"], json!({"a": "b"}), "{before}");
        let after = sent(&client, ("PATCH", &object, MERGE), &json!({})).await?;
        assert_eq!(revision(&after)? > revision(&before)?, is_written, "{name}");
        let mut same = before.clone();
        same["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"].clone();
        assert_eq!(after, same, "nothing but the revision is another");
        let again = sent(&client, ("PUT", &object, "application/json"), &after).await?;
        assert_eq!(again, after, "{name}");
    }
    Ok(())
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).expect("seven bits") | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).expect("seven bits"));
    bytes
}

fn delimited(field: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn text(field: u64, text: &str) -> Vec<u8> {
    delimited(field, text.as_bytes())
}
