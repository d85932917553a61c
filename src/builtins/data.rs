//! ConfigMaps and Secrets: their keys, the size of their data, what is immutable, and what a Secret of a type must have.

use std::collections::HashSet;

use serde_json::Value;

use crate::{at::At, causes::Causes, names};
use go::{base64, json, scanner::Scanner};
use model::invalid::FieldError;

/// Bytes of all data of a ConfigMap or a Secret.
const DATA_BYTES_MAX: usize = 1_048_576;
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

/// What is wrong with a new ConfigMap.
#[must_use]
pub fn create_config_map(map: &Value) -> Vec<FieldError> {
    Causes::of(|causes| config_map(&At::root(map), causes))
}

/// What is wrong with a change of a ConfigMap.
#[must_use]
pub fn update_config_map(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    Causes::of(|causes| {
        immutable(&old, &new, &["data", "binaryData"], causes);
        config_map(&new, causes);
    })
}

/// What is wrong with a new Secret.
#[must_use]
pub fn create_secret(secret: &Value) -> Vec<FieldError> {
    Causes::of(|causes| judge_secret(&At::root(secret), causes))
}

/// What is wrong with a change of a Secret.
#[must_use]
pub fn update_secret(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    Causes::of(|causes| {
        if old.member("type").text() != new.member("type").text() {
            causes.invalid_json(&new.member("type"), "field is immutable");
        }
        immutable(&old, &new, &["data"], causes);
        judge_secret(&new, causes);
    })
}

/// `immutable: true` is for ever.
fn immutable(old: &At<'_, '_>, new: &At<'_, '_>, members: &[&str], causes: &mut Causes) {
    if !old.member("immutable").is_true() {
        return;
    }
    if !new.member("immutable").is_true() {
        causes.forbidden(&new.member("immutable"), IMMUTABLE);
    }
    for member in members.iter().filter(|member| old.member(member).value() != new.member(member).value()) {
        causes.forbidden(&new.member(member), IMMUTABLE);
    }
}

fn config_map(map: &At<'_, '_>, causes: &mut Causes) {
    let (data, binary) = (map.member("data"), map.member("binaryData"));
    let taken: HashSet<&str> = binary.entries().map(|(key, _)| key).collect();
    let mut bytes = 0;
    for (key, value) in data.entries() {
        key_of_data(key, &value, causes);
        if taken.contains(key) {
            causes.invalid_as(&value, &key.into(), "duplicate of key present in binaryData");
        }
        bytes += value.text().len();
    }
    for (key, value) in binary.entries() {
        key_of_data(key, &value, causes);
        bytes += decoded_length(value.text());
    }
    if bytes > DATA_BYTES_MAX {
        // Go's path of one empty name.
        causes.add(FieldError::too_long("[]", DATA_BYTES_MAX));
    }
}

fn key_of_data(key: &str, value: &At<'_, '_>, causes: &mut Causes) {
    names::config_key(key).iter().for_each(|why| causes.invalid_as(value, &key.into(), why));
}

/// The bytes that a base64 text stands for.
fn decoded_length(text: &str) -> usize {
    (text.len() / 4 * 3).saturating_sub(text.bytes().rev().take_while(|byte| *byte == b'=').count())
}

fn judge_secret(secret: &At<'_, '_>, causes: &mut Causes) {
    let data = secret.member("data");
    let mut bytes = 0;
    for (key, value) in data.entries() {
        key_of_data(key, &value, causes);
        bytes += decoded_length(value.text());
    }
    if bytes > DATA_BYTES_MAX {
        causes.too_long(&data, DATA_BYTES_MAX);
    }
    of_type(secret, &data, causes);
}

/// What a Secret of its type must have.
fn of_type(secret: &At<'_, '_>, data: &At<'_, '_>, causes: &mut Causes) {
    let has = |key: &str| data.map().is_some_and(|data| data.contains_key(key));
    let require = |keys: &[&str], causes: &mut Causes| {
        keys.iter().filter(|key| !has(key)).for_each(|key| causes.required(&data.key(key), ""));
    };
    match secret.member("type").text() {
        "kubernetes.io/service-account-token" => {
            let metadata = secret.member("metadata");
            let annotations = metadata.member("annotations");
            let name = annotations.key("kubernetes.io/service-account.name");
            if name.text().is_empty() {
                causes.required(&name, "");
            }
        }
        "kubernetes.io/dockercfg" if has(".dockercfg") => object_in(&data.key(".dockercfg"), causes),
        "kubernetes.io/dockercfg" => require(&[".dockercfg"], causes),
        "kubernetes.io/dockerconfigjson" if has(".dockerconfigjson") => object_in(&data.key(".dockerconfigjson"), causes),
        "kubernetes.io/dockerconfigjson" => require(&[".dockerconfigjson"], causes),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => require(&["username", "password"], causes),
        "kubernetes.io/ssh-auth" if data.key("ssh-privatekey").text().is_empty() => causes.required(&data.key("ssh-privatekey"), ""),
        "kubernetes.io/tls" => require(&["tls.crt", "tls.key"], causes),
        _ => {}
    }
}

/// Data that must be a JSON object, or null.
fn object_in(at: &At<'_, '_>, causes: &mut Causes) {
    let bytes = base64::decode(at.text()).unwrap_or_default();
    if let Err(why) = read_object(&bytes) {
        causes.invalid_as(at, &"<secret contents redacted>".into(), &why);
    }
}

/// Returns why `encoding/json` makes no map of a text.
fn read_object(text: &[u8]) -> Result<(), String> {
    let mut scanner = Scanner::new(text);
    let (start, _) = scanner.value()?;
    scanner.end()?;
    let kind = match text.get(start) {
        None | Some(b'{' | b'n') => return Ok(()),
        Some(b'[') => json::kind(&Value::Array(Vec::new())),
        Some(b'"') => json::kind(&Value::String(String::new())),
        Some(b't' | b'f') => json::kind(&Value::Bool(true)),
        _ => json::kind(&0.into()),
    };
    Err(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
}
