//! Selectors of nodes, of Pods and of volumes (`ValidateNodeSelector`).

use crate::{at::At, causes::Causes, labels::label_key, names};

/// A selector with at least one term. `any_value`: values that are no values of labels were there before.
pub(crate) fn node_selector(at: &At<'_, '_>, any_value: bool, causes: &mut Causes) {
    let terms = at.member("nodeSelectorTerms");
    if terms.len() == 0 {
        return causes.required(&terms, "must have at least one node selector term");
    }
    terms.items().for_each(|term| node_selector_term(&term, any_value, causes));
}

/// `ValidateNodeSelectorTerm`.
pub(crate) fn node_selector_term(at: &At<'_, '_>, any_value: bool, causes: &mut Causes) {
    at.member("matchExpressions").items().for_each(|expression| by_label(&expression, any_value, causes));
    at.member("matchFields").items().for_each(|field| by_field(&field, causes));
}

fn by_label(at: &At<'_, '_>, any_value: bool, causes: &mut Causes) {
    let (operator, values) = (at.member("operator"), at.member("values"));
    match operator.text() {
        "In" | "NotIn" if values.len() == 0 => causes.required(&values, "must be specified when `operator` is 'In' or 'NotIn'"),
        "Exists" | "DoesNotExist" if values.len() > 0 => {
            causes.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            causes.required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => causes.invalid_json(&operator, "not a valid selector operator"),
    }
    label_key(&at.member("key"), causes);
    if !any_value {
        values.items().for_each(|value| causes.each_invalid(&value, names::label_value(value.text())));
    }
}

fn by_field(at: &At<'_, '_>, causes: &mut Causes) {
    let (operator, values, key) = (at.member("operator"), at.member("values"), at.member("key"));
    match operator.text() {
        "In" | "NotIn" if values.len() != 1 => {
            causes.required(&values, "must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
        }
        "In" | "NotIn" => {}
        _ => causes.invalid_json(&operator, "not a valid selector operator"),
    }
    if key.text() == "metadata.name" {
        values.items().for_each(|value| causes.each_invalid(&value, names::subdomain(value.text())));
    } else {
        causes.invalid_text(&key, "not a valid field selector key");
    }
}

/// Whether a selector has values that are no values of labels (`HasInvalidLabelValueInNodeSelectorTerms`).
pub(crate) fn has_wrong_value(selector: &At<'_, '_>) -> bool {
    let is_wrong = |value: At<'_, '_>| !names::label_value(value.text()).is_empty();
    let terms = selector.member("nodeSelectorTerms");
    terms.items().any(|term| term.member("matchExpressions").items().any(|expression| expression.member("values").items().any(is_wrong)))
}
