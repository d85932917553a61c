//! MutatingAdmissionPolicies: what their mutations make of objects, in which order, and what is refused. The texts are those of kube-apiserver 1.36.3.

use serde_json::{Value, json};

use super::{Alone, Outcome, asked};
use crate::client::Client;

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// Creates a policy for writes of a resource; `more` is added to its spec.
async fn bound(client: &Client, name: &str, resource: &str, mutations: &[Value], more: &Value) -> Outcome {
    let rules = json!([{"operations": ["CREATE", "UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": [resource]}]);
    let mut spec = json!({"matchConstraints": {"resourceRules": rules}, "reinvocationPolicy": "Never", "mutations": mutations});
    spec.as_object_mut().expect("members").extend(more.as_object().expect("members").clone());
    asked(client, ("POST", POLICIES), Some(&json!({"metadata": {"name": name}, "spec": spec})), 201).await?;
    asked(client, ("POST", BINDINGS), Some(&json!({"metadata": {"name": name}, "spec": {"policyName": name}})), 201).await.map(drop)
}

fn config(name: &str, data: &Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutations_change_what_is_written() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let label = "Object{metadata: Object.metadata{labels: {'by': variables.is_new ? 'maker' : 'changer'}}}";
    let count = "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('count'), value: string(size(object.data))}]";
    let variables = json!({"variables": [{"name": "is_new", "expression": "oldObject == null"}],
        "matchConditions": [{"name": "c", "expression": "object.metadata.name != 'plain'"}]});
    bound(&client, "a", "configmaps", &[apply(label), patch(count)], &variables).await?;
    let tested = "[JSONPatch{op: 'test', path: '/data/a', value: 'x'}, JSONPatch{op: 'replace', path: '/data/a', value: 'y'}]";
    bound(&client, "b", "configmaps", &[patch(tested)], &json!({})).await?;
    let made = asked(&client, ("POST", CONFIGS), Some(&config("one", &json!({"a": "1"}))), 201).await?;
    assert_eq!((&made["metadata"]["labels"], &made["data"]), (&json!({"by": "maker"}), &json!({"a": "1", "count": "1"})), "{made}");
    let made = asked(&client, ("PUT", &format!("{CONFIGS}/one")), Some(&config("one", &json!({"a": "x", "b": "2"}))), 200).await?;
    assert_eq!(made["data"], json!({"a": "y", "b": "2", "count": "2"}), "a test that holds lets the others count");
    let made = asked(&client, ("POST", CONFIGS), Some(&config("plain", &json!({"a": "1"}))), 201).await?;
    assert_eq!(made["metadata"].get("labels"), None, "its conditions do not hold");
    let sidecar = "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
        containers: [Object.spec.template.spec.containers{name: 'side', image: 'i'}]}}}}";
    bound(&client, "c", "deployments", &[apply(sidecar)], &json!({})).await?;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let made = asked(&client, ("POST", DEPLOYMENTS), Some(&deployment), 201).await?;
    let containers = made["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let names: Vec<&str> = containers.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["main", "side"], "a list that has keys is merged by them");
    assert_eq!(containers[1]["imagePullPolicy"], "Always", "what a policy adds gets its defaults");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_are_evaluated_again_when_the_object_changes() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    // The second one sets what the first one looks for.
    bound(&client, "a", "configmaps", &[apply("has(object.data.b) ? Object{data: Object.data{a: 'seen'}} : Object{}")], &again).await?;
    bound(&client, "b", "configmaps", &[apply("Object{data: Object.data{b: '1'}}")], &json!({})).await?;
    let made = asked(&client, ("POST", CONFIGS), Some(&config("one", &json!({"x": "1"}))), 201).await?;
    assert_eq!(made["data"], json!({"a": "seen", "b": "1", "x": "1"}));
    Ok(())
}

/// A custom resource is merged by its schema, and gets its defaults again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_resources_are_merged_by_their_schema() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let text = json!({"type": "string"});
    let part = json!({"type": "object", "required": ["name"], "properties": {"name": text, "size": {"type": "integer", "default": 7}}});
    let parts = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": part});
    let all = json!({"type": "object", "properties": {"parts": parts, "words": {"type": "array", "items": text}}});
    let schema = json!({"type": "object", "properties": {"spec": all}});
    let version =
        |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    let spec = json!({"group": "ex.io", "scope": "Namespaced", "names": names, "versions": [version("v1", true), version("v2", false)]});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.ex.io"}, "spec": spec});
    asked(&client, ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"), Some(&definition), 201).await?;
    let added = "Object{spec: Object.spec{parts: [Object.spec.parts{name: 'b'}, Object.spec.parts{name: 'c'}]}}";
    bound(&client, "a", "things", &[apply(added)], &json!({})).await?;
    let unknown = "[JSONPatch{op: 'add', path: '/spec/unknown', value: 'x'}, JSONPatch{op: 'add', path: '/spec/words', value: ['w']}]";
    bound(
        &client,
        "b",
        "things",
        &[patch(unknown)],
        &json!({"matchConditions": [{"name": "c", "expression": "object.apiVersion == 'ex.io/v2'"}]}),
    )
    .await?;
    let thing = |version: &str, name: &str| {
        let parts = json!([{"name": "a", "size": 3}, {"name": "b", "size": 4}]);
        json!({"apiVersion": format!("ex.io/{version}"), "kind": "Thing", "metadata": {"name": name}, "spec": {"parts": parts}})
    };
    let merged = json!([{"name": "a", "size": 3}, {"name": "b", "size": 4}, {"name": "c", "size": 7}]);
    let made = asked(&client, ("POST", "/apis/ex.io/v1/namespaces/default/things"), Some(&thing("v1", "one")), 201).await?;
    assert_eq!(made["spec"], json!({"parts": merged}));
    let made = asked(&client, ("POST", "/apis/ex.io/v2/namespaces/default/things"), Some(&thing("v2", "two")), 201).await?;
    assert_eq!(made["spec"], json!({"parts": merged, "words": ["w"]}), "what its schema does not know is pruned");
    bound(&client, "c", "things", &[apply("Object{spec: Object.spec{words: ['x']}}")], &json!({})).await?;
    let status = asked(&client, ("POST", "/apis/ex.io/v1/namespaces/default/things"), Some(&thing("v1", "three")), 403).await?;
    let why = "policy 'c' with binding 'c' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.words";
    assert_eq!(status["message"], why);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_applied_is_refused() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    for (name, mutation, why) in [
        (
            "a",
            apply("Object{data: Object.data{a: 1}}"),
            "error applying patch: failed to convert patch object to typed object: .data.a: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            "b",
            apply("Object{data: Object.x{}}"),
            "type mismatch: unexpected type name \"Object.x\", expected \"Object.data\", which matches field name path from root Object type",
        ),
        (
            "c",
            apply("Object{data: {'a': object.data.missing}}"),
            "expression 'Object{data: {'a': object.data.missing}}' resulted in error: no such key: missing",
        ),
        (
            "d",
            patch("[JSONPatch{op: 'remove', path: '/data/missing'}]"),
            "JSON Patch: error in remove for path: '/data/missing': Unable to remove nonexistent key: missing: missing value",
        ),
    ] {
        bound(&client, name, "configmaps", &[mutation], &json!({})).await?;
        let status = asked(&client, ("POST", CONFIGS), Some(&config("one", &json!({"x": "1"}))), 403).await?;
        let text = format!("policy '{name}' with binding '{name}' denied request: {why}");
        let want = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403, "reason": "Invalid",
            "message": text, "details": {"name": "one", "kind": "configmaps", "causes": [{"message": text}]}});
        assert_eq!(status, want);
        asked(&client, ("DELETE", &format!("{BINDINGS}/{name}")), None, 200).await?;
    }
    let atomic = "Object{spec: Object.spec{selector: Object.spec.selector{app: 'x'}}}";
    bound(&client, "e", "services", &[apply(atomic)], &json!({"failurePolicy": "Ignore"})).await?;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let made = asked(&client, ("POST", "/api/v1/namespaces/default/services"), Some(&service), 201).await?;
    assert_eq!(made["spec"].get("selector"), None, "a failure that is ignored changes nothing");
    Ok(())
}
