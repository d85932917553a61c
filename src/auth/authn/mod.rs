//! Who are you: client certificates and bearer tokens become a [`User`]. Knows no request body, no route and no permission.

mod protocol;
mod tokens;
mod x509;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use thiserror::Error;

use crate::user::User;

pub use x509::ClientCertificate;

/// What a request proved about its client. The caller decides what each may do (health endpoints may answer `None`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Came through the plain listener on loopback: a local user, who may do everything.
    Local,
    /// A known client.
    User(Arc<User>),
    /// No credentials at all, or of a kind we do not know (`Basic`).
    None,
    /// Credentials that are wrong: 401, even on `/healthz` (spec api-surface §12).
    Invalid,
}

/// Whether a request wants to be carried out as somebody else: `Impersonate-User`, `-Group`, `-Uid`, `-Extra-…` (spec api-surface §12).
#[must_use]
pub fn impersonates(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("impersonate-"))
}

/// Why the authenticators could not be set up. One line each, naming the flag.
#[derive(Debug, Error)]
pub enum AuthError {
    /// A file could not be read.
    #[error("{flag} {}: {error}", path.display())]
    Read {
        /// The flag that named the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A file was read and makes no sense.
    #[error("{flag} {}: {what}", path.display())]
    Malformed {
        /// The flag that named the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// Which authenticators there are.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `--client-ca-file`.
    pub client_ca_file: Option<PathBuf>,
    /// `--token-auth-file`.
    pub token_file: Option<PathBuf>,
}

/// The configured ways to prove who one is, in the order they are asked (spec api-surface §12): certificate, then bearer token.
#[derive(Debug)]
pub struct Authenticator {
    authorities: Option<x509::Authorities>,
    tokens: tokens::Tokens,
}

impl Authenticator {
    /// Reads the files that `config` names, once.
    ///
    /// # Errors
    /// A file that cannot be read or parsed; the message is one line with the flag's name.
    pub fn load(config: &Config) -> Result<Authenticator, AuthError> {
        let authorities = match &config.client_ca_file {
            Some(path) => Some(read("--client-ca-file", path, x509::Authorities::from_pem)?),
            None => None,
        };
        let tokens = match &config.token_file {
            Some(path) => read("--token-auth-file", path, tokens::Tokens::from_csv)?,
            None => tokens::Tokens::default(),
        };
        Ok(Authenticator { authorities, tokens })
    }

    /// What the TLS listener asks of a client's certificate: nothing but possession of its key, so that an untrusted one ends in a 401 and not in a broken
    /// handshake. `None` when no authority is configured: then no certificate is asked for.
    pub fn handshake_verifier(&self) -> Option<Arc<dyn ClientCertVerifier>> {
        self.authorities.as_ref().map(x509::Authorities::handshake_verifier)
    }

    /// Judges the chain that a handshake brought, once per connection.
    pub fn certificate(&self, chain: Option<&[CertificateDer<'_>]>, now: SystemTime) -> ClientCertificate {
        match (&self.authorities, chain) {
            (Some(authorities), Some([leaf, rest @ ..])) => authorities.judge(leaf, rest, now),
            _ => ClientCertificate::Absent,
        }
    }

    /// Who sent a request on the TLS listener. The first credential that holds wins; a wrong one with no right one beside it is `Invalid`.
    pub fn identify(&self, headers: &HeaderMap, certificate: &ClientCertificate, now: SystemTime) -> Identity {
        let mut wrong = false;
        match certificate {
            ClientCertificate::Trusted { user, expires } if now <= *expires => return Identity::User(Arc::clone(user)),
            ClientCertificate::Trusted { .. } | ClientCertificate::Untrusted(_) => wrong = true,
            ClientCertificate::Absent => {}
        }
        if let Some(token) = bearer(headers) {
            match self.tokens.user(token) {
                Some(user) => return Identity::User(user),
                None => wrong = true,
            }
        }
        if wrong { Identity::Invalid } else { Identity::None }
    }

    /// Whose bearer token it is.
    pub fn token_user(&self, token: &[u8]) -> Option<Arc<User>> {
        self.tokens.user(token)
    }

    /// Who sent a request for a WebSocket. Last of all its token may be among the subprotocols (spec list-watch §4.10); one that holds is taken out of the
    /// headers, so that the answer does not name it.
    pub fn identify_socket(&self, headers: &mut HeaderMap, certificate: &ClientCertificate, now: SystemTime) -> Identity {
        let identity = self.identify(headers, certificate, now);
        if matches!(identity, Identity::User(_)) {
            return identity;
        }
        match protocol::offered(headers) {
            Ok(None) => identity,
            Ok(Some(offer)) => match self.tokens.user(&offer.token) {
                Some(user) => {
                    headers.insert(SEC_WEBSOCKET_PROTOCOL, offer.others);
                    Identity::User(user)
                }
                None => Identity::Invalid,
            },
            Err(protocol::Unusable) => Identity::Invalid,
        }
    }
}

fn read<T>(flag: &'static str, path: &Path, parse: fn(&[u8]) -> Result<T, String>) -> Result<T, AuthError> {
    let bytes = std::fs::read(path).map_err(|error| AuthError::Read { flag, path: path.to_owned(), error })?;
    parse(&bytes).map_err(|what| AuthError::Malformed { flag, path: path.to_owned(), what })
}

/// The token of `Authorization: Bearer TOKEN`, as kube-apiserver reads it: first header only, scheme in any case, text after a second space ignored.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut parts = value.split(|byte| *byte == b' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::user::AUTHENTICATED;

    fn authenticator() -> Authenticator {
        let tokens = tokens::Tokens::from_csv(b"admintoken,admin,1,\"system:masters,ops\"\n").expect("valid");
        Authenticator { authorities: None, tokens }
    }

    fn identify(authorization: &str) -> Identity {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(authorization).expect("a header value"));
        authenticator().identify(&headers, &ClientCertificate::Absent, SystemTime::now())
    }

    #[test]
    fn bearer_tokens_as_kube_apiserver_reads_them() {
        for right in ["Bearer admintoken", "bearer admintoken", " BEARER admintoken ", "Bearer admintoken more"] {
            let Identity::User(user) = identify(right) else { panic!("{right}") };
            assert_eq!(user.groups, ["system:masters", "ops", AUTHENTICATED]);
        }
        for wrong in ["Bearer nope", "Bearer admintoke", "Bearer admintoken1"] {
            assert_eq!(identify(wrong), Identity::Invalid, "{wrong}");
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
            let identity = authenticator().identify_socket(&mut headers, &ClientCertificate::Absent, SystemTime::now());
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
        let user = Arc::new(User { name: "a".into(), uid: String::new(), groups: vec![], extra: vec![] });
        let now = SystemTime::now();
        let expired = ClientCertificate::Trusted { user, expires: now - std::time::Duration::from_secs(1) };
        let untrusted = ClientCertificate::Untrusted("unknown issuer".to_owned());
        let mut headers = HeaderMap::new();
        for certificate in [&expired, &untrusted] {
            assert_eq!(authenticator().identify(&headers, certificate, now), Identity::Invalid);
        }
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer admintoken"));
        assert!(matches!(authenticator().identify(&headers, &untrusted, now), Identity::User(_)));
    }

    #[test]
    fn a_missing_file_is_one_line_with_the_flag() {
        let config = Config { client_ca_file: Some("/does/not/exist".into()), token_file: None };
        let line = Authenticator::load(&config).expect_err("no such file").to_string();
        assert!(line.starts_with("--client-ca-file /does/not/exist: ") && !line.contains('\n'), "{line}");
    }
}
