//! Somebody else decides: `--authorization-mode=Webhook` and `--authorization-config`, with a webhook in this test that hangs, fails and lies when it is told
//! to.

use std::{
    convert::Infallible,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep, timeout},
};

use super::{Failure, Outcome, asked, secure::start};
use crate::{
    client::Client,
    live::{free_address, peers::Site},
};

const PODS: &str = "/api/v1/namespaces/default/pods";
const PATIENCE: Duration = Duration::from_secs(600);

/// A webhook: what it was asked, and how it answers.
#[derive(Default)]
struct Hook {
    asked: Mutex<Vec<Value>>,
    status: Mutex<Value>,
}

impl Hook {
    /// Serves until the test ends.
    async fn start() -> Result<(Arc<Self>, SocketAddr), Failure> {
        let hook = Arc::<Self>::default();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let serving = hook.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let hook = serving.clone();
                let service = service_fn(move |request| {
                    let hook = hook.clone();
                    async move { Ok::<_, Infallible>(hook.answer(request).await) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
            }
        });
        Ok((hook, address))
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
        self.asked.lock().expect("unbroken").push(review["spec"].clone());
        let status = self.status.lock().expect("unbroken").clone();
        match &status {
            Value::String(word) if word == "hang" => std::future::pending().await,
            Value::String(word) if word == "wait" => {
                while *self.status.lock().expect("unbroken") == status {
                    sleep(Duration::from_millis(10)).await;
                }
                review["status"] = self.status.lock().expect("unbroken").clone();
                Response::new(Full::new(review.to_string().into()))
            }
            Value::String(word) if word == "fail" => {
                Response::builder().status(StatusCode::FORBIDDEN).body(Full::default()).expect("legal")
            }
            Value::String(text) => Response::new(Full::new(text.clone().into())),
            status => {
                review["status"] = status.clone();
                Response::new(Full::new(review.to_string().into()))
            }
        }
    }

    fn says(&self, status: Value) {
        *self.status.lock().expect("unbroken") = status;
    }

    fn count(&self) -> usize {
        self.asked.lock().expect("unbroken").len()
    }
}

fn kubeconfig(dir: &Path, address: SocketAddr) -> Result<String, Failure> {
    let path = dir.join("webhook.conf");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "w",
        "clusters": [{"name": "w", "cluster": {"server": format!("http://{address}/authorize")}}],
        "users": [{"name": "w", "user": {}}],
        "contexts": [{"name": "w", "context": {"cluster": "w", "user": "w"}}],
    });
    std::fs::write(&path, config.to_string())?;
    Ok(path.display().to_string())
}

async fn status(client: &Client, target: &str) -> Result<u16, Failure> {
    Ok(client.whole("GET", target, &[], b"").await?.status)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_decides_what_roles_do_not() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let (hook, address) = Hook::start().await?;
    let flags = [
        "--authorization-mode=RBAC,Webhook".to_owned(),
        "--authorization-webhook-version=v1".to_owned(),
        format!("--authorization-webhook-config-file={}", kubeconfig(dir.path(), address)?),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = start(dir.path(), &site, listener, &flags).await?;
    let (admin, jane) = (site.client(listener), site.client_of(listener, "janetoken"));
    // Who is allowed without it is not asked about.
    assert_eq!((status(&admin, PODS).await?, hook.count()), (200, 0));
    hook.says(json!({"allowed": true}));
    assert_eq!(status(&jane, &format!("{PODS}?labelSelector=a%3Db")).await?, 200);
    let asked_about = hook.asked.lock().expect("unbroken")[0].clone();
    let wanted = json!({
        "user": "jane", "uid": "2", "groups": ["dev", "ops", "system:authenticated"],
        "resourceAttributes": {
            "namespace": "default", "verb": "list", "version": "v1", "resource": "pods",
            "labelSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]},
        },
    });
    assert_eq!(asked_about, wanted);
    // An answer counts for its time.
    assert_eq!((status(&jane, &format!("{PODS}?labelSelector=a%3Db")).await?, hook.count()), (200, 1));
    // Its no has a reason. A server that fails says neither yes nor no.
    hook.says(json!({"allowed": false, "reason": "the moon is full"}));
    let refused = asked(&jane, ("GET", "/api/v1/namespaces/default/secrets"), None, 403).await?;
    let text = r#"secrets is forbidden: User "jane" cannot list resource "secrets" in API group "" in the namespace "default""#;
    assert_eq!(refused["message"], format!("{text}: the moon is full"));
    for (count, word) in ["fail", "<html>", r#"{"kind":"Pod"}"#].into_iter().enumerate() {
        hook.says(json!(word));
        let path = format!("/api/v1/namespaces/n{count}/pods");
        let failed = jane.whole("GET", &path, &[], b"").await?;
        let text = String::from_utf8_lossy(&failed.body).into_owned();
        assert!(failed.status == 500 && text.starts_with(&format!("Internal Server Error: \"{path}\": ")), "{word}: {text}");
        let review = json!({"spec": {"nonResourceAttributes": {"path": format!("/{count}"), "verb": "get"}}});
        let review = asked(&jane, ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), Some(&review), 201).await?;
        assert!(review["status"]["allowed"] == false && review["status"]["evaluationError"].is_string(), "{word}: {review}");
        let as_bob = [("Impersonate-User".to_owned(), format!("bob{count}"))];
        assert_eq!(jane.whole("GET", &path, &as_bob, b"").await?.status, 403, "as kube-apiserver answers");
    }
    hook.says(json!({"allowed": true, "denied": true}));
    assert_eq!(status(&jane, "/api/v1/namespaces/n9/pods").await?, 500);
    // It is asked about writes of roles too, by the right to escalate.
    hook.says(json!({"allowed": true}));
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    asked(&jane, ("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"), Some(&role), 201).await?;
    let verbs: Vec<Value> = hook.asked.lock().expect("unbroken").iter().map(|spec| spec["resourceAttributes"]["verb"].clone()).collect();
    assert!(verbs.contains(&json!("escalate")), "{verbs:?}");
    // And about who acts as somebody else.
    let as_bob = [("Impersonate-User".to_owned(), "bob".to_owned())];
    assert_eq!(jane.whole("GET", PODS, &as_bob, b"").await?.status, 200);
    // While somebody waits for it, others are served.
    let before = hook.count();
    hook.says(json!("wait"));
    let waiting = tokio::spawn({
        let jane = site.client_of(listener, "janetoken");
        async move { jane.whole("GET", "/api/v1/namespaces/n7/pods", &[], b"").await.map(|answer| answer.status) }
    });
    let began = Instant::now();
    while hook.count() == before {
        assert!(began.elapsed() < PATIENCE, "it is asked");
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(status(&admin, PODS).await?, 200);
    assert!(!waiting.is_finished(), "it waits for the webhook");
    hook.says(json!({"allowed": true}));
    assert_eq!(timeout(PATIENCE, waiting).await???, 200);
    hook.says(json!("hang"));
    assert_eq!(status(&jane, "/api/v1/namespaces/n8/pods?timeout=1s").await?, 504);
    server.kill()?;
    Ok(())
}

/// A JSON patch is large work, which takes turns; as many patches of a Role wait for the webhook as there could be turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_webhook_has_no_turn() -> Outcome {
    let waiting = std::thread::available_parallelism()?.get().max(2);
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let (hook, address) = Hook::start().await?;
    let flags = [
        "--authorization-mode=RBAC,Webhook".to_owned(),
        "--authorization-webhook-version=v1".to_owned(),
        format!("--authorization-webhook-config-file={}", kubeconfig(dir.path(), address)?),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = start(dir.path(), &site, listener, &flags).await?;
    let (admin, jane) = (site.client(listener), site.client_of(listener, "janetoken"));
    hook.says(json!({"allowed": false}));
    let (rbac, group) = ("/apis/rbac.authorization.k8s.io/v1/namespaces/default", "rbac.authorization.k8s.io");
    let rules = json!([{"apiGroups": [group], "resources": ["roles"], "verbs": ["get", "patch"]}]);
    asked(&admin, ("POST", &format!("{rbac}/roles")), Some(&json!({"metadata": {"name": "patcher"}, "rules": rules})), 201).await?;
    let binding = json!({
        "metadata": {"name": "patcher"}, "roleRef": {"apiGroup": group, "kind": "Role", "name": "patcher"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "jane"}],
    });
    asked(&admin, ("POST", &format!("{rbac}/rolebindings")), Some(&binding), 201).await?;
    let role = format!("{rbac}/roles/r");
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    asked(&admin, ("POST", &format!("{rbac}/roles")), Some(&json!({"metadata": {"name": "r"}, "rules": rules})), 201).await?;
    let began = Instant::now();
    while status(&jane, &role).await? != 200 {
        assert!(began.elapsed() < PATIENCE, "the binding counts");
        sleep(Duration::from_millis(20)).await;
    }
    hook.says(json!("wait"));
    let before = hook.count();
    let patches: Vec<_> = (0..waiting)
        .map(|nth| {
            let (jane, role) = (jane.clone(), role.clone());
            let patch = json!([{"op": "add", "path": "/rules/0/verbs/-", "value": format!("v{nth}")}]);
            tokio::spawn(async move { asked(&jane, ("PATCH", &role), Some(&patch), 200).await })
        })
        .collect();
    while hook.count() == before {
        assert!(began.elapsed() < PATIENCE, "it is asked");
        sleep(Duration::from_millis(20)).await;
    }
    // The others ask the same and wait for the same answer.
    sleep(Duration::from_millis(500)).await;
    let map = "/api/v1/namespaces/default/configmaps";
    asked(&admin, ("POST", map), Some(&json!({"metadata": {"name": "m"}})), 201).await?;
    let patch = json!([{"op": "add", "path": "/data", "value": {"a": "b"}}]);
    let patched = timeout(PATIENCE, asked(&admin, ("PATCH", &format!("{map}/m")), Some(&patch), 200)).await;
    assert_eq!(patched.map_err(|_| "others wait too")??["data"], json!({"a": "b"}));
    assert!(patches.iter().all(|patch| !patch.is_finished()));
    hook.says(json!({"allowed": true}));
    for patch in patches {
        timeout(PATIENCE, patch).await???;
    }
    let mut verbs: Vec<Value> =
        asked(&admin, ("GET", &role), None, 200).await?["rules"][0]["verbs"].as_array().cloned().unwrap_or_default();
    verbs.sort_by_key(Value::to_string);
    let mut expected: Vec<Value> = (0..waiting).map(|nth| json!(format!("v{nth}"))).chain([json!("get")]).collect();
    expected.sort_by_key(Value::to_string);
    assert_eq!(verbs, expected, "each once");
    server.kill()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_of_authorizers_is_read_again() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let (hook, address) = Hook::start().await?;
    hook.says(json!({"allowed": false}));
    let file = dir.path().join("authorizers.yaml");
    let rbac = json!({"type": "RBAC", "name": "rbac"});
    let webhook = json!({"type": "Webhook", "name": "w", "webhook": {
        "timeout": "30s", "subjectAccessReviewVersion": "v1", "failurePolicy": "Deny",
        "cacheAuthorizedRequests": false, "cacheUnauthorizedRequests": false,
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": kubeconfig(dir.path(), address)?},
    }});
    let write = |authorizers: Value| {
        let all = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration", "authorizers": authorizers});
        std::fs::write(&file, all.to_string())
    };
    write(json!([rbac, webhook]))?;
    let server = start(dir.path(), &site, listener, &[&format!("--authorization-config={}", file.display())]).await?;
    let jane = site.client_of(listener, "janetoken");
    assert_eq!((status(&jane, PODS).await?, status(&jane, PODS).await?, hook.count()), (403, 403, 2), "nothing is remembered");
    hook.says(json!({"allowed": true}));
    let mut watch = jane.watch(&format!("{PODS}?watch=1")).await?.map_err(|answer| format!("no watch: {}", answer.status))?;
    // What is wrong changes nothing.
    let before = hook.count();
    std::fs::write(&file, "kind: Pod")?;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(status(&jane, PODS).await?, 200);
    assert!(hook.count() > before, "the webhook is still asked");
    // Without the webhook nobody allows it, and the watch that lived on it ends.
    write(json!([rbac]))?;
    let began = Instant::now();
    while status(&jane, PODS).await? != 403 {
        if began.elapsed() > PATIENCE {
            return Err(Failure::from("the file is not read again"));
        }
        sleep(Duration::from_millis(50)).await;
    }
    let last = timeout(PATIENCE, watch.next_line()).await??.ok_or("no ERROR")?;
    assert_eq!(serde_json::from_slice::<Value>(&last)?["object"]["code"], json!(403));
    server.kill()?;
    Ok(())
}
