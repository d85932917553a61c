//! Applies across versions of a custom resource: what a manager has said in one version counts in the others, by way of the webhook or without one.

use base64::{Engine, prelude::BASE64_STANDARD};
use client::testing::{Reaction, Server};
use serde_json::{Map, Value, json};

use super::{Alone, Failure, Outcome, asked, migration::answers};
use crate::client::Client;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.ex.io";

async fn applied(client: &Client, version: &str, (name, manager): (&str, &str), spec: &Value) -> Result<(u16, Value), Failure> {
    let target = format!("/apis/ex.io/{version}/namespaces/default/things/{name}?fieldManager={manager}");
    let body = json!({"apiVersion": format!("ex.io/{version}"), "kind": "Thing", "metadata": {"name": name}, "spec": spec});
    let head = [("content-type".to_owned(), "application/apply-patch+yaml".to_owned())];
    let answer = client.whole("PATCH", &target, &head, body.to_string().as_bytes()).await?;
    Ok((answer.status, serde_json::from_slice(&answer.body)?))
}

fn definition(versions: &Value, conversion: &Value) -> Value {
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    let spec = json!({"group": "ex.io", "scope": "Namespaced", "names": names, "versions": versions, "conversion": conversion});
    json!({"metadata": {"name": "things.ex.io"}, "spec": spec})
}

fn version(name: &str, served: bool, storage: bool, spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
    json!({"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

/// Fields end in the number of their version.
fn converted(body: &[u8]) -> Reaction {
    let review: Value = serde_json::from_slice(body).expect("a review");
    let wanted = review["request"]["desiredAPIVersion"].as_str().expect("a version").to_owned();
    let objects = review["request"]["objects"].as_array().expect("objects").iter().map(|object| {
        let mut object = object.clone();
        let spec = object["spec"].as_object().cloned().unwrap_or_default();
        let renamed: Map<String, Value> =
            spec.into_iter().map(|(name, value)| (format!("{}{}", &name[..1], &wanted[wanted.len() - 1..]), value)).collect();
        object["spec"] = renamed.into();
        object["apiVersion"] = wanted.as_str().into();
        object
    });
    let response =
        json!({"uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects.collect::<Vec<_>>()});
    Reaction::json(&json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}))
}

/// What was merged went back to the stored version with another `apiVersion` and the fields of the first one: 500.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_apply_asks_the_webhook_whichever_version_the_object_is_in() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let (client, hook) = (server.client(), Server::start(|request| converted(&request.body)).await);
    let fields = |number: u8| {
        let field = |letter: &str| (format!("{letter}{number}"), json!({"type": "string"}));
        Value::Object(["a", "b", "c"].map(field).into_iter().collect())
    };
    let versions = |first_is_served: bool| {
        json!([
            version("v1", first_is_served, false, &fields(1)),
            version("v2", true, true, &fields(2)),
            version("v3", true, false, &fields(3))
        ])
    };
    let place = json!({"url": format!("{}/", hook.url()), "caBundle": BASE64_STANDARD.encode(hook.ca_pem())});
    let conversion = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": place}});
    asked(&client, ("POST", DEFINITIONS), Some(&definition(&versions(true), &conversion)), 201).await?;
    answers(&client, "/apis/ex.io/v1/things", 200).await?;
    for name in ["a", "b", "c", "d"] {
        assert_eq!(applied(&client, "v1", (name, "other"), &json!({"a1": "x"})).await?.0, 201);
        assert_eq!(applied(&client, "v1", (name, "me"), &json!({"b1": "y", "c1": "z"})).await?.0, 200);
    }
    let (status, object) = applied(&client, "v2", ("a", "me"), &json!({"b2": "y"})).await?;
    assert_eq!((status, &object["spec"]), (200, &json!({"a2": "x", "b2": "y"})), "{object}");
    let (status, object) = applied(&client, "v3", ("b", "me"), &json!({"b3": "y"})).await?;
    assert_eq!((status, &object["spec"]), (200, &json!({"a3": "x", "b3": "y"})), "{object}");
    let (status, object) = applied(&client, "v1", ("b", "me"), &json!({"c1": "y"})).await?;
    assert_eq!((status, &object["spec"]), (200, &json!({"a1": "x", "c1": "y"})), "{object}");
    // The first version is not served any more, and counts as long as the definition has it.
    asked(&client, ("PATCH", DEFINITION), Some(&json!({"spec": {"versions": versions(false)}})), 200).await?;
    answers(&client, "/apis/ex.io/v1/things", 404).await?;
    let (status, object) = applied(&client, "v2", ("c", "me"), &json!({"b2": "y"})).await?;
    assert_eq!((status, &object["spec"]), (200, &json!({"a2": "x", "b2": "y"})), "{object}");
    let (status, object) = applied(&client, "v2", ("d", "third"), &json!({"c2": "other"})).await?;
    assert_eq!(
        (status, object["message"].as_str()),
        (409, Some("Apply failed with 1 conflict: conflict with \"me\": .spec.c1")),
        "{object}"
    );
    Ok(())
}

/// Only `apiVersion` differs, but the other version has no such field: kube-apiserver converts the object to the version of every manager.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_must_fit_the_versions_of_its_managers() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let spec = |more: &Value| {
        let mut item = json!({"a": {"type": "string"}});
        item.as_object_mut().expect("an object").extend(more.as_object().expect("fields").clone());
        json!({"items": {"type": "array", "items": {"type": "object", "properties": item}}})
    };
    let (none, conversion) = (json!({}), json!({"strategy": "None"}));
    asked(&client, ("POST", DEFINITIONS), Some(&definition(&json!([version("v1beta1", true, true, &spec(&none))]), &conversion)), 201)
        .await?;
    answers(&client, "/apis/ex.io/v1beta1/things", 200).await?;
    let items = json!({"items": [{"a": "x"}]});
    for name in ["a", "b"] {
        assert_eq!(applied(&client, "v1beta1", (name, "me"), &items).await?.0, 201);
    }
    let defaulted = spec(&json!({"b": {"type": "string", "default": "q"}}));
    for (served, name) in [(true, "a"), (false, "b")] {
        let plain = json!([version("v1beta1", served, false, &spec(&none)), version("v1", true, true, &spec(&none))]);
        asked(&client, ("PATCH", DEFINITION), Some(&json!({"spec": {"versions": plain}})), 200).await?;
        answers(&client, "/apis/ex.io/v1/things", 200).await?;
        // Moves it to the storage version: an object gets the defaults of the version that it is stored in.
        assert_eq!(applied(&client, "v1", (name, "other"), &json!({})).await?.0, 200);
        let versions = json!([version("v1beta1", served, false, &spec(&none)), version("v1", true, true, &defaulted)]);
        asked(&client, ("PATCH", DEFINITION), Some(&json!({"spec": {"versions": versions}})), 200).await?;
        answers(&client, "/apis/ex.io/v1beta1/things", if served { 200 } else { 404 }).await?;
        answers(&client, "/apis/ex.io/v1/things", 200).await?;
        // Objects are shown with the new default once they are loaded anew.
        let object = format!("/apis/ex.io/v1/namespaces/default/things/{name}");
        while asked(&client, ("GET", &object), None, 200).await?["spec"]["items"][0]["b"] != "q" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let (status, answer) = applied(&client, "v1", (name, "me"), &items).await?;
        assert_eq!((status, answer["message"].as_str()), (500, Some(".spec.items[0].b: field not declared in schema")), "{answer}");
    }
    Ok(())
}
