//! Recorded answers of a kube-apiserver, for the tests of this crate: `tests/data/tokens`, made by the script beside it.

use std::fs;
use std::sync::LazyLock;

use serde_json::Value;

use super::directory::{Directory, Kind, Object};
use super::keys::PublicKey;

/// The names of the recorded keys, in the order of the flags.
pub(super) const KEYS: [&str; 4] = ["rsa", "p256", "p384", "p521"];

pub(super) fn file(name: &str) -> Vec<u8> {
    let path = corpus::root().join("tests/data/tokens").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(super) fn all() -> &'static Value {
    static ALL: LazyLock<Value> = LazyLock::new(|| serde_json::from_slice(&file("recorded.json")).expect("JSON"));
    &ALL
}

/// The public keys that the recorded server had.
pub(super) fn keys() -> Vec<PublicKey> {
    KEYS.iter().flat_map(|name| PublicKey::from_pem(&file(&format!("{name}.pub"))).expect("keys")).collect()
}

pub(super) fn issuers() -> Vec<String> {
    all()["issuers"].as_array().expect("a list").iter().map(|issuer| issuer.as_str().expect("a text").to_owned()).collect()
}

/// The objects that the recorded server had.
pub(super) struct Recorded;

impl Directory for Recorded {
    fn object(&self, kind: Kind, namespace: &str, name: &str) -> Option<Object> {
        let of_kind = |kept: &Value| match kind {
            Kind::ServiceAccount => kept["spec"].is_null() && kept["data"].is_null(),
            Kind::Secret => kept["type"].is_string(),
            Kind::Pod => kept["spec"]["containers"].is_array(),
            Kind::Node => kept["status"]["nodeInfo"].is_object(),
        };
        let meta = |kept: &Value, member: &str| kept["metadata"][member].as_str().unwrap_or_default().to_owned();
        let all = all()["objects"].as_object().expect("objects");
        let found = all.values().find(|kept| of_kind(kept) && meta(kept, "name") == name && meta(kept, "namespace") == namespace)?;
        Some(Object::from_json(found.to_string().as_bytes()).expect("an object"))
    }
}
