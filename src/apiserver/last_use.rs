//! Writes into a Secret on which day its token was used last, as kube-apiserver does, so that unused tokens can be found. No request waits for it.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use arc_swap::ArcSwap;
use auth::authn::LastUse;
use registry::ServedResources;
use storage::write::{Part, Writer, object_ref::ObjectRef};

/// Writes at once. What finds no room is written when the token comes again.
const WRITES_MAX: usize = 4;

/// Room for these writes.
pub struct LastUses(Arc<Semaphore>);

impl Default for LastUses {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(WRITES_MAX)))
    }
}

impl LastUses {
    /// Begins to write it, unless this server does not write.
    pub(super) fn note(&self, writer: &Arc<Writer>, resources: &ArcSwap<ServedResources>, last: LastUse) {
        if writer.may_write().is_err() {
            return;
        }
        let Ok(turn) = self.0.clone().try_acquire_owned() else { return };
        let Some(resource) = resources.load().find("", "v1", "secrets").cloned() else { return };
        let writer = writer.clone();
        tokio::spawn(async move {
            let _turn = turn;
            let patch: Value = serde_json::from_str(&last.patch).unwrap_or_default();
            let place = ObjectRef { resource, namespace: Some(last.namespace), name: last.name };
            if let Err(error) = writer.amend_part(&place, Part::Main, |current| labelled(current, &patch)).await {
                tracing::debug!(%error, namespace = place.namespace, name = place.name, "cannot write when a token was used");
            }
        });
    }
}

/// The same Secret with the labels of the patch; nothing if it is another one by now, or has them.
fn labelled(current: &Value, patch: &Value) -> Option<Value> {
    let wanted = &patch["metadata"];
    if current["metadata"]["uid"] != wanted["uid"] {
        return None;
    }
    let mut new = current.clone();
    let labels = new["metadata"].as_object_mut()?.entry("labels").or_insert_with(|| Map::new().into());
    labels.as_object_mut()?.extend(wanted["labels"].as_object()?.clone());
    (new != *current).then_some(new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_same_secret_gets_the_label_and_once() {
        let patch = json!({"metadata": {"uid": "7", "labels": {"day": "today"}}});
        let plain = json!({"metadata": {"uid": "7"}, "data": {}});
        let new = labelled(&plain, &patch).expect("a change");
        assert_eq!(new, json!({"metadata": {"uid": "7", "labels": {"day": "today"}}, "data": {}}));
        assert_eq!(labelled(&new, &patch), None);
        assert_eq!(labelled(&json!({"metadata": {"uid": "8"}}), &patch), None);
        let other = json!({"metadata": {"uid": "7", "labels": {"a": "b", "day": "yesterday"}}});
        assert_eq!(labelled(&other, &patch).expect("a change")["metadata"]["labels"], json!({"a": "b", "day": "today"}));
    }
}
