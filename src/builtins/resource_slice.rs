//! ResourceSlice (`pkg/apis/resource/validation`).

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    FieldError,
    at::At,
    capacity,
    causes::Causes,
    devices::{self, binding_conditions, map, named, qualified, set, slice, taint},
    equal::same,
    meta, names, node_selector, quantities,
};

const IMMUTABLE: &str = "field is immutable";
const DEVICES_MAX: usize = 128;
/// Of slices whose devices have taints, counters or lists of attributes.
const ADVANCED_DEVICES_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const COUNTERS_MAX: usize = 32;
const CONSUMED_SETS_MAX: usize = 2;
const TAINTS_MAX: usize = 16;
const ENTRIES_MAX: usize = 32;
const VALUES_MAX: usize = 48;
const KEY_BYTES_MAX: usize = 96;
const LABEL_BYTES_MAX: usize = 63;
const VALUE_BYTES_MAX: usize = 64;
/// Members of an attribute that are lists.
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];
const ANY_ATTRIBUTE: [&str; 8] = ["bool", "int", "string", "version", "bools", "ints", "strings", "versions"];

/// What is wrong with a new ResourceSlice.
pub fn create(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| spec(object, &Value::Null, causes))
}

/// What is wrong with a changed ResourceSlice.
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    Causes::of(|causes| spec(new, old, causes))
}

fn spec(object: &Value, old: &Value, causes: &mut Causes) {
    let (root, old_root) = (At::root(object), At::root(old));
    let (spec, old) = (root.member("spec"), old_root.member("spec"));
    let pool = spec.member("pool");
    devices::driver(&spec.member("driver"), causes);
    self::pool(&pool, causes);
    if old.is_present() {
        let old_pool = old.member("pool");
        unchanged(&pool.member("name").or_empty(), old_pool.member("name").or_empty().value(), causes);
        unchanged(&spec.member("driver").or_empty(), old.member("driver").or_empty().value(), causes);
        unchanged(&spec.member("nodeName"), old.member("nodeName").value(), causes);
    }
    nodes(&spec, causes);
    let (list, counters) = (spec.member("devices"), spec.member("sharedCounters"));
    if list.is_present() && counters.is_present() {
        causes.invalid_as(&spec, &"".into(), "only one of `sharedCounters` or `devices` is allowed");
    }
    let max = if list.items().any(|device| is_advanced(&device)) { ADVANCED_DEVICES_MAX } else { DEVICES_MAX };
    let mut known = HashMap::new();
    for device in old.member("devices").items() {
        // The first one of a name counts.
        known.entry(device.member("name").text()).or_insert(device.value());
    }
    let by_device = spec.member("perDeviceNodeSelection").is_true();
    set(&list, max, named, causes, |it, causes| device(it, known.get(it.member("name").text()).copied(), by_device, causes));
    set(&counters, COUNTER_SETS_MAX, named, causes, |it, causes| counter_set(it, "name", causes));
}

fn unchanged(at: &At<'_, '_>, old: &Value, causes: &mut Causes) {
    if at.value() != old {
        causes.invalid(at, IMMUTABLE);
    }
}

fn pool(at: &At<'_, '_>, causes: &mut Causes) {
    devices::pool(&at.member("name"), causes);
    meta::positive(&at.member("resourceSliceCount"), causes);
    let generation = at.member("generation");
    if generation.integer() < 0 {
        causes.invalid(&generation, "must be greater than or equal to zero");
    }
}

/// Judges the name of a node, if there is one. `empty` says what is wrong with an empty one.
fn choose_node(name: &At<'_, '_>, empty: &str, chosen: &mut Vec<&'static str>, causes: &mut Causes) {
    if !name.is_present() {
        return;
    }
    match name.text() {
        "" => causes.invalid(name, empty),
        text => {
            chosen.push("`nodeName`");
            causes.each_invalid(name, names::subdomain(text));
        }
    }
}

/// The nodes that have the devices.
fn nodes(spec: &At<'_, '_>, causes: &mut Causes) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let (name, selector) = (spec.member("nodeName"), spec.member("nodeSelector"));
    let mut chosen = Vec::new();
    choose_node(&name, "must be either unset or set to a non-empty string", &mut chosen, causes);
    if selector.is_present() {
        chosen.push("`nodeSelector`");
        node_selector::node_selector(&selector, false, causes);
        let terms = selector.member("nodeSelectorTerms");
        if terms.len() != 1 {
            causes.invalid_shown(&terms, "[]core.NodeSelectorTerm", "must have exactly one node selector term");
        }
    }
    for (member, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        chosen.extend(flag(&spec.member(member), causes).then_some(shown));
    }
    match chosen.len() {
        0 => causes.required(spec, ONE),
        1 => {}
        _ => causes.invalid_as(spec, &shown(&chosen), &format!("{ONE}, but multiple fields are set")),
    }
}

/// Whether something is on; nobody may say that it is off.
fn flag(at: &At<'_, '_>, causes: &mut Causes) -> bool {
    if at.is_present() && !at.is_true() {
        causes.invalid(at, "must be either unset or set to true");
    }
    at.is_true()
}

fn shown(names: &[&str]) -> Value {
    format!("{{{}}}", names.join(", ")).into()
}

fn is_advanced(device: &At<'_, '_>) -> bool {
    let has_list = |attribute: &At<'_, '_>| LISTS.iter().any(|name| attribute.member(name).is_present());
    device.member("taints").len() > 0
        || device.member("consumesCounters").len() > 0
        || device.member("attributes").entries().any(|(_, attribute)| has_list(&attribute))
}

/// A set of counters with a name, or of those that are consumed of one.
fn counter_set(at: &At<'_, '_>, name: &str, causes: &mut Causes) {
    let (name, counters) = (at.member(name), at.member("counters"));
    if meta::present(&name, "", causes) {
        meta::label(&name, causes);
    }
    match counters.len() {
        0 => causes.required(&counters, ""),
        _ => map(&counters, Some(COUNTERS_MAX), LABEL_BYTES_MAX, causes, meta::label, |_, _| {}),
    }
}

fn device(at: &At<'_, '_>, old: Option<&Value>, by_device: bool, causes: &mut Causes) {
    meta::label(&at.member("name"), causes);
    let (attributes, capacity) = (at.member("attributes"), at.member("capacity"));
    count_entries(at, causes);
    map(&attributes, None, KEY_BYTES_MAX, causes, qualified, attribute);
    let is_shared = at.member("allowMultipleAllocations").is_true();
    map(&capacity, None, KEY_BYTES_MAX, causes, qualified, |it, causes| capacity::capacity(it, is_shared, causes));
    let taints = at.member("taints");
    if !old.is_some_and(|old| same(old.get("taints").unwrap_or(&Value::Null), taints.value())) {
        slice(&taints, TAINTS_MAX, causes, taint);
    }
    let consumed = at.member("consumesCounters");
    let key = |it: &At<'_, '_>| it.member("counterSet").text().into();
    set(&consumed, CONSUMED_SETS_MAX, key, causes, |it, causes| counter_set(it, "counterSet", causes));
    device_nodes(at, by_device, causes);
    binding_conditions(at, causes);
    mappings(&at.member("nodeAllocatableResourceMappings"), &capacity, causes);
}

fn count_entries(device: &At<'_, '_>, causes: &mut Causes) {
    let (attributes, capacity) = (device.member("attributes"), device.member("capacity"));
    let entries = attributes.len() + capacity.len();
    if entries > ENTRIES_MAX {
        let why = format!("the total number of attributes and capacities must not exceed {ENTRIES_MAX}");
        causes.invalid_as(device, &entries.into(), &why);
    }
    let values = |attribute: &At<'_, '_>| LISTS.iter().map(|name| attribute.member(name).len()).sum::<usize>().max(1);
    let values: usize = attributes.entries().map(|(_, attribute)| values(&attribute)).sum();
    if values > VALUES_MAX {
        causes.invalid_as(device, &values.into(), &format!("the total number of attribute values must not exceed {VALUES_MAX}"));
    }
}

fn attribute(at: &At<'_, '_>, causes: &mut Causes) {
    const ONE: &str = "exactly one value must be specified";
    text(&at.member("string"), causes);
    version(&at.member("version"), causes);
    for name in LISTS {
        let list = at.member(name);
        if list.is_present() && list.len() == 0 {
            causes.invalid(&list, "must not be empty if specified");
        }
        match name {
            "strings" => list.items().for_each(|it| text(&it, causes)),
            "versions" => list.items().for_each(|it| version(&it, causes)),
            _ => {}
        }
    }
    match ANY_ATTRIBUTE.iter().filter(|name| at.member(name).is_present()).count() {
        0 => causes.invalid_as(at, &"".into(), ONE),
        1 => {}
        _ => causes.invalid_shown(at, "resource.DeviceAttribute", ONE),
    }
}

fn text(at: &At<'_, '_>, causes: &mut Causes) {
    if at.text().len() > VALUE_BYTES_MAX {
        causes.too_long(at, VALUE_BYTES_MAX);
    }
}

fn version(at: &At<'_, '_>, causes: &mut Causes) {
    if at.is_present() && !is_version(at.text()) {
        causes.invalid(at, "must be a string compatible with semver.org spec 2.0.0");
    }
    text(at, causes);
}

/// A version of semver.org.
fn is_version(text: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = |part: &str| is_digits(part) && (part == "0" || !part.starts_with('0'));
    let is_pre_release = |part: &str| is_part(part) && (!is_digits(part) || is_number(part));
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (numbers, pre_release) = text.split_once('-').map_or((text, None), |(numbers, rest)| (numbers, Some(rest)));
    let numbers: Vec<&str> = numbers.splitn(4, '.').collect();
    numbers.len() == 3
        && numbers.into_iter().all(is_number)
        && pre_release.is_none_or(|rest| rest.split('.').all(is_pre_release))
        && build.is_none_or(|rest| rest.split('.').all(is_part))
}

fn device_nodes(at: &At<'_, '_>, by_device: bool, causes: &mut Causes) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    const NONE: &str =
        "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let (name, selector, all) = (at.member("nodeName"), at.member("nodeSelector"), at.member("allNodes"));
    if !by_device {
        if name.is_present() || selector.is_present() || all.is_present() {
            causes.invalid_as(at, &Value::Null, NONE);
        }
        return;
    }
    let mut chosen = Vec::new();
    choose_node(&name, "must not be empty", &mut chosen, causes);
    if selector.is_present() {
        chosen.push("`nodeSelector`");
        node_selector::node_selector(&selector, false, causes);
    }
    chosen.extend(flag(&all, causes).then_some("`allNodes`"));
    match chosen.len() {
        0 => causes.required(at, ONE),
        1 => {}
        _ => causes.invalid_as(at, &shown(&chosen), ONE),
    }
}

/// Which resources of a node the capacities of a device are.
fn mappings(at: &At<'_, '_>, capacities: &At<'_, '_>, causes: &mut Causes) {
    for (resource, mapping) in at.entries() {
        let (multiplier, key) = (mapping.member("allocationMultiplier"), mapping.member("capacityKey"));
        if !quantities::is_native(resource) {
            causes.invalid_json(&mapping.with(&resource.into()), "must be a node allocatable resource name");
        }
        if multiplier.is_absent() && key.is_absent() {
            causes.invalid_as(&mapping, &"".into(), "at least one of allocationMultiplier or capacityKey must be set");
        }
        if multiplier.is_present() && quantities::Amount::at(&multiplier) <= quantities::Amount::ZERO {
            causes.invalid(&multiplier, "must be positive");
        }
        if key.is_present() && key.text().is_empty() {
            causes.invalid(&key, "capacityKey must not be an empty string");
        } else if key.is_present() && capacities.key(key.text()).is_absent() {
            causes.not_found(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_version;

    #[test]
    fn versions() {
        let right = ["0.0.0", "1.2.3", "1.2.3-alpha.1", "1.2.3-0a.-", "1.2.3+b.01", "1.2.3-x-y+z-1"];
        let wrong = ["", "1.2", "01.2.3", "1.2.3.4", "v1.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1.2.3+a+b", "1.2.3-a..b", "1.2.3 "];
        for text in right {
            assert!(is_version(text), "{text}");
        }
        for text in wrong {
            assert!(!is_version(text), "{text}");
        }
    }
}
