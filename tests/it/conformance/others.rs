//! The table again as those who may not do everything: the same 401 and 403, and the same answers where they may.

use futures_util::{StreamExt, stream};
use serde_json::json;

use super::{AT_ONCE, PRINTED, difference, objects, table};
use crate::{
    alone::{Failure, asked},
    client::Client,
    live::{Outcome, floor::stand, say},
};

const GROUP: &str = "rbac.authorization.k8s.io";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Gives a role to the viewer and to a service account; a token of the account.
async fn rights(theirs: &Client) -> Result<String, Failure> {
    let account = json!({"metadata": {"name": "conformance"}});
    asked(theirs, ("POST", "/api/v1/namespaces/default/serviceaccounts"), Some(&account), 201).await?;
    let reader = json!({
        "metadata": {"name": "conformance"},
        "rules": [
            {"apiGroups": ["", "apps", "conf.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ],
    });
    asked(theirs, ("POST", &format!("{RBAC}/clusterroles")), Some(&reader), 201).await?;
    let role_ref = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": "conformance"});
    for (path, subject) in [
        ("clusterrolebindings", json!({"apiGroup": GROUP, "kind": "Group", "name": "viewers"})),
        ("namespaces/t/rolebindings", json!({"kind": "ServiceAccount", "name": "conformance", "namespace": "default"})),
    ] {
        let binding = json!({"metadata": {"name": "conformance"}, "roleRef": role_ref, "subjects": [subject]});
        asked(theirs, ("POST", &format!("{RBAC}/{path}")), Some(&binding), 201).await?;
    }
    let target = "/api/v1/namespaces/default/serviceaccounts/conformance/token";
    let answer = asked(theirs, ("POST", target), Some(&json!({"spec": {}})), 201).await?;
    Ok(answer["status"]["token"].as_str().ok_or("no token")?.to_owned())
}

#[tokio::test]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn conformance_of_others() -> Outcome {
    let floor = stand().await?;
    let theirs = floor.theirs();
    let old = objects::write(&theirs, floor.etcd_at).await?;
    let token = rights(&theirs).await.map_err(|error| error.to_string())?;
    let (_running, address) = floor.secured("watchcache-others").await?;
    let admin = floor.site.client(address);
    objects::seen_by(&admin).await?;
    let world = table::World::of(&theirs, old).await?;
    let as_jane = ("Impersonate-User".to_owned(), "jane".to_owned());
    let (mut wrong, mut told) = (Vec::new(), Vec::new());
    for (who, token, header) in [
        ("anonymous", "", None),
        ("viewer", "viewtoken", None),
        ("account", token.as_str(), None),
        ("node", "nodetoken", None),
        ("impersonator", "", Some(as_jane)),
    ] {
        let client = |address| match header {
            Some(_) => floor.site.client(address),
            None => floor.site.client_of(address, token),
        };
        let (ours, theirs) = (client(address), client(floor.theirs_at));
        let mut rows = table::rows(&world)?;
        rows.retain(|row| row.deliberate.is_none());
        rows.iter_mut().for_each(|row| row.headers.extend(header.clone()));
        let compared: Vec<(&str, Option<String>)> = stream::iter(&rows)
            .map(|row| {
                let (ours, theirs) = (&ours, &theirs);
                async move { (row.shown.as_str(), difference(ours, theirs, row).await) }
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        let differ = compared.iter().filter_map(|(shown, difference)| Some(format!("{who}: {shown}\n{}", difference.as_ref()?)));
        let before = wrong.len();
        wrong.extend(differ);
        told.push(format!("{who} {} of {}", wrong.len() - before, rows.len()));
    }
    say(&format!("conformance of others, differ: {}", told.join(", ")));
    wrong.iter().take(PRINTED).for_each(|text| say(text));
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} answers differ", wrong.len()).into()) }
}
