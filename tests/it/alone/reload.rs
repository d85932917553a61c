//! Files of the TLS listener that change while the server runs: what is right counts on the next request, what is wrong is told once, and only those
//! streams end whose credentials are taken away.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{Alone, Failure, Outcome, asked, secure::start};
use crate::{
    client::{Client, Watch},
    live::{free_address, peers::Site},
};

/// How long a change may take to count, on a busy machine; 2 s on an idle one.
const PATIENCE: Duration = Duration::from_secs(600);
/// Several looks of the server at its files.
const SOME_LOOKS: Duration = Duration::from_secs(4);

/// A line of the token file that is always there.
const STAYS: &str = "stays,operator,2,system:masters\n";

const NAMESPACE: &str = "/api/v1/namespaces/default";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
struct Pair {
    certificate: CertificateDer<'static>,
    cert: String,
    key: KeyPair,
}

impl Authority {
    fn new() -> Result<Self, Failure> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority");
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    fn sign(&self, usage: ExtendedKeyUsagePurpose) -> Result<Pair, Failure> {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, "jane");
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?;
        Ok(Pair { certificate: certificate.der().clone(), cert: certificate.pem(), key })
    }

    fn der(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }
}

impl Pair {
    fn of_client(self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        (self.certificate, PrivatePkcs8KeyDer::from(self.key.serialize_der()).into())
    }
}

/// A server whose files are in a folder, as a Secret is mounted: links that lead through `..data`.
struct Mounted {
    server: Alone,
    address: SocketAddr,
    folder: PathBuf,
    files: BTreeMap<&'static str, String>,
    version: usize,
}

impl Mounted {
    async fn start(dir: &Path, files: BTreeMap<&'static str, String>) -> Result<Self, Failure> {
        let (folder, address) = (dir.join("mounted"), free_address()?);
        fs::create_dir(&folder)?;
        for name in files.keys() {
            symlink(Path::new("..data").join(name), folder.join(name))?;
        }
        mount(&folder, 0, &files)?;
        let mut flags = vec![format!("--secure-port={}", address.port()), "--bind-address=127.0.0.1".to_owned()];
        for (flag, name) in [
            ("--tls-cert-file", "tls.crt"),
            ("--tls-private-key-file", "tls.key"),
            ("--client-ca-file", "ca.crt"),
            ("--token-auth-file", "tokens.csv"),
        ] {
            flags.push(format!("{flag}={}", folder.join(name).display()));
        }
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Ok(Self { server: Alone::start_with(dir, &flags).await?, address, folder, files, version: 0 })
    }

    /// Another version of the folder, with one file changed.
    fn put(&mut self, name: &'static str, text: &str) -> Outcome {
        self.files.insert(name, text.to_owned());
        self.version += 1;
        mount(&self.folder, self.version, &self.files)
    }

    /// How often the log has these words.
    fn told(&self, words: &str) -> Result<usize, Failure> {
        Ok(fs::read_to_string(&self.server.log)?.matches(words).count())
    }

    /// Waits until the log has these words so often.
    async fn tells(&self, words: &str, count: usize) -> Outcome {
        let there = async {
            while self.told(words)? < count {
                sleep(Duration::from_millis(100)).await;
            }
            Ok::<_, Failure>(())
        };
        timeout(PATIENCE, there).await.map_err(|_| format!("the log does not say {words:?}"))??;
        assert_eq!(self.told(words)?, count, "{words}");
        Ok(())
    }
}

fn mount(folder: &Path, version: usize, files: &BTreeMap<&'static str, String>) -> Outcome {
    let data = format!("..version{version}");
    fs::create_dir(folder.join(&data))?;
    for (name, text) in files {
        fs::write(folder.join(&data).join(name), text)?;
    }
    symlink(&data, folder.join("..part"))?;
    Ok(fs::rename(folder.join("..part"), folder.join("..data"))?)
}

/// The status of a request; none when there was no handshake.
async fn status(client: &Client) -> Option<u16> {
    client.fetch(NAMESPACE).await.ok().map(|answer| answer.status)
}

async fn until(client: &Client, wanted: Option<u16>) -> Outcome {
    let there = async {
        while status(client).await != wanted {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, there).await.map_err(|_| format!("never was {wanted:?}").into())
}

/// A watch ends with 401.
async fn ends(watch: &mut Watch) -> Outcome {
    let last = timeout(PATIENCE, watch.next_line()).await.map_err(|_| "the watch goes on")??.ok_or("no ERROR")?;
    let last: Value = serde_json::from_slice(&last)?;
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(401)));
    assert!(timeout(PATIENCE, watch.next_line()).await??.is_none(), "it has ended");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_count_when_they_change() -> Outcome {
    let dir = tempfile::tempdir()?;
    let (old, new) = (Authority::new()?, Authority::new()?);
    let (served, serves_next) = (old.sign(ExtendedKeyUsagePurpose::ServerAuth)?, new.sign(ExtendedKeyUsagePurpose::ServerAuth)?);
    let files = [
        ("tls.crt", served.cert),
        ("tls.key", served.key.serialize_pem()),
        ("ca.crt", old.0.pem()),
        ("tokens.csv", format!("first,admin,1,system:masters\n{STAYS}")),
    ];
    let mut site = Mounted::start(dir.path(), files.into()).await?;
    let address = site.address;
    let by_token = |authority: &Authority, token: &str| Client::secure(address, authority.der(), token);
    let (first, second) = (by_token(&old, "first"), by_token(&old, "second"));
    let jane = Client::certified(address, old.der(), old.sign(ExtendedKeyUsagePurpose::ClientAuth)?.of_client());
    let next_jane = Client::certified(address, old.der(), new.sign(ExtendedKeyUsagePurpose::ClientAuth)?.of_client());
    for (client, wanted) in [(&first, 200), (&second, 401), (&jane, 200), (&next_jane, 401)] {
        assert_eq!(status(client).await, Some(wanted));
    }
    let watch = async |client: &Client| -> Result<Watch, Failure> {
        Ok(client.watch(&format!("{MAPS}?watch=1")).await?.map_err(|answer| format!("no watch: {}", answer.status))?)
    };
    let (mut of_first, mut of_jane, mut stays) = (watch(&first).await?, watch(&jane).await?, watch(&by_token(&old, "stays")).await?);

    // What is wrong is told once, and changes nothing.
    site.put("tokens.csv", "second,admin")?;
    site.put("ca.crt", "no certificate")?;
    let file = |name: &str| site.folder.join(name).display().to_string();
    let wrong = [
        format!("--token-auth-file {}: record 1 must have at least 3 columns (token, user name, user uid), found 2", file("tokens.csv")),
        format!("--client-ca-file {}: no certificate in it", file("ca.crt")),
    ];
    for line in &wrong {
        site.tells(line, 1).await?;
    }
    sleep(SOME_LOOKS).await;
    assert_eq!((status(&first).await, status(&second).await, status(&jane).await), (Some(200), Some(401), Some(200)));
    for line in &wrong {
        assert_eq!(site.told(line)?, 1, "{line}");
    }

    // Tokens and authorities: on connections that are open, too.
    site.put("tokens.csv", &format!("second,admin,1,system:masters\n{STAYS}"))?;
    until(&second, Some(200)).await?;
    assert_eq!(status(&first).await, Some(401));
    ends(&mut of_first).await?;
    site.put("ca.crt", &new.0.pem())?;
    until(&next_jane, Some(200)).await?;
    assert_eq!(status(&jane).await, Some(401));
    ends(&mut of_jane).await?;

    // The certificate before its key: both are waited for.
    let (before, after) = (by_token(&old, "second"), by_token(&new, "second"));
    site.put("tls.crt", &serves_next.cert)?;
    sleep(SOME_LOOKS).await;
    assert_eq!((status(&before).await, status(&after).await), (Some(200), None));
    site.put("tls.key", &serves_next.key.serialize_pem())?;
    until(&after, Some(200)).await?;
    assert_eq!(status(&by_token(&old, "second")).await, None);
    assert_eq!(status(&before).await, Some(200), "a connection stays what it is");
    site.tells("files have changed and are in force", 3).await?;

    asked(&site.server.client(), ("POST", MAPS), Some(&json!({"metadata": {"name": "a"}})), 201).await?;
    let event = timeout(PATIENCE, stays.next_line()).await.map_err(|_| "the watch is silent")??.ok_or("the watch has ended")?;
    assert!(String::from_utf8_lossy(&event).contains("ADDED"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_of_tokens_can_be_another() -> Outcome {
    const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let key = dir.path().join("tokens.key");
    fs::write(&key, KeyPair::generate()?.serialize_pem())?;
    let flag = format!("--service-account-signing-key-file={}", key.display());
    let server = start(dir.path(), &site, listener, &[&flag]).await?;
    let admin = site.client(listener);
    asked(&admin, ("POST", ACCOUNTS), Some(&json!({"metadata": {"name": "robot"}})), 201).await?;
    let token = async || -> Result<Client, Failure> {
        let answer = asked(&admin, ("POST", &format!("{ACCOUNTS}/robot/token")), Some(&json!({})), 201).await?;
        Ok(site.client_of(listener, answer["status"]["token"].as_str().ok_or("no token")?))
    };
    let status = async |client: &Client| -> Result<u16, Failure> { Ok(client.fetch("/apis").await?.status) };
    let keys = async || asked(&admin, ("GET", "/openid/v1/jwks"), None, 200).await;
    let (old, before) = (token().await?, keys().await?);
    assert_eq!(status(&old).await?, 200);
    fs::write(&key, KeyPair::generate()?.serialize_pem())?;
    let changed = async {
        while keys().await? == before {
            sleep(Duration::from_millis(100)).await;
        }
        Ok::<_, Failure>(())
    };
    timeout(PATIENCE, changed).await.map_err(|_| "the keys stay")??;
    // It was good a moment ago.
    assert_eq!(status(&old).await?, 401);
    assert_eq!(status(&token().await?).await?, 200);
    server.kill()
}
