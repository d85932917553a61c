//! Authentication: certificates, tokens and headers become a [`User`].

mod anonymous;
mod authenticator;
mod bootstrap_token;
mod cache;
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

use crate::user::User;

pub use anonymous::Anonymous;
pub use authenticator::{AccountsConfig, Authenticator, Config, Context};
pub use cache::Key as TokenKey;
pub use cache::key as token_key;
pub use directory::{Directory, Empty, Kind, Object};
pub use host::HostAuthorities;
pub use impersonation::{Forbidden, Impersonated, Impersonation, Mode, Question, impersonates};
pub use jwt::{Algorithm, TOKEN_BYTES_MAX};
pub use keys::{Discovery, DocumentError, KeyError, PublicKey, SigningKey};
pub use request_header::RequestHeaders;
pub use service_account::{Accounts, Issued, Issuer, LastUse, TokenRequest, TokenRequestError};
pub use x509::{ClientCertificate, Presented, Standing, refused_certificate};

/// What a request proved about its client. The caller decides what each may do (health endpoints may answer `None`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Came through the plain listener on loopback: a local user, who may do everything.
    Local,
    /// A known client, or `system:anonymous` where that is allowed.
    User(Proof),
    /// No credentials at all, or of a kind we do not know (`Basic`).
    None,
    /// Credentials that are wrong: 401, even on `/healthz` (spec api-surface §12).
    Invalid(Refusal),
}

/// Who somebody is, and what goes with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Who.
    pub user: Arc<User>,
    /// Audiences that were asked for and that a token is for; empty when nobody looks at them.
    pub audiences: Vec<String>,
    /// After this the credential is worth nothing, also for what began before.
    pub expires: Option<SystemTime>,
    /// What proved it, if a file may take that away.
    pub credential: Credential,
    /// What the client is warned of.
    pub warning: Option<&'static str>,
    /// What the audit log notes: name and value.
    pub annotation: Option<(&'static str, String)>,
    /// The legacy token that was used.
    pub last_use: Option<LastUse>,
}

impl Proof {
    /// Returns about how many bytes it takes: its user's texts, most of which others choose.
    pub(crate) fn bytes(&self) -> usize {
        let Proof { user, audiences, .. } = self;
        let extra = user.extra.iter().flat_map(|(key, values)| std::iter::once(key).chain(values));
        let texts = user.groups.iter().chain(extra).chain(audiences).chain([&user.name, &user.uid]);
        texts.map(|text| text.len() + size_of::<String>()).sum()
    }
}

/// What proves who somebody is, as far as files may take it away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credential {
    /// No file does.
    #[default]
    Lasting,
    /// The certificate of the connection, as a client's.
    Certificate,
    /// The same, as the proxy's.
    Proxy,
    /// A token of the token file: its digest, and whose it was.
    Token(Box<([u8; 32], Arc<User>)>),
}

impl Proof {
    /// Of somebody who is in the group of everyone who proved who they are.
    #[must_use]
    pub fn of(user: User) -> Proof {
        Proof { user: Arc::new(user.authenticated()), ..Proof::default() }
    }
}

/// Why credentials are wrong. For the log, and for the `status.error` of a TokenReview; other clients get a bare 401.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// Each reason once; none when a token is simply not known.
    pub why: Vec<String>,
    /// An object that was not in memory, or was another one, had a part in it: with newer memory the answer may be another.
    pub from_memory: bool,
}

impl Refusal {
    fn from_memory(why: String) -> Refusal {
        Refusal { why: vec![why], from_memory: true }
    }

    /// Both.
    #[must_use]
    pub fn and(mut self, other: Refusal) -> Refusal {
        self.why.extend(other.why);
        self.from_memory |= other.from_memory;
        self
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal { why: vec![why], from_memory: false }
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
pub enum Ask {
    /// All that there is to know.
    Identity(Identity),
    /// Nobody here knows this token; an OpenID provider or a webhook may.
    Elsewhere(Elsewhere),
}

impl Ask {
    /// Whether it says no for an object that was not in memory, or was another one there: with newer memory it may say something else.
    #[must_use]
    pub fn rests_on_memory(&self) -> bool {
        match self {
            Ask::Identity(Identity::Invalid(refusal)) | Ask::Elsewhere(Elsewhere { refusal, .. }) => refusal.from_memory,
            Ask::Identity(_) => false,
        }
    }
}

/// A token that must be asked about over the network.
#[derive(Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// The token.
    pub token: String,
    /// What was already found wrong.
    pub refusal: Refusal,
}

impl fmt::Debug for Elsewhere {
    /// Without the token.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Elsewhere").field("refusal", &self.refusal).finish_non_exhaustive()
    }
}

/// Base64 as Go's `RawURLEncoding` reads it: no padding, and the last character's spare bits may be anything.
const RAW_URL: GeneralPurpose = GeneralPurpose::new(
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

/// What is asked for and there, in the order of the question.
#[must_use]
pub fn intersection(there: &[String], asked: &[String]) -> Vec<String> {
    asked.iter().filter(|audience| there.contains(audience)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_once() {
        let refusal = |why: &[&str]| Refusal { why: why.iter().map(|why| (*why).to_owned()).collect(), from_memory: false }.to_string();
        assert_eq!(refusal(&[]), "invalid bearer token");
        assert_eq!(refusal(&["a"]), "[invalid bearer token, a]");
        assert_eq!(refusal(&["a", "b", "a"]), "[invalid bearer token, a, b]");
    }

    #[test]
    fn a_token_is_not_shown() {
        let elsewhere = Elsewhere { token: "secret".to_owned(), refusal: "a".to_owned().into() };
        assert!(!format!("{elsewhere:?}").contains("secret"));
        assert_eq!(elsewhere.refusal.and("b".to_owned().into()).why, ["a", "b"]);
    }
}
