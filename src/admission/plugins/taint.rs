//! TaintNodesByCondition: a new node takes no Pods until it is ready.

use serde_json::{Value, json};

use super::write::Write;
use crate::tree;

const KEY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

pub(super) fn mutate(write: &Write<'_>, node: &mut Value) {
    if !write.creates() || !write.is_of("", "nodes") {
        return;
    }
    let is_taint = |taint: &Value| (tree::text(taint, &["key"]), tree::text(taint, &["effect"])) == (KEY, EFFECT);
    if !tree::items(node, &["spec", "taints"]).any(is_taint) {
        tree::list(tree::member(node, "spec"), "taints").push(json!({"key": KEY, "effect": EFFECT}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::{
        Plugin,
        testing::{Objects, admitted, creation, update},
    };

    /// The cases of `Test_nodeTaints`.
    #[test]
    fn a_new_node_has_the_taint_once() {
        let (taint, other) = (json!({"key": KEY, "effect": EFFECT}), json!({"key": KEY, "effect": "NoExecute"}));
        let node = |taints: &[&Value]| json!({"metadata": {"name": "n"}, "spec": {"taints": taints}});
        let bare = json!({"metadata": {"name": "n"}});
        for (write, sent, want) in [
            (creation("nodes"), bare.clone(), node(&[&taint])),
            (creation("nodes"), node(&[&taint]), node(&[&taint])),
            (creation("nodes"), node(&[&other]), node(&[&other, &taint])),
            (update("nodes", &bare), bare.clone(), bare.clone()),
        ] {
            assert_eq!(admitted(Plugin::TaintNodesByCondition, &write, &sent, &Objects::default()), Ok(want), "{sent}");
        }
    }
}
