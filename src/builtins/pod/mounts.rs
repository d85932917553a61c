//! Where a container has volumes, as directories or as devices.

use std::collections::{HashMap, HashSet};

use super::{Scope, paths};
use crate::{at::At, causes::Causes, meta};

/// Names and paths of mounts or of devices. Of a name that stands twice, the last path counts.
struct Places<'v> {
    by_name: HashMap<&'v str, &'v str>,
    paths: HashSet<&'v str>,
}

impl<'v> Places<'v> {
    fn of(at: &At<'_, 'v>, path: &str) -> Self {
        let by_name: HashMap<_, _> = at.items().map(|place| (place.member("name").text(), place.member(path).text())).collect();
        Self { paths: by_name.values().copied().collect(), by_name }
    }
}

/// `ValidateVolumeMounts`: some paths are of the list, not of the mount.
pub(super) fn mounts(container: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    let (at, device_list) = (container.member("volumeMounts"), container.member("volumeDevices"));
    let devices = Places::of(&device_list, "devicePath");
    let is_privileged = container.member("securityContext").member("privileged").is_true();
    let mut taken = HashSet::new();
    for mount in at.items() {
        let (name, path) = (mount.member("name"), mount.member("mountPath"));
        meta::present(&name, "", causes);
        if !scope.volumes.contains_key(name.text()) {
            causes.not_found(&name.with(&name.text().into()));
        }
        meta::present(&path, "", causes);
        if !taken.insert(path.text()) {
            causes.invalid_text(&path, "must be unique");
        }
        if devices.by_name.contains_key(name.text()) {
            causes.invalid_text(&name, "must not already exist in volumeDevices");
        }
        if devices.paths.contains(path.text()) {
            causes.invalid_text(&path, "must not already exist as a path in volumeDevices");
        }
        sub_paths(&at, &mount, causes);
        propagation(&at.member("mountPropagation").with(mount.member("mountPropagation").value()), is_privileged, causes);
        recursive_read_only(&at, &mount, causes);
    }
}

fn sub_paths(list: &At<'_, '_>, mount: &At<'_, '_>, causes: &mut Causes) {
    let (sub, expression) = (mount.member("subPath"), mount.member("subPathExpr"));
    if !sub.text().is_empty() {
        paths::descending(&list.member("subPath").with(sub.value()), causes);
    }
    if !expression.text().is_empty() {
        if !sub.text().is_empty() {
            causes.invalid(&expression, "subPathExpr and subPath are mutually exclusive");
        }
        paths::descending(&list.member("subPathExpr").with(expression.value()), causes);
    }
}

fn propagation(at: &At<'_, '_>, is_privileged: bool, causes: &mut Causes) {
    const ALL: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
    if at.is_absent() {
        return;
    }
    if !ALL.contains(&at.text()) {
        causes.not_supported(at, &ALL);
    }
    if at.text() == "Bidirectional" && !is_privileged {
        causes.forbidden(at, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn recursive_read_only(list: &At<'_, '_>, mount: &At<'_, '_>, causes: &mut Causes) {
    let (wanted, propagation) = (mount.member("recursiveReadOnly"), mount.member("mountPropagation"));
    let shown = list.member("recursiveReadOnly");
    match wanted.value().as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.member("readOnly").is_true() {
                causes.forbidden(&shown, "may only be specified when readOnly is true");
            }
            if propagation.is_present() && propagation.text() != "None" {
                causes.forbidden(&shown, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(_) => causes.not_supported(&shown.with(wanted.value()), &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// `ValidateVolumeDevices`.
pub(super) fn devices(container: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    let (at, mount_list) = (container.member("volumeDevices"), container.member("volumeMounts"));
    let mounts = Places::of(&mount_list, "mountPath");
    let (mut names, mut taken) = (HashSet::new(), HashSet::new());
    for device in at.items() {
        let (name, path) = (device.member("name"), device.member("devicePath"));
        meta::present(&name, "", causes);
        if names.contains(name.text()) {
            causes.invalid_text(&name, "must be unique");
        }
        match scope.volumes.get(name.text()) {
            None => causes.not_found(&name.with(&name.text().into())),
            Some(volume) if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() => {
                causes.invalid_text(&name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode");
            }
            Some(_) => {}
        }
        meta::present(&path, "", causes);
        if taken.contains(path.text()) {
            causes.invalid_text(&path, "must be unique");
        }
        if paths::has_backsteps(path.text()) {
            causes.invalid_text(&path, "can not contain backsteps ('..')");
        } else {
            taken.insert(path.text());
        }
        if mounts.by_name.contains_key(name.text()) {
            causes.invalid_text(&name, "must not already exist in volumeMounts");
        }
        if mounts.paths.contains(path.text()) {
            causes.invalid_text(&path, "must not already exist as a path in volumeMounts");
        }
        if !name.text().is_empty() {
            names.insert(name.text());
        }
    }
}
