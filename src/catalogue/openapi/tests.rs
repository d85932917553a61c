//! Whether the documents have what clients look for.

mod recorded;

use std::collections::BTreeSet;

use super::*;
use crate::Definition;

fn widgets(schema: Option<Value>) -> Definition {
    parsed(schema).expect("a definition")
}

fn parsed(schema: Option<Value>) -> Option<Definition> {
    let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}, "schema": {"openAPIV3Schema": schema}});
    let object = json!({
        "metadata": {"name": "widgets.ex.io"},
        "spec": {"group": "ex.io", "scope": "Namespaced", "versions": [version]},
        "status": {"acceptedNames": names, "conditions": [{"type": "Established", "status": "True"}]},
    });
    Definition::parse(object.to_string().as_bytes()).ok()
}

fn document(catalogue: &Catalogue, path: &str) -> Value {
    serde_json::from_slice(&catalogue.openapi(path, Form::Json).unwrap_or_else(|| panic!("{path} is not there")).plain()).expect("JSON")
}

fn operations(document: &Value) -> impl Iterator<Item = (&String, &String, &Value)> {
    let paths = document["paths"].as_object().expect("paths").iter();
    paths.flat_map(|(path, of)| {
        of.as_object().expect("operations").iter().filter(|(method, _)| *method != "parameters").map(move |(m, o)| (path, m, o))
    })
}

/// What kubectl asks before it writes: does the PATCH of this kind know `fieldValidation` (spec api-surface §1.6)?
#[test]
fn every_kind_has_a_patch_with_field_validation() {
    let catalogue = Catalogue::offering(&[widgets(None)], Offer::Everything);
    let served: Vec<_> = catalogue.all_served().filter(|served| served.is_listed()).cloned().collect();
    assert!(served.len() > 50);
    for served in served {
        let document = document(&catalogue, &path_of(&served.group, &served.version));
        let of = json!({"group": served.group, "version": served.version, "kind": served.kind});
        let mut patches = operations(&document)
            .filter(|(path, method, it)| *method == "patch" && path.ends_with("/{name}") && it["x-kubernetes-group-version-kind"] == of);
        let (_, _, patch) = patches.next().unwrap_or_else(|| panic!("{of} has no patch"));
        let names: Vec<&str> = patch["parameters"].as_array().expect("parameters").iter().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"], "{of}");
        let strategic = patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some();
        assert_eq!(strategic, !served.is_custom(), "{of}");
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_id_is_the_only_one() {
    for offer in [Offer::Reads, Offer::Everything] {
        let catalogue = Catalogue::offering(&[widgets(Some(json!({"type": "object"})))], offer);
        let index: Value = serde_json::from_slice(catalogue.openapi_index()).expect("JSON");
        let paths = index["paths"].as_object().expect("paths");
        assert!(paths.contains_key("api/v1") && paths.contains_key("apis/ex.io/v1") && paths.len() > 18);
        for (path, place) in paths {
            let hash = catalogue.openapi_hash(path).expect("it is listed");
            assert_eq!(place["serverRelativeURL"], format!("/openapi/v3/{path}?hash={hash}"));
            let document = document(&catalogue, path);
            let none = Map::new();
            let schemas = document["components"]["schemas"].as_object().unwrap_or(&none);
            let mut asked = BTreeSet::new();
            references(&document, &mut asked);
            let made: BTreeSet<String> = schemas.keys().map(|name| format!("#/components/schemas/{name}")).collect();
            assert_eq!(asked.difference(&made).collect::<Vec<_>>(), Vec::<&String>::new(), "{path}");
            assert!(schemas.values().all(|schema| !schema.is_null()), "{path}");
            let ids: Vec<_> = operations(&document).map(|(_, _, it)| it["operationId"].as_str().expect("an id")).collect();
            assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{path}");
        }
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(elements) => elements.iter().for_each(|element| references(element, found)),
        _ => {}
    }
}

#[test]
fn a_reader_offers_reads_only() {
    let catalogue = Catalogue::offering(&[widgets(None)], Offer::Reads);
    for path in ["api/v1", "apis/apps/v1", "apis/ex.io/v1"] {
        let document = document(&catalogue, path);
        assert!(operations(&document).all(|(_, method, _)| method == "get"), "{path}");
        assert!(operations(&document).count() > 3, "{path}");
    }
}

#[test]
fn operations_and_schemas_are_those_of_kubernetes() {
    let catalogue = Catalogue::offering(&[], Offer::Everything);
    let apps = document(&catalogue, "apis/apps/v1");
    let id = |path: &str, method: &str| apps["paths"][format!("/apis/apps/v1/{path}")][method]["operationId"].clone();
    assert_eq!(id("namespaces/{namespace}/deployments/{name}", "patch"), "patchAppsV1NamespacedDeployment");
    assert_eq!(id("namespaces/{namespace}/deployments", "delete"), "deleteAppsV1CollectionNamespacedDeployment");
    assert_eq!(id("deployments", "get"), "listAppsV1DeploymentForAllNamespaces");
    assert_eq!(id("watch/deployments", "get"), "watchAppsV1DeploymentListForAllNamespaces");
    assert_eq!(id("namespaces/{namespace}/deployments/{name}/scale", "get"), "readAppsV1NamespacedDeploymentScale");
    let spec = &apps["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"];
    assert_eq!(spec["required"], json!(["selector", "template"]));
    let strategy = json!({
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}], "default": {},
        "description": "The deployment strategy to use to replace existing pods with new ones.", "x-kubernetes-patch-strategy": "retainKeys",
    });
    assert_eq!(spec["properties"]["strategy"], strategy);
    let ports = &apps["components"]["schemas"]["io.k8s.api.core.v1.Container"]["properties"]["ports"];
    assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
    let core = document(&catalogue, "api/v1");
    assert!(core["paths"].get("/api/v1/namespaces/{namespace}/pods/{name}/eviction").is_some());
    assert!(core["paths"].get("/api/v1/namespaces/{namespace}/pods/{name}/exec").is_none());
}

/// Recorded from kube-apiserver 1.36.3 without feature gates: core/v1, apps/v1 and the group of these widgets.
#[test]
fn parameters_are_those_of_kubernetes() {
    let texts = |list: &Value| list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    let mut theirs = HashMap::new();
    for line in include_str!("../../../tests/data/openapi/parameters.jsonl").lines() {
        let row: Value = serde_json::from_str(line).expect("recorded JSON");
        let member = row["member"].as_str().expect("a method").to_owned();
        theirs.extend(texts(&row["paths"]).into_iter().map(|path| ((path, member.clone()), texts(&row["parameters"]))));
    }
    let catalogue = Catalogue::offering(&[widgets(None)], Offer::Everything);
    let mut seen = 0;
    for path in ["api/v1", "apis/apps/v1", "apis/ex.io/v1"] {
        for (path, members) in document(&catalogue, path)["paths"].as_object().expect("paths") {
            for (member, of) in members.as_object().expect("operations") {
                let list = if member == "parameters" { of } else { &of["parameters"] };
                let word =
                    |it: &Value| ["/name", "/in", "/schema/type"].map(|at| it.pointer(at).and_then(Value::as_str).unwrap_or("")).join(" ");
                let ours: Vec<String> = list.as_array().into_iter().flatten().map(word).collect();
                assert_eq!(Some(&ours), theirs.get(&(path.clone(), member.clone())), "{path} {member}");
                seen += 1;
            }
        }
    }
    assert!(seen > 300, "{seen}");
}

#[test]
fn custom_resources_have_the_schema_of_their_definition() {
    let inner = json!({"type": "object", "x-kubernetes-embedded-resource": true, "required": ["size"]});
    let mut spec = json!({"type": "object", "properties": {"size": {"type": "integer"}, "parts": {"type": "array", "items": inner}}});
    let catalogue = Catalogue::offering(&[widgets(Some(json!({"type": "object", "properties": {"spec": spec}})))], Offer::Everything);
    let document = document(&catalogue, "apis/ex.io/v1");
    let widget = &document["components"]["schemas"]["io.ex.v1.Widget"];
    let heads = &super::recorded::Recorded::get().heads;
    let part = &mut spec["properties"]["parts"]["items"];
    part["properties"] = heads.embedded.clone().into();
    part["required"] = json!(["size", "kind", "apiVersion"]);
    assert_eq!(widget["properties"]["spec"], spec);
    assert_eq!((&widget["properties"]["kind"], &widget["properties"]["metadata"]), (&heads.object["kind"], &heads.object["metadata"]));
    assert_eq!(widget["x-kubernetes-group-version-kind"], json!([{"group": "ex.io", "version": "v1", "kind": "Widget"}]));
    assert_eq!(document["paths"]["/apis/ex.io/v1/namespaces/{namespace}/widgets"]["get"]["operationId"], "listExIoV1NamespacedWidget");
    assert!(document["paths"].get("/apis/ex.io/v1/namespaces/{namespace}/widgets/{name}/scale").is_some());
}

#[test]
fn documents_of_built_ins_are_made_once() {
    let (one, two) = (Catalogue::new(&[]), Catalogue::new(&[widgets(None)]));
    let kept = |catalogue: &Catalogue| catalogue.openapi("apis/apps/v1", Form::Json).expect("it is there").gzip().as_ptr();
    assert_eq!(kept(&one), kept(&two));
    let is_there = |catalogue: &Catalogue, path: &str| catalogue.openapi_hash(path).is_some();
    assert!(!is_there(&one, "apis/ex.io/v1") && is_there(&two, "apis/ex.io/v1"));
    assert!(!is_there(&one, "apis/apps/v9") && !is_there(&one, "apis/authentication.k8s.io/v2"));
    assert!(is_there(&one, "apis/apps") && !is_there(&two, "apis/ex.io") && !is_there(&one, "apis/"));
}

#[test]
fn reviews_are_asked_by_post() {
    let document = document(&Catalogue::new(&[]), "apis/authorization.k8s.io/v1");
    let post = &document["paths"]["/apis/authorization.k8s.io/v1/namespaces/{namespace}/localsubjectaccessreviews"]["post"];
    assert_eq!(post["operationId"], "createAuthorizationV1NamespacedLocalSubjectAccessReview");
    assert!(document["components"]["schemas"].get("io.k8s.api.authorization.v1.ResourceAttributes").is_some());
    assert_eq!(document["paths"].as_object().map(serde_json::Map::len), Some(5));
}

/// As deep as a tree may be, with the head of an object at its bottom.
#[test]
fn a_schema_that_is_too_deep_is_told_without_what_is_in_it() {
    let mut seen = 0;
    for depth in [1, 20, 40, 50, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64] {
        let mut schema = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
        for _ in 0..depth {
            schema = json!({"type": "object", "properties": {"a": schema}});
        }
        // What is deeper is no definition.
        let Some(definition) = parsed(Some(schema)) else { continue };
        seen += 1;
        let catalogue = Catalogue::offering(&[definition], Offer::Everything);
        for form in [Form::Json, Form::Protobuf] {
            let told = catalogue.openapi("apis/ex.io/v1", form).expect("it is there").plain();
            let is_told = |word: &str| told.windows(word.len()).any(|part| part == word.as_bytes());
            assert!(is_told("io.ex.v1.Widget") && is_told("WidgetList is a list of Widget"), "{depth}");
        }
    }
    assert!(seen > 5, "{seen}");
}
