//! The documents with which OpenID Connect clients verify our tokens: `/openid/v1/jwks` and `/.well-known/openid-configuration`, byte for byte as
//! kube-apiserver prints them.

use std::collections::BTreeSet;

use base64::Engine;
use go::quote::json_quoted;
use thiserror::Error;

use super::{Numbers, PublicKey};
use crate::authn::RAW_URL;

/// Where the keys are served.
const KEYS_PATH: &str = "/openid/v1/jwks";

/// Both documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// `/.well-known/openid-configuration`, as `application/json`.
    pub configuration: String,
    /// `/openid/v1/jwks`, as `application/jwk-set+json`.
    pub keys: String,
}

/// Why an issuer is not discoverable. kube-apiserver says so in its log and serves neither document; its tokens are good all the same.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DocumentError {
    /// The issuer is no URL.
    #[error("{0}")]
    Url(String),
    /// The issuer is a URL without TLS.
    #[error("issuer URL must use https scheme, got: {0}")]
    Scheme(String),
    /// The issuer has a query.
    #[error("issuer URL may not include a query, got: {0}")]
    Query(String),
    /// The issuer has a fragment.
    #[error("issuer URL may not include a fragment, got: {0}")]
    Fragment(String),
    /// `--service-account-jwks-uri` is a URL without TLS.
    #[error("jwksURI requires https scheme, parsed as: {0}")]
    KeysScheme(String),
    /// There is no key.
    #[error("no keys provided for validating keyset")]
    NoKeys,
}

impl Discovery {
    /// Headers that belong to both documents: `Cache-Control`.
    pub const CACHE_CONTROL: &str = "public, max-age=3600";

    /// The documents of `issuer`; `keys_url` is `--service-account-jwks-uri`, and `address` (host and port) is where the keys are served without it.
    ///
    /// # Errors
    /// When the issuer cannot be discovered.
    pub fn new(issuer: &str, keys_url: Option<&str>, address: &str, keys: &[PublicKey]) -> Result<Discovery, DocumentError> {
        let url = go::url::parse(issuer).map_err(DocumentError::Url)?;
        if url.scheme != "https" {
            return Err(DocumentError::Scheme(issuer.to_owned()));
        }
        if !url.query.is_empty() {
            return Err(DocumentError::Query(issuer.to_owned()));
        }
        if !url.fragment.is_empty() {
            return Err(DocumentError::Fragment(issuer.to_owned()));
        }
        let keys_url = match keys_url {
            None => format!("https://{address}{KEYS_PATH}"),
            Some(url) if go::url::parse(url).map_err(DocumentError::Url)?.scheme == "https" => url.to_owned(),
            Some(url) => return Err(DocumentError::KeysScheme(url.to_owned())),
        };
        if keys.is_empty() {
            return Err(DocumentError::NoKeys);
        }
        let algorithms: BTreeSet<&str> = keys.iter().map(|key| key.algorithm().name()).collect();
        let algorithms: Vec<String> = algorithms.into_iter().map(json_quoted).collect();
        let configuration = format!(
            r#"{{"issuer":{},"jwks_uri":{},"response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":[{}]}}"#,
            json_quoted(issuer),
            json_quoted(&keys_url),
            algorithms.join(","),
        );
        let keys: Vec<String> = keys.iter().map(jwk).collect();
        Ok(Discovery { configuration, keys: format!(r#"{{"keys":[{}]}}"#, keys.join(",")) })
    }
}

fn jwk(key: &PublicKey) -> String {
    let (kid, algorithm) = (key.kid(), key.algorithm().name());
    match &key.numbers {
        Numbers::Rsa { modulus, exponent } => {
            let (n, e) = (RAW_URL.encode(modulus), RAW_URL.encode(exponent));
            format!(r#"{{"use":"sig","kty":"RSA","kid":"{kid}","alg":"{algorithm}","n":"{n}","e":"{e}"}}"#)
        }
        Numbers::Ec { curve, x, y } => {
            let (name, x, y) = (curve.name(), RAW_URL.encode(x), RAW_URL.encode(y));
            format!(r#"{{"use":"sig","kty":"EC","kid":"{kid}","crv":"{name}","alg":"{algorithm}","x":"{x}","y":"{y}"}}"#)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::recorded;

    #[test]
    fn documents_are_those_of_kube_apiserver() {
        let told = &recorded::all()["documents"];
        let body = |path: &str| told[path]["body"].as_str().expect("a text");
        let configuration = body("/.well-known/openid-configuration");
        let address = configuration.split("https://").nth(2).and_then(|rest| rest.split('/').next()).expect("the second URL");
        let ours = Discovery::new("https://kubernetes.default.svc", None, address, &recorded::keys()).expect("made");
        assert_eq!(ours.configuration, configuration);
        assert_eq!(ours.keys, body(KEYS_PATH));
        assert_eq!(told[KEYS_PATH]["cache"], Discovery::CACHE_CONTROL);
    }

    #[test]
    fn an_issuer_may_be_of_no_use_to_others() {
        let keys = recorded::keys();
        let error = |issuer: &str, url| Discovery::new(issuer, url, "a:1", &keys).err().map(|error| error.to_string());
        assert_eq!(error("kubernetes", None).as_deref(), Some("issuer URL must use https scheme, got: kubernetes"));
        assert_eq!(error("https://a?b", None).as_deref(), Some("issuer URL may not include a query, got: https://a?b"));
        assert_eq!(error("https://a#b", None).as_deref(), Some("issuer URL may not include a fragment, got: https://a#b"));
        assert_eq!(error("https://a", Some("http://b")).as_deref(), Some("jwksURI requires https scheme, parsed as: http://b"));
        assert_eq!(error("https://a", Some("https://b/c")), None);
        assert!(error(":", None).is_some_and(|error| error.starts_with("parse ")));
        assert_eq!(Discovery::new("https://a", None, "a:1", &[]), Err(DocumentError::NoKeys));
    }
}
