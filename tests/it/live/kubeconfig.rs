//! `--write-admin-kubeconfig` as kubectl sees it: the file is enough.

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
};

use super::{free_address, peers::Site};
use crate::alone::{Alone, Outcome};

const NAMESPACES: &str = "namespace/default\nnamespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system\n";

/// What kubectl says of a server with these flags.
async fn namespaces(dir: &Path, flags: &[&str]) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let kubectl = env::var_os("WATCHCACHE_TEST_KUBECTL").ok_or("WATCHCACHE_TEST_KUBECTL does not name a kubectl")?;
    let (port, file) = (free_address()?.port().to_string(), dir.join("admin.conf").display().to_string());
    let own = ["--secure-port", &port, "--bind-address", "127.0.0.1", "--write-admin-kubeconfig", &file];
    let _server = Alone::start_with(dir, &[&own, flags].concat()).await?;
    let mut command = Command::new(kubectl);
    command.args(["get", "ns", "-o", "name", "--kubeconfig", &file]);
    let output = command.env("HOME", dir).stdin(Stdio::null()).output()?;
    Ok(String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr }).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn kubectl_needs_nothing_else() -> Outcome {
    let dir = tempfile::tempdir()?;
    assert_eq!(namespaces(dir.path(), &[]).await?, NAMESPACES);
    // A certificate that is given: its file has not the authority that signed it, and it is not for the address that the kubeconfig has.
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let given = rcgen::generate_simple_self_signed(["watchcache.example".to_owned()])?;
    let [cert, key] = ["given.crt", "given.key"].map(|name| site.path().join(name));
    std::fs::write(&cert, given.cert.pem())?;
    std::fs::write(&key, given.signing_key.serialize_pem())?;
    let file = |name: &str| site.path().join(name).display().to_string();
    for (cert, key) in [("server.crt", "server.key"), ("given.crt", "given.key")] {
        assert_eq!(
            namespaces(dir.path(), &["--tls-cert-file", &file(cert), "--tls-private-key-file", &file(key)]).await?,
            NAMESPACES,
            "{cert}"
        );
    }
    Ok(())
}
