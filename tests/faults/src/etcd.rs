//! etcd as a patient: one member or three, started, killed, restored from a copy, cut off from its peers.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use proto::{
    RangeRequest, WatchCreateRequest,
    event::EventType,
    testing::{Client, Range, get, watch as watching},
};
use tokio::sync::watch;
use tonic::transport::Endpoint;

use crate::{
    object::Resource,
    options::Ports,
    process::{Cost, Process},
    proxy::{Gate, Proxy},
};

/// How long one call of the harness to etcd may take until the next endpoint is asked.
const CALL: Duration = Duration::from_secs(3);
/// How long a healthy etcd may take for anything on a busy machine: to start, to answer, to replay what was written.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client for one endpoint; it connects when it is used and reconnects by itself. For calls that are made again elsewhere when they fail.
pub(crate) fn client(port: u16) -> Result<Client> {
    within(port, CALL)
}

/// The same for calls whose failure fails the scenario.
pub(crate) fn patient(port: u16) -> Result<Client> {
    within(port, PATIENCE)
}

fn within(port: u16, time: Duration) -> Result<Client> {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?;
    Ok(Client::over(&endpoint.timeout(time).connect_timeout(time)))
}

/// One etcd of a single member, or a `watchcache store`.
#[derive(Debug)]
pub(crate) struct Etcd {
    binary: PathBuf,
    is_store: bool,
    dir: PathBuf,
    port: u16,
    extra: Vec<String>,
    process: Option<Process>,
}

impl Etcd {
    /// Starts an empty one in `dir`, and waits until it answers.
    pub(crate) async fn start(binary: &Path, dir: &Path, ports: &Ports, extra: &[&str]) -> Result<Self> {
        let extra = extra.iter().map(|s| (*s).to_owned()).collect();
        let mut etcd = Self { binary: binary.to_owned(), is_store: false, dir: dir.to_owned(), port: ports.etcd(0), extra, process: None };
        etcd.restart(ports).await?;
        Ok(etcd)
    }

    /// Starts an empty `watchcache store`.
    pub(crate) async fn start_store(binary: &Path, dir: &Path, ports: &Ports) -> Result<Self> {
        let (port, extra) = (ports.etcd(0), Vec::new());
        let mut store = Self { binary: binary.to_owned(), is_store: true, dir: dir.to_owned(), port, extra, process: None };
        store.restart(ports).await?;
        Ok(store)
    }

    /// Starts it again on the data it has.
    pub(crate) async fn restart(&mut self, ports: &Ports) -> Result<()> {
        let (port, peer) = (self.port, ports.peer(0));
        let first = self.is_store.then(|| "store".to_owned());
        let args = [
            "--data-dir".to_owned(),
            self.data().display().to_string(),
            format!("--listen-client-urls=http://127.0.0.1:{port}"),
            "--watch-progress-notify-interval=5s".to_owned(),
        ];
        let member = [
            format!("--advertise-client-urls=http://127.0.0.1:{port}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-cluster=default=http://127.0.0.1:{peer}"),
        ];
        let member = member.iter().filter(|_| !self.is_store);
        let args = first.iter().chain(&args).chain(member).chain(&self.extra);
        self.process = Some(Process::start(&self.binary, args, &self.dir.join("etcd.log"))?);
        answers(self.process.as_mut().expect("just started"), self.port).await
    }

    /// Flags for the next start, besides the usual ones.
    pub(crate) fn set_flags(&mut self, extra: &[&str]) {
        self.extra = extra.iter().map(|s| (*s).to_owned()).collect();
    }

    /// What it costs.
    pub(crate) fn cost(&self) -> Result<Cost> {
        self.process.as_ref().context("etcd is running")?.cost()
    }

    /// SIGKILL.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.process.take().context("etcd is running")?.kill().await
    }

    /// SIGTERM, so that its files may be copied.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.process.take().context("etcd is running")?.terminate(PATIENCE).await
    }

    /// A copy of its data; it must not run.
    pub(crate) fn back_up(&self) -> Result<PathBuf> {
        let copy = self.dir.join("backup");
        copy_tree(&self.data(), &copy)?;
        Ok(copy)
    }

    /// Puts a copy in the place of its data; it must not run.
    pub(crate) fn restore(&self, backup: &Path) -> Result<()> {
        std::fs::remove_dir_all(self.data())?;
        copy_tree(backup, &self.data())
    }

    /// Saves a store that runs by its command; the file, and the revision that it is of.
    pub(crate) async fn save(&self) -> Result<(PathBuf, u64)> {
        let file = self.dir.join("saved");
        let told = self.told(&["backup", &file.to_string_lossy(), "--data-dir", &self.data().to_string_lossy()]).await?;
        let revision = told.strip_prefix("saved revision ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        Ok((file, revision.with_context(|| format!("no revision in {told:?}"))?))
    }

    /// Makes the data of a store anew from what was saved; it must not run.
    pub(crate) async fn restore_saved(&self, file: &Path) -> Result<()> {
        std::fs::remove_dir_all(self.data())?;
        self.told(&["restore", &file.to_string_lossy(), "--data-dir", &self.data().to_string_lossy()]).await.map(drop)
    }

    async fn told(&self, args: &[&str]) -> Result<String> {
        let output = tokio::process::Command::new(&self.binary).arg("store").args(args).kill_on_drop(true).output().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        anyhow::ensure!(output.status.success(), "store {args:?}: {}", text(&output.stderr));
        Ok(text(&output.stdout))
    }

    fn data(&self) -> PathBuf {
        self.dir.join("etcd")
    }
}

/// Three members whose peer and client traffic goes through proxies.
#[derive(Debug)]
pub(crate) struct Cluster {
    members: Vec<Member>,
    /// What passes between the members.
    pub(crate) peers: watch::Sender<Gate>,
    _peer_proxies: Vec<Proxy>,
    binary: PathBuf,
}

#[derive(Debug)]
struct Member {
    args: Vec<String>,
    port: u16,
    log: PathBuf,
    process: Option<Process>,
    /// Between the server under test and this member.
    front: Proxy,
    id: u64,
}

impl Cluster {
    /// Starts three empty members and waits until each answers.
    pub(crate) async fn start(binary: &Path, dir: &Path, ports: &Ports) -> Result<Self> {
        let (peers, _) = watch::channel(Gate::Open);
        let cluster: Vec<String> = (0..3).map(|i| format!("m{i}=http://127.0.0.1:{}", ports.peer_proxy(i))).collect();
        let (mut members, mut peer_proxies) = (Vec::new(), Vec::new());
        for i in 0..3 {
            peer_proxies.push(Proxy::listen_for_member(ports.peer_proxy(i), ports.peer(i), i, &peers).await?);
            let args = vec![
                format!("--name=m{i}"),
                format!("--data-dir={}", dir.join(format!("etcd-{i}")).display()),
                format!("--listen-client-urls=http://127.0.0.1:{}", ports.etcd(i)),
                format!("--advertise-client-urls=http://127.0.0.1:{}", ports.etcd(i)),
                format!("--listen-peer-urls=http://127.0.0.1:{}", ports.peer(i)),
                format!("--initial-advertise-peer-urls=http://127.0.0.1:{}", ports.peer_proxy(i)),
                format!("--initial-cluster={}", cluster.join(",")),
                "--watch-progress-notify-interval=5s".to_owned(),
            ];
            let log = dir.join(format!("etcd-{i}.log"));
            let process = Some(Process::start(binary, &args, &log)?);
            let front = Proxy::listen(ports.etcd_proxy(i), ports.etcd(i)).await?;
            members.push(Member { args, port: ports.etcd(i), log, process, front, id: 0 });
        }
        for member in &mut members {
            answers(member.process.as_mut().expect("just started"), member.port).await?;
            let status = patient(member.port)?.status().await?;
            member.id = status.header.context("a status has a header")?.member_id;
        }
        Ok(Self { members, peers, _peer_proxies: peer_proxies, binary: binary.to_owned() })
    }

    /// Index of the leader, as a majority of those that answer believes.
    pub(crate) async fn leader(&self) -> Result<usize> {
        for member in self.members.iter().filter(|m| m.process.is_some()) {
            let Ok(mut client) = client(member.port) else { continue };
            let Ok(status) = client.status().await else { continue };
            if let Some(index) = self.members.iter().position(|m| m.id == status.leader) {
                return Ok(index);
            }
        }
        bail!("no member knows a leader")
    }

    /// SIGKILL to one member.
    pub(crate) async fn kill(&mut self, index: usize) -> Result<()> {
        self.members[index].process.take().context("the member is running")?.kill().await
    }

    /// Starts it again on its data.
    pub(crate) async fn restart(&mut self, index: usize) -> Result<()> {
        let binary = self.binary.clone();
        let member = &mut self.members[index];
        member.process = Some(Process::start(&binary, &member.args, &member.log)?);
        answers(member.process.as_mut().expect("just started"), member.port).await
    }

    /// Cuts one member off from the other two, in both directions; its clients still reach it.
    pub(crate) fn isolate(&self, index: usize) {
        self.peers.send_replace(Gate::Isolated { id: self.members[index].id, index });
    }

    /// Heals the network between the members.
    pub(crate) fn heal(&self) {
        self.peers.send_replace(Gate::Open);
    }

    /// The member that sends most to the server under test, measured for a while.
    pub(crate) async fn busiest(&self, measure: Duration) -> usize {
        let before: Vec<u64> = self.members.iter().map(|m| m.front.bytes()).collect();
        tokio::time::sleep(measure).await;
        let grown = |i: &usize| self.members[*i].front.bytes() - before[*i];
        (0..self.members.len()).max_by_key(grown).expect("three members")
    }
}

async fn answers(process: &mut Process, port: u16) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        process.alive()?;
        if let Ok(mut client) = client(port)
            && client.get("faults/health").await.is_ok()
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("etcd on port {port} did not answer within {PATIENCE:?}")
}

/// Compacts everything before the newest revision, which is returned.
pub(crate) async fn compact(port: u16) -> Result<u64> {
    let mut client = patient(port)?;
    let head = head(&mut client).await?;
    client.compact(i64::try_from(head)?, true).await?;
    Ok(head)
}

/// The newest revision, by a linearizable read.
pub(crate) async fn head(client: &mut Client) -> Result<u64> {
    let answer = client.get("faults/health").await?;
    Ok(u64::try_from(answer.header.context("a range has a header")?.revision)?)
}

/// Every object of the harness in etcd, key to revision: what the truth log is compared with at the end.
pub(crate) async fn stored(port: u16, resource: Resource) -> Result<Vec<(String, u64)>> {
    let mut client = patient(port)?;
    let all = get(resource.etcd_prefix()).prefix();
    let answer = client.range(RangeRequest { keys_only: true, ..all }).await?;
    answer.kvs.into_iter().map(|kv| Ok((String::from_utf8(kv.key)?, u64::try_from(kv.mod_revision)?))).collect()
}

/// What a direct watch of etcd showed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Direct {
    /// Deleted keys and the revision that deleted them.
    pub(crate) deleted: Vec<(String, u64)>,
    /// Responses that were cut up, counted by their parts but the last.
    pub(crate) fragments: usize,
}

/// Watches etcd itself from `revision` until a key is written whose name is `end`, allowing fragments.
pub(crate) async fn direct(port: u16, revision: u64, end: &str) -> Result<Direct> {
    let all = WatchCreateRequest { fragment: true, start_revision: i64::try_from(revision)?, ..watching("").prefix() };
    let mut stream = client(port)?.watch(all).await?;
    let mut seen = Direct::default();
    let until_end = async {
        while let Some(response) = stream.message().await? {
            seen.fragments += usize::from(response.fragment);
            for event in response.events {
                let kind = event.r#type();
                let Some(kv) = event.kv else { continue };
                if kind == EventType::Delete {
                    seen.deleted.push((String::from_utf8(kv.key)?, u64::try_from(kv.mod_revision)?));
                } else if kv.key == end.as_bytes() {
                    return Ok(seen);
                }
            }
        }
        bail!("the direct watch ended")
    };
    tokio::time::timeout(PATIENCE, until_end).await.context("a direct watch did not reach its end")?
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
