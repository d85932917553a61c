//! Cases of `conform`.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn check(group: &str, kind: &str, mut sent: Value, expect: Value, unknown: &[&str]) {
    let found = conform(&mut sent, group, "v1", kind);
    assert_eq!(found.as_deref(), Ok(&unknown.iter().map(|&path| path.to_owned()).collect::<Vec<_>>()[..]), "{sent}");
    assert_eq!(sent, expect);
}

fn wrong(group: &str, kind: &str, mut sent: Value, expect: &str) {
    assert_eq!(conform(&mut sent, group, "v1", kind), Err(WrongType(expect.to_owned())), "{sent}");
}

#[test]
fn unknown_fields_are_dropped_and_told() {
    check(
        "",
        "Pod",
        json!({"metadata": {"name": "p", "Labels": {}}, "spec": {"bar": 2, "containers": [{"name": "a", "foo": 1}, {"foo": 2}]}, "zz": {}}),
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}, {}]}}),
        &["metadata.Labels", "spec.bar", "spec.containers[0].foo", "spec.containers[1].foo", "zz"],
    );
    check("", "ConfigMap", json!({"data": {"any": "x"}, "$patch": null}), json!({"data": {"any": "x"}}), &["$patch"]);
    check(
        "",
        "ConfigMap",
        json!({"metadata": {"managedFields": [{"fieldsV1": {"f:data": null}}]}}),
        json!({"metadata": {"managedFields": [{"fieldsV1": {"f:data": null}}]}}),
        &[],
    );
    let many: Map<String, Value> = (0..200).map(|n| (format!("a{n}"), json!(1))).collect();
    assert_eq!(conform(&mut Value::Object(many), "", "v1", "ConfigMap").map(|unknown| unknown.len()), Ok(UNKNOWN_MAX));
}

/// Each was sent to a kube-apiserver as a strategic merge patch.
#[test]
fn what_a_strategic_merge_patch_made_is_read_out_of_maps() {
    let merged = |spec: Value| {
        let mut deployment = json!({"spec": spec});
        conform_merged(&mut deployment, "apps", "v1", "Deployment").map(|_| deployment["spec"].clone()).map_err(|wrong| wrong.0)
    };
    for (spec, why) in [
        (json!({"replicas": {"a": 1}}), "unrecognized type: int32"),
        (json!({"replicas": "x"}), "unrecognized type: int32"),
        (json!({"replicas": 1.5}), "cannot convert float64 to int32"),
        (json!({"paused": "x"}), "unrecognized type: bool"),
        (json!({"selector": "x"}), "cannot restore struct from: string"),
        (json!({"selector": {"matchLabels": 5}}), "cannot restore map from int64"),
        (json!({"selector": {"matchLabels": {"a": 5}}}), "cannot convert int64 to string"),
        (json!({"selector": {"matchLabels": {"a": true}}}), "unrecognized type: string"),
        (json!({"template": {"spec": {"volumes": "x"}}}), "cannot restore slice from string"),
        (json!({"template": {"spec": {"volumes": {"a": 1}}}}), "cannot restore slice from map"),
    ] {
        assert_eq!(merged(spec.clone()), Err(why.to_owned()), "{spec}");
    }
    assert_eq!(merged(json!({"replicas": 2.0})), Ok(json!({"replicas": 2})));
    assert_eq!(merged(json!({"replicas": 2_147_483_648_i64})), Ok(json!({"replicas": i32::MIN})));
}

#[test]
fn nulls_are_absent_or_zero() {
    check("", "ConfigMap", json!({"data": {"a": null}, "immutable": null, "metadata": null}), json!({"data": {"a": ""}}), &[]);
    check(
        "",
        "Pod",
        json!({"spec": {"tolerations": [null], "nodeSelector": {"a": null}}}),
        json!({"spec": {"tolerations": [{}], "nodeSelector": {"a": ""}}}),
        &[],
    );
    check("", "Node", json!({"status": {"capacity": {"cpu": null}}}), json!({"status": {"capacity": {"cpu": "0"}}}), &[]);
}

#[test]
fn scalars_get_their_normal_form() {
    check(
        "",
        "Node",
        json!({"status": {"capacity": {"cpu": 0.5, "memory": "1024Mi"}}}),
        json!({"status": {"capacity": {"cpu": "500m", "memory": "1Gi"}}}),
        &[],
    );
    check("", "Secret", json!({"data": {"a": "aGVs\nbG8=", "b": "AB=="}}), json!({"data": {"a": "aGVsbG8=", "b": "AA=="}}), &[]);
    check(
        "",
        "ConfigMap",
        json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00+02:00"}}),
        json!({"metadata": {"creationTimestamp": "2019-12-31T22:00:00Z"}}),
        &[],
    );
    check(
        "",
        "Service",
        json!({"spec": {"ports": [{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8081}]}}),
        json!({"spec": {"ports": [{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8081}]}}),
        &[],
    );
}

#[test]
fn empty_metadata_is_left_out_and_nothing_else() {
    let metadata = json!({"name": "a", "namespace": "", "labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": [], "deletionGracePeriodSeconds": 0});
    check(
        "apps",
        "Deployment",
        json!({"metadata": metadata, "spec": {"paused": false, "template": {"metadata": {"labels": {}}, "spec": {"containers": [], "hostname": ""}}}}),
        json!({"metadata": {"name": "a", "deletionGracePeriodSeconds": 0}, "spec": {"paused": false, "template": {"metadata": {}, "spec": {"containers": [], "hostname": ""}}}}),
        &[],
    );
}

/// Recorded from kube-apiserver 1.36.3.
#[test]
fn wrong_types_are_told_as_go_tells_them() {
    let field = |found: &str, field: &str, of: &str| format!("json: cannot unmarshal {found} into Go struct field {field} of type {of}");
    let map = |sent: Value, expect: &str| wrong("", "ConfigMap", sent, expect);
    map(json!({"data": []}), &field("array", "ConfigMap.data", "map[string]string"));
    map(json!({"data": {"a": 1.5}}), &field("number", "ConfigMap.data", "string"));
    map(json!({"data": {"a": true}}), &field("bool", "ConfigMap.data", "string"));
    map(json!({"immutable": 1}), &field("number", "ConfigMap.immutable", "bool"));
    map(json!({"binaryData": {"a": 1}}), &field("number", "ConfigMap.binaryData", "[]uint8"));
    map(json!({"binaryData": {"a": "!!"}}), "illegal base64 data at input byte 0");
    map(json!({"metadata": []}), &field("array", "ConfigMap.metadata", "v1.ObjectMeta"));
    map(json!({"metadata": {"labels": {"a": 1}}}), &field("number", "ObjectMeta.metadata.labels", "string"));
    map(json!({"metadata": {"finalizers": "a"}}), &field("string", "ObjectMeta.metadata.finalizers", "[]string"));
    map(json!({"metadata": {"ownerReferences": {}}}), &field("object", "ObjectMeta.metadata.ownerReferences", "[]v1.OwnerReference"));
    map(
        json!({"metadata": {"ownerReferences": [{"name": 1}]}}),
        &field("number", "OwnerReference.metadata.ownerReferences.name", "string"),
    );
    map(json!({"metadata": {"creationTimestamp": {}}}), &field("object", "ObjectMeta.metadata.creationTimestamp", "string"));
    map(
        json!({"metadata": {"creationTimestamp": "abc"}}),
        r#"parsing time "abc" as "2006-01-02T15:04:05Z07:00": cannot parse "abc" as "2006""#,
    );
    map(json!({"metadata": {"generation": 1.5}}), &field("number 1.5", "ObjectMeta.metadata.generation", "int64"));
    map(json!({"metadata": {"generation": "1"}}), &field("string", "ObjectMeta.metadata.generation", "int64"));
    map(json!([]), "json: cannot unmarshal array into Go value of type v1.ConfigMap");
    let deployment = |spec: Value, expect: &str| wrong("apps", "Deployment", json!({"spec": spec}), expect);
    let pod = |spec: Value, expect: &str| deployment(json!({"template": {"spec": spec}}), expect);
    deployment(json!([]), &field("array", "Deployment.spec", "v1.DeploymentSpec"));
    deployment(json!({"replicas": 3_000_000_000u64}), &field("number 3000000000", "DeploymentSpec.spec.replicas", "int32"));
    deployment(
        json!({"strategy": {"rollingUpdate": {"maxSurge": []}}}),
        &field("array", "RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge", "int32"),
    );
    pod(json!({"containers": {}}), &field("object", "PodSpec.spec.template.spec.containers", "[]v1.Container"));
    pod(json!({"containers": [{"name": 1}]}), &field("number", "Container.spec.template.spec.containers.name", "string"));
    pod(
        json!({"containers": [{}, {"ports": [{"containerPort": "80"}]}]}),
        &field("string", "ContainerPort.spec.template.spec.containers.ports.containerPort", "int32"),
    );
    pod(
        json!({"containers": [{"resources": {"limits": []}}]}),
        &field("array", "ResourceRequirements.spec.template.spec.containers.resources.limits", "v1.ResourceList"),
    );
    pod(json!({"containers": [{"resources": {"limits": {"cpu": true}}}]}), quantity::FORMAT);
}

#[test]
fn custom_resources_have_typed_metadata_only() {
    let mut sent = json!({"apiVersion": "ex.io/v1", "metadata": {"name": "x", "foo": 1, "labels": {"a": null}, "annotations": {}}, "spec": {"a": null}});
    assert_eq!(conform(&mut sent, "ex.io", "v1", "W"), Ok(vec!["metadata.foo".to_owned()]));
    assert_eq!(sent, json!({"apiVersion": "ex.io/v1", "metadata": {"name": "x", "labels": {"a": ""}}, "spec": {"a": null}}));
    let warnings = |metadata: Value, expect: &str| wrong("ex.io", "W", json!({"metadata": metadata}), expect);
    warnings(json!({"labels": {"a": 1}}), "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string");
    warnings(json!([]), "json: cannot unmarshal array into Go value of type v1.ObjectMeta");
    check("ex.io", "W", json!({"metadata": null}), json!({}), &[]);
    check("ex.io", "W", json!({}), json!({}), &[]);
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z0-9]{0,4}".prop_map(Value::from)
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let name = prop::sample::select(vec![
            "metadata",
            "spec",
            "name",
            "labels",
            "containers",
            "template",
            "ports",
            "data",
            "x",
            "limits",
            "resources",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name.prop_map(str::to_owned), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_conforms_is_left_alone(mut value in tree()) {
        for kind in ["Pod", "ConfigMap", "PodTemplate"] {
            if conform(&mut value, "", "v1", kind).is_ok() {
                let first = value.clone();
                prop_assert_eq!(conform(&mut value, "", "v1", kind), Ok(Vec::new()));
                prop_assert_eq!(&value, &first);
            }
        }
    }
}
