//! Authentication: certificates, tokens and headers become a [`User`].

mod anonymous;
mod authenticator;
mod bootstrap_token;
mod cache;
/// Returns the node that the Pod of a service account runs on, if its token says so.
#[must_use]
pub fn node_of_account(user: &User) -> Option<&str> {
    let (_, of_node) = user.extra.iter().find(|(key, _)| key == service_account::NODE_NAME)?;
    let [node] = of_node.as_slice() else { return None };
    Some(node.as_str()).filter(|node| service_account::split(&user.name).is_some() && is_subdomain(node))
}

#[cfg(test)]
mod corpus;
mod directory;
mod host;
mod impersonation;

mod jwt;
mod keys;
pub mod oidc;
mod protocol;
mod published;
#[cfg(test)]
mod recorded;
mod request_header;
mod service_account;
mod tokens;
mod x509;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::names::is_subdomain;
use crate::user::User;

pub use anonymous::Anonymous;
pub use authenticator::{AccountsConfig, Authenticator, Config, Context};
pub use cache::Key as TokenKey;
pub use cache::key as token_key;
pub use directory::{Directory, Empty, Kind, Object};
pub use host::HostAuthorities;
pub use impersonation::{Forbidden, Impersonated, Impersonation, Mode, Question, impersonates};
pub use jwt::{Algorithm, TOKEN_BYTES_MAX, detached_signature};
pub use keys::{Discovery, DocumentError, KeyError, PublicKey, SigningKey};
pub use request_header::RequestHeaders;
pub use service_account::{Accounts, Issued, Issuer, LastUse, TokenRequest, TokenRequestError};
pub use x509::{CertificateTrust, ClientCertificate, PresentedChain, not_after, refused_certificate};

/// The identity of a request's client. The caller decides what each may do (health endpoints may answer `None`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Came through the plain listener on loopback: a local user, who may do everything.
    Local,
    /// A known client, or `system:anonymous` where that is allowed.
    User(AuthenticatedUser),
    /// No credentials at all, or of a kind we do not know (`Basic`).
    None,
    /// Credentials that are wrong: 401, even on `/healthz` (spec api-surface §12).
    Invalid(Refusal),
}

/// An authenticated user, and what is known of his credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticatedUser {
    /// The user.
    pub user: Arc<User>,
    /// Audiences that were asked for and that a token is for; empty when nobody looks at them.
    pub audiences: Vec<String>,
    /// When the credential expires, also for what began before.
    pub expires: Option<SystemTime>,
    /// The credential, if a file may revoke it.
    pub credential: Credential,
    /// A warning for the client.
    pub warning: Option<&'static str>,
    /// An annotation of the audit event: name and value.
    pub annotation: Option<(&'static str, String)>,
    /// The legacy token that was used.
    pub last_use: Option<LastUse>,
}

impl AuthenticatedUser {
    /// Returns about how many bytes it takes: its user's texts, most of which others choose.
    pub(crate) fn bytes(&self) -> usize {
        let AuthenticatedUser { user, audiences, .. } = self;
        let extra = user.extra.iter().flat_map(|(key, values)| std::iter::once(key).chain(values));
        let texts = user.groups.iter().chain(extra).chain(audiences).chain([&user.name, &user.uid]);
        texts.map(|text| text.len() + size_of::<String>()).sum()
    }
}

/// A credential, as far as a file may revoke it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credential {
    /// No file revokes it.
    #[default]
    Lasting,
    /// The certificate of the connection, as a client's.
    Certificate,
    /// The same, as the proxy's.
    Proxy,
    /// A token of the token file: its digest, and its user.
    Token(Box<([u8; 32], Arc<User>)>),
}

impl AuthenticatedUser {
    /// Returns this user as a member of `system:authenticated`.
    #[must_use]
    pub fn of(user: User) -> AuthenticatedUser {
        AuthenticatedUser { user: Arc::new(user.authenticated()), ..AuthenticatedUser::default() }
    }
}

/// Why credentials are refused. For the log, and for the `status.error` of a TokenReview; other clients get a bare 401.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// Each reason once; none when a token is simply not known.
    pub why: Vec<String>,
    /// Whether it was decided by an object that the cache does not have, or has differently: a newer cache may decide otherwise.
    pub from_memory: bool,
    /// The Secret whose token this is, which is told that it was used all the same.
    pub last_use: Option<Box<LastUse>>,
}

impl Refusal {
    fn from_memory(why: String) -> Refusal {
        Refusal { why: vec![why], from_memory: true, last_use: None }
    }

    /// Both.
    #[must_use]
    pub fn and(mut self, other: Refusal) -> Refusal {
        self.why.extend(other.why);
        self.from_memory |= other.from_memory;
        self.last_use = self.last_use.or(other.last_use);
        self
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal { why: vec![why], from_memory: false, last_use: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = HashSet::new();
        let all = std::iter::once("invalid bearer token").chain(self.why.iter().map(String::as_str));
        let once: Vec<&str> = all.filter(|why| told.insert(*why)).collect();
        match once[..] {
            [one] => out.write_str(one),
            _ => write!(out, "[{}]", once.join(", ")),
        }
    }
}

/// What is known of a client from memory alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthnOutcome {
    /// All that there is to know.
    Identity(Identity),
    /// Nobody here knows this token; an OpenID provider or a webhook may.
    NeedsRemote(NeedsRemote),
}

impl AuthnOutcome {
    /// Whether it is a refusal that a newer cache may not repeat.
    #[must_use]
    pub fn may_be_stale(&self) -> bool {
        match self {
            AuthnOutcome::Identity(Identity::Invalid(refusal)) | AuthnOutcome::NeedsRemote(NeedsRemote { refusal, .. }) => {
                refusal.from_memory
            }
            AuthnOutcome::Identity(_) => false,
        }
    }
}

/// A token that only a remote authenticator may know.
#[derive(Clone, PartialEq, Eq)]
pub struct NeedsRemote {
    /// The token.
    pub token: String,
    /// Why the local authenticators refuse it.
    pub refusal: Refusal,
}

impl fmt::Debug for NeedsRemote {
    /// Without the token.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("NeedsRemote").field("refusal", &self.refusal).finish_non_exhaustive()
    }
}

/// Base64 as Go's `RawURLEncoding` reads it: no padding, and the last character's spare bits may be anything.
pub(crate) const RAW_URL: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// This second after 1970; earlier ones are the first. None when no clock shows it.
fn moment(seconds: i64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Returns the audiences that are both asked for and there, in the order of the question.
#[must_use]
pub fn intersection(there: &[String], asked: &[String]) -> Vec<String> {
    asked.iter().filter(|audience| there.contains(audience)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_once() {
        let refusal = |why: &[&str]| Refusal { why: why.iter().map(|why| (*why).to_owned()).collect(), ..Refusal::default() }.to_string();
        assert_eq!(refusal(&[]), "invalid bearer token");
        assert_eq!(refusal(&["a"]), "[invalid bearer token, a]");
        assert_eq!(refusal(&["a", "b", "a"]), "[invalid bearer token, a, b]");
    }

    #[test]
    fn a_token_is_not_shown() {
        let needs_remote = NeedsRemote { token: "secret".to_owned(), refusal: "a".to_owned().into() };
        assert!(!format!("{needs_remote:?}").contains("secret"));
        assert_eq!(needs_remote.refusal.and("b".to_owned().into()).why, ["a", "b"]);
    }
}
