//! Service account tokens: finds the account, and checks that the objects that the token is bound to still exist.

mod bound;
mod issue;
mod legacy;
mod request;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use go::quote::quoted;

pub use issue::{Issued, Issuer};
pub use legacy::LastUse;
pub use request::{TokenRequest, TokenRequestError};

use super::directory::{Directory, Kind, Object};
use super::jwt::{Claims, Token};
use super::keys::PublicKey;
use super::{AuthenticatedUser, Refusal, intersection, moment};
use crate::names::{is_label, is_subdomain};
use crate::user::User;

/// What every name of a service account begins with.
pub(crate) const USER_PREFIX: &str = "system:serviceaccount:";
/// Group of all service accounts.
const GROUP: &str = "system:serviceaccounts";
/// Issuer of tokens that are kept in Secrets.
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// How far clocks may differ, and how long what was deleted still counts.
const LEEWAY_SECONDS: i64 = 60;

pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
pub(crate) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// Which tokens of service accounts are believed.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// `--service-account-issuer`; the first one is who issues.
    pub issuers: Vec<String>,
    /// `--service-account-key-file`, of all files.
    pub keys: Vec<PublicKey>,
    /// `--api-audiences`, or the issuers.
    pub audiences: Vec<String>,
    /// `--service-account-lookup`: legacy tokens are looked up in their Secrets. Bound ones always are.
    pub lookup: bool,
}

impl Accounts {
    /// Whose token it is; `None` when it is no token of a service account. `audiences` are what is asked for; by default those of the API.
    ///
    /// # Errors
    /// Why it is not believed.
    pub(super) fn evaluate(
        &self,
        text: &str,
        audiences: Option<&[String]>,
        directory: &dyn Directory,
        now: SystemTime,
    ) -> Result<Option<AuthenticatedUser>, Refusal> {
        let Ok(token) = Token::parse(text) else { return Ok(None) };
        let is_legacy = token.issuer() == LEGACY_ISSUER;
        if !is_legacy && !self.issuers.iter().any(|issuer| issuer == token.issuer()) {
            return Ok(None);
        }
        let kid = token.kid();
        let claims = token.verified(self.keys.iter().filter(|key| kid.is_empty() || key.kid() == kid))?;
        // As Go, which reads all claims before it looks at one.
        claims.check_registered()?;
        if is_legacy {
            legacy::check_types(claims)?;
        } else {
            bound::check_types(claims)?;
        }
        let own = claims.audiences()?;
        let own = if own.is_empty() { &self.audiences } else { &own };
        let asked = audiences.unwrap_or(&self.audiences);
        let audiences = intersection(own, asked);
        if audiences.is_empty() && !self.audiences.is_empty() {
            let why = format!("token audiences {} is invalid for the target audiences {}", list(own), list(asked));
            return Err(why.into());
        }
        let seconds = seconds(now);
        let authenticated = if is_legacy {
            legacy::check(claims, text, directory, self.lookup, seconds)?
        } else {
            bound::check(claims, directory, seconds)?
        };
        Ok(Some(AuthenticatedUser { audiences, ..authenticated }))
    }
}

/// `%q` of a list.
fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(" "))
}

fn seconds(now: SystemTime) -> i64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Until when a token with this `exp` is taken.
fn end(exp: Option<i64>) -> Option<SystemTime> {
    moment(exp?.checked_add(LEEWAY_SECONDS)?)
}

/// The user of an account.
fn user(namespace: &str, name: &str, uid: &str, extra: Vec<(String, Vec<String>)>) -> Arc<User> {
    let user = User { name: format!("{USER_PREFIX}{namespace}:{name}"), uid: uid.to_owned(), groups: groups(namespace), extra };
    Arc::new(user.authenticated())
}

/// The groups of the accounts of a namespace.
pub(crate) fn groups(namespace: &str) -> Vec<String> {
    vec![GROUP.to_owned(), format!("{GROUP}:{namespace}")]
}

/// Namespace and name in the user name of an account.
pub(crate) fn split(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(USER_PREFIX)?.split_once(':')?;
    (is_label(namespace) && is_subdomain(name)).then_some((namespace, name))
}

/// The account, as kube-apiserver looks it up.
fn account(directory: &dyn Directory, namespace: &str, name: &str) -> Result<Object, Refusal> {
    if name.is_empty() {
        return Err("resource name may not be empty".to_owned().into());
    }
    let missing = || Refusal::from_memory(format!("serviceaccounts {} not found", quoted(name)));
    directory.object(Kind::ServiceAccount, namespace, name).ok_or_else(missing)
}

/// `nbf`, `exp` and `iat`, in this order; `exp` comes back.
fn check_times(claims: &Claims, now: i64) -> Result<Option<i64>, Refusal> {
    let (expires, begins, issued) = (claims.date("exp")?, claims.date("nbf")?, claims.date("iat")?);
    let is_ahead = |at: Option<i64>| at.is_some_and(|at| now.saturating_add(LEEWAY_SECONDS) < at);
    let why = if is_ahead(begins) {
        "service account token is not valid yet"
    } else if expires.is_some_and(|at| now.saturating_sub(LEEWAY_SECONDS) > at) {
        "service account token has expired"
    } else if is_ahead(issued) {
        "service account token is issued in the future"
    } else {
        return Ok(expires);
    };
    Err(why.to_owned().into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::authn::keys::SigningKey;
    use crate::authn::recorded::{self, Recorded};

    pub(super) fn accounts() -> Accounts {
        Accounts { issuers: recorded::issuers(), keys: recorded::keys(), audiences: recorded::issuers(), lookup: true }
    }

    pub(super) fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(recorded::all()["now"].as_u64().expect("a number"))
    }

    /// One object for every question.
    struct Only(serde_json::Value);

    impl Directory for Only {
        fn object(&self, _kind: Kind, _namespace: &str, _name: &str) -> Option<Object> {
            Object::from_json(self.0.to_string().as_bytes()).ok()
        }
    }

    fn good() -> &'static str {
        recorded::all()["reviews"][0]["token"].as_str().expect("a text")
    }

    #[test]
    fn user_names_of_accounts_are_taken_apart() {
        assert_eq!(split("system:serviceaccount:default:robot"), Some(("default", "robot")));
        assert_eq!(split("system:serviceaccount:default:a.b-c"), Some(("default", "a.b-c")));
        for other in [
            "",
            "robot",
            "system:serviceaccount:default",
            "system:serviceaccount::a",
            "system:serviceaccount:a.b:c",
            "system:serviceaccount:a:b:c",
        ] {
            assert_eq!(split(other), None, "{other}");
        }
    }

    #[test]
    fn an_account_counts_for_a_minute_after_its_deletion() {
        let uid = recorded::all()["objects"]["serviceaccount"]["metadata"]["uid"].clone();
        let evaluate = |since: i64| {
            let mut at = Vec::new();
            go::timestamp::text_into(seconds(now()) - since, None, &mut at);
            let at = String::from_utf8(at).expect("ASCII");
            let only = Only(json!({"metadata": {"uid": uid, "deletionTimestamp": at.trim_matches('"')}}));
            accounts().evaluate(good(), None, &only, now()).map(|authenticated| authenticated.is_some())
        };
        assert_eq!(evaluate(60), Ok(true));
        assert_eq!(evaluate(61), Err("service account default/robot has been deleted".to_owned().into()));
    }

    #[test]
    fn a_token_ends_a_minute_after_its_time() {
        let authenticated = accounts().evaluate(good(), None, &Recorded, now()).expect("believed").expect("ours");
        let end = authenticated.expires.expect("it has an end");
        assert!(accounts().evaluate(good(), None, &Recorded, end).is_ok());
        let late = accounts().evaluate(good(), None, &Recorded, end + Duration::from_secs(1));
        assert_eq!(late, Err("service account token has expired".to_owned().into()));
    }

    #[test]
    fn an_account_that_is_not_in_memory_may_be_there() {
        let refusal = accounts().evaluate(good(), None, &crate::authn::directory::Empty, now()).expect_err("nobody is there");
        assert!(refusal.from_memory && refusal.why == ["serviceaccounts \"robot\" not found"], "{refusal:?}");
    }

    #[test]
    fn without_lookup_a_legacy_token_needs_no_secret() {
        let legacy = recorded::all()["reviews"].as_array().expect("a list").iter().find(|case| case["name"] == "legacy: secret is gone");
        let token = legacy.expect("recorded")["token"].as_str().expect("a text");
        let blind = Accounts { lookup: false, ..accounts() };
        let evaluate = |accounts: Accounts| accounts.evaluate(token, None, &crate::authn::directory::Empty, now());
        assert!(evaluate(blind).is_ok_and(|authenticated| authenticated.is_some()) && evaluate(accounts()).is_err());
    }

    #[test]
    fn any_bit_matters() {
        let key = SigningKey::from_pem(&recorded::file("p256.pem")).expect("a key");
        let (account, now) = (&recorded::all()["objects"]["serviceaccount"]["metadata"]["uid"], seconds(now()));
        let claims = json!({"iss": recorded::issuers()[0], "exp": now, "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": account}}});
        let token = key.sign(&claims.to_string()).expect("signed");
        let believed = |token: &str| {
            accounts().evaluate(token, None, &Recorded, super::tests::now()).is_ok_and(|authenticated| authenticated.is_some())
        };
        assert!(believed(&token));
        for at in 0..token.len() - 1 {
            let mut other = token.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).expect("ASCII");
            assert!(!believed(&other), "{at}");
        }
    }
}
