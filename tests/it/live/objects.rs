//! The objects that live cases write through kube-apiserver: many of a few kinds, a few of many, and text that is awkward to encode.

use std::{
    io,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::client::{Answer, Client, Request};

/// How long a new definition may take until it is served, or a busy server until it does what it is asked, and how often that is looked at.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);
/// Writers at a time: enough to keep kube-apiserver busy on two cores.
const WRITERS: usize = 8;
/// What Go's JSON writes with escapes, what it does not, and what a careless splice would break on.
pub(super) const AWKWARD: &str = "<b>&\u{e9}\u{2028}\u{2029}\u{7f}\t\"\\\u{1f600}{\"resourceVersion\":\"1\"}";

/// An object to be created: the path of its collection, and its JSON.
pub(super) type Creation = (String, Value);

/// Creates all of them, several at a time; an object that is there already is left alone.
pub(super) async fn create(client: &Client, creations: Vec<Creation>) -> Result<(), Box<dyn std::error::Error>> {
    let mut answers = stream::iter(creations).map(|(path, object)| post(client.clone(), path, object)).buffer_unordered(WRITERS);
    while let Some(answer) = answers.next().await {
        answer?;
    }
    Ok(())
}

/// Asks a kube-apiserver that has too much to do, or whose etcd has, again: 429, and 5xx. What such an answer is about may have been done.
pub(super) async fn asked(client: &Client, request: &Request<'_>) -> io::Result<Answer> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = client.ask(request).await?;
        if !matches!(answer.status, 429 | 500 | 503 | 504) || Instant::now() > deadline {
            return Ok(answer);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Gets from a kube-apiserver, which answers 429 while a definition's cache is not there yet.
pub(super) async fn fetched(client: &Client, target: &str) -> io::Result<Answer> {
    asked(client, &Request { method: "GET", target, body: None }).await
}

async fn post(client: Client, path: String, object: Value) -> Result<(), Box<dyn std::error::Error>> {
    let body = object.to_string();
    let answer = asked(&client, &Request { method: "POST", target: &path, body: Some(body.as_bytes()) }).await?;
    match answer.status {
        201 | 409 => Ok(()),
        status => Err(format!("POST {path}: {status} {}", String::from_utf8_lossy(&answer.body)).into()),
    }
}

/// A namespace.
pub(super) fn namespace(name: &str) -> Creation {
    ("/api/v1/namespaces".into(), json!({"metadata": {"name": name}}))
}

/// The issue's data set for a comparison of bodies: 1,000 ConfigMaps, 200 Pods, 100 Secrets, and one or a few of other built-in kinds.
pub(super) fn built_ins(ns: &str) -> Vec<Creation> {
    let mut all = Vec::new();
    all.extend((0..1_000).map(|n| config_map(ns, n)));
    all.extend((0..200).map(|n| pod(ns, &format!("pod-{n}"), (n % 3 > 0).then(|| format!("node-{}", n % 7)).as_deref())));
    all.extend((0..100).map(|n| secret(ns, n)));
    all.extend(few_of_many(ns));
    all
}

pub(super) fn config_map(ns: &str, n: usize) -> Creation {
    let text = if n.is_multiple_of(10) { AWKWARD.to_owned() } else { "x".repeat(n % 1_500) };
    let metadata =
        json!({"name": format!("cm-{n}"), "labels": {"app": if n.is_multiple_of(2) { "red" } else { "blue" }, "n": n.to_string()}});
    let object = json!({"metadata": metadata, "data": {"text": text, "empty": ""}, "binaryData": {"b": "AAEC"}});
    (format!("/api/v1/namespaces/{ns}/configmaps"), object)
}

/// A pod with defaults to fill in, bound to a node or not.
pub(super) fn pod(ns: &str, name: &str, node: Option<&str>) -> Creation {
    let container = json!({"name": "c", "image": "none:1", "env": [{"name": "E", "value": AWKWARD}],
        "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}, "ports": [{"containerPort": 80}]});
    let mut object = json!({"metadata": {"name": name, "labels": {"app": "pod"}}, "spec": {"containers": [container]}});
    if let Some(node) = node {
        object["spec"]["nodeName"] = node.into();
    }
    (format!("/api/v1/namespaces/{ns}/pods"), object)
}

pub(super) fn secret(ns: &str, n: usize) -> Creation {
    let metadata = json!({"name": format!("secret-{n}"), "annotations": {"note": AWKWARD, "n": n.to_string()}});
    let object =
        json!({"metadata": metadata, "stringData": {"text": AWKWARD}, "type": if n.is_multiple_of(2) { "Opaque" } else { "ex.io/other" }});
    (format!("/api/v1/namespaces/{ns}/secrets"), object)
}

/// One object of many built-in kinds, small but with nested parts.
pub(super) fn few_of_many(ns: &str) -> Vec<Creation> {
    let template = json!({"metadata": {"labels": {"app": "t"}}, "spec": {"containers": [{"name": "c", "image": "none:1"}], "restartPolicy": "Always"}});
    let once = json!({"spec": {"containers": [{"name": "c", "image": "none:1"}], "restartPolicy": "Never"}});
    let selector = json!({"matchLabels": {"app": "t"}});
    let namespaced = [
        ("/api/v1", "endpoints", json!({"subsets": [{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}]})),
        (
            "/api/v1",
            "events",
            json!({"involvedObject": {"kind": "Pod", "namespace": ns, "name": "pod-1"}, "reason": "Tested", "message": AWKWARD, "type": "Normal"}),
        ),
        ("/api/v1", "limitranges", json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}})),
        (
            "/api/v1",
            "persistentvolumeclaims",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        ("/api/v1", "podtemplates", json!({"template": template.clone()})),
        ("/api/v1", "replicationcontrollers", json!({"spec": {"replicas": 0, "selector": {"app": "t"}, "template": template.clone()}})),
        ("/api/v1", "resourcequotas", json!({"spec": {"hard": {"services": "10"}}})),
        ("/api/v1", "serviceaccounts", json!({})),
        ("/api/v1", "services", json!({"spec": {"selector": {"app": "t"}, "ports": [{"port": 80, "targetPort": "http"}]}})),
        ("/apis/apps/v1", "daemonsets", json!({"spec": {"selector": selector.clone(), "template": template.clone()}})),
        ("/apis/apps/v1", "deployments", json!({"spec": {"selector": selector.clone(), "template": template.clone()}})),
        ("/apis/apps/v1", "replicasets", json!({"spec": {"selector": selector.clone(), "template": template.clone()}})),
        (
            "/apis/apps/v1",
            "statefulsets",
            json!({"spec": {"serviceName": "s", "selector": selector.clone(), "template": template.clone()}}),
        ),
        ("/apis/apps/v1", "controllerrevisions", json!({"revision": 3, "data": {"b": 1, "a": {"z": AWKWARD}}})),
        (
            "/apis/autoscaling/v2",
            "horizontalpodautoscalers",
            json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}, "maxReplicas": 3}}),
        ),
        ("/apis/batch/v1", "jobs", json!({"spec": {"template": once.clone()}})),
        ("/apis/batch/v1", "cronjobs", json!({"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": once.clone()}}}})),
        (
            "/apis/discovery.k8s.io/v1",
            "endpointslices",
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.1.2"]}], "ports": [{"port": 81}]}),
        ),
        (
            "/apis/networking.k8s.io/v1",
            "ingresses",
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}),
        ),
        ("/apis/networking.k8s.io/v1", "networkpolicies", json!({"spec": {"podSelector": {}}})),
        ("/apis/policy/v1", "poddisruptionbudgets", json!({"spec": {"minAvailable": "50%", "selector": selector.clone()}})),
        ("/apis/rbac.authorization.k8s.io/v1", "roles", json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})),
        (
            "/apis/rbac.authorization.k8s.io/v1",
            "rolebindings",
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"}, "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}]}),
        ),
        ("/apis/coordination.k8s.io/v1", "leases", json!({"spec": {"holderIdentity": "h", "renewTime": "2026-01-02T03:04:05.000006Z"}})),
    ];
    let cluster = [
        ("/api/v1", "nodes", json!({"spec": {"podCIDR": "10.2.0.0/24", "unschedulable": true}, "status": {"capacity": {"cpu": "2"}}})),
        (
            "/api/v1",
            "persistentvolumes",
            json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}),
        ),
        ("/apis/networking.k8s.io/v1", "ingressclasses", json!({"spec": {"controller": "ex.io/c"}})),
        ("/apis/node.k8s.io/v1", "runtimeclasses", json!({"handler": "h"})),
        ("/apis/storage.k8s.io/v1", "storageclasses", json!({"provisioner": "ex.io/p", "parameters": {"p": AWKWARD}})),
        ("/apis/storage.k8s.io/v1", "csidrivers", json!({"spec": {"attachRequired": false}})),
        ("/apis/scheduling.k8s.io/v1", "priorityclasses", json!({"value": 7})),
        (
            "/apis/admissionregistration.k8s.io/v1",
            "validatingadmissionpolicies",
            json!({"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": ["none.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nones"]}]}, "validations": [{"expression": "1 < 2 && true"}]}}),
        ),
    ];
    let named = |mut object: Value, resource: &str| {
        object["metadata"] = json!({"name": format!("a-{resource}"), "labels": {"kind": resource}});
        object
    };
    let namespaced = namespaced.map(|(group, resource, object)| (format!("{group}/namespaces/{ns}/{resource}"), named(object, resource)));
    let cluster = cluster.map(|(group, resource, object)| (format!("{group}/{resource}"), named(object, resource)));
    namespaced.into_iter().chain(cluster).chain(autoscalers(ns)).collect()
}

/// Autoscalers with more than autoscaling/v1 has fields for, written in both versions: `tests/data/autoscaling` has all that they may have.
fn autoscalers(ns: &str) -> Vec<Creation> {
    let reference = json!({"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"});
    let utilization =
        |name: &str| json!({"type": "Resource", "resource": {"name": name, "target": {"type": "Utilization", "averageUtilization": 5}}});
    let selector = json!({"matchExpressions": [{"key": "k", "operator": "In", "values": ["a", "b"]}]});
    let external = json!({"type": "External", "external": {"metric": {"name": "m", "selector": selector}, "target": {"type": "Value", "value": "1500m"}}});
    let behavior = json!({"scaleUp": {"tolerance": "0.1", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 9}]}});
    let newer = json!({"metadata": {"name": "newer", "annotations": {"note": AWKWARD}}, "spec": {"scaleTargetRef": reference, "maxReplicas": 3,
        "metrics": [utilization("cpu"), external, utilization("memory")], "behavior": behavior}});
    let carriers = json!({"autoscaling.alpha.kubernetes.io/metrics": r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"1"}}]"#,
        "autoscaling.alpha.kubernetes.io/behavior": r#"{"ScaleDown":{"Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":9}]}}"#});
    let older = json!({"metadata": {"name": "older", "annotations": carriers}, "spec": {"scaleTargetRef": reference, "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 7}});
    let collection = |version: &str| format!("/apis/autoscaling/{version}/namespaces/{ns}/horizontalpodautoscalers");
    vec![(collection("v2"), newer), (collection("v1"), older)]
}

/// Definitions of three shapes: two served versions, cluster scope with selectable fields and a status, and any fields at all.
pub(super) fn definitions() -> Vec<Creation> {
    let open = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let typed = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}, "ratio": {"type": "number"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}});
    let version = |name: &str, storage: bool, schema: &Value| json!({"name": name, "served": true, "storage": storage, "schema": schema});
    let mut gauge = version("v1", true, &typed);
    gauge["subresources"] = json!({"status": {}});
    gauge["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    gauge["additionalPrinterColumns"] = json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
    vec![
        definition("widget", "Namespaced", &[version("v1", true, &typed), version("v2", false, &typed)]),
        definition("gauge", "Cluster", &[gauge]),
        definition("thing", "Namespaced", &[version("v1alpha1", true, &open)]),
    ]
}

fn definition(singular: &str, scope: &str, versions: &[Value]) -> Creation {
    let plural = format!("{singular}s");
    let kind: String = singular[..1].to_uppercase() + &singular[1..];
    let names = json!({"plural": plural, "singular": singular, "kind": kind, "shortNames": [&singular[..2]]});
    let spec = json!({"group": "ex.io", "scope": scope, "names": names, "versions": versions});
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".into(),
        json!({"metadata": {"name": format!("{plural}.ex.io")}, "spec": spec}),
    )
}

/// Custom objects: 50 widgets, some through their second version, and a few of the others with numbers and nesting that are easy to change.
pub(super) fn custom(ns: &str) -> Vec<Creation> {
    let mut all: Vec<Creation> = (0..50)
        .map(|n| {
            let version = if n % 2 == 0 { "v1" } else { "v2" };
            let metadata = json!({"name": format!("widget-{n}"), "labels": {"app": if n % 3 == 0 { "red" } else { "blue" }}});
            let spec = json!({"size": n, "color": AWKWARD, "ratio": f64::from(n) / 7.0});
            let object = json!({"apiVersion": format!("ex.io/{version}"), "kind": "Widget", "metadata": metadata, "spec": spec});
            (format!("/apis/ex.io/{version}/namespaces/{ns}/widgets"), object)
        })
        .collect();
    all.extend((0..5).map(|n| {
        let object = json!({"apiVersion": "ex.io/v1", "kind": "Gauge", "metadata": {"name": format!("gauge-{n}")}, "spec": {"size": -n, "color": "c"}});
        ("/apis/ex.io/v1/gauges".into(), object)
    }));
    all.extend((0..5).map(|n| {
        let numbers = json!([0, -1, 1e21, 1.5e-7, 9_007_199_254_740_993_i64, 0.1, 1.0, 100]);
        let nested = json!({"z": {"y": [null, {"metadata": {"resourceVersion": "5"}}]}, "A": true, AWKWARD: AWKWARD, "items": [], "empty": {}});
        let object = json!({"apiVersion": "ex.io/v1alpha1", "kind": "Thing", "metadata": {"name": format!("thing-{n}")}, "numbers": numbers, "zz": nested, "aa": ""});
        (format!("/apis/ex.io/v1alpha1/namespaces/{ns}/things"), object)
    }));
    all
}

/// Creates the definitions and waits until all their versions are served.
pub(super) async fn define(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    create(client, definitions()).await?;
    for path in ["/apis/ex.io/v1/widgets", "/apis/ex.io/v2/widgets", "/apis/ex.io/v1/gauges", "/apis/ex.io/v1alpha1/things"] {
        served(client, path).await?;
    }
    Ok(())
}

/// Waits until a collection is served.
pub(super) async fn served(client: &Client, path: &str) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if client.fetch(path).await?.status == 200 {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, format!("{path} is not served")))
}
