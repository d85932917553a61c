//! Publishes in each namespace by whose certificates its Pods recognize this server: the ConfigMap `kube-root-ca.crt`, as kube-controller-manager's
//! root-ca-certificate-publisher-controller does.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    Controllers,
    each_namespace::{self, Wanted},
    objects::{place, tree},
};
use registry::Resource;
use storage::write::{Part, failure::WriteError};

/// The ConfigMap, and its only member.
const NAME: &str = "kube-root-ca.crt";
const MEMBER: &str = "ca.crt";

/// The annotation that says what it is, and what it says.
const ANNOTATION: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or \
                           kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

struct Published {
    config_maps: Arc<Resource>,
    authorities: String,
}

impl Wanted for Published {
    const NAME: &str = NAME;

    fn resource(&self) -> &Arc<Resource> {
        &self.config_maps
    }

    async fn keep(&self, controllers: &Controllers, namespace: &str) -> Result<(), WriteError> {
        let place = place(&self.config_maps, namespace, NAME);
        let Some(found) = controllers.cached(&place) else {
            let map = json!({
                "metadata": {"name": NAME, "namespace": namespace, "annotations": {ANNOTATION: DESCRIPTION}},
                "data": {MEMBER: self.authorities},
            });
            return controllers.create(&self.config_maps, namespace, &map).await.map(drop);
        };
        let Some(mut map) = tree(&self.config_maps, &found) else { return Ok(()) };
        if is_right(&map, &self.authorities) {
            return Ok(());
        }
        map["data"] = json!({MEMBER: self.authorities});
        map["metadata"]["annotations"][ANNOTATION] = DESCRIPTION.into();
        controllers.replace(&place, Part::Main, &map).await.map(drop)
    }
}

/// Whether it says what it should and nothing else, with some description.
fn is_right(map: &Value, authorities: &str) -> bool {
    let is_described = map["metadata"]["annotations"][ANNOTATION].as_str().is_some_and(|text| !text.is_empty());
    is_described && map["data"] == json!({MEMBER: authorities})
}

pub(super) async fn run(controllers: Arc<Controllers>) {
    let (Some(config_maps), Some(authorities)) = (controllers.built_in("", "configmaps"), controllers.keeping.root_ca.clone()) else {
        return;
    };
    each_namespace::run(&controllers, &Published { config_maps, authorities }).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_else_it_says_is_wrong() {
        let map = |data: Value, description: &str| json!({"metadata": {"annotations": {ANNOTATION: description}}, "data": data});
        assert!(is_right(&map(json!({"ca.crt": "A"}), "mine"), "A"));
        assert!(!is_right(&map(json!({"ca.crt": "B"}), "mine"), "A"));
        assert!(!is_right(&map(json!({"ca.crt": "A", "more": "x"}), "mine"), "A"));
        assert!(!is_right(&map(json!({"ca.crt": "A"}), ""), "A"));
        assert!(!is_right(&json!({"data": {"ca.crt": "A"}}), "A"));
    }
}
