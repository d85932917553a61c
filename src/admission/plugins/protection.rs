//! StorageObjectInUseProtection: volumes, claims and classes of attributes stay while they are used, for a finalizer holds them.

use serde_json::Value;

use super::write::Write;
use crate::tree;

pub(super) fn mutate(write: &Write<'_>, object: &mut Value) {
    let finalizer = match (write.group, write.resource) {
        ("", "persistentvolumes") => "kubernetes.io/pv-protection",
        ("", "persistentvolumeclaims") => "kubernetes.io/pvc-protection",
        ("storage.k8s.io", "volumeattributesclasses") => "kubernetes.io/vac-protection",
        _ => return,
    };
    if write.creates() && !tree::items(object, &["metadata", "finalizers"]).any(|known| known == finalizer) {
        tree::list(tree::member(object, "metadata"), "finalizers").push(finalizer.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::{
        Plugin,
        testing::{Objects, admitted, creation, update},
    };

    /// The cases of `TestAdmit`.
    #[test]
    fn what_is_new_is_held() {
        for (write, sent, want) in [
            (creation("persistentvolumeclaims"), json!([]), json!(["kubernetes.io/pvc-protection"])),
            (creation("persistentvolumeclaims"), json!(["a"]), json!(["a", "kubernetes.io/pvc-protection"])),
            (creation("persistentvolumeclaims"), json!(["kubernetes.io/pvc-protection"]), json!(["kubernetes.io/pvc-protection"])),
            (creation("persistentvolumes"), json!([]), json!(["kubernetes.io/pv-protection"])),
            (Write { group: "storage.k8s.io", ..creation("volumeattributesclasses") }, json!([]), json!(["kubernetes.io/vac-protection"])),
            (creation("pods"), json!([]), json!([])),
            (update("persistentvolumes", &Value::Null), json!([]), json!([])),
            (Write { subresource: "status", ..creation("persistentvolumes") }, json!([]), json!([])),
        ] {
            let sent = json!({"metadata": {"finalizers": sent}});
            let made = admitted(Plugin::StorageObjectInUseProtection, &write, &sent, &Objects::default()).expect("nothing is refused");
            assert_eq!(made["metadata"]["finalizers"], want, "{write:?}");
        }
    }
}
