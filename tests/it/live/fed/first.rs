//! A resource that nobody has asked for before: all who come for it at once are answered, and watches from before it was loaded miss nothing.

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::{Fed, MAPS, NOTICED, SOON, create, names};
use crate::{
    alone::asked,
    client::Client,
    live::{Outcome, peers::Site},
};

/// More than one user's share of the requests under way.
const CROWD: usize = 450;

/// What the clients of the crowd read, each something else.
fn target(number: usize) -> String {
    format!("/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-{number}")
}

/// Has this user read everything there.
pub(super) async fn lets_read(theirs: &Client, user: &str, asks: &Client) -> Outcome {
    let role = json!({"metadata": {"name": user}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]});
    let subject = json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"});
    let bound = json!({"kind": "ClusterRole", "name": user, "apiGroup": "rbac.authorization.k8s.io"});
    let binding = json!({"metadata": {"name": user}, "roleRef": bound, "subjects": [subject]});
    for (kind, body) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{kind}");
        asked(theirs, ("POST", &path), Some(&body), 201).await.map_err(|error| error.to_string())?;
    }
    let began = Instant::now();
    while asks.fetch(MAPS).await?.status != 200 {
        assert!(began.elapsed() < NOTICED, "{user} may still not read");
        sleep(SOON).await;
    }
    Ok(())
}

/// The answer to one of the crowd. A stranger's connection may have to go for another's: it comes again then.
async fn answered(site: &Site, fed: &Fed, number: usize) -> u16 {
    let client = site.client_of(fed.ours_at, "viewtoken");
    for _ in 0..50 {
        if let Ok(answer) = client.fetch(&target(number)).await {
            return answer.status;
        }
        sleep(SOON).await;
    }
    0
}

#[tokio::test]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn all_who_come_first_are_answered() -> Outcome {
    let fed = Fed::start(|_| Vec::new()).await?;
    let (ours, theirs) = (fed.site.client(fed.ours_at), fed.site.client(fed.theirs_at));
    lets_read(&theirs, "viewer", &fed.site.client_of(fed.theirs_at, "viewtoken")).await?;
    let statuses = join_all((0..CROWD).map(|number| answered(&fed.site, &fed, number))).await;
    let others: Vec<u16> = statuses.into_iter().filter(|status| *status != 200).collect();
    assert!(others.is_empty(), "{} of {CROWD} were not answered: {others:?}", others.len());

    // Who has listed elsewhere, or before, goes on from there.
    let listed = asked(&theirs, ("GET", MAPS), None, 200).await.map_err(|error| error.to_string())?;
    let before = listed["metadata"]["resourceVersion"].as_str().ok_or("a list without a revision")?.to_owned();
    create(&theirs, "early").await?;
    assert!(names(&ours, "?resourceVersion=0").await?.contains(&"early".to_owned()));
    let watch = ours.watch(&format!("{MAPS}?watch=1&resourceVersion={before}")).await?;
    let mut watch = watch.map_err(|answer| format!("a watch: {answer:?}"))?;
    let first = timeout(NOTICED, watch.next_line()).await.map_err(|_| "the watch tells nothing")??.ok_or("the watch has ended")?;
    let first = String::from_utf8_lossy(&first).into_owned();
    assert!(first.contains("\"ADDED\"") && first.contains("\"early\""), "{first}");

    let metrics = ours.fetch("/metrics").await?;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let forwarded = |reason: &str| metrics.contains(&format!("watchcache_forwarded_requests_total{{code=\"200\",reason=\"{reason}\"}}"));
    assert!(!forwarded("loading"), "each waits for what is being loaded");
    assert!(forwarded("forgotten"), "the watch is upstream's until its client comes again");
    Ok(())
}
