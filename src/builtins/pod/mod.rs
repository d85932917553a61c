//! Pods, and templates of Pods (`ValidatePodSpec` and what belongs to it).
//!
//! A kind that has a template of a Pod judges it with `template` and with `Options::after` what was there before.

mod affinity;
mod class;
mod containers;
mod dns;
mod env;
mod fields;
mod mounts;
mod options;
pub(crate) mod paths;
pub(crate) mod ports;
mod probes;
mod profiles;
mod projected;
mod resize;
pub(crate) mod resources;
mod restart;
mod security;
pub(crate) mod sources;
mod spec;
mod status;
pub(crate) mod tolerations;
mod update;
mod volumes;
mod windows;

use serde_json::Value;

pub use class::{class, known_class};
pub(crate) use options::Options;
pub(crate) use profiles::annotations as specific_annotations;
pub use resize::resize;
pub use status::update_status;
pub use update::{update, update_ephemeral_containers};

use crate::{
    FieldError,
    at::At,
    causes::Causes,
    labels::{annotations, labels},
};
use spec::Scope;

/// A `PodTemplateSpec` (`ValidatePodTemplateSpec`). Paths of labels and annotations are those of the template itself, not of its metadata.
pub(crate) fn template(at: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    let (metadata, spec) = (at.member("metadata"), at.member("spec"));
    let annotated = metadata.member("annotations");
    let shown = at.member("annotations");
    let annotated = shown.with(annotated.value());
    labels(&at.member("labels").with(metadata.member("labels").value()), causes);
    annotations(&annotated, causes);
    profiles::annotations(&annotated, &spec, options, causes);
    spec::spec(&spec, None, options, causes);
    profiles::beside_annotations(&annotated, &spec, causes);
    if spec.member("ephemeralContainers").len() > 0 {
        causes.forbidden(&spec.member("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

/// What is wrong with a new Pod (`ValidatePodCreate`).
#[must_use]
pub fn create(pod: &Value) -> Vec<FieldError> {
    let options = Options { is_pod: true, ..Options::default() };
    Causes::of(|causes| {
        whole(pod, &options, causes);
        let root = At::root(pod);
        let (metadata, spec) = (root.member("metadata"), root.member("spec"));
        if spec.member("ephemeralContainers").len() > 0 {
            causes.forbidden(&spec.member("ephemeralContainers"), "cannot be set on create");
        }
        if !spec.member("nodeName").text().is_empty() && spec.member("schedulingGates").len() > 0 {
            causes.forbidden(&spec.member("nodeName"), "cannot be set until all schedulingGates have been cleared");
        }
        profiles::beside_annotations(&metadata.member("annotations"), &spec, causes);
    })
}

/// What is wrong with a new PodTemplate.
#[must_use]
pub fn create_template(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| template(&At::root(object).member("template"), &Options::default(), causes))
}

/// What is wrong with a PodTemplate that replaces `old`.
#[must_use]
pub fn update_template(old: &Value, new: &Value) -> Vec<FieldError> {
    let options = Options::after(&old["template"]);
    Causes::of(|causes| template(&At::root(new).member("template"), &options, causes))
}

/// What is wrong with the choice of a node for a Pod (`ValidatePodBinding`).
#[must_use]
pub fn bind(binding: &Value) -> Vec<FieldError> {
    Causes::of(|causes| {
        let root = At::root(binding);
        let target = root.member("target");
        let (kind, name) = (target.member("kind"), target.member("name"));
        if !matches!(kind.text(), "" | "Node") {
            causes.not_supported_text(&kind, &["Node", "<empty>"]);
        }
        if name.text().is_empty() {
            causes.required(&name, "");
        }
    })
}

/// What is wrong with any Pod (`validatePodMetadataAndSpec`).
fn whole(pod: &Value, options: &Options, causes: &mut Causes) {
    let root = At::root(pod);
    let (metadata, spec) = (root.member("metadata"), root.member("spec"));
    profiles::annotations(&metadata.member("annotations"), &spec, options, causes);
    spec::spec(&spec, Some(metadata.value()), options, causes);
    if spec.member("serviceAccountName").text().is_empty() {
        for volume in spec.member("volumes").items() {
            let projected = volume.member("projected");
            for source in projected.member("sources").items().filter(|source| source.member("serviceAccountToken").is_present()) {
                causes.forbidden(&source.member("serviceAccountToken"), "must not be specified when serviceAccountName is not set");
            }
        }
    }
    for list in ["containers", "initContainers"] {
        spec.member(list).items().for_each(|container| containers::image_without_spaces(&container, causes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    fn judge(op: &str, new: &Value, old: &Value) -> Vec<FieldError> {
        match op {
            "create" => create(new),
            "update" => update(old, new),
            "status" => update_status(old, new),
            "ephemeralcontainers" => update_ephemeral_containers(old, new),
            "resize" => resize(old, new),
            "binding" => bind(new),
            "template" => create_template(new),
            "templateupdate" => update_template(old, new),
            other => panic!("no operation {other}"),
        }
    }

    /// What Go said of Pods and templates, each made wrong in some places.
    #[test]
    fn recorded_cases() {
        cases::check(include_str!("../testdata/pods.jsonl"), judge);
    }

    /// The same of any file, such as one that was just recorded.
    #[test]
    fn named_cases() {
        cases::check_file("WATCHCACHE_POD_CASES", judge);
    }
}
