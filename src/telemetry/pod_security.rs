//! Metrics of the admission plugin PodSecurity, as kube-apiserver has them.

use prometheus::IntCounterVec;

use super::{Catalogue, ResourceMetrics};

#[derive(Debug)]
pub(super) struct PodSecurity {
    evaluations: IntCounterVec,
    exemptions: IntCounterVec,
    errors: IntCounterVec,
}

/// A write that is judged.
#[derive(Clone, Copy, Debug)]
pub struct JudgedWrite<'a> {
    /// `create` or `update`.
    pub operation: &'a str,
    /// `pod`, `namespace` or `controller`.
    pub resource: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
}

/// A Pod that was judged by a level.
#[derive(Clone, Copy, Debug)]
pub struct PodEvaluation<'a> {
    /// The Pod breaks the level.
    pub is_denied: bool,
    /// The level.
    pub level: &'a str,
    /// The version of its rules: `latest`, one as `v1.30`, or `future`.
    pub version: &'a str,
    /// `enforce`, `audit` or `warn`.
    pub mode: &'a str,
}

impl PodSecurity {
    pub(super) fn new(catalogue: &Catalogue<'_>) -> Self {
        let made = Self {
            evaluations: catalogue.counter(
                "pod_security_evaluations_total",
                "Number of policy evaluations that occurred, not counting ignored or exempt requests.",
                &["decision", "policy_level", "policy_version", "mode", "request_operation", "resource", "subresource"],
            ),
            exemptions: catalogue.counter(
                "pod_security_exemptions_total",
                "Number of exempt requests, not counting ignored or out of scope requests.",
                &["request_operation", "resource", "subresource"],
            ),
            errors: catalogue.counter(
                "pod_security_errors_total",
                "Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted profile being used for evaluation.",
                &["fatal", "request_operation", "resource", "subresource"],
            ),
        };
        // As there: what is counted most often is 0 before it is counted.
        for operation in ["create", "update"] {
            drop(made.evaluations.with_label_values(&["allow", "privileged", "latest", "enforce", operation, "pod", ""]));
            for resource in ["pod", "controller"] {
                drop(made.exemptions.with_label_values(&[operation, resource, ""]));
            }
        }
        made
    }
}

impl ResourceMetrics {
    /// Counts a Pod, or a template of Pods, that was judged.
    pub fn pod_evaluated(&self, write: JudgedWrite<'_>, evaluation: PodEvaluation<'_>) {
        let PodEvaluation { is_denied, level, version, mode } = evaluation;
        let decision = if is_denied { "deny" } else { "allow" };
        let labels = [decision, level, version, mode, write.operation, write.resource, write.subresource];
        self.all().pod_security.evaluations.with_label_values(&labels).inc();
    }

    /// Counts a write that is exempt.
    pub fn pod_exempted(&self, write: JudgedWrite<'_>) {
        self.all().pod_security.exemptions.with_label_values(&[write.operation, write.resource, write.subresource]).inc();
    }

    /// Counts a write that could not be judged as it should; `is_fatal`: not at all.
    pub fn pod_not_evaluated(&self, write: JudgedWrite<'_>, is_fatal: bool) {
        let fatal = if is_fatal { "true" } else { "false" };
        self.all().pod_security.errors.with_label_values(&[fatal, write.operation, write.resource, write.subresource]).inc();
    }
}
