//! The rules of the levels: which counts from which minor on, and what they say together.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use super::{
    baseline as base,
    level::{Level, LevelVersion},
    restricted as strict,
};
use crate::tree;

/// What is judged: a Pod, or a template of Pods.
pub(super) struct Pod<'a> {
    pub(super) metadata: &'a Value,
    pub(super) spec: &'a Value,
}

/// What a rule finds.
pub(super) struct Violation {
    pub(super) reason: String,
    pub(super) detail: String,
}

impl Violation {
    pub(super) fn new(reason: impl Into<String>, detail: impl Into<String>) -> Option<Self> {
        Some(Self { reason: reason.into(), detail: detail.into() })
    }
}

type Rule = fn(&Pod<'_>) -> Option<Violation>;

/// A rule by its name, with the minors from which on it is this one.
struct Check {
    versions: &'static [(u64, Rule)],
    /// From this minor on a rule of the restricted level stands for it there.
    replaced_from: u64,
}

const fn check(versions: &'static [(u64, Rule)]) -> Check {
    Check { versions, replaced_from: u64::MAX }
}

/// The newest minor that has a rule of its own.
const NEWEST: u64 = 35;

/// The rules of the baseline level, in the order of their names in kube-apiserver.
static BASELINE: [Check; 12] = [
    check(&[(0, base::app_armor)]),
    Check { versions: &[(0, base::capabilities)], replaced_from: 22 },
    check(&[(0, base::host_namespaces)]),
    Check { versions: &[(0, base::host_paths)], replaced_from: 0 },
    check(&[(0, base::host_ports)]),
    check(&[(34, base::hosts)]),
    check(&[(0, base::privileged)]),
    Check { versions: &[(0, base::proc_mount), (35, base::proc_mount_of_host)], replaced_from: 35 },
    check(&[(0, base::se_linux), (31, base::se_linux_1_31)]),
    Check { versions: &[(0, base::seccomp_annotations), (19, base::seccomp)], replaced_from: 19 },
    check(&[(0, base::sysctls), (27, base::sysctls_1_27), (29, base::sysctls_1_29), (32, base::sysctls_1_32)]),
    check(&[(0, base::windows_host_process)]),
];

/// The rules that the restricted level has besides.
static RESTRICTED: [Check; 7] = [
    check(&[(8, strict::privilege_escalation), (25, strict::privilege_escalation_1_25)]),
    check(&[(22, strict::capabilities), (25, strict::capabilities_1_25)]),
    check(&[(35, base::proc_mount)]),
    check(&[(0, strict::volumes)]),
    check(&[(0, strict::non_root), (35, strict::non_root_of_host)]),
    check(&[(23, strict::user), (35, strict::user_of_host)]),
    check(&[(19, strict::seccomp), (25, strict::seccomp_1_25)]),
];

/// What all rules of a level have found.
pub(super) struct Violations(Vec<Violation>);

impl Violations {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reasons alone.
    pub(super) fn reasons(&self) -> String {
        self.0.iter().map(|found| found.reason.as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Violation { reason, detail }) in self.0.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { "" })?;
            f.write_str(reason)?;
            if !detail.is_empty() {
                write!(f, " ({detail})")?;
            }
        }
        Ok(())
    }
}

/// Judges a Pod by the rules of a level.
pub(super) fn evaluate(by: &LevelVersion, pod: &Pod<'_>) -> Violations {
    if by.level == Level::Privileged {
        return Violations(Vec::new());
    }
    let minor = by.minor.unwrap_or(NEWEST).min(NEWEST);
    let is_strict = by.level == Level::Restricted;
    let baseline = BASELINE.iter().filter(|check| !is_strict || minor < check.replaced_from);
    let rules = baseline.chain(RESTRICTED.iter().filter(|_| is_strict));
    let current = rules.filter_map(|check| check.versions.iter().rev().find(|(from, _)| *from <= minor));
    Violations(current.filter_map(|(_, rule)| rule(pod)).collect())
}

/// All containers of a Pod.
pub(super) fn containers<'v>(pod: &Pod<'v>) -> impl Iterator<Item = &'v Value> + use<'v> {
    let spec = pod.spec;
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |list| tree::items(spec, &[list]))
}

/// The value at a path of a security context.
pub(super) fn context<'v>(of: &'v Value, path: &[&str]) -> Option<&'v Value> {
    tree::at(of, &["securityContext"]).and_then(|context| tree::at(context, path))
}

/// The names of the containers of which this is true.
pub(super) fn bad<'v>(pod: &Pod<'v>, is_bad: impl Fn(&'v Value) -> bool) -> Vec<&'v str> {
    containers(pod).filter(|container| is_bad(container)).map(|container| tree::text(container, &["name"])).collect()
}

pub(super) fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// `"a", "b"`.
pub(super) fn quoted<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    texts.into_iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(", ")
}

/// `container "a"`, `containers "a", "b"`.
pub(super) fn named(containers: &[&str]) -> String {
    format!("{} {}", plural(containers.len(), "container", "containers"), quoted(containers.iter().copied()))
}

/// `pod and container "a"`; none where nobody sets it.
pub(super) fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    let of_pod = pod.then(|| "pod".to_owned());
    let all: Vec<String> = of_pod.into_iter().chain((!containers.is_empty()).then(|| named(containers))).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

/// Whether a member of a Pod and of which containers are wrong, with the wrong values.
pub(super) fn wrong_values<'v>(pod: &Pod<'v>, path: &[&str], is_wrong: impl Fn(&str) -> bool) -> (bool, Vec<&'v str>, BTreeSet<&'v str>) {
    let mut values = BTreeSet::new();
    let mut note = |of: &'v Value| {
        let found = context(of, path).map(|value| value.as_str().unwrap_or_default()).filter(|value| is_wrong(value));
        values.extend(found);
        found.is_some()
    };
    let of_pod = note(pod.spec);
    let named = containers(pod).filter(|container| note(container)).map(|container| tree::text(container, &["name"])).collect();
    (of_pod, named, values)
}
