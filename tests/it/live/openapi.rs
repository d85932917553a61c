//! The OpenAPI documents of ours and of kube-apiserver, member by member, and what each says in protobuf.

use std::{io, time::Duration};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Outcome, floor::stand, objects, say};
use crate::client::Client;

/// Paths that ours does not serve: streams to a kubelet or through the server.
const NOT_SERVED: &[&str] = &["/attach", "/exec", "/log", "/portforward", "/proxy"];
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Definitions of these tests: what kube-apiserver shows of them, its times and ids left out.
const RECORDED: &str = include_str!("../../data/openapi/v2.jsonl");
/// How often both are looked at before what is different counts: kube-apiserver tells of a definition after a second or two.
const TRIES: usize = 60;
/// Differences that are printed; all are counted.
const PRINTED: usize = 20;

#[tokio::test]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn openapi() -> Outcome {
    let floor = stand().await?;
    let theirs = floor.theirs();
    let (_running, address) = floor.secured("openapi").await?;
    let ours = floor.site.client(address);
    let mut made = Vec::new();
    for row in RECORDED.lines().map(serde_json::from_str::<Value>) {
        let Some(shown) = row?.get("shown").cloned() else { continue };
        let definition =
            json!({"apiVersion": shown["apiVersion"], "kind": shown["kind"], "metadata": shown["metadata"], "spec": shown["spec"]});
        made.push((DEFINITIONS.to_owned(), definition));
    }
    objects::create(&theirs, made).await?;
    let mut found = Vec::new();
    for _ in 0..TRIES {
        found = differences(&ours, &theirs).await?;
        if found.is_empty() {
            break;
        }
        sleep(Duration::from_millis(500)).await;
    }
    for difference in found.iter().take(PRINTED) {
        say(&format!("live openapi: {difference}"));
    }
    if !found.is_empty() {
        return Err(format!("{} differences", found.len()).into());
    }
    for (client, of) in [(&ours, "ours"), (&theirs, "theirs")] {
        let compared = protobuf(client).await.map_err(|error| format!("protobuf of {of}: {error}"))?;
        say(&format!("live openapi: {compared} documents of {of} say the same in protobuf"));
    }
    Ok(())
}

/// What the documents differ in, but for what is not served.
async fn differences(ours: &Client, theirs: &Client) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let (mine, other) = (paths(ours).await?, paths(theirs).await?);
    if mine != other {
        return Ok(vec![format!("the index: {mine:?} and {other:?}")]);
    }
    for path in mine.iter().map(|path| format!("/openapi/v3/{path}")).chain(["/openapi/v2".to_owned()]) {
        let (mut mine, mut other) = (json_of(ours, &path).await?, json_of(theirs, &path).await?);
        strip(&mut other);
        // What only operations use that are not served goes with them.
        let used = mine.to_string();
        for place in ["/parameters", "/components/schemas", "/definitions"] {
            if let Some(Value::Object(members)) = other.pointer_mut(place) {
                members.retain(|name, _| used.contains(&format!("/{name}\"")) || place != "/parameters");
            }
        }
        strip(&mut mine);
        compare(&path, &mine, &other, &mut found);
    }
    Ok(found)
}

/// Takes away what ours does not serve.
fn strip(document: &mut Value) {
    let Some(paths) = document.get_mut("paths").and_then(Value::as_object_mut) else { return };
    let is_served = |path: &str| {
        let path = path.strip_suffix("/{path}").unwrap_or(path);
        !NOT_SERVED.iter().any(|end| path.ends_with(end))
    };
    paths.retain(|path, _| is_served(path));
}

fn compare(place: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(mine), Value::Object(other)) => {
            for (name, value) in other {
                match mine.get(name) {
                    Some(own) => compare(&format!("{place} | {name}"), own, value, found),
                    None => found.push(format!("{place} | {name}: only theirs")),
                }
            }
            found.extend(mine.keys().filter(|name| !other.contains_key(*name)).map(|name| format!("{place} | {name}: only ours")));
        }
        (Value::Array(mine), Value::Array(other)) if mine.len() == other.len() => {
            mine.iter().zip(other).enumerate().for_each(|(at, (own, value))| compare(&format!("{place} | {at}"), own, value, found));
        }
        _ if ours == theirs => {}
        _ => found.push(format!("{place}: {ours} and {theirs}")),
    }
}

/// Whether each document in protobuf is what is made of its JSON; how many there are. Words are compared: the order of members inside of values of
/// any type is another one.
async fn protobuf(client: &Client) -> Result<usize, Box<dyn std::error::Error>> {
    let documents = paths(client).await?.into_iter().map(|path| (format!("/openapi/v3/{path}"), 3)).chain([("/openapi/v2".to_owned(), 2)]);
    let mut compared = 0;
    for (path, version) in documents {
        let json = get(client, &path, "application/json").await?;
        let told = get(client, &path, &format!("application/com.github.proto-openapi.spec.v{version}.v1.0+protobuf")).await?;
        let made = catalogue::openapi::protobuf_of(version == 2, &json);
        if words(&made) != words(&told) {
            return Err(format!("{path}: {} and {} bytes", made.len(), told.len()).into());
        }
        compared += 1;
    }
    Ok(compared)
}

fn words(message: &[u8]) -> Vec<&[u8]> {
    let mut words: Vec<&[u8]> = message.split(|byte| b"\n -".contains(byte)).collect();
    words.sort_unstable();
    words
}

async fn paths(client: &Client) -> io::Result<Vec<String>> {
    let index = json_of(client, "/openapi/v3").await?;
    let paths = index["paths"].as_object().ok_or_else(|| io::Error::other("the index has no paths"))?;
    Ok(paths.keys().cloned().collect())
}

async fn json_of(client: &Client, path: &str) -> io::Result<Value> {
    Ok(serde_json::from_slice(&get(client, path, "application/json").await?)?)
}

async fn get(client: &Client, path: &str, accept: &str) -> io::Result<Vec<u8>> {
    let answer = client.whole("GET", path, &[("Accept".to_owned(), accept.to_owned())], &[]).await?;
    if answer.status == 200 { Ok(answer.body) } else { Err(io::Error::other(format!("{path}: {}", answer.status))) }
}
