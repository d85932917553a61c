//! The processes of a run: etcd, the kube-apiserver that takes the writes, and the two subjects. Starts, waits and ends; measures nothing.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::certs::Certificates;
use crate::cpu::Meter;
use crate::load::{Connection, Protocol, Target, tls};

/// Seconds for a server to become ready. kube-apiserver takes about 20 on two idle cores.
const READY_SECONDS: u64 = 180;

/// Lines of a dead server's log that are shown.
const LOG_LINES: usize = 15;

/// How often, and at which distance, it is checked whether a killed server has ended: 5 s in all. A large heap takes a moment to be freed.
const END_CHECKS: u32 = 500;
const END_CHECK: Duration = Duration::from_millis(10);

/// Ports of a run: etcd's two, the writer's, and one for each subject.
const PORTS: usize = 5;

/// The programs to run, as given on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) etcd: PathBuf,
    pub(crate) kube_apiserver: PathBuf,
    /// Without it the second subject is a kube-apiserver too.
    pub(crate) watchcache: Option<PathBuf>,
    pub(crate) watchcache_args: Vec<String>,
    pub(crate) storage: Storage,
}

/// What every kube-apiserver of a run stores; the flag `--storage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Storage {
    /// JSON, which watchcache keeps as it is.
    Json,
    /// Protobuf, kube-apiserver's default.
    Protobuf,
}

impl Storage {
    /// The value of kube-apiserver's `--storage-media-type`.
    fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

/// One of the two servers that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// kube-apiserver.
    Theirs,
    /// watchcache, or a second kube-apiserver when there is none.
    Ours,
}

impl Side {
    /// In the order in which they take turns.
    pub(crate) const BOTH: [Self; 2] = [Self::Theirs, Self::Ours];
}

/// Everything that processes are started from.
pub(crate) struct Stage {
    programs: Programs,
    certificates: Certificates,
    dir: PathBuf,
    ports: [u16; PORTS],
}

impl Stage {
    /// Prepares certificates in `dir` and takes five free ports, from `base_port` on unless it is 0.
    pub(crate) fn build(programs: Programs, dir: &Path, base_port: u16) -> Result<Self> {
        let ports = free_ports(base_port)?;
        Ok(Self { programs, certificates: Certificates::generate(dir)?, dir: dir.to_owned(), ports })
    }

    /// How a subject is called in the table.
    pub(crate) fn name(&self, side: Side) -> &'static str {
        match (side, &self.programs.watchcache) {
            (Side::Theirs, _) => "kube-apiserver",
            (Side::Ours, Some(_)) => "watchcache",
            (Side::Ours, None) => "kube-apiserver again",
        }
    }

    /// Starts etcd and waits until it listens. It syncs to disk as it does in production: latency is counted from the acknowledged write.
    pub(crate) async fn etcd(&self) -> Result<Peer> {
        let (client, peer) = (self.etcd_url(), format!("http://127.0.0.1:{}", self.ports[1]));
        let mut args = flags(&[
            ("--data-dir", &self.dir.join("etcd").display().to_string()),
            ("--listen-client-urls", &client),
            ("--advertise-client-urls", &client),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--initial-cluster", &format!("default={peer}")),
            ("--quota-backend-bytes", "8589934592"),
        ]);
        args.extend(flags(&[("--watch-progress-notify-interval", "5s"), ("--log-level", "warn")]));
        let mut etcd = Peer::start("etcd", &self.programs.etcd, &args, &self.dir, self.ports[0])?;
        etcd.listens().await?;
        Ok(etcd)
    }

    /// Starts the kube-apiserver that takes all writes, so that no subject pays for one.
    pub(crate) async fn writer(&self) -> Result<Peer> {
        let mut writer = self.kube_apiserver("writer", self.ports[2])?;
        writer.ready(&self.certificates).await?;
        Ok(writer)
    }

    /// Starts a subject and waits until it is ready.
    pub(crate) async fn subject(&self, side: Side) -> Result<Peer> {
        let mut subject = match (side, &self.programs.watchcache) {
            (Side::Theirs, _) => self.kube_apiserver("theirs", self.ports[3])?,
            (Side::Ours, Some(program)) => self.watchcache(program)?,
            (Side::Ours, None) => self.kube_apiserver("ours", self.ports[4])?,
        };
        subject.ready(&self.certificates).await?;
        Ok(subject)
    }

    /// How to reach a server of this stage.
    pub(crate) fn target(&self, peer: &Peer) -> Target {
        Target { address: peer.address, certificates: self.certificates.dir().to_owned() }
    }

    fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    fn watchcache(&self, program: &Path) -> Result<Peer> {
        let port = self.ports[4];
        let mut args = vec!["serve".to_owned()];
        args.extend(flags(&[("--etcd-servers", &self.etcd_url()), ("--insecure-port", "0")]));
        args.extend(self.listener(port));
        args.extend(self.programs.watchcache_args.iter().cloned());
        Peer::start("watchcache", program, &args, &self.dir, port)
    }

    /// Endpoints are not reconciled: three servers on one address would
    /// write over one another's ports every ten seconds.
    fn kube_apiserver(&self, name: &str, port: u16) -> Result<Peer> {
        let certificates = &self.certificates;
        let mut args = self.listener(port);
        args.extend(flags(&[
            ("--etcd-servers", &self.etcd_url()),
            ("--storage-media-type", self.programs.storage.media_type()),
            ("--advertise-address", "127.0.0.1"),
            ("--endpoint-reconciler-type", "none"),
            ("--service-account-key-file", &certificates.path("sa.pub")),
            ("--service-account-signing-key-file", &certificates.path("sa.key")),
            ("--service-account-issuer", "https://kubernetes.default.svc"),
            ("--service-cluster-ip-range", "10.0.0.0/16"),
            ("--authorization-mode", "RBAC"),
            ("--disable-admission-plugins", "ServiceAccount"),
            ("--cert-dir", &self.dir.join(name).display().to_string()),
        ]));
        Peer::start(name, &self.programs.kube_apiserver, &args, &self.dir, port)
    }

    /// The flags that both kinds of server have under the same names.
    fn listener(&self, port: u16) -> Vec<String> {
        let certificates = &self.certificates;
        flags(&[
            ("--bind-address", "127.0.0.1"),
            ("--secure-port", &port.to_string()),
            ("--tls-cert-file", &certificates.path("srv.crt")),
            ("--tls-private-key-file", &certificates.path("srv.key")),
            ("--client-ca-file", &certificates.path("ca.crt")),
        ])
    }
}

/// A running server. Dropping it kills it and waits for its end, also when a run is given up in the middle: its port and folder are then free.
pub(crate) struct Peer {
    name: String,
    address: SocketAddr,
    process: Child,
    log: PathBuf,
    meter: Meter,
}

impl Peer {
    fn start(name: &str, program: &Path, args: &[String], dir: &Path, port: u16) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let process = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let meter = Meter::of(process.id().ok_or_else(|| anyhow!("{name} ended at once"))?)?;
        Ok(Self { name: name.to_owned(), address: (Ipv4Addr::LOCALHOST, port).into(), process, log, meter })
    }

    /// Its CPU clock and memory.
    pub(crate) fn meter(&self) -> Meter {
        self.meter
    }

    /// An error, with the end of its log, when the process has ended.
    pub(crate) fn still_runs(&mut self) -> Result<()> {
        let Some(status) = self.process.try_wait()? else { return Ok(()) };
        bail!("{} ended: {status}\n{}", self.name, self.last_words())
    }

    async fn listens(&mut self) -> Result<()> {
        let address = self.address;
        self.until(async || TcpStream::connect(address).await.map(drop).context("connect")).await
    }

    async fn ready(&mut self, certificates: &Certificates) -> Result<()> {
        let target = Target { address: self.address, certificates: certificates.dir().to_owned() };
        let tls = tls(certificates, Protocol::Http1)?;
        self.until(async || Connection::open(&target, &tls, Protocol::Http1).await?.read("/readyz").await.map(drop)).await
    }

    async fn until(&mut self, attempt: impl AsyncFn() -> Result<()>) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(READY_SECONDS);
        loop {
            self.still_runs()?;
            let Err(error) = attempt().await else { return Ok(()) };
            if Instant::now() > end {
                bail!("{} is not ready after {READY_SECONDS} s: {error:#}\n{}", self.name, self.last_words());
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    fn last_words(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Nothing else runs when servers are dropped, so the thread may sleep. A process that has ended already cannot be killed: fine.
        let _ = self.process.start_kill();
        for _ in 0..END_CHECKS {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(END_CHECK);
        }
    }
}

fn flags(pairs: &[(&str, &str)]) -> Vec<String> {
    pairs.iter().flat_map(|(flag, value)| [(*flag).to_owned(), (*value).to_owned()]).collect()
}

/// Five ports that are free now: consecutive ones from `base`, or the system's choice when it is 0.
fn free_ports(base: u16) -> Result<[u16; PORTS]> {
    let mut held = Vec::with_capacity(PORTS);
    for offset in 0..PORTS {
        let port = if base == 0 { 0 } else { base.checked_add(u16::try_from(offset)?).context("the ports end at 65535")? };
        held.push(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| format!("port {port} is not free"))?);
    }
    let mut ports = [0; PORTS];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_different() {
        let mut ports = free_ports(0).expect("free ports");
        ports.sort_unstable();
        assert!(ports.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_port_in_use_is_refused() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = held.local_addr().expect("it is bound").port();
        assert!(free_ports(port).is_err());
    }
}
