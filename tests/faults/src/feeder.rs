//! A kube-apiserver that stands between etcd and the server under test, which is fed by it and never speaks to etcd.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    http::Listener,
    options::Options,
    pki::Pair,
    process::{Cost, Process},
    subject::{TOKEN, listener_signed_by, peer_args},
};

/// How long one may take to start: 10 s on an idle core, several times that on a busy one.
const PATIENCE: Duration = Duration::from_secs(240);

/// What all feeders of a stage have in common: keys, users, the certificate.
#[derive(Clone, Debug)]
pub(crate) struct Kitchen {
    program: PathBuf,
    dir: PathBuf,
    serving: Pair,
    flags: Vec<String>,
}

/// A kube-apiserver.
#[derive(Debug)]
pub(crate) struct Feeder {
    process: Option<Process>,
    program: PathBuf,
    args: Vec<String>,
    log: PathBuf,
    /// How an administrator reaches it, past every network that a scenario breaks.
    pub(crate) listener: Arc<Listener>,
}

impl Kitchen {
    /// Makes what they need.
    pub(crate) async fn prepare(options: &Options, dir: &Path) -> Result<Self> {
        let dir = dir.join("feeder");
        std::fs::create_dir_all(&dir)?;
        let serving = Pair::of_its_own(&dir, "serving").await?;
        let mut flags = peer_args(&dir).await?;
        flags.push(format!("--tls-cert-file={}", serving.certificate.display()));
        flags.push(format!("--tls-private-key-file={}", serving.key.display()));
        Ok(Self { program: options.kube_apiserver.clone(), dir, serving, flags })
    }

    /// The same with these flags in the place of those of the same name, and besides.
    #[must_use]
    pub(crate) fn with(mut self, flags: Vec<String>) -> Self {
        let name = |flag: &String| flag.split('=').next().map(str::to_owned);
        self.flags.retain(|own| flags.iter().all(|flag| name(flag) != name(own)));
        self.flags.extend(flags);
        self
    }

    /// Starts one on etcd's members at these ports, and waits until it is ready.
    pub(crate) async fn start(&self, etcd: &[u16], port: u16) -> Result<Feeder> {
        let members: Vec<String> = etcd.iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
        let own = [format!("--etcd-servers={}", members.join(",")), format!("--secure-port={port}")];
        let listener = Arc::new(listener_signed_by(port, &self.serving.certificate)?);
        let (program, log) = (self.program.clone(), self.dir.join(format!("{port}.log")));
        let mut feeder = Feeder { process: None, program, args: own.into_iter().chain(self.flags.clone()).collect(), log, listener };
        feeder.start().await?;
        Ok(feeder)
    }

    /// What has the server under test be fed by whoever is at this port.
    pub(crate) fn feeds(&self, port: u16) -> Result<Vec<String>> {
        fed_by(&self.dir, port, &self.serving.certificate)
    }
}

/// What has the server under test be fed by whoever is at this port, with a certificate signed so.
pub(crate) fn fed_by(dir: &Path, port: u16, authority: &Path) -> Result<Vec<String>> {
    let file = dir.join("upstream.kubeconfig");
    let cluster = json!({"server": format!("https://127.0.0.1:{port}"), "certificate-authority": authority});
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a", "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "a", "user": {"token": TOKEN}}], "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]});
    std::fs::write(&file, kubeconfig.to_string())?;
    Ok(vec!["--source=upstream".to_owned(), format!("--upstream-kubeconfig={}", file.display())])
}

impl Feeder {
    /// Starts it after it has ended, with the same arguments, and waits until it is ready.
    pub(crate) async fn start(&mut self) -> Result<()> {
        let process = self.process.insert(Process::start(&self.program, &self.args, &self.log)?);
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            process.alive()?;
            if self.listener.get("/readyz", Duration::from_secs(2)).await.is_ok_and(|(status, _)| status == 200) {
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
        bail!("a kube-apiserver was not ready within {PATIENCE:?}")
    }

    /// SIGKILL.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.process.take().context("it is running")?.kill().await
    }

    /// SIGSTOP: it does nothing, and its connections stay as they are.
    pub(crate) fn pause(&self) -> Result<()> {
        self.running()?.pause()
    }

    /// SIGCONT, after a pause.
    pub(crate) fn resume(&self) -> Result<()> {
        self.running()?.resume()
    }

    /// Its memory and processor time.
    pub(crate) fn cost(&self) -> Result<Cost> {
        self.running()?.cost()
    }

    fn running(&self) -> Result<&Process> {
        self.process.as_ref().context("it is running")
    }
}
