//! What is forwarded goes as the client by impersonation (`--upstream-impersonate`), so that a client may come with a certificate that upstream never sees.

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};

use super::{Fed, MAPS, create, first::lets_read, names};
use crate::{alone::asked, client::Client, live::Outcome};

const REVIEW: (&str, &str) = ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews");

/// Who upstream says that a client is.
async fn who(client: &Client) -> Result<Value, Box<dyn std::error::Error>> {
    let review = asked(client, REVIEW, Some(&json!({})), 201).await.map_err(|error| error.to_string())?;
    Ok(review["status"]["userInfo"].clone())
}

#[tokio::test]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn clients_are_forwarded_by_impersonation() -> Outcome {
    let authorities = |site: &super::Site| format!("--client-ca-file={}", site.path().join("ca.crt").display());
    let fed = Fed::start(|site| vec!["--upstream-impersonate".to_owned(), authorities(site)]).await?;
    let (site, theirs) = (&fed.site, fed.site.client(fed.theirs_at));
    let file = |name: &str| site.path().join(name);
    let own = (CertificateDer::from_pem_file(file("proxy.crt"))?, PrivateKeyDer::from_pem_file(file("proxy.key"))?);
    let certified = Client::certified(fed.ours_at, CertificateDer::from_pem_file(file("ca.crt"))?, own);
    let (ours, jane) = (site.client(fed.ours_at), site.client_of(fed.ours_at, "janetoken"));

    // Whatever proves who a client is, upstream hears who it is, and judges.
    assert_eq!(who(&certified).await?["username"], "front-proxy");
    let known = who(&jane).await?;
    assert_eq!(
        (&known["username"], &known["uid"], &known["groups"]),
        (&json!("jane"), &json!("2"), &json!(["dev", "ops", "system:authenticated"]))
    );
    let refused =
        asked(&jane, ("POST", MAPS), Some(&json!({"metadata": {"name": "hers"}})), 403).await.map_err(|error| error.to_string())?;
    assert!(refused["message"].as_str().is_some_and(|message| message.contains("User \"jane\" cannot create resource")), "{refused}");
    assert_eq!(certified.fetch(MAPS).await?.status, 403);

    // What memory has is for whom upstream lets read it.
    create(&ours, "ours").await?;
    lets_read(&theirs, "front-proxy", &certified).await?;
    for query in ["", "?resourceVersion=0"] {
        assert!(names(&certified, query).await?.contains(&"ours".to_owned()), "{query}");
    }

    // An administrator who acts as somebody is somebody, here and there.
    let acting = async |name: &str, target: &str| {
        let headers = [("Impersonate-User".to_owned(), name.to_owned()), ("Accept".to_owned(), "application/json".to_owned())];
        ours.whole("GET", target, &headers, b"").await.map(|answer| answer.status)
    };
    for target in [MAPS, &format!("{MAPS}?resourceVersion=0"), "/api/v1/secrets"] {
        assert_eq!((acting("jane", target).await?, acting("front-proxy", target).await?), (403, 200), "{target}");
    }
    assert_eq!(ours.fetch("/api/v1/secrets").await?.status, 200);
    let headers = [("Impersonate-User".to_owned(), "front-proxy".to_owned())];
    assert_eq!(jane.whole("GET", MAPS, &headers, b"").await?.status, 403, "she may act as nobody");
    Ok(())
}
