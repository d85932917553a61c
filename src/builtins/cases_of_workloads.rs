//! Objects of Kubernetes' own controllers and of the cluster that kube-apiserver 1.36.3 has judged (`testdata/*.jsonl`). A line with `base` is an object from
//! which the lines after it differ: `new` and `old` are merge patches of it. Go looks at maps in any order, so the order of some errors does not count.

use std::{env, fmt::Write as _, fs};

use serde_json::{Map, Value};

use crate::{
    FieldError, autoscaler, cluster, cron_job, daemon_set, data, disruption_budget, event, job, limit_range, node, replicas,
    resource_quota, stateful_set,
};

type Create = fn(&Value) -> Vec<FieldError>;
type Update = fn(&Value, &Value) -> Vec<FieldError>;

/// A kind, and what judges a new object, a changed one, a changed status and another part.
struct Kind(&'static str, Create, Update, Option<Update>, Option<Update>);

fn kinds() -> Vec<Kind> {
    vec![
        Kind("ConfigMap", data::create_config_map, data::update_config_map, None, None),
        Kind("Secret", data::create_secret, data::update_secret, None, None),
        Kind(
            "Namespace",
            cluster::create_namespace,
            cluster::update_namespace,
            Some(cluster::update_namespace_status),
            Some(cluster::finalize_namespace),
        ),
        Kind("Lease", cluster::create_lease, cluster::update_lease, None, None),
        Kind("PriorityClass", cluster::create_priority_class, cluster::update_priority_class, None, None),
        Kind("ControllerRevision", cluster::create_controller_revision, cluster::update_controller_revision, None, None),
        Kind("Deployment", replicas::create_deployment, replicas::update_deployment, Some(replicas::update_deployment_status), None),
        Kind("ReplicaSet", replicas::create_replica_set, replicas::update_replica_set, Some(replicas::update_replica_set_status), None),
        Kind(
            "ReplicationController",
            replicas::create_replication_controller,
            replicas::update_replication_controller,
            Some(replicas::update_replication_controller_status),
            None,
        ),
        Kind("StatefulSet", stateful_set::create, stateful_set::update, Some(stateful_set::update_status), None),
        Kind("DaemonSet", daemon_set::create, daemon_set::update, Some(daemon_set::update_status), None),
        Kind("Job", job::create, job::update, Some(job::update_status), None),
        Kind("CronJob", cron_job::create, cron_job::update, None, None),
        Kind("HorizontalPodAutoscaler", autoscaler::create, autoscaler::update, Some(autoscaler::update_status), None),
        Kind("PodDisruptionBudget", disruption_budget::create, disruption_budget::update, Some(disruption_budget::update_status), None),
        Kind("LimitRange", limit_range::create, limit_range::update, None, None),
        Kind("ResourceQuota", resource_quota::create, resource_quota::update, Some(resource_quota::update_status), None),
        Kind("Node", node::create, node::update, Some(node::update_status), None),
        Kind(
            "Event",
            |new| event::create(new, event::Version::Core),
            |old, new| event::update(old, new, event::Version::Core),
            Some(|old, new| event::update(old, new, event::Version::Events)),
            Some(|_, new| event::create(new, event::Version::Events)),
        ),
    ]
}

/// Applies a merge patch.
fn patched(value: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut members = value.as_object().cloned().unwrap_or_else(Map::new);
    for (name, change) in patch {
        if change.is_null() {
            members.remove(name);
        } else {
            let member = patched(members.get(name).unwrap_or(&Value::Null), change);
            members.insert(name.clone(), member);
        }
    }
    members.into()
}

fn judged(kind: &Kind, case: &Value, base: &Value) -> Vec<String> {
    let new = patched(base, &case["new"]);
    let old = case.get("old").map(|old| patched(base, old));
    let errors = match (case["part"].as_str(), &old) {
        (Some("status"), Some(old)) => kind.3.map(|judge| judge(old, &new)),
        (Some("extra"), Some(old)) => kind.4.map(|judge| judge(old, &new)),
        (_, Some(old)) => Some((kind.2)(old, &new)),
        (_, None) => Some((kind.1)(&new)),
    };
    errors.into_iter().flatten().map(|error| format!("{}: {}", error.field, error.message)).collect()
}

/// Bytes of the report on the cases of one base that are judged otherwise.
const REPORT_BYTES_MAX: usize = 6_000;

/// Judges all cases of a text; returns how many there are.
fn check(text: &str) -> usize {
    let (mut count, mut wrong, mut report, mut base, kinds) = (0, 0, String::new(), Value::Null, kinds());
    let mut room = 0;
    for line in text.lines() {
        let mut case: Value = serde_json::from_str(line).expect("a case is JSON");
        if case.get("base").is_some() {
            base = case["base"].take();
            room = report.len() + REPORT_BYTES_MAX;
            continue;
        }
        let Some(kind) = kinds.iter().find(|kind| base["kind"] == kind.0) else { panic!("of no kind: {base}") };
        let mut want: Vec<String> = serde_json::from_value(case["errors"].clone()).expect("errors are texts");
        let mut found = judged(kind, &case, &base);
        if case.get("unordered").is_some() {
            found.sort();
            want.sort();
        }
        count += 1;
        if found != want {
            wrong += 1;
            if report.len() < room {
                let _ = writeln!(report, "{} {line}\n found {found:#?}\n want {want:#?}", kind.0);
            }
        }
    }
    assert!(wrong == 0, "{wrong} of {count}: {report}");
    count
}

#[test]
fn objects_are_judged_as_kube_apiserver_judges_them() {
    assert!(check(include_str!("testdata/workloads.jsonl")) > 900);
}

/// More cases, from the file that this variable names.
#[test]
fn objects_of_a_file() {
    if let Ok(file) = env::var("WORKLOAD_CASES") {
        assert!(check(&fs::read_to_string(file).expect("the file is there")) > 0);
    }
}
