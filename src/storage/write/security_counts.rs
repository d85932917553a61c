//! The metrics of PodSecurity: what it has found in a write, under kube-apiserver's labels.

use admission::{
    Operation,
    plugins::{SecurityCount, Write},
};
use catalogue::discovery;
use telemetry::{JudgedWrite, PodEvaluation, ResourceMetrics};

/// Counts what PodSecurity has found in a write whose decision holds.
pub(super) fn count(write: &Write<'_>, metrics: &ResourceMetrics, security: &[SecurityCount]) {
    let operation = if write.operation == Operation::Create { "create" } else { "update" };
    let resource = match write.resource {
        "pods" => "pod",
        "namespaces" => "namespace",
        _ => "controller",
    };
    let judged = JudgedWrite { operation, resource, subresource: write.subresource };
    for found in security {
        match *found {
            SecurityCount::Judged { is_denied, level, minor, mode } => {
                let version = match minor {
                    None => "latest".to_owned(),
                    Some(minor) if discovery::MINOR.parse().is_ok_and(|served: u64| minor <= served) => format!("v1.{minor}"),
                    Some(_) => "future".to_owned(),
                };
                metrics.pod_evaluated(judged, PodEvaluation { is_denied, level, version: &version, mode });
            }
            SecurityCount::Exempt => metrics.pod_exempted(judged),
            SecurityCount::Failed { is_fatal } => metrics.pod_not_evaluated(judged, is_fatal),
        }
    }
}
