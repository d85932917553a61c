//! Lists in gzip are put together from blocks that other lists left: each must be what it would have been without.

use std::{io::Read, time::Duration};

use flate2::read::GzDecoder;
use serde_json::json;

use super::{Alone, Failure, Outcome, asked};
use crate::client::{Client, Whole};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PART: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const OBJECTS: usize = 120;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_in_gzip_are_the_lists() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, stored: bool| json!({"name": name, "served": true, "storage": stored, "schema": schema});
    let definition = json!({
        "metadata": {"name": "widgets.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Namespaced", "versions": [version("v1", true), version("v2", false)],
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        },
    });
    asked(&client, ("POST", DEFINITIONS), Some(&definition), 201).await?;
    let widgets = |version: &str| format!("/apis/ex.io/{version}/namespaces/default/widgets");
    while client.fetch(&widgets("v1")).await?.status != 200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut there = 0;
    for round in 0..4 {
        // In each round there are more objects, and some of those that were there have changed or gone.
        while there < OBJECTS / 2 + round * OBJECTS / 6 {
            there += 1;
            let (metadata, text) =
                (json!({"name": format!("o-{there:03}"), "labels": {"third": (there % 3).to_string()}}), "text ".repeat(900));
            asked(&client, ("POST", MAPS), Some(&json!({"metadata": metadata, "data": {"text": text}})), 201).await?;
            let widget = json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": metadata, "data": text});
            asked(&client, ("POST", &widgets("v1")), Some(&widget), 201).await?;
        }
        for target in [MAPS.to_owned(), widgets("v1")] {
            let change = json!({"metadata": {"annotations": {"round": round.to_string().repeat(round + 1)}}});
            asked(&client, ("PATCH", &format!("{target}/o-{:03}", 10 * round + 7)), Some(&change), 200).await?;
            asked(&client, ("DELETE", &format!("{target}/o-{:03}", 10 * round + 3)), None, 200).await?;
        }
        let newest = asked(&client, ("GET", &format!("{MAPS}?limit=1")), None, 200).await?;
        // At a revision, so that a write of the server's own comes into none of them.
        let at = newest["metadata"]["resourceVersion"].as_str().ok_or("no revision")?;
        for target in [MAPS, "/api/v1/configmaps", &widgets("v1"), &widgets("v2"), "/apis/ex.io/v1/widgets"] {
            let forms: &[&str] = if target.contains("ex.io") { &[JSON, PART] } else { &[JSON, PROTOBUF, PART] };
            for accept in forms {
                for query in ["", "&labelSelector=third=1", "&limit=37", "&fieldSelector=metadata.name!=o-020"] {
                    compared(&client, &format!("{target}?resourceVersionMatch=Exact&resourceVersion={at}{query}"), accept)
                        .await
                        .map_err(|why| format!("round {round}: {why}"))?;
                }
            }
        }
    }
    let metrics = String::from_utf8(client.fetch("/metrics").await?.body.to_vec())?;
    let counted = |result: &str| -> Option<u64> {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("watchcache_list_blocks_total{{result=\"{result}\"}} ")))?;
        line.parse().ok()
    };
    let (shared, compressed) = (counted("shared").ok_or("no count")?, counted("compressed").ok_or("no count")?);
    assert!(shared > compressed && compressed > 10, "{shared} shared, {compressed} compressed");
    Ok(())
}

/// The same list plain, in gzip that may have to be made, and in gzip that is there.
async fn compared(client: &Client, target: &str, accept: &str) -> Result<(), Failure> {
    let ask = async |gzip: bool| -> Result<Whole, Failure> {
        let mut headers = vec![("Accept".to_owned(), accept.to_owned())];
        headers.extend(gzip.then(|| ("Accept-Encoding".to_owned(), "gzip".to_owned())));
        Ok(client.whole("GET", target, &headers, b"").await?)
    };
    let plain = ask(false).await?;
    for _ in 0..2 {
        let zipped = ask(true).await?;
        let is_zipped = zipped.header("content-encoding").any(|encoding| encoding == "gzip");
        let body = if is_zipped { inflated(&zipped.body)? } else { zipped.body.clone() };
        if is_zipped != (plain.body.len() > 131_072) || body != plain.body || (zipped.status, plain.status) != (200, 200) {
            let what = format!("{} bytes instead of {}, in gzip: {is_zipped}", body.len(), plain.body.len());
            return Err(format!("{target} as {accept}: {} {what}", zipped.status).into());
        }
    }
    Ok(())
}

fn inflated(body: &[u8]) -> Result<Vec<u8>, Failure> {
    let (mut text, mut decoder) = (Vec::new(), GzDecoder::new(body));
    decoder.read_to_end(&mut text)?;
    if decoder.into_inner().is_empty() { Ok(text) } else { Err("something follows the end".into()) }
}
