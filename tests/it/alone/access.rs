//! Who may do what, over the TLS listener: roles are needed, give what they say, and take away what they gave, from open watches too. The texts are those of
//! kube-apiserver 1.36.3.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Failure, Outcome, apply::SIGNING_REQUEST, asked, secure::start, wait::until_status};
use crate::live::{free_address, peers::Site};

/// How long a role may take to be known.
const PATIENCE: Duration = Duration::from_secs(600);

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn binding(name: &str, role: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_give_and_take() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = start(dir.path(), &site, listener, &[]).await?;
    let (admin, jane) = (site.client(listener), site.client_of(listener, "janetoken"));
    // The first roles are there when everyone may ask who he is.
    until_status(&jane, "/apis", 200).await?;
    let refused: Value = serde_json::from_slice(&until_status(&jane, PODS, 403).await?)?;
    let text = r#"pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default""#;
    assert_eq!((&refused["message"], &refused["details"]), (&json!(text), &json!({"kind": "pods"})));
    let review = json!({"spec": {"resourceAttributes": {"namespace": "default", "verb": "watch", "resource": "pods"}}});
    let review = asked(&jane, ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), Some(&review), 201).await?;
    assert_eq!(review["status"], json!({"allowed": false}));
    let role =
        json!({"metadata": {"name": "pods"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]});
    asked(&admin, ("POST", &format!("{RBAC}/clusterroles")), Some(&role), 201).await?;
    asked(&admin, ("POST", &format!("{RBAC}/namespaces/default/rolebindings")), Some(&binding("jane-pods", "pods")), 201).await?;
    until_status(&jane, PODS, 200).await?;
    until_status(&jane, "/api/v1/namespaces/default/secrets", 403).await?;
    let mut watch = jane.watch(&format!("{PODS}?watch=1")).await?.map_err(|answer| format!("no watch: {}", answer.status))?;
    let mut others = admin.watch(&format!("{PODS}?watch=1")).await?.map_err(|answer| format!("no watch: {}", answer.status))?;
    asked(&admin, ("DELETE", &format!("{RBAC}/namespaces/default/rolebindings/jane-pods")), None, 200).await?;
    let last = timeout(PATIENCE, watch.next_line()).await.map_err(|_| "the watch goes on without a right")??.ok_or("no ERROR")?;
    let last: Value = serde_json::from_slice(&last)?;
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(403)));
    assert_eq!(last["object"]["message"], text.replace("list", "watch"));
    assert!(timeout(PATIENCE, watch.next_line()).await??.is_none(), "it has ended");
    assert!(timeout(Duration::from_millis(200), others.next_line()).await.is_err(), "nobody else's has");
    server.kill()?;
    Ok(())
}

/// Who may write roles gives no rights that he does not have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gives_what_he_has_not() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = start(dir.path(), &site, listener, &[]).await?;
    let (admin, jane) = (site.client(listener), site.client_of(listener, "janetoken"));
    let role = json!({
        "metadata": {"name": "writer"},
        "rules": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create", "get", "list", "update"]}],
    });
    asked(&admin, ("POST", &format!("{RBAC}/clusterroles")), Some(&role), 201).await?;
    asked(&admin, ("POST", &format!("{RBAC}/namespaces/default/rolebindings")), Some(&binding("jane-writes", "writer")), 201).await?;
    let roles = format!("{RBAC}/namespaces/default/roles");
    until_status(&jane, &roles, 200).await?;
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let refused = asked(&jane, ("POST", &roles), Some(&role), 403).await?;
    let text = "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \"jane\" (groups=[\"dev\" \"ops\" \"system:authenticated\"]) is attempting to grant \
                RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}";
    assert_eq!(refused["message"], text);
    let own = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["get"]}]});
    asked(&jane, ("POST", &roles), Some(&own), 201).await?;
    let refused = asked(&jane, ("PUT", &format!("{roles}/r")), Some(&role), 403).await?;
    assert_eq!(refused["message"], text);
    let refused =
        asked(&jane, ("POST", &format!("{RBAC}/namespaces/default/rolebindings")), Some(&binding("b", "cluster-admin")), 403).await?;
    assert!(
        refused["message"].as_str().is_some_and(|text| text.contains("{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}")),
        "{refused}"
    );
    server.kill()?;
    Ok(())
}

/// What was written before a restart counts after it, though nothing is written then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_outlive_a_restart() -> Outcome {
    let dir = tempfile::tempdir()?;
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    for nth in 0..3 {
        let listener = free_address()?;
        let server = start(dir.path(), &site, listener, &["--warm-start-revisions", ["10000", "10", "0"][nth]]).await?;
        let (admin, jane) = (site.client(listener), site.client_of(listener, "janetoken"));
        if nth == 0 {
            let role = json!({"metadata": {"name": "pods"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]});
            asked(&admin, ("POST", &format!("{RBAC}/clusterroles")), Some(&role), 201).await?;
            asked(&admin, ("POST", &format!("{RBAC}/namespaces/default/rolebindings")), Some(&binding("jane-pods", "pods")), 201).await?;
            // Of other resources, so that those of RBAC rest.
            for count in 0..20 {
                let map = json!({"metadata": {"name": format!("m{count}")}});
                asked(&admin, ("POST", "/api/v1/namespaces/default/configmaps"), Some(&map), 201).await?;
            }
        }
        until_status(&jane, PODS, 200).await.map_err(|why| format!("start {nth}: {why}"))?;
        server.kill()?;
    }
    Ok(())
}

/// The paths of old watches are watched, whatever the method: who may only watch writes nothing there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_through_paths_of_watches() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = start(dir.path(), &site, listener, &[]).await?;
    let (admin, jane) = (site.client(listener), site.client_of(listener, "janetoken"));
    let role = json!({"metadata": {"name": "watcher"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["watch"]}]});
    asked(&admin, ("POST", &format!("{RBAC}/clusterroles")), Some(&role), 201).await?;
    asked(&admin, ("POST", &format!("{RBAC}/clusterrolebindings")), Some(&binding("jane-watches", "watcher")), 201).await?;
    let definition = json!({
        "metadata": {"name": "widgets.ex.io"},
        "spec": {"group": "ex.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
        ]},
    });
    asked(&admin, ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"), Some(&definition), 201).await?;
    let maps = "/api/v1/namespaces/default/configmaps";
    asked(&admin, ("POST", maps), Some(&json!({"metadata": {"name": "m"}, "data": {"a": "b"}})), 201).await?;
    asked(&admin, ("POST", "/api/v1/namespaces/default/serviceaccounts"), Some(&json!({"metadata": {"name": "robot"}})), 201).await?;
    until_status(&jane, "/apis", 200).await?;
    let json_type = [("Content-Type".to_owned(), "application/json".to_owned())];
    let merge_type = [("Content-Type".to_owned(), "application/merge-patch+json".to_owned())];
    let body = br#"{"metadata":{"name":"m"},"data":{"a":"c"}}"#;
    for client in [&jane, &admin] {
        for (method, path, headers) in [
            ("POST", "/api/v1/watch/namespaces/default/configmaps", &json_type),
            ("PUT", "/api/v1/watch/namespaces/default/configmaps/m", &json_type),
            ("PATCH", "/api/v1/watch/namespaces/default/configmaps/m", &merge_type),
            ("DELETE", "/api/v1/watch/namespaces/default/configmaps/m", &json_type),
            ("DELETE", "/api/v1/watch/namespaces/default/configmaps", &json_type),
            ("DELETE", "/api/v1/watch/namespaces/default", &json_type),
            ("POST", "/api/v1/watch/nodes", &json_type),
            ("POST", "/api/v1/watch/namespaces/default/serviceaccounts/robot/token", &json_type),
            ("POST", "/apis/ex.io/v1/watch/namespaces/default/widgets", &json_type),
        ] {
            let answer = client.whole(method, path, headers, body).await?;
            // Of subresources there are no such paths.
            let expected = if path.ends_with("/token") { 404 } else { 405 };
            assert_eq!(answer.status, expected, "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
        }
    }
    let map = asked(&admin, ("GET", &format!("{maps}/m")), None, 200).await?;
    assert_eq!(map["data"], json!({"a": "b"}), "nothing has changed");
    server.kill()?;
    Ok(())
}

/// Who may write `/approval` or `/status` of a certificate request may not yet approve or sign for every signer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approving_and_signing_need_a_right_for_the_signer() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = start(dir.path(), &site, listener, &[]).await?;
    let (admin, jane) = (site.client(listener), site.client_of(listener, "janetoken"));
    let (requests, roles) = ("/apis/certificates.k8s.io/v1/certificatesigningrequests", format!("{RBAC}/clusterroles"));
    let request =
        json!({"metadata": {"name": "r"}, "spec": {"signerName": "ex.io/a", "usages": ["client auth"], "request": SIGNING_REQUEST}});
    let created = asked(&admin, ("POST", requests), Some(&request), 201).await?;
    let rule = |group: &str, resources: Value, verbs: Value| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let group = "certificates.k8s.io";
    let writer = rule(group, json!(["certificatesigningrequests/approval", "certificatesigningrequests/status"]), json!(["get", "update"]));
    asked(&admin, ("POST", &roles), Some(&json!({"metadata": {"name": "writer"}, "rules": [writer]})), 201).await?;
    asked(&admin, ("POST", &format!("{RBAC}/clusterrolebindings")), Some(&binding("writer", "writer")), 201).await?;
    until_status(&jane, &format!("{requests}/r/approval"), 200).await?;
    let with = |status: Value| {
        let mut object = created.clone();
        object["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
        object["status"] = status;
        object
    };
    let approved = with(json!({"conditions": [{"type": "Approved", "status": "True"}]}));
    let signed = with(json!({"certificate": "YQ=="}));
    for (part, object, verb) in [("approval", &approved, "approve"), ("status", &signed, "sign")] {
        let refused = asked(&jane, ("PUT", &format!("{requests}/r/{part}")), Some(object), 403).await?;
        let text = format!(
            r#"certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to {verb} requests with signerName "ex.io/a""#
        );
        assert_eq!(refused["message"], json!(text));
    }
    let mut signer = rule(group, json!(["signers"]), json!(["approve", "sign"]));
    signer["resourceNames"] = json!(["ex.io/*"]);
    asked(&admin, ("POST", &roles), Some(&json!({"metadata": {"name": "signer"}, "rules": [signer]})), 201).await?;
    asked(&admin, ("POST", &format!("{RBAC}/clusterrolebindings")), Some(&binding("signer", "signer")), 201).await?;
    let review = json!({"spec": {"resourceAttributes": {"group": group, "resource": "signers", "name": "ex.io/*", "verb": "sign"}}});
    let allowed = async {
        loop {
            let target = ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
            if asked(&jane, target, Some(&review), 201).await?["status"]["allowed"] == true {
                return Ok::<_, Failure>(());
            }
        }
    };
    timeout(PATIENCE, allowed).await??;
    let now = asked(&jane, ("PUT", &format!("{requests}/r/approval")), Some(&approved), 200).await?;
    assert_eq!(now["status"]["conditions"][0]["type"], "Approved");
    let masters = json!({"status": {"conditions": [{"type": "Denied", "status": "True"}]}});
    asked(&admin, ("PUT", &format!("{requests}/r/approval")), Some(&with(masters["status"].clone())), 422).await?;
    server.kill()?;
    Ok(())
}
