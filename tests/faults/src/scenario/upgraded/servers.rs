//! kube-apiservers of two minors on one etcd, and the address that they are reached at.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{
    feeder::fed_by,
    http::Listener,
    options::{Options, Subject},
    pki::{Authority, Pair, openssl},
    process::Process,
    proxy::{Proxy, Targets},
    subject::{TOKENS, listener_signed_by},
};

/// How long one may take to start: 20 s on an idle core, several times that on a busy one.
const PATIENCE: Duration = Duration::from_secs(240);

/// Of which minor one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// The one that the server under test is of.
    Older,
    /// The next.
    Newer,
}

/// One that runs.
pub(super) struct Running {
    pub(super) process: Process,
    pub(super) port: u16,
}

/// What all of them have in common.
pub(super) struct Servers<'a> {
    options: &'a Options,
    dir: &'a Path,
    authority: Authority,
    serving: Pair,
    front: Pair,
    targets: Targets,
    _balancer: Proxy,
}

impl<'a> Servers<'a> {
    /// Makes keys and certificates, and listens at the address, behind which nobody is yet.
    pub(super) async fn prepare(options: &'a Options, dir: &'a Path) -> Result<Self> {
        let authority = Authority::make(dir, "authority").await?;
        let (serving, front) = (authority.sign("upstream").await?, authority.sign("front-proxy").await?);
        let [key, public] = ["accounts.key", "accounts.pub"].map(|name| dir.join(name).display().to_string());
        openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", &key]).await?;
        openssl(&["pkey", "-pubout", "-in", &key, "-out", &public]).await?;
        let targets = Targets::default();
        let balancer = Proxy::balance(options.ports().upstream_proxy(), targets.clone()).await?;
        Ok(Self { options, dir, authority, serving, front, targets, _balancer: balancer })
    }

    /// From now on these are behind the address.
    pub(super) fn behind(&self, ports: &[u16]) {
        self.targets.set(ports);
    }

    /// Starts one, and waits until it is ready.
    pub(super) async fn start(&self, release: Release, port: u16) -> Result<Running> {
        let program = match release {
            Release::Older => &self.options.kube_apiserver,
            Release::Newer => &self.options.kube_apiserver_next,
        };
        let mut process = Process::start(program, self.args(port), &self.dir.join(format!("{release:?}.log")))?;
        let (listener, began) = (self.listener(port)?, Instant::now());
        while began.elapsed() < PATIENCE {
            process.alive()?;
            if listener.get("/readyz", Duration::from_secs(2)).await.is_ok_and(|(status, _)| status == 200) {
                return Ok(Running { process, port });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("a kube-apiserver was not ready within {PATIENCE:?}")
    }

    /// How an administrator reaches one of them.
    pub(super) fn listener(&self, port: u16) -> Result<Listener> {
        listener_signed_by(port, self.authority.certificate())
    }

    /// How he reaches whoever is behind the address.
    pub(super) fn balanced(&self) -> Result<Listener> {
        self.listener(self.options.ports().upstream_proxy())
    }

    /// What makes the server under test a replica of whoever is behind the address, or has it be fed by them.
    pub(super) fn subject_args(&self) -> Result<Vec<String>> {
        if self.options.subject == Subject::WatchcacheUpstream {
            return fed_by(self.dir, self.options.ports().upstream_proxy(), self.authority.certificate());
        }
        Ok(vec![
            format!("--upstream-server=https://127.0.0.1:{}", self.options.ports().upstream_proxy()),
            format!("--upstream-cafile={}", self.authority.certificate().display()),
            format!("--proxy-client-cert-file={}", self.front.certificate.display()),
            format!("--proxy-client-key-file={}", self.front.key.display()),
            format!("--service-account-key-file={}", self.dir.join("accounts.pub").display()),
            "--authorization-mode=RBAC".to_owned(),
        ])
    }

    fn args(&self, port: u16) -> Vec<String> {
        let file = |name: &str| self.dir.join(name).display().to_string();
        let flags = [
            ("etcd-servers", format!("http://127.0.0.1:{}", self.options.ports().etcd(0))),
            ("secure-port", port.to_string()),
            ("bind-address", "127.0.0.1".into()),
            // Not one of loopback, which 1.37 does not announce; and nobody is to be told of it.
            ("advertise-address", "192.0.2.7".into()),
            ("endpoint-reconciler-type", "none".into()),
            ("cert-dir", file("certs")),
            ("tls-cert-file", self.serving.certificate.display().to_string()),
            ("tls-private-key-file", self.serving.key.display().to_string()),
            ("token-auth-file", file(TOKENS)),
            ("service-account-key-file", file("accounts.pub")),
            ("service-account-signing-key-file", file("accounts.key")),
            ("service-account-issuer", "https://kubernetes.default.svc".into()),
            ("service-cluster-ip-range", "10.0.0.0/16".into()),
            ("authorization-mode", "RBAC".into()),
            ("disable-admission-plugins", "ServiceAccount".into()),
            ("requestheader-client-ca-file", self.authority.certificate().display().to_string()),
            ("requestheader-allowed-names", "front-proxy".into()),
            ("requestheader-username-headers", "X-Remote-User".into()),
            ("requestheader-uid-headers", "X-Remote-Uid".into()),
            ("requestheader-group-headers", "X-Remote-Group".into()),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-".into()),
            // When it is told to end it waits so long for open watches.
            ("request-timeout", "10s".into()),
            // What was written is compared from the beginning.
            ("etcd-compaction-interval", "0".into()),
        ];
        flags.into_iter().map(|(flag, value)| format!("--{flag}={value}")).collect()
    }
}
