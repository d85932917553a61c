//! Which labels a `LabelSelector` selects.

use serde_json::{Map, Value};

use crate::at::At;
use model::legal::{wrong_key, wrong_value};

/// Whether Go can make a selector of it: only one whose operators, keys and values are legal. An absent one is a selector that selects nothing.
pub(crate) fn is_usable(selector: &At<'_, '_>) -> bool {
    let labels = selector.member("matchLabels");
    let expressions = selector.member("matchExpressions");
    labels.entries().all(|(key, value)| wrong_key(key).is_empty() && wrong_value(value.text()).is_empty())
        && expressions.items().all(|expression| is_requirement(&expression))
}

fn is_requirement(expression: &At<'_, '_>) -> bool {
    let values = expression.member("values");
    let fits = match expression.member("operator").text() {
        "In" | "NotIn" => values.len() > 0,
        "Exists" | "DoesNotExist" => values.len() == 0,
        _ => false,
    };
    fits && wrong_key(expression.member("key").text()).is_empty() && values.items().all(|value| wrong_value(value.text()).is_empty())
}

/// Whether a selector that is there requires nothing.
pub(crate) fn is_empty(selector: &At<'_, '_>) -> bool {
    selector.member("matchLabels").len() + selector.member("matchExpressions").len() == 0
}

/// Whether a usable selector selects these labels.
pub(crate) fn selects(selector: &At<'_, '_>, labels: Option<&Map<String, Value>>) -> bool {
    selector.is_present() && model::selector::selects(selector.value(), labels) == Some(true)
}
