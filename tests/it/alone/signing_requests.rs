//! Requests for certificates whose text may be read in two ways: what is judged is what a signer reads. The texts are those of kube-apiserver 1.36.3.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{Failure, Outcome, asked, secure::start};
use crate::{
    client::Client,
    live::{free_address, peers::Site},
};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Requests of `O=system:masters` as UTF8String, T61String and BMPString, and one of `CN=joe` alone.
const MASTERS: [&str; 3] = [
    include_str!("../../data/certificates/masters.pem"),
    include_str!("../../data/certificates/masters-t61.pem"),
    include_str!("../../data/certificates/masters-bmp.pem"),
];
const JOE: &str = include_str!("../../data/certificates/joe.pem");

/// Asks for a certificate of this signer; the message of the answer, which must have this status.
async fn requested(client: &Client, name: &str, signer: &str, pem: &str, status: u16) -> Result<Value, Failure> {
    let spec = json!({"request": BASE64_STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"]});
    let answer = asked(client, ("POST", REQUESTS), Some(&json!({"metadata": {"name": name}, "spec": spec})), status).await?;
    Ok(answer["message"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_signer_would_read_is_judged() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = start(dir.path(), &site, listener, &[]).await?;
    let admin = site.client(listener);
    let clients = "kubernetes.io/kube-apiserver-client";
    // A first block whose lines do not fit each other is none.
    let hidden = |mark: &str| format!("{}{}", JOE.replace("-----END CERTIFICATE REQUEST-----", mark), MASTERS[0]);
    let two = ["-----END XXX-----", "-----END certificate request-----", "-----END CERTIFICATE REQUEST"].map(hidden);
    let refused = r#"certificatesigningrequests.certificates.k8s.io "r" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"#;
    for pem in MASTERS.into_iter().chain(two.iter().map(String::as_str)) {
        assert_eq!(requested(&admin, "r", clients, pem, 403).await?, refused, "{pem}");
    }
    requested(&admin, "joe", clients, &format!("{JOE}{}", MASTERS[0]), 201).await?;
    requested(&admin, "masters", "example.com/own", MASTERS[0], 201).await?;
    // What is no request is refused whoever should sign it.
    let damaged = JOE.replacen("\nMIH", "\nMIJ", 1);
    for (pem, why) in [
        ("", "PEM block type must be CERTIFICATE REQUEST"),
        (damaged.as_str(), "asn1: "),
        (&MASTERS[0].replace("CERTIFICATE REQUEST", "CERTIFICATE"), "PEM block type must be CERTIFICATE REQUEST"),
    ] {
        for signer in [clients, "example.com/own"] {
            let message = requested(&admin, "r", signer, pem, 422).await?;
            assert!(message.as_str().is_some_and(|text| text.contains("spec.request: Invalid value: ") && text.contains(why)), "{message}");
        }
    }
    let status = json!({"status": {"certificate": BASE64_STANDARD.encode("no certificate")}});
    let merge = [("content-type".to_owned(), "application/merge-patch+json".to_owned())];
    let signed = admin.whole("PATCH", &format!("{REQUESTS}/joe/status"), &merge, status.to_string().as_bytes()).await?;
    let message = serde_json::from_slice::<Value>(&signed.body)?["message"].clone();
    let wanted = r#"CertificateSigningRequest.certificates.k8s.io "joe" is invalid: status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block"#;
    assert_eq!((signed.status, message), (422, json!(wanted)));
    server.kill()?;
    Ok(())
}
