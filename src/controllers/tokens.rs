//! Deletes token Secrets whose service account is gone: that part of kube-controller-manager's serviceaccount-token-controller.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde_json::Value;
use tokio::time::sleep_until;

use super::{
    Controllers,
    objects::{Metadata, deletion, names, place, place_of, text, tree},
    queue::{After, Queue},
};
use registry::Resource;
use retry::{Backoff, Reminder};
use storage::write::{failure::WriteError, options::Propagation};

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
                        tracing::warn!(%error, "the Secret of a service account that is gone cannot be deleted; trying again");
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
    if controllers.cached(&place).and_then(|account| Metadata::of(&account)).is_some_and(|metadata| is_his(&metadata)) {
        return Ok(());
    }
    if controllers.writer.newest(&place).await?.is_some_and(|account| is_his(&Metadata::of_tree(&account))) {
        return Ok(());
    }
    let uid = Metadata::of_tree(&secret).uid;
    controllers.delete(&place_of(secrets, object), &deletion(Propagation::Background, Some(uid))).await
}

/// Name and uid of the account whose token a Secret has; the uid may be empty. None of another Secret.
fn account(secret: &Value) -> Option<(&str, &str)> {
    let annotation = |name: &str| secret["metadata"]["annotations"][name].as_str().unwrap_or("");
    let name = annotation(ACCOUNT_NAME);
    (text(secret, "/type") == TYPE && !name.is_empty()).then(|| (name, annotation(ACCOUNT_UID)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_token_secrets_have_an_account() {
        let secret = |kind: &str, annotations: Value| json!({"type": kind, "metadata": {"annotations": annotations}});
        let token = secret(TYPE, json!({ACCOUNT_NAME: "a", ACCOUNT_UID: "u"}));
        assert_eq!(account(&token), Some(("a", "u")));
        assert_eq!(account(&secret(TYPE, json!({ACCOUNT_NAME: "a"}))), Some(("a", "")));
        assert_eq!((account(&secret("Opaque", json!({ACCOUNT_NAME: "a"}))), account(&secret(TYPE, Value::Null))), (None, None));
    }
}
