//! `--write-admin-kubeconfig`: one command, and an administrator has what kubectl needs.

use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::json;

use super::{Alone, Failure, Outcome, asked};
use crate::{client::Client, live::free_address};

async fn start(dir: &Path, listener: SocketAddr) -> Result<Alone, Failure> {
    let (port, file) = (listener.port().to_string(), dir.join("admin.conf").display().to_string());
    Alone::start_with(dir, &["--secure-port", &port, "--bind-address", "127.0.0.1", "--write-admin-kubeconfig", &file]).await
}

/// A client with what the kubeconfig says.
fn client(kubeconfig: &str, listener: SocketAddr) -> Result<Client, Failure> {
    let member = |name: &str| -> Result<Vec<u8>, Failure> {
        let value = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": ")).ok_or("no such member")?;
        Ok(BASE64_STANDARD.decode(value)?)
    };
    assert!(kubeconfig.contains(&format!("    server: https://{listener}\n")), "{kubeconfig}");
    let certificate = CertificateDer::from_pem_slice(&member("client-certificate-data")?)?;
    let key = PrivateKeyDer::from_pem_slice(&member("client-key-data")?)?;
    let authority = CertificateDer::from_pem_slice(&member("certificate-authority-data")?)?;
    Ok(Client::certified(listener, authority, (certificate, key)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrator_has_what_he_needs() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let server = start(dir.path(), listener).await?;
    let kubeconfig = fs::read_to_string(dir.path().join("admin.conf"))?;
    let admin = client(&kubeconfig, listener)?;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let who = asked(&admin, ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"), Some(&review), 201).await?;
    let who = &who["status"]["userInfo"];
    assert_eq!((&who["username"], &who["groups"]), (&json!("kubernetes-admin"), &json!(["system:masters", "system:authenticated"])));
    let map = json!({"metadata": {"name": "a"}});
    asked(&admin, ("POST", "/api/v1/namespaces/default/configmaps"), Some(&map), 201).await?;
    for file in ["admin.conf", "data/ca.pem", "data/server.pem", "data/admin.pem"] {
        assert_eq!(fs::metadata(dir.path().join(file))?.permissions().mode() & 0o777, 0o600, "{file}");
    }
    server.kill()?;
    // What was given away stays good; what is lost is written again.
    fs::remove_file(dir.path().join("admin.conf"))?;
    let server = start(dir.path(), listener).await?;
    asked(&admin, ("GET", "/api/v1/namespaces/default/configmaps/a"), None, 200).await?;
    assert_eq!(fs::read_to_string(dir.path().join("admin.conf"))?, kubeconfig);
    server.kill()
}
