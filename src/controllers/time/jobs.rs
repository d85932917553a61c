//! Deletes finished Jobs after `spec.ttlSecondsAfterFinished`: kube-controller-manager's ttl-after-finished-controller.

use std::sync::Arc;

use serde_json::Value;
use time::{Duration, OffsetDateTime};

use super::{super::Controllers, Rule, conditions, moment};
use storage::write::options::Propagation;

const RULE: Rule = Rule { deadline, propagation: Some(Propagation::Foreground) };

pub(in super::super) async fn run(controllers: Arc<Controllers>) {
    let Some(jobs) = controllers.built_in("batch", "jobs") else { return };
    super::run(&controllers, &jobs, &RULE).await;
}

fn deadline(job: &Value) -> Option<OffsetDateTime> {
    let ttl = job.pointer("/spec/ttlSecondsAfterFinished").and_then(Value::as_i64)?;
    let is_end = |condition: &&Value| matches!(condition["type"].as_str(), Some("Complete" | "Failed")) && condition["status"] == "True";
    let finished = conditions(job).find(is_end)?;
    moment(&finished["lastTransitionTime"])?.checked_add(Duration::seconds(ttl))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_finished_job_with_a_time_has_an_end() {
        let job = |ttl: Value, kind: &str, status: &str| {
            let condition = json!({"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            deadline(&json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [condition]}}))
        };
        let end = moment(&json!("2026-01-01T00:01:40Z"));
        assert_eq!((job(json!(100), "Complete", "True"), job(json!(100), "Failed", "True")), (end, end));
        assert_eq!(
            (job(json!(100), "Complete", "False"), job(json!(100), "Suspended", "True"), job(Value::Null, "Failed", "True")),
            (None, None, None)
        );
        assert_eq!(job(json!(i64::MAX), "Complete", "True"), None, "past the end of the calendar");
    }
}
