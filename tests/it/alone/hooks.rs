//! Admission webhooks: which writes they are asked about, what they are asked, and what becomes of their answers. The texts are those of kube-apiserver 1.36.3.

use std::{sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use client::testing::{Reaction, Server};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Alone, Failure, Outcome, asked};
use crate::client::{Client, Whole};

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// What a webhook says: the members of its response besides the uid.
fn answer(body: &[u8], response: &Value) -> Reaction {
    let review: Value = serde_json::from_slice(body).expect("a review");
    let mut response = response.clone();
    response["uid"] = review["request"]["uid"].clone();
    if response.get("allowed").is_none() {
        response["allowed"] = true.into();
    }
    if let Some(patch) = response.get("patch").filter(|patch| patch.is_array()) {
        response["patch"] = BASE64_STANDARD.encode(patch.to_string()).into();
        response["patchType"] = "JSONPatch".into();
    }
    Reaction::json(&json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

/// A webhook for all writes of these resources; `more` replaces members of it.
fn hook(server: &Server, path: &str, resources: &[&str], more: &Value) -> Value {
    let rule = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources});
    let place = json!({"url": format!("{}{path}", server.url()), "caBundle": BASE64_STANDARD.encode(server.ca_pem())});
    let mut hook = json!({"name": format!("{}.x.io", path.trim_start_matches('/')), "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": place, "rules": [rule]});
    hook.as_object_mut().expect("an object").extend(more.as_object().expect("members").clone());
    if hook["name"].as_str().is_none_or(|name| name.split('.').count() <= 2) {
        hook["name"] = "a.x.io".into();
    }
    hook
}

async fn configured(client: &Client, target: &str, name: &str, hooks: &[Value]) -> Outcome {
    asked(client, ("POST", target), Some(&json!({"metadata": {"name": name}, "webhooks": hooks})), 201).await.map(drop)
}

async fn sent(client: &Client, method: &str, target: &str, kind: &str, body: &Value) -> Result<(Whole, Value), Failure> {
    let head = [("content-type".to_owned(), kind.to_owned())];
    let answer = client.whole(method, target, &head, body.to_string().as_bytes()).await?;
    let value = serde_json::from_slice(&answer.body)?;
    Ok((answer, value))
}

fn config(name: &str, data: &Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

/// The requests of reviews that came to a path.
fn questions(server: &Server, path: &str) -> Vec<Value> {
    let of = |one: &client::testing::ReceivedRequest| serde_json::from_slice::<Value>(&one.body).expect("a review")["request"].clone();
    server.asked().iter().filter(|one| one.uri.path() == path).map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_changes_what_is_written() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let patch = json!({"patch": [{"op": "add", "path": "/data/b", "value": "2"}, {"op": "add", "path": "/unknown", "value": 1}],
        "warnings": ["changed"], "auditAnnotations": {"k": "v"}});
    let hooks = Server::start(move |request| answer(&request.body, &patch)).await;
    let client = server.client();
    configured(&client, MUTATING, "m", &[hook(&hooks, "/m", &["configmaps"], &json!({}))]).await?;
    let (reply, made) =
        sent(&client, "POST", &format!("{CONFIGS}?fieldManager=me"), "application/json", &config("a", &json!({"a": "1"}))).await?;
    assert_eq!((reply.status, &made["data"]), (201, &json!({"a": "1", "b": "2"})), "{made}");
    assert_eq!(reply.header("warning").collect::<Vec<_>>(), [r#"299 - "changed""#]);
    let fields = &made["metadata"]["managedFields"][0]["fieldsV1"]["f:data"];
    assert_eq!(*fields, json!({".": {}, "f:a": {}}), "what a webhook adds has no manager");
    let question = questions(&hooks, "/m").pop().expect("one");
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let of = json!({"group": "", "version": "v1", "resource": "configmaps"});
    for (member, want) in [
        ("kind", kind.clone()),
        ("requestKind", kind),
        ("resource", of.clone()),
        ("requestResource", of),
        ("name", json!("a")),
        ("namespace", json!("default")),
        ("operation", json!("CREATE")),
        ("oldObject", Value::Null),
        ("dryRun", json!(false)),
        ("options", json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"})),
    ] {
        assert_eq!(question[member], want, "{member} {question}");
    }
    assert_eq!((&question["object"]["data"], &question["object"]["kind"]), (&json!({"a": "1"}), &json!("ConfigMap")));
    assert!(question["userInfo"]["groups"].as_array().is_some_and(|groups| !groups.is_empty()) && question.get("subResource").is_none());
    // A PUT, a patch and an apply are updates with the object that was there.
    let target = format!("{CONFIGS}/a");
    for (method, kind, body) in [
        ("PUT", "application/json", config("a", &json!({"a": "2"}))),
        ("PATCH", "application/merge-patch+json", json!({"data": {"a": "3", "b": null}})),
        (
            "PATCH",
            "application/apply-patch+yaml",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"c": "4"}}),
        ),
    ] {
        let target = if kind.contains("apply") { format!("{target}?fieldManager=x&force=true") } else { target.clone() };
        let (reply, written) = sent(&client, method, &target, kind, &body).await?;
        assert_eq!((reply.status, &written["data"]["b"]), (200, &json!("2")), "{method} {kind} {written}");
        let question = questions(&hooks, "/m").pop().expect("one");
        assert_eq!((&question["operation"], &question["options"]["kind"]), (&json!("UPDATE"), &json!("UpdateOptions")));
        assert!(question["oldObject"]["data"]["a"].is_string() && question["oldObject"]["metadata"]["uid"].is_string(), "{question}");
    }
    let asked_before = questions(&hooks, "/m").len();
    sent(&client, "POST", CONFIGS, "application/json", &json!({"metadata": {"generateName": "gen-"}, "data": {}})).await?;
    let all = questions(&hooks, "/m");
    assert_eq!(
        (all.len(), all.last().and_then(|question| question.get("name"))),
        (asked_before + 1, None),
        "asked once, before there is a name"
    );
    assert_eq!(all.last().map(|question| &question["object"]["metadata"]["namespace"]), Some(&json!("default")));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_refuses_with_its_own_words() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let hooks = Server::start(|request| {
        let review: Value = serde_json::from_slice(&request.body).expect("a review");
        let object = if review["request"]["object"].is_null() { &review["request"]["oldObject"] } else { &review["request"]["object"] };
        answer(
            &request.body,
            &object["data"].get("say").map_or(json!({}), |text| serde_json::from_str(text.as_str().expect("a text")).expect("JSON")),
        )
    })
    .await;
    let client = server.client();
    configured(&client, VALIDATING, "v", &[hook(&hooks, "/v", &["*"], &json!({}))]).await?;
    let says = |name: &str, response: &Value| config(name, &json!({"say": response.to_string()}));
    let (reply, status) =
        sent(&client, "POST", CONFIGS, "application/json", &says("a", &json!({"allowed": false, "warnings": ["w"]}))).await?;
    assert_eq!((reply.status, reply.header("warning").count()), (400, 1));
    assert_eq!(status["message"], r#"admission webhook "v.x.io" denied the request without explanation"#);
    assert_eq!((status.get("reason"), &status["code"]), (None, &json!(400)));
    let said = json!({"code": 422, "message": "no", "reason": "TooBad", "details": {"name": "n", "causes": [{"field": "f", "message": "m", "reason": "R"}]}});
    let (_, status) = sent(&client, "POST", CONFIGS, "application/json", &says("a", &json!({"allowed": false, "status": said}))).await?;
    let want = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 422, "reason": "TooBad",
        "message": "admission webhook \"v.x.io\" denied the request: no",
        "details": {"name": "n", "causes": [{"reason": "R", "message": "m", "field": "f"}]}});
    assert_eq!(status, want);
    // What is there may be wanted to stay.
    asked(&client, ("POST", CONFIGS), Some(&config("kept", &json!({}))), 201).await?;
    let kept = format!("{CONFIGS}/kept");
    asked(&client, ("DELETE", &kept), None, 200).await?;
    let before = hooks.asked().len();
    let exempt = json!({"metadata": {"name": "other"}});
    asked(&client, ("POST", MUTATING), Some(&exempt), 201).await?;
    assert_eq!(hooks.asked().len(), before, "nobody is asked about configurations");
    asked(&client, ("DELETE", &format!("{VALIDATING}/v")), None, 200).await?;
    let refused = says("refused", &json!({"allowed": false, "status": {"message": "stays"}}));
    asked(&client, ("POST", CONFIGS), Some(&refused), 201).await?;
    configured(&client, VALIDATING, "v", &[hook(&hooks, "/v", &["configmaps"], &json!({}))]).await?;
    let status = asked(&client, ("DELETE", &format!("{CONFIGS}/refused")), None, 400).await?;
    assert_eq!(status["message"], r#"admission webhook "v.x.io" denied the request: stays"#);
    let question = questions(&hooks, "/v").pop().expect("one");
    assert_eq!(
        (&question["operation"], &question["object"], &question["options"]["kind"]),
        (&json!("DELETE"), &Value::Null, &json!("DeleteOptions"))
    );
    assert_eq!((&question["oldObject"]["metadata"]["name"], &question["name"]), (&json!("refused"), &json!("refused")));
    let metrics = client.whole("GET", "/metrics", &[], b"").await?;
    let metrics = String::from_utf8_lossy(&metrics.body);
    for series in [
        r#"apiserver_admission_webhook_rejection_count{error_type="no_error",name="v.x.io",operation="DELETE",rejection_code="400",type="validating"} 1"#,
        r#"apiserver_admission_webhook_request_total{code="400",name="v.x.io",operation="DELETE",rejected="true",type="validating"} 1"#,
        r#"apiserver_admission_webhook_admission_duration_seconds_count{name="v.x.io",operation="DELETE",rejected="true",type="validating"} 1"#,
    ] {
        assert!(metrics.contains(series), "{series}");
    }
    let status = asked(&client, ("DELETE", CONFIGS), None, 400).await?;
    assert_eq!(status["message"], r#"admission webhook "v.x.io" denied the request: stays"#);
    asked(&client, ("GET", &format!("{CONFIGS}/refused")), None, 200).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_asked_follows_its_policy() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let hooks = Server::start(|request| match request.uri.path() {
        "/garbage" => Reaction::Answer(200, "application/json", Bytes::from_static(b"[]")),
        "/failing" => Reaction::Answer(500, "text/plain", Bytes::from_static(b"broken")),
        "/hanging" => Reaction::Hang,
        "/other" => Reaction::json(
            &json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "x", "allowed": true}}),
        ),
        "/patch" => answer(&request.body, &json!({"patch": "!"})),
        "/moves" => answer(&request.body, &json!({"patch": [{"op": "replace", "path": "/nowhere/at", "value": 1}]})),
        _ => answer(&request.body, &json!({})),
    })
    .await;
    let client = server.client();
    let at = format!("{}{{}}?timeout=10s", hooks.url());
    for (path, why) in [
        ("/garbage", "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value"),
        ("/failing", "failed to call webhook: an error on the server (\"broken\") has prevented the request from succeeding"),
        ("/other", "received invalid webhook response: expected response.uid="),
        ("/patch", "failed to call webhook: "),
        ("/hanging", "failed to call webhook: Post \"{}\": context deadline exceeded"),
    ] {
        let seconds = if path == "/hanging" { 1 } else { 10 };
        let more = json!({"timeoutSeconds": seconds});
        configured(&client, MUTATING, "m", &[hook(&hooks, path, &["configmaps"], &more)]).await?;
        let status = asked(&client, ("POST", CONFIGS), Some(&config("a", &json!({}))), 500).await?;
        let url = at.replace("{}", path).replace("10s", &format!("{seconds}s"));
        let want = format!("Internal error occurred: failed calling webhook \"{}.x.io\": {}", &path[1..], why.replace("{}", &url));
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(&want), "{message}\n{want}");
        let ignored = hook(&hooks, path, &["configmaps"], &json!({"failurePolicy": "Ignore", "timeoutSeconds": seconds}));
        let mut now = asked(&client, ("GET", &format!("{MUTATING}/m")), None, 200).await?;
        now["webhooks"] = json!([ignored]);
        asked(&client, ("PUT", &format!("{MUTATING}/m")), Some(&now), 200).await?;
        asked(&client, ("POST", CONFIGS), Some(&config(&path[1..], &json!({}))), 201).await?;
        asked(&client, ("DELETE", &format!("{MUTATING}/m")), None, 200).await?;
    }
    configured(&client, MUTATING, "m", &[hook(&hooks, "/moves", &["configmaps"], &json!({"failurePolicy": "Ignore"}))]).await?;
    asked(&client, ("POST", CONFIGS), Some(&config("a", &json!({}))), 500).await?;
    asked(&client, ("DELETE", &format!("{MUTATING}/m")), None, 200).await?;
    let mut nobody = hook(&hooks, "/x", &["configmaps"], &json!({}));
    nobody["clientConfig"] = json!({"service": {"namespace": "default", "name": "gone"}});
    configured(&client, VALIDATING, "v", &[nobody]).await?;
    let status = asked(&client, ("POST", CONFIGS), Some(&config("a", &json!({}))), 500).await?;
    let why = "failed calling webhook \"x.x.io\": failed to call webhook: Post \"https://gone.default.svc:443/?timeout=10s\": service \"gone\" not found";
    assert_eq!(status["message"], format!("Internal error occurred: {why}"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_selected_is_asked_about() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let hooks = Server::start(|request| answer(&request.body, &json!({}))).await;
    let client = server.client();
    asked(&client, ("POST", "/api/v1/namespaces"), Some(&json!({"metadata": {"name": "marked", "labels": {"n": "yes"}}})), 201).await?;
    let condition = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    let (resources, labelled) = (["configmaps"], json!({"matchLabels": {"o": "yes"}}));
    configured(
        &client,
        VALIDATING,
        "v",
        &[
            hook(&hooks, "/namespace", &resources, &json!({"namespaceSelector": {"matchLabels": {"n": "yes"}}})),
            hook(&hooks, "/object", &resources, &json!({"objectSelector": labelled})),
            hook(&hooks, "/condition", &resources, &condition("object.data.a == '1' && request.operation == 'CREATE'")),
            hook(&hooks, "/rights", &resources, &condition("authorizer.group('').resource('pods').namespace('x').check('get').allowed()")),
            hook(&hooks, "/nobody", &resources, &condition("authorizer.serviceAccount('default', 'x').path('/x').check('get').allowed()")),
        ],
    )
    .await?;
    let marked = "/api/v1/namespaces/marked/configmaps";
    let mut object = config("a", &json!({"a": "1"}));
    for (target, label, want) in [
        (CONFIGS, "no", &["/condition", "/rights"][..]),
        (CONFIGS, "yes", &["/condition", "/object", "/rights"]),
        (marked, "no", &["/condition", "/namespace", "/rights"]),
    ] {
        let before = hooks.asked().len();
        object["metadata"] = json!({"generateName": "a-", "labels": {"o": label}});
        asked(&client, ("POST", target), Some(&object), 201).await?;
        let mut paths: Vec<String> = hooks.asked()[before..].iter().map(|one| one.uri.path().to_owned()).collect();
        paths.sort_unstable();
        assert_eq!(paths, want, "{target} {label}");
    }
    object["data"] = json!({"b": "1"});
    let status = asked(&client, ("POST", CONFIGS), Some(&object), 403).await?;
    let why = "configmaps \"\" is forbidden: expression 'object.data.a == '1' && request.operation == 'CREATE'' resulted in error: no such key: a";
    assert_eq!(status["message"], why.replace("\"\"", &format!("{}", status["details"]["name"])));
    Ok(())
}

/// The second webhook changes what the first has seen, which is then asked again; one that does not want that is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_asked_again_when_the_object_changes() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let hooks = Server::start(|request| match request.uri.path() {
        "/changes" => answer(&request.body, &json!({"patch": [{"op": "add", "path": "/data/x", "value": "1"}]})),
        _ => answer(&request.body, &json!({})),
    })
    .await;
    let client = server.client();
    let (again, resources) = (json!({"reinvocationPolicy": "IfNeeded"}), ["configmaps"]);
    let all = [
        hook(&hooks, "/again", &resources, &again),
        hook(&hooks, "/once", &resources, &json!({})),
        hook(&hooks, "/changes", &resources, &json!({})),
        hook(&hooks, "/after", &resources, &again),
    ];
    configured(&client, MUTATING, "m", &all).await?;
    asked(&client, ("POST", CONFIGS), Some(&config("a", &json!({"a": "1"}))), 201).await?;
    let paths: Vec<String> = hooks.asked().iter().map(|one| one.uri.path().to_owned()).collect();
    assert_eq!(paths, ["/again", "/once", "/changes", "/after", "/again"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_asks_only_those_without_side_effects() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &[]).await?;
    let hooks =
        Server::start(|request| answer(&request.body, &json!({"patch": [{"op": "add", "path": "/data", "value": {"x": "1"}}]}))).await;
    let client = server.client();
    configured(&client, MUTATING, "m", &[hook(&hooks, "/m", &["configmaps"], &json!({"sideEffects": "NoneOnDryRun"}))]).await?;
    let made = asked(&client, ("POST", &format!("{CONFIGS}?dryRun=All")), Some(&config("a", &json!({}))), 201).await?;
    assert_eq!(made["data"], json!({"x": "1"}));
    let question = questions(&hooks, "/m").pop().expect("one");
    assert_eq!((&question["dryRun"], &question["options"]["dryRun"]), (&json!(true), &json!(["All"])));
    asked(&client, ("GET", &format!("{CONFIGS}/a")), None, 404).await?;
    Ok(())
}

/// What goes through a subresource is asked about as that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subresources_are_asked_about() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let hooks = Server::start(|request| {
        let review: Value = serde_json::from_slice(&request.body).expect("a review");
        match review["request"]["kind"]["kind"].as_str() {
            Some("Scale") if request.uri.path() == "/m" => {
                answer(&request.body, &json!({"patch": [{"op": "replace", "path": "/spec/replicas", "value": 3}]}))
            }
            _ => answer(&request.body, &json!({})),
        }
    })
    .await;
    let client = server.client();
    let pods = "/api/v1/namespaces/default/pods";
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    asked(&client, ("POST", pods), Some(&json!({"metadata": {"name": "p"}, "spec": spec})), 201).await?;
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
    let set = json!({"metadata": {"name": "s"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    asked(&client, ("POST", sets), Some(&set), 201).await?;
    configured(&client, MUTATING, "m", &[hook(&hooks, "/m", &["*/*"], &json!({}))]).await?;
    configured(&client, VALIDATING, "v", &[hook(&hooks, "/v", &["*/*"], &json!({}))]).await?;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    asked(&client, ("POST", &format!("{pods}/p/binding")), Some(&binding), 201).await?;
    let status = json!({"status": {"phase": "Running"}});
    let (reply, _) = sent(&client, "PATCH", &format!("{pods}/p/status"), "application/merge-patch+json", &status).await?;
    assert_eq!(reply.status, 200);
    let scale = json!({"spec": {"replicas": 2}});
    let (reply, scale) = sent(&client, "PATCH", &format!("{sets}/s/scale"), "application/merge-patch+json", &scale).await?;
    assert_eq!((reply.status, &scale["spec"]["replicas"]), (200, &json!(3)), "{scale}");
    asked(&client, ("POST", &format!("{pods}/p/eviction")), Some(&json!({"metadata": {"name": "p"}})), 201).await?;
    for path in ["/m", "/v"] {
        let told: Vec<String> = questions(&hooks, path)
            .iter()
            .map(|question| {
                let text = |pointer: &str| question.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
                format!("{} {} {} {}", text("/operation"), text("/resource/resource"), text("/subResource"), text("/kind/kind"))
            })
            .collect();
        let want =
            ["CREATE pods binding Binding", "UPDATE pods status Pod", "UPDATE replicasets scale Scale", "CREATE pods eviction Eviction"];
        assert_eq!(told, want, "{path}");
    }
    Ok(())
}

/// What is answered and never stored is asked about too, and a webhook may change it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_stored_is_asked_about() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--controllers="]).await?;
    let hooks = Server::start(|request| {
        let review: Value = serde_json::from_slice(&request.body).expect("a review");
        let kind = review["request"]["kind"]["kind"].as_str();
        match (kind, request.uri.path()) {
            (Some("TokenRequest"), "/m") => {
                answer(&request.body, &json!({"patch": [{"op": "replace", "path": "/spec/expirationSeconds", "value": 700}]}))
            }
            (Some("SubjectAccessReview"), "/v") => answer(&request.body, &json!({"allowed": false, "status": {"message": "not now"}})),
            _ => answer(&request.body, &json!({})),
        }
    })
    .await;
    let client = server.client();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    asked(&client, ("POST", accounts), Some(&json!({"metadata": {"name": "a"}})), 201).await?;
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    asked(&client, ("POST", "/api/v1/namespaces/default/pods"), Some(&json!({"metadata": {"name": "p"}, "spec": spec})), 201).await?;
    configured(&client, MUTATING, "m", &[hook(&hooks, "/m", &["*/*"], &json!({}))]).await?;
    configured(&client, VALIDATING, "v", &[hook(&hooks, "/v", &["*/*"], &json!({}))]).await?;
    let token = asked(&client, ("POST", &format!("{accounts}/a/token")), Some(&json!({"spec": {}})), 201).await?;
    assert_eq!(token["spec"]["expirationSeconds"], 700, "{token}");
    let me = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    asked(&client, ("POST", me), Some(&json!({})), 201).await?;
    let access = json!({"spec": {"user": "u", "nonResourceAttributes": {"path": "/x", "verb": "get"}}});
    let refused = asked(&client, ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"), Some(&access), 400).await?;
    assert!(refused["message"].as_str().is_some_and(|message| message.ends_with("denied the request: not now")), "{refused}");
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    asked(&client, ("POST", "/api/v1/namespaces/default/bindings"), Some(&binding), 201).await?;
    for path in ["/m", "/v"] {
        let told: Vec<String> = questions(&hooks, path)
            .iter()
            .map(|question| {
                let text = |pointer: &str| question.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
                let has_token = question.pointer("/object/status/token").is_some_and(|token| token != "");
                assert!(!has_token, "a token is nobody's but its client's");
                let of = format!("{} {} {}", text("/resource/resource"), text("/subResource"), text("/kind/kind"));
                format!("{} {of} {} {}", text("/operation"), text("/namespace"), text("/name"))
            })
            .collect();
        let want = [
            "CREATE serviceaccounts token TokenRequest default a",
            "CREATE selfsubjectreviews - SelfSubjectReview - -",
            "CREATE subjectaccessreviews - SubjectAccessReview - -",
            "CREATE bindings - Binding default p",
        ];
        assert_eq!(told, want, "{path}");
    }
    Ok(())
}

/// An Event is one of two groups: a webhook for the one is asked about what is sent to the other, in the form of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_shown_in_the_group_that_a_rule_names() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let hooks =
        Server::start(|request| answer(&request.body, &json!({"patch": [{"op": "add", "path": "/note", "value": "changed"}]}))).await;
    let client = server.client();
    let equivalent = json!({"matchPolicy": "Equivalent", "rules": [{"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "resources": ["events"], "operations": ["*"]}]});
    configured(&client, MUTATING, "m", &[hook(&hooks, "/m", &["events"], &equivalent)]).await?;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "message": "said"});
    let made = asked(&client, ("POST", "/api/v1/namespaces/default/events"), Some(&event), 201).await?;
    assert_eq!((&made["message"], &made["apiVersion"]), (&json!("changed"), &json!("v1")), "{made}");
    let question = questions(&hooks, "/m").remove(0);
    assert_eq!(
        (&question["object"]["note"], &question["object"]["apiVersion"]),
        (&json!("said"), &json!("events.k8s.io/v1")),
        "{question}"
    );
    Ok(())
}

/// A webhook that writes to this server before it answers waits for nobody, and a write that waits for a webhook holds up no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_may_write_before_it_answers() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--controllers=resourcequota"]).await?;
    let (open, opened) = watch::channel(false);
    let hooks = Server::start(move |request| Reaction::Once(opened.clone(), Box::new(answer(&request.body, &json!({}))))).await;
    let client = server.client();
    asked(
        &client,
        ("POST", "/api/v1/namespaces/default/resourcequotas"),
        Some(&json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "300"}}})),
        201,
    )
    .await?;
    let quota = "/api/v1/namespaces/default/resourcequotas/q";
    // A quota counts once a controller has looked at it.
    while asked(&client, ("GET", quota), None, 200).await?["status"]["hard"]["configmaps"] != "300" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let selector = json!({"objectSelector": {"matchLabels": {"slow": "yes"}}, "timeoutSeconds": 30});
    configured(&client, VALIDATING, "v", &[hook(&hooks, "/v", &["configmaps"], &selector)]).await?;
    let client = Arc::new(client);
    let slow = |name: String| {
        let client = client.clone();
        tokio::spawn(async move {
            let object = json!({"metadata": {"name": name, "labels": {"slow": "yes"}}});
            asked(&client, ("POST", CONFIGS), Some(&object), 201).await.map(drop)
        })
    };
    let waiting: Vec<_> = (0..64).map(|n| slow(format!("slow-{n}"))).collect();
    while hooks.asked().len() < 64 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // In the same namespace, with the same quota.
    asked(&client, ("POST", CONFIGS), Some(&config("quick", &json!({}))), 201).await?;
    open.send(true)?;
    for one in waiting {
        one.await??;
    }
    let quota = asked(&client, ("GET", quota), None, 200).await?;
    assert_eq!(quota["status"]["used"]["configmaps"], "65", "{quota}");
    Ok(())
}

/// A webhook of one version of a resource sees writes of the others in its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equivalent_versions_are_converted() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let hooks =
        Server::start(|request| answer(&request.body, &json!({"patch": [{"op": "replace", "path": "/spec/maxReplicas", "value": 7}]})))
            .await;
    let client = server.client();
    let rule =
        json!([{"operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}]);
    let exact = json!({"rules": rule, "matchPolicy": "Exact"});
    configured(&client, MUTATING, "m", &[hook(&hooks, "/exact", &[], &exact), hook(&hooks, "/same", &[], &json!({"rules": rule}))]).await?;
    let metric = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]);
    let spec = json!({"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 2, "metrics": metric});
    let target = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let made = asked(&client, ("POST", target), Some(&json!({"metadata": {"name": "h"}, "spec": spec})), 201).await?;
    assert_eq!(
        (&made["apiVersion"], &made["spec"]["maxReplicas"], &made["spec"]["metrics"]),
        (&json!("autoscaling/v2"), &json!(7), &metric)
    );
    let question = questions(&hooks, "/same").pop().expect("one");
    assert_eq!((&question["kind"]["version"], &question["requestKind"]["version"]), (&json!("v1"), &json!("v2")));
    assert_eq!(question["object"]["spec"]["targetCPUUtilizationPercentage"], 50, "{question}");
    assert_eq!(questions(&hooks, "/exact").len(), 0);
    Ok(())
}
