//! The TLS door as others see it: what browsers are told.

use std::{net::SocketAddr, path::Path};

use super::{Alone, Failure, Outcome};
use crate::{
    client::Client,
    live::{free_address, peers::Site},
};

/// A server with a TLS door here, and these flags.
async fn start(dir: &Path, site: &Site, door: SocketAddr, flags: &[&str]) -> Result<Alone, Failure> {
    let file = |name: &str, file: &str| format!("{name}={}", site.path().join(file).display());
    let own = [
        format!("--secure-port={}", door.port()),
        "--bind-address=127.0.0.1".to_owned(),
        file("--tls-cert-file", "server.crt"),
        file("--tls-private-key-file", "server.key"),
        file("--token-auth-file", "tokens.csv"),
    ];
    let all: Vec<&str> = own.iter().map(String::as_str).chain(flags.iter().copied()).collect();
    Alone::start_with(dir, &all).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn browsers_are_told_to_keep_to_tls() -> Outcome {
    let (dir, door) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let flag = "--strict-transport-security-directives=max-age=31536000,includeSubDomains";
    let server = start(dir.path(), &site, door, &[flag]).await?;
    let told = async |client: &Client, target: &str| -> Result<(u16, Vec<String>), Failure> {
        let whole = client.whole("GET", target, &[], b"").await?;
        Ok((whole.status, whole.header("strict-transport-security").map(str::to_owned).collect()))
    };
    for (target, status) in [
        ("/version", 200),
        ("/readyz", 200),
        ("/metrics", 200),
        ("/api/v1/namespaces/default", 200),
        ("/api/v1/configmaps?watch=1&timeoutSeconds=1", 200),
        ("/api/v1/configmaps?timeout=x", 400),
        ("/nothing", 404),
    ] {
        assert_eq!(told(&site.client(door), target).await?, (status, vec!["max-age=31536000; includeSubDomains".to_owned()]), "{target}");
        assert_eq!(told(&server.client(), target).await?, (status, Vec::new()), "{target}");
    }
    Ok(())
}
