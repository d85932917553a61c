//! What a PersistentVolumeClaim asks for, by itself or as the template of an ephemeral volume (`ValidatePersistentVolumeClaimSpec`).

use serde_json::json;

use crate::{
    at::At,
    causes::Causes,
    labels::{SelectorOptions, selector},
    meta, names, quantities,
};

/// What an update lets stand because it was there before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Values of the selector that are no values of labels.
    pub(crate) selector: SelectorOptions,
    /// Groups of data sources that are no DNS names.
    pub(crate) any_source_group: bool,
}

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const ALONE: &str = "ReadWriteOncePod";

/// A claim inside of another object (`ValidatePersistentVolumeClaimTemplate`).
pub(crate) fn claim_template(at: &At<'_, '_>, options: Options, causes: &mut Causes) {
    let metadata = at.member("metadata");
    meta::labels_and_annotations_only(&metadata, causes);
    claim_spec(&at.member("spec"), options, causes);
}

pub(crate) fn claim_spec(at: &At<'_, '_>, options: Options, causes: &mut Causes) {
    let modes = at.member("accessModes");
    if modes.len() == 0 {
        causes.required(&modes, "at least 1 access mode is required");
    }
    selector(&at.member("selector"), options.selector, causes);
    access_modes(&modes, causes);
    storage(at, causes);
    class(&at.member("storageClassName"), causes);
    let mode = at.member("volumeMode");
    if mode.is_present() && !matches!(mode.text(), "Block" | "Filesystem") {
        causes.not_supported(&mode, &["Block", "Filesystem"]);
    }
    data_sources(at, options, causes);
    class(&at.member("volumeAttributesClassName"), causes);
}

/// Ways to mount a volume, of which the one for a single Pod stands alone.
pub(crate) fn access_modes(at: &At<'_, '_>, causes: &mut Causes) {
    for mode in at.items().filter(|mode| !ACCESS_MODES.contains(&mode.text())) {
        causes.not_supported(&at.with(mode.value()), &ACCESS_MODES);
    }
    let known = || at.items().map(|mode| mode.text()).filter(|mode| ACCESS_MODES.contains(mode));
    if known().any(|mode| mode == ALONE) && known().any(|mode| mode != ALONE) {
        causes.forbidden(at, "may not use ReadWriteOncePod with other access modes");
    }
}

fn storage(at: &At<'_, '_>, causes: &mut Causes) {
    let resources = at.member("resources");
    let requests = resources.member("requests");
    let requested = requests.key("storage");
    // The path leaves the requests out.
    let shown = resources.key("storage");
    if requested.is_absent() {
        causes.required(&shown, "");
    } else {
        quantities::positive(&shown.with(requested.value()), causes);
    }
}

/// The name of a class, if there is one.
pub(crate) fn class(at: &At<'_, '_>, causes: &mut Causes) {
    if !at.text().is_empty() {
        meta::subdomain(at, causes);
    }
}

fn data_sources(at: &At<'_, '_>, options: Options, causes: &mut Causes) {
    let (source, reference) = (at.member("dataSource"), at.member("dataSourceRef"));
    if source.is_present() {
        data_source(&source, options, causes);
    }
    if reference.is_present() {
        data_source(&reference, options, causes);
        let namespace = reference.member("namespace");
        if !namespace.text().is_empty() {
            causes.each_invalid(&namespace, names::label(namespace.text()));
        }
    }
    if source.is_absent() || reference.is_absent() {
        return;
    }
    // Go shows a path here, whose members are private.
    if !reference.member("namespace").text().is_empty() {
        causes.invalid_as(at, &json!({}), "may not be specified when dataSourceRef.namespace is specified");
    } else if ["apiGroup", "kind", "name"].iter().any(|name| source.member(name).value() != reference.member(name).value()) {
        causes.invalid_as(at, &json!({}), "must match dataSourceRef");
    }
}

fn data_source(at: &At<'_, '_>, options: Options, causes: &mut Causes) {
    meta::present(&at.member("name"), "", causes);
    meta::present(&at.member("kind"), "", causes);
    let (kind, group) = (at.member("kind"), at.member("apiGroup"));
    if group.text().is_empty() && kind.text() != "PersistentVolumeClaim" {
        let shown = kind.text().into();
        causes.invalid_as(at, &shown, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
    if !group.text().is_empty() && !options.any_source_group {
        causes.each_invalid(&group, names::subdomain(group.text()));
    }
}
