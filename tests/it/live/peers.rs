//! Starts etcd and kube-apiservers in a temporary folder, with certificates made for the occasion, and ends them.

use std::{
    env,
    fs::{self, File},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;

use super::ports::free_address;
use crate::client::Client;

/// The bearer token of a cluster administrator.
pub(crate) const TOKEN: &str = "admintoken";
/// Users without rights of their own.
const OTHERS: &str = "janetoken,jane,2,\"dev,ops\"\nviewtoken,viewer,3,viewers\nnodetoken,system:node:n,4,system:nodes\n\
    n1token,system:node:n1,5,system:nodes\nn2token,system:node:n2,6,system:nodes\n";
/// How long a server may take until it is ready: kube-apiserver needs about 20 s on an idle core, several times that on a busy one.
const PATIENCE: Duration = Duration::from_secs(240);

/// A started program; it is ended when this is dropped.
pub(crate) struct Running {
    child: Mutex<Child>,
    /// Starts it again.
    command: Box<Mutex<Command>>,
    name: String,
    log: PathBuf,
}

/// A folder with programs, certificates and logs.
pub(crate) struct Site {
    programs: PathBuf,
    path: PathBuf,
    /// Removes the folder in the end, unless a person asked to keep it.
    _dir: Option<TempDir>,
    authority: CertificateDer<'static>,
}

impl Site {
    /// Prepares the folder; `programs` has `etcd` and `kube-apiserver`. With `WATCHCACHE_TEST_LOGS` the logs stay there.
    pub(crate) fn prepare(programs: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let dir = tempfile::Builder::new()
            .prefix("site-")
            .tempdir_in(env::var_os("WATCHCACHE_TEST_LOGS").map_or(env::temp_dir(), PathBuf::from))?;
        let (path, dir) =
            if env::var_os("WATCHCACHE_TEST_LOGS").is_some() { (dir.keep(), None) } else { (dir.path().to_owned(), Some(dir)) };
        let authority = write_certificates(&path)?;
        fs::write(path.join("tokens.csv"), format!("{TOKEN},admin,1,\"system:masters\"\n{OTHERS}"))?;
        Ok(Self { programs: programs.to_owned(), path, _dir: dir, authority })
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts etcd; durable only as long as the machine runs, which a test may not notice.
    pub(crate) fn etcd(&self) -> io::Result<(Running, SocketAddr)> {
        self.etcd_called("etcd")
    }

    /// The same with its data in a folder of this name.
    pub(crate) fn etcd_called(&self, name: &str) -> io::Result<(Running, SocketAddr)> {
        let (client, peer) = (free_address()?, free_address()?);
        let (client_url, peer_url) = (format!("http://{client}"), format!("http://{peer}"));
        let mut command = Command::new(self.programs.join("etcd"));
        command.arg("--data-dir").arg(self.path().join(name));
        command.args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url]);
        command.args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url]);
        command.args(["--initial-cluster", &format!("default={peer_url}"), "--unsafe-no-fsync", self.progress_flag(), "5s"]);
        Ok((self.start(name, command)?, client))
    }

    /// How this etcd spells the interval of its progress notifications.
    fn progress_flag(&self) -> &'static str {
        if self.says("etcd", "etcd Version: 3.5") {
            "--experimental-watch-progress-notify-interval"
        } else {
            "--watch-progress-notify-interval"
        }
    }

    /// Whether a program says this of its version.
    fn says(&self, program: &str, version: &str) -> bool {
        let said = Command::new(self.programs.join(program)).arg("--version").output();
        said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(version))
    }

    /// Starts a kube-apiserver; several may share one etcd. It stores JSON, or what `WATCHCACHE_TEST_STORAGE` says.
    pub(crate) fn apiserver(&self, name: &str, etcd: SocketAddr) -> io::Result<(Running, SocketAddr)> {
        let media = env::var("WATCHCACHE_TEST_STORAGE").unwrap_or_else(|_| "application/json".to_owned());
        self.apiserver_with(name, etcd, &[&format!("--storage-media-type={media}")])
    }

    /// Starts a kube-apiserver with more flags.
    pub(crate) fn apiserver_with(&self, name: &str, etcd: SocketAddr, flags: &[&str]) -> io::Result<(Running, SocketAddr)> {
        let address = free_address()?;
        Ok((self.apiserver_at(name, address, etcd, flags)?, address))
    }

    /// The same at this address.
    pub(crate) fn apiserver_at(&self, name: &str, address: SocketAddr, etcd: SocketAddr, flags: &[&str]) -> io::Result<Running> {
        let file = |name: &str| self.path().join(name).display().to_string();
        let mut command = Command::new(self.programs.join("kube-apiserver"));
        command.args(self.secured(address)).args(self.issues_tokens());
        for (flag, value) in [
            ("etcd-servers", format!("http://{etcd}")),
            ("advertise-address", address.ip().to_string()),
            ("cert-dir", file(name)),
            ("service-account-issuer", "https://kubernetes.default.svc".into()),
            ("service-cluster-ip-range", "10.0.0.0/16".into()),
            ("authorization-mode", "Node,RBAC".into()),
            // Now and then an HTTP/2 connection ends: a replica must lose nothing.
            ("goaway-chance", "0.02".into()),
            // A replica in front of it is its front proxy.
            ("requestheader-client-ca-file", file("ca.crt")),
            ("requestheader-allowed-names", "front-proxy".into()),
            ("requestheader-username-headers", "X-Remote-User".into()),
            ("requestheader-uid-headers", "X-Remote-Uid".into()),
            ("requestheader-group-headers", "X-Remote-Group".into()),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-".into()),
            // Pods may then be made without service accounts, which a controller would make.
            ("disable-admission-plugins", "ServiceAccount".into()),
        ] {
            command.arg(format!("--{flag}={value}"));
        }
        // It refuses to announce an address of loopback.
        if !["v1.35.", "v1.36."].iter().any(|minor| self.says("kube-apiserver", minor)) {
            command.args(["--advertise-address=192.0.2.7", "--endpoint-reconciler-type=none"]);
        }
        command.args(flags);
        self.start(name, command)
    }

    /// Starts any other program of this site, with its output in a log.
    pub(crate) fn start(&self, name: &str, mut command: Command) -> io::Result<Running> {
        let log = self.path().join(format!("{name}.log"));
        let out = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        Ok(Running { child: Mutex::new(command.spawn()?), command: Box::new(Mutex::new(command)), name: name.to_owned(), log })
    }

    /// What has any server of this site listen at an address with TLS, and know who comes with a certificate or a token.
    pub(crate) fn secured(&self, address: SocketAddr) -> Vec<String> {
        let files = [self.flag("client-ca-file", "ca.crt"), self.flag("token-auth-file", "tokens.csv")];
        self.listening(address).into_iter().chain(files).collect()
    }

    /// What has any server of this site listen at an address with TLS.
    pub(crate) fn listening(&self, address: SocketAddr) -> Vec<String> {
        let files = [self.flag("tls-cert-file", "server.crt"), self.flag("tls-private-key-file", "server.key")];
        [format!("--bind-address={}", address.ip()), format!("--secure-port={}", address.port())].into_iter().chain(files).collect()
    }

    /// What has a watchcache take its objects from this kube-apiserver, as an administrator.
    pub(crate) fn fed_by(&self, upstream: SocketAddr) -> io::Result<[String; 2]> {
        self.fed_by_as("upstream", upstream)
    }

    /// The same for a server of this name: several are not fed by the same one.
    pub(crate) fn fed_by_as(&self, name: &str, upstream: SocketAddr) -> io::Result<[String; 2]> {
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": format!("https://{upstream}"), "certificate-authority": "ca.crt"}}],
            "users": [{"name": "it", "user": {"token": TOKEN}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        });
        let file = format!("{name}.kubeconfig");
        fs::write(self.path().join(&file), config.to_string())?;
        Ok(["--source=upstream".to_owned(), self.flag("upstream-kubeconfig", &file)])
    }

    /// What has it know service accounts by their tokens.
    pub(crate) fn takes_tokens(&self) -> String {
        self.flag("service-account-key-file", "accounts.pub")
    }

    /// What has it issue such tokens too.
    pub(crate) fn issues_tokens(&self) -> [String; 2] {
        [self.takes_tokens(), self.flag("service-account-signing-key-file", "accounts.key")]
    }

    /// What makes a watchcache a read replica of this kube-apiserver.
    pub(crate) fn replica_of(&self, upstream: SocketAddr) -> Vec<String> {
        let proxy = [self.flag("proxy-client-cert-file", "proxy.crt"), self.flag("proxy-client-key-file", "proxy.key")];
        [format!("--upstream-server=https://{upstream}"), self.flag("upstream-cafile", "ca.crt")].into_iter().chain(proxy).collect()
    }

    /// A flag with a file of this site.
    fn flag(&self, flag: &str, file: &str) -> String {
        format!("--{flag}={}", self.path().join(file).display())
    }

    /// A client with administrator's rights on a kube-apiserver of this site.
    pub(crate) fn client(&self, address: SocketAddr) -> Client {
        self.client_of(address, TOKEN)
    }

    /// A client with this token: `janetoken` is that of jane, of the groups dev and ops, who has no rights of her own; `viewtoken` that of viewer, of the group
    /// viewers; `nodetoken` that of the node n.
    pub(crate) fn client_of(&self, address: SocketAddr, token: &str) -> Client {
        Client::secure(address, self.authority.clone(), token)
    }
}

impl Running {
    /// Waits until `/readyz` answers 200.
    pub(crate) async fn ready(&self, client: &Client) -> Result<(), Box<dyn std::error::Error>> {
        self.ready_by(client, "/readyz").await
    }

    /// The same of another target.
    pub(crate) async fn ready_by(&self, client: &Client, target: &str) -> Result<(), Box<dyn std::error::Error>> {
        let began = Instant::now();
        loop {
            if let Ok(answer) = client.fetch(target).await
                && answer.status == 200
            {
                return Ok(());
            }
            if let Some(ended) = self.ended() {
                return Err(ended.into());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("{} is not ready after {PATIENCE:?}: {}", self.name, self.last_words()).into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// What it has said until now.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How it ended, with its last words; `None` while it runs.
    pub(crate) fn ended(&self) -> Option<String> {
        let status = self.child.lock().expect("no holder panics").try_wait().ok().flatten()?;
        Some(format!("{} ended with {status}: {}", self.name, self.last_words()))
    }

    /// Sends it a signal, named without `SIG`.
    pub(crate) fn signal(&self, signal: &str) -> io::Result<()> {
        let pid = self.child.lock().expect("no holder panics").id();
        send(pid, signal).map_err(|error| io::Error::other(format!("{}: {error}", self.name)))
    }

    /// Whether each of its threads has stopped: SIGSTOP takes effect a moment after it was sent.
    pub(crate) fn is_stopped(&self) -> io::Result<bool> {
        let pid = self.child.lock().expect("no holder panics").id();
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread that has ended meanwhile has not stopped. The state follows the name, which is in parentheses.
            let stat = fs::read_to_string(thread?.path().join("stat")).unwrap_or_default();
            if !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T')) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Kills it, waits until it is gone, and starts it again as it was started.
    pub(crate) fn restart(&self) -> io::Result<()> {
        let mut child = self.child.lock().expect("no holder panics");
        child.kill()?;
        child.wait()?;
        *child = self.command.lock().expect("no holder panics").spawn()?;
        Ok(())
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; nothing is kept that a kill could harm.
        let child = self.child.get_mut().expect("no holder panics");
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Writes `ca.crt`, `server.{crt,key}`, `proxy.{crt,key}` of a front proxy, and `accounts.{key,pub}`; returns the authority.
fn write_certificates(dir: &Path) -> Result<CertificateDer<'static>, Box<dyn std::error::Error>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "test authority");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let names = ["localhost", "kubernetes.default.svc", "127.0.0.1", "10.0.0.1"].map(String::from);
    let server = CertificateParams::new(names)?.signed_by(&key, &authority)?;
    fs::write(dir.join("ca.crt"), authority.pem())?;
    fs::write(dir.join("server.crt"), server.pem())?;
    fs::write(dir.join("server.key"), key.serialize_pem())?;
    let (mut proxy, key) = (CertificateParams::new(Vec::new())?, KeyPair::generate()?);
    proxy.distinguished_name.push(DnType::CommonName, "front-proxy");
    proxy.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
    fs::write(dir.join("proxy.crt"), proxy.signed_by(&key, &authority)?.pem())?;
    fs::write(dir.join("proxy.key"), key.serialize_pem())?;
    let accounts = KeyPair::generate()?;
    fs::write(dir.join("accounts.key"), accounts.serialize_pem())?;
    fs::write(dir.join("accounts.pub"), accounts.public_key_pem())?;
    Ok(authority.der().clone())
}

/// Sends a signal, by the shell: `kill` as a program is not everywhere.
pub(crate) fn send(pid: u32, signal: &str) -> io::Result<()> {
    let status = Command::new("sh").arg("-c").arg(format!("kill -{signal} {pid}")).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("kill -{signal}: {status}"))) }
}
