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
    peers::{Running, Site, free_address},
    say,
};
use crate::client::Client;

static SHARED: Mutex<Weak<Floor>> = Mutex::const_new(Weak::new());
/// One case at a time: they compare revisions, which the writes of another would move.
static TURN: Mutex<()> = Mutex::const_new(());

/// The programs of a case. The fields are ended in this order: servers before their etcd.
pub(crate) struct Floor {
    _ours: Running,
    _theirs: Running,
    _etcd: Running,
    pub(super) site: Site,
    subject: Subject,
    pub(super) theirs_at: SocketAddr,
    pub(super) etcd_at: SocketAddr,
}

/// The server under test.
enum Subject {
    /// `watchcache serve`, plain HTTP.
    Watchcache(SocketAddr),
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

/// The floor, once it is this case's turn; `None` (and a line that says so) when no peers are named.
pub(crate) async fn stand(case: &str) -> Result<Option<Stand>, Box<dyn std::error::Error>> {
    let Some(programs) = env::var_os("WATCHCACHE_TEST_PEERS") else {
        say(&format!("live {case}: not run, WATCHCACHE_TEST_PEERS does not name a folder with etcd and kube-apiserver"));
        return Ok(None);
    };
    let floor = shared(PathBuf::from(programs)).await?;
    Ok(Some(Stand { floor, _turn: TURN.lock().await }))
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
        let (mut theirs, theirs_at) = site.apiserver("kube-apiserver", etcd_at)?;
        theirs.ready(&site.client(theirs_at)).await?;
        let (mut ours, subject) = match env::var("WATCHCACHE_TEST_SUBJECT").as_deref() {
            Ok("kube-apiserver") => {
                let (running, address) = site.apiserver("kube-apiserver-2", etcd_at)?;
                (running, Subject::Apiserver(address))
            }
            Ok(other) => return Err(format!("WATCHCACHE_TEST_SUBJECT={other} is not known").into()),
            Err(_) => {
                let address = free_address()?;
                let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
                command.args(["serve", "--etcd-servers", &format!("http://{etcd_at}"), "--insecure-port", &address.port().to_string()]);
                (site.start("watchcache", command)?, Subject::Watchcache(address))
            }
        };
        ours.ready(&subject.client(&site)).await?;
        Ok(Self { _ours: ours, _theirs: theirs, _etcd: etcd, site, subject, theirs_at, etcd_at })
    }

    /// A new client of the server under test. Connections belong to the runtime of one case, so cases do not share clients.
    pub(crate) fn ours(&self) -> Client {
        self.subject.client(&self.site)
    }

    /// A new client of the kube-apiserver that writes.
    pub(crate) fn theirs(&self) -> Client {
        self.site.client(self.theirs_at)
    }

    /// The server under test as a URL, and whether it wants the token and the authority of this site.
    pub(super) fn ours_url(&self) -> (String, bool) {
        match &self.subject {
            Subject::Watchcache(address) => (format!("http://{address}"), false),
            Subject::Apiserver(address) => (format!("https://{address}"), true),
        }
    }
}

impl Subject {
    fn client(&self, site: &Site) -> Client {
        match self {
            Self::Watchcache(address) => Client::plain(*address),
            Self::Apiserver(address) => site.client(*address),
        }
    }
}
