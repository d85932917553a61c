//! Server-side apply and managed fields on the embedded store; what kube-apiserver 1.36.3 answered is written down here, `tests/differential/apply.py` compares
//! at random.

use serde_json::{Value, json};

use super::{Alone, Failure, Outcome, asked, revision};
use crate::client::Client;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/a";

/// A request for a certificate, as a CertificateSigningRequest has it.
pub(super) const SIGNING_REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIU01Ib0NBUUF3R0RFS01BZ0dBMVVFQ2d3Qlp6RUtNQWdHQTFVRUF3d0JkVEJaTUJNR0J5cUdTTTQ5QWdFRwpDQ3FHU000OUF3RUhBMElBQkwyNE5Ua3JNMThGNWdsV2ZseVFzWHQ5MXRzUlJ0RGdDdmREK2lVaUtJamxUZGdVCjlqdHRvOVNPU1piYlBUby9oekZaL2VJRTVGWlFyRGlGR0tzNWlUMmdBREFLQmdncWhrak9QUVFEQWdOSUFEQkYKQWlFQWxsb2pMb3F1K0c1UVV5ZktoMlgvbnZZRzBTQkh0em83OWFLN212cUhaZE1DSUIxK1hoSWg3aFRHVlVDbQpNamp3eVFlc1N1ZWNrVVN4YSswS2ZJZDlXeUNxCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";

/// Applies a configuration that must be answered with this status; the answer.
async fn applied(client: &Client, target: &str, configuration: &str, status: u16) -> Result<Value, Failure> {
    let media = [("content-type".to_owned(), "application/apply-patch+yaml".to_owned())];
    let answer = client.whole("PATCH", target, &media, configuration.as_bytes()).await?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    if answer.status != status {
        return Err(format!("apply to {target}: {} {text}", answer.status).into());
    }
    Ok(serde_json::from_str(&text)?)
}

fn map(data: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}).to_string()
}

/// Who manages what, as (manager, operation, subresource, fields).
fn managers(object: &Value) -> Vec<(&str, &str, &str, &Value)> {
    let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    entries
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default();
            (text("manager"), text("operation"), text("subresource"), &entry["fieldsV1"])
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn managers_share_an_object() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let first = applied(&client, &format!("{MAP}?fieldManager=one"), &map(&json!({"k": "1", "l": "1"})), 201).await?;
    assert_eq!(managers(&first), [("one", "Apply", "", &json!({"f:data": {"f:k": {}, "f:l": {}}}))]);

    // The same again is no write.
    let again = applied(&client, &format!("{MAP}?fieldManager=one"), &map(&json!({"k": "1", "l": "1"})), 200).await?;
    assert_eq!(again, first);

    let refused = applied(&client, &format!("{MAP}?fieldManager=two"), &map(&json!({"k": "2", "m": "2"})), 409).await?;
    assert_eq!(refused["message"], r#"Apply failed with 1 conflict: conflict with "one": .data.k"#);
    let cause = json!({"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.k"});
    assert_eq!((&refused["reason"], &refused["details"]["causes"]), (&json!("Conflict"), &json!([cause])));

    let forced = applied(&client, &format!("{MAP}?fieldManager=two&force=true"), &map(&json!({"k": "2", "m": "2"})), 200).await?;
    assert_eq!(forced["data"], json!({"k": "2", "l": "1", "m": "2"}));

    // What a manager names no longer goes, if nobody else manages it.
    let less = applied(&client, &format!("{MAP}?fieldManager=one"), &map(&json!({})), 200).await?;
    assert_eq!(less["data"], json!({"k": "2", "m": "2"}));

    // An update takes over what it changes; the user agent is the manager of who names none.
    let mut changed = less.clone();
    changed["data"]["m"] = "3".into();
    let updated = asked(&client, ("PUT", &format!("{MAP}?fieldManager=editor")), Some(&changed), 200).await?;
    let entries = managers(&updated);
    assert!(entries.contains(&("editor", "Update", "", &json!({"f:data": {"f:m": {}}}))), "{entries:?}");
    assert!(entries.contains(&("two", "Apply", "", &json!({"f:data": {"f:k": {}}}))), "{entries:?}");
    let same = asked(&client, ("PUT", &format!("{MAP}?fieldManager=editor")), Some(&updated), 200).await?;
    assert_eq!(revision(&same)?, revision(&updated)?, "nothing but a time would have changed");

    // An empty list resets.
    let mut reset = updated.clone();
    reset["metadata"]["managedFields"] = json!([]);
    let reset = asked(&client, ("PUT", &format!("{MAP}?fieldManager=editor")), Some(&reset), 200).await?;
    assert_eq!(reset["metadata"].get("managedFields"), None);
    Ok(())
}

/// Whoever asks for a certificate is written over what the request says of it, whichever way the request is made: signers believe it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_asks_for_a_certificate_as_somebody_else() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = |name: &str| {
        let spec = json!({"request": SIGNING_REQUEST, "signerName": "ex.io/s", "usages": ["client auth"], "username": "admin", "groups": ["somebody"]});
        json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}, "spec": spec})
            .to_string()
    };
    let posted = client.whole("POST", requests, &[], request("posted").as_bytes()).await?;
    let posted: Value = serde_json::from_slice(&posted.body)?;
    let applied = applied(&client, &format!("{requests}/applied?fieldManager=one"), &request("applied"), 201).await?;
    for made in [&posted, &applied] {
        assert_ne!(made["spec"]["username"], "admin", "{made}");
        assert_ne!(made["spec"]["groups"], json!(["somebody"]), "{made}");
    }
    assert_eq!(posted["spec"], applied["spec"]);
    Ok(())
}

/// What a conversion to the internal type adds belongs to whoever wrote the object.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_decoding_adds_has_a_manager() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let pods =
        json!({"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": pods.clone()}});
    let made = client.whole("POST", "/apis/batch/v1/namespaces/default/jobs", &[], job.to_string().as_bytes()).await?;
    let made: Value = serde_json::from_slice(&made.body)?;
    assert_eq!(managers(&made)[0].3["f:metadata"], json!({"f:labels": {".": {}, "f:app": {}}}), "{made}");
    let mut always = pods;
    always["spec"]["restartPolicy"] = "Always".into();
    let spec = json!({"selector": {"matchLabels": {"app": "x"}}, "template": always});
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a"}, "spec": spec});
    let made = client.whole("POST", "/apis/apps/v1/namespaces/default/daemonsets", &[], set.to_string().as_bytes()).await?;
    let made: Value = serde_json::from_slice(&made.body)?;
    let annotation = json!({"f:annotations": {".": {}, "f:deprecated.daemonset.template.generation": {}}});
    assert_eq!(managers(&made)[0].3["f:metadata"], annotation, "{made}");
    Ok(())
}

/// A status that is written in another version takes no field of the spec from anybody; and a definition that goes lets nothing new in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_of_two_versions_are_applied() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let fields = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": fields, "status": fields}}});
    let version =
        |name: &str| json!({"name": name, "served": true, "storage": name == "v1", "subresources": {"status": {}}, "schema": schema});
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    let definition = json!({"metadata": {"name": "things.ex.io", "finalizers": ["ex.io/stay"]},
        "spec": {"group": "ex.io", "scope": "Namespaced", "names": names, "versions": [version("v1"), version("v1beta1")]}});
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    asked(&client, ("POST", DEFINITIONS), Some(&definition), 201).await?;
    let things = |version: &str, name: &str| format!("/apis/ex.io/{version}/namespaces/default/things/{name}");
    let began = std::time::Instant::now();
    while client.fetch(&things("v1beta1", "")).await?.status != 200 {
        assert!(began.elapsed() < super::PATIENCE, "it is not served");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let thing =
        |name: &str| json!({"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"a": 1, "b": 1}}).to_string();
    let made = applied(&client, &format!("{}?fieldManager=one", things("v1", "t")), &thing("t"), 201).await?;
    let status = json!({"spec": {"a": 2}, "status": {"a": 1}}).to_string();
    let media = [("content-type".to_owned(), "application/merge-patch+json".to_owned())];
    let target = format!("{}?fieldManager=two", things("v1beta1", "t/status"));
    let answer = client.whole("PATCH", &target, &media, status.as_bytes()).await?;
    let after: Value = serde_json::from_slice(&answer.body)?;
    assert_eq!((answer.status, managers(&after)[0]), (200, managers(&made)[0]), "{after}");
    assert_eq!(after["spec"], json!({"a": 1, "b": 1}));

    // The definition is Terminating as long as one of its objects is there; once none is, new ones are taken again.
    let held = json!({"metadata": {"finalizers": ["ex.io/stay"]}}).to_string();
    let answer = client.whole("PATCH", &things("v1", "t"), &media, held.as_bytes()).await?;
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    asked(&client, ("DELETE", &format!("{DEFINITIONS}/things.ex.io")), None, 200).await?;
    let refused = loop {
        let media = [("content-type".to_owned(), "application/apply-patch+yaml".to_owned())];
        let target = format!("{}?fieldManager=one&dryRun=All", things("v1", "u"));
        let answer = client.whole("PATCH", &target, &media, thing("u").as_bytes()).await?;
        // It is not heard of at once.
        if answer.status != 201 {
            break answer;
        }
        assert!(began.elapsed() < super::PATIENCE, "something new is let in");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let why = serde_json::from_slice::<Value>(&refused.body)?;
    let expected = "things.ex.io \"u\" is forbidden: create not allowed while custom resource definition is terminating";
    assert_eq!((refused.status, &why["message"]), (403, &expected.into()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_configuration_is_told() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let of = |object: Value| object.to_string();
    let metadata = json!({"name": "a"});
    for (target, configuration, status, message) in [
        (
            MAP.to_owned(),
            map(&json!({})),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        (
            format!("{MAP}?fieldManager=m"),
            of(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})),
            400,
            "invalid object type: /v1, Kind=Secret",
        ),
        (format!("{MAP}?fieldManager=m"), "{".to_owned(), 400, "error decoding YAML: error converting YAML to JSON: yaml: "),
        (
            format!("{MAP}?fieldManager=m"),
            of(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "dat": {}})),
            500,
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .dat: field not declared in schema",
        ),
        (
            format!("{MAP}?fieldManager=m"),
            of(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": []}})),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            format!("{MAP}?fieldManager=m"),
            of(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}})),
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
    ] {
        let answer = applied(&client, &target, &configuration, status).await?;
        let told = answer["message"].as_str().unwrap_or_default();
        assert!(told.starts_with(message), "{told}");
    }
    assert_eq!(asked(&client, ("GET", MAPS), None, 200).await?["items"], json!([]), "nothing was made");
    Ok(())
}

/// 1.4 MB with 50,000 fields, lists a hundred deep, and forged managers: each is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_and_forged_ones_are_bounded() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let many: serde_json::Map<String, Value> = (0..50_000).map(|nth| (format!("key-{nth:08}"), "value".into())).collect();
    let began = std::time::Instant::now();
    // With its managers the object is too large for etcd; who does not apply does without them.
    let refused = applied(&client, &format!("{MAP}?fieldManager=m"), &map(&Value::Object(many.clone())), 500).await?;
    assert!(refused["message"].as_str().is_some_and(|told| told.contains("larger than max")), "{refused}");
    let body = json!({"metadata": {"name": "large"}, "data": many});
    let made = asked(&client, ("POST", MAPS), Some(&body), 201).await?;
    assert_eq!(managers(&made), []);
    let mut changed = made.clone();
    changed["data"]["key-00000000"] = "other".into();
    let reset = asked(&client, ("PUT", &format!("{MAPS}/large")), Some(&changed), 200).await?;
    assert_eq!((managers(&reset), &reset["data"]["key-00000000"]), (Vec::new(), &json!("other")));

    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let deep = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{{"a":{deep}}}}}"#);
    applied(&client, &format!("{MAP}?fieldManager=m"), &deep, 500).await?;

    // A thousand managers stay as they are; what is none is dropped.
    let entry = |nth: usize| {
        json!({"manager": format!("m{nth}"), "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {format!("f:k{nth}"): {}}}})
    };
    let entries: Vec<Value> = (0..1000).map(entry).collect();
    let body = json!({"metadata": {"name": "b", "managedFields": entries}, "data": {"k0": "1"}});
    let made = asked(&client, ("POST", MAPS), Some(&body), 201).await?;
    let own = managers(&made).len();
    assert_eq!(own, 1000, "the writer is in the place of the one whose field it wrote");
    let body = json!({"metadata": {"name": "c", "managedFields": [{"manager": "x", "operation": "Bad", "fieldsV1": {"f:a": {"f:b": []}}}]}, "data": {"k": "1"}});
    let made = asked(&client, ("POST", MAPS), Some(&body), 201).await?;
    assert_eq!(managers(&made).len(), 1);
    crate::live::say(&format!("alone apply: large and forged ones were answered within {:?}", began.elapsed()));
    Ok(())
}
