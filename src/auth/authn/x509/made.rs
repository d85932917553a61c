//! Certificates of many kinds, made with openssl: whom kube-apiserver 1.36.3 took them for (tests/data/certificates/record.py).

use std::time::{Duration, UNIX_EPOCH};

use rustls::pki_types::UnixTime;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;

use super::*;

/// Kinds of keys that kube-apiserver takes and this server refuses in the handshake, with a line in the log.
const REFUSED: [&str; 2] = ["rsa-1024", "p-224"];

/// What became of a client with this certificate.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// No handshake.
    Refused,
    /// 401, as it is nobody's.
    Nobody,
    /// This user.
    User(String, String, Vec<String>),
}

fn ours(authorities: &Arc<Authorities>, chain: &[CertificateDer<'static>], now: SystemTime) -> Outcome {
    let verifier = handshake_verifier(std::slice::from_ref(authorities)).expect("there are authorities");
    if verifier.verify_client_cert(&chain[0], &chain[1..], UnixTime::since_unix_epoch(Duration::ZERO)).is_err() {
        return Outcome::Refused;
    }
    match authorities.evaluate(&chain[0], &chain[1..], now) {
        CertificateTrust::Trusted { user, .. } => Outcome::User(user.name.clone(), user.uid.clone(), user.groups.clone()),
        CertificateTrust::Untrusted(_) | CertificateTrust::Absent => Outcome::Nobody,
    }
}

/// What kube-apiserver made of it; none where the client did not send it.
fn theirs(case: &Value) -> Option<Outcome> {
    let user = &case["user"];
    let text = |name: &str| user[name].as_str().unwrap_or_default().to_owned();
    match (case["code"].as_u64()?, case["tls12"].as_u64()?) {
        (201, _) => {
            let groups = user["groups"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            Some(Outcome::User(text("username"), text("uid"), groups))
        }
        (401, _) | (403, 401) => Some(Outcome::Nobody),
        (0, _) => Some(Outcome::Refused),
        // It was sent with TLS 1.2 only, and taken.
        (403, 201) => Some(Outcome::User("jane".to_owned(), String::new(), vec!["devs".to_owned(), "system:authenticated".to_owned()])),
        _ => None,
    }
}

#[test]
fn certificates_are_judged_as_kube_apiserver_judges_them() {
    let recorded: Value = serde_json::from_str(include_str!("../../../../tests/data/certificates/cases.json")).expect("JSON");
    let pem = recorded["authorities"].as_str().expect("PEM");
    let authorities = Arc::new(Authorities::from_pem(pem.as_bytes()).expect("authorities"));
    let now = UNIX_EPOCH + Duration::from_secs(recorded["at"].as_u64().expect("a time"));
    let mut compared = 0;
    let mut wrong = Vec::new();
    for case in recorded["cases"].as_array().expect("cases") {
        let name = case["name"].as_str().expect("a name");
        let pems = case["chain"].as_array().expect("a chain").iter().filter_map(Value::as_str);
        let chain: Vec<_> = pems.map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")).collect();
        let got = ours(&authorities, &chain, now);
        let wanted = if REFUSED.contains(&name) { Some(Outcome::Refused) } else { theirs(case) };
        compared += usize::from(wanted.is_some());
        if wanted.is_some_and(|wanted| wanted != got) {
            wrong.push(format!("{name}: {got:?}, recorded {} {}", case["code"], case["user"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 100, "{compared}");
}

/// Whatever a client sends is read or refused, also what begins as a certificate does.
#[test]
fn damaged_certificates_are_read_or_refused() {
    let recorded: Value = serde_json::from_str(include_str!("../../../../tests/data/certificates/cases.json")).expect("JSON");
    let pem = recorded["authorities"].as_str().expect("PEM");
    let authorities = Authorities::from_pem(pem.as_bytes()).expect("authorities");
    let now = UNIX_EPOCH + Duration::from_secs(recorded["at"].as_u64().expect("a time"));
    for name in ["through-two", "subject-uid", "names-good", "v1-p256"] {
        let case = recorded["cases"].as_array().expect("cases").iter().find(|case| case["name"] == name).expect("it is there");
        let whole = CertificateDer::from_pem_slice(case["chain"][0].as_str().expect("PEM").as_bytes()).expect("a certificate");
        for at in 0..whole.len() {
            for value in [0x00, 0x7f, 0xff, whole[at] ^ 1, whole[at] ^ 0x80] {
                let mut bytes = whole.to_vec();
                bytes[at] = value;
                let is_other = bytes != *whole;
                let evaluated = authorities.evaluate(&CertificateDer::from(bytes), &[], now);
                assert!(
                    !is_other || !matches!(evaluated, CertificateTrust::Trusted { .. }),
                    "{name}: byte {at} is {value}, and it is trusted"
                );
            }
            assert!(Certificate::read(&whole[..at]).is_err(), "{name}: cut at {at}");
        }
    }
}
