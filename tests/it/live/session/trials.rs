//! What is only tried (`--dry-run=server`), and manifests with fields that nobody knows (`--validate`).

use super::{Outcome, Session};

const SETTINGS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {color: red}\n";
const UNKNOWN: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ncolour: red\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn dry_runs() -> Outcome {
    let session = Session::open().await?;
    let absent = r#"Error from server (NotFound): configmaps "settings" not found"#;
    session.says_given("create -f - --dry-run=server", SETTINGS, "configmap/settings created (server dry run)")?;
    session.refused("get cm settings", "", absent)?;
    session.says_given("apply -f - --dry-run=server", SETTINGS, "configmap/settings created (server dry run)")?;
    session.refused("get cm settings", "", absent)?;
    session.given("apply -f -", SETTINGS)?;
    let revision = session.field("cm/settings", "{.metadata.resourceVersion}")?;
    let exists = r#"Error from server (AlreadyExists): error when creating "STDIN": configmaps "settings" already exists"#;
    session.refused("create -f - --dry-run=server", SETTINGS, exists)?;
    let patch = r#"patch cm settings --type=merge -p {"data":{"color":"blue"}} --dry-run=server"#;
    session.says(&format!("{patch} -o jsonpath={{.data.color}}"), "blue")?;
    let changed = SETTINGS.replace("red", "green");
    session.says_given("apply -f - --dry-run=server", &changed, "configmap/settings configured (server dry run)")?;
    session.says_given("replace -f - --dry-run=server", &changed, "configmap/settings replaced (server dry run)")?;
    session.says("label cm settings a=b --dry-run=server", "configmap/settings labeled (server dry run)")?;
    let out = session.ok("delete cm settings --dry-run=server")?;
    if !out.starts_with(r#"configmap "settings" deleted"#) || !out.ends_with("(server dry run)") {
        return Err(format!("delete: {out}").into());
    }
    session.has("cm/settings", "{.metadata.resourceVersion}{.data.color}", &format!("{revision}red"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn unknown_fields() -> Outcome {
    let session = Session::open().await?;
    let strict = "Error from server (BadRequest): error when creating \"STDIN\": ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict \
                  decoding error: unknown field \"colour\"";
    session.refused("create -f - --validate=strict", UNKNOWN, strict)?;
    // Strict is the default.
    session.refused("create -f -", UNKNOWN, strict)?;
    session.refused("get cm settings", "", r#"Error from server (NotFound): configmaps "settings" not found"#)?;
    let warned = session.run("create -f - --validate=warn", UNKNOWN)?;
    if warned.code != Some(0) || warned.err != r#"Warning: unknown field "colour""# || warned.out != "configmap/settings created" {
        return Err(format!("warn: {warned:?}").into());
    }
    session.has("cm/settings", "{.colour}", "")?;
    session.ok("delete cm settings")?;
    let ignored = session.run("create -f - --validate=ignore", UNKNOWN)?;
    if ignored.code != Some(0) || !ignored.err.is_empty() {
        return Err(format!("ignore: {ignored:?}").into());
    }
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice, labels: {a: b, 'bad key': c}}\n";
    let said = session.run("create -f -", twice)?;
    if said.code != Some(1) || !said.err.starts_with("The ConfigMap \"twice\" is invalid: metadata.labels: Invalid value: \"bad key\"") {
        return Err(format!("a label's key: {said:?}").into());
    }
    Ok(())
}
