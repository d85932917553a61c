//! Resources of which nothing is stored, and creates of which nothing is: what kube-apiserver 1.36.3 answered is written down here.

use serde_json::{Value, json};

use super::{Alone, Outcome, asked};

const PODS: &str = "/api/v1/namespaces/default/pods";
const BINDINGS: &str = "/api/v1/namespaces/default/bindings";
const STATUSES: &str = "/api/v1/componentstatuses";

/// The old way to bind a Pod, which tests of schedulers take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_gives_a_pod_its_node() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    asked(&client, ("POST", PODS), Some(&pod), 201).await?;
    let binding = |metadata: Value, node: &str| json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}});
    let named = json!({"name": "p"});
    asked(&client, ("POST", &format!("{BINDINGS}?dryRun=All")), Some(&binding(named.clone(), "n")), 201).await?;
    let status = asked(&client, ("POST", BINDINGS), Some(&binding(named.clone(), "n")), 201).await?;
    assert_eq!(status, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}));
    let bound = asked(&client, ("GET", &format!("{PODS}/p")), None, 200).await?;
    assert_eq!(bound["spec"]["nodeName"], "n");
    for (metadata, node, code, message) in [
        (named, "m", 409, "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\""),
        (json!({}), "n", 400, "Name parameter required."),
        (json!({}), "", 500, "target.name: Required value"),
        (json!({"name": "q"}), "n", 404, "pods \"q\" not found"),
        (
            json!({"name": "p", "namespace": "x"}),
            "n",
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ] {
        let refused = asked(&client, ("POST", BINDINGS), Some(&binding(metadata, node)), code).await?;
        assert_eq!(refused["message"], message);
    }
    asked(&client, ("GET", BINDINGS), None, 405).await?;
    asked(&client, ("GET", &format!("{BINDINGS}/p")), None, 404).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn component_statuses_are_made_when_they_are_asked_for() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let etcd = asked(&client, ("GET", &format!("{STATUSES}/etcd-0")), None, 200).await?;
    let healthy = json!({"type": "Healthy", "status": "True", "message": "ok"});
    assert_eq!(
        etcd,
        json!({"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": "etcd-0"}, "conditions": [healthy.clone()]})
    );
    let list = asked(&client, ("GET", &format!("{STATUSES}?fieldSelector=metadata.name%3Detcd-0")), None, 200).await?;
    let item = json!({"metadata": {"name": "etcd-0"}, "conditions": [healthy]});
    assert_eq!(list, json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": [item]}));
    let all = asked(&client, ("GET", STATUSES), None, 200).await?;
    assert_eq!(super::names(&all), ["controller-manager", "etcd-0", "scheduler"]);
    let missing = asked(&client, ("GET", &format!("{STATUSES}/x")), None, 404).await?;
    assert_eq!(missing["message"], "componentstatus \"x\" not found");
    let watch = asked(&client, ("GET", &format!("{STATUSES}?watch=true")), None, 405).await?;
    assert_eq!(watch["message"], "watch is not supported on resources of kind \"componentstatuses\"");
    let head = [("accept".to_owned(), "application/json;as=Table;g=meta.k8s.io;v=v1".to_owned())];
    let table = client.whole("GET", &format!("{STATUSES}/etcd-0"), &head, b"").await?;
    let table: Value = serde_json::from_slice(&table.body)?;
    assert_eq!(table["rows"][0]["cells"], json!(["etcd-0", "Healthy", "ok", ""]), "{table}");
    asked(&client, ("POST", STATUSES), Some(&json!({})), 405).await?;
    Ok(())
}

/// A dry run does not come to the storage that refuses a revision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_takes_a_revision_of_a_new_object() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str| json!({"metadata": {"name": name, "resourceVersion": "5"}});
    let made = asked(&client, ("POST", &format!("{maps}?dryRun=All")), Some(&map("a")), 201).await?;
    assert_eq!(made["metadata"]["resourceVersion"], "5");
    let refused = asked(&client, ("POST", maps), Some(&map("a")), 500).await?;
    assert_eq!(refused["message"], "resourceVersion should not be set on objects to be created");
    // What is wrong with the object comes first.
    asked(&client, ("POST", maps), Some(&map("Bad_Name")), 422).await?;
    Ok(())
}
