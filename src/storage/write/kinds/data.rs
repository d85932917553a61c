//! ConfigMaps and Secrets: the type of a Secret, and texts that become its data.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::row::{JudgedAsNew, Strategy, of_main};
use crate::write::tree;
use builtins::data;

pub(super) const CONFIG_MAPS: Strategy = Strategy {
    storage: "configmaps",
    judged_as_new: JudgedAsNew::Main,
    validate_create: data::create_config_map,
    validate_update: |part, old, new| of_main(part, || data::update_config_map(old, new)),
    ..Strategy::COMMON
};

pub(super) const SECRETS: Strategy = Strategy {
    storage: "secrets",
    judged_as_new: JudgedAsNew::Main,
    prepare_create: |secret, _| prepare_secret(secret),
    prepare_update: |_, _, secret| prepare_secret(secret),
    validate_create: data::create_secret,
    validate_update: |part, old, new| of_main(part, || data::update_secret(old, new)),
    warn: |_, secret, warnings| warnings.extend(key_pair(secret)),
    ..Strategy::COMMON
};

/// Gives a Secret its type.
fn prepare_secret(object: &mut Value) {
    if tree::text(object, &["type"]).is_empty() {
        tree::set(object, &["type"], "Opaque".into());
    }
}

/// Puts `stringData`, which is for writing only, into `data` (spec api-surface §5.8).
pub(in crate::write) fn encode_string_data(object: &mut Value) {
    let Some(Value::Object(texts)) = tree::object(object).remove("stringData") else { return };
    for (name, text) in texts {
        let encoded = BASE64_STANDARD.encode(text.as_str().unwrap_or(""));
        tree::member(object, "data").insert(name, encoded.into());
    }
}

/// What is plainly wrong with the certificate and the key of a Secret: that there are none.
fn key_pair(secret: &Value) -> Option<String> {
    if tree::text(secret, &["type"]) != "kubernetes.io/tls" {
        return None;
    }
    let has_block = |name: &str| {
        let bytes = BASE64_STANDARD.decode(tree::text(secret, &["data", name])).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains("-----BEGIN ")
    };
    let missing = [("tls.crt", "certificate"), ("tls.key", "key")].into_iter().find(|(name, _)| !has_block(name))?;
    Some(format!("tls: failed to find any PEM data in {} input", missing.1))
}
