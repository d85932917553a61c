//! Writes of the kubelet of n1, and what becomes of them. The texts are those of kube-apiserver 1.36.3.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::*;

/// A cluster of which everything is said here.
#[derive(Default)]
struct Known {
    objects: BTreeMap<(Kind, String), Value>,
    /// Account and audience that the authorizers allow.
    allowed: Option<(&'static str, &'static str)>,
}

impl Known {
    fn with(mut self, kind: Kind, object: Value) -> Self {
        self.objects.insert((kind, tree::text(&object, &["metadata", "name"]).to_owned()), object);
        self
    }
}

impl Cluster for Known {
    fn object(&self, kind: Kind, namespace: &str, name: &str) -> Option<Value> {
        let object = self.objects.get(&(kind, name.to_owned())).cloned()?;
        (tree::text(&object, &["metadata", "namespace"]) == namespace).then_some(object)
    }

    fn may_request_audience(&self, _: &str, account: &str, audience: &str) -> bool {
        self.allowed == Some((account, audience))
    }

    fn may_act_for_signer(&self, verb: &'static str, signer: &str) -> bool {
        self.allowed == Some((verb, signer))
    }
}

fn cluster() -> Known {
    Known::default().with(Kind::Node, json!({"metadata": {"name": "n1", "uid": "u1"}}))
}

/// What is said of a write of this subresource, of the object `x` in the namespace `d`.
fn told(
    known: &Known,
    (operation, group, resource, subresource): (Operation, &str, &str, &str),
    name: &str,
    object: &Value,
    old: &Value,
) -> String {
    let write = Attributes {
        user: "system:node:n1",
        operation,
        group,
        resource,
        subresource,
        namespace: if matches!(resource, "nodes" | "csinodes" | "resourceslices") { "" } else { "d" },
        name,
        object: (!object.is_null()).then_some(object),
        old: (!old.is_null()).then_some(old),
    };
    match admit(Some("n1"), &write, known) {
        Ok(()) => String::new(),
        Err(Refusal::Forbidden { name, why }) => format!("{name}: {why}"),
        Err(Refusal::NotFound { kind, name }) => format!("no {kind} {name}"),
    }
}

const NONE: Value = Value::Null;
const CREATE_POD: (Operation, &str, &str, &str) = (Operation::Create, "", "pods", "");
const TOKEN: (Operation, &str, &str, &str) = (Operation::Create, "", "serviceaccounts", "token");

#[test]
fn nodes_are_users_of_their_group() {
    let groups = ["system:nodes".to_owned()];
    assert_eq!(node_of("system:node:n1", &groups), Some("n1"));
    assert_eq!(node_of("system:node:", &groups), Some(""));
    assert_eq!(node_of("system:node:n1", &["system:masters".to_owned()]), None);
    assert_eq!(node_of("system:nodes:n1", &groups), None);
    let object = json!({});
    let write = Attributes {
        user: "system:node:",
        operation: Operation::Create,
        group: "",
        resource: "configmaps",
        subresource: "",
        namespace: "d",
        name: "",
        object: Some(&object),
        old: None,
    };
    let why = "could not determine node from user \"system:node:\"".to_owned();
    assert_eq!(admit(Some(""), &write, &cluster()), Err(Refusal::Forbidden { name: "Unknown".to_owned(), why }));
}

/// A mirror pod as a kubelet makes it, with changes.
fn mirror(change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": "x", "namespace": "d", "annotations": {"kubernetes.io/config.mirror": ""},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": true}],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    });
    change(&mut pod);
    pod
}

#[test]
fn a_kubelet_makes_mirror_pods_that_it_owns() {
    let said = |change: &dyn Fn(&mut Value)| told(&cluster(), CREATE_POD, "x", &mirror(change), &NONE);
    assert_eq!(said(&|_| {}), "");
    let owner = |member: &'static str, value: Value| move |pod: &mut Value| pod["metadata"]["ownerReferences"][0][member] = value.clone();
    let other = "x: node \"n1\" can only create pods with an owner reference set to itself";
    let control = "x: node \"n1\" can only create pods with a controller owner reference set to itself";
    for (change, why) in [
        (
            &(|pod: &mut Value| pod["metadata"]["annotations"] = json!({"a": "b"})) as &dyn Fn(&mut Value),
            "x: pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create mirror pods",
        ),
        (&|pod| pod["spec"]["nodeName"] = json!("n2"), "x: node \"n1\" can only create pods with spec.nodeName set to itself"),
        (&|pod| pod["spec"]["nodeName"] = NONE, "x: node \"n1\" can only create pods with spec.nodeName set to itself"),
        (&|pod| pod["metadata"]["ownerReferences"] = NONE, other),
        (
            &|pod| pod["metadata"]["ownerReferences"] = json!([{"name": "n1"}, {"name": "n1"}]),
            "x: node \"n1\" can only create pods with a single owner reference set to itself",
        ),
        (&owner("apiVersion", json!("v2")), other),
        (&owner("kind", json!("Pod")), other),
        (&owner("name", json!("n2")), other),
        (&owner("controller", NONE), control),
        (&owner("controller", json!(false)), control),
        (&owner("blockOwnerDeletion", json!(true)), "x: node \"n1\" must not set blockOwnerDeletion on an owner reference"),
        (&owner("blockOwnerDeletion", json!(false)), ""),
        (&owner("uid", json!("u2")), "x: node n1 UID mismatch: expected u2 got u1"),
    ] {
        assert_eq!(said(change), why);
    }
    assert_eq!(told(&Known::default(), CREATE_POD, "x", &mirror(|_| {}), &NONE), "no node n1");
    let unnamed = |pod: &mut Value| pod["metadata"] = json!({"generateName": "some-"});
    assert!(told(&cluster(), CREATE_POD, "", &mirror(unnamed), &NONE).starts_with("some-: pod does not have"));
}

#[test]
fn a_mirror_pod_refers_to_nothing() {
    let said = |spec: Value| {
        let add = |pod: &mut Value| {
            for (member, value) in spec.as_object().expect("an object") {
                pod["spec"][member] = value.clone();
            }
        };
        let told = told(&cluster(), CREATE_POD, "x", &mirror(add), &NONE);
        told.strip_prefix("x: node \"n1\" can not create pods that reference ").map_or(told.clone(), str::to_owned)
    };
    let container = |list: &str, container: Value| json!({list: [container]});
    let volume = |source: Value| json!({"volumes": [source]});
    let projected = |source: Value| volume(json!({"name": "v", "projected": {"sources": [source]}}));
    for (spec, what) in [
        (json!({"serviceAccountName": "a"}), "serviceaccounts"),
        (json!({"serviceAccount": "a"}), "serviceaccounts"),
        (json!({"imagePullSecrets": [{"name": "s"}]}), "secrets"),
        (json!({"imagePullSecrets": [{}]}), ""),
        (container("initContainers", json!({"envFrom": [{"secretRef": {"name": "s"}}]})), "secrets"),
        (container("containers", json!({"env": [{"name": "e", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]})), "secrets"),
        (container("ephemeralContainers", json!({"envFrom": [{"configMapRef": {"name": "c"}}]})), "configmaps"),
        (
            container("containers", json!({"env": [{"name": "e", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]})),
            "configmaps",
        ),
        (container("containers", json!({"env": [{"name": "e", "valueFrom": {"fieldRef": {"fieldPath": "f"}}}]})), ""),
        (json!({"resourceClaims": [{"name": "r"}]}), "resourceclaims"),
        (volume(json!({"name": "v", "secret": {"secretName": "s"}})), "secrets"),
        (volume(json!({"name": "v", "secret": {}})), "secrets (via secret volumes)"),
        (volume(json!({"name": "v", "configMap": {"name": "c"}})), "configmaps"),
        (volume(json!({"name": "v", "configMap": {}})), "configmaps (via configmap volumes)"),
        (volume(json!({"name": "v", "rbd": {"secretRef": {"name": "s"}}})), "secrets"),
        (volume(json!({"name": "v", "rbd": {}})), ""),
        (volume(json!({"name": "v", "azureFile": {"secretName": ""}})), "secrets (via azureFile volumes)"),
        (volume(json!({"name": "v", "csi": {"driver": "d"}})), "csidrivers (via CSI volumes)"),
        (volume(json!({"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}})), "secrets"),
        (volume(json!({"name": "v", "glusterfs": {}})), "endpoints (via glusterFS volumes)"),
        (volume(json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}})), "persistentvolumeclaims"),
        (volume(json!({"name": "v", "ephemeral": {}})), "persistentvolumeclaims (via ephemeral volumes)"),
        (volume(json!({"name": "v", "hostPath": {"path": "/"}})), ""),
        (volume(json!({"name": "v", "image": {}})), ""),
        (
            volume(json!({"name": "v", "tomorrow": {}})),
            "x: error checking mirror pod for API references: unknown volume type for volume  \"v\"",
        ),
        (projected(json!({"secret": {"name": "s"}})), "secrets"),
        (projected(json!({"secret": {}})), "secrets (via projected volumes)"),
        (projected(json!({"configMap": {}})), "configmaps (via projected volumes)"),
        (projected(json!({"serviceAccountToken": {"path": "p"}})), "serviceaccounts (via projected volumes)"),
        (projected(json!({"clusterTrustBundle": {}})), "clustertrustbundles"),
        (projected(json!({"podCertificate": {}})), "podcertificates"),
        (projected(json!({"downwardAPI": {}})), ""),
        (projected(json!({})), "x: error checking mirror pod for API references: unknown source for projected volume \"v\""),
    ] {
        assert_eq!(said(spec.clone()), what, "{spec}");
    }
}

#[test]
fn a_kubelet_touches_pods_of_its_own() {
    let pod = |node: &str| json!({"metadata": {"name": "x", "namespace": "d", "labels": {"a": "b"}}, "spec": {"nodeName": node}});
    let delete = |name: &str, old: &Value| told(&cluster(), (Operation::Delete, "", "pods", ""), name, &NONE, old);
    assert_eq!(delete("x", &pod("n1")), "");
    assert_eq!(delete("x", &pod("n2")), "x: node \"n1\" can only delete pods with spec.nodeName set to itself");
    assert_eq!(delete("", &pod("n1")), "no pod ");
    let update = told(&cluster(), (Operation::Update, "", "pods", ""), "x", &pod("n1"), &pod("n1"));
    assert_eq!(update, "x: unexpected operation \"UPDATE\", node \"n1\" can only create and delete mirror pods");
    for sub in ["binding", "ephemeralcontainers", "resize"] {
        let of = told(&cluster(), (Operation::Update, "", "pods", sub), "x", &pod("n1"), &pod("n1"));
        assert_eq!(of, format!("x: unexpected pod subresource \"{sub}\", only 'status' and 'eviction' are allowed"));
    }
    let status = |new: &Value, old: &Value| told(&cluster(), (Operation::Update, "", "pods", "status"), "x", new, old);
    let with = |member: &str, value: Value| {
        let mut pod = pod("n1");
        pod["status"][member] = value;
        pod
    };
    assert_eq!(status(&with("phase", json!("Running")), &pod("n1")), "");
    assert_eq!(status(&pod("n1"), &pod("n2")), "x: node \"n1\" can only update pod status for pods with spec.nodeName set to itself");
    let mut relabelled = pod("n1");
    relabelled["metadata"]["labels"] = json!({});
    assert_eq!(status(&relabelled, &pod("n1")), "x: node \"n1\" cannot update labels through pod status");
    let claims = |name: &str| with("resourceClaimStatuses", json!([{"name": "a", "resourceClaimName": name}]));
    assert_eq!(status(&claims("b"), &claims("b")), "");
    assert_eq!(status(&claims("b"), &claims("c")), "x: node \"n1\" cannot update resource claim statues");
    let extended = with("extendedResourceClaimStatus", json!({"resourceClaimName": "a", "requestMappings": []}));
    assert_eq!(status(&pod("n1"), &extended), "x: node \"n1\" cannot update extended resource claim status");
    let create = told(&cluster(), (Operation::Create, "", "pods", "status"), "x", &pod("n1"), &NONE);
    assert_eq!(create, "x: unexpected operation \"CREATE\"");
    let evict = |known: &Known| told(known, (Operation::Create, "", "pods", "eviction"), "x", &json!({"metadata": {"name": "y"}}), &NONE);
    assert_eq!(evict(&cluster()), "no pod x");
    assert_eq!(evict(&cluster().with(Kind::Pod, pod("n1"))), "");
    assert_eq!(evict(&cluster().with(Kind::Pod, pod("n2"))), "x: node n1 can only evict pods with spec.nodeName set to itself");
}

#[test]
fn a_kubelet_writes_its_own_node_without_what_brings_it_work() {
    let with = |pointer: &[&str], value: Value| {
        let mut node = json!({"metadata": {"name": "n1"}, "spec": {}});
        let (last, path) = pointer.split_last().expect("a path");
        let of = path.iter().fold(&mut node, |of, member| &mut of[*member]);
        of[*last] = value;
        node
    };
    let plain = || with(&["metadata", "name"], json!("n1"));
    let create = |name: &str, node: &Value| told(&cluster(), (Operation::Create, "", "nodes", ""), name, node, &NONE);
    let update = |new: &Value, old: &Value| told(&cluster(), (Operation::Update, "", "nodes", "status"), "n1", new, old);
    assert_eq!(create("n1", &plain()), "");
    assert_eq!(create("n2", &plain()), "n2: node \"n1\" is not allowed to modify node \"n2\"");
    assert_eq!(told(&cluster(), (Operation::Delete, "", "nodes", ""), "n1", &NONE, &plain()), "");
    assert_eq!(
        told(&cluster(), (Operation::Delete, "", "nodes", ""), "", &NONE, &plain()),
        "Unknown: node \"n1\" is not allowed to modify node \"\""
    );
    let source = |name: &str| with(&["spec", "configSource"], json!({"configMap": {"name": name}}));
    assert_eq!(create("n1", &source("a")), "n1: node \"n1\" is not allowed to create pods with a non-nil configSource");
    assert_eq!(update(&source("a"), &source("a")), "");
    assert_eq!(update(&plain(), &source("a")), "");
    assert_eq!(update(&source("a"), &source("b")), "n1: node \"n1\" is not allowed to update configSource to a new non-nil configSource");
    let taint = |key: &str| with(&["spec", "taints"], json!([{"key": key, "effect": "NoSchedule"}]));
    assert_eq!(create("n1", &taint("a")), "");
    assert_eq!(update(&taint("a"), &taint("a")), "");
    assert_eq!(update(&with(&["spec", "taints"], json!([])), &plain()), "");
    assert_eq!(update(&plain(), &taint("a")), "n1: node \"n1\" is not allowed to modify taints");
    let owner = with(&["metadata", "ownerReferences"], json!([{"name": "o"}]));
    assert_eq!(update(&owner, &plain()), "n1: node \"n1\" is not allowed to modify ownerReferences");
    for (label, is_allowed) in [
        ("a", true),
        ("example.com/a", true),
        ("notk8s.io/a", true),
        ("kubernetes.io/hostname", true),
        ("beta.kubernetes.io/os", true),
        ("node.kubernetes.io/instance-type", true),
        ("a.node.kubernetes.io/b", true),
        ("kubelet.kubernetes.io/b", true),
        ("xkubelet.kubernetes.io/b", false),
        ("node-role.kubernetes.io/master", false),
        ("kubernetes.io/a", false),
        ("k8s.io/a", false),
        ("a.k8s.io/b", false),
        ("node-restriction.kubernetes.io/a", false),
        ("a.node-restriction.kubernetes.io/a", false),
        // Both a kubelet's domain and restricted.
        ("node-restriction.kubernetes.io/node.kubernetes.io/a", false),
    ] {
        let labels = with(&["metadata", "labels"], json!({label: "v", "z.k8s.io/z": "same"}));
        let before = with(&["metadata", "labels"], json!({"z.k8s.io/z": "same"}));
        let expected = if is_allowed { String::new() } else { format!("n1: is not allowed to modify labels: {label}") };
        assert_eq!(update(&labels, &before), expected, "set {label}");
        assert_eq!(update(&before, &labels), expected, "removed {label}");
    }
    let two = with(&["metadata", "labels"], json!({"k8s.io/b": "", "k8s.io/a": ""}));
    assert_eq!(create("n1", &two), "n1: node \"n1\" is not allowed to set the following labels: k8s.io/a, k8s.io/b");
}

#[test]
fn leases_csi_nodes_and_slices_bear_the_nodes_name() {
    let named = |name: &str| json!({"metadata": {"name": name}});
    let lease = |operation, namespace: &'static str, name: &str, object: &Value| {
        let (group, resource, subresource) = ("coordination.k8s.io", "leases", "");
        let write = Attributes { user: "", operation, group, resource, subresource, namespace, name, object: Some(object), old: None };
        admit(Some("n1"), &write, &cluster()).map_err(|refusal| format!("{refusal:?}"))
    };
    assert_eq!(lease(Operation::Create, "kube-node-lease", "n1", &named("n1")), Ok(()));
    assert!(
        lease(Operation::Create, "kube-node-lease", "n2", &named("n2")).is_err_and(|why| why.contains("same name as the requesting node"))
    );
    assert!(lease(Operation::Update, "kube-node-lease", "n2", &named("n1")).is_err());
    assert!(lease(Operation::Update, "d", "n1", &named("n1")).is_err_and(|why| why.contains("can only access leases in the")));
    let csi = |operation, name: &str, object: &Value| told(&cluster(), (operation, "storage.k8s.io", "csinodes", ""), name, object, &NONE);
    let other = "can only access CSINode with the same name as the requesting node";
    assert_eq!(csi(Operation::Create, "n1", &named("n1")), "");
    assert_eq!(csi(Operation::Create, "n2", &named("n2")), format!("n2: {other}"));
    assert_eq!(csi(Operation::Delete, "", &NONE), format!("Unknown: {other}"));
    let slice = |node: Value| json!({"metadata": {"name": "x"}, "spec": {"nodeName": node}});
    let slices =
        |operation, new: &Value, old: &Value| told(&cluster(), (operation, "resource.k8s.io", "resourceslices", ""), "x", new, old);
    assert_eq!(slices(Operation::Create, &slice(json!("n1")), &NONE), "");
    assert_eq!(
        slices(Operation::Create, &slice(NONE), &NONE),
        "x: can only create ResourceSlice with the same NodeName as the requesting node"
    );
    assert_eq!(
        slices(Operation::Delete, &NONE, &slice(json!("n2"))),
        "x: can only delete ResourceSlice with the same NodeName as the requesting node"
    );
    assert_eq!(slices(Operation::Update, &slice(json!("n2")), &slice(json!("n2"))), "");
}

/// A request of system:node:n1, and one with both names.
const REQUESTS: [&str; 2] = [
    "-----BEGIN CERTIFICATE REQUEST-----
MIHsMIGSAgEAMDAxFTATBgNVBAoMDHN5c3RlbTpub2RlczEXMBUGA1UEAwwOc3lz
dGVtOm5vZGU6bjEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATw4X3s1xmDWfto
YzTP9PvJJITqBXaSg+Y34U+QbtoOaFyFGYuGZPmO4RbEtqdDoakL3IXNe9Qr+/3d
/fGHDPkroAAwCgYIKoZIzj0EAwIDSQAwRgIhAMFV0eyJ0wf9+XfoJyeIVyfWejE7
wy5hKg8QYpndw7j0AiEA5Hlxis84jcF+3xnMMIlEoPejZvgAwAX1Uk54Fq4/HTw=
-----END CERTIFICATE REQUEST-----
",
    "-----BEGIN CERTIFICATE REQUEST-----
MIHtMIGUAgEAMDIxFzAVBgNVBAMMDnN5c3RlbTpub2RlOm4xMRcwFQYDVQQDDA5z
eXN0ZW06bm9kZTpuMjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPDhfezXGYNZ
+2hjNM/0+8kkhOoFdpKD5jfhT5Bu2g5oXIUZi4Zk+Y7hFsS2p0OhqQvchc171Cv7
/d398YcM+SugADAKBggqhkjOPQQDAgNIADBFAiAk1HWK6VLVXTsxyesHn6YH5g3h
iih3Dd4eZUfXbR8C7QIhAOQffHRLHG6t543kn+ST52pFv+2ZvBFQar1ChLY6MH0E
-----END CERTIFICATE REQUEST-----
",
];

#[test]
fn a_kubelet_asks_for_certificates_of_its_node() {
    let asks = |signer: &str, pem: &str| {
        let request = json!({"metadata": {"name": "x"}, "spec": {"signerName": signer, "request": STANDARD.encode(pem)}});
        told(&cluster(), (Operation::Create, "certificates.k8s.io", "certificatesigningrequests", ""), "x", &request, &NONE)
    };
    let [own, other] = REQUESTS;
    for signer in ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"] {
        assert_eq!(asks(signer, own), "");
        assert_eq!(asks(signer, other), "x: can only create a node CSR with CN=system:node:n1");
        assert_eq!(asks(signer, "a"), "x: unable to parse csr: PEM block type must be CERTIFICATE REQUEST");
        let wrong = own.replace("REQUEST-", "-");
        assert_eq!(asks(signer, &wrong), "x: unable to parse csr: PEM block type must be CERTIFICATE REQUEST");
        let short = own.replacen("MIHsMIGS", "", 1);
        assert!(asks(signer, &short).starts_with("x: unable to parse csr: asn1"), "{}", asks(signer, &short));
    }
    assert_eq!(asks("example.com/own", other), "");
    let pod = told(&cluster(), (Operation::Create, "certificates.k8s.io", "podcertificaterequests", ""), "x", &json!({}), &NONE);
    assert_eq!(pod, "x: PodCertificateRequest feature gate is disabled");
}

/// A request of a member of system:masters.
const OF_A_MASTER: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIaU1JR0pBZ0VBTUNjeEZ6QVZCZ05WQkFvTURuTjVjM1JsYlRwdFlYTjBaWEp6TVF3d0NnWURWUVFEREFOcQpiMlV3V1RBVEJnY3Foa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVRpN0ZTQUcxS2tqWDBZNGwrY3RrY2NsR1Y0CitLbzVIZGxBWGR4QlFKOTZVdHFIajREZThUNXQ1YkxtM01jd3pSNUlOTjh2YXRDTS9VcGwwVFhLT205TG9BQXcKQ2dZSUtvWkl6ajBFQXdJRFNBQXdSUUloQU9QMS9jNzFqS2dmS21MS2daTnI3RXFxdjJ3cjlLSVNwOXZrd0VIbgpuNEZSQWlBMjhWcEE1SEI2NmhXeHhaQW5tYjFVQ2FnT1Jyc2dJVktMangvQmVhRlFpQT09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";

/// The same as a T61String, and as a BMPString.
const OF_MASTERS_T61: &str = include_str!("../../tests/data/certificates/masters-t61.pem");
const OF_MASTERS_BMP: &str = include_str!("../../tests/data/certificates/masters-bmp.pem");

#[test]
fn who_approves_and_signs_may_do_so_for_the_signer() {
    let judged = |known: &Known, (operation, subresource): (Operation, &str), object: &Value, old: &Value| {
        let (group, resource) = SIGNING_REQUESTS;
        let write = Attributes {
            user: "joe",
            operation,
            group,
            resource,
            subresource,
            namespace: "",
            name: "r",
            object: Some(object),
            old: Some(old),
        };
        match admit(None, &write, known) {
            Ok(()) => String::new(),
            Err(Refusal::Forbidden { name, why }) => format!("{name}: {why}"),
            Err(other) => panic!("{other:?} where a 403 is expected"),
        }
    };
    let of = |signer: &str, status: Value| json!({"spec": {"signerName": signer, "request": OF_A_MASTER}, "status": status});
    let allowed = |verb, signer| Known { allowed: Some((verb, signer)), ..Known::default() };
    let old = of("ex.io/a", json!({}));
    let lying = of("ex.io/b", json!({"conditions": [{"type": "Approved"}]}));
    let approval = (Operation::Update, "approval");
    assert_eq!(
        judged(&allowed("approve", "ex.io/b"), approval, &lying, &old),
        "r: user not permitted to approve requests with signerName \"ex.io/a\""
    );
    assert_eq!(judged(&allowed("approve", "ex.io/a"), approval, &lying, &old), "");
    assert_eq!(judged(&allowed("approve", "ex.io/*"), approval, &lying, &old), "");
    let status = (Operation::Update, "status");
    assert_eq!(
        judged(&allowed("approve", "ex.io/a"), status, &lying, &old),
        "r: user not permitted to sign requests with signerName \"ex.io/a\""
    );
    assert_eq!(judged(&allowed("sign", "ex.io/*"), status, &lying, &old), "");
    assert_eq!(judged(&Known::default(), status, &of("ex.io/b", json!({"conditions": []})), &old), "", "nothing changes");
    let create = (Operation::Create, "");
    let clients = "kubernetes.io/kube-apiserver-client";
    let refused = "r: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    assert_eq!(judged(&Known::default(), create, &of(clients, NONE), &NONE), refused);
    assert_eq!(judged(&Known::default(), create, &of("ex.io/a", NONE), &NONE), "");
    let of = |pem: &str| json!({"spec": {"signerName": clients, "request": STANDARD.encode(pem)}});
    assert_eq!(judged(&Known::default(), create, &of("a"), &NONE), "", "validation refuses what is no request");
    // A signer reads other texts than UTF-8 as well, and the block whose lines fit each other.
    let first = REQUESTS[0].replace("END CERTIFICATE REQUEST", "END XXX");
    let masters = String::from_utf8(STANDARD.decode(OF_A_MASTER).expect("base64")).expect("PEM");
    for pem in [OF_MASTERS_T61, OF_MASTERS_BMP, &format!("{first}{masters}"), &format!("x\n{masters}{}", REQUESTS[0])] {
        assert_eq!(judged(&Known::default(), create, &of(pem), &NONE), refused, "{pem}");
    }
}

fn requested(pod: &str, uid: &str, audiences: &[&str]) -> Value {
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
    json!({"spec": {"boundObjectRef": bound, "audiences": audiences}})
}

#[test]
fn tokens_are_for_pods_of_the_node() {
    let pod = |name: &str, node: &str| {
        let volumes = json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]);
        json!({"metadata": {"name": name, "namespace": "d", "uid": "pu"}, "spec": {"nodeName": node, "volumes": volumes}})
    };
    let known = cluster().with(Kind::Pod, pod("p", "n1")).with(Kind::Pod, pod("q", "n2"));
    let asks = |request: &Value| told(&known, TOKEN, "x", request, &NONE);
    assert_eq!(asks(&requested("p", "pu", &[])), "");
    let unbound = "x: node requested token not bound to a pod";
    assert_eq!(asks(&json!({"spec": {}})), unbound);
    assert_eq!(asks(&requested("", "pu", &[])), unbound);
    let mut secret = requested("p", "pu", &[]);
    secret["spec"]["boundObjectRef"]["kind"] = json!("Secret");
    assert_eq!(asks(&secret), unbound);
    assert_eq!(asks(&requested("p", "", &[])), "x: node requested token with a pod binding without a uid");
    assert_eq!(asks(&requested("gone", "pu", &[])), "no pod gone");
    assert_eq!(
        asks(&requested("p", "old", &[])),
        "x: the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated"
    );
    assert_eq!(asks(&requested("q", "pu", &[])), "x: node requested token bound to a pod scheduled on a different node");
    assert_eq!(asks(&requested("p", "pu", &["a", "b"])), "x: node may only request 0 or 1 audiences");
    assert_eq!(told(&known, (Operation::Update, "", "serviceaccounts", ""), "x", &json!({}), &json!({})), "");
}

#[test]
fn audiences_are_those_that_a_pod_needs_or_that_are_allowed() {
    let volumes = json!([
        {"name": "t", "projected": {"sources": [{"configMap": {}}, {"serviceAccountToken": {"path": "t", "audience": "projected"}}]}},
        {"name": "c", "csi": {"driver": "inline"}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "bound"}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "f", "persistentVolumeClaim": {"claimName": "ebs"}},
        {"name": "g", "gcePersistentDisk": {"pdName": "p"}},
    ]);
    let pod =
        |volumes: &Value| json!({"metadata": {"name": "p", "namespace": "d", "uid": "pu"}, "spec": {"nodeName": "n1", "volumes": volumes}});
    let driver = |name: &str, audience: &str| json!({"metadata": {"name": name}, "spec": {"tokenRequests": [{"audience": audience}]}});
    let claim = |name: &str| json!({"metadata": {"name": name, "namespace": "d"}, "spec": {"volumeName": format!("pv-{name}")}});
    let volume = |name: &str, spec: Value| json!({"metadata": {"name": format!("pv-{name}")}, "spec": spec});
    let known = |volumes: &Value| {
        let mut known = cluster().with(Kind::Pod, pod(volumes));
        for (name, audience) in
            [("inline", "i"), ("claimed", "c"), ("made", "m"), ("ebs.csi.aws.com", "aws"), ("pd.csi.storage.gke.io", "gce")]
        {
            known = known.with(Kind::CsiDriver, driver(name, audience));
        }
        for (name, spec) in [
            ("bound", json!({"csi": {"driver": "claimed"}})),
            ("p-e", json!({"csi": {"driver": "made"}})),
            ("ebs", json!({"awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}})),
            ("local", json!({"local": {}})),
            ("bad", json!({"awsElasticBlockStore": {"volumeID": "aws://zone/disk"}})),
        ] {
            known = known.with(Kind::Claim, claim(name)).with(Kind::Volume, volume(name, spec));
        }
        known
    };
    let asks = |known: &Known, audience: &str| told(known, TOKEN, "x", &requested("p", "pu", &[audience]), &NONE);
    for audience in ["projected", "i", "c", "m", "aws", "gce"] {
        assert_eq!(asks(&known(&volumes), audience), "", "{audience}");
    }
    let unknown =
        "x: audience \"other\" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience";
    assert_eq!(asks(&known(&volumes), "other"), unknown);
    let allowing = |account| Known { allowed: Some((account, "other")), ..known(&volumes) };
    assert_eq!(asks(&allowing("x"), "other"), "");
    assert_eq!(asks(&allowing("y"), "other"), unknown);
    let wrong = |volumes: Value| asks(&known(&volumes), "other").replace("x: error validating audience \"other\": ", "");
    let mount = |claim: &str| json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    assert_eq!(wrong(json!([mount("gone")])), "persistentvolumeclaim \"gone\" not found");
    assert_eq!(wrong(json!([mount("local")])), unknown);
    assert_eq!(wrong(json!([{"name": "v", "csi": {"driver": "gone"}}])), "csidriver.storage.k8s.io \"gone\" not found");
    let azure = json!({"name": "v", "azureDisk": {"kind": "Shared"}});
    assert_eq!(
        wrong(json!([mount("bad"), azure, mount("bad")])),
        "[failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://zone/disk), \
         kind(Shared) is not supported in csi migration]"
    );
    let many = |count: usize| {
        let mut volumes = vec![json!({"name": "v", "emptyDir": {}}); count];
        volumes.push(json!({"name": "t", "projected": {"sources": [{"serviceAccountToken": {"audience": "other"}}]}}));
        Value::from(volumes)
    };
    assert_eq!((wrong(many(1_023)), wrong(many(1_024))), (String::new(), unknown.to_owned()), "the volumes that are looked at are few");
    let late = json!([mount("gone"), {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"audience": "other"}}]}}]);
    assert_eq!(wrong(late), "");
}

#[test]
fn a_claims_status_grows_and_nothing_else_changes() {
    let claim = || {
        json!({
            "kind": "PersistentVolumeClaim", "apiVersion": "v1",
            "metadata": {"name": "x", "namespace": "d", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "v", "volumeMode": "Filesystem"},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
        })
    };
    let with = |pointer: &str, value: Value| {
        let mut claim = claim();
        let (of, member) = pointer.rsplit_once('/').expect("a member");
        claim.pointer_mut(of).expect("it is there")[member] = value;
        claim
    };
    let update = |new: &Value| told(&cluster(), (Operation::Update, "", "persistentvolumeclaims", "status"), "x", new, &claim());
    for same in [
        with("/status/capacity", json!({"storage": "2Gi"})),
        with("/status/conditions", json!([{"type": "Resizing", "status": "True"}])),
        with("/status/allocatedResources", json!({"storage": "2Gi"})),
        with("/status/allocatedResourceStatuses", json!({"storage": "NodeResizeInProgress"})),
        with("/metadata/resourceVersion", json!("8")),
        with("/metadata/managedFields", json!([{}])),
        with("/spec/resources/requests/storage", json!("1073741824")),
    ] {
        assert_eq!(update(&same), "", "{same}");
    }
    assert_eq!(
        update(&with("/metadata/labels", json!({"a": "<"}))),
        "x: node \"n1\" is not allowed to update fields other than status.quantity and status.conditions: @@ -3,6 +3,9 @@\n  \
         \"namespace\": \"d\",\n  \"uid\": \"u\",\n  \"creationTimestamp\": \"2026-01-01T00:00:00Z\",\n+ \"labels\": {\n+  \"a\": \
         \"\\u003c\"\n+ },\n  \"Spec\": {\n   \"AccessModes\": [\n    \"ReadWriteOnce\"\n"
    );
    let many: serde_json::Map<String, Value> = (0..1_000).map(|at| (format!("k{at}"), json!("v"))).collect();
    let said = update(&with("/metadata/labels", many.into()));
    assert!(said.ends_with("status.conditions: 34 lines become 1036"), "{said}");
    assert!(update(&with("/status/phase", json!("Lost"))).contains("\n-  \"Phase\": \"Bound\",\n+  \"Phase\": \"Lost\",\n"));
    let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]});
    let said = update(&with("/spec/selector", selector));
    let lines = "+  \"Selector\": {\n+   \"matchLabels\": {\n+    \"a\": \"b\"\n+   },\n+   \"matchExpressions\": [\n+    {\n+     \"key\": \"k\",\n";
    assert!(said.contains(lines), "{said}");
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}]);
    let said = update(&with("/metadata/ownerReferences", owner));
    let lines = "+ \"ownerReferences\": [\n+  {\n+   \"apiVersion\": \"v1\",\n+   \"kind\": \"Pod\",\n+   \"name\": \"p\",\n+   \"uid\": \"u\",\n+   \"controller\": true\n+  }\n+ ],\n";
    assert!(said.contains(lines), "{said}");
    for (operation, sub) in [(Operation::Create, ""), (Operation::Update, ""), (Operation::Delete, "")] {
        let whole = told(&cluster(), (operation, "", "persistentvolumeclaims", sub), "x", &claim(), &claim());
        assert_eq!(whole, "x: may only update PVC status");
    }
}
