//! `kubectl auth`, `create token` and `--as` on ours and on kube-apiserver, by several people who both know: the same outputs and exit codes.

use std::{
    env, fs,
    net::SocketAddr,
    process::{Command, Stdio},
};

use serde_json::json;

use super::{Outcome, floor::Floor, floor::stand, peers::TOKEN, say};
use crate::alone::asked;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const NS: &str = "auth-case";

/// What people ask; `ROLES` is a file with roles and bindings.
const COMMANDS: [&[&str]; 42] = [
    &["auth", "can-i", "get", "pods"],
    &["auth", "can-i", "get", "pods", "-n", NS],
    &["auth", "can-i", "list", "pods", "-A"],
    &["auth", "can-i", "create", "deployments.apps", "-n", NS],
    &["auth", "can-i", "create", "deployments/scale", "-n", NS],
    &["auth", "can-i", "get", "pods", "--subresource=log", "-n", NS],
    &["auth", "can-i", "get", "pods/p1", "-n", NS],
    &["auth", "can-i", "get", "configmaps/special", "-n", NS],
    &["auth", "can-i", "get", "configmaps/other", "-n", NS],
    &["auth", "can-i", "*", "*"],
    &["auth", "can-i", "*", "*", "-n", NS],
    &["auth", "can-i", "get", "/logs/"],
    &["auth", "can-i", "get", "/healthz"],
    &["auth", "can-i", "post", "/metrics"],
    &["auth", "can-i", "get", "nothings.example.com"],
    &["auth", "can-i", "get", "nothings"],
    &["auth", "can-i", "impersonate", "users"],
    &["auth", "can-i", "get", "nodes"],
    &["auth", "can-i", "get", "nodes", "-n", NS],
    &["auth", "can-i", "-q", "delete", "secrets", "-n", NS],
    &["auth", "can-i", "--list"],
    &["auth", "can-i", "--list", "-n", NS],
    &["auth", "can-i", "--list", "-n", NS, "--no-headers"],
    &["auth", "can-i", "--list", "--as=viewer", "-n", NS],
    &["auth", "can-i", "get", "pods", "-n", NS, "--as=viewer"],
    &["auth", "can-i", "get", "pods", "-n", NS, "--as=viewer", "--as-group=viewers"],
    &["auth", "can-i", "get", "pods", "--as=system:serviceaccount:auth-case:reader", "-n", NS],
    &["auth", "can-i"],
    &["auth", "whoami"],
    &["auth", "whoami", "-o", "yaml"],
    &["auth", "whoami", "-o", "json"],
    &["auth", "whoami", "--as=jane", "--as-group=a", "--as-group=b", "--as-uid=7"],
    &["auth", "whoami", "--as=jane", "-o", "jsonpath={.status.userInfo.username}"],
    &["get", "pods", "-n", NS],
    &["get", "pods", "-n", NS, "--as=nobody"],
    &["get", "secrets", "-n", NS, "--as=viewer", "--as-group=viewers"],
    &["auth", "reconcile", "-f", "ROLES", "--dry-run=client"],
    &["auth", "reconcile", "-f", "ROLES", "--dry-run=server"],
    &["create", "token", "reader", "-n", NS, "--duration=10s"],
    &["create", "token", "none", "-n", NS],
    &["create", "token", "reader", "-n", NS, "--bound-object-kind=Pod", "--bound-object-name=none"],
    &["create", "token", "reader", "-n", NS, "--bound-object-kind=Thing", "--bound-object-name=none"],
];

const ROLES: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: lister, namespace: auth-case}
rules:
- {apiGroups: [''], resources: [pods, pods/log], verbs: [get, list]}
- {apiGroups: [''], resources: [configmaps], resourceNames: [special], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: lister, namespace: auth-case}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lister}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: viewers}
- {kind: ServiceAccount, name: reader, namespace: auth-case}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: auth-case-scaler}
rules:
- {apiGroups: [apps], resources: [deployments/scale], verbs: ['*']}
- {nonResourceURLs: [/logs/, '/metrics*'], verbs: [get]}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd, kube-apiserver and kubectl: WATCHCACHE_TEST_PEERS"]
async fn kubectl_auth() -> Outcome {
    let floor = stand().await?;
    let (_running, ours) = floor.secured("auth").await?;
    let plainly = |error: Box<dyn std::error::Error + Send + Sync>| error.to_string();
    let theirs = floor.theirs();
    asked(&theirs, ("POST", "/api/v1/namespaces"), Some(&json!({"metadata": {"name": NS}})), 201).await.map_err(plainly)?;
    let account = json!({"metadata": {"name": "reader"}});
    asked(&theirs, ("POST", &format!("/api/v1/namespaces/{NS}/serviceaccounts")), Some(&account), 201).await.map_err(plainly)?;
    let request = json!({"spec": {"expirationSeconds": 7200}});
    let token = asked(&theirs, ("POST", &format!("/api/v1/namespaces/{NS}/serviceaccounts/reader/token")), Some(&request), 201).await;
    let token = token.map_err(plainly)?.pointer("/status/token").and_then(|token| token.as_str()).ok_or("no token")?.to_owned();
    let roles = floor.site.path().join("roles.yaml");
    fs::write(&roles, ROLES)?;
    let side = [("ours", ours), ("theirs", floor.theirs_at)];
    // Who may not, then who may: reconciled by ours, seen by both.
    let people = [("admin", TOKEN), ("viewer", "viewtoken"), ("account", &token), ("node", "nodetoken"), ("nobody", "")];
    let (mut failures, mut compared) = (Vec::new(), 0);
    for turn in ["before", "after"] {
        for (who, token) in people {
            for command in COMMANDS {
                let arguments: Vec<&str> = command.iter().map(|word| if *word == "ROLES" { "roles.yaml" } else { word }).collect();
                let [left, right] = [run(&floor, side[0], who, token, &arguments)?, run(&floor, side[1], who, token, &arguments)?];
                compared += 1;
                if left != right {
                    failures.push(format!("{turn}, {who}: kubectl {}\n--- ours\n{left}\n--- theirs\n{right}", arguments.join(" ")));
                }
            }
        }
        let reconciled = run(&floor, side[0], "admin", TOKEN, &["auth", "reconcile", "-f", "roles.yaml"])?;
        if !reconciled.starts_with("0 ") {
            failures.push(format!("{turn}: {reconciled}"));
        }
        super::objects::served(&theirs, &format!("{RBAC}/clusterroles/auth-case-scaler")).await?;
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        // One rule more than the file has: taken away only when asked for.
        let extra = json!({"metadata": {"name": "auth-case-scaler"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/extra"]}]});
        let flags = ["auth", "reconcile", "-f", "roles.yaml", "--remove-extra-permissions", "--remove-extra-subjects"];
        let mut outputs = Vec::new();
        for side in side {
            asked(&theirs, ("PUT", &format!("{RBAC}/clusterroles/auth-case-scaler")), Some(&extra), 200).await.map_err(plainly)?;
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            outputs.push(run(&floor, side, "admin", TOKEN, &flags)?);
        }
        if outputs[0] != outputs[1] {
            failures.push(format!("{turn}: reconcile\n--- ours\n{}\n--- theirs\n{}", outputs[0], outputs[1]));
        }
    }
    say(&format!("live kubectl auth: {compared} commands, {} differ", failures.len()));
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n\n").into()) }
}

/// Exit code, output and error output, without what no two runs have in common.
fn run(
    floor: &Floor,
    (side, at): (&str, SocketAddr),
    who: &str,
    token: &str,
    arguments: &[&str],
) -> Result<String, Box<dyn std::error::Error>> {
    let home = floor.site.path().join(format!("kubectl-auth-{side}-{who}"));
    fs::create_dir_all(&home)?;
    let mut command = Command::new(env::var_os("WATCHCACHE_TEST_KUBECTL").unwrap_or_else(|| "kubectl".into()));
    command.current_dir(floor.site.path()).env("HOME", &home).env("KUBECONFIG", home.join("none")).stdin(Stdio::null());
    command.args(["--server", &format!("https://{at}"), "--certificate-authority", "ca.crt", "--request-timeout=60s"]);
    command.arg("--cache-dir").arg(home.join("cache"));
    // Without credentials kubectl would ask for a name.
    command.args(if token.is_empty() { vec!["--username=", "--password="] } else { vec!["--token", token] });
    let output = command.args(arguments).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&at.to_string(), "SERVER");
    let (mut out, err) = (text(&output.stdout), text(&output.stderr));
    if arguments[..2] == ["create", "token"] && output.status.success() {
        out = format!("a token of {} parts", out.trim().split('.').count());
    }
    // Rules come in the order of kube-apiserver's maps; times of objects that are made to be asked.
    let is_time = |line: &&str| !line.trim_start().trim_start_matches('"').starts_with("creationTimestamp");
    let mut lines: Vec<&str> = out.lines().filter(is_time).collect();
    if arguments.contains(&"--list") {
        lines.sort_unstable();
    }
    // kubectl tells its own clock in lines of its log.
    let mut err: Vec<&str> = err.lines().filter(|line| !line.starts_with(['E', 'I', 'W']) || !line.contains(".go:")).collect();
    // kubectl 1.36.3 panics when somebody without rights reconciles on the client alone; its addresses are its own.
    if let Some(at) = err.iter().position(|line| line.starts_with("panic: ")) {
        err.truncate(at + 1);
    }
    Ok(format!("{} {}\n{}", output.status.code().unwrap_or(-1), lines.join("\n"), err.join("\n")))
}
