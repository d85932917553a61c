//! Random writes of kubelets.

use base64::{Engine, prelude::BASE64_STANDARD};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

use super::{
    cluster::{ACCOUNT, AUDIENCES, CLAIM, CSI_NODE, LEASE, POD, SLICE},
    objects::{mirror, of_claim, of_node, of_pod_status, request, set},
};
use crate::{alone::Failure, client::Client};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// One write.
pub(super) struct Write {
    pub(super) method: &'static str,
    pub(super) target: String,
    pub(super) media: &'static str,
    pub(super) body: String,
    /// Whether it may really be done: what the cluster is made of stays.
    pub(super) may_be_done: bool,
}

impl Write {
    fn new(method: &'static str, target: impl Into<String>, body: &Value) -> Self {
        let media = if method == "PATCH" { MERGE } else { JSON };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        Self { method, target: target.into(), media, body, may_be_done: method != "DELETE" }
    }

    fn only_asked(self) -> Self {
        Self { may_be_done: false, ..self }
    }
}

/// Where writes come from.
pub(super) struct Play<'a> {
    admin: &'a Client,
    pub(super) rng: StdRng,
    made: usize,
}

impl<'a> Play<'a> {
    pub(super) fn new(admin: &'a Client, rng: StdRng) -> Self {
        Self { admin, rng, made: 0 }
    }

    /// A write of the kubelet of this node.
    pub(super) async fn write(&mut self, node: &str) -> Result<Write, Failure> {
        self.made += 1;
        match self.rng.random_range(0..20) {
            0..4 => self.of_pods(node).await,
            4..8 => self.of_nodes(node).await,
            8..11 => self.of_tokens().await,
            11..14 => self.of_claims().await,
            14..16 => self.of_slices(node).await,
            16 => self.of_leases(node).await,
            17 => self.of_csi_nodes(node).await,
            18 => self.of_certificates(node),
            _ => Ok(self.of_reviews(node)),
        }
    }

    /// An object as it is now; nothing if it is not there.
    async fn current(&self, target: &str) -> Result<Value, Failure> {
        let answer = self.admin.fetch(target).await?;
        Ok(if answer.status == 200 { serde_json::from_slice(&answer.body)? } else { Value::Null })
    }

    /// One of these; most often the first.
    fn mostly(&mut self, of: &[&'static str]) -> &'static str {
        if self.rng.random_bool(0.6) { of[0] } else { of.choose(&mut self.rng).expect("not empty") }
    }

    /// A PUT or a PATCH of what is there, with a change or two.
    async fn changed(&mut self, target: &str, part: &str, change: impl Fn(&mut StdRng) -> (String, Value)) -> Result<Write, Failure> {
        let changes: Vec<(String, Value)> = (0..self.rng.random_range(1..3)).map(|_| change(&mut self.rng)).collect();
        let is_patch = self.rng.random_bool(0.5);
        let mut object = if is_patch { json!({}) } else { self.current(target).await? };
        if object.is_null() {
            object = json!({"metadata": {"name": target.rsplit('/').next()}});
        }
        for (pointer, value) in changes {
            // The second change may be of what the first one has taken away.
            set(&mut object, &pointer, value);
        }
        let write = Write::new(if is_patch { "PATCH" } else { "PUT" }, format!("{target}{part}"), &object);
        // Kubelets send these.
        Ok(if is_patch && self.rng.random_bool(0.5) { Write { media: STRATEGIC, ..write } } else { write })
    }

    async fn of_pods(&mut self, node: &str) -> Result<Write, Failure> {
        let name = self.mostly(&["p1", "p2", "p3", "p4", "gone"]);
        Ok(match self.rng.random_range(0..10) {
            0..4 => {
                let of = if self.rng.random_bool(0.8) { node } else { "n2" };
                let uid = self.current(&format!("/api/v1/nodes/{of}")).await?["metadata"]["uid"].as_str().unwrap_or("u").to_owned();
                let pod = mirror(&mut self.rng, &format!("mirror-{}", self.made), of, &uid);
                let namespace = if self.rng.random_bool(0.95) { POD } else { "/api/v1/namespaces/gone/pods" };
                Write::new("POST", namespace, &pod)
            }
            4..6 => self.changed(&format!("{POD}/{name}"), "/status", of_pod_status).await?,
            6 => self.changed(&format!("{POD}/{name}"), "", of_pod_status).await?,
            7 => {
                let grace = if self.rng.random_bool(0.5) { json!({"gracePeriodSeconds": 0}) } else { Value::Null };
                let wrong = json!({"preconditions": {"uid": "wrong"}});
                Write::new("DELETE", format!("{POD}/{name}"), if self.rng.random_bool(0.2) { &wrong } else { &grace })
            }
            8 => Write::new("DELETE", format!("{POD}?fieldSelector=metadata.name%3D{name}"), &Value::Null),
            _ => {
                let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
                Write::new("POST", format!("{POD}/{name}/binding"), &binding).only_asked()
            }
        })
    }

    async fn of_nodes(&mut self, node: &str) -> Result<Write, Failure> {
        let other = self.mostly(&["n1", "n2", "n8"]);
        let name = if self.rng.random_bool(0.7) && !node.is_empty() { node } else { other };
        let target = format!("/api/v1/nodes/{name}");
        Ok(match self.rng.random_range(0..10) {
            0..3 => {
                let mut object = json!({"metadata": {"name": name}});
                let (pointer, value) = of_node(&mut self.rng);
                set(&mut object, &pointer, value);
                if self.rng.random_bool(0.1) {
                    object["metadata"]["name"] = Value::Null;
                    object["metadata"]["generateName"] = json!("some-");
                }
                Write::new("POST", "/api/v1/nodes", &object).only_asked()
            }
            3..6 => self.changed(&target, "/status", of_node).await?,
            6..8 => self.changed(&target, "", of_node).await?,
            8 => Write::new("DELETE", target, &Value::Null),
            _ => Write::new("DELETE", format!("/api/v1/nodes?fieldSelector=metadata.name%3D{name}"), &Value::Null),
        })
    }

    async fn of_tokens(&mut self) -> Result<Write, Failure> {
        let account = self.mostly(&["a1", "a2", "gone"]);
        let pod = self.mostly(&["p1", "p1", "p2", "p3", "p4", "gone"]);
        let uid = self.current(&format!("{POD}/{pod}")).await?["metadata"]["uid"].clone();
        let mut bound = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
        if uid.is_null() {
            bound["uid"] = json!("u");
        }
        let mut spec = json!({"audiences": [AUDIENCES.choose(&mut self.rng)], "boundObjectRef": bound});
        let changes = [
            ("/boundObjectRef", Value::Null),
            ("/boundObjectRef/kind", json!("Node")),
            ("/boundObjectRef/kind", json!("Secret")),
            ("/boundObjectRef/apiVersion", json!("v2")),
            ("/boundObjectRef/name", json!("")),
            ("/boundObjectRef/uid", json!("")),
            ("/boundObjectRef/uid", json!("other")),
            ("/audiences", json!([])),
            ("/audiences", json!(["a", "b"])),
        ];
        if self.rng.random_bool(0.4) {
            let (pointer, value) = changes.choose(&mut self.rng).expect("not empty");
            set(&mut spec, pointer, value.clone());
        }
        Ok(Write::new("POST", format!("{ACCOUNT}/{account}/token"), &json!({"spec": spec})))
    }

    async fn of_claims(&mut self) -> Result<Write, Failure> {
        let target = format!("{CLAIM}/{}", self.mostly(&["c1", "c2", "gone"]));
        Ok(match self.rng.random_range(0..12) {
            0 => Write::new("POST", CLAIM, &json!({"metadata": {"name": "made"}, "spec": {"accessModes": ["ReadWriteOnce"]}})),
            1 => Write::new("DELETE", target, &Value::Null),
            2 => self.changed(&target, "", of_claim).await?,
            3 => Write::new("DELETE", CLAIM, &Value::Null),
            _ => self.changed(&target, "/status", of_claim).await?,
        })
    }

    async fn of_slices(&mut self, node: &str) -> Result<Write, Failure> {
        let name = self.mostly(&["s1", "s2", "s3", "gone"]);
        let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
        Ok(match self.rng.random_range(0..5) {
            0..2 => {
                let mut spec = json!({"driver": "d.example.com", "pool": pool, "nodeName": node});
                match self.rng.random_range(0..4) {
                    0 => spec["nodeName"] = json!("n2"),
                    1 => spec = json!({"driver": "d.example.com", "pool": pool, "allNodes": true}),
                    _ => {}
                }
                Write::new("POST", SLICE, &json!({"metadata": {"name": format!("made-{}", self.made)}, "spec": spec}))
            }
            2 => Write::new("DELETE", format!("{SLICE}/{name}"), &Value::Null),
            3 => Write::new("DELETE", format!("{SLICE}?fieldSelector=metadata.name%3D{name}"), &Value::Null),
            _ => self.changed(&format!("{SLICE}/{name}"), "", |_| ("/metadata/labels".to_owned(), json!({"a": "b"}))).await?,
        })
    }

    /// A write of an object that bears the name of its node: of this kind, in this list.
    async fn of_namesake(&mut self, list: &str, node: &str, spec: &Value) -> Result<Write, Failure> {
        let other = self.mostly(&["n1", "n2", "n7"]);
        let name = if self.rng.random_bool(0.7) && !node.is_empty() { node } else { other };
        let target = format!("{list}/{name}");
        Ok(match self.rng.random_range(0..5) {
            0 => Write::new("POST", list, &json!({"metadata": {"name": name}, "spec": spec})).only_asked(),
            1 => Write::new("DELETE", target, &Value::Null),
            2 => Write::new("DELETE", format!("{list}?fieldSelector=metadata.name%3D{name}"), &Value::Null),
            3 => Write::new("PUT", &target, &json!({"metadata": {"name": name}, "spec": spec})).only_asked(),
            _ => self.changed(&target, "", |_| ("/metadata/labels".to_owned(), json!({"a": "b"}))).await?.only_asked(),
        })
    }

    async fn of_leases(&mut self, node: &str) -> Result<Write, Failure> {
        let namespace = self.mostly(&["kube-node-lease", "kubelets", "gone"]);
        self.of_namesake(&format!("{LEASE}/{namespace}/leases"), node, &json!({"holderIdentity": node})).await
    }

    async fn of_csi_nodes(&mut self, node: &str) -> Result<Write, Failure> {
        self.of_namesake(CSI_NODE, node, &json!({"drivers": []})).await
    }

    fn of_certificates(&mut self, node: &str) -> Result<Write, Failure> {
        let name = if self.rng.random_bool(0.6) {
            format!("system:node:{node}")
        } else {
            self.mostly(&["system:node:n2", "n1", "jane"]).to_owned()
        };
        let signer = self.mostly(&["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving", "example.com/other"]);
        let usage = if signer.ends_with("serving") { "server auth" } else { "client auth" };
        let request = request(&mut self.rng, &name)?;
        let spec = json!({"signerName": signer, "request": BASE64_STANDARD.encode(request), "usages": ["digital signature", usage]});
        let object = json!({"metadata": {"name": format!("made-{}", self.made)}, "spec": spec});
        Ok(Write::new("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", &object))
    }

    fn of_reviews(&mut self, node: &str) -> Write {
        let attributes = json!({"verb": "get", "resource": "pods", "namespace": "kubelets"});
        match self.rng.random_range(0..4) {
            0 => Write::new("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &json!({"spec": {"token": "x"}})),
            1 => {
                let review = json!({"spec": {"user": format!("system:node:{node}"), "resourceAttributes": attributes}});
                Write::new("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review)
            }
            2 => {
                let review = json!({"spec": {"resourceAttributes": attributes}});
                Write::new("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review)
            }
            _ => {
                Write::new("POST", "/api/v1/namespaces/kubelets/configmaps", &json!({"metadata": {"name": format!("made-{}", self.made)}}))
            }
        }
    }
}
