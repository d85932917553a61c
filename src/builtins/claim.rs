//! PersistentVolumeClaims (`pkg/apis/core/validation`).

use serde_json::{Map, Value};

use crate::{
    FieldError,
    at::At,
    causes::Causes,
    claim_spec::{Options, claim_spec},
    equal::same,
    internal,
    labels::{self, SelectorOptions},
    lines, names,
    quantities::{self, Amount},
};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const IMMUTABLE: &str = "field is immutable";
const SPEC_IMMUTABLE: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// What is wrong with a new claim.
pub fn create(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| claim_spec(&At::root(object).member("spec"), Options::default(), causes))
}

/// What is wrong with a changed claim.
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, root) = (At::root(old), At::root(new));
    let (before, spec) = (old.member("spec"), root.member("spec"));
    Causes::of(|causes| {
        claim_spec(&spec, options(&before), causes);
        annotation(&old, &root, causes);
        immutable(&old, &root, causes);
        size(&old, &spec, causes);
        let mode = root.member("volumeMode");
        if before.member("volumeMode").value() != spec.member("volumeMode").value() {
            causes.invalid_shown(&mode.with(spec.member("volumeMode").value()), "*string", IMMUTABLE);
        }
        attributes(&old, &spec, causes);
    })
}

fn options(old: &At<'_, '_>) -> Options {
    let (selector, source, reference) = (old.member("selector"), old.member("dataSource"), old.member("dataSourceRef"));
    let was_wrong = !Causes::of(|causes| labels::selector(&selector, SelectorOptions::default(), causes)).is_empty();
    let any_source_group = source.member("apiGroup").is_present() || reference.member("apiGroup").is_present();
    Options { selector: SelectorOptions { any_value: was_wrong, ..SelectorOptions::default() }, any_source_group }
}

fn class_annotation<'v>(object: &At<'_, 'v>) -> Option<&'v str> {
    object.member("metadata").member("annotations").member(CLASS_ANNOTATION).value().as_str()
}

/// Whether the class moves from the annotation, where it once was, to the spec.
fn moves_class(old: &At<'_, '_>, new: &At<'_, '_>) -> bool {
    let (before, now) = (class_annotation(old), class_annotation(new));
    let class = |object: &At<'_, '_>| object.member("spec").member("storageClassName").value().clone();
    before.is_some() && class(old).is_null() && class(new).as_str() == before && (now.is_none() || now == before)
}

fn annotation(old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) {
    let (before, now) = (class_annotation(old).unwrap_or_default(), class_annotation(new).unwrap_or_default());
    if before != now && !moves_class(old, new) {
        let (metadata, shown) = (new.member("metadata"), now.into());
        causes.invalid_as(&metadata.member("annotations").member(CLASS_ANNOTATION).with(&shown), &shown, IMMUTABLE);
    }
}

/// The spec stays as it is, but for what may change once or while the claim is bound.
fn immutable(old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) {
    let spec = |object: &At<'_, '_>| object.member("spec").value().as_object().cloned().unwrap_or_default();
    let (mut before, mut now) = (with_both_sources(spec(old)), spec(new));
    if before.get("volumeName").and_then(Value::as_str).is_none_or(str::is_empty) {
        take_over(&mut before, &now, "volumeName");
    }
    let has_class = |spec: &Map<String, Value>| spec.get("storageClassName").is_some_and(Value::is_string);
    let class = now.get("storageClassName").and_then(Value::as_str).unwrap_or_default();
    let annotated = class_annotation(old);
    let is_named = has_class(&now) && !has_class(&before) && annotated.is_none_or(|annotated| annotated == class);
    if is_named || moves_class(old, new) {
        now.remove("storageClassName");
    }
    if new.member("status").member("phase").text() == "Bound" {
        let zero = Value::from("0");
        let size = before.get("resources").and_then(|resources| resources.get("requests")?.get("storage")).unwrap_or(&zero).clone();
        if let Some(Value::Object(requests)) = now.get_mut("resources").and_then(|resources| resources.get_mut("requests")) {
            requests.insert("storage".to_owned(), size);
        }
        take_over(&mut now, &before, "volumeAttributesClassName");
    }
    let (before, now) = (Value::Object(before), Value::Object(now));
    if !same(&before, &now) {
        let shown = |spec| internal::shown("core.PersistentVolumeClaimSpec", spec);
        let why = format!("{SPEC_IMMUTABLE}\n{}", lines::difference(&shown(&before), &shown(&now)));
        causes.forbidden(&new.member("spec"), &why);
    }
}

fn take_over(to: &mut Map<String, Value>, from: &Map<String, Value>, name: &str) {
    match from.get(name) {
        Some(value) => to.insert(name.to_owned(), value.clone()),
        None => to.remove(name),
    };
}

/// Gives a claim that was stored with one of its sources both, as writes do.
fn with_both_sources(mut spec: Map<String, Value>) -> Map<String, Value> {
    let present = |spec: &Map<String, Value>, name: &str| spec.get(name).filter(|source| source.is_object()).cloned();
    match (present(&spec, "dataSource"), present(&spec, "dataSourceRef")) {
        (Some(source), None) => drop(spec.insert("dataSourceRef".to_owned(), source)),
        (None, Some(reference)) if reference.get("namespace").and_then(Value::as_str).is_none_or(str::is_empty) => {
            drop(spec.insert("dataSource".to_owned(), reference));
        }
        _ => {}
    }
    spec
}

/// A claim asks for no less than before, unless the volume has not grown yet.
fn size(old: &At<'_, '_>, spec: &At<'_, '_>, causes: &mut Causes) {
    let of = |spec: &At<'_, '_>| Amount::at(&spec.member("resources").member("requests").key("storage"));
    let now = of(spec);
    let has = Amount::at(&old.member("status").member("capacity").key("storage"));
    if now < of(&old.member("spec")) && now <= has {
        let resources = spec.member("resources");
        causes.forbidden(&resources.member("requests").member("storage"), "field can not be less than status.capacity");
    }
}

fn attributes(old: &At<'_, '_>, spec: &At<'_, '_>, causes: &mut Causes) {
    let (name, before) = (spec.member("volumeAttributesClassName"), old.member("spec").member("volumeAttributesClassName").value().clone());
    let is_used = old.member("status").member("currentVolumeAttributesClassName").is_present();
    if before == *name.value() || !is_used {
        return;
    }
    if name.is_absent() {
        causes.forbidden(&name, "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil");
    } else if name.is_zero() {
        causes.forbidden(&name, "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil");
    }
}

/// What is wrong with a changed status of a claim.
pub fn update_status(_: &Value, new: &Value) -> Vec<FieldError> {
    let root = At::root(new);
    let (spec, status, shown) = (root.member("spec"), root.member("status"), root.member("Spec"));
    Causes::of(|causes| {
        if spec.member("accessModes").len() == 0 {
            causes.required(&shown.member("accessModes"), "");
        }
        for (_, amount) in status.member("capacity").entries() {
            basic(&amount, causes);
        }
        resizes(&status.member("allocatedResourceStatuses"), causes);
        allocated(&status.member("allocatedResources"), causes);
    })
}

/// An amount that is not negative (`validateBasicResource`); returns whether it is right.
pub(crate) fn basic(at: &At<'_, '_>, causes: &mut Causes) -> bool {
    let whole = Amount::at(at).value();
    if whole < 0 {
        causes.invalid_as(at, &whole.into(), "must be a valid resource quantity");
    }
    whole >= 0
}

/// The resource that a claim is for: storage, or one with a prefix of its own; returns whether it is right.
fn resource(name: &str, at: &At<'_, '_>, causes: &mut Causes) -> bool {
    let shown = name.into();
    let at = at.with(&shown);
    let wrong = names::qualified(name);
    let is_known = !quantities::is_native(name) || name == "storage";
    causes.each_invalid(&at, &wrong);
    if wrong.is_empty() && !is_known {
        causes.not_supported_text(&at, &["storage"]);
    }
    wrong.is_empty() && is_known
}

fn resizes(at: &At<'_, '_>, causes: &mut Causes) {
    const STATES: [&str; 5] =
        ["ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"];
    for (name, state) in at.entries() {
        resource(name, at, causes);
        if !STATES.contains(&state.text()) {
            causes.not_supported(&at.with(&name.into()), &STATES);
        }
    }
}

fn allocated(at: &At<'_, '_>, causes: &mut Causes) {
    for (name, amount) in at.entries() {
        if resource(name, at, causes) && basic(&amount, causes) {
            quantities::not_negative(&amount, causes);
        }
    }
}
