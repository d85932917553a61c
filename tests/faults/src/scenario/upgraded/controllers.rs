//! kube-controller-manager, whose clients all speak to the replica: a Deployment that is scaled must come to have as many Pods, whatever minor is behind the
//! replica.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{http::Listener, options::Options, process::Process};

/// What works; not what writes the objects of the writers.
const CONTROLLERS: &str =
    "deployment-controller,replicaset-controller,garbage-collector-controller,endpointslice-controller,serviceaccount-controller";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods?labelSelector=app%3Dscaled";
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(30);
/// How long the Pods may take: client-go waits up to 30 s after an API server was away.
const PATIENCE: Duration = Duration::from_secs(90);

/// It runs, and the Deployment is there.
pub(super) struct Controllers {
    process: Process,
    replicas: usize,
    /// How long the Pods took at most.
    pub(super) slowest: Duration,
}

impl Controllers {
    /// Starts it, if there is one.
    pub(super) async fn start(options: &Options, dir: &Path, replica: &Listener) -> Result<Option<Self>> {
        let Some(program) = &options.kube_controller_manager else { return Ok(None) };
        let labels = json!({"app": "scaled"});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "scaled"},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}});
        ask(replica, "POST", DEPLOYMENTS, ("application/json", &deployment)).await?;
        let cluster = json!({"server": format!("https://{}", replica.authority()), "certificate-authority": "listener.crt"});
        let user = json!({"token": replica.token().context("the replica knows tokens")?});
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a", "clusters": [{"name": "a", "cluster": cluster}],
            "users": [{"name": "a", "user": user}], "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]});
        let file = dir.join("controllers.kubeconfig");
        std::fs::write(&file, kubeconfig.to_string())?;
        let args = [
            format!("--kubeconfig={}", file.display()),
            format!("--controllers={CONTROLLERS}"),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let process = Process::start(program, args, &dir.join("controllers.log"))?;
        Ok(Some(Self { process, replicas: 0, slowest: Duration::ZERO }))
    }

    /// Scales the Deployment past the replica, and waits until the replica lists as many Pods.
    pub(super) async fn scale(&mut self, upstream: &Listener, replica: &Listener) -> Result<()> {
        self.replicas = if self.replicas == 1 { 4 } else { 1 };
        let (began, patch) = (Instant::now(), json!({"spec": {"replicas": self.replicas}}));
        ask(upstream, "PATCH", &format!("{DEPLOYMENTS}/scaled"), ("application/merge-patch+json", &patch)).await?;
        loop {
            self.process.alive()?;
            let pods = match replica.get(PODS, ANSWER).await {
                Ok((200, pods)) => serde_json::from_slice::<Value>(&pods)?["items"].as_array().map(Vec::len),
                _ => None,
            };
            if pods == Some(self.replicas) {
                break;
            }
            ensure!(began.elapsed() < PATIENCE, "the replica lists {pods:?} Pods of a Deployment that wants {}", self.replicas);
            sleep(Duration::from_millis(100)).await;
        }
        self.slowest = self.slowest.max(began.elapsed());
        Ok(())
    }
}

async fn ask(listener: &Listener, method: &str, target: &str, (media, body): (&str, &Value)) -> Result<()> {
    let (status, answer) = listener.whole(method, target, Some((media, Bytes::from(body.to_string()))), ANSWER).await?;
    ensure!(matches!(status, 200 | 201), "{method} {target}: {status} {}", String::from_utf8_lossy(&answer));
    Ok(())
}
