//! DefaultStorageClass and DefaultIngressClass: a new claim or Ingress that names no class gets the default one.

use serde_json::Value;

use super::write::{Cluster, Lookup, Write};
use crate::tree;

/// The annotations that name the class of old objects.
pub(super) const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

const DEFAULT_STORAGE: [&str; 2] = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const DEFAULT_INGRESS: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];

pub(super) fn storage(write: &Write<'_>, claim: &mut Value, cluster: &dyn Cluster) {
    if !write.creates() || !write.is_of("", "persistentvolumeclaims") {
        return;
    }
    if tree::at(claim, &["metadata", "annotations", STORAGE_CLASS]).is_some() || tree::at(claim, &["spec", "storageClassName"]).is_some() {
        return;
    }
    set(claim, "storageClassName", newest(&cluster.list(Lookup::StorageClass, ""), &DEFAULT_STORAGE));
}

pub(super) fn ingress(write: &Write<'_>, ingress: &mut Value, cluster: &dyn Cluster) {
    if !write.creates() || !write.is_of("networking.k8s.io", "ingresses") {
        return;
    }
    if tree::at(ingress, &["metadata", "annotations", INGRESS_CLASS]).is_some()
        || tree::at(ingress, &["spec", "ingressClassName"]).is_some()
    {
        return;
    }
    set(ingress, "ingressClassName", newest(&cluster.list(Lookup::IngressClass, ""), &DEFAULT_INGRESS));
}

fn set(object: &mut Value, member: &str, class: Option<&str>) {
    if let Some(class) = class {
        tree::member(object, "spec").insert(member.to_owned(), class.into());
    }
}

/// The name of the newest class with one of these annotations; of several of one second, the first by name.
fn newest<'c>(classes: &'c [Value], annotations: &[&str]) -> Option<&'c str> {
    let is_default = |class: &&Value| annotations.iter().any(|name| tree::text(class, &["metadata", "annotations", name]) == "true");
    let named = |class: &'c Value| (tree::text(class, &["metadata", "creationTimestamp"]), tree::text(class, &["metadata", "name"]));
    // Times that the server writes are in the order of their texts.
    let newest = classes.iter().filter(is_default).map(named).max_by(|left, right| left.0.cmp(right.0).then(right.1.cmp(left.1)));
    newest.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Operation,
        plugins::{
            Plugin,
            testing::{Objects, admitted, creation, update},
        },
    };

    fn class(name: &str, annotation: &str, value: &str, day: u8) -> Value {
        json!({"metadata": {"name": name, "annotations": {annotation: value}, "creationTimestamp": format!("2026-01-{day:02}T00:00:00Z")}})
    }

    /// The cases of `TestAdmission` of both plugins.
    #[test]
    fn what_names_no_class_gets_the_default_one() {
        let [new, beta] = DEFAULT_STORAGE;
        let one = class("default1", new, "true", 1);
        let later = class("default2", beta, "true", 2);
        let same = class("default0", new, "true", 2);
        let none = class("plain", new, "false", 9);
        let claim = |spec: Value| json!({"metadata": {"name": "c"}, "spec": spec});
        let annotated = json!({"metadata": {"name": "c", "annotations": {STORAGE_CLASS: "x"}}, "spec": {}});
        for (classes, sent, want) in [
            (vec![none.clone()], claim(json!({})), None),
            (vec![one.clone(), none], claim(json!({})), Some("default1")),
            (vec![one.clone(), later.clone()], claim(json!({})), Some("default2")),
            (vec![later, one.clone(), same], claim(json!({})), Some("default0")),
            (vec![one.clone()], claim(json!({"storageClassName": "mine"})), Some("mine")),
            (vec![one.clone()], claim(json!({"storageClassName": ""})), Some("")),
            (vec![one.clone()], annotated, None),
        ] {
            let cluster = Objects::of(Lookup::StorageClass, &classes);
            let made =
                admitted(Plugin::DefaultStorageClass, &creation("persistentvolumeclaims"), &sent, &cluster).expect("nothing is refused");
            assert_eq!(tree::at(&made, &["spec", "storageClassName"]).and_then(Value::as_str), want, "{sent}");
        }
        let (cluster, sent) = (Objects::of(Lookup::StorageClass, &[one]), claim(json!({})));
        let made = admitted(Plugin::DefaultStorageClass, &update("persistentvolumeclaims", &sent), &sent, &cluster);
        assert_eq!(made, Ok(sent.clone()), "only a new claim gets one");
    }

    #[test]
    fn an_ingress_gets_its_class() {
        let cluster =
            Objects::of(Lookup::IngressClass, &[class("i", DEFAULT_INGRESS[0], "true", 1), class("no", DEFAULT_INGRESS[0], "yes", 2)]);
        let write = |operation| Write {
            operation,
            group: "networking.k8s.io",
            resource: "ingresses",
            subresource: "",
            namespace: "ns",
            old: None,
            user: "user",
        };
        let made = |operation, sent: &Value| {
            let made = admitted(Plugin::DefaultIngressClass, &write(operation), sent, &cluster).expect("nothing is refused");
            tree::at(&made, &["spec", "ingressClassName"]).and_then(Value::as_str).map(str::to_owned)
        };
        let plain = json!({"metadata": {"name": "x"}, "spec": {}});
        assert_eq!(made(Operation::Create, &plain).as_deref(), Some("i"));
        assert_eq!(made(Operation::Update, &plain), None);
        assert_eq!(made(Operation::Create, &json!({"spec": {"ingressClassName": "mine"}})).as_deref(), Some("mine"));
        assert_eq!(made(Operation::Create, &json!({"metadata": {"annotations": {INGRESS_CLASS: ""}}, "spec": {}})), None);
    }
}
