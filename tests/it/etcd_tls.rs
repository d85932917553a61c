//! Why a connection to an etcd behind TLS fails stands in the log, from the start on: the etcd is a peer that does no more than the handshake.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::live::free_address;

/// What is said when the alert is lost, which is a matter of chance.
const HINT: &str = "it may want a client certificate";
/// Long after a line is written.
const PATIENCE: Duration = Duration::from_secs(600);

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Authority {
    file: PathBuf,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(dir: &Path, name: &str) -> Result<Self, Failure> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let signed = params.self_signed(&key)?;
        let file = dir.join(format!("{name}.pem"));
        fs::write(&file, signed.pem())?;
        Ok(Self { file, certificate: signed.der().clone(), issuer: Issuer::new(params, key) })
    }

    /// A peer of this name that wants certificates of its clients, as `etcd --client-cert-auth`; its URL. `is_hasty`: it closes the connection before its
    /// alert is read, as etcd does.
    async fn serve(&self, name: &str, is_hasty: bool) -> Result<String, Failure> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let chain = vec![params.signed_by(&key, &self.issuer)?.der().clone()];
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = if is_hasty { config.with_no_client_auth() } else { config.with_client_cert_verifier(verifier) };
        let mut config = config.with_single_cert(chain, PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}", listener.local_addr()?);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                // Every client is refused here, or refuses.
                tokio::spawn(async move { acceptor.accept(stream).await.is_err() });
            }
        });
        Ok(url)
    }
}

/// Killed when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It has no data and no clients.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The line of a server at its start that names etcd's error.
async fn told(dir: &Path, etcd: &str, trusted: &Authority) -> Result<String, Failure> {
    let (log, port) = (dir.join("server.log"), free_address()?.port().to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.args(["serve", "--insecure-port", &port, "--etcd-servers", etcd, "--etcd-cafile"]).arg(&trusted.file);
    let mut server = Server(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log)?).spawn()?);
    let began = Instant::now();
    loop {
        let lines = fs::read_to_string(&log)?;
        if let Some(line) = lines.lines().find(|line| line.contains("etcd does not answer")) {
            return Ok(line.to_owned());
        }
        if began.elapsed() > PATIENCE || server.0.try_wait()?.is_some() {
            return Err(format!("no word of etcd: {lines}").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// It said `not ready: still loading from etcd` every ten seconds, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reason_is_told_at_the_start() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let (ours, other) = (Authority::new(dir.path(), "ours")?, Authority::new(dir.path(), "other")?);
    for (case, etcd, trusted, reasons) in [
        ("wrong authority", ours.serve("127.0.0.1", false).await?, &other, &["invalid peer certificate: UnknownIssuer"][..]),
        ("wrong name", ours.serve("elsewhere.example", false).await?, &ours, &["certificate not valid for name"]),
        ("no client certificate", ours.serve("127.0.0.1", false).await?, &ours, &["received fatal alert: CertificateRequired", HINT]),
        ("no client certificate, no alert", ours.serve("127.0.0.1", true).await?, &ours, &[HINT]),
    ] {
        let line = told(dir.path(), &etcd, trusted).await?;
        assert!(reasons.iter().any(|reason| line.contains(reason)) && line.contains("WARN"), "{case}: {line}");
    }
    Ok(())
}

/// The help said that the system's authorities were trusted without the flag; nothing started without it.
#[test]
fn an_authority_must_be_named() -> Result<(), Failure> {
    let run = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_watchcache")).args(args).stdin(Stdio::null()).output();
    let help = String::from_utf8(run(&["serve", "--help"])?.stdout)?.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("required for https, because the system's authorities are not used"), "{help}");
    let port = free_address()?.port().to_string();
    let refused = run(&["serve", "--insecure-port", &port, "--etcd-servers", "https://127.0.0.1:2379"])?;
    let why = String::from_utf8(refused.stderr)?;
    assert!(!refused.status.success() && why.contains("needs --etcd-cafile: the system's certificate authorities are not used"), "{why}");
    Ok(())
}
