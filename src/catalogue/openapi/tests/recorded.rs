//! The documents beside what kube-apiserver 1.36.3 says of the same definitions.

use base64::{Engine, prelude::BASE64_STANDARD};

use super::*;

const V2: &str = include_str!("../../../../tests/data/openapi/v2.jsonl");
const V3: &str = include_str!("../../../../tests/data/openapi/v3.jsonl");

/// Rows that have this member: the member, and what is said of it.
fn rows(recorded: &str, member: &str) -> Vec<(String, Value)> {
    let rows = recorded.lines().map(|line| serde_json::from_str::<Value>(line).expect("recorded JSON"));
    rows.filter_map(|mut row| Some((row.get(member)?.as_str()?.to_owned(), row["of"].take()))).collect()
}

fn definitions() -> Vec<Definition> {
    let rows = V2.lines().map(|line| serde_json::from_str::<Value>(line).expect("recorded JSON"));
    let shown = rows.filter_map(|row| Some(row.get("shown")?.to_string()));
    shown.map(|shown| Definition::parse(shown.as_bytes()).expect("a definition")).collect()
}

fn swagger(definitions: &[Definition], offer: Offer) -> Value {
    let catalogue = Catalogue::offering(definitions, offer);
    serde_json::from_slice(&catalogue.openapi_v2(Form::Json, Duration::ZERO).plain()).expect("JSON")
}

fn names<'a>(of: &'a Value, prefixes: &[&str]) -> Vec<&'a String> {
    of.as_object().expect("an object").keys().filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix))).collect()
}

#[test]
fn custom_kinds_are_those_of_kubernetes() {
    let ours = swagger(&definitions(), Offer::Everything);
    let theirs = rows(V2, "definition");
    for (name, schema) in &theirs {
        assert_eq!(&ours["definitions"][name], schema, "{name}");
    }
    assert_eq!(names(&ours["definitions"], &["io.ex."]), theirs.iter().map(|(name, _)| name).collect::<Vec<_>>());
}

#[test]
fn custom_operations_are_those_of_kubernetes() {
    let ours = swagger(&definitions(), Offer::Everything);
    let theirs = rows(V2, "path");
    for (path, members) in &theirs {
        assert_eq!(&ours["paths"][path.as_str()], members, "{path}");
    }
    let paths = names(&ours["paths"], &["/apis/ex.io/", "/apis/rich.ex.io/"]);
    assert_eq!(paths, theirs.iter().map(|(path, _)| path).collect::<Vec<_>>());
}

#[test]
fn documents_of_custom_resources_are_those_of_kubernetes() {
    let catalogue = Catalogue::offering(&definitions(), Offer::Everything);
    let mut seen = 0;
    for path in ["apis/ex.io/v1", "apis/ex.io/v1beta1", "apis/rich.ex.io/v1"] {
        let ours = document(&catalogue, path);
        assert_eq!(ours["info"]["title"], "Kubernetes CRD Swagger");
        for (told, members) in rows(V3, "path").into_iter().filter(|(told, _)| told.starts_with(&format!("/{path}/"))) {
            assert_eq!(ours["paths"][&told], members, "{told}");
            seen += 1;
        }
        for (name, schema) in
            ours["components"]["schemas"].as_object().expect("schemas").iter().filter(|(name, _)| name.starts_with("io.ex."))
        {
            let theirs = rows(V3, "definition").into_iter().find(|(told, _)| told == name);
            assert_eq!(theirs.map(|(_, schema)| schema).as_ref(), Some(schema), "{name}");
            seen += 1;
        }
    }
    assert_eq!(seen, rows(V3, "path").len() + rows(V3, "definition").len());
}

/// Names with digests and all.
#[test]
fn shared_parameters_are_those_of_kubernetes() {
    let ours = swagger(&[], Offer::Everything);
    let theirs: HashMap<_, _> = rows(V2, "parameter").into_iter().collect();
    let parameters = ours["parameters"].as_object().expect("parameters");
    assert!(parameters.len() > 20, "{}", parameters.len());
    for (name, parameter) in parameters {
        assert_eq!(Some(parameter), theirs.get(name), "{name}");
    }
}

/// The order of members inside of a value of any type is that of Go's structs there, and that of names here: words are compared without it.
#[test]
fn protobuf_is_that_of_kubernetes() {
    let words = |message: &[u8]| {
        let mut words: Vec<Vec<u8>> = message.split(|byte| b"\n -".contains(byte)).map(<[u8]>::to_vec).collect();
        words.sort();
        words
    };
    for (recorded, version, at_least) in [(V2, SpecVersion::V2, 50), (V3, SpecVersion::V3, 10)] {
        let mut seen = 0;
        for row in recorded.lines().map(|line| serde_json::from_str::<Value>(line).expect("recorded JSON")) {
            let Some(theirs) = row["protobuf"].as_str() else { continue };
            let theirs = BASE64_STANDARD.decode(theirs).expect("Base64");
            let (member, name) = ["definition", "parameter", "path"].iter().find_map(|it| Some((*it, row[*it].as_str()?))).expect("a name");
            let named = json!({ name: row["of"] });
            let document = match (member, version) {
                ("path", _) => json!({ "paths": named }),
                ("definition", SpecVersion::V2) => json!({ "definitions": named }),
                ("definition", SpecVersion::V3) => json!({ "components": { "schemas": named } }),
                _ => json!({ "parameters": named }),
            };
            let ours = protobuf::encode(version, document.to_string().as_bytes());
            let inner = &ours[ours.len().saturating_sub(theirs.len())..];
            assert!(words(inner) == words(&theirs), "{name}:\n{}\n{}", String::from_utf8_lossy(inner), String::from_utf8_lossy(&theirs));
            seen += 1;
        }
        assert!(seen >= at_least, "{seen}");
    }
}

#[test]
fn every_reference_leads_somewhere_and_nothing_is_of_v3() {
    for offer in [Offer::Reads, Offer::Everything] {
        let document = swagger(&definitions(), offer);
        let mut asked = BTreeSet::new();
        references(&document, &mut asked);
        let definitions = document["definitions"].as_object().expect("definitions");
        let mut made: BTreeSet<String> = definitions.keys().map(|name| format!("#/definitions/{name}")).collect();
        made.extend(document["parameters"].as_object().expect("parameters").keys().map(|name| format!("#/parameters/{name}")));
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
    let strategy = json!({
        "$ref": "#/definitions/io.k8s.api.apps.v1.DeploymentStrategy",
        "description": "The deployment strategy to use to replace existing pods with new ones.",
        "x-kubernetes-patch-strategy": "retainKeys",
    });
    assert_eq!(definition("io.k8s.api.apps.v1.DeploymentSpec")["properties"]["strategy"], strategy);
    for (name, kind, format) in [
        ("io.k8s.apimachinery.pkg.api.resource.Quantity", "string", Value::Null),
        ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "string", "int-or-string".into()),
    ] {
        let of = definition(name);
        assert_eq!((&of["type"], &of["format"], of.get("oneOf")), (&kind.into(), &format, None));
    }
    let kinds =
        definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")["x-kubernetes-group-version-kind"].as_array().expect("kinds");
    for (group, version) in [("", "v1"), ("autoscaling", "v2"), ("apps", "v1beta1")] {
        assert!(kinds.contains(&json!({"group": group, "version": version, "kind": "DeleteOptions"})), "{group}");
    }
    let pod = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"];
    let produced = json!(["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]);
    assert_eq!((&pod["get"]["consumes"], &pod["get"]["produces"]), (&json!(["*/*"]), &produced));
    let parameters = pod["patch"]["parameters"].as_array().expect("parameters");
    let body = json!({"in": "body", "name": "body", "required": true, "schema": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"}});
    let shared = parameters[0]["$ref"].as_str().and_then(|it| it.strip_prefix("#/parameters/")).expect("a reference");
    assert_eq!(document["parameters"][shared], body);
    assert_eq!(
        (&parameters[1]["in"], &parameters[1]["name"], &parameters[1]["type"]),
        (&json!("query"), &json!("dryRun"), &json!("string"))
    );
}

#[test]
fn the_document_is_made_once() {
    let catalogue = Catalogue::new(&[]);
    let (first, made) = catalogue.openapi_v2_hash(Duration::from_secs(7));
    let (second, still) = catalogue.openapi_v2_hash(Duration::from_secs(8));
    assert_eq!((first.as_ptr(), made), (second.as_ptr(), still));
}
