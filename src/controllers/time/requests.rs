//! Deletes CertificateSigningRequests that are old: kube-controller-manager's certificatesigningrequest-cleaner-controller, which looks every hour.

use std::sync::Arc;

use auth::authn::not_after;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use time::{Duration, OffsetDateTime};

use super::{super::Controllers, Rule, conditions, moment};

/// How long one is kept that was approved and issued, denied, or has failed.
const DONE: Duration = Duration::hours(1);
/// How long one is kept that nobody has answered, or that was approved and not issued.
const PENDING: Duration = Duration::hours(24);

const RULE: Rule = Rule { deadline, propagation: None };

pub(in super::super) async fn run(controllers: Arc<Controllers>) {
    let Some(requests) = controllers.built_in("certificates.k8s.io", "certificatesigningrequests") else { return };
    super::run(&controllers, &requests, &RULE).await;
}

fn deadline(request: &Value) -> Option<OffsetDateTime> {
    let certificate = request.pointer("/status/certificate").and_then(Value::as_str).filter(|text| !text.is_empty());
    if conditions(request).next().is_none() {
        return moment(&request["metadata"]["creationTimestamp"])?.checked_add(PENDING);
    }
    let of_condition = |condition: &Value| {
        let life = match condition["type"].as_str()? {
            "Approved" if certificate.is_none() => PENDING,
            "Approved" | "Denied" | "Failed" => DONE,
            _ => return None,
        };
        moment(&condition["lastUpdateTime"])?.checked_add(life)
    };
    let is_approved = conditions(request).any(|condition| condition["type"] == "Approved");
    let expires = certificate.filter(|_| is_approved).and_then(|text| not_after(&BASE64_STANDARD.decode(text).ok()?));
    let expires = expires.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    conditions(request).filter_map(of_condition).chain(expires).min()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_state_has_its_time() {
        let request = |kind: Option<&str>, certificate: &str| {
            let conditions: Vec<Value> = kind.iter().map(|kind| json!({"type": kind, "lastUpdateTime": "2026-01-02T00:00:00Z"})).collect();
            let status = json!({"conditions": conditions, "certificate": certificate});
            deadline(&json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "status": status}))
        };
        let at = |text: &str| moment(&json!(text));
        assert_eq!(request(None, ""), at("2026-01-02T00:00:00Z"));
        assert_eq!(request(Some("Approved"), ""), at("2026-01-03T00:00:00Z"));
        let issued = BASE64_STANDARD.encode("no certificate");
        assert_eq!(request(Some("Approved"), &issued), at("2026-01-02T01:00:00Z"));
        assert_eq!((request(Some("Denied"), ""), request(Some("Failed"), "")), (at("2026-01-02T01:00:00Z"), at("2026-01-02T01:00:00Z")));
        assert_eq!(request(Some("Other"), ""), None);
    }
}
