//! PodSecurity: Pods keep to the level that the labels of their namespace ask for; who writes a template of such Pods is warned.

mod baseline;
mod checks;
mod level;
mod namespace;
mod restricted;
mod settings;

use serde_json::Value;

use super::write::{Cluster, Denial, Lookup, Notes, SecurityCount, Verdict, Write};
use crate::{Operation, tree};
use checks::{Pod, Violations};
use level::Level;
use level::Levels;
pub use settings::SecuritySettings;

/// The annotations of the audit log: the level that was enforced, what breaks the level that is only audited, labels that cannot be read.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce-policy";
const VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";

/// The annotation about a write that is not judged, and why it is not.
const EXEMPT: &str = "pod-security.kubernetes.io/exempt";

pub(super) fn validate(
    settings: &SecuritySettings,
    write: &Write<'_>,
    object: &Value,
    cluster: &dyn Cluster,
    notes: &mut Notes,
) -> Verdict {
    if write.operation == Operation::Delete {
        return Ok(());
    }
    match (write.group, write.resource, write.subresource) {
        ("", "namespaces", "") => namespace::validate(settings, write, object, cluster, notes),
        ("", "pods", "" | "ephemeralcontainers" | "resize") => pod(settings, write, object, cluster, notes),
        (_, _, "") => {
            template(settings, write, object, cluster, notes);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Whether the Pods of a namespace, or those that a user writes, are not judged.
fn is_exempt(settings: &SecuritySettings, write: &Write<'_>, notes: &mut Notes) -> bool {
    let why = match write {
        _ if settings.exempts_namespace(write.namespace) => "namespace",
        _ if settings.exempts_user(write.user) => "user",
        _ => return false,
    };
    notes.annotate(EXEMPT, why.to_owned());
    notes.security.push(SecurityCount::Exempt);
    true
}

/// Whether Pods of this class are not judged.
fn has_exempt_class(settings: &SecuritySettings, spec: &Value, notes: &mut Notes) -> bool {
    let is_exempt = settings.exempts_class(spec);
    if is_exempt {
        notes.annotate(EXEMPT, "runtimeClass".to_owned());
        notes.security.push(SecurityCount::Exempt);
    }
    is_exempt
}

fn pod(settings: &SecuritySettings, write: &Write<'_>, pod: &Value, cluster: &dyn Cluster, notes: &mut Notes) -> Verdict {
    if is_exempt(settings, write, notes) {
        return Ok(());
    }
    let Some(namespace) = cluster.find(Lookup::Namespace, "", write.namespace) else {
        notes.security.push(SecurityCount::Failed { is_fatal: true });
        return Err(format!("failed to lookup namespace \"{}\"", write.namespace).into());
    };
    let (levels, wrong) = Levels::of(&namespace, &settings.defaults);
    if wrong.is_empty() && levels.is_privileged() {
        notes.annotate(ENFORCED, "privileged:latest".to_owned());
        notes.security.push(judged_by(&levels.enforce, "enforce", false));
        return Ok(());
    }
    if write.old.is_some_and(|old| !is_significant(pod, old)) {
        return Ok(());
    }
    if has_exempt_class(settings, &pod["spec"], notes) {
        return Ok(());
    }
    notes.unread(&wrong);
    notes.annotate(ENFORCED, levels.enforce.to_string());
    let judged = Pod { metadata: &pod["metadata"], spec: &pod["spec"] };
    let enforced = checks::evaluate(&levels.enforce, &judged);
    let is_denied = !enforced.is_empty();
    notes.security.push(judged_by(&levels.enforce, "enforce", is_denied));
    let denial = format!("violates PodSecurity \"{}\": {enforced}", levels.enforce);
    warn(&levels, &judged, Some(enforced), notes, !is_denied);
    if is_denied { Err(Denial::Forbidden { why: denial, cause: None, as_requested: true }) } else { Ok(()) }
}

/// What is counted of a Pod that was judged.
fn judged_by(by: &level::LevelVersion, mode: &'static str, is_denied: bool) -> SecurityCount {
    // The lowest level is the same in each version.
    let minor = by.minor.filter(|_| by.level != Level::Privileged);
    SecurityCount::Judged { is_denied, level: by.level.name(), minor, mode }
}

/// Warns of Pods that a template would make.
fn template(settings: &SecuritySettings, write: &Write<'_>, object: &Value, cluster: &dyn Cluster, notes: &mut Notes) {
    let path: &[&str] = match (write.group, write.resource) {
        ("", "podtemplates") => &["template"],
        ("", "replicationcontrollers") | ("apps", "replicasets" | "deployments" | "daemonsets" | "statefulsets") | ("batch", "jobs") => {
            &["spec", "template"]
        }
        ("batch", "cronjobs") => &["spec", "jobTemplate", "spec", "template"],
        _ => return,
    };
    if is_exempt(settings, write, notes) {
        return;
    }
    let Some(namespace) = cluster.find(Lookup::Namespace, "", write.namespace) else {
        notes.security.push(SecurityCount::Failed { is_fatal: true });
        return;
    };
    let (levels, wrong) = Levels::of(&namespace, &settings.defaults);
    if wrong.is_empty() && levels.warn.level == Level::Privileged && levels.audit.level == Level::Privileged {
        return;
    }
    let Some(template) = tree::at(object, path) else { return };
    if has_exempt_class(settings, &template["spec"], notes) {
        return;
    }
    notes.unread(&wrong);
    warn(&levels, &Pod { metadata: &template["metadata"], spec: &template["spec"] }, None, notes, true);
}

/// Notes what the levels that only audit and warn say.
fn warn(levels: &Levels, pod: &Pod<'_>, enforced: Option<Violations>, notes: &mut Notes, warns: bool) {
    let mut known: Vec<(&level::LevelVersion, Violations)> = enforced.map(|found| (&levels.enforce, found)).into_iter().collect();
    let mut judged = |of| match known.iter().position(|(level, _)| *level == of) {
        Some(at) => known[at].1.to_string(),
        None => {
            let found = checks::evaluate(of, pod);
            let text = found.to_string();
            known.push((of, found));
            text
        }
    };
    let audited = judged(&levels.audit);
    if !audited.is_empty() {
        notes.security.push(judged_by(&levels.audit, "audit", true));
        notes.annotate(VIOLATIONS, format!("would violate PodSecurity \"{}\": {audited}", levels.audit));
    }
    let warned = if warns { judged(&levels.warn) } else { String::new() };
    if !warned.is_empty() {
        notes.security.push(judged_by(&levels.warn, "warn", true));
        notes.warnings.push(format!("would violate PodSecurity \"{}\": {warned}", levels.warn));
    }
}

/// Whether an update of a Pod is judged: other containers, or other images.
fn is_significant(pod: &Value, old: &Value) -> bool {
    let list =
        |of: &'_ Value, name: &str| tree::items(of, &["spec", name]).map(|container| image(container).to_owned()).collect::<Vec<_>>();
    if ["containers", "initContainers"].iter().any(|name| list(pod, name) != list(old, name)) {
        return true;
    }
    let mut known = std::collections::HashMap::new();
    for container in tree::items(old, &["spec", "ephemeralContainers"]) {
        known.entry(tree::text(container, &["name"])).or_insert(image(container));
    }
    let mut added = tree::items(pod, &["spec", "ephemeralContainers"]);
    added.any(|container| known.get(tree::text(container, &["name"])) != Some(&image(container)))
}

fn image(container: &Value) -> &str {
    tree::text(container, &["image"])
}

#[cfg(test)]
mod tests;
