//! Tests of the authenticator: its answers to each kind of credential, and those of a kube-apiserver.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderName, HeaderValue};
use serde_json::Value;

use super::*;
use crate::authn::directory::Empty;
use crate::authn::recorded::{self, Recorded};
use crate::user::{AUTHENTICATED, User};

fn authenticator() -> Authenticator {
    let tokens = tokens::Tokens::from_csv(b"admintoken,admin,1,\"system:masters,ops\"\n").expect("valid");
    Authenticator { tokens: Reloaded::of(tokens), ..Authenticator::load(&Config::default()).expect("no files") }
}

/// The one that was recorded.
fn recorded_one() -> Authenticator {
    let tokens = tokens::Tokens::from_csv(b"admin,admin,u-admin,\"system:masters\"\n").expect("valid");
    let (issuers, keys, audiences) = (recorded::issuers(), recorded::keys(), recorded::issuers());
    let headers = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let proxy_headers = RequestHeaders {
        user: headers(&["X-Remote-User", "X-Other-User"]),
        uid: headers(&["X-Remote-Uid"]),
        group: headers(&["X-Remote-Group"]),
        extra_prefix: headers(&["X-Remote-Extra-"]),
    };
    let config = Config { bootstrap_tokens: true, audiences: issuers.clone(), anonymous: Anonymous::Yes, ..Config::default() };
    let authorities =
        || Authorities::from_pem(rcgen::generate_simple_self_signed([]).expect("made").cert.pem().as_bytes()).expect("an authority");
    Authenticator {
        tokens: Reloaded::of(tokens),
        accounts: Some(Reloaded::of(Accounts { issuers, keys, audiences, lookup: true })),
        proxies: Some(Proxies { authorities: Reloaded::of(authorities()), names: Vec::new(), headers: proxy_headers }),
        authorities: Some(Reloaded::of(authorities())),
        ..Authenticator::load(&config).expect("no files")
    }
}

fn context(certificate: &ClientCertificate) -> Context<'_> {
    Context { path: "/", certificate, is_socket: false, directory: &Empty, now: UNIX_EPOCH }
}

fn identify_with(headers: &mut HeaderMap, context: &Context<'_>) -> Identity {
    match authenticator().identify(headers, context) {
        AuthnOutcome::Identity(identity) => identity,
        AuthnOutcome::NeedsRemote(_) => panic!("nobody else is asked"),
    }
}

fn identify(authorization: &str) -> Identity {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_str(authorization).expect("a header value"));
    identify_with(&mut headers, &context(&ClientCertificate::ABSENT))
}

#[test]
fn bearer_tokens_as_kube_apiserver_reads_them() {
    for right in ["Bearer admintoken", "bearer admintoken", " BEARER admintoken ", "Bearer admintoken more"] {
        let Identity::User(authenticated) = identify(right) else { panic!("{right}") };
        assert_eq!(authenticated.user.groups, ["system:masters", "ops", AUTHENTICATED]);
    }
    for wrong in ["Bearer nope", "Bearer admintoke", "Bearer admintoken1"] {
        assert_eq!(identify(wrong), Identity::Invalid(Refusal::default()), "{wrong}");
    }
    for none in ["", "Bearer", "Bearer ", "Bearer  admintoken", "Basic YTpi", "admintoken"] {
        assert_eq!(identify(none), Identity::None, "{none}");
    }
}

#[test]
fn a_subprotocol_may_be_a_token() {
    let identify = |authorization: Option<&'static str>, protocols: &'static str| {
        let mut headers = HeaderMap::new();
        authorization.map(|value| headers.insert(AUTHORIZATION, HeaderValue::from_static(value)));
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocols));
        let identity = identify_with(&mut headers, &Context { is_socket: true, ..context(&ClientCertificate::ABSENT) });
        (matches!(identity, Identity::User(_)), identity == Identity::None, headers[SEC_WEBSOCKET_PROTOCOL].clone())
    };
    const RIGHT: &str = "v1, base64url.bearer.authorization.k8s.io.YWRtaW50b2tlbg";
    const WRONG: &str = "v1, base64url.bearer.authorization.k8s.io.YWRtaW4";
    const ALONE: &str = "base64url.bearer.authorization.k8s.io.YWRtaW50b2tlbg";
    let unchanged = HeaderValue::from_static;
    assert_eq!(identify(None, RIGHT), (true, false, unchanged("v1")));
    assert_eq!(identify(Some("Bearer nope"), RIGHT), (true, false, unchanged("v1")));
    assert_eq!(identify(Some("Bearer admintoken"), RIGHT), (true, false, unchanged(RIGHT)), "nobody looked at it");
    assert_eq!(identify(None, WRONG), (false, false, unchanged(WRONG)));
    assert_eq!(identify(None, ALONE), (false, false, unchanged(ALONE)));
    assert_eq!(identify(None, "v1"), (false, true, unchanged("v1")));
}

#[test]
fn an_expired_or_untrusted_certificate_is_wrong_unless_a_token_is_right() {
    let now = UNIX_EPOCH + Duration::from_secs(10);
    let expired = CertificateTrust::Trusted { user: Arc::new(User::default()), expires: now - Duration::from_secs(1) };
    let untrusted = CertificateTrust::Untrusted("unknown issuer".to_owned());
    for trust in [expired, untrusted] {
        let certificate = ClientCertificate { trust, ..ClientCertificate::ABSENT };
        let context = Context { now, ..context(&certificate) };
        let mut headers = HeaderMap::new();
        assert!(matches!(identify_with(&mut headers, &context), Identity::Invalid(_)));
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer admintoken"));
        assert!(matches!(identify_with(&mut headers, &context), Identity::User(_)));
        assert!(headers.is_empty(), "a token that was believed is gone");
    }
}

#[test]
fn a_missing_file_is_one_line_with_the_flag() {
    let gone = Some(PathBuf::from("/does/not/exist"));
    let accounts = AccountsConfig { key_files: vec!["/does/not/exist".into()], ..AccountsConfig::default() };
    for (flag, config) in [
        ("--client-ca-file", Config { client_ca_file: gone.clone(), ..Config::default() }),
        ("--token-auth-file", Config { token_file: gone.clone(), ..Config::default() }),
        ("--requestheader-client-ca-file", Config { proxy_ca_file: gone, ..Config::default() }),
        ("--service-account-key-file", Config { accounts: Some(accounts), ..Config::default() }),
    ] {
        let line = Authenticator::load(&config).expect_err("no such file").to_string();
        assert!(line.starts_with(&format!("{flag} /does/not/exist: ")) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn keys_are_read_from_all_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let key_files = recorded::KEYS.map(|name| file(name, &recorded::file(&format!("{name}.pub")))).to_vec();
    let with = |key_files| Config { accounts: Some(AccountsConfig { key_files, ..AccountsConfig::default() }), ..Config::default() };
    let loaded = Authenticator::load(&with(key_files)).expect("valid");
    assert_eq!(loaded.account_keys(), recorded::keys());
    let error = Authenticator::load(&with(vec![file("empty", b"")])).expect_err("no key").to_string();
    assert!(error.ends_with(": data does not contain any valid RSA or ECDSA public keys"), "{error}");
}

/// What we refuse and kube-apiserver does not, or for another reason.
const STRICTER: [(&str, &str); 3] = [
    ("deep twice", "a member is there twice in a claim that nobody reads"),
    ("issuer in other letters", "names of claims are what they are"),
    ("space inside", "a token has no line breaks"),
];

#[test]
fn tokens_are_reviewed_as_kube_apiserver_reviews_them() {
    let authenticator = recorded_one();
    let now = UNIX_EPOCH + Duration::from_secs(recorded::all()["now"].as_u64().expect("a number"));
    let cases = recorded::all()["reviews"].as_array().expect("cases");
    assert!(cases.len() > 150, "{}", cases.len());
    for case in cases {
        let text = |member: &str| case[member].as_str().expect("a text");
        let texts =
            |list: &Value| -> Vec<String> { list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect() };
        let (name, status) = (text("name"), &case["status"]);
        let AuthnOutcome::Identity(identity) = authenticator.review(text("token"), &texts(&case["audiences"]), &Recorded, now) else {
            panic!("nobody else is asked")
        };
        if STRICTER.iter().any(|(of, _)| *of == name) {
            assert!(matches!(identity, Identity::Invalid(_)), "{name}: {identity:?}");
            continue;
        }
        match identity {
            Identity::User(authenticated) => {
                let extra = &status["user"]["extra"];
                let extra = extra.as_object().into_iter().flatten().map(|(key, values)| (key.clone(), texts(values))).collect();
                let own = |member: &str| status["user"][member].as_str().unwrap_or_default().to_owned();
                let theirs = User { name: own("username"), uid: own("uid"), groups: texts(&status["user"]["groups"]), extra };
                assert_eq!(status["authenticated"], true, "{name}: {status}");
                assert_eq!(*authenticated.user, theirs, "{name}");
                assert_eq!(authenticated.audiences, texts(&status["audiences"]), "{name}");
            }
            Identity::Invalid(refusal) => assert_eq!(refusal.to_string(), status["error"], "{name}"),
            Identity::None | Identity::Local => panic!("{name}: {identity:?}"),
        }
    }
}

/// Certificates were judged then; here it is only said how.
fn certificate_of(case: &Value) -> ClientCertificate {
    let untrusted = || "unknown issuer".to_owned();
    let expires = UNIX_EPOCH + Duration::from_secs(1 << 40);
    match case["certificate"].as_str() {
        None => ClientCertificate::ABSENT,
        Some("front") => ClientCertificate { trust: CertificateTrust::Untrusted(untrusted()), proxy: Proxy::Trusted(expires) },
        Some("other") => ClientCertificate { trust: CertificateTrust::Untrusted(untrusted()), proxy: Proxy::Untrusted(untrusted()) },
        Some(name) => {
            let user = User { name: name.to_owned(), groups: vec!["devs".to_owned()], ..User::default() }.authenticated();
            ClientCertificate { trust: CertificateTrust::Trusted { user: Arc::new(user), expires }, proxy: Proxy::Untrusted(untrusted()) }
        }
    }
}

#[test]
fn clients_are_who_kube_apiserver_takes_them_for() {
    let cases = recorded::all()["who"].as_array().expect("cases");
    let mut known = 0;
    for case in cases {
        let headers = case["headers"].as_array().expect("headers");
        let token = case["token"].as_str();
        let impersonates = headers.iter().any(|header| header[0].as_str().is_some_and(|name| name.starts_with("Impersonate")));
        if impersonates || token.is_some_and(|token| token != "admin" && token != "nope") {
            continue; // Who may do that is for others to say.
        }
        let name = case["name"].as_str().expect("a name");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let mut headers: HeaderMap = headers
            .iter()
            .map(|header| {
                (HeaderName::try_from(text(&header[0])).expect("a name"), HeaderValue::try_from(text(&header[1])).expect("a value"))
            })
            .collect();
        token.map(|token| headers.insert(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}")).expect("a value")));
        let certificate = certificate_of(case);
        let AuthnOutcome::Identity(identity) =
            recorded_one().identify(&mut headers, &Context { directory: &Recorded, ..context(&certificate) })
        else {
            panic!("nobody else is asked")
        };
        let remote = headers.keys().filter(|name| name.as_str().starts_with("x-remote-")).count();
        assert_eq!(remote, 0, "{name}: headers of the proxy are gone");
        let theirs: Value = serde_json::from_str(case["answer"].as_str().expect("a body")).expect("JSON");
        let info = &theirs["status"]["userInfo"];
        match identity {
            Identity::User(authenticated) if info.is_object() => {
                let texts = |list: &Value| -> Vec<String> { list.as_array().into_iter().flatten().map(text).collect() };
                let extra = info["extra"].as_object().into_iter().flatten().filter(|(key, _)| !key.ends_with("credential-id"));
                let extra = extra.map(|(key, values)| (key.clone(), texts(values))).collect();
                let own = |member: &str| info[member].as_str().unwrap_or_default().to_owned();
                assert_eq!(
                    *authenticated.user,
                    User { name: own("username"), uid: own("uid"), groups: texts(&info["groups"]), extra },
                    "{name}"
                );
                known += 1;
            }
            // Only `system:authenticated` may ask who it is.
            Identity::User(authenticated) => {
                assert_eq!(case["code"], 403, "{name}");
                let told = format!("User \"{}\" cannot create resource", authenticated.user.name);
                assert!(theirs["message"].as_str().expect("a text").contains(&told), "{name}: {theirs}");
                assert!(!authenticated.user.groups.contains(&AUTHENTICATED.to_owned()), "{name}: {authenticated:?}");
            }
            Identity::Invalid(_) => assert_eq!(case["code"], 401, "{name}"),
            Identity::None | Identity::Local => panic!("{name}: {identity:?}"),
        }
    }
    assert!(known > 10, "{known}");
}

#[test]
fn without_a_proxy_nobody_believes_its_headers() {
    let mut headers = HeaderMap::new();
    headers.insert("x-remote-user", HeaderValue::from_static("root"));
    headers.insert("x-remote-group", HeaderValue::from_static("system:masters"));
    assert_eq!(identify_with(&mut headers, &context(&ClientCertificate::ABSENT)), Identity::None);
    assert!(headers.is_empty());
}

#[test]
fn a_token_that_nobody_knows_is_asked_about_elsewhere() {
    let authenticator = Authenticator { asks_remote: true, ..authenticator() };
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer other"));
    let AuthnOutcome::NeedsRemote(needs_remote) = authenticator.identify(&mut headers, &context(&ClientCertificate::ABSENT)) else {
        panic!("elsewhere")
    };
    assert_eq!(needs_remote.token, "other");
    let authenticated = AuthenticatedUser::of(User { name: "jane".to_owned(), ..User::default() });
    authenticator.remember("other", &[], &authenticated, UNIX_EPOCH);
    let again = authenticator.identify(&mut headers, &context(&ClientCertificate::ABSENT));
    assert_eq!(again, AuthnOutcome::Identity(Identity::User(authenticated)));
    let mut socket = HeaderMap::new();
    socket.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("v1, base64url.bearer.authorization.k8s.io.YWRtaW4"));
    let ask = authenticator.identify(&mut socket, &Context { is_socket: true, ..context(&ClientCertificate::ABSENT) });
    assert!(
        matches!(ask, AuthnOutcome::NeedsRemote(needs_remote) if needs_remote.token == "admin") && socket[SEC_WEBSOCKET_PROTOCOL] == "v1"
    );
    let mut none = HeaderMap::new();
    assert_eq!(authenticator.identify(&mut none, &context(&ClientCertificate::ABSENT)), AuthnOutcome::Identity(Identity::None));
}

#[test]
fn a_good_token_is_not_looked_at_again_for_ten_seconds() {
    let authenticator = recorded_one();
    let token = recorded::all()["reviews"][0]["token"].as_str().expect("a text");
    let now = UNIX_EPOCH + Duration::from_secs(recorded::all()["now"].as_u64().expect("a number"));
    let is_known = |directory: &dyn Directory, after: u64| {
        matches!(authenticator.review(token, &[], directory, now + Duration::from_secs(after)), AuthnOutcome::Identity(Identity::User(_)))
    };
    assert!(!is_known(&Empty, 0) && is_known(&Recorded, 0) && is_known(&Empty, 9) && !is_known(&Empty, 10));
}

/// What the files of a running server have in them.
struct Files(tempfile::TempDir);

impl Files {
    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).expect("written");
        path
    }
}

/// Looks until what is there now has been seen twice; what is wrong.
fn look(authenticator: &Authenticator) -> Vec<String> {
    let look = || authenticator.reloads().filter_map(|one| one.look().err()).map(|error| error.to_string()).collect();
    let first: Vec<String> = look();
    assert_eq!(first, Vec::<String>::new(), "it may be half of something");
    look()
}

#[test]
fn a_certificate_is_judged_anew_when_its_authority_changes() {
    use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
    let authority = || {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        (params.self_signed(&key).expect("signed").pem(), Issuer::new(params, key))
    };
    let ((old, issuer), (new, _)) = (authority(), authority());
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.distinguished_name.push(DnType::CommonName, "jane");
    let leaf = params.signed_by(&KeyPair::generate().expect("a key"), &issuer).expect("signed").der().clone();
    let (files, now) = (Files(tempfile::tempdir().expect("a folder")), SystemTime::now());
    let config = Config {
        client_ca_file: Some(files.put("ca", &new)),
        own_ca_file: Some(files.put("own", &old)),
        proxy_ca_file: Some(files.put("proxies", &new)),
        ..Config::default()
    };
    let authenticator = Authenticator::load(&config).expect("valid");
    let presented = authenticator.presented(Some(&[leaf]), now);
    let is_jane =
        || matches!(&authenticator.evaluated(&presented, now).trust, CertificateTrust::Trusted { user, .. } if user.name == "jane");
    assert!(is_jane(), "both files count");
    let before = authenticator.evaluated(&presented, now);
    assert!(Arc::ptr_eq(&before, &authenticator.evaluated(&presented, now)), "nothing has changed");
    files.put("own", "garbage");
    assert_eq!(look(&authenticator), [format!("--write-admin-kubeconfig {}: no certificate in it", files.0.path().join("own").display())]);
    let counts = |credential: &Credential| authenticator.is_still_valid(credential, &presented, now);
    assert!(is_jane() && counts(&Credential::Certificate) && !counts(&Credential::Proxy), "the old one stays");
    files.put("own", &new);
    assert_eq!(look(&authenticator), Vec::<String>::new());
    assert!(
        !is_jane()
            && !counts(&Credential::Certificate)
            && counts(&Credential::Lasting)
            && authenticator.evaluated(&presented, now).untrusted().is_some()
    );
    files.put("proxies", &old);
    assert_eq!(look(&authenticator), Vec::<String>::new());
    assert!(counts(&Credential::Proxy) && !counts(&Credential::Certificate));
    files.put("ca", &old);
    assert_eq!(look(&authenticator), Vec::<String>::new());
    assert!(is_jane());
}

#[test]
fn tokens_are_worth_what_the_files_of_now_say() {
    let files = Files(tempfile::tempdir().expect("a folder"));
    let key = |name: &str| recorded::file(&format!("{name}.pub"));
    let token = recorded::all()["reviews"][0]["token"].as_str().expect("a text");
    let all: Vec<u8> = recorded::KEYS.iter().flat_map(|name| key(name)).collect();
    let accounts = AccountsConfig { issuers: recorded::issuers(), key_files: vec![files.put("keys", &all)], lookup: true };
    let config = Config {
        token_file: Some(files.put("tokens", "one,jane,1\n")),
        accounts: Some(accounts),
        audiences: recorded::issuers(),
        ..Config::default()
    };
    let authenticator = Authenticator::load(&config).expect("valid");
    let now = UNIX_EPOCH + Duration::from_secs(recorded::all()["now"].as_u64().expect("a number"));
    let is_known = |token: &str| matches!(authenticator.review(token, &[], &Recorded, now), AuthnOutcome::Identity(Identity::User(_)));
    assert!(is_known("one") && !is_known("two") && is_known(token));
    let AuthnOutcome::Identity(Identity::User(authenticated)) = authenticator.review("one", &[], &Empty, now) else {
        panic!("it is known")
    };
    let counts = || authenticator.is_still_valid(&authenticated.credential, &PresentedChain::none(), now);
    assert!(counts());
    files.put("tokens", "two,jane\n");
    assert!(look(&authenticator)[0].ends_with("record 1 must have at least 3 columns (token, user name, user uid), found 2"));
    assert!(is_known("one") && !is_known("two"));
    files.put("tokens", "one,joe,1\n");
    assert_eq!(look(&authenticator), Vec::<String>::new());
    assert!(is_known("one") && !counts(), "it is another's");
    files.put("tokens", "two,jane,1\n");
    // None of these has signed it; that it was good a moment ago is worth nothing.
    let other: Vec<u8> = recorded::KEYS.iter().filter(|name| key_id(&key(name)) != signer(token)).flat_map(|name| key(name)).collect();
    files.put("keys", &other);
    assert_eq!(look(&authenticator), Vec::<String>::new());
    assert!(!is_known("one") && is_known("two") && !is_known(token));
    assert!(authenticator.account_keys().len() < recorded::KEYS.len());
    files.put("keys", &all);
    assert_eq!(look(&authenticator), Vec::<String>::new());
    assert!(is_known(token));
}

fn key_id(pem: &[u8]) -> String {
    PublicKey::from_pem(pem).expect("a key")[0].kid().to_owned()
}

/// The `kid` of a token.
fn signer(token: &str) -> String {
    crate::authn::jwt::Token::parse(token).expect("a token").kid().to_owned()
}
