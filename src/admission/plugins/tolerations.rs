//! DefaultTolerationSeconds: a Pod that says nothing tolerates a node that is not ready or not reached for five minutes.

use serde_json::{Value, json};

use super::write::Write;
use crate::{Operation, tree};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const NO_EXECUTE: &str = "NoExecute";

pub(super) fn mutate(write: &Write<'_>, pod: &mut Value, (not_ready, unreachable): (i64, i64)) {
    if !write.is_of("", "pods") || write.operation == Operation::Delete {
        return;
    }
    let has = |key: &str| {
        tree::items(pod, &["spec", "tolerations"])
            .any(|known| matches!(tree::text(known, &["effect"]), NO_EXECUTE | "") && [key, ""].contains(&tree::text(known, &["key"])))
    };
    let missing: Vec<Value> = [(NOT_READY, not_ready), (UNREACHABLE, unreachable)]
        .into_iter()
        .filter(|(key, _)| !has(key))
        .map(|(key, seconds)| json!({"key": key, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": seconds}))
        .collect();
    if !missing.is_empty() {
        tree::list(tree::member(pod, "spec"), "tolerations").extend(missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::{
        Plugin,
        testing::{Objects, admitted, creation, pod, update},
    };

    fn toleration(key: &str, operator: &str, effect: &str, seconds: Option<i64>) -> Value {
        let mut made = json!({});
        for (name, text) in [("key", key), ("operator", operator), ("effect", effect)] {
            if !text.is_empty() {
                made[name] = text.into();
            }
        }
        if let Some(seconds) = seconds {
            made["tolerationSeconds"] = seconds.into();
        }
        made
    }

    /// The cases of `TestForgivenessAdmission`.
    #[test]
    fn what_a_pod_does_not_tolerate_is_tolerated_for_a_while() {
        let default = |key| toleration(key, "Exists", "NoExecute", Some(300));
        let (ready, reached) = (default(NOT_READY), default(UNREACHABLE));
        let other = toleration("foo", "Equal", "NoSchedule", None);
        let long = |key| toleration(key, "Exists", "NoExecute", Some(700));
        let bare = |key| toleration(key, "Exists", "", Some(700));
        for (sent, added) in [
            (vec![], vec![&ready, &reached]),
            (vec![other.clone()], vec![&ready, &reached]),
            (vec![long(NOT_READY)], vec![&reached]),
            (vec![long(UNREACHABLE)], vec![&ready]),
            (vec![long(NOT_READY), long(UNREACHABLE)], vec![]),
            (vec![toleration(NOT_READY, "Exists", "NoSchedule", None)], vec![&ready, &reached]),
            (vec![bare(NOT_READY)], vec![&reached]),
            (vec![toleration("", "Exists", "NoExecute", Some(700))], vec![]),
            (vec![toleration("", "Exists", "", None)], vec![]),
        ] {
            let mut sent_pod = json!({});
            if !sent.is_empty() {
                sent_pod["tolerations"] = sent.clone().into();
            }
            let want: Vec<Value> = sent.iter().chain(added).cloned().collect();
            let old = pod(&sent_pod);
            for write in [creation("pods"), update("pods", &old)] {
                let made = admitted(Plugin::DefaultTolerationSeconds, &write, &old, &Objects::default()).expect("nothing is refused");
                assert_eq!(made["spec"]["tolerations"], Value::from(want.clone()), "{sent:?}");
            }
        }
        let status = Write { subresource: "status", ..creation("pods") };
        let made = admitted(Plugin::DefaultTolerationSeconds, &status, &pod(&json!({})), &Objects::default());
        assert_eq!(made, Ok(pod(&json!({}))));
    }
}
