//! Lets go of volumes, claims and classes of attributes that are being deleted and that nobody uses: kube-controller-manager's three protection controllers.
//! The finalizers that hold them come from the admission plugin StorageObjectInUseProtection.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use memchr::memmem;
use serde_json::{Value, json};

use super::{
    Controllers,
    objects::{Metadata, names, place_of, text, tree},
};
use model::Object;
use registry::Resource;
use retry::Reminder;
use storage::write::{Part, failure::WriteError};

/// Changes of what uses an object are looked at together.
const PAUSE: Duration = Duration::from_millis(200);
/// When is looked again after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// How often the log has a line about failures.
const REMIND_EVERY: Duration = Duration::from_secs(10);

/// Objects that are held, by what, and whom they serve.
struct Protection {
    held: Arc<Resource>,
    finalizer: &'static str,
    /// What may use them.
    users: Vec<Arc<Resource>>,
    is_used: fn(&[Arc<Resource>], &str, &Object, &Value) -> bool,
}

/// Looks after claims, which Pods use.
pub(super) async fn claims(controllers: Arc<Controllers>) {
    let (Some(held), Some(pods)) = (controllers.built_in("", "persistentvolumeclaims"), controllers.built_in("", "pods")) else { return };
    let is_used = |users: &[Arc<Resource>], prefix: &str, object: &Object, claim: &Value| {
        users.iter().any(|pods| serves_pods(pods, prefix, object, claim))
    };
    run(&controllers, &Protection { held, finalizer: "kubernetes.io/pvc-protection", users: vec![pods], is_used }).await;
}

/// Looks after volumes, which say themselves that they are bound.
pub(super) async fn volumes(controllers: Arc<Controllers>) {
    let Some(held) = controllers.built_in("", "persistentvolumes") else { return };
    let is_used = |_: &[Arc<Resource>], _: &str, _: &Object, volume: &Value| text(volume, "/status/phase") == "Bound";
    run(&controllers, &Protection { held, finalizer: "kubernetes.io/pv-protection", users: Vec::new(), is_used }).await;
}

/// Looks after classes of attributes, which claims and volumes name.
pub(super) async fn classes(controllers: Arc<Controllers>) {
    let Some(held) = controllers.built_in("storage.k8s.io", "volumeattributesclasses") else { return };
    let users = ["persistentvolumeclaims", "persistentvolumes"].into_iter().filter_map(|name| controllers.built_in("", name)).collect();
    let is_used = |users: &[Arc<Resource>], _: &str, class: &Object, _: &Value| users.iter().any(|users| names_class(users, class.name()));
    run(&controllers, &Protection { held, finalizer: "kubernetes.io/vac-protection", users, is_used }).await;
}

/// Runs for ever. At rest nothing is looked at: users count only while something waits for them.
async fn run(controllers: &Controllers, protection: &Protection) {
    let published = &protection.held.handle.published;
    let (mut seen, mut waiting, mut reminder) = (None, BTreeSet::<Bytes>::new(), Reminder::every(REMIND_EVERY));
    let mut retries = false;
    loop {
        let users = async {
            let changes = protection.users.iter().map(|users| Box::pin(users.handle.published.changed()));
            futures_util::future::select_all(changes).await;
        };
        tokio::select! {
            (snapshot, keys) = published.next(&mut seen) => {
                let all = || snapshot.store.scan(b"", b"").filter(|object| may_wait(object)).map(|object| Bytes::copy_from_slice(object.key())).collect();
                waiting.extend(keys.unwrap_or_else(all));
            }
            () = users, if !waiting.is_empty() && !protection.users.is_empty() => tokio::time::sleep(PAUSE).await,
            () = tokio::time::sleep(RETRY_AFTER), if retries => {}
        }
        retries = false;
        for key in std::mem::take(&mut waiting) {
            match protection.look(controllers, &key).await {
                Ok(true) => {}
                Ok(false) => drop(waiting.insert(key)),
                Err(error) => {
                    if reminder.is_due() {
                        tracing::warn!(%error, resource = %protection.held.served.resource, "what nobody uses cannot be let go; trying again");
                    }
                    retries = true;
                    waiting.insert(key);
                }
            }
        }
    }
}

impl Protection {
    /// Lets an object go if it is being deleted and nobody uses it; false if it must wait.
    async fn look(&self, controllers: &Controllers, key: &Bytes) -> Result<bool, WriteError> {
        let found = self.held.handle.published.known().snapshot.store.find(key).cloned();
        let Some(object) = found.filter(|object| may_wait(object)) else { return Ok(true) };
        let is_held = Metadata::of(&object).is_some_and(|metadata| metadata.is_being_deleted() && metadata.waits_for(self.finalizer));
        let Some(whole) = tree(&self.held, &object).filter(|_| is_held) else { return Ok(true) };
        for users in &self.users {
            // A user that was there when the object was deleted is seen.
            controllers.caught_up(users, object.revision).await?;
        }
        let prefix = self.users.first().map(|users| users.served.storage.key_prefix(&controllers.prefix)).unwrap_or_default();
        if (self.is_used)(&self.users, &prefix, &object, &whole) {
            return Ok(false);
        }
        let finalizers = whole["metadata"]["finalizers"].as_array().into_iter().flatten();
        let left: Vec<&Value> = finalizers.filter(|finalizer| *finalizer != self.finalizer).collect();
        let patch =
            json!({"metadata": {"uid": whole["metadata"]["uid"], "resourceVersion": object.revision.0.to_string(), "finalizers": left}});
        match controllers.merge(&place_of(&self.held, &object), Part::Main, &patch).await {
            // Another revision comes, and is looked at.
            Ok(_) | Err(WriteError::NotFound(_) | WriteError::Conflict { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Whether an object may be one that is being deleted; most are not read for that.
fn may_wait(object: &Object) -> bool {
    memmem::find(object.own_tail(), b"\"deletionTimestamp\":\"").is_some()
}

/// Whether a Pod that has a node uses a claim. A kubelet starts none whose claim is being deleted.
fn serves_pods(pods: &Resource, prefix: &str, object: &Object, claim: &Value) -> bool {
    let key = Bytes::copy_from_slice(object.key());
    let Some((namespace, name)) = names(&key) else { return false };
    let quoted = format!("\"{name}\"");
    let snapshot = pods.handle.published.known().snapshot;
    let of_namespace = format!("{prefix}{namespace}/");
    let mut may_use = snapshot.store.scan(of_namespace.as_bytes(), b"").filter(|pod| {
        let is_own = name.strip_prefix(pod.name()).is_some_and(|rest| rest.starts_with('-'));
        is_own || memmem::find(pod.own_tail(), quoted.as_bytes()).is_some()
    });
    may_use.any(|pod| tree(pods, pod).is_some_and(|pod| uses_claim(&pod, name, claim)))
}

fn uses_claim(pod: &Value, name: &str, claim: &Value) -> bool {
    if text(pod, "/spec/nodeName").is_empty() {
        return false;
    }
    let metadata = &pod["metadata"];
    let is_shut_down = metadata["deletionTimestamp"].is_string() && metadata["deletionGracePeriodSeconds"] == 0;
    let owners = claim["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let is_own = owners.into_iter().any(|owner| owner["controller"] == true && owner["uid"] == metadata["uid"]);
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.any(|volume| {
        let of_own = || format!("{}-{}", text(pod, "/metadata/name"), text(volume, "/name")) == name;
        volume["persistentVolumeClaim"]["claimName"] == name || !is_shut_down && volume["ephemeral"].is_object() && is_own && of_own()
    })
}

/// Whether a claim or a volume names a class.
fn names_class(users: &Resource, class: &str) -> bool {
    const PATHS: [&str; 3] = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ];
    let (snapshot, quoted) = (users.handle.published.known().snapshot, format!("\"{class}\""));
    let mut may_name = snapshot.store.scan(b"", b"").filter(|user| memmem::find(user.own_tail(), quoted.as_bytes()).is_some());
    may_name.any(|user| tree(users, user).is_some_and(|user| PATHS.iter().any(|path| text(&user, path) == class)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of `TestPVCProtectionController` about Pods.
    #[test]
    fn which_pods_use_a_claim() {
        let claim = json!({"metadata": {"name": "c", "ownerReferences": [{"controller": true, "uid": "u"}]}});
        let foreign = json!({"metadata": {"name": "c"}});
        let named = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
        let own = json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]);
        let pod = |node: &str, volumes: &Value, grace: Option<i64>| {
            let mut pod = json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"nodeName": node, "volumes": volumes}});
            if let Some(grace) = grace {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
            }
            pod
        };
        for (pod, name, claim, want) in [
            (pod("n", &named, None), "c", &claim, true),
            (pod("", &named, None), "c", &claim, false),
            (pod("n", &named, None), "d", &claim, false),
            (pod("n", &named, Some(0)), "c", &claim, true),
            (pod("n", &own, None), "p-v", &claim, true),
            (pod("n", &own, None), "p-v", &foreign, false),
            (pod("n", &own, Some(30)), "p-v", &claim, true),
            (pod("n", &own, Some(0)), "p-v", &claim, false),
            (pod("n", &json!([]), None), "c", &claim, false),
        ] {
            assert_eq!(uses_claim(&pod, name, claim), want, "{name} {pod}");
        }
    }
}
