//! A read replica whose API server falls silent, is cut off, and dies: reads and watches go on, what would be handed on is answered with an error in time, and works again afterwards. The API server is
//! this project's as well: the replica asks it nothing that another one would answer in another way here.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use tokio::time::{Instant, sleep};

use crate::{
    options::Options,
    process::Process,
    proxy::{Gate, Proxy},
    stage::{Stage, Verdict},
    subject::Wishes,
};

/// Calm before and after a fault.
const CALM: Duration = Duration::from_secs(3);
/// The replica's `--request-timeout`, and what an answer may take: two seconds more are upstream's, and the machine is slow.
const REQUEST_SECONDS: u64 = 3;
const ANSWER: Duration = Duration::from_secs(REQUEST_SECONDS + 7);
/// How long the replica may take to notice that upstream is there: it looks every five seconds.
const HEALED: Duration = Duration::from_secs(60);

/// The API server and the network in front of it.
struct Upstream<'a> {
    options: &'a Options,
    dir: &'a Path,
    network: Proxy,
}

impl Upstream<'_> {
    fn start(&self) -> Result<Process> {
        let ports = self.options.ports();
        let args = [
            "serve".to_owned(),
            format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd(0)),
            format!("--insecure-port={}", ports.upstream()),
            // The scenarios decide when history goes away.
            "--etcd-compaction-interval=0".to_owned(),
        ];
        Process::start(&self.options.server, args, &self.dir.join("upstream.log"))
    }
}

pub(super) async fn broken(options: &Options, dir: &Path) -> Result<Verdict> {
    let ports = options.ports();
    let upstream = Upstream { options, dir, network: Proxy::listen(ports.upstream_proxy(), ports.upstream()).await? };
    let mut process = upstream.start()?;
    let args = [format!("--upstream-server=http://127.0.0.1:{}", ports.upstream_proxy()), format!("--request-timeout={REQUEST_SECONDS}s")];
    let mut stage = Stage::single_with(options, dir, Wishes { args: args.to_vec(), ..Wishes::default() }).await?;
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    sleep(CALM).await;
    healed(&stage).await?;
    for gate in [Gate::Silent, Gate::Broken] {
        upstream.network.set(gate);
        stage.wait_reading(options.cut()).await;
        refused(&stage).await.with_context(|| format!("{gate:?}"))?;
        upstream.network.set(Gate::Open);
        healed(&stage).await.with_context(|| format!("after {gate:?}"))?;
    }
    process.kill().await?;
    stage.wait_reading(options.cut()).await;
    refused(&stage).await.context("killed")?;
    process = upstream.start()?;
    healed(&stage).await.context("started again")?;
    sleep(CALM).await;
    writers.stop().await?;
    process.alive()?;
    stage.verdict(crate::validate::Expiry::Never).await
}

/// What is handed on gets an answer in time, that upstream does not answer.
async fn refused(stage: &Stage) -> Result<()> {
    let (status, body) = stage.server.listener.get("/version", ANSWER).await?;
    ensure!(matches!(status, 503 | 504), "what is handed on is answered {status}: {}", String::from_utf8_lossy(&body));
    Ok(())
}

/// What is handed on is answered by upstream again.
async fn healed(stage: &Stage) -> Result<()> {
    let began = Instant::now();
    loop {
        match stage.server.listener.get("/version", ANSWER).await {
            Ok((200, _)) => return Ok(()),
            other if began.elapsed() > HEALED => {
                anyhow::bail!("nothing is handed on within {HEALED:?}: {:?}", other.map(|(status, _)| status))
            }
            _ => sleep(Duration::from_millis(200)).await,
        }
    }
}
