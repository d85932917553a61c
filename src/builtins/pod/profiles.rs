//! Profiles of seccomp and AppArmor, which once were annotations, and other annotations of a Pod.

use std::collections::HashSet;

use serde_json::Value;

use super::{Options, containers, paths, tolerations};
use crate::{at::At, causes::Causes};
use go::{json::kind, quote::quoted, scanner::Scanner};

/// Bytes of the name of a profile of AppArmor.
const PROFILE_BYTES_MAX: usize = 4_095;
const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

/// The annotation of a Pod that a kubelet shows and does not take from here.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
/// What AppArmor lets a container do.
pub(super) const APP_ARMOR_OF: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF: &str = "container.seccomp.security.alpha.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const LOCALHOST: &str = "localhost/";

/// A profile of seccomp (`validateSeccompProfileField`).
pub(super) fn seccomp(at: &At<'_, '_>, causes: &mut Causes) {
    if at.is_absent() {
        return;
    }
    let (kind, profile) = (at.member("type"), at.member("localhostProfile"));
    if kind.text().is_empty() {
        causes.required(&kind, "type is required when seccompProfile is set");
    } else if !TYPES.contains(&kind.text()) {
        causes.not_supported(&kind, &TYPES);
    }
    match (kind.text(), profile.is_present()) {
        ("Localhost", false) => causes.required(&profile, "must be set when seccomp type is Localhost"),
        ("Localhost", true) => paths::descending(&profile, causes),
        (_, true) => {
            let why = "can only be set when seccomp type is Localhost";
            causes.invalid_shown(&profile.with(at.value()), "core.SeccompProfile", why);
        }
        (_, false) => {}
    }
}

/// A profile of AppArmor (`ValidateAppArmorProfileField`).
pub(super) fn app_armor(at: &At<'_, '_>, causes: &mut Causes) {
    if at.is_absent() {
        return;
    }
    let (kind, profile) = (at.member("type"), at.member("localhostProfile"));
    match kind.text() {
        "Localhost" if profile.is_absent() => causes.required(&profile, "must be set when AppArmor type is Localhost"),
        "Localhost" => {
            let trimmed = profile.text().trim();
            if trimmed != profile.text() {
                causes.invalid(&profile, "must not be padded with whitespace");
            } else if trimmed.is_empty() {
                causes.required(&profile, "must be set when AppArmor type is Localhost");
            }
            if profile.text().len() > PROFILE_BYTES_MAX {
                causes.too_long(&profile, PROFILE_BYTES_MAX);
            }
        }
        "RuntimeDefault" | "Unconfined" if profile.is_present() => {
            causes.invalid_json(&profile, "can only be set when AppArmor type is Localhost");
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => causes.required(&kind, "type is required when appArmorProfile is set"),
        _ => causes.not_supported(&kind, &TYPES),
    }
}

/// Annotations that mean something of a Pod (`ValidatePodSpecificAnnotations`).
pub(crate) fn annotations(at: &At<'_, '_>, spec: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    let mirror = at.key(MIRROR);
    if mirror.is_present() && spec.member("nodeName").text().is_empty() {
        causes.invalid(&mirror, "must set spec.nodeName if mirror pod annotation is set");
    }
    if !at.key(TOLERATIONS).text().is_empty() {
        annotated_tolerations(at, options, causes);
    }
    let cost = at.key(DELETION_COST);
    if !options.any_deletion_cost && !is_deletion_cost(&cost) {
        causes.invalid(&cost, "must be a 32bit integer");
    }
    let whole = at.key(SECCOMP);
    if whole.is_present() {
        annotated_seccomp(&at.member(SECCOMP).with(whole.value()), causes);
    }
    for (key, profile) in at.entries().filter(|(key, _)| key.starts_with(SECCOMP_OF)) {
        annotated_seccomp(&at.member(key).with(profile.value()), causes);
    }
    annotated_app_armor(at, spec, causes);
}

/// Whether the annotation is a cost, if it is there.
pub(super) fn has_deletion_cost(annotations: &At<'_, '_>) -> bool {
    is_deletion_cost(&annotations.key(DELETION_COST))
}

/// A plus sign and zeros in front are not taken.
fn is_deletion_cost(at: &At<'_, '_>) -> bool {
    let Some(text) = at.value().as_str() else { return true };
    let starts = text == "0" || text.starts_with(['-', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    starts && text.parse::<i32>().is_ok()
}

fn annotated_tolerations(at: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    let text = at.key(TOLERATIONS).text();
    let mut scanner = Scanner::new(text.as_bytes());
    // Go shows the name of the annotation.
    let mut refuse = |why: &str| causes.invalid_as(at, &TOLERATIONS.into(), why);
    if let Err(why) = scanner.value().and_then(|_| scanner.end()) {
        return refuse(&why);
    }
    let list = match serde_json::from_str(text) {
        Ok(Value::Array(list)) => list,
        Ok(Value::Null) | Err(_) => return,
        Ok(other) => return refuse(&format!("json: cannot unmarshal {} into Go value of type []core.Toleration", kind(&other))),
    };
    // That a member of one has another type is not reported.
    if let Some(other) = list.iter().find(|item| !item.is_object() && !item.is_null()) {
        return refuse(&format!("json: cannot unmarshal {} into Go value of type core.Toleration", kind(other)));
    }
    let list = Value::Array(list.iter().map(with_lower_names).collect());
    tolerations::tolerations(&at.member(TOLERATIONS).with(&list), options, causes);
}

/// Go reads the annotation into its internal type, whose members have capital letters, and takes any case.
fn with_lower_names(toleration: &Value) -> Value {
    let Some(members) = toleration.as_object() else { return toleration.clone() };
    let name = |key: &str| match key.to_lowercase().as_str() {
        "tolerationseconds" => "tolerationSeconds".to_owned(),
        lower => lower.to_owned(),
    };
    Value::Object(members.iter().map(|(key, value)| (name(key), value.clone())).collect())
}

fn annotated_seccomp(at: &At<'_, '_>, causes: &mut Causes) {
    match at.text() {
        "runtime/default" | "docker/default" | "unconfined" => {}
        text => match text.strip_prefix(LOCALHOST) {
            Some(profile) => paths::descending(&at.with(&profile.into()), causes),
            None => causes.invalid_text(at, "must be a valid seccomp profile"),
        },
    }
}

fn annotated_app_armor(at: &At<'_, '_>, spec: &At<'_, '_>, causes: &mut Causes) {
    let of_containers = || at.entries().filter_map(|(key, profile)| Some((key.strip_prefix(APP_ARMOR_OF)?, profile)));
    if of_containers().next().is_none() {
        return;
    }
    let mut names: HashSet<String> = HashSet::new();
    containers::each(spec, |container| {
        names.insert(container.member("name").text().to_owned());
    });
    for (name, profile) in of_containers() {
        if !names.contains(name) {
            causes.invalid_as(&profile, &name.into(), "container not found");
        }
        let is_known = matches!(profile.text(), "" | "runtime/default" | "unconfined") || profile.text().starts_with(LOCALHOST);
        if !is_known {
            causes.invalid(&profile, &format!("invalid AppArmor profile name: {}", quoted(profile.text())));
        }
    }
}

/// Annotations beside the fields that came after them: first of seccomp, then of AppArmor.
pub(super) fn beside_annotations(annotations: &At<'_, '_>, spec: &At<'_, '_>, causes: &mut Causes) {
    let context = spec.member("securityContext");
    let whole = context.member("seccompProfile");
    let text = annotations.key(SECCOMP);
    if whole.is_present() && text.is_present() {
        match_annotation("seccomp", text.text(), whole.value(), &whole, causes);
    }
    containers::each(spec, |container| {
        let context = container.member("securityContext");
        let own = context.member("seccompProfile");
        let key = format!("{SECCOMP_OF}{}", container.member("name").text());
        let text = annotations.key(&key);
        if own.is_present() && text.is_present() {
            match_annotation("seccomp", text.text(), own.value(), &own, causes);
        }
    });
    if spec.member("os").member("name").text() == "windows" {
        return;
    }
    let whole = context.member("appArmorProfile");
    containers::each(spec, |container| {
        let context = container.member("securityContext");
        let own = context.member("appArmorProfile");
        let profile = if own.is_present() { own.value() } else { whole.value() };
        let key = format!("{APP_ARMOR_OF}{}", container.member("name").text());
        let text = annotations.key(&key);
        if !profile.is_null() && text.is_present() {
            match_annotation("apparmor", text.text(), profile, &own, causes);
        }
    });
}

fn match_annotation(system: &str, annotation: &str, profile: &Value, at: &At<'_, '_>, causes: &mut Causes) {
    let differs_in = match profile["type"].as_str().unwrap_or_default() {
        "Unconfined" if annotation != "unconfined" => "type",
        "RuntimeDefault" if annotation != "runtime/default" && (system != "seccomp" || annotation != "docker/default") => "type",
        "Localhost" => match annotation.strip_prefix(LOCALHOST) {
            None => "type",
            Some(name) if profile["localhostProfile"].as_str() != Some(name) => "profile",
            Some(_) => return,
        },
        _ => return,
    };
    let member = if differs_in == "type" { "type" } else { "localhostProfile" };
    causes.forbidden(&at.member(member), &format!("{system} {differs_in} in annotation and field must match"));
}
