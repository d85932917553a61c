//! The program under the names etcd and kube-apiserver, as test environments start the two: with their flags, in a folder that `setup-envtest` has made.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};

use super::{Failure, Outcome, asked};
use crate::{
    client::Client,
    live::{
        free_address,
        peers::{Running, Site, TOKEN},
    },
};

/// How long a program may take to end.
const PATIENCE: Duration = Duration::from_secs(120);

const OBJECTS: &str = "/api/v1/namespaces/default/configmaps";

/// Makes the folder for KUBEBUILDER_ASSETS.
fn assets(dir: &Path) -> Result<PathBuf, Failure> {
    let made = Command::new(env!("CARGO_BIN_EXE_watchcache")).arg("setup-envtest").arg(dir.join("assets")).output()?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(PathBuf::from(String::from_utf8(made.stdout)?.trim_end()))
}

/// The flags that controller-runtime's envtest gives kube-apiserver, and a file of tokens for its clients.
fn like_envtest(site: &Site, address: SocketAddr, etcd: SocketAddr) -> Vec<String> {
    let file = |name: &str| site.path().join(name).display().to_string();
    [
        ("allow-privileged", "true".to_owned()),
        ("authorization-mode", "RBAC".to_owned()),
        ("bind-address", address.ip().to_string()),
        ("cert-dir", file("made")),
        ("disable-admission-plugins", "ServiceAccount".to_owned()),
        ("etcd-servers", format!("http://{etcd}")),
        ("secure-port", address.port().to_string()),
        ("service-account-issuer", format!("https://{address}/")),
        ("service-account-key-file", file("accounts.pub")),
        ("service-account-signing-key-file", file("accounts.key")),
        ("service-cluster-ip-range", "10.0.0.0/24".to_owned()),
        ("token-auth-file", file("tokens.csv")),
    ]
    .map(|(flag, value)| format!("--{flag}={value}"))
    .into()
}

fn started(site: &Site, assets: &Path, flags: &[String]) -> Result<Running, Failure> {
    let mut command = Command::new(assets.join("kube-apiserver"));
    command.args(flags);
    Ok(site.start("kube-apiserver", command)?)
}

/// A client that trusts what is in the certificate of `--cert-dir` besides the server's own.
fn trusting(site: &Site, address: SocketAddr, token: &str) -> Result<Client, Failure> {
    let pem = fs::read(site.path().join("made/apiserver.crt"))?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().map_err(|_| "no PEM")?;
    Ok(Client::secure(address, chain.last().ok_or("no certificate")?.clone(), token))
}

async fn ready(site: &Site, server: &Running, address: SocketAddr) -> Result<Client, Failure> {
    let began = Instant::now();
    while !site.path().join("made/apiserver.crt").exists() {
        if let Some(ended) = server.ended() {
            return Err(ended.into());
        }
        assert!(began.elapsed() < PATIENCE, "no certificate: {}", server.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Whoever it is may see that it is healthy, as envtest does.
    server.ready_by(&trusting(site, address, "")?, "/healthz").await.map_err(|error| error.to_string())?;
    let client = trusting(site, address, TOKEN)?;
    server.ready(&client).await.map_err(|error| error.to_string())?;
    server.ready_by(&client, "/api/v1/namespaces/default").await.map_err(|error| error.to_string())?;
    Ok(client)
}

async fn ends(server: &Running) -> Outcome {
    let began = Instant::now();
    loop {
        if let Some(ended) = server.ended() {
            return if ended.contains("exit status: 0") { Ok(()) } else { Err(ended.into()) };
        }
        assert!(began.elapsed() < PATIENCE, "does not end: {}", server.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_environment_starts_the_pair_and_stops_it() -> Outcome {
    let home = tempfile::tempdir()?;
    let assets = assets(home.path())?;
    let site = Site::prepare(&assets).map_err(|error| error.to_string())?;
    let (etcd, etcd_address) = site.etcd()?;
    let plain = Client::plain(etcd_address);
    etcd.ready_by(&plain, "/health").await.map_err(|error| error.to_string())?;
    let address = free_address()?;
    let flags = like_envtest(&site, address, etcd_address);
    let server = started(&site, &assets, &flags)?;
    let client = ready(&site, &server, address).await?;
    let body =
        json!({"metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u"}]}});
    asked(&client, ("POST", OBJECTS), Some(&body), 201).await?;
    let certificate = fs::read(site.path().join("made/apiserver.crt"))?;
    server.signal("TERM")?;
    ends(&server).await?;

    // The next server finds all of it, and keeps the certificate.
    let server = started(&site, &assets, &flags)?;
    let client = ready(&site, &server, address).await?;
    let list = asked(&client, ("GET", OBJECTS), None, 200).await?;
    let found: Vec<&Value> = list["items"].as_array().into_iter().flatten().filter(|item| item["metadata"]["name"] == "a").collect();
    // No garbage is collected, as by kube-apiserver alone.
    assert_eq!(found.len(), 1, "{list}");
    assert!(asked(&client, ("GET", "/api/v1/namespaces/default/serviceaccounts/default"), None, 404).await.is_ok());
    assert_eq!(fs::read(site.path().join("made/apiserver.crt"))?, certificate);
    let log = server.log();
    assert_eq!(log.matches("flags that change nothing here are ignored").count(), 1, "{log}");
    for program in [&server, &etcd] {
        program.signal("TERM")?;
        ends(program).await?;
    }
    Ok(())
}

/// What was answered is there after a kill, though nothing was synced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_without_syncs_that_is_killed_loses_nothing() -> Outcome {
    let home = tempfile::tempdir()?;
    let assets = assets(home.path())?;
    let site = Site::prepare(&assets).map_err(|error| error.to_string())?;
    let (etcd, etcd_address) = site.etcd()?;
    let address = free_address()?;
    let server = started(&site, &assets, &like_envtest(&site, address, etcd_address))?;
    let client = ready(&site, &server, address).await?;
    for round in 0..3 {
        for number in 0..20 {
            asked(&client, ("POST", OBJECTS), Some(&json!({"metadata": {"name": format!("a{round}-{number}")}})), 201).await?;
        }
        etcd.restart()?;
        etcd.ready_by(&Client::plain(etcd_address), "/health").await.map_err(|error| error.to_string())?;
        let began = Instant::now();
        loop {
            let answer = client.fetch(&format!("{OBJECTS}?limit=500")).await?;
            let list: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            if answer.status == 200 && list["items"].as_array().is_some_and(|items| items.len() == 20 * (round + 1)) {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{} {list}", answer.status);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

fn said(program: &Path, flags: &[&str]) -> Result<(Option<i32>, String), Failure> {
    let Output { status, stdout, stderr } = Command::new(program).args(flags).output()?;
    Ok((status.code(), String::from_utf8(stdout)? + &String::from_utf8(stderr)?))
}

#[tokio::test]
async fn what_cannot_be_is_refused_as_there() -> Outcome {
    let home = tempfile::tempdir()?;
    let assets = assets(home.path())?;
    let (etcd, server) = (assets.join("etcd"), assets.join("kube-apiserver"));
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let busy = format!("--listen-client-urls=http://{}", taken.local_addr()?);
    let foreign = home.path().join("etcd/member/snap");
    fs::create_dir_all(&foreign)?;
    fs::write(foreign.join("db"), "x")?;
    let foreign = format!("--data-dir={}", home.path().join("etcd").display());
    let empty = format!("--data-dir={}", home.path().join("empty").display());
    for (program, flags, code, want) in [
        (&server, vec!["--nope"], 1, "Error: unknown flag: --nope\n"),
        (&server, vec!["--secure-port"], 1, "Error: flag needs an argument: --secure-port\n"),
        (&server, vec!["--encryption-provider-config=f"], 1, "Secrets would be stored as plain text"),
        (&server, vec!["--version"], 0, "Kubernetes v1.36."),
        (&etcd, vec!["--nope"], 2, "flag provided but not defined: -nope\n"),
        (&etcd, vec!["--cert-file=c"], 1, "etcd: --cert-file=c is not taken here"),
        (&etcd, vec![&foreign], 1, "etcd"),
        (&etcd, vec![&busy, &empty], 1, "in use"),
    ] {
        let (ended, text) = said(program, &flags)?;
        assert_eq!(ended, Some(code), "{flags:?}: {text}");
        assert!(text.contains(want), "{flags:?}: {text}");
    }
    // By its first argument, it is the same program.
    let (ended, text) = said(Path::new(env!("CARGO_BIN_EXE_watchcache")), &["kube-apiserver", "--nope"])?;
    assert_eq!((ended, &*text), (Some(1), "Error: unknown flag: --nope\n"));
    Ok(())
}

/// Two on one folder: the second one ends, and says which folder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_folder_has_one_etcd() -> Outcome {
    let home = tempfile::tempdir()?;
    let assets = assets(home.path())?;
    let site = Site::prepare(&assets).map_err(|error| error.to_string())?;
    let (etcd, etcd_address) = site.etcd()?;
    etcd.ready_by(&Client::plain(etcd_address), "/health").await.map_err(|error| error.to_string())?;
    let data_dir = format!("--data-dir={}", site.path().join("etcd").display());
    let listen = format!("--listen-client-urls=http://{}", free_address()?);
    let (ended, text) = said(&assets.join("etcd"), &[&data_dir, &listen])?;
    assert_eq!(ended, Some(1), "{text}");
    assert!(text.contains(&site.path().join("etcd").display().to_string()), "{text}");
    Ok(())
}
