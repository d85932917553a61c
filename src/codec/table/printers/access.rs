//! The rows of bindings and certificate requests.

use super::Printer;
use crate::table::{
    age::human_seconds,
    cell::{NONE, Row, condition, joined},
    node::Node,
};

const fn printer(print: fn(&Node<'_>, &mut Row<'_>)) -> Printer {
    Printer { paths: &[], print }
}

pub(super) const PRINTERS: &[(&str, Printer)] = &[
    ("rbac.authorization.k8s.io/rolebindings", printer(binding)),
    ("rbac.authorization.k8s.io/clusterrolebindings", printer(binding)),
    ("certificates.k8s.io/certificatesigningrequests", printer(signing_request)),
];

fn binding(object: &Node<'_>, row: &mut Row<'_>) {
    let role = object.at("roleRef");
    row.name(object).text(&format!("{}/{}", role.at("kind").text(), role.at("name").text())).age(object);
    for kind in ["User", "Group", "ServiceAccount"] {
        let subjects = object.at("subjects").items().iter().filter(|subject| subject.at("kind").text() == kind);
        row.text(&joined(subjects.map(subject_name), ", "));
    }
}

fn subject_name(subject: &Node<'_>) -> String {
    let name = subject.at("name").text();
    if subject.at("kind").text() == "ServiceAccount" { format!("{}/{name}", subject.at("namespace").text()) } else { name.to_owned() }
}

fn signing_request(object: &Node<'_>, row: &mut Row<'_>) {
    let spec = object.at("spec");
    let expiration = spec.at("expirationSeconds");
    let duration = if expiration.is_there() { human_seconds(expiration.int()) } else { NONE.to_owned() };
    row.name(object).age(object).text_or(spec.at("signerName").text(), NONE).text(spec.at("username").text());
    row.text(&duration).text(&signing_state(object.at("status")));
}

fn signing_state(status: &Node<'_>) -> String {
    let has = |kind| condition(status.at("conditions"), kind).is_some();
    let decision = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if status.at("certificate").text().is_empty() { "" } else { ",Issued" };
    format!("{decision}{failed}{issued}")
}
