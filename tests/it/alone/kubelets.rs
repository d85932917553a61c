//! What kubelets may write, on a server of its own with the authorizer of nodes: what is theirs, and nothing that gives them more. The texts are those of
//! kube-apiserver 1.36.3.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Failure, Outcome, asked, secure::start};
use crate::{
    client::Client,
    live::{free_address, peers::Site},
};

/// How long the cache may take to know of a write.
const PATIENCE: Duration = Duration::from_secs(600);

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Sends a body as a merge patch or as JSON; the status and the message.
async fn told(client: &Client, (method, target): (&str, &str), body: &Value) -> Result<(u16, String), Failure> {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let headers = [("Content-Type".to_owned(), media.to_owned())];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = client.whole(method, target, &headers, body.as_bytes()).await?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let object: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    Ok((answer.status, object["message"].as_str().unwrap_or_default().to_owned()))
}

/// The same, again until it is this status or time is over: the cache follows.
async fn until(client: &Client, request: (&str, &str), body: &Value, status: u16) -> Result<String, Failure> {
    let began = Instant::now();
    loop {
        let (now, message) = told(client, request, body).await?;
        if now == status {
            return Ok(message);
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("{request:?} is {now} {message}, not {status}").into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubelet_writes_what_is_its_own() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = start(dir.path(), &site, listener, &["--authorization-mode=Node,RBAC"]).await?;
    let (admin, kubelet) = (site.client(listener), site.client_of(listener, "n1token"));
    let node = asked(&admin, ("POST", "/api/v1/nodes"), Some(&json!({"metadata": {"name": "n1"}})), 201).await?;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    asked(&admin, ("POST", "/api/v1/nodes"), Some(&json!({"metadata": {"name": "other"}})), 201).await?;
    asked(&admin, ("POST", accounts), Some(&json!({"metadata": {"name": "boss"}})), 201).await?;

    // The way to every secret: a pod that names it, and the token of another account.
    let pod = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let containers = json!([{"name": "c", "image": "i"}]);
    let volumes = json!([{"name": "v", "secret": {"secretName": "top"}}]);
    let mut mine = pod("mine", json!({"nodeName": "n1", "serviceAccountName": "boss", "containers": containers, "volumes": volumes}));
    let no_mirror =
        r#"pods "mine" is forbidden: pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods"#;
    for target in [PODS.to_owned(), format!("{PODS}?dryRun=All")] {
        assert_eq!(told(&kubelet, ("POST", &target), &mine).await?, (403, no_mirror.to_owned()));
    }
    mine["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "m"});
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["metadata"]["uid"], "controller": true});
    mine["metadata"]["ownerReferences"] = json!([owner]);
    let refers = r#"pods "mine" is forbidden: node "n1" can not create pods that reference serviceaccounts"#;
    assert_eq!(until(&kubelet, ("POST", PODS), &mine, 403).await?, refers);
    mine["spec"] = json!({"nodeName": "n1", "containers": containers});
    until(&kubelet, ("POST", PODS), &mine, 201).await?;

    // Pods of others stay, one by one and together; its own goes.
    asked(
        &admin,
        ("POST", PODS),
        Some(&pod("theirs", json!({"nodeName": "other", "serviceAccountName": "boss", "containers": containers}))),
        201,
    )
    .await?;
    let run = pod("run", json!({"nodeName": "n1", "serviceAccountName": "boss", "containers": containers}));
    let run = asked(&admin, ("POST", PODS), Some(&run), 201).await?;
    let role = json!({"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["delete", "deletecollection", "create"]}]});
    asked(&admin, ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles"), Some(&role), 201).await?;
    let binding = json!({
        "metadata": {"name": "all"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:node:n1"}],
    });
    asked(&admin, ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"), Some(&binding), 201).await?;
    let theirs = r#"pods "theirs" is forbidden: node "n1" can only delete pods with spec.nodeName set to itself"#;
    assert_eq!(until(&kubelet, ("DELETE", &format!("{PODS}/theirs")), &Value::Null, 403).await?, theirs);
    assert_eq!(until(&kubelet, ("DELETE", PODS), &Value::Null, 200).await?, "");
    let left = asked(&admin, ("GET", PODS), None, 200).await?;
    assert_eq!(left["items"].as_array().map(Vec::len), Some(3), "a collection names no pod: none is the kubelet's to delete");
    let unbound = r#"nodes "Unknown" is forbidden: node "n1" is not allowed to modify node """#;
    assert_eq!(told(&kubelet, ("DELETE", "/api/v1/nodes"), &Value::Null).await?, (403, unbound.to_owned()));
    assert_eq!(told(&kubelet, ("DELETE", &format!("{PODS}/mine?gracePeriodSeconds=0")), &Value::Null).await?.0, 200);
    let bind = json!({"metadata": {"name": "run"}, "target": {"kind": "Node", "name": "n1"}});
    let bound = r#"pods "run" is forbidden: unexpected pod subresource "binding", only 'status' and 'eviction' are allowed"#;
    assert_eq!(told(&kubelet, ("POST", &format!("{PODS}/run/binding")), &bind).await?, (403, bound.to_owned()));

    // Nodes, leases, slices.
    let label = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b"}}});
    let other = r#"nodes "other" is forbidden: node "n1" is not allowed to modify node "other""#;
    let own = r#"nodes "n1" is forbidden: is not allowed to modify labels: node-restriction.kubernetes.io/a"#;
    assert_eq!(told(&kubelet, ("PATCH", "/api/v1/nodes/other/status"), &label).await?, (403, other.to_owned()));
    assert_eq!(told(&kubelet, ("PATCH", "/api/v1/nodes/n1/status"), &label).await?, (403, own.to_owned()));
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    assert_eq!(told(&kubelet, ("PATCH", "/api/v1/nodes/n1/status"), &ready).await?.0, 200);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease = |name: &str| json!({"metadata": {"name": name}, "spec": {}});
    let of_other =
        r#"leases.coordination.k8s.io "other" is forbidden: can only access node lease with the same name as the requesting node"#;
    assert_eq!(told(&kubelet, ("POST", leases), &lease("other")).await?, (403, of_other.to_owned()));
    assert_eq!(told(&kubelet, ("PUT", &format!("{leases}/n1")), &lease("n1")).await?.0, 201);

    // Tokens: of a pod that runs here, for an audience that it needs.
    let target = format!("{accounts}/boss/token");
    let request = |audiences: Value| {
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "run", "uid": run["metadata"]["uid"]});
        json!({"spec": {"boundObjectRef": bound, "audiences": audiences}})
    };
    let refused = |why: &str| (403, format!(r#"serviceaccounts "boss" is forbidden: {why}"#));
    assert_eq!(told(&kubelet, ("POST", &target), &json!({"spec": {}})).await?, refused("node requested token not bound to a pod"));
    let why = r#"audience "vault" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience"#;
    assert_eq!(until(&kubelet, ("POST", &target), &request(json!(["vault"])), 403).await?, refused(why).1);
    let allow = json!({"metadata": {"name": "vault"}, "rules": [
        {"apiGroups": [""], "resources": ["vault"], "resourceNames": ["boss"], "verbs": ["request-serviceaccounts-token-audience"]},
    ]});
    asked(&admin, ("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"), Some(&allow), 201).await?;
    let mut binding = binding;
    binding["metadata"]["name"] = json!("vault");
    binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "vault"});
    asked(&admin, ("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"), Some(&binding), 201).await?;
    until(&kubelet, ("POST", &target), &request(json!(["vault"])), 201).await?;
    server.kill()?;
    Ok(())
}

/// Whoever may act as a kubelet is one; a member of `system:masters` too, whom no authorizer stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_acts_as_a_kubelet_is_one() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = start(dir.path(), &site, listener, &["--authorization-mode=Node,RBAC"]).await?;
    let admin = site.client(listener);
    asked(&admin, ("POST", "/api/v1/nodes"), Some(&json!({"metadata": {"name": "n1"}})), 201).await?;
    let acting = |user: &str| {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            header("Content-Type", "application/json"),
            header("Impersonate-User", user),
            header("Impersonate-Group", "system:nodes"),
            header("Impersonate-Group", "system:masters"),
        ]
    };
    let account = json!({"metadata": {"name": "a"}}).to_string();
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}).to_string();
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let nobody = r#"is forbidden: could not determine node from user \"system:node:\""#;
    for (user, method, target, body, status, why) in [
        ("system:node:n2", "DELETE", "/api/v1/nodes/n1", "", 403, r#"node \"n2\" is not allowed to modify node \"n1\""#),
        ("system:node:", "POST", "/api/v1/namespaces/default/serviceaccounts", &account, 403, nobody),
        ("system:node:", "POST", reviews, &review, 403, nobody),
        ("jane", "POST", "/api/v1/namespaces/default/serviceaccounts", &account, 201, ""),
    ] {
        let answer = admin.whole(method, target, &acting(user), body.as_bytes()).await?;
        let text = String::from_utf8_lossy(&answer.body);
        assert!(answer.status == status && text.contains(why), "{user} {method} {target}: {} {text}", answer.status);
    }
    server.kill()?;
    Ok(())
}
