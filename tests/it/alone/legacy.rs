//! A token that is kept in a Secret: who it is, and that its Secret tells on which day it was used last.

use std::{fs, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::KeyPair;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Failure, Outcome, asked, secure::start};
use crate::live::{free_address, peers::Site, tokens::signed};

const DEFAULT: &str = "/api/v1/namespaces/default";
const INVALID: &str = "kubernetes.io/legacy-token-invalid-since";
const LABEL: &str = "kubernetes.io/legacy-token-last-used";
const PATIENCE: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_use_of_a_token_is_told() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let (key, file) = (KeyPair::generate()?, dir.path().join("accounts.key"));
    fs::write(&file, key.serialize_pem())?;
    let server = start(dir.path(), &site, listener, &[&format!("--service-account-signing-key-file={}", file.display())]).await?;
    let admin = site.client(listener);
    let account = json!({"metadata": {"name": "robot"}});
    let account = asked(&admin, ("POST", &format!("{DEFAULT}/serviceaccounts")), Some(&account), 201).await?;
    let claims = json!({
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": "default",
        "kubernetes.io/serviceaccount/secret.name": "robot-token",
        "kubernetes.io/serviceaccount/service-account.name": "robot",
        "kubernetes.io/serviceaccount/service-account.uid": account["metadata"]["uid"],
        "sub": "system:serviceaccount:default:robot",
    });
    let token = signed(&key, r#"{"alg":"ES256"}"#, &claims.to_string())?;
    let robot = site.client_of(listener, &token);
    assert_eq!(robot.whole("GET", "/api", &[], b"").await?.status, 401, "without its Secret it is nobody's");
    let secret = json!({
        "metadata": {"name": "robot-token", "annotations": {"kubernetes.io/service-account.name": "robot"}},
        "type": "kubernetes.io/service-account-token", "data": {"token": BASE64_STANDARD.encode(&token)},
    });
    asked(&admin, ("POST", &format!("{DEFAULT}/secrets")), Some(&secret), 201).await?;
    let began = Instant::now();
    loop {
        let status = robot.whole("GET", "/api", &[], b"").await?.status;
        let secret = asked(&admin, ("GET", &format!("{DEFAULT}/secrets/robot-token")), None, 200).await?;
        let day = secret["metadata"]["labels"][LABEL].as_str().unwrap_or_default();
        if status == 200 && day.len() == "2026-11-22".len() && day.starts_with("20") {
            break;
        }
        if began.elapsed() > PATIENCE {
            let review = json!({"spec": {"token": token}});
            let review = asked(&admin, ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"), Some(&review), 201).await?;
            return Err(Failure::from(format!("{status}, {}, {}", review["status"], secret["metadata"])));
        }
        sleep(Duration::from_millis(50)).await;
    }
    // One that counts no more is told of too, and one that is only asked about.
    for (is_invalid, review) in [(true, false), (true, true), (false, true)] {
        let since = if is_invalid { json!("2026-01-01") } else { Value::Null };
        let patch = json!({"metadata": {"labels": {LABEL: "2020-01-01", INVALID: since}}});
        asked(&admin, ("PATCH", &format!("{DEFAULT}/secrets/robot-token")), Some(&patch), 200).await?;
        let began = Instant::now();
        loop {
            let status = if review {
                let review = json!({"spec": {"token": token}});
                let review = asked(&admin, ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"), Some(&review), 201).await?;
                if review["status"]["authenticated"] == true { 200 } else { 401 }
            } else {
                robot.whole("GET", "/api", &[], b"").await?.status
            };
            let secret = asked(&admin, ("GET", &format!("{DEFAULT}/secrets/robot-token")), None, 200).await?;
            if secret["metadata"]["labels"][LABEL] != "2020-01-01" && status == if is_invalid { 401 } else { 200 } {
                break;
            }
            if began.elapsed() > PATIENCE {
                return Err(Failure::from(format!("invalid: {is_invalid}, review: {review}: {status}, {}", secret["metadata"])));
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
    server.kill()?;
    Ok(())
}
