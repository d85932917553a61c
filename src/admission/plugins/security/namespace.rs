//! Namespaces: their labels must be readable, and who raises the level is warned of the Pods that are there.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::{
    checks::{Pod, evaluate},
    level::{Level, LevelVersion, Levels, PREFIX},
    settings::SecuritySettings,
};
use crate::{
    plugins::write::{Cluster, Denial, Notes, Verdict, Write},
    tree,
};

/// Pods of a namespace that are looked at.
const PODS_MAX: usize = 3_000;

pub(super) fn validate(
    settings: &SecuritySettings,
    write: &Write<'_>,
    namespace: &Value,
    cluster: &dyn Cluster,
    notes: &mut Notes,
) -> Verdict {
    let name = tree::text(namespace, &["metadata", "name"]);
    let (levels, wrong) = Levels::of(namespace, &settings.defaults);
    let Some(old) = write.old else {
        if !wrong.is_empty() {
            return Err(Denial::Invalid(wrong));
        }
        if settings.exempts_namespace(name) {
            notes.warnings.extend(ignored(settings, name, &levels, namespace));
        }
        return Ok(());
    };
    let (old_levels, old_wrong) = Levels::of(old, &settings.defaults);
    if !wrong.is_empty() && wrong != old_wrong {
        return Err(Denial::Invalid(wrong));
    }
    let (new, old) = (levels.enforce, old_levels.enforce);
    if new == old || new.level == Level::Privileged || new.minor == old.minor && new.level <= old.level {
        return Ok(());
    }
    if settings.exempts_namespace(name) {
        notes.warnings.extend(ignored(settings, name, &levels, namespace));
        return Ok(());
    }
    let (mut pods, count) = cluster.pods(name, PODS_MAX);
    let checked = pods.len();
    pods.retain(|pod| !settings.exempts_class(&pod["spec"]));
    notes.warnings.extend(of_pods(name, &new, &pods, (checked, count)));
    Ok(())
}

/// The warning of an exempt namespace that asks for a level, if it does.
fn ignored(settings: &SecuritySettings, name: &str, levels: &Levels, namespace: &Value) -> Option<String> {
    if levels.is_privileged() || *levels == settings.defaults {
        return None;
    }
    let labels = tree::at(namespace, &["metadata", "labels"]);
    let has = |name: String| labels.is_some_and(|labels| labels.get(format!("{PREFIX}{name}")).is_some());
    let modes = [("enforce", &levels.enforce), ("audit", &levels.audit), ("warn", &levels.warn)];
    let said =
        modes.into_iter().filter(|(mode, of)| of.level != Level::Privileged && (has((*mode).to_owned()) || has(format!("{mode}-version"))));
    let said: Vec<String> = said.map(|(mode, of)| format!("{mode}={of}")).collect();
    Some(format!("namespace \"{name}\" is exempt from Pod Security, and the policy ({}) will be ignored", said.join(", ")))
}

/// Warns of Pods that are there and that the new level would refuse.
fn of_pods(namespace: &str, level: &LevelVersion, pods: &[Value], (checked, count): (usize, usize)) -> Vec<String> {
    // By the reasons: the first name, and how many there are.
    let mut found: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for pod in in_turn(pods) {
        let violations = evaluate(level, &Pod { metadata: &pod["metadata"], spec: &pod["spec"] });
        if !violations.is_empty() {
            let name = tree::text(pod, &["metadata", "name"]);
            let known = found.entry(violations.reasons()).or_insert((name, 0));
            *known = (known.0.min(name), known.1 + 1);
        }
    }
    let mut warnings = Vec::new();
    if checked < count {
        warnings.push(format!("new PodSecurity enforce level only checked against the first {checked} of {count} existing pods"));
    }
    if !found.is_empty() {
        warnings.push(format!("existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{level}\""));
    }
    let mut named: Vec<String> = found
        .into_iter()
        .map(|(reasons, (name, count))| match count {
            1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            _ => format!("{name} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    named.sort_unstable();
    warnings.extend(named);
    warnings
}

/// Pods in the order in which they are looked at: first one of each controller.
fn in_turn(pods: &[Value]) -> Vec<&Value> {
    let mut seen = HashSet::new();
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for pod in pods {
        let controller = tree::items(pod, &["metadata", "ownerReferences"]).find(|owner| owner["controller"] == true);
        match controller {
            Some(owner) if !seen.insert(tree::text(owner, &["uid"])) => later.push(pod),
            _ => first.push(pod),
        }
    }
    first.extend(later);
    first
}
