//! The spec of a Pod, in the order in which kube-apiserver judges its parts (`ValidatePodSpec`).

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::{Options, affinity, containers, dns, ports, profiles, resources, security, tolerations, volumes, windows};
use crate::{
    at::At,
    causes::Causes,
    labels::{label_key, labels},
    meta, names,
};

/// What parts of a Pod must know of the rest.
#[derive(Debug)]
pub(super) struct Scope<'v> {
    pub(super) options: Options,
    /// Volumes that are right, by name.
    pub(super) volumes: HashMap<&'v str, &'v Value>,
    /// Names of the Pod's claims.
    pub(super) claims: BTreeSet<&'v str>,
    /// Seconds that a Pod has to end.
    pub(super) grace: Option<i64>,
    /// The name of the operating system, if one is named.
    pub(super) system: Option<&'v str>,
    pub(super) restart_policy: &'v str,
    /// Whether the users of the Pod are those of its host.
    pub(super) host_users: bool,
    /// The metadata of a Pod; a template has none here.
    metadata: Option<&'v Value>,
}

impl<'v> Scope<'v> {
    fn of(spec: &At<'_, 'v>, metadata: Option<&'v Value>, options: &Options) -> Self {
        let claims = spec.member("resourceClaims");
        let system = spec.member("os");
        Self {
            options: options.clone(),
            volumes: HashMap::new(),
            claims: claims
                .items()
                .map(|claim| claim.value()["name"].as_str().unwrap_or_default())
                .filter(|name| !name.is_empty())
                .collect(),
            grace: spec.member("terminationGracePeriodSeconds").some_integer(),
            system: system.is_present().then(|| system.member("name").text()),
            restart_policy: spec.member("restartPolicy").text(),
            host_users: spec.member("hostUsers").value() != &Value::Bool(false),
            metadata,
        }
    }

    /// The name of the Pod, if it has one.
    pub(super) fn pod_name(&self) -> Option<&'v str> {
        self.metadata?.get("name")?.as_str().filter(|name| !name.is_empty())
    }
}

/// `ValidatePodSpec`; `metadata` is that of a Pod, and none for a template.
pub(super) fn spec<'v>(at: &At<'_, 'v>, metadata: Option<&'v Value>, options: &Options, causes: &mut Causes) {
    let mut scope = Scope::of(at, metadata, options);
    if scope.grace.is_none() {
        causes.required(&at.member("terminationGracePeriodSeconds"), "");
    }
    scope.volumes = volumes::volumes(&at.member("volumes"), &scope, causes);
    resource_claims(&at.member("resourceClaims"), &scope, causes);
    containers::containers(&at.member("containers"), &scope, causes);
    containers::init_containers(&at.member("initContainers"), &at.member("containers"), &scope, causes);
    containers::ephemeral_containers(at, &scope, causes);
    resources::of_pod(at, &scope, causes);
    ports::of_host_network(at, options.is_pod, causes);
    one_of(&at.member("restartPolicy"), &["Always", "OnFailure", "Never"], causes);
    dns::policy(&at.member("dnsPolicy"), causes);
    labels(&at.member("nodeSelector"), causes);
    security::of_pod(at, options, causes);
    affinity::affinity(&at.member("affinity"), options, causes);
    dns::config(at, causes);
    for gate in at.member("readinessGates").items() {
        label_key(&gate.member("conditionType"), causes);
    }
    scheduling_gates(&at.member("schedulingGates"), causes);
    affinity::spread(&at.member("topologySpreadConstraints"), options, causes);
    windows::host_processes(at, causes);
    security::host_users(at, options, causes);
    dns::host_name_override(at, causes);
    single_members(at, options, causes);
    containers::file_variables(at, causes);
}

/// The members after the lists, each by itself.
fn single_members(at: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    for member in ["serviceAccountName", "nodeName"] {
        unless_empty(&at.member(member), meta::subdomain, causes);
    }
    let deadline = at.member("activeDeadlineSeconds");
    if let Some(seconds) = deadline.some_integer() {
        causes.each_invalid(&deadline, names::in_range(seconds, 1, i32::MAX.into()));
    }
    for member in ["hostname", "subdomain"] {
        unless_empty(&at.member(member), meta::label, causes);
    }
    tolerations::tolerations(&at.member("tolerations"), options, causes);
    dns::host_aliases(&at.member("hostAliases"), causes);
    unless_empty(&at.member("priorityClassName"), meta::subdomain, causes);
    let runtime = at.member("runtimeClassName");
    if runtime.is_present() {
        meta::subdomain(&runtime, causes);
    }
    if at.member("preemptionPolicy").is_present() {
        one_of(&at.member("preemptionPolicy"), &["PreemptLowerPriority", "Never"], causes);
    }
    if at.member("overhead").is_present() {
        resources::overhead(&at.member("overhead"), options, causes);
    }
    operating_system(at, causes);
    scheduling_group(&at.member("schedulingGroup"), causes);
}

fn unless_empty(at: &At<'_, '_>, rule: fn(&At<'_, '_>, &mut Causes), causes: &mut Causes) {
    if !at.text().is_empty() {
        rule(at, causes);
    }
}

fn one_of(at: &At<'_, '_>, supported: &[&str], causes: &mut Causes) {
    if meta::present(at, "", causes) && !supported.contains(&at.text()) {
        causes.not_supported(at, supported);
    }
}

fn operating_system(spec: &At<'_, '_>, causes: &mut Causes) {
    let at = spec.member("os");
    let name = at.member("name");
    match name.text() {
        _ if at.is_absent() => {}
        "" => causes.required(&name, ""),
        "linux" => windows::not_for_linux(spec, causes),
        "windows" => windows::not_for_windows(spec, causes),
        // The path is that of the whole.
        _ => causes.not_supported(&at.with(name.value()), &["linux", "windows"]),
    }
}

fn scheduling_group(at: &At<'_, '_>, causes: &mut Causes) {
    let name = at.member("podGroupName");
    if name.is_present() {
        meta::subdomain(&name, causes);
    } else if at.is_present() {
        causes.invalid(&name, "must specify one of: `podGroupName`");
    }
}

fn scheduling_gates(at: &At<'_, '_>, causes: &mut Causes) {
    let mut seen = HashSet::new();
    for gate in at.items() {
        let name = gate.member("name").text();
        let shown = name.into();
        let gate = gate.with(&shown);
        label_key(&gate, causes);
        if !seen.insert(name) {
            causes.duplicate(&gate);
        }
    }
}

/// Claims of devices (`validatePodResourceClaims`).
fn resource_claims(at: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    let is_mirror = scope.metadata.is_some_and(|metadata| metadata["annotations"].get(profiles::MIRROR).is_some());
    let mut taken = HashSet::new();
    for claim in at.items() {
        if is_mirror {
            let nowhere = At::named("[]", at.value());
            causes.forbidden(&nowhere, "static pods do not support resource claims");
            continue;
        }
        let (name, of, template) = (claim.member("name"), claim.member("resourceClaimName"), claim.member("resourceClaimTemplateName"));
        if name.text().is_empty() {
            causes.required(&name, "");
        } else if taken.insert(name.text()) {
            meta::label(&name, causes);
        } else {
            causes.duplicate(&name);
        }
        match (of.is_present(), template.is_present()) {
            (true, true) => {
                let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                causes.invalid_shown(&claim, "core.PodResourceClaim", why);
            }
            (false, false) => {
                causes.invalid_shown(
                    &claim,
                    "core.PodResourceClaim",
                    "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
                );
            }
            _ => {}
        }
        for name in [of, template].iter().filter(|name| name.is_present()) {
            meta::subdomain(name, causes);
        }
    }
}
