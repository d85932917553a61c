//! The document of v2 beside what kube-apiserver 1.36.3 says of the same definitions.

use super::*;

/// Rows of `tests/data/openapi/v2.jsonl` that have this member: the member, and what is said of it.
fn recorded(member: &str) -> Vec<(Value, Value)> {
    let lines = include_str!("../../../../tests/data/openapi/v2.jsonl").lines();
    let rows = lines.map(|line| serde_json::from_str::<Value>(line).expect("recorded JSON"));
    rows.filter_map(|mut row| Some((row.get_mut(member)?.take(), row["of"].take()))).collect()
}

fn definitions() -> Vec<Definition> {
    recorded("shown").iter().map(|(shown, _)| Definition::parse(shown.to_string().as_bytes()).expect("a definition")).collect()
}

fn swagger(definitions: &[Definition], offer: Offer) -> Value {
    serde_json::from_slice(&Catalogue::offering(definitions, offer).openapi_v2(Duration::ZERO).0.body).expect("JSON")
}

fn names<'a>(of: &'a Value, prefixes: &[&str]) -> Vec<&'a String> {
    of.as_object().expect("an object").keys().filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix))).collect()
}

#[test]
fn custom_kinds_are_those_of_kubernetes() {
    let ours = swagger(&definitions(), Offer::Everything);
    let theirs = recorded("definition");
    for (name, schema) in &theirs {
        assert_eq!(&ours["definitions"][name.as_str().expect("a name")], schema, "{name}");
    }
    assert_eq!(names(&ours["definitions"], &["io.ex."]), theirs.iter().map(|(name, _)| name.as_str().expect("a name")).collect::<Vec<_>>());
}

#[test]
fn custom_operations_are_those_of_kubernetes() {
    let ours = swagger(&definitions(), Offer::Everything);
    let mut theirs = recorded("path");
    for (path, members) in &mut theirs {
        // Server-side apply is not supported yet.
        if let Some(Value::Array(types)) = members.pointer_mut("/patch/consumes") {
            types.retain(|it| it != "application/apply-patch+yaml");
        }
        assert_eq!(&ours["paths"][path.as_str().expect("a path")], members, "{path}");
    }
    let paths = names(&ours["paths"], &["/apis/ex.io/", "/apis/rich.ex.io/"]);
    assert_eq!(paths, theirs.iter().map(|(path, _)| path.as_str().expect("a path")).collect::<Vec<_>>());
}

#[test]
fn every_reference_leads_somewhere_and_nothing_is_of_v3() {
    for offer in [Offer::Reads, Offer::Everything] {
        let document = swagger(&definitions(), offer);
        let mut asked = BTreeSet::new();
        references(&document, &mut asked);
        let definitions = document["definitions"].as_object().expect("definitions");
        let made: BTreeSet<String> = definitions.keys().map(|name| format!("#/definitions/{name}")).collect();
        assert_eq!(asked.difference(&made).collect::<Vec<_>>(), Vec::<&String>::new());
        assert!(definitions.values().all(|schema| !schema.is_null()));
        let ids: Vec<_> = operations(&document).map(|(_, _, it)| it["operationId"].as_str().expect("an id")).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        for (path, method, operation) in operations(&document) {
            assert!(operation.get("requestBody").is_none() && operation.pointer("/responses/200/content").is_none(), "{method} {path}");
            assert!(operation["produces"].as_array().is_some_and(|types| !types.is_empty()), "{method} {path}");
        }
        for (name, schema) in definitions.iter().filter(|(name, _)| name.starts_with("io.k8s.")) {
            assert!(!schema.to_string().contains("Of\":["), "{name}");
        }
    }
}

#[test]
fn built_ins_are_told_as_well() {
    let document = swagger(&definitions(), Offer::Everything);
    let definition = |name: &str| &document["definitions"][name];
    let strategy = json!({"$ref": "#/definitions/io.k8s.api.apps.v1.DeploymentStrategy", "x-kubernetes-patch-strategy": "retainKeys"});
    assert_eq!(definition("io.k8s.api.apps.v1.DeploymentSpec")["properties"]["strategy"], strategy);
    assert_eq!(definition("io.k8s.apimachinery.pkg.api.resource.Quantity"), &json!({"type": "string"}));
    assert_eq!(definition("io.k8s.apimachinery.pkg.util.intstr.IntOrString"), &json!({"type": "string", "format": "int-or-string"}));
    let kinds =
        definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")["x-kubernetes-group-version-kind"].as_array().expect("kinds");
    for (group, version) in [("", "v1"), ("autoscaling", "v2"), ("ex.io", "v1beta1")] {
        assert!(kinds.contains(&json!({"group": group, "version": version, "kind": "DeleteOptions"})), "{group}");
    }
    let pod = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"];
    assert_eq!((&pod["get"]["consumes"], &pod["get"]["produces"]), (&json!(["*/*"]), &json!(["application/json", "application/yaml"])));
    let parameters = pod["patch"]["parameters"].as_array().expect("parameters");
    let body = json!({"in": "body", "name": "body", "required": true, "schema": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"}});
    assert_eq!(parameters[0], body);
    assert_eq!(parameters[1], json!({"in": "query", "name": "dryRun", "type": "string", "uniqueItems": true}));
}

#[test]
fn the_document_is_made_once() {
    let catalogue = Catalogue::new(&[]);
    let (first, made) = catalogue.openapi_v2(Duration::from_secs(7));
    let (second, still) = catalogue.openapi_v2(Duration::from_secs(8));
    assert_eq!((first.body.as_ptr(), made), (second.body.as_ptr(), still));
}
