//! Metrics, alerts and the dashboard: what these look at exists, and each alert has its part in the runbook and its test.

use std::collections::BTreeSet;

use super::{none, read, root, sources};

/// Where the alerts and the dashboard are.
const MONITORING: &str = "deploy/helm/watchcache/monitoring";

/// How names of ours and of others' begin.
const PREFIXES: [&str; 4] = ["apiserver_", "etcd_", "process_", "watchcache_"];

/// Names of metrics in a text, without what a histogram adds to its own.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '_');
    let named = words.filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix) && word.len() > prefix.len()));
    named.map(|word| ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word)).collect()
}

/// Families that the program has: the names that stand in quotes in `telemetry`.
fn families() -> BTreeSet<String> {
    let texts = sources().filter(|(path, _)| path.starts_with("telemetry/")).map(|(_, code)| code);
    texts
        .flat_map(|code| {
            code.split('"').skip(1).step_by(2).filter(|text| metrics(text).contains(text)).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// The alerts, with the part of the runbook that each leads to.
fn alerts() -> Vec<(String, String)> {
    let rules = read(&root().join(MONITORING).join("rules.yaml"));
    let after = |start: &str| rules.lines().filter_map(|line| line.trim().strip_prefix(start).map(str::to_owned)).collect::<Vec<_>>();
    let (names, links) = (after("- alert: "), after("runbook_url: docs/runbook.md#"));
    assert!(names.len() == links.len() && !names.is_empty(), "{} alerts and {} links", names.len(), links.len());
    names.into_iter().zip(links).collect()
}

#[test]
fn alerts_and_the_dashboard_look_at_what_there_is() {
    let families = families();
    assert!(families.len() > 60, "{families:?}");
    let mut wrong = Vec::new();
    for file in ["rules.yaml", "dashboard.json"] {
        let text = read(&root().join(MONITORING).join(file));
        wrong.extend(metrics(&text).into_iter().filter(|name| !families.contains(*name)).map(|name| format!("{file}: no metric {name}")));
    }
    none(&wrong);
}

#[test]
fn each_alert_has_its_part_and_its_test() {
    let (page, tests) = (read(&root().join("docs/runbook.md")), read(&root().join("tests/monitoring/rules_test.yaml")));
    let parts: BTreeSet<String> = page.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_lowercase).collect();
    let (mut wrong, mut led_to) = (Vec::new(), BTreeSet::new());
    for (alert, part) in alerts() {
        if !parts.contains(&part) {
            wrong.push(format!("docs/runbook.md has no part {part}"));
        }
        if !page.contains(&alert) {
            wrong.push(format!("docs/runbook.md does not name {alert}"));
        }
        if !tests.contains(&format!("alertname=\"{alert}\"")) {
            wrong.push(format!("no test has {alert} fire"));
        }
        led_to.insert(part);
    }
    wrong.extend(parts.difference(&led_to).map(|part| format!("docs/runbook.md: no alert leads to {part}")));
    none(&wrong);
}
