//! ConfigMaps and Secrets: made, read, labelled, patched, edited, replaced, applied, watched, deleted.

use super::{Outcome, Session, same};

const SETTINGS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  labels: {app: shop}
data: {color: red, size: '1'}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn made_read_and_marked() -> Outcome {
    let session = Session::open().await?;
    session.says_given("create -f -", SETTINGS, "configmap/settings created")?;
    let exists = r#"Error from server (AlreadyExists): error when creating "STDIN": configmaps "settings" already exists"#;
    session.refused("create -f -", SETTINGS, exists)?;
    session.has("cm/settings", "{.data.color}{.metadata.labels.app}", "redshop")?;
    session.says("label cm settings tier=web", "configmap/settings labeled")?;
    session.says("get cm -l tier=web,app=shop -o name", "configmap/settings")?;
    session.refused("label cm settings tier=db", "", "error: 'tier' already has a value (web), and --overwrite is false")?;
    session.says("label cm settings tier=db --overwrite", "configmap/settings labeled")?;
    session.says("label cm settings tier-", "configmap/settings unlabeled")?;
    session.says("get cm -l tier -o name", "")?;
    session.says("annotate cm settings note=x", "configmap/settings annotated")?;
    session.has("cm/settings", "{.metadata.annotations.note}", "x")?;
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {word: open}\n";
    session.says_given("create -f -", secret, "secret/key created")?;
    session.has("secret/key", "{.data.word}{.stringData}{.type}", "b3Blbg==Opaque")?;
    session.deletes("delete secret/key", r#"secret "key" deleted"#)?;
    session.deletes("delete cm -l app=shop", r#"configmap "settings" deleted"#)?;
    session.refused("get cm settings", "", r#"Error from server (NotFound): configmaps "settings" not found"#)?;
    session.refused("delete cm settings", "", r#"Error from server (NotFound): configmaps "settings" not found"#)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn changed_in_every_way() -> Outcome {
    let session = Session::open().await?;
    session.given("create -f -", SETTINGS)?;
    let revision = session.field("cm/settings", "{.metadata.resourceVersion}")?;
    session.says(r#"patch cm settings --type=merge -p {"data":{"color":"blue","size":null}}"#, "configmap/settings patched")?;
    session.has("cm/settings", "{.data}", r#"{"color":"blue"}"#)?;
    let tested = r#"[{"op":"test","path":"/data/color","value":"blue"},{"op":"add","path":"/data/size","value":"2"}]"#;
    session.says(&format!("patch cm settings --type=json -p {tested}"), "configmap/settings patched")?;
    session.has("cm/settings", "{.data.size}", "2")?;
    let invalid = "The request is invalid: the server rejected our request due to an error in our request";
    session.refused(r#"patch cm settings --type=json -p [{"op":"test","path":"/data/color","value":"red"}]"#, "", invalid)?;
    session.says(r#"patch cm settings --type=strategic -p {"data":{"size":"3"}}"#, "configmap/settings patched")?;
    let before = session.field("cm/settings", "{.metadata.resourceVersion}")?;
    session.says(r#"patch cm settings -p {"data":{"size":"3"}}"#, "configmap/settings patched (no change)")?;
    session.has("cm/settings", "{.metadata.resourceVersion}", &before)?;
    session.edits("edit cm settings", "s/blue/green/", "configmap/settings edited")?;
    session.edits("edit cm settings", "s/nothing/else/", "Edit cancelled, no changes made.")?;
    session.has("cm/settings", "{.data}", r#"{"color":"green","size":"3"}"#)?;
    let stale = SETTINGS.replace("  name:", &format!("  resourceVersion: '{revision}'\n  name:"));
    let conflict = "Error from server (Conflict): error when replacing \"STDIN\": Operation cannot be fulfilled on configmaps \"settings\": \
                    the object has been modified; please apply your changes to the latest version and try again";
    session.refused("replace -f -", &stale, conflict)?;
    session.says_given("replace -f -", SETTINGS, "configmap/settings replaced")?;
    session.has("cm/settings", "{.data}", r#"{"color":"red","size":"1"}"#)?;
    let uid = session.field("cm/settings", "{.metadata.uid}")?;
    let out = session.given("replace --force -f -", SETTINGS)?;
    same("replace --force", out.lines().last().unwrap_or(""), "configmap/settings replaced")?;
    if session.field("cm/settings", "{.metadata.uid}")? == uid {
        return Err("replace --force makes another object".into());
    }
    session.says(r#"patch cm settings --type=merge -p {"immutable":true}"#, "configmap/settings patched")?;
    let fixed = "The ConfigMap \"settings\" is invalid: data: Forbidden: field is immutable when `immutable` is set";
    session.refused(r#"patch cm settings --type=merge -p {"data":{"color":"x"}}"#, "", fixed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn applied_and_compared() -> Outcome {
    let session = Session::open().await?;
    session.says_given("apply -f -", SETTINGS, "configmap/settings created")?;
    session.says_given("diff -f -", SETTINGS, "")?;
    // Another hand adds a key; apply leaves it alone, and takes away what the manifest had and has no more.
    session.ok(r#"patch cm settings --type=merge -p {"data":{"other":"hand"}}"#)?;
    let changed = SETTINGS.replace("color: red, size: '1'", "color: blue");
    let diff = session.run("diff -f -", &changed)?;
    let lines: Vec<&str> = diff.out.lines().filter(|line| line.starts_with("-  ") || line.starts_with("+  ")).collect();
    same("diff", &lines.join("|"), "-  color: red|+  color: blue|-  size: \"1\"")?;
    if diff.code != Some(1) {
        return Err(format!("a difference is told by the exit code: {diff:?}").into());
    }
    session.has("cm/settings", "{.data.color}", "red")?;
    session.says_given("apply -f -", &changed, "configmap/settings configured")?;
    session.has("cm/settings", "{.data}", r#"{"color":"blue","other":"hand"}"#)?;
    let revision = session.field("cm/settings", "{.metadata.resourceVersion}")?;
    session.says_given("apply -f -", &changed, "configmap/settings unchanged")?;
    session.has("cm/settings", "{.metadata.resourceVersion}", &revision)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn watched() -> Outcome {
    let session = Session::open().await?;
    session.given("create -f -", SETTINGS)?;
    let mut rows = session.rows("get cm -w --output-watch-events --no-headers")?;
    rows.wait_for(1)?;
    session.ok("label cm settings tier=web")?;
    rows.wait_for(2)?;
    session.given("create -f -", &SETTINGS.replace("name: settings", "name: more"))?;
    rows.wait_for(3)?;
    session.ok("delete cm settings")?;
    let words = |row: &String| row.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let all: Vec<String> = rows.wait_for(4)?.iter().map(words).collect();
    same("get -w", &all.join("|"), "ADDED settings|MODIFIED settings|ADDED more|DELETED settings")
}
