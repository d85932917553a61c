//! Tokens of an OpenID provider: verifies their signature and reads the user from their claims.

mod config;
mod keys;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use go::calendar::civil;
use go::quote::quoted;
use serde_json::{Number, Value};

use super::jwt::{Algorithm, Claims, Token, date, mistyped, text};
use super::service_account::CREDENTIAL_ID;
use super::{AuthenticatedUser, Refusal, moment};
use crate::user::User;

pub use config::{
    AnonymousConfig, AuthenticationConfiguration, ClaimMappings, ClaimValidationRule, Flags, Issuer, JwtAuthenticator, Mapping, UidMapping,
};
pub use keys::{DISCOVERY_BYTES_MAX, ProviderKeys, discovery_url, keys_url};

/// How far ahead `nbf` may be.
const LEEWAY: Duration = Duration::from_secs(60);
/// Go's zero time, 0001-01-01.
const GO_ZERO: i64 = -62_135_596_800;

/// A provider whose tokens are believed.
#[derive(Clone, Debug)]
pub struct Provider {
    /// What is configured of it; valid.
    pub config: JwtAuthenticator,
    /// How its tokens may be signed.
    pub algorithms: Vec<Algorithm>,
}

/// What a provider says of its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Whose it is.
    AuthenticatedUser(AuthenticatedUser),
    /// The keys that are known do not vouch for it. Fetch them, and ask again.
    Fetch,
}

impl Provider {
    /// Whose token it is; `None` when another issuer made it.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn evaluate(&self, text: &str, keys: &ProviderKeys, now: SystemTime) -> Result<Option<Answer>, Refusal> {
        let Ok(token) = Token::parse(text) else { return Ok(None) };
        if token.issuer() != self.config.issuer.url {
            return Ok(None);
        }
        let no = |why: String| Refusal::from(format!("oidc: verify token: {why}"));
        if !self.algorithms.iter().any(|algorithm| algorithm.name() == token.alg()) {
            let expected: Vec<String> = self.algorithms.iter().map(|algorithm| quoted(algorithm.name())).collect();
            let (expected, got) = (expected.join(" "), quoted(token.alg()));
            return Err(no(format!("oidc: id token signed with unsupported algorithm, expected [{expected}] got {got}")));
        }
        let claims = match token.verified(keys.named(token.kid())) {
            Ok(claims) => claims,
            Err(_) if keys.may_fetch(now) => return Ok(Some(Answer::Fetch)),
            Err(_) => return Err(no("failed to verify signature: failed to verify id token signature".to_owned())),
        };
        let expires = self.check(claims, now).map_err(no)?;
        let user = self.user(claims).map_err(|why| Refusal::from(format!("oidc: {why}")))?;
        Ok(Some(Answer::AuthenticatedUser(AuthenticatedUser { expires: Some(expires), ..AuthenticatedUser::of(user) })))
    }

    /// Audience and times; until when it is good.
    fn check(&self, claims: &Claims, now: SystemTime) -> Result<SystemTime, String> {
        let Standard { audiences: found, ends, begins } =
            Standard::of(claims).map_err(|why| format!("oidc: failed to unmarshal claims: {why}"))?;
        let list = |texts: &[&String]| texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(" ");
        let mut wanted: Vec<&String> = self.config.issuer.audiences.iter().collect();
        if !found.iter().any(|audience| wanted.contains(&audience)) {
            let found = list(&found.iter().collect::<Vec<_>>());
            wanted.sort();
            return Err(match wanted[..] {
                [one] => format!("oidc: expected audience {} got [{found}]", quoted(one)),
                _ => format!("oidc: expected audience in [{}] got [{found}]", list(&wanted)),
            });
        }
        let expires = ends.and_then(moment).filter(|expires| *expires >= now);
        let expires = expires.ok_or_else(|| format!("oidc: token is expired (Token Expiry: {})", shown(ends.unwrap_or(GO_ZERO))))?;
        if begins.and_then(moment).is_some_and(|begins| now + LEEWAY < begins) {
            let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            let (now, begins) = (shown(i64::try_from(now).unwrap_or(i64::MAX)), shown(begins.unwrap_or_default()));
            return Err(format!("oidc: current time {now} before the nbf (not before) time: {begins}"));
        }
        Ok(expires)
    }

    /// Whom the claims name.
    fn user(&self, claims: &Claims) -> Result<User, String> {
        let mappings = &self.config.claim_mappings;
        let claim = &mappings.username.claim;
        let name = needed(claims, claim).map_err(|why| format!("parse username claims {}: {why}", quoted(claim)))?;
        if claim == "email" && claims.has("email_verified") {
            match claims.get("email_verified") {
                Some(Value::Bool(true)) => {}
                None | Some(Value::Bool(false)) => return Err("email not verified".to_owned()),
                Some(other) => return Err(format!("parse 'email_verified' claim: {}", mistyped(other, "bool"))),
            }
        }
        if name.is_empty() {
            return Err(format!("username claim {} is empty", quoted(claim)));
        }
        let uid = match &mappings.uid.claim {
            none if none.is_empty() => "",
            claim => needed(claims, claim).map_err(|why| format!("parse uid claim {}: {why}", quoted(claim)))?,
        };
        let groups = self.groups(claims)?;
        let id = claims.text("jti").ok().filter(|id| !id.is_empty());
        let extra = id.map(|id| (CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")])).into_iter().collect();
        for ClaimValidationRule { claim, required_value, .. } in &self.config.claim_validation_rules {
            if !claims.has(claim) {
                return Err(format!("required claim {claim} not present in ID token"));
            }
            let found = claims.text(claim).map_err(|why| format!("parse claim {claim}: {why}"))?;
            if found != required_value {
                return Err(format!("required claim {claim} value does not match. Got = {found}, want = {required_value}"));
            }
        }
        let prefix = mappings.username.prefix.as_deref().unwrap_or_default();
        Ok(User { name: format!("{prefix}{name}"), uid: uid.to_owned(), groups, extra })
    }

    /// A text or a list of them.
    fn groups(&self, claims: &Claims) -> Result<Vec<String>, String> {
        let Mapping { claim, prefix, .. } = &self.config.claim_mappings.groups;
        if claim.is_empty() {
            return Ok(Vec::new());
        }
        if !claims.has(claim) && claims.get("_claim_names").is_some_and(|names| names.get(claim).is_some()) {
            return Err("could not expand distributed claims: they are not supported".to_owned());
        }
        let groups = match claims.get(claim) {
            None => Some(Vec::new()),
            Some(Value::Array(all)) => all.iter().map(|one| text(Some(one)).map(str::to_owned).ok()).collect(),
            Some(one) => one.as_str().map(|one| vec![one.to_owned()]),
        };
        let wrong = || format!("parse groups claim {}: {}", quoted(claim), mistyped(claims.get(claim).unwrap_or(&Value::Null), "string"));
        let groups = groups.ok_or_else(wrong)?;
        let prefix = prefix.as_deref().unwrap_or_default();
        Ok(groups.into_iter().map(|group| format!("{prefix}{group}")).collect())
    }
}

/// The claims of every ID token, as go-oidc reads them.
struct Standard {
    audiences: Vec<String>,
    ends: Option<i64>,
    begins: Option<i64>,
}

impl Standard {
    fn of(claims: &Claims) -> Result<Standard, String> {
        for name in ["sub", "nonce", "at_hash"] {
            if let Some(value) = claims.get(name).filter(|value| !value.is_string()) {
                return Err(mistyped(value, "string").replace("value of type", &format!("struct field idToken.{name} of type")));
            }
        }
        let audiences = match claims.get("aud") {
            None if claims.has("aud") => vec![String::new()],
            None => Vec::new(),
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(all)) => all.iter().map(|one| text(Some(one)).map(str::to_owned)).collect::<Result<_, _>>()?,
            Some(other) => return Err(mistyped(other, "[]string")),
        };
        let ends = seconds(claims, "exp")?;
        seconds(claims, "iat")?;
        let begins = if claims.get("nbf").is_some() { seconds(claims, "nbf")? } else { None };
        Ok(Standard { audiences, ends, begins })
    }
}

/// A date, which may be a number in a text.
fn seconds(claims: &Claims, name: &str) -> Result<Option<i64>, String> {
    match claims.get(name) {
        None if claims.has(name) => Err("strconv.ParseFloat: parsing \"\": invalid syntax".to_owned()),
        None => Ok(None),
        Some(number @ Value::Number(_)) => date(Some(number)),
        Some(value @ Value::String(text)) => match serde_json::from_str::<Number>(text) {
            Ok(number) => date(Some(&Value::Number(number))),
            Err(_) => Err(format!("json: invalid number literal, trying to unmarshal {} into Number", quoted(&value.to_string()))),
        },
        Some(other) => Err(mistyped(other, "json.Number")),
    }
}

/// A second after 1970 as Go prints it, in UTC.
fn shown(seconds: i64) -> String {
    const DAY: i64 = 24 * 3600;
    let ((year, month, day), of_day) = (civil(seconds.div_euclid(DAY)), seconds.rem_euclid(DAY));
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} +0000 UTC", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

fn needed<'c>(claims: &'c Claims, name: &str) -> Result<&'c str, String> {
    if claims.has(name) { claims.text(name) } else { Err("claim not present".to_owned()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::authn::keys::SigningKey;
    use crate::authn::recorded;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(50)
    }

    fn provider() -> Provider {
        let flags = Flags {
            issuer_url: "https://issuer.example".to_owned(),
            client_id: "us".to_owned(),
            username_claim: "sub".to_owned(),
            username_prefix: "u:".to_owned(),
            groups_claim: "groups".to_owned(),
            groups_prefix: "g:".to_owned(),
            required_claims: vec![("team".to_owned(), "a".to_owned())],
            ..Flags::default()
        };
        Provider { config: flags.authenticator(), algorithms: vec![Algorithm::Es256] }
    }

    fn keys() -> ProviderKeys {
        let mut keys = ProviderKeys::default();
        let jwks = recorded::all()["documents"]["/openid/v1/jwks"]["body"].as_str().expect("a text");
        keys.fetched(jwks.as_bytes(), now() + Duration::from_secs(3600), now()).expect("keys");
        keys
    }

    fn signed(claims: &Value) -> String {
        SigningKey::from_pem(&recorded::file("p256.pem")).expect("a key").sign(&claims.to_string()).expect("signed")
    }

    fn claims() -> Value {
        json!({"iss": "https://issuer.example", "aud": ["us"], "exp": 100, "sub": "jane", "groups": ["a", "b"], "team": "a", "jti": "7"})
    }

    /// With other claims, by a provider that is changed; the user or the reason.
    fn evaluated(change: impl FnOnce(&mut Value), configure: impl FnOnce(&mut JwtAuthenticator)) -> Result<User, String> {
        let (mut claims, mut provider) = (claims(), provider());
        change(&mut claims);
        configure(&mut provider.config);
        match provider.evaluate(&signed(&claims), &keys(), now()) {
            Ok(Some(Answer::AuthenticatedUser(authenticated))) => Ok(User::clone(&authenticated.user)),
            Ok(other) => Err(format!("{other:?}")),
            Err(refusal) => Err(refusal.why.concat()),
        }
    }

    #[test]
    fn claims_name_a_user() {
        let user = evaluated(|_| {}, |_| {}).expect("believed");
        assert_eq!((user.name.as_str(), user.groups.join(" ").as_str()), ("u:jane", "g:a g:b system:authenticated"));
        assert_eq!(user.extra, [("authentication.kubernetes.io/credential-id".to_owned(), vec!["JTI=7".to_owned()])]);
        let one = evaluated(|claims| claims["groups"] = "ops".into(), |_| {}).expect("believed");
        assert_eq!(one.groups, ["g:ops", "system:authenticated"]);
        let email = |verified: Value| {
            let change = |claims: &mut Value| {
                claims["email"] = "j@e".into();
                claims["email_verified"] = verified;
            };
            evaluated(change, |config| config.claim_mappings.username.claim = "email".to_owned()).map(|user| user.name)
        };
        assert_eq!(email(true.into()).as_deref(), Ok("u:j@e"));
        assert_eq!(email(false.into()), Err("oidc: email not verified".to_owned()));
        assert_eq!(email(Value::Null), Err("oidc: email not verified".to_owned()));
        let odd = "oidc: parse 'email_verified' claim: json: cannot unmarshal string into Go value of type bool";
        assert_eq!(email("true".into()), Err(odd.to_owned()));
        let uid = |claim: &str| evaluated(|_| {}, |config| config.claim_mappings.uid.claim = claim.to_owned()).map(|user| user.uid);
        assert_eq!(uid("jti").as_deref(), Ok("7"));
        assert_eq!(uid("none"), Err("oidc: parse uid claim \"none\": claim not present".to_owned()));
    }

    #[test]
    fn wrong_claims_are_told() {
        let why = |name: &str, value: Value| evaluated(|claims| claims[name] = value, |_| {}).expect_err(name);
        assert_eq!(why("aud", "other".into()), "oidc: verify token: oidc: expected audience \"us\" got [\"other\"]");
        assert_eq!(why("exp", 49.into()), "oidc: verify token: oidc: token is expired (Token Expiry: 1970-01-01 00:00:49 +0000 UTC)");
        assert_eq!(
            why("nbf", 111.into()),
            "oidc: verify token: oidc: current time 1970-01-01 00:00:50 +0000 UTC before the nbf (not before) time: 1970-01-01 00:01:51 +0000 UTC"
        );
        assert_eq!(why("team", "b".into()), "oidc: required claim team value does not match. Got = b, want = a");
        assert_eq!(why("team", 1.into()), "oidc: parse claim team: json: cannot unmarshal number into Go value of type string");
        assert_eq!(why("sub", "".into()), "oidc: username claim \"sub\" is empty");
        assert_eq!(
            why("groups", json!([1])),
            "oidc: parse groups claim \"groups\": json: cannot unmarshal array into Go value of type string"
        );
        assert_eq!(why("iss", "https://other.example".into()), "None");
        let remove = |name: &str| evaluated(|claims| drop(claims.as_object_mut().expect("claims").remove(name)), |_| {}).expect_err(name);
        assert_eq!(remove("team"), "oidc: required claim team not present in ID token");
        assert_eq!(remove("exp"), "oidc: verify token: oidc: token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)");
        let distributed = |claims: &mut Value| {
            claims.as_object_mut().expect("claims").remove("groups");
            claims["_claim_names"] = json!({"groups": "x"});
        };
        assert!(evaluated(distributed, |_| {}).is_err_and(|why| why.contains("distributed claims")));
    }

    #[test]
    fn keys_are_fetched_when_they_may_have_changed() {
        let (provider, token) = (provider(), signed(&claims()));
        let none = ProviderKeys::default();
        assert_eq!(provider.evaluate(&token, &none, now()), Ok(Some(Answer::Fetch)));
        let mut failed = none.clone();
        failed.failed(now());
        assert!(provider.evaluate(&token, &failed, now()).is_err(), "a moment ago it failed");
        let stranger = SigningKey::from_pem(SigningKey::generate_pem().expect("made").as_bytes()).expect("a key");
        let other = Provider { algorithms: vec![Algorithm::Rs256], ..provider.clone() };
        let foreign = stranger.sign(&claims().to_string()).expect("signed");
        assert!(other.evaluate(&foreign, &keys(), now()).is_err(), "the keys are still good");
        let later = now() + Duration::from_secs(3600);
        assert_eq!(other.evaluate(&foreign, &keys(), later), Ok(Some(Answer::Fetch)));
        assert!(provider.evaluate(&foreign, &keys(), later).is_err_and(|refusal| refusal.why[0].contains("expected [\"ES256\"]")));
    }

    proptest! {
        #[test]
        fn never_panics(sub in any::<Option<i64>>(), exp in any::<i64>(), nbf in any::<f64>(), text in ".{0,10}") {
            let claims = json!({"iss": "https://issuer.example", "aud": text, "exp": exp, "nbf": nbf, "sub": sub, "groups": [text]});
            let _ = provider().evaluate(&signed(&claims), &keys(), now());
        }
    }
}
