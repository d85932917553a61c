//! Labels of nodes that have another name by now, wherever nodes are selected (`pkg/api/node`).

use serde_json::Value;

use super::items;
use crate::write::tree;
use model::legal;

const RENAMED: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    ("failure-domain.beta.kubernetes.io/region", "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// What became of a label, if it has another name.
pub(in crate::write::kinds) fn renamed(label: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(old, _)| *old == label).map(|(_, why)| *why)
}

/// Labels in the expressions of a selector of nodes; with `values`, those that can be no label's value too.
pub(in crate::write::kinds) fn of_expressions(path: &str, selector: &Value, values: bool, warnings: &mut Vec<String>) {
    for (i, expression) in items(selector, &["matchExpressions"]).enumerate() {
        let key = tree::text(expression, &["key"]);
        if let Some(why) = renamed(key) {
            warnings.push(format!("{path}.matchExpressions[{i}].key: {key} is {why}"));
        }
        for (j, value) in tree::texts(expression, &["values"]).into_iter().enumerate().filter(|_| values) {
            let wrong = legal::wrong_value(value);
            warnings.extend(wrong.into_iter().map(|why| format!("{path}.matchExpressions[{i}].values[{j}]: {value} is invalid, {why}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn old_names_and_wrong_values_are_told() {
        let mut told = Vec::new();
        let selector = json!({"matchExpressions": [{"key": "x"}, {"key": "beta.kubernetes.io/os", "values": ["-"]}]});
        of_expressions("p", &selector, false, &mut told);
        assert_eq!(told, ["p.matchExpressions[1].key: beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" instead"]);
        of_expressions("p", &selector, true, &mut told);
        assert!(told.len() == 3 && told[2].starts_with("p.matchExpressions[1].values[0]: - is invalid, a valid label must be"), "{told:?}");
    }
}
