//! Values that clients write, and what kube-apiserver 1.36.3 makes of them: numbers, labels, taints, options of DELETE.

use serde_json::{Value, json};

use super::{Alone, Outcome, asked, definitions::served};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const NODES: &str = "/api/v1/nodes";
const NUMBERS: &str = "/apis/ex.io/v1/numbers";

fn definition() -> Value {
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "least": {"type": "integer", "minimum": 5},
        "bound": {"type": "integer", "minimum": -9_223_372_036_854_775_808_i64},
    }});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let names = json!({"plural": "numbers", "singular": "number", "kind": "Number", "listKind": "NumberList"});
    json!({"metadata": {"name": "numbers.ex.io"}, "spec": {"group": "ex.io", "scope": "Cluster", "names": names, "versions": [version]}})
}

/// Both are stored alike; kube-apiserver compares a float with an integer all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_written_as_float_is_another_one() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    asked(&client, ("POST", DEFINITIONS), Some(&definition()), 201).await?;
    let object = |spec: Value| json!({"apiVersion": "ex.io/v1", "kind": "Number", "metadata": {"name": "x"}, "spec": spec});
    served(&client, NUMBERS).await?;
    asked(&client, ("POST", NUMBERS), Some(&object(json!({"a": 1, "z": 0}))), 201).await?;
    let one = format!("{NUMBERS}/x");
    for (patch, generation) in [
        (json!({"spec": {"a": 1.0}}), 2),
        (json!({"spec": {"z": -0.0}}), 3),
        (json!({"spec": {"a": 1}}), 3),
        (json!({"metadata": {"annotations": {"a": "b"}}}), 3),
        (json!({"spec": {"a": 1.0}}), 4),
    ] {
        let changed = asked(&client, ("PATCH", &one), Some(&patch), 200).await?;
        assert_eq!(changed["metadata"]["generation"], generation, "{patch}");
        assert_eq!(changed["spec"], json!({"a": 1, "z": 0}), "{patch}");
    }
    let refused = asked(&client, ("PATCH", &one), Some(&json!({"spec": {"least": -0.0}})), 422).await?;
    let why = "Number.ex.io \"x\" is invalid: spec.least: Invalid value: -0: spec.least in body should be greater than or equal to 5";
    assert_eq!(refused["message"], why);
    let refused = asked(&client, ("PATCH", &one), Some(&json!({"spec": {"bound": 1}})), 422).await?;
    let why = "<nil>: Invalid value: \"\": Minimum boundary value must be of type integer (default format) in spec.bound";
    assert_eq!(refused["message"], format!("Number.ex.io \"x\" is invalid: {why}"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_has_the_labels_of_its_template() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let job = |metadata: Value, labels: Value| {
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        json!({"metadata": metadata, "spec": {"template": {"metadata": {"labels": labels}, "spec": pod}}})
    };
    for query in ["?dryRun=All", ""] {
        let create = |metadata: Value, labels: Value| {
            let (client, path) = (&client, format!("{JOBS}{query}"));
            async move { asked(client, ("POST", &path), Some(&job(metadata, labels)), 201).await }
        };
        let named = create(json!({"name": "a"}), json!({"a": "b"})).await?;
        assert_eq!(named["metadata"]["labels"], named["spec"]["template"]["metadata"]["labels"], "{query}");
        assert_eq!(named["metadata"]["labels"].as_object().map(serde_json::Map::len), Some(5));
        let generated = create(json!({"generateName": "g-"}), json!({"a": "b"})).await?;
        assert_eq!(generated["metadata"]["labels"], json!({"a": "b"}), "those of the controller come later");
        for metadata in [json!({"name": "n"}), json!({"generateName": "g-"})] {
            let bare = create(metadata, Value::Null).await?;
            assert_eq!(bare["metadata"]["labels"], bare["spec"]["template"]["metadata"]["labels"], "{query}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_node_is_not_ready() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let other = json!({"key": "a", "effect": "NoSchedule"});
    for (name, sent, taints) in [
        ("n1", json!([]), json!([not_ready])),
        ("n2", json!([other]), json!([other, not_ready])),
        ("n3", json!([not_ready]), json!([not_ready])),
    ] {
        let node = json!({"metadata": {"name": name}, "spec": {"taints": sent}});
        assert_eq!(asked(&client, ("POST", NODES), Some(&node), 201).await?["spec"]["taints"], taints);
    }
    let ready = asked(&client, ("PATCH", &format!("{NODES}/n1")), Some(&json!({"spec": {"taints": null}})), 200).await?;
    assert_eq!(ready["spec"], json!({}), "only a new one gets it");
    Ok(())
}

/// Of objects that can be read the option says nothing, as with its gate's default in 1.36.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_option_for_what_cannot_be_read_is_ignored() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let (one, query) = (format!("{MAPS}/a"), format!("{MAPS}?{option}=true&dryRun=All"));
    asked(&client, ("POST", MAPS), Some(&json!({"metadata": {"name": "a"}})), 201).await?;
    asked(&client, ("DELETE", &query), None, 200).await?;
    asked(&client, ("DELETE", &format!("{one}?{option}=true&dryRun=All")), None, 200).await?;
    for (number, shown) in [("1e400", "1e400"), ("99999999999999999999", "99999999999999999999"), ("1.50", "1.50")] {
        let refused = sent(&server, &one, &format!(r#"{{"gracePeriodSeconds":{number}}}"#)).await?;
        let why = format!("json: cannot unmarshal number {shown} into Go struct field DeleteOptions.gracePeriodSeconds of type int64");
        assert_eq!(refused["message"], why);
    }
    asked(&client, ("DELETE", &one), Some(&json!({option: true})), 200).await?;
    asked(&client, ("GET", &one), None, 404).await?;
    Ok(())
}

/// Sends a DELETE with this text.
async fn sent(server: &Alone, path: &str, body: &str) -> Result<Value, super::Failure> {
    let headers = [("content-type".to_owned(), "application/json".to_owned())];
    let answer = server.client().whole("DELETE", path, &headers, body.as_bytes()).await?;
    Ok(serde_json::from_slice(&answer.body)?)
}

/// Texts of errors and warnings about what an apply and a webhook were given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_have_the_texts_of_the_real_server() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let headers = [("content-type".to_owned(), "application/apply-patch+yaml".to_owned())];
    let twice = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {x: '1', x: '2'}\n";
    let applied = client.whole("PATCH", &format!("{MAPS}/m?fieldManager=m"), &headers, twice).await?;
    let warnings: Vec<&str> = applied.header("warning").collect();
    assert_eq!(warnings, [r#"299 - "line 4: key \"x\" already set in map""#]);
    let secret = br#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"a":"aGk"}}"#;
    let path = "/api/v1/namespaces/default/secrets";
    let refused = client.whole("PATCH", &format!("{path}/s?fieldManager=m"), &headers, secret).await?;
    let refused: Value = serde_json::from_slice(&refused.body)?;
    let why = "unable to convert unstructured object to /v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 0";
    assert_eq!(refused["message"], format!("failed to convert new object (/s; /v1, Kind=Secret) to proper version: {why}"));
    let body = json!({"metadata": {"name": "s"}, "data": {"a": "aGk=="}});
    let refused = asked(&client, ("POST", path), Some(&body), 400).await?;
    assert!(refused["message"].as_str().is_some_and(|why| why.ends_with("illegal base64 data at input byte 4")), "{refused}");
    let mut definition = definition();
    let service = json!({"namespace": "nope", "name": "hook"});
    definition["spec"]["conversion"] =
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}}});
    let mut other = definition["spec"]["versions"][0].clone();
    (other["name"], other["storage"]) = (json!("v2"), json!(false));
    definition["spec"]["versions"].as_array_mut().ok_or("no versions")?.push(other);
    asked(&client, ("POST", DEFINITIONS), Some(&definition), 201).await?;
    let numbers = "/apis/ex.io/v2/numbers";
    served(&client, numbers).await?;
    let object = json!({"apiVersion": "ex.io/v2", "kind": "Number", "metadata": {"name": "x"}});
    let failed = asked(&client, ("POST", numbers), Some(&object), 500).await?;
    assert!(failed["message"].as_str().is_some_and(|why| why.contains("https://hook.nope.svc:443/?timeout=30s")), "{failed}");
    Ok(())
}
