//! A definition that is deleted and made anew with another scope while its resource is followed: what is shown afterwards is the new resource's, and nothing
//! else.

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{NOTICED, SOON};
use crate::{
    alone::asked,
    client::{Client, Request},
    live::Outcome,
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/shapes.fed.example.com";
const SHAPES: &str = "/apis/fed.example.com/v1/shapes";
const IN_DEFAULT: &str = "/apis/fed.example.com/v1/namespaces/default/shapes";

fn definition(scope: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": schema}]);
    let names = json!({"plural": "shapes", "singular": "shape", "kind": "Shape", "listKind": "ShapeList"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "shapes.fed.example.com"},
        "spec": {"group": "fed.example.com", "scope": scope, "names": names, "versions": versions},
    })
}

/// Asks again and again until the answer has this status.
async fn until(client: &Client, (method, path): (&str, &str), body: Option<&Value>, status: u16) -> Outcome {
    let (began, body) = (Instant::now(), body.map(Value::to_string));
    loop {
        let answer = client.ask(&Request { method, target: path, body: body.as_deref().map(str::as_bytes) }).await?;
        if answer.status == status {
            return Ok(());
        }
        if began.elapsed() > NOTICED {
            return Err(format!("{method} {path} gets {}: {}", answer.status, String::from_utf8_lossy(&answer.body)).into());
        }
        sleep(SOON).await;
    }
}

/// Waits until a list from memory has these objects, by namespace and name.
async fn shown(client: &Client, path: &str, wanted: &[&str]) -> Outcome {
    let (began, mut told) = (Instant::now(), String::new());
    while began.elapsed() < NOTICED {
        match asked(client, ("GET", &format!("{path}?resourceVersion=0")), None, 200).await {
            Ok(list) => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let name = |item: &Value| format!("{}/{}", text(&item["metadata"]["namespace"]), text(&item["metadata"]["name"]));
                let names: Vec<String> = list["items"].as_array().into_iter().flatten().map(name).collect();
                if names == wanted {
                    return Ok(());
                }
                told = format!("{names:?}");
            }
            Err(error) => told = error.to_string(),
        }
        sleep(SOON).await;
    }
    Err(format!("{path} shows {told}, not {wanted:?}").into())
}

/// Changes the scope of what is followed.
pub(super) async fn changes(ours: &Client, theirs: &Client) -> Outcome {
    let shape = |name: &str| json!({"apiVersion": "fed.example.com/v1", "kind": "Shape", "metadata": {"name": name}});
    until(theirs, ("POST", DEFINITIONS), Some(&definition("Namespaced")), 201).await?;
    until(theirs, ("POST", IN_DEFAULT), Some(&shape("square")), 201).await?;
    shown(ours, SHAPES, &["default/square"]).await?;
    let watch = ours.watch(&format!("{SHAPES}?watch=1")).await?.map_err(|answer| format!("a watch: {answer:?}"))?;
    until(theirs, ("DELETE", DEFINITION), None, 200).await?;
    until(theirs, ("GET", DEFINITION), None, 404).await?;
    until(theirs, ("POST", DEFINITIONS), Some(&definition("Cluster")), 201).await?;
    until(theirs, ("POST", SHAPES), Some(&shape("round")), 201).await?;
    shown(ours, SHAPES, &["/round"]).await?;
    until(ours, ("GET", IN_DEFAULT), None, 404).await?;
    let mut watch = watch;
    let rest = async {
        let mut told = String::new();
        while let Ok(Some(line)) = watch.next_line().await {
            told.push_str(&String::from_utf8_lossy(&line));
        }
        told
    };
    let told = timeout(NOTICED, rest).await.map_err(|_| "the watch of the resource that is gone goes on")?;
    assert!(told.contains("square") && !told.contains("round"), "{told}");
    // Followed as it is now, by who comes new.
    let watch = ours.watch(&format!("{SHAPES}?watch=1&resourceVersion=0")).await?;
    let mut watch = watch.map_err(|answer| format!("a watch of what is new: {answer:?}"))?;
    let first = timeout(NOTICED, watch.next_line()).await.map_err(|_| "the watch of what is new tells nothing")??;
    assert!(String::from_utf8_lossy(&first.unwrap_or_default()).contains("round"));
    until(theirs, ("DELETE", DEFINITION), None, 200).await
}
