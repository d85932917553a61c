//! What every live case stands on: etcd, a kube-apiserver that writes, and the server under test; started once for those that run together.

use std::{
    env,
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    sync::{Arc, Weak},
};

use tokio::sync::{Mutex, MutexGuard};

use super::{
    free_address,
    peers::{Running, Site},
    say,
};
use crate::client::Client;

static SHARED: Mutex<Weak<Floor>> = Mutex::const_new(Weak::new());
/// One case at a time: they compare revisions, which the writes of another would move.
static TURN: Mutex<()> = Mutex::const_new(());

/// The programs of a case. The fields are ended in this order: servers before their etcd.
pub(crate) struct Floor {
    ours: Running,
    theirs: Running,
    etcd: Running,
    pub(crate) site: Site,
    subject: Subject,
    pub(crate) theirs_at: SocketAddr,
    pub(crate) etcd_at: SocketAddr,
}

/// The server under test.
enum Subject {
    /// `watchcache serve`, plain HTTP.
    Watchcache(SocketAddr),
    /// The same behind TLS, with tokens.
    Secured(SocketAddr),
    /// A second kube-apiserver: shows that the cases themselves are right.
    Apiserver(SocketAddr),
}

/// A case's right to use the floor.
pub(crate) struct Stand {
    floor: Arc<Floor>,
    _turn: MutexGuard<'static, ()>,
}

impl std::ops::Deref for Stand {
    type Target = Floor;

    fn deref(&self) -> &Floor {
        &self.floor
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // A program that has ended explains most failures of a case.
        for ended in [&self.floor.ours, &self.floor.theirs, &self.floor.etcd].into_iter().filter_map(Running::ended) {
            say(&format!("live: {ended}"));
        }
    }
}

/// The floor, once it is this case's turn.
pub(crate) async fn stand() -> Result<Stand, Box<dyn std::error::Error>> {
    let programs =
        env::var_os("WATCHCACHE_TEST_PEERS").ok_or("WATCHCACHE_TEST_PEERS does not name a folder with etcd and kube-apiserver")?;
    let floor = shared(PathBuf::from(programs)).await?;
    Ok(Stand { floor, _turn: TURN.lock().await })
}

async fn shared(programs: PathBuf) -> Result<Arc<Floor>, Box<dyn std::error::Error>> {
    let mut shared = SHARED.lock().await;
    if let Some(floor) = shared.upgrade() {
        return Ok(floor);
    }
    let floor = Arc::new(Floor::start(programs).await?);
    *shared = Arc::downgrade(&floor);
    Ok(floor)
}

impl Floor {
    async fn start(programs: PathBuf) -> Result<Self, Box<dyn std::error::Error>> {
        let site = Site::prepare(&programs)?;
        let (etcd, etcd_at) = site.etcd()?;
        let (theirs, theirs_at) = site.apiserver("kube-apiserver", etcd_at)?;
        theirs.ready(&site.client(theirs_at)).await?;
        let (ours, subject) = Subject::start(&site, "watchcache", etcd_at, theirs_at)?;
        ours.ready(&subject.client(&site)).await?;
        Ok(Self { ours, theirs, etcd, site, subject, theirs_at, etcd_at })
    }

    /// A new client of the server under test. Connections belong to the runtime of one case, so cases do not share clients.
    pub(crate) fn ours(&self) -> Client {
        self.subject.client(&self.site)
    }

    /// A new client of the kube-apiserver that writes.
    pub(crate) fn theirs(&self) -> Client {
        self.site.client(self.theirs_at)
    }

    /// Starts another server under test on the same etcd, and waits until it is ready; it ends when what is returned is dropped.
    pub(super) async fn another(&self) -> Result<(Running, Client), Box<dyn std::error::Error>> {
        let (running, subject) = Subject::start(&self.site, "watchcache-2", self.etcd_at, self.theirs_at)?;
        let client = subject.client(&self.site);
        running.ready(&client).await?;
        Ok((running, client))
    }

    /// The same, but a read replica on the etcd beside a server under test that the kube-apiserver feeds.
    pub(super) async fn another_source(&self) -> Result<(Running, Client), Box<dyn std::error::Error>> {
        if subject() != "watchcache-upstream" {
            return self.another().await;
        }
        let (running, address) = self.secured("watchcache-2").await?;
        Ok((running, self.site.client(address)))
    }

    /// Starts another watchcache behind TLS on the same etcd, which judges tokens and rights as the kube-apiserver does.
    pub(crate) async fn secured(&self, name: &str) -> Result<(Running, SocketAddr), Box<dyn std::error::Error>> {
        let address = free_address()?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
        command.args(["serve", "--controllers=", "--insecure-port=0", "--authorization-mode=Node,RBAC"]);
        if is_replica() || subject() == "watchcache-upstream" {
            command.args(self.site.replica_of(self.theirs_at));
        } else {
            command.arg("--allow-writes");
        }
        command.arg(format!("--etcd-servers=http://{}", self.etcd_at)).args(self.site.secured(address)).args(self.site.issues_tokens());
        let running = self.site.start(name, command)?;
        running.ready(&self.site.client(address)).await?;
        Ok((running, address))
    }

    /// Kills the server under test and starts it again, and waits until it is ready.
    pub(super) async fn restart_ours(&self) -> super::Outcome {
        self.ours.restart()?;
        self.ours.ready(&self.ours()).await
    }

    /// The server under test as a URL, and whether it wants the token and the authority of this site.
    pub(super) fn ours_url(&self) -> (String, bool) {
        match &self.subject {
            Subject::Watchcache(address) => (format!("http://{address}"), false),
            Subject::Secured(address) | Subject::Apiserver(address) => (format!("https://{address}"), true),
        }
    }
}

/// Which server is under test.
pub(super) fn subject() -> String {
    env::var("WATCHCACHE_TEST_SUBJECT").unwrap_or_else(|_| "watchcache".into())
}

/// Whether it is a read replica of the kube-apiserver that it is compared with.
pub(crate) fn is_replica() -> bool {
    subject() == "watchcache-replica"
}

impl Subject {
    fn start(site: &Site, name: &str, etcd: SocketAddr, theirs: SocketAddr) -> Result<(Running, Self), Box<dyn std::error::Error>> {
        let subject = subject();
        if subject == "kube-apiserver" {
            let (running, address) = site.apiserver(&format!("kube-apiserver-as-{name}"), etcd)?;
            return Ok((running, Self::Apiserver(address)));
        }
        let address = free_address()?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
        // A cold start, so that revision 1 is below the floor and clients can be refused with 410, as by kube-apiserver.
        command.args(["serve", "--controllers=", "--etcd-servers", &format!("http://{etcd}"), "--warm-start-revisions", "0"]);
        let subject = match subject.as_str() {
            "watchcache" => {
                command.arg(format!("--insecure-port={}", address.port()));
                Self::Watchcache(address)
            }
            "watchcache-upstream" => {
                command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
                // From the start, as from etcd: watches resume from before a case looks at a resource.
                command
                    .args(["serve", "--insecure-port=0", "--resources=all,secrets"])
                    .args(site.fed_by(theirs)?)
                    .args(site.listening(address));
                Self::Secured(address)
            }
            "watchcache-secure" | "watchcache-replica" => {
                command.arg("--insecure-port=0").args(site.secured(address));
                if is_replica() {
                    command.args(site.replica_of(theirs));
                }
                Self::Secured(address)
            }
            other => return Err(format!("WATCHCACHE_TEST_SUBJECT={other} is not known").into()),
        };
        Ok((site.start(name, command)?, subject))
    }

    fn client(&self, site: &Site) -> Client {
        match self {
            Self::Watchcache(address) => Client::plain(*address),
            Self::Secured(address) | Self::Apiserver(address) => site.client(*address),
        }
    }
}
