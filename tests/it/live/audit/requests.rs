//! The requests that both servers are asked, in this order.

use serde_json::{Value, json};

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    /// An administrator.
    Admin,
    /// A user with no rights but those that the requests give her.
    Jane,
    /// Nobody whom anybody knows.
    Stranger,
    /// No credentials.
    Nobody,
}

/// One request.
pub(super) struct Asked {
    pub(super) who: Who,
    pub(super) method: &'static str,
    pub(super) target: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

/// Requests in the making.
#[derive(Default)]
struct Script(Vec<Asked>);

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";

impl Script {
    fn ask(&mut self, who: Who, method: &'static str, target: &str, headers: &[(&'static str, &str)], body: &[u8]) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.0.push(Asked { who, method, target: target.to_owned(), headers, body: body.to_vec() });
    }

    fn get(&mut self, target: &str) {
        self.ask(Who::Admin, "GET", target, &[], b"");
    }

    fn accept(&mut self, target: &str, accept: &str) {
        self.ask(Who::Admin, "GET", target, &[("Accept", accept)], b"");
    }

    fn send(&mut self, method: &'static str, target: &str, body: &Value) {
        self.ask(Who::Admin, method, target, &[("Content-Type", JSON)], body.to_string().as_bytes());
    }

    fn patch(&mut self, target: &str, media: &str, body: &str) {
        self.ask(Who::Admin, "PATCH", target, &[("Content-Type", media)], body.as_bytes());
    }
}

/// All of them.
pub(super) fn requests() -> Vec<Asked> {
    let mut script = Script::default();
    script.send("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "show"}}));
    let container = json!({"containers": [{"name": "c", "image": "i"}]});
    let labels = json!({"matchLabels": {"a": "b"}});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": container});
    life(&mut script, "/api/v1", "configmaps", &json!({"data": {"a": "b"}}));
    life(&mut script, "/api/v1", "secrets", &json!({"data": {"a": "aGlkZGVu"}}));
    life(&mut script, "/api/v1", "serviceaccounts", &json!({}));
    life(&mut script, "/api/v1", "pods", &json!({"spec": container}));
    life(&mut script, "/apis/apps/v1", "deployments", &json!({"spec": {"selector": labels, "template": template}}));
    life(&mut script, "/apis/rbac.authorization.k8s.io/v1", "roles", &json!({"rules": []}));
    parts(&mut script, &json!({"spec": {"selector": labels, "template": template}}));
    people(&mut script);
    paths(&mut script);
    script.ask(Who::Admin, "DELETE", "/api/v1/namespaces/show?propagationPolicy=Background", &[], b"");
    script.0
}

/// What becomes of objects of a resource.
fn life(script: &mut Script, version: &str, resource: &str, rest: &Value) {
    let all = format!("{version}/namespaces/show/{resource}");
    let one = |name: &str| format!("{all}/{name}");
    let object = |metadata: Value| {
        let mut object = rest.clone();
        object["metadata"] = metadata;
        object
    };
    let named = |name: &str| object(json!({"name": name}));
    let (n1, n2, missing) = (one("n1"), one("n2"), one("missing"));
    script.send("POST", &all, &object(json!({"name": "n1", "labels": {"x": "y"}})));
    script.send("POST", &all, &named("n1"));
    script.send("POST", &all, &named("N_1"));
    script.send("POST", &all, &object(json!({"name": "n9", "labels": {"x": "<&>"}})));
    script.ask(Who::Admin, "POST", &all, &[("Content-Type", JSON)], b"{nojson");
    script.ask(Who::Admin, "POST", &all, &[("Content-Type", "text/plain")], b"x");
    script.send("POST", &format!("{all}?dryRun=All"), &named("n2"));
    script.send("POST", &format!("{all}?dryRun=Some"), &named("n2"));
    let mut odd = named("n2");
    odd["odd"] = 1.into();
    script.send("POST", &format!("{all}?fieldValidation=Strict"), &odd);
    script.send("POST", &format!("{all}?fieldManager=me&pretty=true"), &odd);
    script.send("POST", &all, &object(json!({"generateName": "gen-"})));
    script.send("POST", &format!("{version}/namespaces/nowhere/{resource}"), &named("n1"));
    script.get(&n1);
    for accept in [PROTOBUF, "application/yaml", TABLE, PARTIAL, "text/plain"] {
        script.accept(&n1, accept);
    }
    script.get(&missing);
    script.get(&format!("{n1}?pretty=true"));
    script.get(&all);
    for accept in [PROTOBUF, "application/yaml", TABLE] {
        script.accept(&all, accept);
    }
    for query in
        ["limit=1", "limit=x", "labelSelector=x%3Dy", "labelSelector=%3D%3D", "fieldSelector=metadata.name%3Dn1", "resourceVersion=0"]
    {
        script.get(&format!("{all}?{query}"));
    }
    script.get(&format!("{version}/{resource}?labelSelector=x%3Dy"));
    script.send("PUT", &n1, &object(json!({"name": "n1", "labels": {"x": "y", "z": "<>"}})));
    script.send("PUT", &n1, &object(json!({"name": "n1", "labels": {"x": "y", "z": "z"}})));
    script.send("PUT", &n1, &object(json!({"name": "n1", "resourceVersion": "1"})));
    script.send("PUT", &n1, &object(json!({"name": "n1", "namespace": "other"})));
    script.send("PUT", &n1, &named("other"));
    script.send("PUT", &missing, &named("missing"));
    script.patch(&n1, MERGE, "{\"metadata\": {\"annotations\": {\"a\": \"<b>\"}}}");
    script.patch(&n1, "application/strategic-merge-patch+json", "{\"metadata\": {\"annotations\": {\"b\": \"c\"}}}");
    script.patch(&n1, "application/json-patch+json", "[{\"op\": \"add\", \"path\": \"/metadata/annotations/d\", \"value\": \"e\"}]");
    script.patch(&n1, "application/json-patch+json", "[{\"op\": \"test\", \"path\": \"/metadata/name\", \"value\": \"e\"}]");
    script.patch(&n1, MERGE, "{\"metadata\": {\"labels\": {\"a\": \"<b>\"}}}");
    script.patch(&n1, MERGE, "{nojson");
    script.patch(&n1, "text/plain", "{}");
    script.patch(&missing, MERGE, "{}");
    script.get(&format!("{all}?watch=true&timeoutSeconds=1"));
    script.get(&format!("{all}?watch=true&resourceVersion=x"));
    for (method, target) in [("GET", &n1), ("GET", &all), ("DELETE", &n1), ("DELETE", &all)] {
        script.ask(Who::Jane, method, target, &[], b"");
    }
    script.ask(Who::Jane, "POST", &all, &[("Content-Type", JSON)], named("n3").to_string().as_bytes());
    script.ask(Who::Admin, "OPTIONS", &all, &[], b"");
    script.ask(Who::Admin, "DELETE", &missing, &[], b"");
    script.send("POST", &all, &object(json!({"name": "n2", "labels": {"x": "y"}})));
    script.send("DELETE", &n2, &json!({"preconditions": {"uid": "other"}}));
    script.send("DELETE", &n2, &json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "dryRun": ["All"]}));
    script.send("DELETE", &n2, &json!({"propagationPolicy": "Background", "gracePeriodSeconds": 0}));
    script.send("DELETE", &format!("{all}?labelSelector=x%3Dy"), &json!({"gracePeriodSeconds": 0}));
    script.ask(Who::Admin, "DELETE", &format!("{all}?labelSelector=x%3Dz&limit=5"), &[], b"");
}

/// Parts of objects.
fn parts(script: &mut Script, deployment: &Value) {
    let all = "/apis/apps/v1/namespaces/show/deployments";
    let mut object = deployment.clone();
    object["metadata"] = json!({"name": "d"});
    script.send("POST", all, &object);
    script.get(&format!("{all}/d/scale"));
    script.send("PUT", &format!("{all}/d/scale"), &json!({"metadata": {"name": "d", "namespace": "show"}, "spec": {"replicas": 3}}));
    script.patch(&format!("{all}/d/scale"), MERGE, "{\"spec\": {\"replicas\": 2}}");
    script.patch(&format!("{all}/d/scale"), MERGE, "{\"spec\": {\"replicas\": -2}}");
    script.get(&format!("{all}/d/status"));
    script.patch(&format!("{all}/d/status"), MERGE, "{\"status\": {\"replicas\": 2}}");
    script.get(&format!("{all}/d/nothing"));
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    script.send("POST", "/api/v1/namespaces/show/pods/p/binding", &binding);
    script.send("POST", "/api/v1/namespaces/show/serviceaccounts", &json!({"metadata": {"name": "s"}}));
    script.send("POST", "/api/v1/namespaces/show/serviceaccounts/s/token", &json!({"spec": {"expirationSeconds": 700}}));
    script.send("POST", "/api/v1/namespaces/show/serviceaccounts/s/token", &json!({"spec": {}}));
    script.send("POST", "/api/v1/namespaces/show/serviceaccounts/s/token", &json!({"spec": {"expirationSeconds": 7}}));
    script.send("POST", "/api/v1/namespaces/show/serviceaccounts/missing/token", &json!({}));
    script.get("/api/v1/namespaces/show/endpoints");
    script.get("/api/v1/namespaces/show/endpoints?watch=true&timeoutSeconds=1");
    script.get("/api/v1/watch/namespaces/show/configmaps/n1?timeoutSeconds=1");
    let attributes = json!({"verb": "get", "resource": "pods", "namespace": "show"});
    let authorization = "/apis/authorization.k8s.io/v1";
    script.send(
        "POST",
        &format!("{authorization}/subjectaccessreviews"),
        &json!({"spec": {"user": "jane", "resourceAttributes": attributes}}),
    );
    script.send("POST", &format!("{authorization}/subjectaccessreviews"), &json!({"spec": {}}));
    script.send("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &json!({"spec": {"token": "unknown"}}));
}

/// Who asks, and as whom.
fn people(script: &mut Script) {
    let all = "/api/v1/namespaces/show/configmaps";
    for who in [Who::Stranger, Who::Nobody] {
        script.ask(who, "GET", all, &[], b"");
        script.ask(who, "GET", "/healthz", &[], b"");
        script.ask(who, "POST", all, &[("Content-Type", JSON)], b"{}");
    }
    script.ask(Who::Stranger, "GET", &format!("{all}?watch=true"), &[], b"");
    script.ask(Who::Stranger, "GET", all, &[("Accept", "text/plain")], b"");
    let user = |name| ("Impersonate-User", name);
    for headers in [
        &[user("jane")][..],
        &[user("jane"), ("Impersonate-Group", "dev"), ("Impersonate-Group", "system:masters")],
        &[user("system:serviceaccount:show:s")],
        &[user("system:node:n")],
        &[user("system:anonymous")],
        &[user("jane"), ("Impersonate-Uid", "7"), ("Impersonate-Extra-Scope", "a"), ("Impersonate-Extra-Scope", "b")],
        &[("Impersonate-Group", "dev")],
    ] {
        script.ask(Who::Admin, "GET", all, headers, b"");
        script.ask(Who::Jane, "GET", &format!("{all}/n1"), headers, b"");
    }
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/show";
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
    script.send("POST", &format!("{rbac}/roles"), &json!({"metadata": {"name": "reader"}, "rules": rules}));
    let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"});
    script.send("POST", &format!("{rbac}/rolebindings"), &json!({"metadata": {"name": "jane"}, "roleRef": role, "subjects": subjects}));
    // Until both have heard of it.
    script.get(&format!("{all}?watch=true&timeoutSeconds=2"));
    script.ask(Who::Jane, "GET", all, &[], b"");
    script.ask(Who::Jane, "GET", &format!("{all}/n1"), &[], b"");
    script.ask(Who::Jane, "GET", &format!("{all}?watch=true&timeoutSeconds=1"), &[], b"");
    script.ask(Who::Jane, "DELETE", &format!("{all}/n1"), &[], b"");
}

/// What is no resource, and what is wrong with any request.
fn paths(script: &mut Script) {
    for target in [
        "/healthz",
        "/livez",
        "/version",
        "/api",
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/apis/nothing",
        "/openapi/v3",
        "/metrics",
        "/nothing",
        "/nothing?a=b&c=%3Cd%3E",
        "/api/v1/nothing",
        "/api/v1/namespaces/show/nothing/n1",
        "/apis/nothing/v1/things",
        "/api/v1/namespaces/show/configmaps?timeout=x",
        "/api/v1/namespaces/show/configmaps?timeout=-1",
    ] {
        script.get(target);
    }
    script.ask(Who::Admin, "POST", "/healthz", &[], b"");
    script.ask(Who::Admin, "POST", "/apis/apps", &[], b"");
    script.ask(Who::Admin, "PUT", "/api/v1/namespaces", &[], b"");
    script.ask(Who::Jane, "GET", "/metrics", &[], b"");
    script.ask(Who::Jane, "GET", "/apis/apps/v1", &[], b"");
    script.ask(Who::Jane, "GET", "/api/v1/nodes", &[], b"");
    let forwarded = [("X-Forwarded-For", "1.2.3.4, ::1, x, 010.1.1.1"), ("X-Real-Ip", "5.6.7.8")];
    script.ask(Who::Admin, "GET", "/version", &forwarded, b"");
    script.ask(Who::Admin, "GET", "/version", &[("User-Agent", &"a<".repeat(600))], b"");
    script.accept("/apis/apps/v1", PROTOBUF);
    script.accept("/apis/apps/v1", "text/plain");
}
