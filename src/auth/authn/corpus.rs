//! The corpora of tokens and of headers with credentials: our keys accept only what they have signed, and who shows nothing is nobody.

use std::collections::HashSet;
use std::sync::LazyLock;

use corpus::Subject;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::directory::Empty;
use super::jwt::Token;
use super::recorded;
use super::service_account::Accounts;
use super::{Anonymous, Authenticator, AuthnOutcome, ClientCertificate, Config, Context, Identity, Impersonation, impersonates};
use crate::user::ANONYMOUS;

/// Header and claims of the tokens that were signed when the answers were recorded.
static SIGNED: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let cases = recorded::all()["reviews"].as_array().expect("cases").iter();
    let tokens = cases.filter_map(|case| case["token"].as_str()?.rsplit_once('.'));
    tokens.map(|(signed, _)| signed.to_owned()).collect()
});

static ACCOUNTS: LazyLock<Accounts> =
    LazyLock::new(|| Accounts { issuers: recorded::issuers(), keys: recorded::keys(), audiences: recorded::issuers(), lookup: true });

fn law(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let evaluated = ACCOUNTS.evaluate(text, None, &Empty, std::time::UNIX_EPOCH);
    assert!(!matches!(evaluated, Ok(Some(_))), "nobody has an account");
    let Ok(token) = Token::parse(text) else { return false };
    if token.verified(&ACCOUNTS.keys).is_ok() {
        let (signed, _) = text.rsplit_once('.').expect("it was read");
        assert!(SIGNED.contains(signed), "nobody signed this");
    }
    true
}

#[test]
fn tokens() {
    let words = &[".", "eyJ", "eyJhbGciOiJub25lIn0", "eyJhbGciOiJSUzI1NiJ9", "=", "-", "_", "AAAA", "%"];
    let long = &[
        ["", ".", ""],
        ["", "a", ".b.c"],
        ["e30.", "W1tb", ".AAAA"],
        ["e30.e30.", "AAAA", ""],
        ["eyJhbGciOiJSUzI1NiJ9.eyJh", "OnsiYSI6eyJh", ".AAAA"],
    ];
    Subject { name: "tokens", law, words, long }.check();
}

/// A line for each header, as in HTTP. Nobody has a token or a certificate here.
fn headers(input: &[u8]) -> bool {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return false };
        let (name, value) = (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(line[colon + 1..].trim_ascii()));
        let (Ok(name), Ok(value)) = (name, value) else { return false };
        if headers.try_append(name, value).is_err() {
            return false;
        }
    }
    let config = Config { anonymous: Anonymous::Yes, bootstrap_tokens: true, ..Config::default() };
    let authenticator = Authenticator::load(&config).expect("no files");
    for is_socket in [false, true] {
        let mut headers = headers.clone();
        let certificate = &ClientCertificate::ABSENT;
        let context = Context { path: "/", certificate, is_socket, directory: &Empty, now: std::time::UNIX_EPOCH };
        match authenticator.identify(&mut headers, &context) {
            AuthnOutcome::Identity(Identity::User(authenticated)) => {
                assert_eq!(authenticated.user.name, ANONYMOUS, "nobody has shown who he is")
            }
            AuthnOutcome::Identity(_) => {}
            AuthnOutcome::NeedsRemote(_) => panic!("nobody else is asked"),
        }
        if let Ok(Some(wanted)) = Impersonation::wanted(&mut headers) {
            assert!(!wanted.name.is_empty() && !impersonates(&headers));
        }
    }
    true
}

#[test]
fn credentials() {
    let words = &[
        "Authorization: Bearer ",
        "Impersonate-User: ",
        "Impersonate-Group: ",
        "Impersonate-Extra-",
        "X-Remote-User: ",
        "X-Remote-Group: ",
        "X-Remote-Extra-",
        "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.",
        "%2f",
        "\n",
    ];
    let long = &[
        ["Impersonate-User: a", "\nImpersonate-Group: g", ""],
        ["Authorization: Bearer ", "a.", ""],
        ["Impersonate-Extra-a", "%2", ": b"],
    ];
    Subject { name: "credentials", law: headers, words, long }.check();
}
