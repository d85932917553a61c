//! A cluster that this server extends: it answers TokenReviews, and its ConfigMap says which certificates are believed.

use std::sync::atomic::AtomicUsize;

use super::*;
use crate::providers::settings::HostCluster;

const CONFIG_MAP: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// An authority, and a client certificate of it.
fn signed() -> (String, rustls::pki_types::CertificateDer<'static>) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut authority = rcgen::CertificateParams::new(Vec::new()).expect("no names");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let pem = authority.self_signed(&key).expect("a certificate").pem();
    let mut client = rcgen::CertificateParams::new(Vec::new()).expect("no names");
    client.distinguished_name.push(rcgen::DnType::CommonName, "jane");
    client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let issuer = rcgen::Issuer::new(authority, key);
    let client = client.signed_by(&rcgen::KeyPair::generate().expect("a key"), &issuer).expect("a certificate");
    (pem, client.der().clone())
}

/// A cluster with these ConfigMaps, one after the other; 403 before and after.
async fn cluster(maps: Vec<Option<Value>>) -> (Server, Arc<AtomicUsize>) {
    let at = Arc::new(AtomicUsize::new(0));
    let server = Server::start({
        let at = at.clone();
        move |asked| match asked.uri.path() {
            CONFIG_MAP => match maps.get(at.load(Ordering::Relaxed)) {
                Some(Some(data)) => Reaction::json(&json!({"kind": "ConfigMap", "apiVersion": "v1", "data": data})),
                _ => Reaction::Answer(403, "application/json", json!({"kind": "Status", "message": "not for you"}).to_string().into()),
            },
            REVIEWS => webhook(asked),
            other => Reaction::Answer(404, "text/plain", other.to_owned().into()),
        }
    })
    .await;
    (server, at)
}

async fn extending(server: &Server, skip_lookup: bool, tolerate: bool) -> Result<(Arc<Providers>, TempDir), String> {
    let directory = tempfile::tempdir().expect("a directory");
    let kubeconfig = directory.path().join("host");
    std::fs::write(&kubeconfig, server.kubeconfig("")).expect("written");
    let cluster = HostCluster {
        flag: "--authentication-kubeconfig",
        kubeconfig,
        skip_lookup,
        tolerate_lookup_failure: tolerate,
        needs_proxy: true,
        is_upstream: false,
        presence: Arc::default(),
    };
    let config = config::Providers { cluster: Some(cluster), ..config::Providers::default() };
    let started = start(&config, authenticator()).await.map_err(|error| error.to_string())?;
    Ok((started, directory))
}

fn believes(providers: &Providers, certificate: &rustls::pki_types::CertificateDer<'static>) -> bool {
    let now = SystemTime::now();
    let presented = providers.authenticator.presented(Some(std::slice::from_ref(certificate)), now);
    let evaluated = providers.authenticator.evaluated(&presented, now);
    matches!(&evaluated.trust, crate::authn::CertificateTrust::Trusted { user, .. } if user.name == "jane")
}

#[tokio::test]
async fn the_cluster_says_whose_tokens_and_certificates_are() {
    let ((one_pem, one), (two_pem, two)) = (signed(), signed());
    let data = |clients: &str| {
        Some(
            json!({"client-ca-file": clients, "requestheader-client-ca-file": one_pem, "requestheader-username-headers": "[\"X-Remote-User\"]"}),
        )
    };
    let (server, at) = cluster(vec![data(&one_pem), Some(json!({"client-ca-file": "x"})), data(&two_pem)]).await;
    let (providers, _directory) = extending(&server, false, false).await.expect("it starts");
    assert_eq!(authenticate(&providers, "jane", HERE).await.as_deref(), Ok("jane"));
    assert_eq!((believes(&providers, &one), believes(&providers, &two)), (true, false));
    assert!(providers.authenticator.handshake_verifier().is_some());
    at.store(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(believes(&providers, &one), "a wrong ConfigMap changes nothing");
    at.store(2, Ordering::Relaxed);
    for _ in 0..150 {
        if believes(&providers, &two) {
            assert!(!believes(&providers, &one));
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the change is not seen");
}

#[tokio::test]
async fn a_cluster_that_says_nothing_is_fatal_or_tolerated() {
    let (server, _) = cluster(Vec::new()).await;
    let why = extending(&server, false, false).await.map(|_| ()).expect_err("not for us");
    assert_eq!(why, "--authentication-kubeconfig: unable to load configmap based request-header-client-ca-file: not for you");
    let (tolerant, _directory) = extending(&server, false, true).await.expect("it starts");
    let (skipping, _other) = extending(&server, true, false).await.expect("it starts");
    for providers in [tolerant, skipping] {
        assert_eq!(authenticate(&providers, "jane", HERE).await.as_deref(), Ok("jane"));
        assert!(providers.authenticator.handshake_verifier().is_none());
    }
    assert_eq!(server.asked().iter().filter(|asked| asked.uri.path() == CONFIG_MAP).count(), 2);
    let (pem, _) = signed();
    let (no_proxy, _) = cluster(vec![Some(json!({"client-ca-file": pem}))]).await;
    let why = extending(&no_proxy, false, false).await.map(|_| ()).expect_err("nothing of proxies");
    assert!(why.ends_with("missing content for CA bundle requestheader-client-ca-file"), "{why}");
}
