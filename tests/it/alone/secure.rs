//! The TLS listener as others see it: what browsers are told, and how clients inside of a cluster find it.

use std::{net::SocketAddr, path::Path, time::Duration};

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Alone, Failure, Outcome, asked};
use crate::{
    client::Client,
    live::{free_address, peers::Site},
};

/// How long the three objects may take to be there.
const PATIENCE: Duration = Duration::from_secs(600);

const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";

/// A server with a TLS listener here, and these flags.
pub(crate) async fn start(dir: &Path, site: &Site, listener: SocketAddr, flags: &[&str]) -> Result<Alone, Failure> {
    let file = |name: &str, file: &str| format!("{name}={}", site.path().join(file).display());
    let own = [
        format!("--secure-port={}", listener.port()),
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
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let flag = "--strict-transport-security-directives=max-age=31536000,includeSubDomains";
    let server = start(dir.path(), &site, listener, &[flag]).await?;
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
        assert_eq!(
            told(&site.client(listener), target).await?,
            (status, vec!["max-age=31536000; includeSubDomains".to_owned()]),
            "{target}"
        );
        assert_eq!(told(&server.client(), target).await?, (status, Vec::new()), "{target}");
    }
    Ok(())
}

/// The three objects as kube-apiserver 1.36.3 has them with `--advertise-address=192.0.2.7 --secure-port=6443 --service-cluster-ip-range=10.0.0.0/24`;
/// the port is this one.
fn recorded(port: u16) -> Result<Value, Failure> {
    Ok(serde_json::from_str(&include_str!("../../data/kubernetes/objects.json").replace("6443", &port.to_string()))?)
}

/// What is there, without what no two servers have in common.
async fn found(client: &Client) -> Result<Value, Failure> {
    let mut all = Vec::new();
    for target in [SERVICE, ENDPOINTS, SLICE] {
        let mut object: Value = serde_json::from_slice(&client.fetch(target).await?.body)?;
        for member in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            object["metadata"].as_object_mut().map(|metadata| metadata.remove(member));
        }
        all.push(object);
    }
    Ok(all.into())
}

async fn expect(client: &Client, wanted: &Value) -> Outcome {
    let all_there = async {
        loop {
            let found = found(client).await?;
            if found == *wanted {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    match timeout(PATIENCE, all_there).await {
        Ok(there) => there,
        Err(_) => Err(format!("{:#} and not {wanted:#}", found(client).await?).into()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_inside_of_a_cluster_find_the_server() -> Outcome {
    let (dir, listener, other) = (tempfile::tempdir()?, free_address()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = start(dir.path(), &site, listener, &["--advertise-address=192.0.2.7"]).await?;
    let mut wanted = recorded(listener.port())?;
    expect(&server.client(), &wanted).await?;
    server.kill()?;
    // The Service stays what it is, the endpoints follow the listener.
    let server = start(dir.path(), &site, other, &["--advertise-address=192.0.2.7"]).await?;
    let client = server.client();
    for object in [1, 2] {
        wanted[object] = recorded(other.port())?[object].clone();
    }
    wanted[2]["metadata"]["generation"] = json!(2);
    expect(&client, &wanted).await?;
    // What somebody changes or deletes is mended, at the next look.
    asked(&client, ("PATCH", ENDPOINTS), Some(&json!({"subsets": null})), 200).await?;
    asked(&client, ("DELETE", SERVICE), None, 200).await?;
    wanted[0] = recorded(other.port())?[0].clone();
    expect(&client, &wanted).await?;
    server.kill()?;
    // A listener on loopback is told of at the host's own address, if it has one that others could reach.
    let server = start(dir.path(), &site, listener, &[]).await?;
    let there = found(&server.client()).await?;
    assert_eq!(there[0], wanted[0]);
    let address = there[1]["subsets"][0]["addresses"][0]["ip"].as_str().ok_or("no endpoint")?;
    assert!(!address.parse::<std::net::IpAddr>()?.is_loopback(), "{there}");
    Ok(())
}
