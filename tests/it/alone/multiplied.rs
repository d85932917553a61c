//! Defaults that make megabytes of the few bytes that are stored: what is stored is kept, what a request adds is the request's, and what is too much is said.

use serde_json::{Value, json};

use super::{
    Alone, Failure, Outcome, asked,
    wait::{until, until_status},
};
use crate::client::Client;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OVERVIEW: &str = "/watchcache/api/v1/overview";
/// Bytes of the default of an item.
const DEFAULT: usize = 5_000;
/// Items of an object that is shown, and of one that is not.
const SOME: usize = 1_000;
const MANY: usize = 40_000;
/// What all objects may take beside them, bytes.
const OTHERS: u64 = 1 << 20;

/// An object of 120 KB was held as 200 MB of JSON, at each start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_defaults_multiply_is_kept_as_it_is_stored() -> Outcome {
    let dir = tempfile::tempdir()?;
    let mut server = Alone::start(dir.path()).await?;
    let client = server.client();
    for (group, items) in [("some.ex.io", SOME), ("many.ex.io", MANY)] {
        asked(&client, ("POST", DEFINITIONS), Some(&definition(group, 0)), 201).await?;
        let object =
            json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "x"}, "spec": {"l": vec![json!({}); items]}});
        created(&client, &things(group), &object).await?;
        let spec = &definition(group, DEFAULT)["spec"];
        asked(&client, ("PATCH", &format!("{DEFINITIONS}/things.{group}")), Some(&json!({ "spec": spec })), 200).await?;
    }
    for starts in 0..2 {
        let client = server.client();
        until_status(&client, "/apis/many.ex.io/v1/things", 500).await?;
        let of_many = asked(&client, ("GET", &things("many.ex.io")), None, 500).await?;
        let why = of_many["message"].as_str().unwrap_or_default();
        assert!(why.contains("/many.ex.io/things/x"), "it does not name the object: {why}");
        let shown = until_shown(&client).await?;
        assert_eq!(shown["spec"]["l"].as_array().map(Vec::len), Some(SOME));
        let list = asked(&client, ("GET", &format!("{}?resourceVersion=0", things("some.ex.io"))), None, 200).await?;
        assert_eq!(list["items"], json!([shown]));
        let overview = asked(&client, ("GET", OVERVIEW), None, 200).await?;
        let objects = overview["memory"]["objects"].as_u64().ok_or("no figure")?;
        assert!(objects < OTHERS, "objects take {objects} bytes after {starts} starts");
        server.kill()?;
        server = Alone::start(dir.path()).await?;
    }
    let client = server.client();
    until_status(&client, "/apis/many.ex.io/v1/things", 500).await?;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "ignoreStoreReadErrorWithClusterBreakingPotential": true});
    asked(&client, ("DELETE", &format!("{}/x", things("many.ex.io"))), Some(&options), 200).await?;
    until_status(&client, "/apis/many.ex.io/v1/things", 200).await?;
    Ok(())
}

/// A write of 6 KB took 758 MB, and twice as much when it was not a dry run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_defaults_multiply_is_refused() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    asked(&client, ("POST", DEFINITIONS), Some(&definition("some.ex.io", DEFAULT)), 201).await?;
    let object = |name: &str, items: usize| json!({"apiVersion": "some.ex.io/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"l": vec![json!({}); items]}});
    created(&client, &things("some.ex.io"), &object("few", 2)).await?;
    let all = things("some.ex.io");
    let one = format!("{all}/few");
    for query in ["", "?dryRun=All"] {
        let sent = [
            ("POST", format!("{all}{query}"), object("x", 2 * SOME)),
            ("PUT", format!("{one}{query}"), object("few", 2 * SOME)),
            ("PATCH", format!("{one}{query}"), json!({"spec": {"l": vec![json!({}); 2 * SOME]}})),
        ];
        for (method, target, body) in sent {
            let refused = asked(&client, (method, &target), Some(&body), 413).await?;
            let why = "Request entity too large: defaults would add more than 8388608 bytes to the object";
            assert_eq!(
                (refused["message"].as_str(), refused["reason"].as_str()),
                (Some(why), Some("RequestEntityTooLarge")),
                "{method} {target}"
            );
        }
    }
    let kept = asked(&client, ("GET", &one), None, 200).await?;
    assert_eq!(kept["spec"]["l"].as_array().map(Vec::len), Some(2));
    Ok(())
}

/// Things in a list of which each has a default of so many bytes.
fn definition(group: &str, default: usize) -> Value {
    let mut item = json!({"type": "object", "properties": {"d": {"type": "string"}}});
    if default > 0 {
        item["properties"]["d"]["default"] = "x".repeat(default).into();
    }
    let spec = json!({"type": "object", "properties": {"l": {"type": "array", "items": item}}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn things(group: &str) -> String {
    format!("/apis/{group}/v1/things")
}

/// Creates an object as soon as its resource is served.
async fn created(client: &Client, target: &str, object: &Value) -> Outcome {
    until_status(client, target, 200).await?;
    asked(client, ("POST", target), Some(object), 201).await?;
    Ok(())
}

/// Waits until the object has its defaults.
async fn until_shown(client: &Client) -> Result<Value, Failure> {
    let has_defaults = |object: &Value| object.pointer("/spec/l/999/d").and_then(Value::as_str).is_some_and(|text| text.len() == DEFAULT);
    until(client, &format!("{}/x", things("some.ex.io")), has_defaults).await
}
