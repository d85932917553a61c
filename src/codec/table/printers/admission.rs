//! The rows of admission webhooks and policies.

use super::Printer;
use crate::table::{
    cell::{Row, UNSET, selector_debug},
    node::Node,
};

const fn printer(print: fn(&Node<'_>, &mut Row<'_>)) -> Printer {
    Printer { paths: &[], print }
}

pub(super) const PRINTERS: &[(&str, Printer)] = &[
    ("admissionregistration.k8s.io/mutatingwebhookconfigurations", printer(webhooks)),
    ("admissionregistration.k8s.io/validatingwebhookconfigurations", printer(webhooks)),
    ("admissionregistration.k8s.io/validatingadmissionpolicies", printer(|object, row| policy(object, "validations", row))),
    ("admissionregistration.k8s.io/mutatingadmissionpolicies", printer(|object, row| policy(object, "mutations", row))),
    ("admissionregistration.k8s.io/validatingadmissionpolicybindings", printer(binding)),
    ("admissionregistration.k8s.io/mutatingadmissionpolicybindings", printer(binding)),
];

fn webhooks(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).count(object.at("webhooks").len()).age(object);
}

fn policy(object: &Node<'_>, counted: &str, row: &mut Row<'_>) {
    let kind = object.path("spec.paramKind");
    let text = format!("{}/{}", kind.at("apiVersion").text(), kind.at("kind").text());
    row.name(object).count(object.at("spec").at(counted).len()).text(if kind.is_there() { &text } else { UNSET }).age(object);
}

fn binding(object: &Node<'_>, row: &mut Row<'_>) {
    let parameter = object.path("spec.paramRef");
    let text = match (parameter.at("name").text(), parameter.at("namespace").text()) {
        ("", _) if parameter.at("selector").is_there() => selector_debug(parameter.at("selector")),
        ("", _) => UNSET.to_owned(),
        // Whether it is cluster-scoped cannot be told from here.
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    };
    row.name(object).text(object.path("spec.policyName").text()).text(&text).age(object);
}
