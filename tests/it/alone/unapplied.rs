//! Objects that a kube-apiserver would apply and this server only stores: their writer is warned, and the log says it once for each kind.

use std::fs;

use serde_json::{Value, json};

use super::{Alone, Failure, Outcome, asked};
use crate::client::Client;

/// Each object, where it is created, and what its writer is warned of.
fn cases() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let named = |more: Value| {
        let mut object = json!({"metadata": {"name": "x"}});
        object.as_object_mut().expect("members").extend(more.as_object().expect("members").clone());
        object
    };
    let limited = json!({"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}});
    vec![
        ("/api/v1/namespaces", json!({"metadata": {"name": "plain"}}), None),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
            named(json!({"spec": {"matchingPrecedence": 5, "priorityLevelConfiguration": {"name": "x"}}})),
            Some("fairness"),
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
            named(json!({"spec": {"type": "Limited", "limited": limited}})),
            Some("fairness"),
        ),
        ("/api/v1/namespaces/default/configmaps", named(json!({})), None),
    ]
}

async fn warnings(client: &Client, target: &str, object: &Value) -> Result<Vec<String>, Failure> {
    let answer =
        client.whole("POST", target, &[("content-type".to_owned(), "application/json".to_owned())], object.to_string().as_bytes()).await?;
    if answer.status != 201 {
        return Err(format!("{target}: {}", String::from_utf8_lossy(&answer.body)).into());
    }
    Ok(answer.header("warning").map(str::to_owned).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_stored_and_not_applied_is_said() -> Outcome {
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("server.log");
    let count = |text: &str| -> Result<usize, Failure> { Ok(fs::read_to_string(&log)?.matches(text).count()) };
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    for (target, object, want) in cases() {
        let told = warnings(&client, &format!("{target}?dryRun=All"), &object).await?;
        assert_eq!(told.iter().any(|text| want.is_some_and(|want| text.contains(want))), want.is_some(), "{target} {told:?}");
    }
    assert_eq!(count(" by this server")?, 0, "a dry run stores nothing, and the server's own objects are no news");
    for (target, object, want) in cases() {
        let told = warnings(&client, target, &object).await?;
        assert_eq!(told.len(), usize::from(want.is_some()), "{target} {told:?}");
    }
    let schemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    let spec = json!({"matchingPrecedence": 6, "priorityLevelConfiguration": {"name": "x"}});
    warnings(&client, schemas, &json!({"metadata": {"name": "again"}, "spec": spec})).await?;
    let mut again = asked(&client, ("GET", &format!("{schemas}/again")), None, 200).await?;
    again["metadata"] = json!({"name": "again", "labels": {"a": "b"}});
    asked(&client, ("PUT", &format!("{schemas}/again")), Some(&again), 200).await?;
    let kinds = cases().iter().filter(|(_, _, want)| want.is_some()).count();
    // The log has a thread of its own, which has written what was logged when the process has ended.
    let all_logged = async || -> Outcome {
        for _ in 0..600 {
            if count(" by this server")? == kinds {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Err(format!("{} lines and not {kinds}: {}", count(" by this server")?, fs::read_to_string(&log)?).into())
    };
    all_logged().await?;
    server.kill()?;
    fs::remove_file(&log)?;
    // What is already stored is said at the start, once for each kind too.
    let server = Alone::start(dir.path()).await?;
    all_logged().await?;
    server.kill()
}
