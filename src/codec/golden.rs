//! Golden cases recorded from a live kube-apiserver 1.36.3 (`tests/data/codec/record.py`), and properties that need the whole room.

use bytes::Bytes;
use proptest::{collection, prelude::*};
use serde_json::Value;

use super::{Encoder, ListMeta, MetaVersion, ingest, object_meta};
use model::{Broken, FieldPath, Kind, Object, Revision, Shape, Storage};

/// A recorded case: lines of `what apiVersion payload`.
struct Case(Vec<(&'static str, &'static str, &'static str)>);

impl Case {
    fn read(text: &'static str) -> Self {
        let line = |line: &'static str| {
            let mut words = line.splitn(3, ' ');
            (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next().unwrap_or(""))
        };
        Self(text.lines().map(line).collect())
    }

    fn all(&self, what: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.0.iter().filter(move |(w, ..)| *w == what).map(|(_, version, payload)| (*version, *payload))
    }

    fn one(&self, what: &str) -> &'static str {
        self.all(what).next().map(|(_, payload)| payload).expect("the case has it")
    }
}

fn storage(namespaced: bool, shape: Shape, fields: Vec<FieldPath>) -> Storage {
    Storage { id: "x".into(), group: String::new(), resource: "x".to_owned(), namespaced, shape, fields }
}

fn built_in(kind: &str, api_version: &str) -> Storage {
    storage(true, Shape::BuiltIn { kind: kind.to_owned(), api_version: api_version.to_owned() }, Vec::new())
}

fn widgets() -> Storage {
    let fields = ["color", "size", "on"].map(|name| FieldPath::Scalar(vec!["spec".to_owned(), name.to_owned()]));
    storage(
        true,
        Shape::Custom { kind: "Widget".to_owned(), api_versions: vec!["ex.io/v1".to_owned(), "ex.io/v2".to_owned()], schema: None },
        fields.into(),
    )
}

/// Ingests what was stored and compares every recorded answer with ours, byte for byte.
fn check(text: &'static str, storage: &Storage, encoders: &[(&str, Encoder)]) -> Object {
    let case = Case::read(text);
    let key = case.one("key");
    let prefix = key.match_indices('/').map(|(at, _)| at + 1).rev().nth(usize::from(storage.namespaced)).expect("a key has slashes");
    let revision = Revision(case.one("revision").parse().expect("digits"));
    let mut value = case.one("stored").as_bytes().to_vec();
    value.push(b'\n');
    let object = ingest(storage, prefix, Bytes::from(key), &value, revision).expect("served by kube-apiserver");
    assert!(
        object.key().ends_with(object.name().as_bytes())
            && object.own_tail()[object.revision_at().start..].starts_with(revision.to_string().as_bytes())
    );
    for (version, encoder) in encoders {
        let of = |what: &str| case.all(what).filter(|(v, _)| v == version).map(|(_, payload)| payload).collect::<Vec<_>>();
        let mut body = Vec::new();
        encoder.object_into(&object, &mut body);
        assert_eq!(utf8(&body), of("get").concat());
        assert_eq!(utf8(&encoder.event(Kind::Added, &object, revision).expect("JSON")), of("added").concat() + "\n");
        for list in [of("list"), of("page")] {
            let [list] = list[..] else { panic!("one list of each kind") };
            assert_eq!(listed(encoder, &object, list), list);
        }
        for bookmark in of("bookmark") {
            assert_eq!(utf8(&encoder.bookmark(shown_revision(bookmark), true).expect("JSON")), bookmark.to_owned() + "\n");
        }
        for deleted in of("deleted") {
            assert_eq!(utf8(&encoder.event(Kind::Deleted, &object, shown_revision(deleted)).expect("JSON")), deleted.to_owned() + "\n");
        }
        assert!(!of("get").is_empty() && !of("added").is_empty() && !of("bookmark").is_empty(), "the case is whole");
    }
    object
}

/// Our list of this one object, with the recorded list's own metadata.
fn listed(encoder: &Encoder, object: &Object, recorded: &str) -> String {
    let list: Value = serde_json::from_str(recorded).expect("JSON");
    let meta = ListMeta {
        revision: list_revision(recorded),
        continue_token: list["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned),
        remaining: list["metadata"]["remainingItemCount"].as_u64(),
        shard: None,
    };
    let mut out = Vec::new();
    encoder.list_prologue_into(&meta, &mut out);
    encoder.item_into(object, &mut out);
    encoder.list_epilogue_into(&meta, &mut out);
    utf8(&out)
}

fn list_revision(list: &str) -> Revision {
    let list: Value = serde_json::from_str(list).expect("JSON");
    Revision(list["metadata"]["resourceVersion"].as_str().expect("a list has one").parse().expect("digits"))
}

fn shown_revision(frame: &str) -> Revision {
    let frame: Value = serde_json::from_str(frame).expect("JSON");
    Revision(frame["object"]["metadata"]["resourceVersion"].as_str().expect("a string").parse().expect("digits"))
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

macro_rules! case {
    ($name:literal) => {
        include_str!(concat!("../../tests/data/codec/", $name, ".case"))
    };
}

#[test]
fn core_objects() {
    let config_map = [("v1", Encoder::built_in("v1", "ConfigMap", "ConfigMapList", ""))];
    for text in [case!("configmap"), case!("configmap_bare"), case!("configmap_generated"), case!("configmap_finalizer")] {
        check(text, &built_in("ConfigMap", "v1"), &config_map);
    }
    let labelled = check(case!("configmap"), &built_in("ConfigMap", "v1"), &config_map);
    assert_eq!((labelled.namespace(), labelled.name(), labelled.labels().len()), ("codec", "cm", 3));
    assert_eq!((labelled.labels().get("app"), labelled.labels().get("empty"), labelled.labels().get("no")), (Some("web"), Some(""), None));

    let mut secrets = built_in("Secret", "v1");
    secrets.fields = vec![FieldPath::Scalar(vec!["type".to_owned()])];
    let secret = check(case!("secret"), &secrets, &[("v1", Encoder::built_in("v1", "Secret", "SecretList", ""))]);
    assert_eq!(secret.field(0), "ex.io/own");

    let mut nodes = built_in("Node", "v1");
    nodes.namespaced = false;
    nodes.fields = vec![FieldPath::Bool(vec!["spec".to_owned(), "unschedulable".to_owned()])];
    let zero = r#","spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}"#;
    let node = check(case!("node"), &nodes, &[("v1", Encoder::built_in("v1", "Node", "NodeList", zero))]);
    assert_eq!((node.namespace(), node.name(), node.field(0)), ("", "node-1", "true"));
}

#[test]
fn workloads() {
    let path = |dotted: &str| dotted.split('.').map(str::to_owned).collect::<Vec<_>>();
    let mut pods = built_in("Pod", "v1");
    pods.fields = vec![
        FieldPath::Scalar(path("status.phase")),
        FieldPath::Scalar(path("spec.nodeName")),
        FieldPath::Scalar(path("spec.restartPolicy")),
        FieldPath::Bool(path("spec.hostNetwork")),
        FieldPath::FirstElement(path("status.podIPs"), "ip".to_owned()),
    ];
    let zero = r#","spec":{"containers":null},"status":{}"#;
    let pod = check(case!("pod"), &pods, &[("v1", Encoder::built_in("v1", "Pod", "PodList", zero))]);
    assert_eq!([0, 1, 2, 3, 4].map(|index| pod.field(index)), ["Pending", "", "Always", "false", ""]);

    let mut services = built_in("Service", "v1");
    services.fields = vec![FieldPath::Scalar(path("spec.type"))];
    let zero = r#","spec":{},"status":{"loadBalancer":{}}"#;
    let service = check(case!("service"), &services, &[("v1", Encoder::built_in("v1", "Service", "ServiceList", zero))]);
    assert_eq!(service.field(0), "ClusterIP");

    let zero = r#","spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}"#;
    check(
        case!("deployment"),
        &built_in("Deployment", "apps/v1"),
        &[("apps/v1", Encoder::built_in("apps/v1", "Deployment", "DeploymentList", zero))],
    );
    let version = "coordination.k8s.io/v1";
    check(case!("lease"), &built_in("Lease", version), &[(version, Encoder::built_in(version, "Lease", "LeaseList", r#","spec":{}"#))]);
}

#[test]
fn events_in_both_groups() {
    let zero = r#","involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":"""#;
    let encoders = [
        ("v1", Encoder::built_in("v1", "Event", "EventList", zero)),
        ("events.k8s.io/v1", Encoder::built_in("events.k8s.io/v1", "Event", "EventList", crate::event_v1::ZERO)),
    ];
    let mut events = built_in("Event", "v1");
    let path = |dotted: &str| dotted.split('.').map(str::to_owned).collect::<Vec<_>>();
    events.fields = vec![
        FieldPath::Scalar(path("involvedObject.uid")),
        FieldPath::Scalar(path("involvedObject.fieldPath")),
        FieldPath::FirstOf(vec![FieldPath::Scalar(path("source.component")), FieldPath::Scalar(path("reportingComponent"))]),
    ];
    let full = check(case!("event_core_full"), &events, &encoders);
    assert_eq!((full.field(0), full.field(1), full.field(2)), ("u-1", "spec.containers{c}", "kubelet"));
    check(case!("event_core_bare"), &events, &encoders);
    assert_eq!(check(case!("event_v1"), &events, &encoders).field(2), "ex.io/c");
}

#[test]
fn definitions_are_kept_as_v1() {
    let version = "apiextensions.k8s.io/v1";
    let zero = r#","spec":{"group":"","names":{"plural":"","kind":""},"scope":"","versions":null},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}"#;
    let encoders = [(version, Encoder::built_in(version, "CustomResourceDefinition", "CustomResourceDefinitionList", zero))];
    let definitions = storage(false, Shape::Definition, Vec::new());
    for text in [case!("crd_one"), case!("crd_same"), case!("crd_differ"), case!("crd_hook"), case!("crd_url"), case!("crd_rules")] {
        let kept = check(text, &definitions, &encoders);
        assert_eq!(kept.labels().get("set"), Some("codec"));
        // Stored as v1 (a newer kube-apiserver): served as it is.
        let v1 = Case::read(text).one("get");
        let again = ingest(&definitions, 0, Bytes::from_static(b"x"), v1.as_bytes(), kept.revision).expect("v1");
        assert_eq!(again.tail(), kept.tail());
    }
}

#[test]
fn metadata_alone() {
    let partial = |text: &'static str, storage: &Storage| {
        let encoders = [MetaVersion::V1, MetaVersion::V1Beta1].map(|v| (v.api_version(), Encoder::metadata_only(v, storage)));
        let object = check(text, storage, &encoders);
        let case = Case::read(text);
        for (version, encoder) in &encoders {
            let empty = case.all("empty").find(|(v, _)| v == version).map(|(_, list)| list).expect("the case has it");
            let meta = ListMeta { revision: list_revision(empty), ..ListMeta::default() };
            let mut out = Vec::new();
            encoder.empty_list_into(&meta, &mut out);
            assert_eq!(utf8(&out), empty);
            let of = |kind| utf8(&encoder.event(kind, &object, object.revision).expect("JSON"));
            assert_eq!(of(Kind::Modified), of(Kind::Added).replacen("ADDED", "MODIFIED", 1));
        }
        object
    };
    partial(case!("partial_configmap"), &built_in("ConfigMap", "v1"));
    for (text, kind) in [(case!("partial_daemonset"), "DaemonSet"), (case!("partial_deployment"), "Deployment")] {
        let stored = partial(text, &built_in(kind, "apps/v1"));
        assert!(utf8(&stored.tail()).contains("\"deprecated."), "the annotation that is not shown is stored");
    }
    let shape = Shape::Custom { kind: "Gadget".to_owned(), api_versions: vec!["ex.io/v1".to_owned()], schema: None };
    let gadgets = storage(true, shape, Vec::new());
    for text in [case!("partial_gadget"), case!("partial_gadget_bare"), case!("partial_gadget_held")] {
        partial(text, &gadgets);
    }
}

#[test]
fn custom_resources_in_two_versions() {
    let encoders = ["ex.io/v1", "ex.io/v2"].map(|version| (version, Encoder::custom(version, "Widget", "WidgetList")));
    let full = check(case!("widget"), &widgets(), &encoders);
    assert_eq!([0, 1, 2].map(|index| full.field(index)), ["red", "5", "true"]);
    assert_eq!(full.labels().get("tier"), Some("front"));
    let bare = check(case!("widget_bare"), &widgets(), &encoders);
    assert_eq!(bare.field(0), "");
}

fn broken(storage: &Storage, key: &'static str, value: &[u8]) -> String {
    match ingest(storage, "/registry/x/".len(), Bytes::from_static(key.as_bytes()), value, Revision(5)) {
        Err(Broken { key: k, revision: Revision(5), why, known_part: None }) if k == key => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_served_says_why() {
    let storage = built_in("ConfigMap", "v1");
    for (value, why) in [
        (&b"k8s\0\n\x0f"[..], "a protobuf value (k8s\\0) that cannot be read: unexpected EOF"),
        (b"k8s\0\n\x07\n\x02v1\x12\x01X\x12\x00", "a protobuf value of a kind that is not known: v1 \"X\""),
        (b"k8s:enc:aescbc:v1:key1:\xff\x00", "an encrypted value (k8s:enc:aescbc:)"),
        (b"", "an empty value"),
        (b" \n", "an empty value"),
        (b"{\"kind\":\"ConfigMap\xff", "not UTF-8 (byte 18)"),
        (br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{}"#, "not valid JSON: EOF"),
        (br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{}}x"#, "not valid JSON: trailing"),
        (br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{},"data":{"a":tr ue}}"#, "not valid JSON"),
        (br#"{"kind":"Secret","apiVersion":"v1","metadata":{}}"#, "kind \"Secret\" where \"ConfigMap\" is expected"),
        (br#"{"kind":"ConfigMap","apiVersion":"v2","metadata":{}}"#, "apiVersion \"v2\" where v1 is expected"),
        (
            br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":[]}"#,
            "not a Kubernetes object: invalid type: sequence, expected metadata as an object",
        ),
        (br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"labels":{"a":1}}}"#, "not a Kubernetes object: invalid type: integer `1`"),
        (b"[]", "not a Kubernetes object"),
        (b"7", "not a Kubernetes object"),
        (b"{}", "kind \"\" where"),
    ] {
        let said = broken(&storage, "/registry/x/ns/n", value);
        assert!(said.starts_with(why), "{said} / {why}");
    }
    let custom = widgets();
    assert!(
        broken(&custom, "/registry/x/ns/n", br#"{"apiVersion":"ex.io/v1","kind":"Gadget","metadata":{}}"#).starts_with("kind \"Gadget\"")
    );
    assert!(
        broken(&custom, "/registry/x/ns/n", br#"{"apiVersion":"ex.io/v3","kind":"Widget","metadata":{}}"#).contains("ex.io/v1, ex.io/v2")
    );
    let definitions = storage_of_definitions();
    assert!(
        broken(&definitions, "/registry/x/n", br#"{"kind":"A","apiVersion":"apiextensions.k8s.io/v1beta1"}"#).starts_with("kind \"A\"")
    );
    let fine = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{}}"#;
    for key in ["/registry/x/n", "/registry/x/", "/registry/x/ns/", "/registry/x//n", "/registry/x/ns/n/more", "/reg"] {
        assert!(broken(&storage, key, fine).starts_with("the key"), "{key}");
    }
    assert!(broken(&definitions, "/registry/x/ns/n", fine).starts_with("the key"));
}

fn storage_of_definitions() -> Storage {
    storage(false, Shape::Definition, Vec::new())
}

/// Values that kube-apiserver would not have written: the canonical form of each.
#[test]
fn values_of_other_writers_are_written_anew() {
    let tail = |storage: &Storage, value: &str| {
        utf8(ingest(storage, 3, Bytes::from_static(b"/x/ns/n"), value.as_bytes(), Revision(42)).expect("servable").own_tail())
    };
    let storage = built_in("ConfigMap", "v1");
    let spliced = r#""metadata":{"name":"n","resourceVersion":"42","labels":{"a":"b"}},"data":{"k":"\u003c v"}}"#;
    for value in [
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"n","labels":{"a":"b"}},"data":{"k":"\u003c v"}}"#,
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"n","resourceVersion":"7","labels":{"a":"b"}},"data":{"k":"\u003c v"}}"#,
        "{\n \"kind\": \"ConfigMap\",\n \"apiVersion\": \"v1\",\n \"metadata\": {\"name\": \"n\", \"labels\": {\"a\": \"b\"}},\n \"data\": {\"k\": \"\\u003c v\"}}",
        r#"{"metadata":{"labels":{"a":"b"},"name":"n"},"data":{"k":"< v"},"apiVersion":"v1","kind":"ConfigMap"}"#,
    ] {
        assert_eq!(tail(&storage, value), spliced);
    }
    assert_eq!(tail(&storage, r#"{"apiVersion":"v1","kind":"ConfigMap"}"#), r#""metadata":{"resourceVersion":"42"}}"#);
    assert_eq!(
        tail(&storage, r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"n"}}"#),
        r#""metadata":{"name":"n","resourceVersion":"42"}}"#
    );
    let custom = widgets();
    assert_eq!(
        tail(&custom, r#"{"spec":{"f":1.50,"e":1e21},"kind":"Widget","apiVersion":"ex.io/v2","metadata":{"uid":"u","name":"n"},"Aa":1}"#),
        r#""Aa":1,"kind":"Widget","metadata":{"name":"n","resourceVersion":"42","uid":"u"},"spec":{"e":1e+21,"f":1.5}}"#
    );
    assert_eq!(
        tail(&custom, r#"{"apiVersion":"ex.io/v2","data":{},"kind":"Widget","metadata":{"name":"n","ownerReferences":[]}}"#),
        r#""data":{},"kind":"Widget","metadata":{"name":"n","ownerReferences":[],"resourceVersion":"42"}}"#
    );
}

/// Metadata with known and unknown members, in any order.
fn any_metadata() -> impl Strategy<Value = Value> {
    let member = prop_oneof![
        proptest::sample::select(super::encode::OBJECT_META.to_vec()).prop_map(str::to_owned),
        proptest::string::string_regex("[a-zA-Z<]{1,12}").expect("a regex"),
    ]
    .prop_filter("labels have a type", |name| name != "labels");
    let labels = collection::btree_map("[a-z]{1,4}", "[a-z<é]{0,4}", 0..3);
    let managed_fields = proptest::option::of(collection::vec((1_u8..=12, "[0-9.\"\\\\]{0,9}"), 0..5));
    (collection::btree_map(member, corpus::any_json(), 0..6), labels, managed_fields).prop_map(|(members, labels, managed_fields)| {
        let mut map: serde_json::Map<String, Value> = members.into_iter().collect();
        map.insert("labels".to_owned(), labels.into_iter().map(|(k, v)| (k, Value::from(v))).collect());
        if let Some(entries) = managed_fields {
            map.insert("managedFields".to_owned(), entries.iter().map(|(month, ip)| managed_by_a_kubelet(*month, ip)).collect());
        }
        Value::Object(map)
    })
}

/// An entry of managed fields, of which few are long enough to be kept apart.
fn managed_by_a_kubelet(month: u8, ip: &str) -> Value {
    let key = format!("k:{}", serde_json::json!({ "ip": ip }));
    serde_json::json!({"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": format!("2026-{month:02}-01T00:00:00Z"),
        "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:podIPs": {key: {".": {}, "f:ip": {}}}}}, "subresource": "status"})
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused_or_served(value in collection::vec(any::<u8>(), 0..60), junk in "[{}\\[\\]\",:a\\\\ntkmed ]{0,30}") {
        for storage in [built_in("A", "v"), widgets(), storage_of_definitions()] {
            let key = Bytes::from_static(if storage.namespaced { b"/a/b" } else { b"/a" });
            let _ = ingest(&storage, 1, key.clone(), &value, Revision(1));
            let _ = ingest(&storage, 1, key.clone(), junk.as_bytes(), Revision(1));
            let _ = ingest(&storage, 1, Bytes::from(value.clone()), junk.as_bytes(), Revision(1));
            for head in [r#"{"kind":"A","apiVersion":"v","metadata":"#, r#"{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"#,
                r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{},"spec":"#] {
                let half = [head, &junk, "}"].concat();
                let _ = ingest(&storage, 1, key.clone(), half.as_bytes(), Revision(1));
            }
        }
    }

    #[test]
    fn a_splice_adds_the_revision_and_nothing_else(metadata in any_metadata(), spec in corpus::any_json(), revision in any::<u64>(), pretty in any::<bool>(), custom in any::<bool>()) {
        let (storage, head, encoder) = if custom {
            (widgets(), r#"{"apiVersion":"ex.io/v1","kind":"Widget""#, Encoder::custom("ex.io/v1", "Widget", "WidgetList"))
        } else {
            (built_in("A", "v"), r#"{"kind":"A","apiVersion":"v""#, Encoder::built_in("v", "A", "AList", ""))
        };
        let mut text = format!("{head},\"metadata\":{metadata},\"spec\":{spec}}}").into_bytes();
        let mut wanted: Value = serde_json::from_slice(&text).expect("valid");
        // What no ObjectMeta has is left out of a custom resource.
        if let (true, Some(metadata)) = (custom, wanted["metadata"].as_object_mut()) {
            object_meta::coerce(metadata);
        }
        wanted["metadata"]["resourceVersion"] = Value::from(revision.to_string());
        if pretty {
            text = go::indent::indent(&text);
        }
        let object = ingest(&storage, 1, Bytes::from_static(b"/a/b"), &text, Revision(revision)).expect("an object");
        let mut body = Vec::new();
        encoder.object_into(&object, &mut body);
        prop_assert_eq!(&serde_json::from_slice::<Value>(&body).expect("valid JSON"), &wanted);
        let own = ["{", utf8(object.own_tail()).as_str()].concat();
        prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&own).is_ok(), "{own}");
        prop_assert_eq!(object.tail_len(), object.tail().len());
        if !custom {
            let metadata = Encoder::metadata_only(MetaVersion::V1, &storage).body(&object).expect("JSON");
            prop_assert_eq!(&serde_json::from_slice::<Value>(&metadata).expect("valid JSON")["metadata"], &wanted["metadata"]);
        }
        prop_assert_eq!(utf8(&object.own_tail()[object.revision_at()]), revision.to_string());
        prop_assert!(!object.tail().contains(&b'\n'));
        let deleted = encoder.event(Kind::Deleted, &object, Revision(7)).expect("JSON");
        wanted["metadata"]["resourceVersion"] = Value::from("7");
        prop_assert_eq!(&serde_json::from_slice::<Value>(&deleted).expect("valid JSON")["object"], &wanted);
    }
}
