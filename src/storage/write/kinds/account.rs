//! ServiceAccounts.

use serde_json::Value;

use super::{
    row::{JudgedAsNew, Strategy},
    warnings::annotation,
};
use crate::write::tree;

const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

pub(super) const SERVICE_ACCOUNTS: Strategy = Strategy {
    storage: "serviceaccounts",
    judged_as_new: JudgedAsNew::Main,
    prepare_create: |account, _| only_names(account),
    prepare_update: |_, _, account| only_names(account),
    warn,
    ..Strategy::COMMON
};

/// Of the Secrets of a ServiceAccount only their names are kept (measured).
fn only_names(object: &mut Value) {
    for secret in object.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        tree::object(secret).retain(|name, _| name == "name");
    }
}

fn warn(old: Option<&Value>, new: &Value, warnings: &mut Vec<String>) {
    if old.is_none_or(|old| annotation(old, MOUNTABLE).is_none()) && annotation(new, MOUNTABLE).is_some() {
        warnings.push(format!(
            "metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        ));
    }
}
