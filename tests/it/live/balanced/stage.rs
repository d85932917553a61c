//! What the case stands on: etcd, a kube-apiserver, three replicas, and HAProxy with the configuration that is handed out.

use std::{
    env,
    error::Error,
    fs, io,
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::{
    client::Client,
    live::{
        free_address, objects,
        peers::{Running, Site},
    },
    manifests::deployed,
};

const REPLICAS: usize = 3;
/// As in the manifests, from which the balancer has 10 s to notice.
const DELAY: &str = "--shutdown-delay-duration=10s";
/// How long the balancer may take until it sends somebody to a replica that is ready: two checks, one each 2 s.
const NOTICED: Duration = Duration::from_secs(5);
/// How long a replica may take to end: the delay, the time that requests have (10 s each), and a busy machine.
const END: Duration = Duration::from_secs(60);
/// How often a replica that ends is asked what it has counted.
const LOOK: Duration = Duration::from_millis(200);

/// The programs, ended in this order.
pub(super) struct Stage {
    _balancer: Running,
    pub(super) replicas: Vec<Replica>,
    _upstream: Running,
    _etcd: Running,
    site: Site,
    pub(super) etcd_at: SocketAddr,
    balancer_at: SocketAddr,
}

/// One replica through all its lives.
pub(super) struct Replica {
    running: Running,
    at: SocketAddr,
    /// What it counted in lives that are over.
    past: Counted,
}

/// What replicas have counted of ConfigMaps.
#[derive(Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) lists: u64,
    /// Watches and lists that were refused with 410, and watches that ended with it.
    pub(super) gone: u64,
    /// Those refused with 429.
    pub(super) busy: u64,
}

impl Stage {
    /// Starts all, and waits until the balancer reaches somebody.
    pub(super) async fn set() -> Result<Self, Box<dyn Error>> {
        let programs = env::var_os("WATCHCACHE_TEST_PEERS")
            .map(PathBuf::from)
            .ok_or("WATCHCACHE_TEST_PEERS does not name a folder with etcd, kube-apiserver and haproxy")?;
        let site = Site::prepare(&programs)?;
        let (etcd, etcd_at) = site.etcd()?;
        let (upstream, upstream_at) = site.apiserver("kube-apiserver", etcd_at)?;
        upstream.ready(&site.client(upstream_at)).await?;
        let replicas = (1..=REPLICAS).map(|nth| Replica::start(&site, nth, etcd_at, upstream_at)).collect::<io::Result<Vec<_>>>()?;
        for replica in &replicas {
            replica.running.ready(&site.client(replica.at)).await?;
        }
        let balancer_at = free_address()?;
        let configuration = site.path().join("haproxy.cfg");
        fs::write(&configuration, configured(&site, balancer_at, &replicas)?)?;
        let mut command = Command::new(programs.join("haproxy"));
        command.arg("-db").arg("-f").arg(configuration);
        let balancer = site.start("haproxy", command)?;
        balancer.ready(&site.client(balancer_at)).await?;
        let stage = Self { _balancer: balancer, replicas, _upstream: upstream, _etcd: etcd, site, etcd_at, balancer_at };
        // The rules of `view` are for a controller to put together from this role.
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:aggregate-to-view"});
        let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "viewers"});
        let binding = json!({"metadata": {"name": "viewers"}, "roleRef": role, "subjects": [subject]});
        let made = ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned(), binding);
        objects::create(&stage.writers(), vec![made]).await?;
        Ok(stage)
    }

    /// A client through the balancer who may write.
    pub(super) fn writers(&self) -> Client {
        self.site.client(self.balancer_at)
    }

    /// One who may only read, and is judged and limited as everybody is.
    pub(super) fn watchers(&self) -> Client {
        self.site.client_of(self.balancer_at, "viewtoken")
    }

    /// Tells a replica to end, waits until it has, starts it again, and waits until the balancer knows.
    pub(super) async fn restart(&mut self, nth: usize) -> Result<(), Box<dyn Error>> {
        let replica = &mut self.replicas[nth];
        let client = self.site.client(replica.at);
        let (began, mut last) = (Instant::now(), counted(&client).await?);
        replica.running.signal("TERM")?;
        let ended = loop {
            if let Some(ended) = replica.running.ended() {
                break ended;
            }
            if let Ok(Ok(now)) = timeout(LOOK, counted(&client)).await {
                last = now;
            }
            if began.elapsed() > END {
                return Err(format!("replica {nth} has not ended after {END:?}").into());
            }
            sleep(LOOK).await;
        };
        if !ended.contains("exit status: 0") {
            return Err(ended.into());
        }
        replica.past = replica.past.plus(last);
        replica.running.restart()?;
        replica.running.ready(&client).await?;
        sleep(NOTICED).await;
        Ok(())
    }

    /// What all replicas have counted in all their lives.
    pub(super) async fn counted(&self) -> Result<Counted, Box<dyn Error>> {
        let mut all = Counted::default();
        for replica in &self.replicas {
            all = all.plus(replica.past).plus(counted(&self.site.client(replica.at)).await?);
        }
        Ok(all)
    }

    /// What the logs say of requests that took too long: the replicas' and kube-apiserver's own.
    pub(super) fn timeouts(&self) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.site.path())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
                let lines = text.lines().filter(|line| line.contains("has not answered in time") || line.contains("Timeout or abort"));
                found.extend(lines.map(|line| format!("{}: {line}", path.display())));
            }
        }
        Ok(found)
    }

    /// How many watches of ConfigMaps each replica has.
    pub(super) async fn open_watches(&self) -> Result<Vec<u64>, Box<dyn Error>> {
        let mut open = Vec::new();
        for replica in &self.replicas {
            let text = metrics(&self.site.client(replica.at)).await?;
            open.push(sum(&text, "apiserver_longrunning_requests{", &[r#"verb="WATCH""#]));
        }
        Ok(open)
    }
}

impl Replica {
    fn start(site: &Site, nth: usize, etcd: SocketAddr, upstream: SocketAddr) -> io::Result<Self> {
        let at = free_address()?;
        let program = env::var_os("WATCHCACHE_BALANCED_SERVER").unwrap_or_else(|| env!("CARGO_BIN_EXE_watchcache").into());
        let mut command = Command::new(program);
        command.args([
            "serve",
            "--insecure-port=0",
            "--authorization-mode=Node,RBAC",
            "--goaway-chance=0.001",
            "--replica-group=balanced",
            DELAY,
        ]);
        command
            .args(site.replica_of(upstream))
            .arg(format!("--etcd-servers=http://{etcd}"))
            .args(site.secured(at))
            .arg(site.takes_tokens());
        Ok(Self { running: site.start(&format!("replica-{nth}"), command)?, at, past: Counted::default() })
    }
}

impl Counted {
    fn plus(self, other: Self) -> Self {
        Self { lists: self.lists + other.lists, gone: self.gone + other.gone, busy: self.busy + other.busy }
    }

    /// What came after that.
    pub(super) fn since(self, before: Self) -> Self {
        Self { lists: self.lists - before.lists, gone: self.gone - before.gone, busy: self.busy - before.busy }
    }
}

/// The configuration that is handed out, with the addresses and names of this test, and without the user whom a service has.
fn configured(site: &Site, at: SocketAddr, replicas: &[Replica]) -> io::Result<String> {
    let mut text = deployed("haproxy/haproxy.cfg")?;
    let authority = site.path().join("ca.crt").display().to_string();
    let addresses =
        replicas.iter().enumerate().map(|(nth, replica)| (format!("replica-{}.example.org:6443", nth + 1), replica.at.to_string()));
    let others = [
        ("bind :6443", format!("bind {at}")),
        ("watchcache.example.org", "localhost".to_owned()),
        ("/etc/haproxy/kubernetes-ca.crt", authority),
        ("    user haproxy\n    group haproxy\n", String::new()),
    ];
    for (from, to) in addresses.chain(others.map(|(from, to)| (from.to_owned(), to))) {
        if !text.contains(&from) {
            return Err(io::Error::other(format!("{from:?} is not in the configuration")));
        }
        text = text.replace(&from, &to);
    }
    Ok(text)
}

async fn metrics(client: &Client) -> io::Result<String> {
    let answer = client.fetch("/metrics").await?;
    if answer.status != 200 {
        return Err(io::Error::other(format!("/metrics: {}", answer.status)));
    }
    Ok(String::from_utf8_lossy(&answer.body).into_owned())
}

async fn counted(client: &Client) -> io::Result<Counted> {
    let text = metrics(client).await?;
    let requests = |labels: &[&str]| sum(&text, "apiserver_request_total{", labels);
    let ended = sum(&text, "apiserver_terminated_watchers_total{", &[]);
    Ok(Counted { lists: requests(&[r#"verb="LIST""#]), gone: requests(&[r#"code="410""#]) + ended, busy: requests(&[r#"code="429""#]) })
}

/// The samples of a family that are of ConfigMaps and have these labels.
fn sum(text: &str, family: &str, labels: &[&str]) -> u64 {
    let ours = text.lines().filter(|line| line.starts_with(family) && line.contains(r#"resource="configmaps""#));
    let chosen = ours.filter(|line| labels.iter().all(|label| line.contains(label)));
    chosen.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}
