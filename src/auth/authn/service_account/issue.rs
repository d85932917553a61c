//! Issues bound tokens: the claims of kube-apiserver in its order, and the answer to a TokenRequest.

use std::time::{Duration, SystemTime};

use go::quote::json_quoted;
use serde_json::{Value, json};

use super::{LEGACY_ISSUER, TokenRequest, TokenRequestError, USER_PREFIX, seconds};
use crate::authn::keys::SigningKey;
use reload::Reloaded;

/// The expiration that kubelets ask for; a token of a Pod with it lives longer and tells when it should have been renewed.
const EXTENDED_FROM_SECONDS: i64 = 3607;
/// How long such a token lives: a year.
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

/// Issues tokens.
#[derive(Debug)]
pub struct Issuer {
    /// `--service-account-signing-key-file`.
    pub key: Reloaded<SigningKey>,
    /// The first `--service-account-issuer`.
    pub name: String,
    /// `--api-audiences`, or all issuers.
    pub audiences: Vec<String>,
    /// `--service-account-max-token-expiration`; zero for none.
    pub expiration_max: Duration,
    /// `--service-account-extend-token-expiration`.
    pub extends: bool,
}

/// A token, and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The TokenRequest that is answered, without `managedFields`.
    pub answer: Value,
    /// What the client is warned of.
    pub warning: Option<String>,
    /// The audit annotation `authentication.kubernetes.io/issued-credential-id`.
    pub credential_id: String,
}

impl Issuer {
    /// Grants a request. `id` is a UUID that no other token has.
    ///
    /// # Errors
    /// When the key does not sign.
    pub fn issue(&self, request: &TokenRequest<'_>, id: &str, now: SystemTime) -> Result<Issued, TokenRequestError> {
        let now = seconds(now);
        let max = i64::try_from(self.expiration_max.as_secs()).unwrap_or(i64::MAX);
        let is_shortened = max > 0 && request.seconds > max;
        let seconds = if is_shortened { max } else { request.seconds };
        let warning = is_shortened.then(|| format!("requested expiration of {} seconds shortened to {max} seconds", request.seconds));
        let is_extended = self.extends
            && request.binding.pod.is_some()
            && seconds == EXTENDED_FROM_SECONDS
            && request.audiences.iter().all(|audience| self.audiences.contains(audience));
        let claims =
            self.claims(request, id, now, if is_extended { EXTENDED_SECONDS } else { seconds }, is_extended.then_some(now + seconds));
        let token = self.key.now().sign(&claims).map_err(TokenRequestError::Sign)?;
        let mut answer = request.tree.clone();
        let moment = |seconds: i64| {
            let mut text = Vec::new();
            go::timestamp::text_into(seconds, None, &mut text);
            String::from_utf8_lossy(&text).trim_matches('"').to_owned()
        };
        for (member, value) in
            [("name", request.account), ("namespace", request.namespace), ("uid", &request.uid), ("creationTimestamp", &moment(now))]
        {
            answer["metadata"][member] = value.into();
        }
        answer["kind"] = "TokenRequest".into();
        answer["apiVersion"] = "authentication.k8s.io/v1".into();
        answer["spec"]["audiences"] = request.audiences.clone().into();
        answer["spec"]["expirationSeconds"] = seconds.into();
        if answer["spec"]["boundObjectRef"].is_null() {
            answer["spec"]["boundObjectRef"] = Value::Null;
        }
        answer["status"] = json!({"token": token, "expirationTimestamp": moment(now + seconds)});
        Ok(Issued { answer, warning, credential_id: format!("JTI={id}") })
    }

    /// Makes a legacy token, which lives as long as the Secret that has it.
    ///
    /// # Errors
    /// When the key does not sign.
    pub fn legacy(&self, namespace: &str, secret: &str, account: &str, uid: &str) -> Result<String, TokenRequestError> {
        let claims = format!(
            r#"{{"iss":"{LEGACY_ISSUER}","kubernetes.io/serviceaccount/namespace":{},"kubernetes.io/serviceaccount/secret.name":{},"kubernetes.io/serviceaccount/service-account.name":{},"kubernetes.io/serviceaccount/service-account.uid":{},"sub":{}}}"#,
            json_quoted(namespace),
            json_quoted(secret),
            json_quoted(account),
            json_quoted(uid),
            json_quoted(&format!("{USER_PREFIX}{namespace}:{account}")),
        );
        self.key.now().sign(&claims).map_err(TokenRequestError::Sign)
    }

    /// In the order of the names, as Go's maps are written.
    fn claims(&self, request: &TokenRequest<'_>, id: &str, now: i64, seconds: i64, warn_after: Option<i64>) -> String {
        let TokenRequest { namespace, account, binding, .. } = request;
        let bound = |what: &str, of: &Option<(String, String)>| match of {
            None => String::new(),
            Some((name, uid)) if uid.is_empty() => format!(r#""{what}":{{"name":{}}},"#, json_quoted(name)),
            Some((name, uid)) => format!(r#""{what}":{{"name":{},"uid":{}}},"#, json_quoted(name), json_quoted(uid)),
        };
        let audiences: Vec<String> = request.audiences.iter().map(|audience| json_quoted(audience)).collect();
        let (node, pod, secret) = (bound("node", &binding.node), bound("pod", &binding.pod), bound("secret", &binding.secret));
        let own = bound("serviceaccount", &Some(((*account).to_owned(), request.uid.clone())));
        let warn_after = warn_after.map_or(String::new(), |after| format!(r#","warnafter":{after}"#));
        format!(
            r#"{{"aud":[{}],"exp":{},"iat":{now},"iss":{},"jti":{},"kubernetes.io":{{"namespace":{},{node}{pod}{secret}{}{warn_after}}},"nbf":{now},"sub":{}}}"#,
            audiences.join(","),
            now + seconds,
            json_quoted(&self.name),
            json_quoted(id),
            json_quoted(namespace),
            own.trim_end_matches(','),
            json_quoted(&format!("{USER_PREFIX}{namespace}:{account}")),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use base64::Engine;

    use super::*;
    use crate::authn::RAW_URL;
    use crate::authn::recorded::{self, Recorded};
    use crate::authn::service_account::Accounts;

    fn key(name: &str) -> Reloaded<SigningKey> {
        Reloaded::of(SigningKey::from_pem(&recorded::file(name)).expect("a key"))
    }

    fn issuer() -> Issuer {
        let key = key("rsa.pem");
        Issuer { key, name: recorded::issuers()[0].clone(), audiences: recorded::issuers(), expiration_max: Duration::ZERO, extends: true }
    }

    fn payload(token: &str) -> String {
        String::from_utf8(RAW_URL.decode(token.split('.').nth(1).expect("claims")).expect("base64")).expect("UTF-8")
    }

    fn text(value: &Value) -> &str {
        value.as_str().unwrap_or_default()
    }

    /// RSA signs the same bytes the same way, so the tokens are compared whole.
    #[test]
    fn requests_are_answered_as_kube_apiserver_answers_them() {
        let mut granted = 0;
        for case in recorded::all()["requests"].as_array().expect("cases") {
            let (name, account) = (text(&case["name"]), case["account"].as_str().unwrap_or("robot"));
            if ["seconds fraction", "seconds text"].contains(&name) {
                continue; // The types of a body are checked before.
            }
            let theirs: Value = serde_json::from_str(text(&case["answer"])).expect("JSON");
            // A member that is empty and may be left away is gone when a body's types are checked.
            let mut body = case["body"].clone();
            if let Some(reference) = body["spec"]["boundObjectRef"].as_object_mut() {
                reference.retain(|_, value| value != "");
            }
            let request = TokenRequest::check_namespace(&body, "default")
                .and_then(|()| TokenRequest::check(&body, "default", account, &recorded::issuers(), &Recorded));
            match request {
                Err(error) => {
                    let (code, named) = match &error {
                        TokenRequestError::BadRequest(_) => (400, None),
                        TokenRequestError::Invalid { name, .. } => (422, Some(name.as_str())),
                        TokenRequestError::NotFound { name, .. } => (404, Some(name.as_str())),
                        TokenRequestError::Conflict { name, .. } => (409, Some(name.as_str())),
                        TokenRequestError::Sign(_) => (500, None),
                    };
                    assert_eq!(case["code"], code, "{name}");
                    assert_eq!(text(&theirs["details"]["name"]), named.unwrap_or_default(), "{name}");
                    assert!(text(&theirs["message"]).ends_with(&error.to_string()), "{name}: {error}");
                }
                Ok(request) => {
                    assert_eq!(case["code"], 201, "{name}");
                    let token = text(&theirs["status"]["token"]);
                    let claims: Value = serde_json::from_str(&payload(token)).expect("JSON");
                    let now = UNIX_EPOCH + Duration::from_secs(claims["iat"].as_u64().expect("a number"));
                    let ours = issuer().issue(&request, text(&claims["jti"]), now).expect("signed");
                    assert_eq!(payload(text(&ours.answer["status"]["token"])), payload(token), "{name}");
                    let mut theirs = theirs.clone();
                    theirs["metadata"].as_object_mut().expect("an object").remove("managedFields");
                    assert_eq!(ours.answer, theirs, "{name}");
                    assert_eq!((ours.warning, ours.credential_id), (None, format!("JTI={}", text(&claims["jti"]))), "{name}");
                    granted += 1;
                }
            }
        }
        assert!(granted > 15, "{granted}");
    }

    #[test]
    fn a_maximum_shortens_what_is_asked_for() {
        let tree = json!({"spec": {"expirationSeconds": 7200}});
        let request = TokenRequest::check(&tree, "default", "robot", &recorded::issuers(), &Recorded).expect("fine");
        let issuer = Issuer { expiration_max: Duration::from_secs(4000), ..issuer() };
        let issued = issuer.issue(&request, "1", UNIX_EPOCH).expect("signed");
        assert_eq!(issued.warning.as_deref(), Some("requested expiration of 7200 seconds shortened to 4000 seconds"));
        assert_eq!(issued.answer["status"]["expirationTimestamp"], "1970-01-01T01:06:40Z");
        assert_eq!(issued.answer["spec"]["expirationSeconds"], 4000);
    }

    #[test]
    fn extension_can_be_turned_off() {
        let tree = json!({"spec": {"expirationSeconds": 3607, "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "placed"}}});
        let request = TokenRequest::check(&tree, "default", "robot", &recorded::issuers(), &Recorded).expect("fine");
        let claims = |extends| {
            payload(text(&Issuer { extends, ..issuer() }.issue(&request, "1", UNIX_EPOCH).expect("signed").answer["status"]["token"]))
        };
        assert!(claims(true).contains(r#""exp":31536000,"#) && claims(true).contains(r#","warnafter":3607}"#));
        assert!(claims(false).contains(r#""exp":3607,"#) && !claims(false).contains("warnafter"));
    }

    #[test]
    fn a_legacy_token_has_the_claims_that_kube_controller_manager_signs() {
        let token = issuer().legacy("n", "s", "robot", "u").expect("signed");
        let claims: Value = serde_json::from_str(&payload(&token)).expect("JSON");
        let of = |name: &str| text(&claims[format!("kubernetes.io/serviceaccount/{name}")]).to_owned();
        assert_eq!(
            [of("namespace"), of("secret.name"), of("service-account.name"), of("service-account.uid")],
            ["n".to_owned(), "s".to_owned(), "robot".to_owned(), "u".to_owned()]
        );
        assert_eq!((text(&claims["iss"]), text(&claims["sub"])), ("kubernetes/serviceaccount", "system:serviceaccount:n:robot"));
        assert_eq!(claims.as_object().map(serde_json::Map::len), Some(6), "it does not expire");
    }

    #[test]
    fn what_is_issued_is_believed() {
        let tree = json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "placed"}}});
        let request = TokenRequest::check(&tree, "default", "robot", &recorded::issuers(), &Recorded).expect("fine");
        for name in recorded::KEYS {
            let key = key(&format!("{name}.pem"));
            let issued = Issuer { key, ..issuer() }.issue(&request, "1", UNIX_EPOCH).expect("signed");
            let accounts = Accounts { issuers: recorded::issuers(), keys: recorded::keys(), audiences: recorded::issuers(), lookup: true };
            let authenticated = accounts.evaluate(text(&issued.answer["status"]["token"]), None, &Recorded, UNIX_EPOCH).expect("believed");
            assert_eq!(authenticated.expect("ours").user.name, "system:serviceaccount:default:robot", "{name}");
        }
    }
}
