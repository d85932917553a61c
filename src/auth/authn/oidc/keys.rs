//! The keys of an OpenID provider: their URL, the parsed JWKS, and when to fetch it again.

use std::time::{Duration, SystemTime};

use base64::Engine;
use go::quote::quoted;
use serde::Deserialize;

use crate::authn::RAW_URL;
use crate::authn::keys::PublicKey;

/// Bytes that a provider's documents may have; ours.
pub const DISCOVERY_BYTES_MAX: usize = 1 << 20;
/// Keys of a provider that are looked at; ours. Most have two or three.
const KEYS_MAX: usize = 100;
/// Keys that are about to be too old are fetched so much earlier.
const EARLY: Duration = Duration::from_secs(30);
/// Between two fetches, so that wrong tokens make no storm; ours.
const PAUSE: Duration = Duration::from_secs(10);

/// The keys of a provider, as they were fetched last.
#[derive(Clone, Debug, Default)]
pub struct ProviderKeys {
    /// By the provider's own names, which may be empty.
    keys: Vec<(String, PublicKey)>,
    /// Until when they are good; none when they were never fetched.
    expires: Option<SystemTime>,
    /// The last attempt.
    tried: Option<SystemTime>,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Jwk {
    kid: String,
    kty: String,
    #[serde(rename = "use")]
    usage: String,
    crv: String,
    n: String,
    e: String,
    x: String,
    y: String,
}

impl Jwk {
    /// None when it is a key that no token we read is signed with.
    fn key(&self) -> Option<PublicKey> {
        let number = |text: &str| RAW_URL.decode(text).ok();
        match self.kty.as_str() {
            _ if !matches!(self.usage.as_str(), "" | "sig") => None,
            "RSA" => PublicKey::rsa(&number(&self.n)?, &number(&self.e)?).ok(),
            "EC" => PublicKey::on_curve(&self.crv, &number(&self.x)?, &number(&self.y)?).ok(),
            _ => None,
        }
    }
}

impl ProviderKeys {
    /// Takes what was fetched at `now` and is good until `expires` (`Cache-Control`, or `now`). Keys that we cannot use are passed over.
    ///
    /// # Errors
    /// When it is no JWKS; the keys stay as they were.
    pub fn fetched(&mut self, jwks: &[u8], expires: SystemTime, now: SystemTime) -> Result<(), String> {
        self.tried = Some(now);
        if jwks.len() > DISCOVERY_BYTES_MAX {
            return Err(format!("oidc: failed to decode keys: more than {DISCOVERY_BYTES_MAX} bytes"));
        }
        let set: KeySet = serde_json::from_slice(jwks).map_err(|error| format!("oidc: failed to decode keys: {error}"))?;
        self.keys = set.keys.iter().take(KEYS_MAX).filter_map(|jwk| Some((jwk.kid.clone(), jwk.key()?))).collect();
        self.expires = Some(expires);
        Ok(())
    }

    /// It could not be fetched at `now`; the keys stay as they were.
    pub fn failed(&mut self, now: SystemTime) {
        self.tried = Some(now);
    }

    /// The keys of this name, or all when a token names none.
    pub(super) fn named(&self, kid: &str) -> impl Iterator<Item = &PublicKey> {
        self.keys.iter().filter(move |(name, _)| kid.is_empty() || name == kid).map(|(_, key)| key)
    }

    /// Whether a token for which none of them vouches is a reason to fetch: they may be too old, and the last attempt is some time ago.
    #[must_use]
    pub fn may_fetch(&self, now: SystemTime) -> bool {
        let is_old = self.expires.is_none_or(|expires| now + EARLY > expires);
        let is_calm = self.tried.is_none_or(|tried| now.duration_since(tried).is_ok_and(|since| since >= PAUSE));
        is_old && is_calm
    }
}

/// Where a provider tells about itself.
#[must_use]
pub fn discovery_url(issuer: &str, discovery_url: Option<&str>) -> String {
    let given = discovery_url.filter(|url| !url.is_empty()).map(str::to_owned);
    given.unwrap_or_else(|| format!("{}/.well-known/openid-configuration", issuer.strip_suffix('/').unwrap_or(issuer)))
}

/// Where its keys are, by what it tells about itself.
///
/// # Errors
/// When it tells of somebody else, or nothing.
pub fn keys_url(document: &[u8], issuer: &str) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Document {
        #[serde(default)]
        issuer: String,
        #[serde(default)]
        jwks_uri: String,
    }
    let told: Document =
        serde_json::from_slice(document).map_err(|error| format!("oidc: failed to decode provider discovery object: {error}"))?;
    if told.issuer != issuer {
        let (expected, got) = (quoted(issuer), quoted(&told.issuer));
        return Err(format!("oidc: issuer did not match the issuer returned by provider, expected {expected} got {got}"));
    }
    if told.jwks_uri.is_empty() {
        return Err("provider did not return JWKS URL".to_owned());
    }
    Ok(told.jwks_uri)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;
    use crate::authn::recorded;

    #[test]
    fn keys_that_are_of_no_use_are_passed_over() {
        let recorded: serde_json::Value =
            serde_json::from_str(recorded::all()["documents"]["/openid/v1/jwks"]["body"].as_str().expect("a text")).expect("JSON");
        let mut all = recorded["keys"].as_array().expect("keys").clone();
        let known = all.len();
        let mut encrypts = all[0].clone();
        encrypts["use"] = "enc".into();
        all.extend([encrypts, serde_json::json!({"kty": "oct", "k": "AAAA"}), serde_json::json!({"kty": "RSA", "n": "%", "e": ""})]);
        let mut keys = ProviderKeys::default();
        keys.fetched(serde_json::json!({"keys": all}).to_string().as_bytes(), UNIX_EPOCH, UNIX_EPOCH).expect("a key set");
        assert_eq!((keys.named("").count(), keys.named("nobody").count()), (known, 0));
        assert_eq!(keys.named("").map(PublicKey::kid).collect::<Vec<_>>(), recorded::keys().iter().map(PublicKey::kid).collect::<Vec<_>>());
        assert!(keys.fetched(b"[]", UNIX_EPOCH, UNIX_EPOCH).is_err() && keys.named("").count() == known);
        assert!(keys.fetched(&vec![b' '; DISCOVERY_BYTES_MAX + 1], UNIX_EPOCH, UNIX_EPOCH).is_err());
    }

    #[test]
    fn fetches_have_a_pause_between_them() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let mut keys = ProviderKeys::default();
        assert!(keys.may_fetch(at(0)));
        keys.failed(at(0));
        assert!(!keys.may_fetch(at(9)) && keys.may_fetch(at(10)));
        keys.fetched(b"{\"keys\":[]}", at(100), at(20)).expect("a key set");
        assert!(!keys.may_fetch(at(70)) && keys.may_fetch(at(71)));
    }

    #[test]
    fn a_provider_tells_about_itself() {
        assert_eq!(discovery_url("https://a/b/", None), "https://a/b/.well-known/openid-configuration");
        assert_eq!(discovery_url("https://a/b", Some("https://c/d")), "https://c/d");
        let told = br#"{"issuer":"https://a","jwks_uri":"https://a/keys"}"#;
        assert_eq!(keys_url(told, "https://a").as_deref(), Ok("https://a/keys"));
        let other = "oidc: issuer did not match the issuer returned by provider, expected \"https://b\" got \"https://a\"";
        assert_eq!(keys_url(told, "https://b"), Err(other.to_owned()));
        assert_eq!(keys_url(br#"{"issuer":"https://a"}"#, "https://a"), Err("provider did not return JWKS URL".to_owned()));
    }

    proptest! {
        #[test]
        fn never_panics(n in ".{0,20}", e in "[A-Z]{0,5}", kty in "RSA|EC|x", crv in "P-(256|384|521)|x") {
            let jwks = serde_json::json!({"keys": [{"kty": kty, "n": n, "e": e, "crv": crv, "x": n, "y": e}]});
            let _ = ProviderKeys::default().fetched(jwks.to_string().as_bytes(), UNIX_EPOCH, UNIX_EPOCH);
        }
    }
}
