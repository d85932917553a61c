//! The audit log of one server: what it tells, and what becomes of requests when it cannot be written.

use std::{fs, path::Path, process::Command, time::Duration};

use ::client::testing::{Reaction, Server};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Alone, Outcome, asked};

/// How long an event may take that nobody waits for.
const PATIENCE: Duration = Duration::from_secs(600);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Nothing but ConfigMaps is told, so that a broken log does not keep the server from becoming ready.
const POLICY: &str =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: RequestResponse\n  resources: [{resources: [configmaps]}]\n";

fn flags(dir: &Path, log: &str, mode: &str) -> std::io::Result<[String; 3]> {
    let policy = dir.join("policy.yaml");
    fs::write(&policy, POLICY)?;
    Ok([format!("--audit-policy-file={}", policy.display()), format!("--audit-log-path={log}"), format!("--audit-log-mode={mode}")])
}

async fn start(dir: &Path, log: &str, mode: &str) -> Result<Alone, Box<dyn std::error::Error + Send + Sync>> {
    let flags = flags(dir, log, mode)?;
    Alone::start_with(dir, &flags.each_ref().map(String::as_str)).await
}

fn events(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("each line is an event")).collect()
}

/// The stages of the watches.
fn stages(log: &Path) -> Vec<String> {
    let watches = events(log).into_iter().filter(|event| event["verb"] == "watch");
    watches.map(|event| format!("{} {}", event["stage"].as_str().unwrap_or_default(), event["responseStatus"]["code"])).collect()
}

async fn until(log: &Path, expect: &[&str]) -> Outcome {
    let began = Instant::now();
    while stages(log) != expect {
        if began.elapsed() > PATIENCE {
            return Err(format!("{:?} instead of {expect:?}", stages(log)).into());
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_told_before_it_is_answered() -> Outcome {
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("audit.log");
    let server = start(dir.path(), &log.display().to_string(), "blocking").await?;
    let client = server.client();
    let body = json!({"metadata": {"name": "a"}, "data": {"b": "c"}}).to_string();
    let headers = [("Audit-ID", "mine"), ("Content-Type", "application/json"), ("User-Agent", "test/1")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let answer = client.whole("POST", CONFIG_MAPS, &headers, body.as_bytes()).await?;
    assert_eq!((answer.status, answer.header("audit-id").collect::<Vec<_>>()), (201, vec!["mine"]));
    let events = events(&log);
    let told = |pointer: &str| events.iter().map(|event| event.pointer(pointer).cloned().unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(told("/auditID"), ["mine", "mine"]);
    assert_eq!(told("/stage"), ["RequestReceived", "ResponseComplete"]);
    assert_eq!(told("/user/username"), ["system:unsecured", "system:unsecured"]);
    assert_eq!(told("/requestObject/data"), [Value::Null, json!({"b": "c"})]);
    assert_eq!(told("/responseObject/metadata/namespace"), [Value::Null, json!("default")]);
    let metrics = client.fetch("/metrics").await?.body;
    let metrics = String::from_utf8_lossy(&metrics);
    assert!(metrics.contains("\napiserver_audit_event_total 2\n"), "{metrics}");
    assert!(metrics.contains("\napiserver_audit_level_total{level=\"RequestResponse\"} 1\n"), "{metrics}");
    assert!(metrics.contains("\napiserver_audit_error_total{plugin=\"log\"} 0\n"), "{metrics}");
    Ok(())
}

/// One that ends by itself, one that its client leaves, and one through a WebSocket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_watch_is_told_however_it_ends() -> Outcome {
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("audit.log");
    let server = start(dir.path(), &log.display().to_string(), "blocking").await?;
    let client = server.client();
    let begun = ["RequestReceived null", "ResponseStarted 200"];
    let mut expect = begun.to_vec();
    client.fetch(&format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1")).await?;
    expect.push("ResponseComplete 200");
    until(&log, &expect).await?;
    let left = client.watch(&format!("{CONFIG_MAPS}?watch=true")).await?;
    expect.extend(begun);
    until(&log, &expect).await?;
    drop(left);
    expect.push("ResponseComplete 200");
    until(&log, &expect).await?;
    let socket = client.socket(&format!("{CONFIG_MAPS}?watch=true"), &[]).await?;
    expect.extend(["RequestReceived null", "ResponseStarted 101"]);
    until(&log, &expect).await?;
    drop(socket);
    expect.push("ResponseComplete 101");
    until(&log, &expect).await
}

/// Beside the log, and with the same events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_gets_the_events_too() -> Outcome {
    let dir = tempfile::tempdir()?;
    let receiver = Server::start(|_| Reaction::json(&json!({}))).await;
    let (log, file) = (dir.path().join("audit.log"), dir.path().join("kubeconfig"));
    fs::write(&file, receiver.kubeconfig("/events"))?;
    let flags = flags(dir.path(), &log.display().to_string(), "blocking")?;
    let file = format!("--audit-webhook-config-file={}", file.display());
    let [policy, path, mode] = flags.each_ref().map(String::as_str);
    let server = Alone::start_with(dir.path(), &[policy, path, mode, &file, "--audit-webhook-batch-max-wait=100ms"]).await?;
    asked(&server.client(), ("GET", CONFIG_MAPS), None, 200).await?;
    let began = Instant::now();
    let posted = loop {
        let lists: Vec<Value> = receiver.asked().iter().map(|asked| serde_json::from_slice(&asked.body).unwrap_or_default()).collect();
        let items: Vec<Value> = lists.iter().flat_map(|list| list["items"].as_array().cloned().unwrap_or_default()).collect();
        if items.len() == 2 {
            assert_eq!((&lists[0]["kind"], receiver.asked()[0].uri.path()), (&json!("EventList"), "/events"));
            break items;
        }
        assert!(began.elapsed() < PATIENCE, "{lists:?}");
        sleep(Duration::from_millis(20)).await;
    };
    let mut written = events(&log);
    for event in written.iter_mut().filter_map(Value::as_object_mut) {
        event.remove("kind");
        event.remove("apiVersion");
    }
    assert_eq!(posted, written);
    Ok(())
}

/// A disk that is full is no outage, unless it is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_written_refuses_only_strictly() -> Outcome {
    for (mode, status, rejected) in [("blocking", 200, 0), ("batch", 200, 0), ("blocking-strict", 500, 1)] {
        let dir = tempfile::tempdir()?;
        let server = start(dir.path(), "/dev/full", mode).await?;
        let answer = server.client().fetch(CONFIG_MAPS).await?;
        assert_eq!(answer.status, status, "{mode}");
        if status == 500 {
            let text = "Internal Server Error: \"/api/v1/namespaces/default/configmaps\": failed to store audit event\n";
            assert_eq!(answer.body, text.as_bytes());
        }
        let (mut metrics, began) = (String::new(), Instant::now());
        let lost = if status == 500 { 1 } else { 2 };
        while !metrics.contains(&format!("\napiserver_audit_error_total{{plugin=\"log\"}} {lost}\n")) {
            assert!(began.elapsed() < PATIENCE, "{mode}: {metrics}");
            metrics = String::from_utf8_lossy(&server.client().fetch("/metrics").await?.body).into_owned();
        }
        assert!(metrics.contains(&format!("\napiserver_audit_requests_rejected_total {rejected}\n")), "{mode}");
        asked(&server.client(), ("GET", "/api/v1/namespaces/default"), None, 200).await?;
    }
    Ok(())
}

#[test]
fn a_wrong_policy_is_one_line_at_the_start() -> Outcome {
    let dir = tempfile::tempdir()?;
    let policy = dir.path().join("policy.yaml");
    for (text, why) in [
        ("a: [", "failed decoding: yaml: line 1: did not find expected node content"),
        ("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{}]\n", "rules[0].level: Required value"),
    ] {
        fs::write(&policy, text)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
        command.args(["serve", "--audit-log-path=-", "--data-dir"]).arg(dir.path().join("data"));
        let port = crate::live::free_address()?.port().to_string();
        let output = command.args(["--insecure-port", &port, "--audit-policy-file"]).arg(&policy).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("loading audit policy file: {why}: from file {}", policy.display())), "{said}");
        assert_eq!((output.status.success(), output.stdout.len()), (false, 0));
    }
    Ok(())
}
