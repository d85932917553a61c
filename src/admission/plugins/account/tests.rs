//! The cases of kube-apiserver's `admission_test.go`.

use super::*;
use crate::plugins::{
    Plugin,
    testing::{Objects, admitted, creation, pod, update},
};

fn account(name: &str, members: Value) -> Value {
    let mut account = members;
    account["metadata"]["name"] = name.into();
    account["metadata"]["namespace"] = "ns".into();
    account
}

fn accounts(members: Value) -> Objects {
    Objects::of(Lookup::ServiceAccount, &[account("default", members)])
}

fn made(sent: &Value, cluster: &Objects) -> Result<Value, String> {
    admitted(Plugin::ServiceAccount, &creation("pods"), sent, cluster)
}

fn mirror(spec: Value) -> Value {
    json!({"metadata": {"name": "p", "annotations": {MIRROR: "true"}}, "spec": spec})
}

#[test]
fn a_pod_has_the_default_account_and_its_token() {
    let sent = pod(&json!({"containers": [{"name": "c"}], "initContainers": [{"name": "i", "volumeMounts": [{"mountPath": MOUNT_PATH}]}]}));
    let mount = json!({"name": "kube-api-access-abcde", "readOnly": true, "mountPath": MOUNT_PATH});
    let want = pod(&json!({
        "serviceAccountName": "default", "serviceAccount": "default",
        "containers": [{"name": "c", "volumeMounts": [mount]}],
        "initContainers": [{"name": "i", "volumeMounts": [{"mountPath": MOUNT_PATH}]}],
        "volumes": [{"name": "kube-api-access-abcde", "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ]}}],
    }));
    assert_eq!(made(&sent, &accounts(json!({}))), Ok(want));
}

#[test]
fn the_token_is_mounted_where_it_is_wanted() {
    let yes = json!({"automountServiceAccountToken": true});
    let no = json!({"automountServiceAccountToken": false});
    for (of_account, of_pod, want) in [
        (json!({}), json!({}), true),
        (no.clone(), json!({}), false),
        (no.clone(), yes.clone(), true),
        (yes.clone(), no.clone(), false),
        (json!({}), no, false),
        (json!({}), yes, true),
        (json!({}), json!({"containers": [{"volumeMounts": [{"mountPath": MOUNT_PATH}]}]}), false),
    ] {
        let mut spec = json!({"containers": [{"name": "c"}]});
        of_pod.as_object().into_iter().flatten().for_each(|(name, value)| spec[name] = value.clone());
        let made = made(&pod(&spec), &accounts(of_account)).expect("nothing is refused");
        assert_eq!(made["spec"]["volumes"].as_array().map_or(0, Vec::len), usize::from(want), "{spec}");
    }
}

#[test]
fn a_volume_of_that_name_is_used() {
    let volume = json!({"name": "kube-api-access-mine", "emptyDir": {}});
    let sent = pod(&json!({"containers": [{"name": "c"}], "volumes": [volume]}));
    let made = made(&sent, &accounts(json!({}))).expect("nothing is refused");
    assert_eq!(made["spec"]["volumes"], json!([volume]));
    assert_eq!(made["spec"]["containers"][0]["volumeMounts"][0]["name"], "kube-api-access-mine");
}

#[test]
fn images_are_pulled_with_the_secrets_of_the_account() {
    let cluster = || accounts(json!({"imagePullSecrets": [{"name": "a"}, {"name": "b"}]}));
    let own = json!([{"name": "mine"}]);
    for (sent, want) in [
        (json!({}), json!([{"name": "a"}, {"name": "b"}])),
        (json!({"imagePullSecrets": []}), json!([{"name": "a"}, {"name": "b"}])),
        (json!({"imagePullSecrets": own}), own.clone()),
    ] {
        assert_eq!(made(&pod(&sent), &cluster()).expect("nothing is refused")["spec"]["imagePullSecrets"], want);
    }
}

#[test]
fn the_account_must_exist() {
    let missing = |name: &str| Err(format!(r#"error looking up service account ns/{name}: serviceaccount "{name}" not found"#));
    assert_eq!(made(&pod(&json!({})), &Objects::default()), missing("default"));
    assert_eq!(made(&pod(&json!({"serviceAccountName": "robot"})), &accounts(json!({}))), missing("robot"));
    let sent = pod(&json!({"serviceAccountName": "robot"}));
    assert_eq!(admitted(Plugin::ServiceAccount, &update("pods", &sent), &sent, &Objects::default()), Ok(sent.clone()));
    let ephemeral = Write { subresource: "ephemeralcontainers", ..update("pods", &sent) };
    assert_eq!(admitted(Plugin::ServiceAccount, &ephemeral, &sent, &Objects::default()), missing("robot"));
    let bare = pod(&json!({}));
    assert_eq!(
        admitted(Plugin::ServiceAccount, &ephemeral, &bare, &Objects::default()),
        Err("no service account specified for pod ns/p".to_owned())
    );
}

#[test]
fn a_mirror_pod_refers_to_nothing() {
    let token = json!({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]});
    for (spec, want) in [
        (json!({"containers": [{"name": "c"}]}), None),
        (json!({"serviceAccountName": "default"}), Some("a mirror pod may not reference service accounts")),
        (json!({"volumes": [{"secret": {"secretName": "s"}}]}), Some("a mirror pod may not reference secrets")),
        (json!({"containers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}), Some("a mirror pod may not reference secrets")),
        (json!({"imagePullSecrets": [{"name": "s"}]}), Some("a mirror pod may not reference secrets")),
        (token, Some("a mirror pod may not use ServiceAccountToken volume projections")),
    ] {
        let sent = mirror(spec);
        let made = made(&sent, &Objects::default());
        assert_eq!(made, want.map_or(Ok(sent.clone()), |why| Err(why.to_owned())), "{sent}");
    }
}

#[test]
fn an_account_may_say_which_secrets_its_pods_use() {
    let strict =
        json!({"metadata": {"annotations": {ENFORCE: "true"}}, "secrets": [{"name": "foo"}], "imagePullSecrets": [{"name": "foo"}]});
    let refused = |of: &str| Some(format!("{of} is not allowed because service account default does not reference that secret"));
    let env = |secret: &str| json!([{"name": "env-1", "valueFrom": {"secretKeyRef": {"name": secret}}}]);
    let from = |secret: &str| json!([{"secretRef": {"name": secret}}]);
    let named = |what: &str| format!(r#"{what} referencing secret.secretName="bar""#);
    for (spec, want) in [
        (json!({"volumes": [{"secret": {"secretName": "foo"}}]}), None),
        (json!({"volumes": [{"secret": {"secretName": "bar"}}]}), refused(r#"volume with secret.secretName="bar""#)),
        (json!({"containers": [{"name": "c", "env": env("foo"), "envFrom": from("foo")}]}), None),
        (json!({"containers": [{"name": "c", "env": env("bar")}]}), refused(&named("container c with envVar env-1"))),
        (json!({"containers": [{"name": "c", "envFrom": from("bar")}]}), refused(&named("container c with envFrom"))),
        (json!({"initContainers": [{"name": "i", "env": env("bar")}]}), refused(&named("init container i with envVar env-1"))),
        (json!({"initContainers": [{"name": "i", "envFrom": from("bar")}]}), refused(&named("init container i with envFrom"))),
        (json!({"imagePullSecrets": [{"name": "foo"}]}), None),
        (
            json!({"imagePullSecrets": [{"name": "foo"}, {"name": "bar"}]}),
            Some(
                r#"imagePullSecrets[1].name="bar" is not allowed because service account default does not reference that imagePullSecret"#
                    .to_owned(),
            ),
        ),
    ] {
        assert_eq!(made(&pod(&spec), &accounts(strict.clone())).err(), want, "{spec}");
        let mut lax = strict.clone();
        lax["metadata"]["annotations"][ENFORCE] = "yes".into();
        assert_eq!(made(&pod(&spec), &accounts(lax)).err(), None, "{spec}");
    }
    let old = pod(&json!({}));
    let write = Write { subresource: "ephemeralcontainers", ..update("pods", &old) };
    let sent = pod(&json!({"serviceAccountName": "default", "ephemeralContainers": [{"name": "e", "env": env("bar")}]}));
    assert_eq!(
        admitted(Plugin::ServiceAccount, &write, &sent, &accounts(strict)).err(),
        refused(&named("ephemeral container e with envVar env-1"))
    );
}
