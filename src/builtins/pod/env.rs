//! Environment variables of a container, and where their values come from.

use super::{fields, paths};
use crate::{at::At, causes::Causes, meta, names};

const SOURCES: &str = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";

/// `ValidateEnv`.
pub(super) fn variables(at: &At<'_, '_>, causes: &mut Causes) {
    for variable in at.items() {
        let name = variable.member("name");
        if meta::present(&name, "", causes) {
            causes.each_invalid(&name, names::env_name(name.text()));
        }
        if variable.member("valueFrom").is_present() {
            value_from(&variable.member("valueFrom"), !variable.member("value").text().is_empty(), causes);
        }
    }
}

fn value_from(at: &At<'_, '_>, has_value: bool, causes: &mut Causes) {
    let mut count = 0;
    let mut judge = |member: &'static str, rule: &dyn Fn(&At<'_, '_>, &mut Causes), causes: &mut Causes| {
        let source = at.member(member);
        if source.is_present() {
            count += 1;
            rule(&source, causes);
        }
    };
    judge("fieldRef", &|at, causes| fields::of_pod(at, &fields::OF_VARIABLES, causes), causes);
    judge("resourceFieldRef", &|at, causes| fields::of_container(at, false, causes), causes);
    judge("configMapKeyRef", &key_reference, causes);
    judge("secretKeyRef", &key_reference, causes);
    judge("fileKeyRef", &file_reference, causes);
    let why = match count {
        0 => SOURCES,
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    causes.invalid_as(at, &"".into(), why);
}

fn key_reference(at: &At<'_, '_>, causes: &mut Causes) {
    meta::subdomain(&at.member("name"), causes);
    let key = at.member("key");
    if meta::present(&key, "", causes) {
        causes.each_invalid(&key, names::config_key(key.text()));
    }
}

fn file_reference(at: &At<'_, '_>, causes: &mut Causes) {
    let (key, volume, path) = (at.member("key"), at.member("volumeName"), at.member("path"));
    if meta::present(&key, "", causes) {
        causes.each_invalid(&key, names::env_name(key.text()));
    }
    if meta::present(&volume, "", causes) {
        meta::label(&volume, causes);
    }
    if meta::present(&path, "", causes) {
        paths::no_backsteps(&path, causes);
    }
}

/// `ValidateEnvFrom`: that the number of sources is wrong is an error of the list.
pub(super) fn sources(at: &At<'_, '_>, causes: &mut Causes) {
    for source in at.items() {
        let prefix = source.member("prefix");
        if !prefix.text().is_empty() {
            causes.each_invalid(&prefix, names::env_name(prefix.text()));
        }
        let mut count = 0;
        for member in ["configMapRef", "secretRef"] {
            let reference = source.member(member);
            if reference.is_present() {
                count += 1;
                let name = reference.member("name");
                if meta::present(&name, "", causes) {
                    // Go takes the name for the beginning of one.
                    causes.each_invalid(&name, names::subdomain(&names::masked(name.text())));
                }
            }
        }
        let why = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        causes.invalid_as(at, &"".into(), why);
    }
}
