//! What the kinds of dynamic resource allocation share (`pkg/apis/resource/validation`): names of drivers, pools and attributes, selectors, configurations,
//! taints and tolerations, sets and maps.
//!
//! Expressions of selectors are not compiled here.

use std::{borrow::Cow, collections::HashSet};

use serde_json::Value;

use crate::{at::At, causes::Causes, labels::label_key, meta, names};
use go::quote::quoted;

const DRIVER_BYTES_MAX: usize = 63;
const POOL_BYTES_MAX: usize = 253;
const ID_BYTES_MAX: usize = 32;
const EXPRESSION_BYTES_MAX: usize = 10 << 10;
const PARAMETERS_BYTES_MAX: usize = 10 << 10;
const SELECTORS_MAX: usize = 32;
pub(crate) const CONFIGS_MAX: usize = 32;
const BINDING_CONDITIONS_MAX: usize = 4;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
const ELLIPSIS: &str = "...";

/// Items of a list that has at most so many; of a longer one none is judged.
pub(crate) fn slice<'v>(list: &At<'_, 'v>, max: usize, causes: &mut Causes, mut judge: impl FnMut(&At<'_, 'v>, &mut Causes)) -> bool {
    let fits = list.len() <= max;
    match fits {
        true => list.items().for_each(|item| judge(&item, causes)),
        false => causes.too_many(list, max),
    }
    fits
}

/// The same of items of which no two have the same key.
pub(crate) fn set<'v>(
    list: &At<'_, 'v>,
    max: usize,
    key: impl Fn(&At<'_, 'v>) -> Value,
    causes: &mut Causes,
    judge: impl FnMut(&At<'_, 'v>, &mut Causes),
) {
    let mut known = HashSet::new();
    if !slice(list, max, causes, judge) {
        return;
    }
    for item in list.items() {
        let key = key(&item);
        if known.contains(&key) {
            causes.duplicate(&item.with(&key));
        } else {
            known.insert(key);
        }
    }
}

/// Keys and values of a map; errors of a key have the path of the map, and long keys are cut in paths.
pub(crate) fn map(
    map: &At<'_, '_>,
    max: Option<usize>,
    key_bytes_max: usize,
    causes: &mut Causes,
    judge_key: impl Fn(&At<'_, '_>, &mut Causes),
    judge: impl Fn(&At<'_, '_>, &mut Causes),
) {
    if let Some(max) = max.filter(|max| map.len() > *max) {
        return causes.too_many(map, max);
    }
    for (key, value) in map.entries() {
        let (shown, place) = (Value::from(key), cut(key, key_bytes_max));
        judge_key(&map.with(&shown), causes);
        judge(&map.key(&place).with(value.value()), causes);
    }
}

/// The text without its middle when it is longer.
fn cut(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return text.into();
    }
    let (bytes, rest) = (text.as_bytes(), max - ELLIPSIS.len());
    let (begin, end) = (&bytes[..rest.div_ceil(2)], &bytes[bytes.len() - rest / 2..]);
    format!("{}{ELLIPSIS}{}", String::from_utf8_lossy(begin), String::from_utf8_lossy(end)).into()
}

/// The key of a set of plain texts.
pub(crate) fn itself(item: &At<'_, '_>) -> Value {
    item.text().into()
}

/// The key of a set of named items.
pub(crate) fn named(item: &At<'_, '_>) -> Value {
    item.member("name").text().into()
}

/// The name of a driver (`ValidateCSIDriverName`).
pub(crate) fn driver(at: &At<'_, '_>, causes: &mut Causes) {
    if !meta::present(at, "", causes) {
        return;
    }
    if at.text().len() > DRIVER_BYTES_MAX {
        causes.too_long(at, DRIVER_BYTES_MAX);
    }
    causes.each_invalid(at, names::subdomain(&at.text().to_lowercase()));
}

/// The name of a pool: subdomains with slashes between.
pub(crate) fn pool(at: &At<'_, '_>, causes: &mut Causes) {
    if !meta::present(at, "", causes) {
        return;
    }
    if at.text().len() > POOL_BYTES_MAX {
        causes.too_long(at, POOL_BYTES_MAX);
    }
    for part in at.text().split('/') {
        meta::subdomain(&at.with(&part.into()), causes);
    }
}

/// The name of a DeviceClass.
pub(crate) fn class(at: &At<'_, '_>, causes: &mut Causes) {
    if meta::present(at, "", causes) {
        meta::subdomain(at, causes);
    }
}

/// The key of an attribute or of a capacity: an identifier, with the domain of a driver or without. More than one slash is not noticed.
pub(crate) fn qualified(at: &At<'_, '_>, causes: &mut Causes) {
    let parts: Vec<&str> = at.text().splitn(3, '/').collect();
    let empty = Value::from("");
    match parts[..] {
        [name] => identifier(&at.with(&name.into()), causes),
        [domain, name] => {
            match domain {
                "" => causes.invalid(&at.with(&empty), "the domain must not be empty"),
                domain => driver(&at.with(&domain.into()), causes),
            }
            match name {
                "" => causes.invalid(&at.with(&empty), "the name must not be empty"),
                name => identifier(&at.with(&name.into()), causes),
            }
        }
        _ => {}
    }
}

/// The same with a domain.
pub(crate) fn fully_qualified(at: &At<'_, '_>, causes: &mut Causes) {
    qualified(at, causes);
    if !at.text().contains('/') {
        causes.invalid_json(at, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn identifier(at: &At<'_, '_>, causes: &mut Causes) {
    if at.text().len() > ID_BYTES_MAX {
        causes.too_long(at, ID_BYTES_MAX);
    }
    causes.each_invalid(at, names::c_identifier(at.text()));
}

/// A UUID in its normal form.
pub(crate) fn uid(at: &At<'_, '_>, causes: &mut Causes) {
    let text = at.text();
    if let Some(why) = wrong_uuid(text) {
        causes.invalid_text(at, &format!("error validating uid: {why}"));
    } else if text.len() != 36 || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        let why = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
        causes.invalid_text(at, why);
    }
}

/// Why a text is no UUID in any form (`uuid.Validate` of google/uuid).
fn wrong_uuid(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let plain = match bytes.len() {
        36 => bytes,
        45 if bytes[..9].eq_ignore_ascii_case(b"urn:uuid:") => &bytes[9..],
        45 => return Some(format!("invalid urn prefix: {}", quoted(&String::from_utf8_lossy(&bytes[..9])))),
        38 if bytes.starts_with(b"{") && bytes.ends_with(b"}") => &bytes[1..37],
        38 => return Some("invalid bracketed UUID format".to_owned()),
        32 => return (!bytes.iter().all(u8::is_ascii_hexdigit)).then(|| "invalid UUID format".to_owned()),
        length => return Some(format!("invalid UUID length: {length}")),
    };
    let right =
        plain.iter().enumerate().all(|(i, byte)| if matches!(i, 8 | 13 | 18 | 23) { *byte == b'-' } else { byte.is_ascii_hexdigit() });
    (!right).then(|| "invalid UUID format".to_owned())
}

/// Selectors of devices.
pub(crate) fn selectors(at: &At<'_, '_>, causes: &mut Causes) {
    slice(at, SELECTORS_MAX, causes, |selector, causes| {
        let cel = selector.member("cel");
        let expression = cel.member("expression");
        if cel.is_absent() {
            causes.required(&cel, "");
        } else if expression.text().len() > EXPRESSION_BYTES_MAX {
            causes.too_long(&expression, EXPRESSION_BYTES_MAX);
        }
    });
}

/// The configuration of a driver. Of what was stored before, the length is not judged.
pub(crate) fn configuration(at: &At<'_, '_>, is_stored: bool, causes: &mut Causes) {
    let opaque = at.member("opaque");
    if opaque.is_absent() {
        return causes.required(&opaque, "");
    }
    driver(&opaque.member("driver"), causes);
    raw_object(&opaque.member("parameters"), is_stored, causes);
}

/// A JSON object of any content.
pub(crate) fn raw_object(at: &At<'_, '_>, is_stored: bool, causes: &mut Causes) {
    if at.is_absent() {
        causes.required(at, "");
    } else if !is_stored && at.value().to_string().len() > PARAMETERS_BYTES_MAX {
        causes.too_long(at, PARAMETERS_BYTES_MAX);
    } else if at.map().is_none() {
        causes.invalid_as(at, &"<value omitted>".into(), "must be a valid JSON object");
    }
}

/// A toleration of tainted devices.
pub(crate) fn toleration(at: &At<'_, '_>, causes: &mut Causes) {
    let (key, operator, value, effect) = (at.member("key"), at.member("operator"), at.member("value"), at.member("effect"));
    if !key.text().is_empty() {
        label_key(&key, causes);
    }
    match operator.text() {
        "Exists" if !value.text().is_empty() => causes.invalid(&value, "must be empty for operator `Exists`"),
        "Exists" => {}
        "Equal" => causes.each_invalid(&value, names::label_value(value.text())),
        "" => causes.required(&operator, ""),
        _ => causes.not_supported(&operator, &["Equal", "Exists"]),
    }
    if !effect.text().is_empty() && !EFFECTS.contains(&effect.text()) {
        causes.not_supported(&effect, &EFFECTS);
    }
}

/// The taint of a device.
pub(crate) fn taint(at: &At<'_, '_>, causes: &mut Causes) {
    let (value, effect) = (at.member("value"), at.member("effect"));
    label_key(&at.member("key"), causes);
    causes.each_invalid(&value, names::label_value(value.text()));
    match effect.text() {
        "" => causes.required(&effect, ""),
        text if EFFECTS.contains(&text) => {}
        _ => causes.not_supported(&effect, &EFFECTS),
    }
}

/// Conditions that must hold, or end it, before a Pod is bound.
pub(crate) fn binding_conditions(at: &At<'_, '_>, causes: &mut Causes) {
    let (conditions, failures) = (at.member("bindingConditions"), at.member("bindingFailureConditions"));
    for list in [&conditions, &failures] {
        slice(list, BINDING_CONDITIONS_MAX, causes, |item, causes| label_key(item, causes));
    }
    let known: HashSet<&str> = conditions.items().map(|item| item.text()).collect();
    for list in [&conditions, &failures] {
        let is_failures = std::ptr::eq(list, &raw const failures);
        let mut before = HashSet::new();
        for item in list.items() {
            if !before.insert(item.text()) {
                causes.duplicate(&item);
            }
            if is_failures && known.contains(item.text()) {
                causes.invalid(&item, "bindingFailureConditions must not overlap with bindingConditions");
            }
        }
    }
    if conditions.len() == 0 && failures.len() > 0 {
        causes.invalid(&conditions, "bindingConditions are required to use bindingFailureConditions");
    }
    if failures.len() == 0 && conditions.len() > 0 {
        causes.invalid(&failures, "bindingFailureConditions are required to use bindingConditions");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids() {
        let right = "5f8a1c2e-0b7d-4c6a-9e3f-1a2b3c4d5e6f";
        let bare = right.replace('-', "");
        for text in [right.to_owned(), bare.clone(), format!("{{{right}}}"), format!("URN:uuid:{right}")] {
            assert_eq!(wrong_uuid(&text), None, "{text}");
        }
        let cases = [
            ("".to_owned(), "invalid UUID length: 0"),
            (right.replace('-', "x"), "invalid UUID format"),
            (right.replace('f', "g"), "invalid UUID format"),
            (bare.replace('f', "g"), "invalid UUID format"),
            (format!("({right})"), "invalid bracketed UUID format"),
            (format!("urn:uuid-{right}"), "invalid urn prefix: \"urn:uuid-\""),
        ];
        for (text, why) in cases {
            assert_eq!(wrong_uuid(&text).as_deref(), Some(why), "{text}");
        }
    }

    #[test]
    fn long_keys_are_cut() {
        assert_eq!(cut("abc", 16), "abc");
        assert_eq!(cut("0123456789abcdefg", 16), "0123456...bcdefg");
    }
}
