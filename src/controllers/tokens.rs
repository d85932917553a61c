//! Fills the token Secrets of service accounts, and deletes those whose account is gone: kube-controller-manager's serviceaccount-token-controller.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::time::sleep_until;

use super::{
    Controllers,
    objects::{Metadata, deletion, names, place, place_of, text, tree},
    queue::{After, Queue},
};
use registry::Resource;
use retry::{Backoff, Reminder};
use storage::write::{Part, failure::WriteError, object_ref::ObjectRef, options::Propagation};

/// The type of these Secrets, and how they name their account.
const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Waits after failures.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(60), 0.2);
/// How often the log has a line about failures.
const REMIND_EVERY: Duration = Duration::from_secs(10);

pub(super) async fn run(controllers: Arc<Controllers>) {
    let (Some(secrets), Some(accounts)) = (controllers.built_in("", "secrets"), controllers.built_in("", "serviceaccounts")) else {
        return;
    };
    let (of_secrets, of_accounts) = (&secrets.handle.published, &accounts.handle.published);
    let (mut seen, mut seen_accounts) = (None, None);
    let _ = of_accounts.next(&mut seen_accounts).await;
    let (mut queue, mut reminder) = (Queue::<Bytes>::new(BACKOFF), Reminder::every(REMIND_EVERY));
    loop {
        while let Some(key) = queue.take(Instant::now()) {
            let after = match look(&controllers, &secrets, &accounts, &key).await {
                Ok(()) => After::Rest,
                Err(error) => {
                    if reminder.is_due() {
                        tracing::warn!(%error, "the token Secret of a service account cannot be written or deleted; trying again");
                    }
                    After::Retry
                }
            };
            queue.done(&key, after, Instant::now());
        }
        let due = queue.next_due();
        let mut add = |key: &[u8]| queue.add(Bytes::copy_from_slice(key), Instant::now());
        tokio::select! {
            (snapshot, keys) = of_secrets.next(&mut seen) => match keys {
                Some(keys) => keys.iter().for_each(|key| add(key)),
                None => snapshot.store.scan(b"", b"").for_each(|object| add(object.key())),
            },
            (snapshot, keys) = of_accounts.next(&mut seen_accounts) => {
                let all = of_secrets.known().snapshot;
                // Only an account that is gone, or another one now, is of interest.
                let of_namespace = |namespace: &str| format!("{}{namespace}/", secrets.served.storage.key_prefix(&controllers.prefix));
                match keys {
                    Some(keys) => {
                        for (namespace, _) in keys.iter().filter(|key| snapshot.store.find(key).is_none()).filter_map(names) {
                            all.store.scan(of_namespace(namespace).as_bytes(), b"").for_each(|object| add(object.key()));
                        }
                    }
                    None => all.store.scan(b"", b"").for_each(|object| add(object.key())),
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {}
        }
    }
}

async fn look(controllers: &Controllers, secrets: &Arc<Resource>, accounts: &Arc<Resource>, key: &Bytes) -> Result<(), WriteError> {
    let known = secrets.handle.published.known();
    let Some(object) = known.snapshot.store.find(key) else { return Ok(()) };
    let Some(secret) = tree(secrets, object) else { return Ok(()) };
    let Some((name, uid)) = account(&secret) else { return Ok(()) };
    let place = place(accounts, object.namespace(), name);
    let is_his = |metadata: &Metadata| uid.is_empty() || metadata.uid == uid;
    let cached = controllers.cached(&place).and_then(|account| Metadata::of(&account)).filter(is_his);
    let account = match cached {
        Some(account) => Some(account),
        None => controllers.writer.newest(&place).await?.map(|account| Metadata::of_tree(&account)).filter(is_his),
    };
    if let Some(account) = account {
        return fill(controllers, &place_of(secrets, object), &secret, (name, &account.uid)).await;
    }
    let uid = Metadata::of_tree(&secret).uid;
    controllers.delete(&place_of(secrets, object), &deletion(Propagation::Background, Some(uid))).await
}

/// Gives a Secret what it lacks of its token, the authorities and the namespace; and says whose it is.
async fn fill(controllers: &Controllers, place: &ObjectRef, secret: &Value, account: (&str, &str)) -> Result<(), WriteError> {
    let (Some(issuer), Some(namespace)) = (&controllers.keeping.issuer, &place.namespace) else { return Ok(()) };
    let sign = || issuer.legacy(namespace, &place.name, account.0, account.1).map_err(|error| WriteError::Internal(error.to_string()));
    let Some(data) = missing(secret, namespace, controllers.keeping.root_ca.as_deref(), sign)? else { return Ok(()) };
    let metadata = &secret["metadata"];
    let patch = json!({
        "metadata": {
            "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
            "annotations": {ACCOUNT_NAME: account.0, ACCOUNT_UID: account.1},
        },
        "data": data,
    });
    match controllers.merge(place, Part::Main, &patch).await {
        // Another version of it is looked at.
        Ok(_) | Err(WriteError::NotFound(_) | WriteError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// What the data of a Secret lack; nothing when they lack nothing.
fn missing(
    secret: &Value,
    namespace: &str,
    root_ca: Option<&str>,
    sign: impl FnOnce() -> Result<String, WriteError>,
) -> Result<Option<Map<String, Value>>, WriteError> {
    let has = |name: &str| secret["data"][name].as_str().unwrap_or("");
    let mut data = Map::new();
    let mut put = |name: &str, text: &str| drop(data.insert(name.to_owned(), BASE64_STANDARD.encode(text).into()));
    if let Some(authorities) = root_ca.filter(|authorities| has("ca.crt") != BASE64_STANDARD.encode(authorities)) {
        put("ca.crt", authorities);
    }
    if has("namespace").is_empty() {
        put("namespace", namespace);
    }
    if has("token").is_empty() {
        put("token", &sign()?);
    }
    Ok((!data.is_empty()).then_some(data))
}

/// Name and uid of the account whose token a Secret has; the uid may be empty. None of another Secret.
fn account(secret: &Value) -> Option<(&str, &str)> {
    let annotation = |name: &str| secret["metadata"]["annotations"][name].as_str().unwrap_or("");
    let name = annotation(ACCOUNT_NAME);
    (text(secret, "/type") == TYPE && !name.is_empty()).then(|| (name, annotation(ACCOUNT_UID)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_filled_in() {
        let encoded = |text: &str| Value::from(BASE64_STANDARD.encode(text));
        let filled =
            |data: Value, root_ca| missing(&json!({"data": data}), "ns", root_ca, || Ok("t".to_owned())).expect("signed").map(Value::from);
        assert_eq!(
            filled(Value::Null, Some("A")),
            Some(json!({"ca.crt": encoded("A"), "namespace": encoded("ns"), "token": encoded("t")}))
        );
        assert_eq!(
            filled(json!({"token": encoded("x"), "ca.crt": encoded("B")}), Some("A")),
            Some(json!({"ca.crt": encoded("A"), "namespace": encoded("ns")}))
        );
        assert_eq!(filled(json!({"token": encoded("x"), "namespace": encoded("other")}), None), None);
    }

    #[test]
    fn only_token_secrets_have_an_account() {
        let secret = |kind: &str, annotations: Value| json!({"type": kind, "metadata": {"annotations": annotations}});
        let token = secret(TYPE, json!({ACCOUNT_NAME: "a", ACCOUNT_UID: "u"}));
        assert_eq!(account(&token), Some(("a", "u")));
        assert_eq!(account(&secret(TYPE, json!({ACCOUNT_NAME: "a"}))), Some(("a", "")));
        assert_eq!((account(&secret("Opaque", json!({ACCOUNT_NAME: "a"}))), account(&secret(TYPE, Value::Null))), (None, None));
    }
}
