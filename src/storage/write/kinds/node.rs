//! Nodes.

use serde_json::Value;

use super::{
    row::{JudgedAsNew, Strategy, of_parts},
    warnings::{address, at},
};
use crate::write::tree;
use builtins::node;

pub(super) const NODES: Strategy = Strategy {
    storage: "minions",
    // The kubelet brings the status when it creates its Node.
    creates_status: true,
    judged_as_new: JudgedAsNew::Main,
    validate_create: node::create,
    validate_update: |part, old, new| of_parts(part, || node::update(old, new), || node::update_status(old, new)),
    warn: |_, node, warnings| warn(node, warnings),
    ..Strategy::COMMON
};

fn warn(node: &Value, warnings: &mut Vec<String>) {
    if at(node, "spec.configSource").is_some() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !tree::text(node, &["spec", "externalID"]).is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    for (i, range) in tree::texts(node, &["spec", "podCIDRs"]).into_iter().enumerate() {
        warnings.extend(address::of_range(&format!("spec.podCIDRs[{i}]"), range));
    }
}
