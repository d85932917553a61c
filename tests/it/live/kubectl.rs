//! kubectl against ours: what a person sees must be what kube-apiserver shows them.

use std::{
    env, fs,
    process::{Command, Stdio},
};

use serde_json::json;

use super::{Outcome, floor::Floor, floor::stand, objects, peers::TOKEN, rows::Rows, say};
use crate::client::Request;

const NS: &str = "kubectl-case";

/// A kubectl command and how its output is compared.
const COMMANDS: [(&[&str], Compare); 13] = [
    (&["get", "configmap", "cm-a", "-n", NS, "-o", "yaml"], Compare::Exactly),
    (&["get", "configmaps", "-n", NS, "-o", "json"], Compare::Exactly),
    (&["get", "pods", "-n", NS, "-o", "name"], Compare::Exactly),
    (&["get", "configmaps", "-n", NS, "-l", "app=red", "-o", "name"], Compare::Exactly),
    (&["get", "configmaps", "-n", NS, "-l", "app notin (red)", "-o", "name"], Compare::Exactly),
    (&["get", "pods", "-A", "--field-selector", "spec.nodeName=node-k", "-o", "name"], Compare::Exactly),
    (&["get", "widgets.v2.ex.io", "-n", NS, "-o", "yaml"], Compare::Exactly),
    (&["get", "namespaces", "-o", "name", "--chunk-size=2"], Compare::Exactly),
    (&["api-resources", "--no-headers", "--sort-by=name"], Compare::Contained),
    (&["describe", "configmap", "cm-a", "-n", NS], Compare::Exactly),
    (&["describe", "pod", "pod-a", "-n", NS], Compare::Exactly),
    (&["get", "pods", "-n", NS], Compare::FirstColumn),
    (&["get", "wi", "-n", NS], Compare::FirstColumn),
];

#[derive(Clone, Copy)]
enum Compare {
    /// The same text.
    Exactly,
    /// Every line of ours is one of theirs (ours serves a part of the resources).
    Contained,
    /// The same first column; when the headers agree the server made the columns, and then the same text but for ages.
    FirstColumn,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn kubectl() -> Outcome {
    let floor = stand().await?;
    let theirs = floor.theirs();
    objects::define(&theirs).await?;
    objects::create(&theirs, vec![objects::namespace(NS)]).await?;
    let mut creations = vec![objects::pod(NS, "pod-a", Some("node-k")), objects::pod(NS, "pod-b", None)];
    // kubectl's YAML printer refuses control characters.
    let text = objects::AWKWARD.replace('\u{7f}', "");
    for (name, app) in [("cm-a", "red"), ("cm-b", "blue"), ("cm-c", "red")] {
        let object = json!({"metadata": {"name": name, "labels": {"app": app}}, "data": {"text": text}});
        creations.push((format!("/api/v1/namespaces/{NS}/configmaps"), object));
    }
    let widget = json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "widget-a"}, "spec": {"size": 1}});
    creations.push((format!("/apis/ex.io/v1/namespaces/{NS}/widgets"), widget));
    objects::create(&theirs, creations).await?;
    objects::served(&floor.ours(), &format!("/apis/ex.io/v2/namespaces/{NS}/widgets/widget-a")).await?;
    objects::served(&theirs, &format!("/apis/ex.io/v2/namespaces/{NS}/widgets/widget-a")).await?;

    let mut failures = Vec::new();
    for (arguments, compare) in COMMANDS {
        let theirs = run(&floor, Side::Theirs, arguments)?;
        // A failure of ours is a difference like another, and the other commands are still worth a look.
        let ours = run(&floor, Side::Ours, arguments).unwrap_or_else(|e| e.to_string());
        match compared(compare, &ours, &theirs) {
            Ok(how) => say(&format!("live kubectl {}: {how}", arguments.join(" "))),
            Err(why) => failures.push(format!("kubectl {}: {why}\n--- ours\n{ours}\n--- theirs\n{theirs}", arguments.join(" "))),
        }
    }
    failures.extend(watched(&floor).await.err().map(|e| format!("kubectl get -w: {e}")));
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n\n").into()) }
}

/// Compares two outputs; says how far they are the same, or why not.
fn compared(compare: Compare, ours: &str, theirs: &str) -> Result<String, String> {
    let lines = |text: &str| text.lines().map(String::from).collect::<Vec<_>>();
    let (ours, theirs) = (lines(ours), lines(theirs));
    if theirs.is_empty() || ours.is_empty() {
        return Err("nothing to compare".into());
    }
    let same = match compare {
        Compare::Exactly => ours == theirs,
        Compare::Contained => {
            return match ours.iter().find(|line| !theirs.contains(line)) {
                Some(line) => Err(format!("{line:?} is not in theirs")),
                None => Ok(format!("{} of {} lines", ours.len(), theirs.len())),
            };
        }
        Compare::FirstColumn if ours[0] == theirs[0] => {
            ours.iter().zip(&theirs).all(|(a, b)| aged(a) == aged(b)) && ours.len() == theirs.len()
        }
        Compare::FirstColumn => {
            let names = |lines: &[String]| lines.iter().map(|l| first(l).to_owned()).collect::<Vec<_>>();
            if names(&ours) == names(&theirs) {
                return Ok("the same names, without the server's columns".into());
            }
            false
        }
    };
    if same { Ok(format!("the same {} lines", ours.len())) } else { Err("the outputs differ".into()) }
}

fn first(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or("")
}

/// A row's words without its last, the age.
fn aged(row: &str) -> Vec<&str> {
    let words: Vec<&str> = row.split_whitespace().collect();
    words[..words.len().saturating_sub(1)].to_vec()
}

/// `get -w`: a change made by kube-apiserver shows as a row.
async fn watched(floor: &Floor) -> Outcome {
    let mut command = command(floor, Side::Ours, &["get", "configmaps", "-n", NS, "-w", "-o", "name"])?;
    let mut rows = Rows::of(command.stderr(Stdio::inherit()))?;
    let client = floor.theirs();
    let object = json!({"metadata": {"name": "cm-new"}});
    let steps = [
        ("POST", format!("/api/v1/namespaces/{NS}/configmaps"), Some(object.to_string())),
        ("DELETE", format!("/api/v1/namespaces/{NS}/configmaps/cm-new"), None),
    ];
    rows.wait_for(3)?;
    for (count, (method, target, body)) in steps.iter().enumerate() {
        client.ask(&Request { method, target, body: body.as_deref().map(str::as_bytes) }).await?;
        rows.wait_for(4 + count)?;
    }
    let seen = rows.wait_for(5)?;
    let expected = ["configmap/cm-a", "configmap/cm-b", "configmap/cm-c", "configmap/cm-new", "configmap/cm-new"];
    if seen != expected {
        return Err(format!("{seen:?}").into());
    }
    say("live kubectl get -w: three rows at once, then one for a creation and one for a deletion");
    Ok(())
}

#[derive(Clone, Copy)]
enum Side {
    Ours,
    Theirs,
}

fn run(floor: &Floor, side: Side, arguments: &[&str]) -> Result<String, Box<dyn std::error::Error>> {
    let output = command(floor, side, arguments)?.output()?;
    if !output.status.success() {
        return Err(format!("kubectl {}: {}: {}", arguments.join(" "), output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// kubectl with no configuration but the server: a cache folder of its own for each side, since it remembers discovery.
fn command(floor: &Floor, side: Side, arguments: &[&str]) -> Result<Command, Box<dyn std::error::Error>> {
    let (name, (url, secured)) = match side {
        Side::Ours => ("kubectl-ours", floor.ours_url()),
        Side::Theirs => ("kubectl-theirs", (format!("https://{}", floor.theirs_at), true)),
    };
    let home = floor.site.path().join(name);
    fs::create_dir_all(&home)?;
    let mut command = Command::new(env::var_os("WATCHCACHE_TEST_KUBECTL").unwrap_or_else(|| "kubectl".into()));
    command.env("HOME", &home).env("KUBECONFIG", home.join("none")).stdin(Stdio::null());
    command.args(["--server", &url, "--request-timeout", if arguments.contains(&"-w") { "0" } else { "60s" }]);
    command.arg("--cache-dir").arg(home.join("cache"));
    if secured {
        command.args(["--token", TOKEN, "--certificate-authority"]).arg(floor.site.path().join("ca.crt"));
    }
    command.args(arguments);
    Ok(command)
}

#[test]
fn outputs_are_compared_as_said() {
    assert!(compared(Compare::Exactly, "a\n", "a\n").is_ok());
    assert!(compared(Compare::Exactly, "a\n", "b\n").is_err());
    assert!(compared(Compare::Exactly, "", "").is_err(), "two empty outputs prove nothing");
    assert!(compared(Compare::Contained, "a\n", "b\na\n").is_ok());
    assert!(compared(Compare::Contained, "c\n", "b\na\n").is_err());
    assert!(compared(Compare::FirstColumn, "NAME AGE\nx 1s\n", "NAME AGE\nx 2s\n").is_ok());
    assert!(compared(Compare::FirstColumn, "NAME X AGE\nx 1 1s\n", "NAME X AGE\nx 2 1s\n").is_err());
    assert!(compared(Compare::FirstColumn, "NAME AGE\nx 1s\n", "NAME X AGE\nx 2 1s\n").is_ok());
    assert!(compared(Compare::FirstColumn, "NAME AGE\ny 1s\n", "NAME X AGE\nx 2 1s\n").is_err());
}
