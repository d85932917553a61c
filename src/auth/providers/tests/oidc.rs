//! Tokens of OpenID providers: good ones, and those that somebody made who should not; providers that are late or change their keys.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::UNIX_EPOCH;

use super::*;
use crate::authn::oidc::Flags;
use crate::authn::{Discovery, SigningKey};

/// A provider, and who signs its tokens.
struct Issuing {
    server: Server,
    key: Arc<SigningKey>,
}

impl Issuing {
    /// `is_up` says whether it answers.
    async fn start(is_up: Arc<AtomicBool>, cache_control: &'static str) -> Issuing {
        Issuing::start_hanging(is_up, cache_control, Arc::default()).await
    }

    /// `hangs` says whether its keys do not come.
    async fn start_hanging(is_up: Arc<AtomicBool>, cache_control: &'static str, hangs: Arc<AtomicBool>) -> Issuing {
        let pem = SigningKey::generate_pem().expect("made");
        let key = Arc::new(SigningKey::from_pem(pem.as_bytes()).expect("a key"));
        let public = key.public().clone();
        let server = Server::start(move |asked| {
            let host = asked.uri.authority().map(ToString::to_string);
            let host = host.or_else(|| Some(asked.headers.get("host")?.to_str().ok()?.to_owned())).expect("a host");
            let documents = Discovery::new(&format!("https://{host}"), None, &host, std::slice::from_ref(&public)).expect("documents");
            match asked.uri.path() {
                _ if !is_up.load(Ordering::Relaxed) => Reaction::Answer(503, "text/plain", "not yet".into()),
                "/.well-known/openid-configuration" => Reaction::Answer(200, "application/json", documents.configuration.into()),
                "/openid/v1/jwks" if hangs.load(Ordering::Relaxed) => Reaction::Hang,
                "/openid/v1/jwks" => Reaction::WithHeader("cache-control", cache_control.to_owned(), documents.keys.into()),
                _ => Reaction::Answer(404, "text/plain", Bytes::new()),
            }
        })
        .await;
        Issuing { server, key }
    }

    fn claims(&self) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        json!({"iss": self.server.url(), "aud": "us", "exp": now + 600, "sub": "jane", "groups": ["dev"]})
    }

    fn flags(&self) -> Flags {
        Flags {
            issuer_url: self.server.url(),
            client_id: "us".to_owned(),
            username_claim: "sub".to_owned(),
            username_prefix: "o:".to_owned(),
            groups_claim: "groups".to_owned(),
            ..Flags::default()
        }
    }

    async fn providers(&self, directory: &Path) -> Arc<Providers> {
        let ca_file = directory.join("ca.pem");
        std::fs::write(&ca_file, self.server.ca_pem()).expect("written");
        let oidc = config::Oidc::Flags { flags: Box::new(self.flags()), ca_file: Some(ca_file), algorithms: vec![Algorithm::Rs256] };
        start(&config::Providers { oidc: Some(oidc), ..config::Providers::default() }, authenticator()).await.expect("it starts")
    }

    /// What is asked for at this path.
    fn asked(&self, path: &str) -> usize {
        self.server.asked().iter().filter(|asked| asked.uri.path() == path).count()
    }
}

async fn ready(providers: &Providers) {
    providers.issuers.load_full().ready(Duration::from_secs(20)).await.expect("ready");
}

#[tokio::test]
async fn a_provider_vouches_for_its_tokens_once_it_has_told_its_keys() {
    let is_up = Arc::new(AtomicBool::new(false));
    let issuing = Issuing::start(is_up.clone(), "max-age=3600").await;
    let directory = tempfile::tempdir().expect("a directory");
    let providers = issuing.providers(directory.path()).await;
    let token = issuing.key.sign(&issuing.claims().to_string()).expect("signed");
    let early = authenticate(&providers, &token, HERE).await.expect_err("nobody knows the keys");
    assert_eq!(early, "[invalid bearer token, not here, oidc: authenticator not initialized]");
    is_up.store(true, Ordering::Relaxed);
    ready(&providers).await;
    assert_eq!(authenticate(&providers, &token, HERE).await.as_deref(), Ok("o:jane"));
    for _ in 0..20 {
        let foreign = SigningKey::from_pem(include_bytes!("../../../../tests/data/tokens/p256.pem")).expect("a key");
        let refused = authenticate(&providers, &foreign.sign(&issuing.claims().to_string()).expect("signed"), HERE).await;
        assert!(refused.is_err_and(|why| why.contains("unsupported algorithm, expected [\"RS256\"] got \"ES256\"")));
    }
    assert_eq!(issuing.asked("/openid/v1/jwks"), 1, "they are good for an hour");
}

#[tokio::test]
async fn wrong_tokens_are_refused_and_make_no_storm() {
    let issuing = Issuing::start(Arc::new(AtomicBool::new(true)), "no-store").await;
    let directory = tempfile::tempdir().expect("a directory");
    let providers = issuing.providers(directory.path()).await;
    ready(&providers).await;
    let stranger = SigningKey::from_pem(SigningKey::generate_pem().expect("made").as_bytes()).expect("a key");
    let why = async |token: String| authenticate(&providers, &token, HERE).await.expect_err(&token[..token.len().min(200)]);
    for _ in 0..20 {
        let why = why(stranger.sign(&issuing.claims().to_string()).expect("signed")).await;
        assert!(why.contains("oidc: verify token: failed to verify signature"), "{why}");
    }
    assert!(issuing.asked("/openid/v1/jwks") <= 2, "keys are fetched once in ten seconds");
    let signed = |change: &dyn Fn(&mut Value)| {
        let mut claims = issuing.claims();
        change(&mut claims);
        issuing.key.sign(&claims.to_string()).expect("signed")
    };
    let now = issuing.claims()["exp"].as_u64().expect("a number") - 600;
    assert!(why(signed(&|claims| claims["exp"] = (now - 1).into())).await.contains("oidc: token is expired"));
    assert!(why(signed(&|claims| claims["nbf"] = (now + 120).into())).await.contains("nbf"));
    assert!(why(signed(&|claims| claims["aud"] = "others".into())).await.contains("oidc: expected audience \"us\" got [\"others\"]"));
    assert_eq!(why(signed(&|claims| claims["iss"] = "https://other.example".into())).await, "[invalid bearer token, not here]");
    assert_eq!(why("x".repeat(1 << 20)).await, "[invalid bearer token, not here]");
    let good = signed(&|_| {});
    assert_eq!(authenticate(&providers, &good, HERE).await.as_deref(), Ok("o:jane"));
    // The same claims with another header: no algorithm, and the public key as a shared secret.
    let claims = good.split('.').nth(1).expect("claims");
    for header in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJIUzI1NiJ9"] {
        let why = why(format!("{header}.{claims}.AAAA")).await;
        assert!(why.contains("unsupported algorithm, expected [\"RS256\"]"), "{why}");
    }
}

/// Whoever knows the name of a provider that hangs could wait for its keys as often as all may wait for others.
#[tokio::test]
async fn who_waits_for_keys_is_counted() {
    let (up, hangs) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
    let issuing = Issuing::start_hanging(up, "no-store", hangs).await;
    let directory = tempfile::tempdir().expect("a directory");
    let providers = issuing.providers(directory.path()).await;
    ready(&providers).await;
    let token = issuing.key.sign(&issuing.claims().to_string()).expect("signed");
    let wait = |count: usize, client: IpAddr| {
        let all = (0..count).map(|_| {
            let (providers, token) = (providers.clone(), token.clone());
            tokio::spawn(async move { authenticate(&providers, &token, client).await })
        });
        all.collect::<Vec<_>>()
    };
    let waiting = wait(256, HERE);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let refused = authenticate(&providers, &token, HERE).await;
    assert_eq!(refused, Err("too many questions are waiting for an answer, please try again later".to_owned()));
    let other = wait(1, THERE);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(waiting.iter().chain(&other).all(|one| !one.is_finished()), "all of these wait");
    assert_eq!(issuing.asked("/openid/v1/jwks"), 1, "once for all");
    waiting.iter().chain(&other).for_each(tokio::task::JoinHandle::abort);
}

const FILE: &str =
    "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true, conditions: [{path: /livez}]}\n";

fn jwt(issuing: &Issuing, prefix: &str) -> String {
    let pem = issuing.server.ca_pem().replace('\n', "\n      ");
    format!(
        "- issuer:\n    url: {}\n    audiences: [us]\n    certificateAuthority: |\n      {pem}\n  claimMappings: {{username: {{claim: sub, prefix: '{prefix}'}}}}\n",
        issuing.server.url()
    )
}

#[tokio::test]
async fn a_file_names_several_providers_and_is_read_again() {
    let up = || Arc::new(AtomicBool::new(true));
    let (one, two) = (Issuing::start(up(), "max-age=60").await, Issuing::start(up(), "max-age=60").await);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("config");
    let write = |jwt: &str| std::fs::write(&path, format!("{FILE}jwt:\n{jwt}")).expect("written");
    write(&jwt(&one, "one:"));
    let oidc = |anonymous_flag| config::Providers {
        oidc: Some(config::Oidc::File { path: path.clone(), anonymous_flag }),
        ..config::Providers::default()
    };
    let refused = Sources::read(&oidc(true), &Logins::default()).map(|_| ()).expect_err("two say who needs no credentials").to_string();
    assert!(refused.starts_with("anonymous: Forbidden: --anonymous-auth flag cannot be set"));
    let sources = Sources::read(&oidc(false), &Logins::default()).expect("good");
    assert_eq!(sources.anonymous(), Some(Anonymous::Paths(vec!["/livez".to_owned()])));
    let metrics = Metrics::new();
    let providers = Providers::start(sources, authenticator(), metrics.clone()).await.expect("it starts");
    ready(&providers).await;
    let names = async || {
        let mut names = Vec::new();
        for issuing in [&one, &two] {
            let token = issuing.key.sign(&issuing.claims().to_string()).expect("signed");
            names.push(authenticate(&providers, &token, HERE).await.unwrap_or_default());
        }
        names.join(" ")
    };
    let soon = async |wanted: &str| {
        for _ in 0..200 {
            if names().await == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{} and not {wanted}", names().await);
    };
    soon("one:jane ").await;
    write("x: 1\n");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(names().await, "one:jane ", "a wrong file changes nothing");
    write(&(jwt(&one, "uno:") + &jwt(&two, "two:")));
    soon("uno:jane two:jane").await;
    let text = String::from_utf8(metrics.render()).expect("UTF-8");
    for status in ["failure", "success"] {
        let line =
            format!("apiserver_authentication_config_controller_automatic_reloads_total{{apiserver_id_hash=\"\",status=\"{status}\"}} 1");
        assert!(text.contains(&line), "{line} in\n{text}");
    }
    assert_eq!(text.matches("apiserver_authentication_config_controller_last_config_info{").count(), 1);
}

#[tokio::test]
async fn a_wrong_provider_keeps_the_server_from_starting() {
    let why = |flags: Flags, ca_file: Option<PathBuf>| {
        let oidc = Some(config::Oidc::Flags { flags: Box::new(flags), ca_file, algorithms: vec![Algorithm::Rs256] });
        Sources::read(&config::Providers { oidc, ..config::Providers::default() }, &Logins::default())
            .map(|_| ())
            .expect_err("refused")
            .to_string()
    };
    let flags =
        |url: &str| Flags { issuer_url: url.to_owned(), client_id: "us".to_owned(), username_claim: "sub".to_owned(), ..Flags::default() };
    assert_eq!(
        why(flags("http://a"), None),
        "invalid authentication configuration: jwt[0].issuer.url: Invalid value: \"http://a\": URL scheme must be https"
    );
    assert_eq!(why(flags("https://a"), Some("nowhere".into())), "--oidc-ca-file nowhere: No such file or directory (os error 2)");
}
