//! LabelSelectors as objects have them.

use serde_json::{Map, Value};

/// Returns whether a LabelSelector selects these labels; none when it is no valid one. The empty one selects all.
#[must_use]
pub fn selects(selector: &Value, labels: Option<&Map<String, Value>>) -> Option<bool> {
    let value = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let equal = selector["matchLabels"].as_object();
    let mut all = equal.is_none_or(|equal| equal.iter().all(|(key, wanted)| value(key) == wanted.as_str()));
    for term in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = term["key"].as_str().unwrap_or_default();
        let values: Vec<&str> = term["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let is_one = value(key).is_some_and(|value| values.contains(&value));
        all &= match (term["operator"].as_str().unwrap_or_default(), values.is_empty()) {
            ("In", false) => is_one,
            ("NotIn", false) => !is_one,
            ("Exists", true) => value(key).is_some(),
            ("DoesNotExist", true) => value(key).is_none(),
            _ => return None,
        };
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_term_counts() {
        let labels = json!({"a": "1", "b": "2"});
        let told = |selector: Value| selects(&selector, labels.as_object());
        assert_eq!((told(Value::Null), told(json!({})), selects(&json!({}), None)), (Some(true), Some(true), Some(true)));
        let term = |operator: &str, values: &[&str]| json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": operator, "values": values}]});
        for (operator, values, want) in [
            ("In", &["2", "3"][..], Some(true)),
            ("In", &["3"], Some(false)),
            ("In", &[], None),
            ("NotIn", &["3"], Some(true)),
            ("NotIn", &["2"], Some(false)),
            ("Exists", &[], Some(true)),
            ("Exists", &["2"], None),
            ("DoesNotExist", &[], Some(false)),
            ("Like", &["2"], None),
        ] {
            assert_eq!(told(term(operator, values)), want, "{operator} {values:?}");
        }
        assert_eq!(told(json!({"matchLabels": {"c": "1"}})), Some(false));
        assert_eq!(selects(&term("NotIn", &["2"])["matchExpressions"][0], None), Some(true), "a term is no selector");
    }
}
