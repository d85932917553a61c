//! Who is it? Ours and kube-apiserver with the same OpenID providers and the same webhook: the same users, and the same words for tokens that are wrong. And
//! ours as a server that extends a cluster: kube-apiserver says whose a token is.

use std::{
    env, fs,
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ::client::testing::{Reaction, ReceivedRequest, Server};
use auth::authn::{Discovery, SigningKey};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    free_address,
    peers::{Running, Site},
};
use crate::{
    alone::{Alone, Outcome, asked, secure},
    client::{Client, Request},
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const MYSELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// Claims that stand twice, and names that say nothing, are refused here alone: two readers might see two users, and the prefix alone is nobody.
const TWICE: &str = "claims twice";
const EMPTY: &str = "an empty name";
/// How long providers may take to be known.
const PATIENCE: Duration = Duration::from_secs(60);

/// A real OpenID provider, whose program has its own login.
struct Provider {
    program: PathBuf,
    port: String,
    authority: PathBuf,
    _running: Running,
}

impl Provider {
    fn start(site: &Site, programs: &std::path::Path) -> Result<Provider, Failure> {
        let (program, port) = (programs.join("oidc-provider"), free_address()?.port().to_string());
        let mut command = Command::new(&program);
        command.args(["serve", &port]).args(["server.crt", "server.key"].map(|file| site.path().join(file)));
        Ok(Provider { _running: site.start("oidc-provider", command)?, program, port, authority: site.path().join("ca.crt") })
    }

    fn issuer(&self) -> String {
        format!("https://localhost:{}/", self.port)
    }

    /// The ID token that a user gets who logs in.
    async fn token(&self, user: &str) -> Result<String, Failure> {
        let began = Instant::now();
        loop {
            let mut command = Command::new(&self.program);
            let output = command.args(["login", &self.port]).arg(&self.authority).args([user, "verysecure"]).output()?;
            let token = String::from_utf8(output.stdout)?.trim().to_owned();
            if output.status.success() && !token.is_empty() {
                return Ok(token);
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("no token: {}", String::from_utf8_lossy(&output.stderr)).into());
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}

/// A provider whose tokens we make ourselves, wrong ones too.
struct Forge {
    server: Server,
    key: SigningKey,
}

impl Forge {
    async fn start() -> Result<Forge, Failure> {
        let key = SigningKey::from_pem(SigningKey::generate_pem()?.as_bytes())?;
        let public = key.public().clone();
        let server = Server::start(move |asked| {
            let host = asked.uri.authority().map(ToString::to_string);
            let host = host.or_else(|| Some(asked.headers.get("host")?.to_str().ok()?.to_owned())).unwrap_or_default();
            let Ok(told) = Discovery::new(&format!("https://{host}"), None, &host, std::slice::from_ref(&public)) else {
                return Reaction::Answer(500, "text/plain", "no documents".into());
            };
            match asked.uri.path() {
                "/openid/v1/jwks" => Reaction::WithHeader("cache-control", "max-age=3600".to_owned(), told.keys.into()),
                _ => Reaction::Answer(200, "application/json", told.configuration.into()),
            }
        })
        .await;
        Ok(Forge { server, key })
    }

    fn claims(&self) -> Result<Value, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        Ok(
            json!({"iss": self.server.url(), "aud": "us", "exp": now + 600, "sub": "jane", "groups": ["dev", "ops"], "jti": "7", "team": "a"}),
        )
    }

    /// What is good, and everything that somebody may try, each with its name.
    fn tokens(&self) -> Result<Vec<(String, String)>, Failure> {
        let claims = self.claims()?;
        let now = claims["exp"].as_u64().unwrap_or_default() - 600;
        let with = |name: &str, value: Value| {
            let mut claims = claims.clone();
            claims[name] = value;
            claims
        };
        let without = |name: &str| {
            let mut claims = claims.clone();
            claims.as_object_mut().map(|claims| claims.remove(name));
            claims
        };
        let mut all = Vec::new();
        for (what, claims) in [
            ("good", claims.clone()),
            ("expired by a second", with("exp", (now - 1).into())),
            ("without an end", without("exp")),
            ("an odd end", with("exp", "tomorrow".into())),
            ("another audience", with("aud", "others".into())),
            ("audiences", with("aud", json!(["others", "us"]))),
            ("no audience", without("aud")),
            ("another issuer", with("iss", "https://other.example".into())),
            ("no claim", without("team")),
            ("another value", with("team", "b".into())),
            ("an odd value", with("team", 1.into())),
            ("no name", without("sub")),
            (EMPTY, with("sub", "".into())),
            ("an odd name", with("sub", json!(["jane"]))),
            ("one group", with("groups", "dev".into())),
            ("odd groups", with("groups", json!([1]))),
            ("no groups", with("groups", Value::Null)),
        ] {
            all.push((what.to_owned(), self.key.sign(&claims.to_string())?));
        }
        let good = all[0].1.clone();
        let [head, body, signature] = good.split('.').collect::<Vec<_>>()[..] else { return Err("not a token".into()) };
        let header = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let twice = claims.to_string().replacen('{', "{\"sub\":\"root\",", 1);
        let stranger = SigningKey::from_pem(SigningKey::generate_pem()?.as_bytes())?.sign(&claims.to_string())?;
        for (what, token) in [
            ("no algorithm", format!("{}.{body}.", header(json!({"alg": "none"})))),
            ("a shared secret", format!("{}.{body}.{signature}", header(json!({"alg": "HS256", "kid": self.key.public().kid()})))),
            ("another key's name", format!("{}.{body}.{signature}", header(json!({"alg": "RS256", "kid": "nobody"})))),
            ("another key", stranger),
            ("another signature", format!("{head}.{body}.{}", signature.chars().rev().collect::<String>())),
            (TWICE, self.key.sign(&twice)?),
            ("not a token", "abc".to_owned()),
            ("half a token", format!("{head}.{body}")),
        ] {
            all.push((what.to_owned(), token));
        }
        Ok(all)
    }
}

/// Knows `hook-NAME`, and misbehaves when it is told to.
fn webhook(asked: &ReceivedRequest) -> Reaction {
    let review: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    let answer = |status: Value| Reaction::json(&json!({"kind": "TokenReview", "apiVersion": review["apiVersion"], "status": status}));
    match review["spec"]["token"].as_str().unwrap_or_default() {
        "hook-500" => Reaction::Answer(500, "text/plain", "broken".into()),
        "hook-404" => Reaction::Answer(404, "text/plain", "".into()),
        "hook-why" => answer(json!({"authenticated": false, "error": "because"})),
        "hook-others" => answer(json!({"authenticated": true, "user": {"username": "x"}, "audiences": ["others"]})),
        "hook-nobody" => answer(json!({"authenticated": true})),
        token => match token.strip_prefix("hook-") {
            Some(name) => answer(
                json!({"authenticated": true, "user": {"username": name, "uid": "9", "groups": ["hooked"], "extra": {"ex.io/a": ["b"]}}}),
            ),
            None => answer(json!({"authenticated": false})),
        },
    }
}

/// `AuthenticationConfiguration` with both providers.
fn configuration(provider: &Provider, forge: &Forge) -> Result<String, Failure> {
    let real = fs::read_to_string(&provider.authority)?;
    Ok(json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
        "jwt": [
            {
                "issuer": {"url": provider.issuer(), "audiences": ["web"], "certificateAuthority": real},
                "claimMappings": {"username": {"claim": "sub", "prefix": "real:"}},
            },
            {
                "issuer": {"url": forge.server.url(), "audiences": ["us", "them"], "audienceMatchPolicy": "MatchAny", "certificateAuthority": forge.server.ca_pem()},
                "claimMappings": {
                    "username": {"claim": "sub", "prefix": "forge:"}, "groups": {"claim": "groups", "prefix": "g:"}, "uid": {"claim": "jti"},
                },
                "claimValidationRules": [{"claim": "team", "requiredValue": "a"}],
            },
        ],
    })
    .to_string())
}

/// What a server says of a token: the status of a review, and status and body of what the token itself asks.
async fn said(admin: &Client, client: &Client, token: &str) -> Result<Value, Failure> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let review = asked(admin, ("POST", REVIEWS), Some(&review), 201).await?;
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let myself = client.ask(&Request { method: "POST", target: MYSELF, body: Some(body.as_bytes()) }).await?;
    let mut own: Value = serde_json::from_slice(&myself.body)?;
    own["metadata"] = Value::Null;
    Ok(json!({"review": review["status"], "status": myself.status, "own": own}))
}

/// Waits until a token is known.
async fn known(admin: &Client, client: &Client, token: &str) -> Outcome {
    let began = Instant::now();
    loop {
        let said = said(admin, client, token).await?;
        if said["status"] == 201 {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("nobody knows the token: {said:#}").into());
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Programs, and ours with a TLS listener and these flags beside a kube-apiserver with the same.
fn programs() -> Result<PathBuf, Failure> {
    Ok(env::var_os("WATCHCACHE_TEST_PEERS").map(PathBuf::from).ok_or("WATCHCACHE_TEST_PEERS does not name a folder with programs")?)
}

async fn ours(site: &Site, listener: SocketAddr, flags: &[&str]) -> Result<Alone, Failure> {
    let data = site.path().join("ours");
    fs::create_dir_all(&data)?;
    secure::start(&data, site, listener, flags).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd, kube-apiserver and oidc-provider: WATCHCACHE_TEST_PEERS"]
async fn users_of_others_are_the_same() -> Outcome {
    let programs = programs()?;
    let site = Site::prepare(&programs).map_err(|error| error.to_string())?;
    let (provider, forge, hook) = (Provider::start(&site, &programs)?, Forge::start().await?, Server::start(webhook).await);
    let file = |name: &str| site.path().join(name).display().to_string();
    fs::write(file("authentication"), configuration(&provider, &forge)?)?;
    fs::write(file("webhook"), hook.kubeconfig("/review") + "current-context: a\n")?;
    let flags = [
        format!("--authentication-config={}", file("authentication")),
        format!("--authentication-token-webhook-config-file={}", file("webhook")),
        "--authentication-token-webhook-version=v1".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let (_etcd, etcd) = site.etcd()?;
    let (theirs, address) = site.apiserver_with("kube-apiserver", etcd, &flags)?;
    let listener = free_address()?;
    let _ours = ours(&site, listener, &flags).await?;
    theirs.ready(&site.client(address)).await.map_err(|error| error.to_string())?;
    let mut tokens = forge.tokens()?;
    for user in ["test-user@localhost", "test-user2"] {
        let token = provider.token(user).await?;
        tokens.push((format!("{user}, cut"), token[..token.len() - 4].to_owned()));
        tokens.push((user.to_owned(), token));
    }
    for name in ["jane", "why", "others", "nobody", "404", "500"] {
        tokens.push((format!("webhook {name}"), format!("hook-{name}")));
    }
    let first = |name: &str| tokens.iter().find(|(what, _)| what == name).map(|(_, token)| token.clone()).ok_or("a token");
    for address in [address, listener] {
        for name in ["good", "test-user2"] {
            let token = first(name)?;
            known(&site.client(address), &site.client_of(address, &token), &token).await?;
        }
    }
    let mut different = Vec::new();
    for (what, token) in &tokens {
        let mut answers = Vec::new();
        for address in [address, listener] {
            answers.push(said(&site.client(address), &site.client_of(address, token), token).await?);
        }
        super::say(&format!("{what}: {} {}", answers[1]["status"], answers[1]["review"]["error"].as_str().unwrap_or_default()));
        if what == TWICE || what == EMPTY {
            assert_eq!((&answers[0]["status"], &answers[1]["status"]), (&json!(201), &json!(401)));
        } else if answers[0] != answers[1] {
            different.push(format!("{what}: theirs {}\nours {}", answers[0], answers[1]));
        }
    }
    assert!(different.is_empty(), "{} of {} tokens: {}", different.len(), tokens.len(), different.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn a_cluster_says_whose_its_tokens_are() -> Outcome {
    let site = Site::prepare(&programs()?).map_err(|error| error.to_string())?;
    let file = |name: &str| site.path().join(name).display().to_string();
    let (_etcd, etcd) = site.etcd()?;
    let proxy = [format!("--requestheader-client-ca-file={}", file("ca.crt")), "--requestheader-allowed-names=proxy".to_owned()];
    let (cluster, address) = site.apiserver_with("kube-apiserver", etcd, &[&proxy[0], &proxy[1]])?;
    let theirs = site.client(address);
    cluster.ready(&theirs).await.map_err(|error| error.to_string())?;
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: a, cluster: {{server: 'https://{address}', certificate-authority: ca.crt}}}}]\n\
         users: [{{name: a, user: {{token: TOKEN}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\n"
    );
    fs::write(file("host"), kubeconfig.replace("TOKEN", super::peers::TOKEN))?;
    let listener = free_address()?;
    let _ours = ours(&site, listener, &[&format!("--authentication-kubeconfig={}", file("host"))]).await?;
    asked(&theirs, ("POST", "/api/v1/namespaces/default/serviceaccounts"), Some(&json!({"metadata": {"name": "bot"}})), 201).await?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let issued = asked(&theirs, ("POST", "/api/v1/namespaces/default/serviceaccounts/bot/token"), Some(&request), 201).await?;
    let token = issued["status"]["token"].as_str().ok_or("a token")?;
    let said = said(&site.client(listener), &site.client_of(listener, token), token).await?;
    assert_eq!(said["status"], 201, "{said:#}");
    assert_eq!(said["own"]["status"]["userInfo"]["username"], "system:serviceaccount:default:bot");
    let stranger = site.client_of(listener, "nobody").fetch(MYSELF).await?;
    assert_eq!(stranger.status, 401);
    Ok(())
}
