//! A Deployment as people work with it: scaled, given images, rolled out, explained. No controller runs, so its status is written by hand.

use super::{Outcome, Session, same};

const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: 'nginx:1'}]}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn scaled_and_patched() -> Outcome {
    let session = Session::open().await?;
    session.says_given("create -f -", WEB, "deployment.apps/web created")?;
    session.has("deploy/web", "{.metadata.generation}{.spec.replicas}", "12")?;
    session.says("scale deploy/web --replicas=5", "deployment.apps/web scaled")?;
    session.has("deploy/web", "{.metadata.generation}{.spec.replicas}", "25")?;
    session.refused("scale deploy/web --replicas=6 --current-replicas=4", "", "error: Expected replicas to be 4, was 5")?;
    session.says("label deploy/web tier=front", "deployment.apps/web labeled")?;
    session.has("deploy/web", "{.metadata.generation}", "2")?;
    let second = r#"{"spec":{"template":{"spec":{"containers":[{"name":"d","image":"busybox"}]}}}}"#;
    session.says(&format!("patch deploy web -p {second}"), "deployment.apps/web patched")?;
    // A strategic merge keeps the container of another name; a JSON merge would not.
    session.has("deploy/web", "{.spec.template.spec.containers[*].name}", "d c")?;
    session.says("set image deploy/web c=nginx:2", "deployment.apps/web image updated")?;
    session.has("deploy/web", r#"{.spec.template.spec.containers[?(@.name=="c")].image}"#, "nginx:2")?;
    session.edits("edit deploy web", "s/busybox/toybox/", "deployment.apps/web edited")?;
    session.has("deploy/web", r#"{.spec.template.spec.containers[?(@.name=="d")].image}"#, "toybox")?;
    session.says("rollout restart deploy/web", "deployment.apps/web restarted")?;
    session.has("deploy/web", "{.metadata.generation}", "6")?;
    session.says("rollout pause deploy/web", "deployment.apps/web paused")?;
    session.says("rollout resume deploy/web", "deployment.apps/web resumed")?;
    session.says_given("replace -f -", WEB, "deployment.apps/web replaced")?;
    session.has("deploy/web", "{.spec.template.spec.containers[*].image}{.spec.replicas}", "nginx:12")?;
    session.deletes("delete deploy web", r#"deployment.apps "web" deleted"#)?;
    session.says("get deploy -o name", "")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn rolled_out() -> Outcome {
    let session = Session::open().await?;
    session.says_given("apply -f -", WEB, "deployment.apps/web created")?;
    let mut waiting = session.rows("rollout status deploy/web --timeout=120s")?;
    waiting.wait_for(1)?;
    let status = r#"{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2}}"#;
    session.says(&format!("patch deploy web --subresource=status --type=merge -p {status}"), "deployment.apps/web patched")?;
    let last = waiting.wait_for(2)?.last().cloned().unwrap_or_default();
    same("rollout status", &last, r#"deployment "web" successfully rolled out"#)?;
    session.has("deploy/web", "{.metadata.generation}{.status.readyReplicas}", "12")?;
    session.says("wait --for=jsonpath={.status.readyReplicas}=2 deploy/web --timeout=120s", "deployment.apps/web condition met")?;
    // What is sent to the main resource leaves the status alone, and the other way round.
    session.ok(r#"patch deploy web --type=merge -p {"spec":{"replicas":3},"status":{"readyReplicas":9}}"#)?;
    session.has("deploy/web", "{.spec.replicas}{.status.readyReplicas}", "32")?;
    session.ok(r#"patch deploy web --subresource=status --type=merge -p {"spec":{"replicas":7},"status":{"readyReplicas":1,"availableReplicas":1}}"#)?;
    session.has("deploy/web", "{.spec.replicas}{.status.readyReplicas}", "31")?;
    session.says_given("apply -f -", WEB, "deployment.apps/web configured")?;
    session.says_given("apply -f -", WEB, "deployment.apps/web unchanged")?;
    session.has("deploy/web", "{.spec.replicas}{.status.readyReplicas}", "21")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn explained() -> Outcome {
    let session = Session::open().await?;
    let text = session.ok("explain deployment.spec.template.spec.containers.image")?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).take(4).collect();
    same("explain", &lines.join("|"), "GROUP:      apps|KIND:       Deployment|VERSION:    v1|FIELD: image <string>")?;
    let unknown = r#"error: field "nothing" does not exist"#;
    session.refused("explain deployment.spec.nothing", "", unknown)
}
