//! How things end: namespaces that are being terminated, and finalizers that hold what was deleted.

use serde_json::json;

use super::{Outcome, Session};
use crate::alone::asked;

const HELD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [ex.io/hold]}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn namespaces() -> Outcome {
    let session = Session::open().await?;
    let inside = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: inside, namespace: shop}\n";
    let absent = r#"Error from server (NotFound): error when creating "STDIN": namespaces "shop" not found"#;
    session.refused("create -f -", inside, absent)?;
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    session.says_given("create -f -", namespace, "namespace/shop created")?;
    session.has(
        "ns/shop",
        "{.status.phase}{.spec.finalizers}{.metadata.labels}",
        r#"Active["kubernetes"]{"kubernetes.io/metadata.name":"shop"}"#,
    )?;
    session.says_given("create -f -", inside, "configmap/inside created")?;
    session.deletes("delete ns shop --wait=false", r#"namespace "shop" deleted"#)?;
    session.has("ns/shop", "{.status.phase}", "Terminating")?;
    let closing = "Error from server (Forbidden): error when creating \"STDIN\": configmaps \"late\" is forbidden: unable to create new content in \
                   namespace shop because it is being terminated";
    session.refused("create -f -", &inside.replace("inside", "late"), closing)?;
    session.deletes("delete cm inside -n shop", r#"configmap "inside" deleted"#)?;
    // What the namespace controller does in the end.
    let finalized = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}, "spec": {"finalizers": []}});
    asked(&session.server.client(), ("PUT", "/api/v1/namespaces/shop/finalize"), Some(&finalized), 200).await?;
    session.refused("get ns shop", "", r#"Error from server (NotFound): namespaces "shop" not found"#)?;
    let protected = "Error from server (Forbidden): namespaces \"default\" is forbidden: this namespace may not be deleted";
    session.refused("delete ns default", "", protected)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn finalizers() -> Outcome {
    let session = Session::open().await?;
    session.says_given("create -f -", HELD, "configmap/held created")?;
    let said = session.run("delete cm held --timeout=5s", "")?;
    if said.code != Some(1) || !said.err.contains("timed out waiting for the condition on configmaps/held") {
        return Err(format!("a finalizer holds it: {said:?}").into());
    }
    if session.field("cm/held", "{.metadata.deletionTimestamp}")?.is_empty() {
        return Err("it is marked as deleted".into());
    }
    session.has("cm/held", "{.metadata.deletionGracePeriodSeconds}", "0")?;
    let more = "The ConfigMap \"held\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, \
                found new finalizers []string{\"ex.io/more\"}";
    session.refused(r#"patch cm held --type=merge -p {"metadata":{"finalizers":["ex.io/hold","ex.io/more"]}}"#, "", more)?;
    // This one waits, for as long as it takes.
    let mut deletion = session.rows("delete cm held")?;
    let told = deletion.wait_for(1)?;
    if !told[0].starts_with(r#"configmap "held" deleted"#) {
        return Err(format!("{told:?}").into());
    }
    session.says(r#"patch cm held --type=merge -p {"metadata":{"finalizers":null}}"#, "configmap/held patched")?;
    deletion.ends_well()?;
    session.refused("get cm held", "", r#"Error from server (NotFound): configmaps "held" not found"#)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn policies() -> Outcome {
    let session = Session::open().await?;
    for (cascade, finalizer) in [("foreground", "foregroundDeletion"), ("orphan", "orphan")] {
        let manifest = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {cascade}}}\n");
        session.given("create -f -", &manifest)?;
        session.deletes(&format!("delete cm {cascade} --cascade={cascade} --wait=false"), &format!("configmap \"{cascade}\" deleted"))?;
        session.has(&format!("cm/{cascade}"), "{.metadata.finalizers}", &format!("[\"{finalizer}\"]"))?;
    }
    Ok(())
}
