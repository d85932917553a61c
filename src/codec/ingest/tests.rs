//! Values of custom resources that are made servable: their heads, metadata, defaults.

use super::*;
use crate::Encoder;

#[test]
fn members_before_api_version_come_first() {
    let storage = things();
    let stored = br#"{"Z":1,"aa":{"b":"c"},"apiVersion":"ex.io/v1","kind":"Thing","metadata":{"name":"t","uid":"u"}}"#;
    let key = Bytes::from_static(b"/registry/ex.io/things/t");
    let object = ingest(&storage, "/registry/ex.io/things/".len(), key, stored, Revision(7)).expect("a custom resource");
    let mut body = Vec::new();
    Encoder::custom("ex.io/v2", "Thing", "ThingList").object_into(&object, &mut body);
    let want = r#"{"Z":1,"aa":{"b":"c"},"apiVersion":"ex.io/v2","kind":"Thing","metadata":{"name":"t","resourceVersion":"7","uid":"u"}}"#;
    assert_eq!(String::from_utf8_lossy(&body), want);
}

/// However the value is written, its uid is hashed as text.
#[test]
fn the_uid_is_hashed_once() {
    let hashed = |metadata: &str| {
        let stored = format!(r#"{{"apiVersion":"ex.io/v1","kind":"Thing","metadata":{{"name":"t"{metadata}}}}}"#);
        let key = Bytes::from_static(b"/registry/ex.io/things/t");
        let made = ingest(&things(), "/registry/ex.io/things/".len(), key, stored.as_bytes(), Revision(7));
        made.expect("a custom resource").uid_hash
    };
    let uid = hash("1797abea-ee19-4d36-ba63-639a7d45e51e");
    assert_eq!(uid, 0xfc60_b18d_c809_79ce, "as the real server hashes it");
    assert_eq!(hashed(r#","uid":"1797abea-ee19-4d36-ba63-639a7d45e51e""#), uid);
    assert_eq!(hashed(",\n \"uid\": \"1797abea\\u002dee19-4d36-ba63-639a7d45e51e\", \"labels\": {\"uid\": \"x\"}"), uid);
    for none in ["", r#","uid":null"#, r#","uid":7"#] {
        assert_eq!(hashed(none), hash(""), "{none}");
    }
}

/// It made the whole resource unreadable, until somebody mended the value in etcd.
#[test]
fn metadata_of_a_custom_resource_that_is_none_is_left_out() {
    let stored =
        br#"{"apiVersion":"ex.io/v1","kind":"Thing","metadata":{"labels":{"a":1,"b":"c"},"name":"t","new":true,"uid":"u"},"spec":{"x":1}}"#;
    let key = Bytes::from_static(b"/registry/ex.io/things/t");
    let object = ingest(&things(), "/registry/ex.io/things/".len(), key, stored, Revision(7)).expect("a custom resource");
    let mut body = Vec::new();
    Encoder::custom("ex.io/v1", "Thing", "ThingList").object_into(&object, &mut body);
    let want = r#"{"apiVersion":"ex.io/v1","kind":"Thing","metadata":{"name":"t","resourceVersion":"7","uid":"u"},"spec":{"x":1}}"#;
    assert_eq!(String::from_utf8_lossy(&body), want);
    assert_eq!(object.labels().len(), 0);
}

/// 40,000 small items with a default of 5 KB were held as 200 MB; what is stored is held, and what is shown is the same.
#[test]
fn what_defaults_make_much_larger_is_kept_as_it_is_stored() {
    let schema = r#"{"properties":{"Aa":{"default":1},"spec":{"properties":{"l":{"items":{"properties":{"d":{"default":"LONG"}}}},"color":{"default":"red"}}}}}"#;
    let schema = Arc::new(Structural::of_root(&schema.replace("LONG", &"x".repeat(5_000))).expect("a schema"));
    let Shape::Custom { kind, api_versions, .. } = things().shape else { unreachable!("a custom shape") };
    let fields = vec![model::FieldPath::Scalar(vec!["spec".into(), "color".into()])];
    let storage = Storage { shape: Shape::Custom { kind, api_versions, schema: Some(schema.clone()) }, fields, ..things() };
    let read = |stored: &str| {
        let key = Bytes::from_static(b"/registry/ex.io/things/t");
        ingest(&storage, "/registry/ex.io/things/".len(), key, stored.as_bytes(), Revision(7))
    };
    let managed = format!(r#"[{{"manager":"{}","time":"2026-01-01T00:00:00Z"}}]"#, "m".repeat(400));
    for (before, metadata) in [
        ("", r#"{"name":"t","uid":"u"}"#.to_owned()),
        (r#""AA":0,"#, r#"{"labels":{"a":"b"},"name":"t"}"#.to_owned()),
        ("", format!(r#"{{"managedFields":{managed},"name":"t","resourceVersion":"3","uid":"u"}}"#)),
        (
            "",
            r#"{ "name": "t",
"labels":{"a":"b"}}"#
                .replace("\\n", "\n"),
        ),
        ("", "null".to_owned()),
    ] {
        let stored = format!(
            r#"{{"apiVersion":"ex.io/v1",{before}"kind":"Thing","metadata":{metadata},"spec":{{"l":[{}]}}}}"#,
            vec!["{}"; 100].join(",")
        );
        let object = read(&stored).expect("it is shown");
        assert!(object.weight() < stored.len() + 400, "{} bytes are held", object.weight());
        let mut tree: Value = serde_json::from_str(&stored).expect("JSON");
        for item in tree["spec"]["l"].as_array_mut().expect("a list") {
            item["d"] = "x".repeat(5_000).into();
        }
        tree["spec"]["color"] = "red".into();
        tree["Aa"] = 1.into();
        tree.as_object_mut().expect("an object").remove("AA");
        let mut encoded = Vec::new();
        let encoder = Encoder::custom("ex.io/v1", "Thing", "ThingList");
        for revision in [Revision(7), Revision(1_000)] {
            if tree["metadata"].is_null() {
                tree["metadata"] = serde_json::json!({});
            }
            tree["metadata"]["resourceVersion"] = revision.0.to_string().into();
            let event = encoder.event(model::Kind::Deleted, &object, revision).expect("JSON");
            assert_eq!(String::from_utf8_lossy(&event), format!("{{\"type\":\"DELETED\",\"object\":{tree}}}\n"));
        }
        encoder.object_into(&object, &mut encoded);
        assert_eq!((object.tail_len(), object.field(0)), (encoded.len() - r#"{"apiVersion":"ex.io/v1","#.len(), "red"));
    }
    let large = format!(
        r#"{{"apiVersion":"ex.io/v1","kind":"Thing","metadata":{{"name":"t"}},"spec":{{"l":[{}]}}}}"#,
        vec!["{}"; 40_000].join(",")
    );
    let why = read(&large).map(|object| object.weight()).map_err(|broken| broken.why);
    assert!(why.as_ref().is_err_and(|why| why.contains("would add more than 8388608 bytes")), "{why:?}");
}

#[test]
fn a_custom_resource_is_as_the_schema_has_it_now() {
    let schema = r#"{"properties":{"spec":{"properties":{"a":{},"size":{"default":3}}}}}"#;
    let schema = Some(std::sync::Arc::new(Structural::of_root(schema).expect("a schema")));
    let Shape::Custom { kind, api_versions, .. } = things().shape else { unreachable!("a custom shape") };
    let storage = Storage { shape: Shape::Custom { kind, api_versions, schema }, ..things() };
    let shown = |spec: &str| {
        let stored = format!(r#"{{"apiVersion":"ex.io/v1","kind":"Thing","metadata":{{"name":"t","uid":"u"}},"spec":{spec}}}"#);
        let object = ingest(
            &storage,
            "/registry/ex.io/things/".len(),
            Bytes::from_static(b"/registry/ex.io/things/t"),
            stored.as_bytes(),
            Revision(7),
        );
        String::from_utf8_lossy(object.expect("it is shown").own_tail()).split_once(r#""spec":"#).expect("a spec").1.to_owned()
    };
    assert_eq!(shown(r#"{"size":4,"a":1.50}"#), r#"{"size":4,"a":1.50}}"#, "what fits is shown as it is stored");
    assert_eq!(shown(r#"{"a":1,"b":2}"#), r#"{"a":1,"size":3}}"#);
}

fn things() -> Storage {
    Storage {
        id: "ex.io/things".into(),
        group: "ex.io".into(),
        resource: "things".into(),
        namespaced: false,
        shape: Shape::Custom { kind: "Thing".into(), api_versions: vec!["ex.io/v1".into()], schema: None },
        fields: Vec::new(),
    }
}

/// A view kept all objects with their defaults.
#[test]
fn what_another_version_shows_is_kept_as_it_is_stored() {
    let schema = |text: &str| Arc::new(Structural::of_root(&text.replace("LONG", &"x".repeat(5_000))).expect("a schema"));
    let writer = schema(
        r#"{"properties":{"spec":{"properties":{"gone":{"default":1},"l":{"items":{"properties":{"d":{"default":"LONG"},"e":{"default":1}}}}}}}}"#,
    );
    let reader = schema(r#"{"properties":{"spec":{"properties":{"l":{"items":{"properties":{"d":{}}}}}}}}"#);
    let stored = format!(
        r#"{{"apiVersion":"ex.io/v1","kind":"Thing","metadata":{{"name":"t","resourceVersion":"7"}},"spec":{{"l":[{}]}}}}"#,
        ["{}"; 100].join(",")
    );
    let items = vec![serde_json::json!({"d": "x".repeat(5_000)}); 100];
    let shown = serde_json::json!({"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"l": items}});
    let key = Bytes::from_static(b"/registry/ex.io/things/t");
    let remade = Remade { stored: &stored, schema: &writer, pruned_by: Some(&reader) };
    let value = format!("{shown}\n");
    let object =
        ingest_remade((&things(), "/registry/ex.io/things/".len()), key, (value.as_bytes(), remade), Revision(7)).expect("an object");
    assert!(object.weight() < stored.len() + 400, "{} bytes are held", object.weight());
    let mut body = Vec::new();
    Encoder::custom("ex.io/v1", "Thing", "ThingList").object_into(&object, &mut body);
    assert_eq!(String::from_utf8_lossy(&body), shown.to_string().replace(r#""name":"t""#, r#""name":"t","resourceVersion":"7""#));
    assert_eq!(object.tail_len() + r#"{"apiVersion":"ex.io/v1","#.len(), body.len());
}
