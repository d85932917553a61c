//! Whether definitions make what the real server serves.

use serde_json::{Value, json};

use super::*;
use crate::Catalogue;
use model::{WebhookPlace, selector::Field};

fn version(name: &str, more: Value) -> Value {
    let mut version = json!({"name": name, "served": true, "storage": false, "schema": {"openAPIV3Schema": {"properties": {"a": {}}}}});
    version.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    version
}

fn object(versions: &[Value]) -> Value {
    let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": null});
    json!({
        "metadata": {"name": "widgets.ex.io"},
        "spec": {"group": "ex.io", "scope": "Namespaced", "names": names, "versions": versions, "conversion": {"strategy": "None"}},
        "status": {
            "acceptedNames": names,
            "storedVersions": ["v1"],
            "conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}],
        },
    })
}

fn parse(object: &Value) -> Definition {
    Definition::parse(object.to_string().as_bytes()).expect("a definition")
}

fn served(object: &Value, version: &str) -> Arc<Served> {
    let catalogue = Catalogue::new(&[parse(object)]);
    Arc::clone(catalogue.served("ex.io", version, "widgets").expect("served"))
}

fn two_versions(more: Value) -> Value {
    object(&[version("v1", json!({"storage": true})), version("v2", more)])
}

#[test]
fn what_the_real_server_stores_is_what_it_shows() {
    let data = |name| std::fs::read(format!("{}/../../tests/data/discovery/{name}", env!("CARGO_MANIFEST_DIR"))).expect("recorded");
    let shown: Value = serde_json::from_slice(&data("definitions.json")).expect("recorded JSON");
    let stored: Value = serde_json::from_slice(&data("definitions_stored.json")).expect("recorded JSON");
    let (shown, stored) = (shown["items"].as_array().expect("a list"), stored["items"].as_array().expect("a list"));
    assert_eq!((shown.len(), stored.len()), (5, 5));
    for (shown, stored) in shown.iter().zip(stored) {
        assert_eq!(stored["apiVersion"], "apiextensions.k8s.io/v1beta1");
        assert_eq!(parse(shown), parse(stored));
    }
    let served: Vec<bool> = shown.iter().map(|item| parse(item).is_served()).collect();
    assert_eq!(served, [false, true, true, true, true], "the names of the first clash");
}

#[test]
fn v1beta1_says_at_the_top_what_holds_for_every_version() {
    let mut old = object(&[json!({"name": "v1", "served": true, "storage": true})]);
    old["spec"]["subresources"] = json!({"status": {}});
    old["spec"]["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    old["spec"]["validation"] = json!({"openAPIV3Schema": {"properties": {}}});
    let parsed = parse(&old);
    assert!(
        parsed.served[0].has_subresource("status")
            && matches!(&parsed.served[0].origin, Origin::Custom(custom) if custom.scale.is_none())
            && parsed.schema("v1").is_some()
    );
    assert_eq!(parsed.served[0].field("spec.color"), Ok(Field::Declared(0)));
    old["spec"]["preserveUnknownFields"] = json!(true);
    let open = parse(&old);
    assert!(open.schema("v1").is_some_and(|schema| schema.preserves), "objects are judged by it");
    assert!(matches!(open.served[0].storage.shape, Shape::Custom { schema: None, .. }), "and not pruned");
}

#[test]
fn every_served_version_shows_one_storage() {
    let object = two_versions(json!({"selectableFields": [{"jsonPath": ".spec.color"}]}));
    let (v1, v2) = (served(&object, "v1"), served(&object, "v2"));
    assert_eq!(&*v1.storage.id, "ex.io/widgets");
    let api_versions = vec!["ex.io/v1".to_owned(), "ex.io/v2".to_owned()];
    let Shape::Custom { kind, api_versions: known, schema: Some(_) } = &v1.storage.shape else { panic!("a custom shape with a schema") };
    assert_eq!((kind.as_str(), known), ("Widget", &api_versions));
    assert_eq!((&v1.conversion, &v2.conversion), (&Conversion::None, &Conversion::ApiVersionOnly));
    assert!(v1.list_kind == "WidgetList" && v1.is_custom());
    assert_eq!(v2.field("spec.color"), Ok(Field::Declared(0)));
    assert_eq!(v1.field("spec.color"), Err("field label not supported: spec.color".to_owned()));
    assert_eq!(v1.field("metadata.namespace"), Ok(Field::Namespace));
    assert_eq!(v1.storage.fields, [FieldPath::Scalar(vec!["spec".to_owned(), "color".to_owned()])]);
}

#[test]
fn cluster_scoped_ones_have_no_namespace_label() {
    let mut object = two_versions(json!({}));
    object["spec"]["scope"] = json!("Cluster");
    let error = served(&object, "v1").field("metadata.namespace");
    assert_eq!(error, Err("field label not supported: metadata.namespace".to_owned()));
    assert!(!served(&object, "v1").storage.namespaced);
}

/// The schema by which values are pruned and defaulted when they are read is of the storage: another one makes another storage, which is loaded anew.
#[test]
fn another_schema_is_another_storage() {
    let with = |schema: Value| {
        let mut object = two_versions(json!({}));
        for version in object["spec"]["versions"].as_array_mut().expect("versions") {
            version["schema"] = json!({"openAPIV3Schema": schema});
        }
        served(&object, "v1").storage.clone()
    };
    let plain = with(json!({"properties": {"a": {"type": "string"}}}));
    assert_eq!(plain, with(json!({"properties": {"a": {"type": "string", "description": "other words", "maxLength": 3}}})));
    assert_ne!(plain, with(json!({"properties": {"a": {"type": "string", "default": "x"}}})));
    assert_ne!(plain, with(json!({"properties": {"b": {"type": "string"}}})));
    let mut open = two_versions(json!({}));
    open["spec"]["preserveUnknownFields"] = json!(true);
    assert!(matches!(served(&open, "v1").storage.shape, Shape::Custom { schema: None, .. }));
}

#[test]
fn a_version_that_prunes_is_made_of_the_stored_one() {
    let narrow = two_versions(json!({"schema": {"openAPIV3Schema": {"properties": {"b": {}}}}}));
    let defined = served(&narrow, "v2");
    let conversion = defined.defined_conversion().expect("it is made by what the definition says");
    assert_eq!((&conversion.webhook, conversion.version_field), (&None, None));
    assert_eq!(conversion.versions.iter().map(|(version, _)| version.as_str()).collect::<Vec<_>>(), ["ex.io/v1", "ex.io/v2"]);
    let Shape::Custom { api_versions, .. } = served(&narrow, "v1").storage.shape.clone() else { panic!("a custom shape") };
    assert_eq!(api_versions, ["ex.io/v1"], "a value stored as v2 would lose b");
    let wide = two_versions(json!({"schema": {"openAPIV3Schema": {"properties": {"a": {}, "b": {}}}}}));
    assert_eq!(served(&wide, "v2").conversion, Conversion::ApiVersionOnly);
    // Values that were stored as v2 are not as v1 shows them.
    let mut mixed = narrow;
    mixed["status"]["storedVersions"] = json!(["v2", "v1"]);
    let v1 = served(&mixed, "v1");
    let Shape::Custom { api_versions, schema: None, .. } = &v1.storage.shape else { panic!("values are kept as they are") };
    assert_eq!(api_versions, &["ex.io/v1", "ex.io/v2"]);
    let field = v1.defined_conversion().and_then(|conversion| conversion.version_field).expect("a field");
    assert_eq!(v1.storage.fields[field], FieldPath::Scalar(vec!["apiVersion".to_owned()]));
}

#[test]
fn a_webhook_makes_every_other_version() {
    let mut object = two_versions(json!({}));
    let client = json!({"service": {"namespace": "n", "name": "s", "path": "/p"}, "caBundle": "YQ=="});
    object["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}});
    assert_eq!(served(&object, "v1").conversion, Conversion::None);
    let place = WebhookPlace::Service { namespace: "n".to_owned(), name: "s".to_owned(), path: "/p".to_owned(), port: 443 };
    let webhook = Some(ConversionWebhook { place: Some(place), bundle: b"a".to_vec(), reviews: vec!["v1".to_owned()] });
    let of_webhook = |object: &Value| served(object, "v2").defined_conversion().expect("it is made by the webhook").webhook.clone();
    assert_eq!(of_webhook(&object), webhook);
    let mut old = object.clone();
    old["spec"]["conversion"] = json!({"strategy": "Webhook", "webhookClientConfig": client, "conversionReviewVersions": ["v1"]});
    assert_eq!(of_webhook(&old), webhook, "as it is stored");
    let Shape::Custom { api_versions, .. } = served(&object, "v1").storage.shape.clone() else { panic!("a custom shape") };
    assert_eq!(api_versions, ["ex.io/v1"]);
    object["status"]["storedVersions"] = json!(["v1", "v2"]);
    assert!(served(&object, "v1").defined_conversion().is_some(), "some values are stored as v2");
}

#[test]
fn conditions_decide_what_is_served_and_listed() {
    let mut object = two_versions(json!({"served": false}));
    let catalogue = Catalogue::new(&[parse(&object)]);
    assert_eq!(catalogue.served_in("ex.io").map(|served| served.version.as_str()).collect::<Vec<_>>(), ["v1"]);
    assert!(catalogue.served("ex.io", "v2", "widgets").is_none());
    object["status"]["conditions"] = json!([{"type": "NamesAccepted", "status": "True"}]);
    assert!(!served(&object, "v1").is_listed());
    assert!(Catalogue::new(&[parse(&object)]).api_group("ex.io").is_none());
    object["status"] = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]});
    assert!(!parse(&object).is_served() && Catalogue::new(&[parse(&object)]).served_in("ex.io").next().is_none());
}

#[test]
fn broken_definitions_say_why() {
    let check = |json: &str, why: &str| {
        let error = Definition::parse(json.as_bytes()).expect_err("must not parse");
        assert!(error.contains(why), "{error}");
    };
    check("{", "not a CustomResourceDefinition");
    check(&object(&[]).to_string(), "widgets.ex.io: it must have exactly one storage version");
    let two = object(&[version("v1", json!({"storage": true})), version("v2", json!({"storage": true}))]);
    check(&two.to_string(), "exactly one storage version");
    check(&two_versions(json!({})).to_string().replace("Namespaced", "Galaxy"), "scope \"Galaxy\"");
}

#[test]
fn hashes_are_those_of_the_real_server() {
    assert_eq!(storage_version_hash("", "v1", "Pod"), "xPOwRZ+Yhw8=");
    assert_eq!(storage_version_hash("ex.io", "v1", "Widget"), "RDFwhYKgK0s=");
}

#[test]
fn columns_are_those_of_the_version() {
    let column = json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1});
    let object = two_versions(json!({"additionalPrinterColumns": [column]}));
    let v2 = served(&object, "v2");
    let columns = v2.printer_columns();
    let expect = ("Size", "integer", "", "", 1, ".spec.size");
    let told: Vec<_> = columns.iter().map(|c| (&*c.name, &*c.kind, &*c.format, &*c.description, c.priority, &*c.path)).collect();
    assert_eq!((told, served(&object, "v1").printer_columns().len()), (vec![expect], 0));
}

#[test]
fn a_deprecated_version_names_the_one_to_use() {
    let version = |name: &str, more: &str| format!(r#"{{"name":"{name}","served":true,"storage":{}{more}}}"#, name == "v1");
    let versions = [
        version("v1", ""),
        version("v1beta1", r#","deprecated":true"#),
        version("v1alpha1", r#","deprecated":true,"deprecationWarning":"no more""#),
        version("v0", r#","deprecated":true"#),
    ];
    let names = r#"{"plural":"foos","singular":"foo","kind":"Foo","listKind":"FooList"}"#;
    let object = format!(
        r#"{{"metadata":{{"name":"foos.ex.io"}},"spec":{{"group":"ex.io","scope":"Cluster","versions":[{}]}},"status":{{"acceptedNames":{names},"conditions":[{{"type":"Established","status":"True"}}]}}}}"#,
        versions.join(",")
    );
    let warnings: Vec<String> =
        Definition::parse(object.as_bytes()).expect("a definition").served().iter().map(|served| served.warning.clone()).collect();
    assert_eq!(
        warnings,
        [
            "",
            r#"299 - "ex.io/v1beta1 Foo is deprecated; use ex.io/v1 Foo""#,
            r#"299 - "no more""#,
            r#"299 - "ex.io/v0 Foo is deprecated; use ex.io/v1 Foo""#,
        ]
    );
}
