//! Others say who somebody is: an OpenID provider and a webhook in this test, which are late, hang, lie and fail when they are told to.

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ::client::testing::{Reaction, ReceivedRequest, Server};
use auth::authn::{Discovery, SigningKey};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Failure, Outcome, secure::start};
use crate::{
    client::{Client, Request},
    live::{free_address, peers::Site},
};

const MYSELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const PATIENCE: Duration = Duration::from_secs(600);

/// Requests whose webhook hangs: more than the 64 questions that are asked for one address at once.
const HANGING: usize = 72;

/// The name of who asks, or the status.
async fn name(client: &Client) -> Result<String, Failure> {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let answer = client.ask(&Request { method: "POST", target: MYSELF, body: Some(body.as_bytes()) }).await?;
    let review: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let name = review["status"]["userInfo"]["username"].as_str().map(str::to_owned);
    Ok(name.unwrap_or_else(|| answer.status.to_string()))
}

async fn soon(client: &Client, wanted: &str) -> Outcome {
    let began = Instant::now();
    while name(client).await? != wanted {
        if began.elapsed() > PATIENCE {
            return Err(format!("{} and not {wanted}", name(client).await?).into());
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_an_openid_provider() -> Outcome {
    let key = SigningKey::from_pem(SigningKey::generate_pem()?.as_bytes())?;
    let public = key.public().clone();
    let provider = Server::start(move |asked| {
        let host = asked.uri.authority().map(ToString::to_string);
        let host = host.or_else(|| Some(asked.headers.get("host")?.to_str().ok()?.to_owned())).unwrap_or_default();
        match Discovery::new(&format!("https://{host}"), None, &host, std::slice::from_ref(&public)) {
            Ok(told) if asked.uri.path() == "/openid/v1/jwks" => Reaction::Answer(200, "application/json", told.keys.into()),
            Ok(told) => Reaction::Answer(200, "application/json", told.configuration.into()),
            Err(error) => Reaction::Answer(500, "text/plain", error.to_string().into()),
        }
    })
    .await;
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let ca = dir.path().join("issuer.crt");
    fs::write(&ca, provider.ca_pem())?;
    let flags = [
        format!("--oidc-issuer-url={}", provider.url()),
        format!("--oidc-ca-file={}", ca.display()),
        "--oidc-client-id=us".to_owned(),
        "--oidc-username-prefix=o:".to_owned(),
        "--oidc-required-claim=team=a".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let _server = start(dir.path(), &site, listener, &flags).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let good = json!({"iss": provider.url(), "aud": "us", "exp": now + 600, "sub": "jane", "team": "a"});
    let token = key.sign(&good.to_string())?;
    soon(&site.client_of(listener, &token), "o:jane").await?;
    let claims = token.split('.').nth(1).ok_or("claims")?;
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        key.sign(&claims.to_string())
    };
    for (what, token) in [
        ("expired by a second", with("exp", (now - 1).into())?),
        ("not yet valid", with("nbf", (now + 300).into())?),
        ("for others", with("aud", "others".into())?),
        ("of others", with("iss", "https://other.example".into())?),
        ("another team", with("team", "b".into())?),
        ("claims twice", key.sign(&good.to_string().replacen('{', "{\"sub\":\"root\",", 1))?),
        ("no algorithm", format!("eyJhbGciOiJub25lIn0.{claims}.")),
        ("a shared secret", format!("eyJhbGciOiJIUzI1NiJ9.{claims}.AAAA")),
        ("another key", format!("eyJhbGciOiJSUzI1NiIsImtpZCI6Im5vYm9keSJ9.{claims}.AAAA")),
        ("long", "x".repeat(100_000)),
    ] {
        assert_eq!(name(&site.client_of(listener, &token)).await?, "401", "{what}");
    }
    // A head of this size is refused before anybody looks at the token.
    assert!(name(&site.client_of(listener, &"x".repeat(1 << 20))).await.map_or(true, |answer| answer == "431"));
    let fetched = provider.asked().iter().filter(|asked| asked.uri.path() == "/openid/v1/jwks").count();
    assert!(fetched as u64 <= 2 + SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs().saturating_sub(now) / 10, "{fetched}");
    Ok(())
}

fn webhook(asked: &ReceivedRequest) -> Reaction {
    let review: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    let user = |name: &str| {
        let status = json!({"authenticated": true, "user": {"username": name}});
        Reaction::json(&json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1beta1", "status": status}))
    };
    match review["spec"]["token"].as_str().unwrap_or_default() {
        "slow" => Reaction::After(Duration::from_secs(1), Box::new(user("slow"))),
        "500" => Reaction::Answer(500, "text/plain", "broken".into()),
        "lie" => Reaction::json(&json!({"kind": "Pod", "status": {"authenticated": true, "user": {"username": "liar"}}})),
        "giant" => Reaction::Giant,
        token if token.starts_with("hang") => Reaction::Hang,
        token => user(token),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_a_webhook_knows() -> Outcome {
    let hook = Server::start(webhook).await;
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let file = dir.path().join("webhook");
    fs::write(&file, hook.kubeconfig("/review"))?;
    let server = start(dir.path(), &site, listener, &[&format!("--authentication-token-webhook-config-file={}", file.display())]).await?;
    let asked = |token: &str| {
        let client = site.client_of(listener, token);
        tokio::spawn(async move { name(&client).await.unwrap_or_else(|error| error.to_string()) })
    };
    let hanging: Vec<_> = (0..HANGING).map(|number| asked(&format!("hang{number}"))).collect();
    // 64 of them hang and the others wait for their turn: a lack of room is no judgement. Those that are known need no webhook.
    while hook.asked().len() < 64 {
        assert!(hanging.iter().all(|one| !one.is_finished()), "somebody was refused");
        sleep(Duration::from_millis(20)).await;
    }
    let waiting = asked("jane");
    sleep(Duration::from_secs(3)).await;
    assert!(!waiting.is_finished() && hanging.iter().all(|one| !one.is_finished()), "somebody was refused");
    assert_eq!(name(&site.client(listener)).await?, "admin");
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
    // They hang until their time is over.
    assert_eq!(waiting.await?, "jane");
    let (slow, slow_too) = (asked("slow"), asked("slow"));
    assert_eq!((slow.await?, slow_too.await?), ("slow".to_owned(), "slow".to_owned()));
    for token in ["500", "lie", "giant"] {
        assert_eq!(asked(token).await?, "401", "{token}");
    }
    let reviews =
        |token: &str| hook.asked().iter().filter(|asked| String::from_utf8_lossy(&asked.body).contains(&format!("\"{token}\""))).count();
    assert_eq!((reviews("slow"), reviews("500")), (1, 5));
    drop(server);
    Ok(())
}
