//! A resource of one's own: defined, established, used, scaled, and gone with its definition.

use super::{Outcome, Session, same};

const DEFINITION: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.ex.io}
spec:
  group: ex.io
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wi], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}, replicas: {type: integer}}}
          status: {type: object, properties: {replicas: {type: integer}}}
";
const WIDGET: &str = "apiVersion: ex.io/v1\nkind: Widget\nmetadata: {name: small}\nspec: {size: 1, replicas: 1}\n";
const ESTABLISHED: &str = "wait --for=condition=established crd/widgets.ex.io --timeout=120s";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn from_definition_to_end() -> Outcome {
    let session = Session::open().await?;
    session.says_given("create -f -", DEFINITION, "customresourcedefinition.apiextensions.k8s.io/widgets.ex.io created")?;
    session.says(ESTABLISHED, "customresourcedefinition.apiextensions.k8s.io/widgets.ex.io condition met")?;
    session.says_given("create -f -", WIDGET, "widget.ex.io/small created")?;
    session.says("get wi -o name", "widget.ex.io/small")?;
    let all = session.ok("get all -o name")?;
    if !all.lines().any(|line| line == "widget.ex.io/small") {
        return Err(format!("the definition says that it belongs to all: {all}").into());
    }
    session.says(r#"patch widget small --type=merge -p {"spec":{"size":7}}"#, "widget.ex.io/small patched")?;
    session.has("widgets.v1.ex.io/small", "{.spec.size}{.metadata.generation}", "72")?;
    let said = session.run(r#"patch wi small --type=strategic -p {"spec":{"size":8}}"#, "")?;
    let unsupported = "error: application/strategic-merge-patch+json is not supported by ex.io/v1, Kind=Widget: the body of the request was in an \
                       unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json";
    // kube-apiserver goes on with the type of server-side apply.
    if said.code != Some(1) || !said.err.starts_with(unsupported) {
        return Err(format!("a strategic patch: {said:?}").into());
    }
    session.says("scale wi/small --replicas=3", "widget.ex.io/small scaled")?;
    session.has("wi/small", "{.spec.replicas}", "3")?;
    session.has("wi/small --subresource=scale", "{.kind}{.spec.replicas}", "Scale3")?;
    session.ok(r#"patch wi small --subresource=status --type=merge -p {"status":{"replicas":2},"spec":{"size":9}}"#)?;
    session.has("wi/small", "{.status.replicas}{.spec.size}", "27")?;
    session.says("label wi small a=b", "widget.ex.io/small labeled")?;
    session.edits("edit wi small", "s/size:.7/size:\\ 4/", "widget.ex.io/small edited")?;
    session.has("wi/small", "{.spec.size}", "4")?;

    let other = WIDGET.replace("small", "other");
    session.says_given("apply -f -", &other, "widget.ex.io/other created")?;
    session.says_given("apply -f -", &other.replace("size: 1", "size: 2"), "widget.ex.io/other configured")?;
    session.says_given("apply -f -", &other.replace("size: 1", "size: 2"), "widget.ex.io/other unchanged")?;
    let text = session.ok("explain widget.spec.size")?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).take(4).collect();
    same("explain", &lines.join("|"), "GROUP:      ex.io|KIND:       Widget|VERSION:    v1|FIELD: size <integer>")?;

    session.deletes("delete wi other", r#"widget.ex.io "other" deleted"#)?;
    session
        .deletes("delete crd widgets.ex.io --timeout=120s", r#"customresourcedefinition.apiextensions.k8s.io "widgets.ex.io" deleted"#)?;
    // Discovery that kubectl remembers still names it.
    let gone = session.run("get widgets.v1.ex.io --cache-dir=/dev/null/none", "")?;
    if gone.code != Some(1) || !gone.err.contains("the server doesn't have a resource type \"widgets\"") {
        return Err(format!("after its definition: {gone:?}").into());
    }
    session.given("create -f -", DEFINITION)?;
    session.ok(ESTABLISHED)?;
    session.says("get wi -o name", "")
}
