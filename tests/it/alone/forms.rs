//! What the forms of answers must not do to the objects, and what only a whole server shows of them.

use serde_json::json;

use super::{Alone, Failure, Outcome, asked};
use crate::client::Client;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const PART: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A HorizontalPodAutoscaler was taken as autoscaling/v1, which was not converted, and stored as a v2 without anything that v2 does not know of it; a PATCH
/// took the metrics out of one that was there.
#[tokio::test]
async fn an_older_version_takes_nothing_away() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let scalers = |version| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let one = |version| scalers(version) + "/a";
    let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
    let metrics =
        json!([{"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 55}}}]);
    let new = json!({"metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3, "metrics": metrics}});
    asked(&client, ("POST", &scalers("v2")), Some(&new), 201).await?;
    let mut old = asked(&client, ("PATCH", &one("v1")), Some(&json!({"metadata": {"labels": {"a": "b"}}})), 200).await?;
    old["spec"]["maxReplicas"] = 4.into();
    asked(&client, ("PUT", &one("v1")), Some(&old), 200).await?;
    let kept = asked(&client, ("GET", &one("v2")), None, 200).await?;
    assert_eq!((&kept["spec"]["metrics"], &kept["spec"]["maxReplicas"]), (&metrics, &json!(4)));
    assert_eq!(kept["metadata"].get("annotations"), None);
    Ok(())
}

/// Recorded from kube-apiserver 1.36.3, which finds out when it converts the list of what it has deleted.
#[tokio::test]
async fn a_deleted_collection_is_shown_as_asked_or_not_at_all() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let included = format!("{SECRETS}?includeObject=Foo");
    for (target, accept, status, text) in [
        (SECRETS, PART, 406, "you requested PartialObjectMetadata, but the requested object is a list (*core.SecretList)"),
        (&included, TABLE, 400, "Unable to convert to Table as requested: includeObject: Invalid value: \\\"Foo\\\": must be"),
    ] {
        asked(&client, ("POST", SECRETS), Some(&json!({"metadata": {"name": "a"}})), 201).await?;
        let (told, body) = shown(&client, "DELETE", target, accept).await?;
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(told == status && body.contains(text), "{told} {body}");
        let left = asked(&client, ("GET", SECRETS), None, 200).await?;
        assert_eq!(left["items"], json!([]), "they are deleted all the same");
    }
    Ok(())
}

/// Long lists are made on other threads, short ones where they are asked for.
#[tokio::test]
async fn lists_of_any_length_come_in_every_form() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let data = "x: 1\n".repeat(10_000);
    let mut there = 0;
    for objects in [0, 1, 8] {
        while there < objects {
            there += 1;
            let secret = json!({"metadata": {"name": format!("s{there}")}, "stringData": {"k": data}});
            asked(&client, ("POST", SECRETS), Some(&secret), 201).await?;
        }
        let count = asked(&client, ("GET", SECRETS), None, 200).await?["items"].as_array().map_or(0, Vec::len);
        assert_eq!(count, objects);
        for (accept, mark) in [
            (PROTOBUF, "k8s\0"),
            ("application/yaml", "apiVersion: v1\nitems:"),
            ("application/json;pretty=1", "{\n  \"kind\": \"SecretList\""),
        ] {
            let (status, body) = shown(&client, "GET", SECRETS, accept).await?;
            assert!(status == 200 && body.starts_with(mark.as_bytes()), "{objects} {accept}: {status}");
            assert!(body.len() > objects * 50_000, "{objects} {accept}: {}", body.len());
        }
    }
    Ok(())
}

async fn shown(client: &Client, method: &str, target: &str, accept: &str) -> Result<(u16, Vec<u8>), Failure> {
    let whole = client.whole(method, target, &[("Accept".to_owned(), accept.to_owned())], b"").await?;
    Ok((whole.status, whole.body))
}

/// The answer of a write is what a GET says of the object then, byte for byte.
#[tokio::test]
async fn a_write_answers_as_a_get_does() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
    let scaler =
        json!({"metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70}});
    let role = json!({"metadata": {"name": "a", "labels": {"z": "1", "a": "2"}, "annotations": {"b": "<3>"}}, "rules": []});
    for (collection, object) in [
        (SECRETS, json!({"metadata": {"name": "a"}, "stringData": {"k": "v"}})),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", role),
        ("/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", scaler),
    ] {
        let one = format!("{collection}/a");
        for accept in ["application/json", "application/json;pretty=1", "application/yaml", PROTOBUF, PART] {
            let patch = json!({"metadata": {"annotations": {"told-as": accept}}});
            for (method, target, body, kind, code) in [
                ("POST", collection, &object, "application/json", 201),
                ("PATCH", &*one, &patch, "application/merge-patch+json", 200),
                ("PUT", &*one, &object, "application/json", 200),
            ] {
                let headers = [("Accept", accept), ("Content-Type", kind)].map(|(name, value)| (name.to_owned(), value.to_owned()));
                let written = client.whole(method, target, &headers, body.to_string().as_bytes()).await?;
                let (status, read) = shown(&client, "GET", &one, accept).await?;
                assert_eq!((written.status, status), (code, 200), "{method} {target}: {}", String::from_utf8_lossy(&written.body));
                assert!(
                    written.body == read,
                    "{method} {target} {accept}:\n{}\n{}",
                    String::from_utf8_lossy(&written.body),
                    String::from_utf8_lossy(&read)
                );
            }
            asked(&client, ("DELETE", &one), None, 200).await?;
        }
    }
    Ok(())
}
