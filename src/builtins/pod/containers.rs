//! The containers of a Pod: those that run, those that run before, and those that are added to look inside.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Scope, env, mounts, ports, probes, resources, restart, security, sources::pull_policy};
use crate::{at::At, causes::Causes, meta};

/// `validateContainers`.
pub(super) fn containers(at: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    if at.len() == 0 {
        return causes.required(at, "");
    }
    let mut taken = HashSet::new();
    for container in at.items() {
        common(&container, scope, causes);
        let name = container.member("name");
        if !taken.insert(name.text()) {
            causes.duplicate(&name.with(&name.text().into()));
        }
        hooks_and_probes(&container, scope, causes);
        restart::policy(&container, causes);
    }
    ports::host_port_conflicts(at.items(), causes);
}

fn hooks_and_probes(container: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    let lifecycle = container.member("lifecycle");
    if lifecycle.is_present() {
        probes::lifecycle(&lifecycle, scope.grace, scope.system, causes);
    }
    probes::probes(container, scope.grace, causes);
}

/// `validateInitContainers`; `regular` are the containers that run after these.
pub(super) fn init_containers(at: &At<'_, '_>, regular: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    let others: Vec<&str> = regular.items().map(|container| container.member("name").text()).collect();
    let mut taken: HashSet<&str> = others.into_iter().collect();
    for container in at.items() {
        common(&container, scope, causes);
        restart::init_policy(&container, causes);
        let name = container.member("name");
        if taken.contains(name.text()) {
            causes.duplicate(&name.with(&name.text().into()));
        } else if !name.text().is_empty() {
            taken.insert(name.text());
        }
        // Go judges the ports of each by itself, at the path of the first.
        ports::host_port_conflicts(std::iter::once(at.item(0).with(container.value())), causes);
        let restarts = container.member("restartPolicy").text() == "Always";
        if restarts {
            hooks_and_probes(&container, scope, causes);
        } else {
            for member in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.member(member).is_present() {
                    causes.forbidden(&container.member(member), "may not be set for init containers without restartPolicy=Always");
                }
            }
        }
        if !restarts && !scope.options.any_init_resize {
            init_resize(&container, causes);
        }
    }
}

/// A container that ends cannot be started again by a resize.
fn init_resize(container: &At<'_, '_>, causes: &mut Causes) {
    for policy in container.member("resizePolicy").items() {
        let restart = policy.member("restartPolicy");
        if restart.text() == "RestartContainer" {
            causes.invalid(&restart, "must not be set to 'RestartContainer' for non-sidecar initContainers");
        }
    }
}

/// Members that a container that is added to look inside cannot have, in the order of Go's fields.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// `validateEphemeralContainers`.
pub(super) fn ephemeral_containers(spec: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let at = spec.member("ephemeralContainers");
    let (regular, init) = (spec.member("containers"), spec.member("initContainers"));
    let targets: HashSet<&str> = regular.items().map(|it| it.value()).chain(init.items().map(|it| it.value())).map(name_of).collect();
    let mut taken = targets.clone();
    for container in at.items() {
        common(&container, scope, causes);
        image_without_spaces(&container, causes);
        let (name, target) = (container.member("name"), container.member("targetContainerName"));
        if !taken.insert(name.text()) {
            causes.duplicate(&name.with(&name.text().into()));
        }
        if !target.text().is_empty() && !targets.contains(target.text()) {
            causes.not_found(&target);
        }
        for name in NOT_EPHEMERAL {
            let member = container.member(name);
            // All but resources are lists or pointers.
            let is_set = if name == "resources" || member.value().is_array() { member.len() > 0 } else { member.is_present() };
            if is_set {
                causes.forbidden(&member, WHY);
            }
        }
        for mount in container.member("volumeMounts").items() {
            for member in ["subPath", "subPathExpr"] {
                if !mount.member(member).text().is_empty() {
                    causes.forbidden(&mount.member(member), WHY);
                }
            }
        }
    }
}

fn name_of(container: &Value) -> &str {
    container["name"].as_str().unwrap_or_default()
}

/// What all kinds of containers have (`validateContainerCommon`).
fn common(at: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    const POLICIES: [&str; 2] = ["File", "FallbackToLogsOnError"];
    if meta::present(&at.member("name"), "", causes) {
        meta::label(&at.member("name"), causes);
    }
    meta::present(&at.member("image"), "", causes);
    let policy = at.member("terminationMessagePolicy");
    if meta::present(&policy, "", causes) && !POLICIES.contains(&policy.text()) {
        causes.not_supported(&policy, &POLICIES);
    }
    ports::ports(&at.member("ports"), causes);
    env::variables(&at.member("env"), causes);
    env::sources(&at.member("envFrom"), causes);
    mounts::mounts(at, scope, causes);
    mounts::devices(at, scope, causes);
    pull_policy(&at.member("imagePullPolicy"), causes);
    resources::of_container(&at.member("resources"), scope, causes);
    restart::resize_policies(&at.member("resizePolicy"), scope.restart_policy, causes);
    security::of_container(&at.member("securityContext"), scope.host_users, causes);
}

/// The image of a container of a Pod, which templates do not care about (`validateContainerOnlyForPod`).
pub(super) fn image_without_spaces(container: &At<'_, '_>, causes: &mut Causes) {
    let image = container.member("image");
    if image.text().trim().len() != image.text().len() {
        causes.invalid(&image, "must not have leading or trailing whitespace");
    }
}

/// All containers with their paths, in the order of `VisitContainersWithPath`.
pub(super) fn each(spec: &At<'_, '_>, mut visit: impl FnMut(&At<'_, '_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        spec.member(list).items().for_each(|container| visit(&container));
    }
}

/// Variables from files need a volume that is empty at first (`validateFileKeyRefVolumes`).
pub(super) fn file_variables(spec: &At<'_, '_>, causes: &mut Causes) {
    let volumes = spec.member("volumes");
    let sources: HashMap<&str, &Value> = volumes.items().map(|it| (name_of(it.value()), it.value())).collect();
    each(spec, |container| {
        for variable in container.member("env").items() {
            let from = variable.member("valueFrom");
            let reference = from.member("fileKeyRef");
            if reference.is_absent() {
                continue;
            }
            let volume = reference.member("volumeName");
            match sources.get(volume.text()) {
                None => causes.not_found(&volume.with(&volume.text().into())),
                Some(source) if source["emptyDir"].is_null() => causes.invalid_text(&volume, "referenced volume must be of type emptyDir"),
                Some(_) => {}
            }
        }
    });
}
