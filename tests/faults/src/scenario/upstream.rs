//! A read replica whose API server falls silent, is cut off, stands still, dies, and comes back with a certificate of another authority: reads and watches go
//! on, what would be forwarded is answered with an error in time, and works again afterwards. The API server is this project's as well: the replica asks it
//! nothing that another one would answer in another way here.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use tokio::time::{Instant, sleep};

use crate::{
    http::Listener,
    options::Options,
    pki::{Authority, Pair},
    process::Process,
    proxy::{Gate, Proxy},
    stage::{Stage, Verdict},
    subject::{Wishes, tls_args},
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
    /// Whom the replica believes at first.
    authority: Authority,
}

impl Upstream<'_> {
    fn start(&self, serving: &Pair) -> Result<Process> {
        let ports = self.options.ports();
        let args = [
            "serve".to_owned(),
            format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd(0)),
            format!("--insecure-port={}", ports.upstream_plain()),
            // Nobody has one of its certificates; without any authenticator it would not listen with TLS.
            format!("--client-ca-file={}", self.authority.certificate().display()),
            // The scenarios decide when history goes away.
            "--etcd-compaction-interval=0".to_owned(),
        ];
        Process::start(&self.options.server, args.into_iter().chain(tls_args(ports.upstream(), serving)), &self.dir.join("upstream.log"))
    }
}

pub(super) async fn broken(options: &Options, dir: &Path) -> Result<Verdict> {
    let ports = options.ports();
    let network = Proxy::listen(ports.upstream_proxy(), ports.upstream()).await?;
    let upstream = Upstream { options, dir, network, authority: Authority::make(dir, "authority").await? };
    let (serving, believed) = (upstream.authority.sign("upstream").await?, dir.join("believed.crt"));
    std::fs::copy(upstream.authority.certificate(), &believed)?;
    let mut process = upstream.start(&serving)?;
    upstream.network.set(Gate::Broken);
    let args = [
        format!("--upstream-server=https://127.0.0.1:{}", ports.upstream_proxy()),
        format!("--upstream-cafile={}", believed.display()),
        format!("--request-timeout={REQUEST_SECONDS}s"),
    ];
    // Before its roles are there it refuses /version to all, and a replica that was refused forwards everything for minutes.
    let opened = async {
        answered(&Listener::plain(ports.upstream_plain()), "/readyz").await?;
        upstream.network.set(Gate::Open);
        Ok(())
    };
    let (mut stage, ()) = tokio::try_join!(Stage::single_with(options, dir, Wishes { args: args.to_vec(), ..Wishes::default() }), opened)?;
    healed(&stage).await?;
    stage.watch().await;
    let writers = stage.write(&stage.workload()).await?;
    sleep(CALM).await;
    for gate in [Gate::Silent, Gate::Broken] {
        upstream.network.set(gate);
        stage.wait_reading(options.cut()).await;
        refused(&stage).await.with_context(|| format!("{gate:?}"))?;
        upstream.network.set(Gate::Open);
        healed(&stage).await.with_context(|| format!("after {gate:?}"))?;
    }
    process.pause()?;
    stage.wait_reading(options.cut()).await;
    refused(&stage).await.context("paused")?;
    process.resume()?;
    healed(&stage).await.context("resumed")?;
    process.kill().await?;
    stage.wait_reading(options.cut()).await;
    refused(&stage).await.context("killed")?;
    process = upstream.start(&serving)?;
    healed(&stage).await.context("started again")?;
    process.kill().await?;
    let other = Authority::make(dir, "other").await?;
    process = upstream.start(&other.sign("upstream-of-other").await?)?;
    stage.wait_reading(options.cut()).await;
    not_believed(&stage).await?;
    std::fs::copy(other.certificate(), &believed)?;
    healed(&stage).await.context("the other authority is believed")?;
    sleep(CALM).await;
    writers.stop().await?;
    process.alive()?;
    stage.verdict(crate::validate::Expiry::Never).await
}

/// What is forwarded gets an answer in time, that upstream does not answer; what it says.
async fn refused(stage: &Stage) -> Result<String> {
    let (status, body) = stage.server.listener.get("/version", ANSWER).await?;
    let text = String::from_utf8_lossy(&body).into_owned();
    ensure!(matches!(status, 502..=504), "what is forwarded is answered {status}: {text}");
    Ok(text)
}

/// What is forwarded is refused for upstream's certificate, once upstream is there to show it.
async fn not_believed(stage: &Stage) -> Result<()> {
    let began = Instant::now();
    loop {
        let text = refused(stage).await.context("another certificate")?;
        if text.contains("failed to verify certificate") {
            return Ok(());
        }
        ensure!(began.elapsed() < HEALED, "the certificate of another authority is not told within {HEALED:?}: {text}");
        sleep(Duration::from_millis(200)).await;
    }
}

/// What is forwarded is answered by upstream again.
async fn healed(stage: &Stage) -> Result<()> {
    answered(&stage.server.listener, "/version").await.context("nothing is forwarded")
}

/// Waits until a path is answered 200.
async fn answered(listener: &Listener, path: &str) -> Result<()> {
    let began = Instant::now();
    loop {
        match listener.get(path, ANSWER).await {
            Ok((200, _)) => return Ok(()),
            other if began.elapsed() > HEALED => {
                anyhow::bail!("{path} is not answered within {HEALED:?}: {:?}", other.map(|(status, _)| status))
            }
            _ => sleep(Duration::from_millis(200)).await,
        }
    }
}
