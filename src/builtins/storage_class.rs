//! StorageClasses and VolumeAttributesClasses (`pkg/apis/storage/validation`).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use crate::{FieldError, at::At, causes::Causes, equal::same, labels, names};

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 << 10;
const IMMUTABLE: &str = "field is immutable";

/// What is wrong with a new StorageClass.
pub fn create(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| class(&At::root(object), causes))
}

/// What is wrong with a changed StorageClass.
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    Causes::of(|causes| {
        class(&new, causes);
        let (before, now) = (old.member("provisioner"), new.member("provisioner"));
        immutable("parameters", "{}string", &old, &new, causes);
        if before.text() != now.text() {
            causes.invalid_text(&now, IMMUTABLE);
        }
        immutable("reclaimPolicy", "*string", &old, &new, causes);
        immutable("volumeBindingMode", "*string", &old, &new, causes);
    })
}

fn immutable(name: &str, kind: &str, old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) {
    let (before, now) = (old.member(name), new.member(name));
    if !same(before.value(), now.value()) {
        causes.invalid_shown(&now, kind, IMMUTABLE);
    }
}

fn class(at: &At<'_, '_>, causes: &mut Causes) {
    const POLICIES: [&str; 2] = ["Delete", "Retain"];
    const MODES: [&str; 2] = ["Immediate", "WaitForFirstConsumer"];
    let (policy, mode) = (at.member("reclaimPolicy"), at.member("volumeBindingMode"));
    driver(&at.member("provisioner"), causes);
    parameters(&at.member("parameters"), causes);
    if !policy.is_zero() && !POLICIES.contains(&policy.text()) {
        causes.not_supported(&policy, &POLICIES);
    }
    if mode.is_absent() {
        causes.required(&mode, "");
    } else if !MODES.contains(&mode.text()) {
        causes.not_supported(&mode, &MODES);
    }
    topologies(&at.member("allowedTopologies"), causes);
}

/// Who provides the volumes. Capital letters count as small ones, which the error shows.
fn driver(at: &At<'_, '_>, causes: &mut Causes) {
    if at.is_zero() {
        return causes.required(at, "");
    }
    let shown = Value::from(at.text().to_lowercase());
    let at = at.with(&shown);
    causes.each_invalid(&at, names::qualified(at.text()));
}

fn parameters(at: &At<'_, '_>, causes: &mut Causes) {
    if at.len() > PARAMETERS_MAX {
        return causes.too_long(at, PARAMETERS_MAX);
    }
    if at.key("").is_present() {
        causes.invalid_as(at, &"".into(), "field can not be empty.");
    }
    let bytes: usize = at.entries().map(|(key, value)| key.len() + value.text().len()).sum();
    if bytes > PARAMETERS_BYTES_MAX {
        causes.too_long(at, PARAMETERS_BYTES_MAX);
    }
}

/// What a term says of each label: the values that it may have.
type Term<'v> = BTreeMap<&'v str, BTreeSet<&'v str>>;

/// Terms, none of which says what another one says.
fn topologies(at: &At<'_, '_>, causes: &mut Causes) {
    let mut known: HashMap<Term<'_>, usize> = HashMap::new();
    // Go compares each term with as many empty ones as there are terms.
    known.insert(Term::new(), at.len());
    for term in at.items() {
        let expressions = term.member("matchLabelExpressions");
        let count = known.entry(self::term(&expressions, causes)).or_default();
        for _ in 0..*count {
            if causes.is_full() {
                return;
            }
            causes.duplicate(&expressions.with(&"".into()));
        }
        *count += 1;
    }
}

fn term<'v>(expressions: &At<'_, 'v>, causes: &mut Causes) -> Term<'v> {
    let mut term = Term::new();
    for expression in expressions.items() {
        let (key, values) = (expression.member("key"), expression.member("values"));
        if values.len() == 0 {
            causes.required(&values, "");
        }
        let mut known = BTreeSet::new();
        for value in values.items() {
            if !known.insert(value.text()) {
                causes.duplicate(&value);
            }
        }
        labels::label_key(&key, causes);
        if term.insert(key.text(), known).is_some() {
            causes.duplicate(&key);
        }
    }
    term
}

/// What is wrong with a new VolumeAttributesClass.
pub fn create_attributes(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| attributes(&At::root(object), causes))
}

/// What is wrong with a changed VolumeAttributesClass.
pub fn update_attributes(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    Causes::of(|causes| {
        if old.member("driverName").text() != new.member("driverName").text() {
            causes.forbidden(&new.member("driverName"), "updates to driverName are forbidden.");
        }
        if !same(old.member("parameters").value(), new.member("parameters").value()) {
            causes.forbidden(&new.member("parameters"), "updates to parameters are forbidden.");
        }
        attributes(&new, causes);
    })
}

fn attributes(at: &At<'_, '_>, causes: &mut Causes) {
    let parameters = at.member("parameters");
    driver(&at.member("driverName"), causes);
    self::parameters(&parameters, causes);
    if parameters.len() == 0 {
        causes.required(&parameters, "must contain at least one key/value pair");
    }
}
