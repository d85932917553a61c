//! Opens the audit log that the flags ask for.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::config;
use audit::{Audit, Counters, Policy, start_log, start_webhook};
use client::Logins;
use go::yaml::reader;
use telemetry::Metrics;

/// The audit log, if there is to be one.
///
/// # Errors
/// One line: the policy or the kubeconfig file cannot be read, or the log cannot be written.
pub(super) fn open(config: Option<&config::Audit>, logins: &Logins, metrics: &Metrics) -> Result<Option<Arc<Audit>>, String> {
    let Some(config) = config else { return Ok(None) };
    let policy = policy(&config.policy_file).map_err(|why| format!("loading audit policy file: {why}"))?;
    let counters = Counters {
        events: metrics.audit_events.clone(),
        errors: metrics.audit_errors.clone(),
        levels: metrics.audit_levels.clone(),
        rejected: metrics.audit_rejected.clone(),
    };
    let mut queues = Vec::new();
    if let Some(log) = &config.log {
        let path = log.path.as_deref().unwrap_or(Path::new("-")).display();
        queues.push(start_log(log, &counters).map_err(|error| format!("--audit-log-path {path}: {error}"))?);
        tracing::info!(policy = %config.policy_file.display(), log = %path, "auditing requests");
    }
    if let Some((file, webhook)) = &config.webhook {
        let flag = "--audit-webhook-config-file";
        let server = logins.open(flag, file).map_err(|error| error.to_string())?;
        queues.push(start_webhook(webhook, &server, &counters).map_err(|why| format!("{flag} {}: {why}", file.display()))?);
        tracing::info!(policy = %config.policy_file.display(), webhook = %server.url(""), "auditing requests");
    }
    Ok(Some(Arc::new(Audit::new(policy, queues, counters))))
}

fn policy(file: &Path) -> Result<Policy, String> {
    let name = file.display();
    let bytes = fs::read(file).map_err(|error| format!("failed to read file path \"{name}\": {error}"))?;
    let (policy, unknown) = reader::parse(&bytes)
        .map_err(|why| format!("failed decoding: {why}"))
        .and_then(|document| Policy::read(&document.value))
        .map_err(|why| format!("{why}: from file {name}"))?;
    if !unknown.is_empty() {
        let unknown: Vec<String> = unknown.iter().map(|field| format!("unknown field {field:?}")).collect();
        tracing::warn!("the audit policy has fields that mean nothing: {}", unknown.join(", "));
    }
    Ok(policy)
}
