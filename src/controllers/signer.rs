//! Signs what machines learn of the cluster before they are part of it: kube-controller-manager's bootstrap-signer-controller.
//!
//! The ConfigMap `kube-public/cluster-info` has, beside a kubeconfig, a signature of it by each bootstrap token that may sign: who has the token knows that it
//! is genuine.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use auth::authn::detached_signature;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::time::sleep_until;

use super::{
    Controllers,
    objects::{place, text, tree},
    time::bootstrap_tokens::{NAMESPACE, TYPE, deadline},
};
use registry::Resource;
use retry::{Backoff, Reminder};
use storage::write::{Part, failure::WriteError};

/// What is signed, and where the signatures stand.
const MAP: (&str, &str) = ("kube-public", "cluster-info");
const SIGNED: &str = "kubeconfig";
const SIGNATURE: &str = "jws-kubeconfig-";
/// What the name of a token's Secret begins with.
const PREFIX: &str = "bootstrap-token-";
/// The longest wait for a token to expire: the clock may have been set.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Waits after failures.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(60), 0.2);
/// How often the log has a line about failures.
const REMIND_EVERY: Duration = Duration::from_secs(10);

pub(super) async fn run(controllers: Arc<Controllers>) {
    let (Some(maps), Some(secrets)) = (controllers.built_in("", "configmaps"), controllers.built_in("", "secrets")) else { return };
    let (of_maps, of_secrets) = (&maps.handle.published, &secrets.handle.published);
    let (map, tokens) = (place(&maps, MAP.0, MAP.1).key(&controllers.prefix), tokens_prefix(&controllers, &secrets));
    let (mut seen_maps, mut seen_secrets, mut failures) = (None, None, 0);
    let mut reminder = Reminder::every(REMIND_EVERY);
    // What the cache does not have yet may be there.
    let _ = of_maps.next(&mut seen_maps).await;
    let _ = of_secrets.next(&mut seen_secrets).await;
    loop {
        let due = match sign(&controllers, &maps, &secrets).await {
            Ok(expires) => {
                failures = 0;
                expires.map(|left| Instant::now() + left.min(LOOK_AGAIN))
            }
            Err(error) => {
                if reminder.is_due() {
                    tracing::warn!(%error, "the ConfigMap cluster-info cannot be signed; trying again");
                }
                failures += 1;
                Some(Instant::now() + BACKOFF.wait(failures - 1))
            }
        };
        loop {
            let is_of_interest = tokio::select! {
                (_, keys) = of_maps.next(&mut seen_maps) => keys.is_none_or(|keys| keys.contains(&*map)),
                (_, keys) = of_secrets.next(&mut seen_secrets) => keys.is_none_or(|keys| keys.iter().any(|key| key.starts_with(tokens.as_bytes()))),
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => true,
            };
            if is_of_interest {
                break;
            }
        }
    }
}

/// What the keys of bootstrap tokens begin with.
fn tokens_prefix(controllers: &Controllers, secrets: &Resource) -> String {
    format!("{}{NAMESPACE}/{PREFIX}", secrets.served.storage.key_prefix(&controllers.prefix))
}

/// Brings the signatures up to date; returns when the first of the tokens expires.
async fn sign(controllers: &Controllers, maps: &Arc<Resource>, secrets: &Arc<Resource>) -> Result<Option<Duration>, WriteError> {
    let (known, now) = (secrets.handle.published.known().snapshot, OffsetDateTime::now_utc());
    let prefix = tokens_prefix(controllers, secrets);
    let found = known.store.scan(prefix.as_bytes(), b"").take_while(|secret| secret.key().starts_with(prefix.as_bytes()));
    let found: Vec<Value> = found.filter_map(|secret| tree(secrets, secret)).collect();
    let tokens: BTreeMap<String, String> = found.iter().filter_map(|secret| token(secret, now)).collect();
    let ends = found.iter().filter_map(|secret| Duration::try_from(deadline(secret)? - now).ok());
    let next = ends.filter(|left| !left.is_zero()).min();
    let place = place(maps, MAP.0, MAP.1);
    let Some(map) = controllers.cached(&place).and_then(|map| tree(maps, &map)) else { return Ok(next) };
    let Some(changes) = changes(&map["data"], &tokens) else { return Ok(next) };
    let metadata = json!({"uid": map["metadata"]["uid"], "resourceVersion": map["metadata"]["resourceVersion"]});
    match controllers.merge(&place, Part::Main, &json!({"metadata": metadata, "data": changes})).await {
        // Another version of it is looked at.
        Ok(_) | Err(WriteError::NotFound(_) | WriteError::Conflict { .. }) => Ok(next),
        Err(error) => Err(error),
    }
}

/// What is to be changed in the data of the ConfigMap; none when nothing is.
fn changes(data: &Value, tokens: &BTreeMap<String, String>) -> Option<Value> {
    let content = data[SIGNED].as_str()?;
    let mut changes: serde_json::Map<String, Value> = tokens
        .iter()
        .map(|(id, secret)| (format!("{SIGNATURE}{id}"), detached_signature(id, secret.as_bytes(), content).into()))
        .filter(|(name, signature)| data[name] != *signature)
        .collect();
    let old = data.as_object()?.keys().filter_map(|name| Some((name, name.strip_prefix(SIGNATURE)?)));
    changes.extend(old.filter(|(_, id)| !tokens.contains_key(*id)).map(|(name, _)| (name.clone(), Value::Null)));
    (!changes.is_empty()).then(|| changes.into())
}

/// Id and secret of a token that may sign now.
fn token(secret: &Value, now: OffsetDateTime) -> Option<(String, String)> {
    let data = |name: &str| {
        let bytes = BASE64_STANDARD.decode(secret["data"][name].as_str()?).ok()?;
        String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
    };
    let (id, value) = (data("token-id")?, data("token-secret")?);
    let is_named_so = text(secret, "/metadata/name").strip_prefix(PREFIX) == Some(&*id);
    let may_sign = data("usage-bootstrap-signing").is_some_and(|text| text == "true");
    let is_over = secret["metadata"]["deletionTimestamp"].is_string() || deadline(secret).is_some_and(|end| end <= now);
    (text(secret, "/type") == TYPE && is_named_so && may_sign && !is_over).then_some((id, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(id: &str, more: &[(&str, &str)]) -> Value {
        let mut data = json!({"token-id": BASE64_STANDARD.encode(id), "token-secret": BASE64_STANDARD.encode("0123456789abcdef")});
        for (name, value) in [("usage-bootstrap-signing", "true")].iter().chain(more) {
            data[name] = BASE64_STANDARD.encode(value).into();
        }
        json!({"metadata": {"name": format!("{PREFIX}abcdef"), "namespace": NAMESPACE}, "type": TYPE, "data": data})
    }

    #[test]
    fn a_token_signs_while_it_may() {
        let now = OffsetDateTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let may = |secret: &Value| token(secret, now).is_some();
        assert!(may(&secret("abcdef", &[])) && may(&secret("abcdef", &[("expiration", "2030-01-01T00:00:00Z")])));
        assert!(!may(&secret("abcdeg", &[])), "another name");
        assert!(!may(&secret("abcdef", &[("usage-bootstrap-signing", "yes")])));
        assert!(!may(&secret("abcdef", &[("expiration", "2020-01-01T00:00:00Z")])) && !may(&secret("abcdef", &[("expiration", "soon")])));
    }

    #[test]
    fn signatures_are_made_mended_and_taken_away() {
        let tokens = BTreeMap::from([("abcdef".to_owned(), "0123456789abcdef".to_owned())]);
        let signed = detached_signature("abcdef", b"0123456789abcdef", "content");
        let [name, other] = ["abcdef", "gone"].map(|id| format!("{SIGNATURE}{id}"));
        let data = json!({SIGNED: "content", (other.clone()): "x", "mine": "y"});
        assert_eq!(changes(&data, &tokens), Some(json!({(name.clone()): signed, other: null})));
        assert_eq!(changes(&json!({SIGNED: "content", (name): signed}), &tokens), None);
        assert_eq!(changes(&json!({"mine": "y"}), &tokens), None, "there is nothing to sign");
    }
}
