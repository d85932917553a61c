//! The server under test: how it is started, found and spoken to. Knows no scenario.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore,
    client::WantsClientCert,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::{
    http::Listener,
    object::Resource,
    options::{Options, Subject},
    pki::{Pair, openssl},
    process::{Cost, Process},
};

/// Token of the administrator behind TLS.
pub(crate) const TOKEN: &str = "faults-token";
/// Token of another administrator.
pub(crate) const HONEST: &str = "faults-honest";
/// Token of a user who may do what roles say.
pub(crate) const VIEWER: &str = "faults-viewer";
/// Token and name of somebody who may nothing in particular; some more are called so with a number.
pub(crate) const ATTACKER: &str = "faults-attacker";
/// The same of somebody whom only a webhook knows.
pub(crate) const VISITOR: &str = "faults-visitor";
/// The file of tokens.
pub(crate) const TOKENS: &str = "tokens.csv";
/// Attackers that have a number.
const ATTACKERS: usize = 10;

/// A running server under test.
#[derive(Debug)]
pub(crate) struct Server {
    process: Option<Process>,
    /// How clients reach it.
    pub(crate) listener: Arc<Listener>,
    /// How its health is asked for, whoever fills the listener of clients.
    pub(crate) plain: Arc<Listener>,
    /// The listener with TLS and a token: another one if that was asked for, else the same.
    pub(crate) secure: Arc<Listener>,
    plan: Plan,
}

/// What a scenario wants of a server besides the usual.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// A TLS listener with a token beside the plain one.
    pub(crate) secure: bool,
    /// What is written and watched.
    pub(crate) resource: Resource,
    /// Further arguments, for this project's server only.
    pub(crate) args: Vec<String>,
    /// Where standard error goes the first time, if not into the log.
    pub(crate) stderr: Option<Stdio>,
}

#[derive(Clone, Debug)]
struct Plan {
    binary: PathBuf,
    args: Vec<String>,
    log: PathBuf,
    patience: Duration,
}

impl Server {
    /// Starts it on these etcd endpoints and waits until it is ready.
    pub(crate) async fn start(options: &Options, dir: &Path, etcd_ports: &[u16], wishes: Wishes) -> Result<Self> {
        let endpoints: Vec<String> = etcd_ports.iter().map(|p| format!("http://127.0.0.1:{p}")).collect();
        let (port, secure) = (options.ports().server(), options.ports().secure());
        let ours = options.subject.is_ours();
        let is_fed = options.subject == Subject::WatchcacheUpstream;
        let mut args = match (&options.server_args, options.subject) {
            (Some(template), _) => template
                .split_whitespace()
                .map(|a| a.replace("{etcd}", &endpoints.join(",")).replace("{port}", &port.to_string()))
                .collect(),
            (None, Subject::Watchcache) => watchcache_args(&endpoints.join(","), port),
            (None, Subject::WatchcacheUpstream) => vec!["serve".to_owned(), "--insecure-port".to_owned(), port.to_string()],
            (None, Subject::KubeApiserver) => {
                let own = [format!("--etcd-servers={}", endpoints.join(",")), format!("--secure-port={port}")];
                own.into_iter().chain(peer_args(dir).await?).collect()
            }
        };
        // What is forwarded goes with the client's token, so the clients of one that is fed must bring theirs.
        let two_listeners = (wishes.secure && ours) || is_fed;
        if two_listeners {
            args.extend(secure_args(secure, dir, !is_fed).await?);
        }
        if ours {
            args.extend(wishes.args);
        }
        args.extend(options.more_server_args.iter().flat_map(|more| more.split_whitespace().map(str::to_owned)));
        let tls = !ours && options.server_args.is_none();
        let patience = Duration::from_secs(if tls { 240 } else { 120 });
        let plan = Plan { binary: options.server.clone(), args, log: dir.join("server.log"), patience };
        let mut process = Process::start_telling(&plan.binary, &plan.args, &plan.log, wishes.stderr)?;
        let listener = Arc::new(if tls { peer_listener(port, dir, &mut process).await? } else { Listener::plain(port) });
        let secure = if two_listeners { Arc::new(listener_signed_by(secure, &dir.join("listener.crt"))?) } else { listener.clone() };
        let (plain, listener) = (listener.clone(), if is_fed { secure.clone() } else { listener });
        let mut server = Self { process: Some(process), listener, plain, secure, plan };
        server.ready().await?;
        Ok(server)
    }

    /// SIGTERM, wait, start again with the same arguments, wait until ready.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.terminate(Duration::from_secs(70)).await?;
        self.start_again().await
    }

    /// SIGTERM, and wait; how long it took, an error when it was longer than `patience`.
    pub(crate) async fn terminate(&mut self, patience: Duration) -> Result<Duration> {
        let start = Instant::now();
        self.process.take().context("the server is running")?.terminate(patience).await?;
        Ok(start.elapsed())
    }

    /// SIGKILL, start again with the same arguments, wait until ready.
    pub(crate) async fn crash(&mut self) -> Result<()> {
        self.process.take().context("the server is running")?.kill().await?;
        self.start_again().await
    }

    /// Ends it: SIGKILL, for what it leaves behind is nobody's.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.alive()?;
        self.process.take().context("the server is running")?.kill().await
    }

    /// Fails when it has ended by itself.
    pub(crate) fn alive(&mut self) -> Result<()> {
        self.process.as_mut().context("the server is running")?.alive()
    }

    /// Its memory and processor time.
    pub(crate) fn cost(&self) -> Result<Cost> {
        self.process.as_ref().context("the server is running")?.cost()
    }

    /// Lets the peak of its memory begin anew.
    pub(crate) fn forget_peak(&self) -> Result<()> {
        self.process.as_ref().context("the server is running")?.forget_peak()
    }

    /// Starts it after it has ended, with the same arguments, and waits until it is ready.
    pub(crate) async fn start_again(&mut self) -> Result<()> {
        self.process = Some(Process::start(&self.plan.binary, &self.plan.args, &self.plan.log)?);
        self.ready().await
    }

    async fn ready(&mut self) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < self.plan.patience {
            self.alive()?;
            if self.plain.get("/readyz", Duration::from_secs(2)).await.is_ok_and(|(status, _)| status == 200) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("the server was not ready within {:?}", self.plan.patience)
    }
}

fn watchcache_args(endpoints: &str, port: u16) -> Vec<String> {
    let fixed = ["serve", "--controllers=", "--warm-start-revisions", "100000", "--etcd-servers"].map(str::to_owned);
    fixed.into_iter().chain([endpoints.to_owned(), "--insecure-port".to_owned(), port.to_string()]).collect()
}

/// Writes the file of tokens: of two administrators, of a viewer, and of users without rights, whose names are their tokens.
pub(crate) fn write_tokens(dir: &Path) -> Result<()> {
    let mut tokens = format!("{TOKEN},admin,1,\"system:masters\"\n{HONEST},honest,3,\"system:masters\"\n{VIEWER},viewer,2\n");
    let numbered = (0..ATTACKERS).map(|nth| format!("{ATTACKER}-{nth}"));
    for name in [ATTACKER, VISITOR].map(str::to_owned).into_iter().chain(numbered) {
        tokens += &format!("{name},{name},{name}\n");
    }
    Ok(std::fs::write(dir.join(TOKENS), tokens)?)
}

/// A certificate that is its own authority, and the file of the users' tokens, unless somebody else knows them.
async fn secure_args(port: u16, dir: &Path, knows_tokens: bool) -> Result<Vec<String>> {
    let (own, tokens) = (Pair::of_its_own(dir, "listener").await?, dir.join(TOKENS));
    write_tokens(dir)?;
    let users = knows_tokens.then(|| format!("--token-auth-file={}", tokens.display()));
    Ok(tls_args(port, &own).into_iter().chain(users).collect())
}

/// What has this project's server listen on loopback with TLS.
pub(crate) fn tls_args(port: u16, own: &Pair) -> Vec<String> {
    vec![
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", own.certificate.display()),
        format!("--tls-private-key-file={}", own.key.display()),
    ]
}

/// Arguments of a kube-apiserver but for etcd and its port; keys and tokens are made.
pub(crate) async fn peer_args(dir: &Path) -> Result<Vec<String>> {
    let (key, public) = (dir.join("sa.key"), dir.join("sa.pub"));
    openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", &key.to_string_lossy()]).await?;
    openssl(&["pkey", "-pubout", "-in", &key.to_string_lossy(), "-out", &public.to_string_lossy()]).await?;
    let tokens = dir.join(TOKENS);
    write_tokens(dir)?;
    let (key, public, tokens, certs) = (key.display(), public.display(), tokens.display(), dir.join("certs"));
    Ok(vec![
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        format!("--cert-dir={}", certs.display()),
        format!("--token-auth-file={tokens}"),
        format!("--service-account-key-file={public}"),
        format!("--service-account-signing-key-file={key}"),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        "--service-cluster-ip-range=10.0.0.0/16".into(),
        "--authorization-mode=RBAC".into(),
        "--disable-admission-plugins=ServiceAccount".into(),
        "--storage-media-type=application/json".into(),
        // The scenarios decide when history goes away.
        "--etcd-compaction-interval=0".into(),
    ])
}

/// The peer signs its own certificate at start; the file holds its authority too.
async fn peer_listener(port: u16, dir: &Path, process: &mut Process) -> Result<Listener> {
    let path = dir.join("certs/apiserver.crt");
    let start = Instant::now();
    while !path.exists() {
        process.alive()?;
        anyhow::ensure!(start.elapsed() < Duration::from_secs(30), "the peer made no certificate");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    listener_signed_by(port, &path)
}

/// A listener that this authority has signed for, as a user with a token reaches it.
pub(crate) fn listener_signed_by(port: u16, authority: &Path) -> Result<Listener> {
    Ok(Listener::tls(port, believing(authority)?.with_no_client_auth(), TOKEN))
}

/// A listener as a front proxy reaches it, who shows this certificate.
pub(crate) fn listener_for_proxy(port: u16, authority: &Path, own: &Pair) -> Result<Listener> {
    let (chain, key) = (CertificateDer::from_pem_file(&own.certificate)?, PrivateKeyDer::from_pem_file(&own.key)?);
    Ok(Listener::tls(port, believing(authority)?.with_client_auth_cert(vec![chain], key)?, TOKEN))
}

fn believing(authority: &Path) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority)? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots))
}
