//! The rows of nodes, namespaces, configuration, events, and of what the API server keeps for itself.

use std::collections::BTreeSet;

use super::{NAME_AND_AGE, Printer, name_and_age};
use crate::table::{
    cell::{NONE, Row, condition, joined, moment, quantity},
    node::Node,
};

const fn printer(print: fn(&Node<'_>, &mut Row<'_>)) -> Printer {
    Printer { paths: &[], print }
}

/// What the row of a node is made of; its images are most of its status.
const NODE_PATHS: &[&str] = &[
    "metadata.name",
    "metadata.creationTimestamp",
    "metadata.labels",
    "spec.unschedulable",
    "status.conditions.type",
    "status.conditions.status",
    "status.addresses",
    "status.nodeInfo",
];

pub(super) const PRINTERS: &[(&str, Printer)] = &[
    ("/nodes", Printer { paths: NODE_PATHS, print: node }),
    ("/namespaces", Printer { paths: &["metadata.name", "metadata.creationTimestamp", "status.phase"], print: namespace }),
    ("/componentstatuses", printer(component_status)),
    ("/configmaps", Printer { paths: &["metadata.name", "metadata.creationTimestamp", "data!", "binaryData!"], print: config_map }),
    ("/secrets", Printer { paths: &["metadata.name", "metadata.creationTimestamp", "type", "data!"], print: secret }),
    ("/serviceaccounts", Printer { paths: NAME_AND_AGE, print: name_and_age }),
    ("/resourcequotas", printer(resource_quota)),
    ("/events", printer(event)),
    ("coordination.k8s.io/leases", printer(lease)),
    ("scheduling.k8s.io/priorityclasses", printer(priority_class)),
    ("node.k8s.io/runtimeclasses", printer(runtime_class)),
    ("apiregistration.k8s.io/apiservices", printer(api_service)),
    ("flowcontrol.apiserver.k8s.io/flowschemas", printer(flow_schema)),
    ("flowcontrol.apiserver.k8s.io/prioritylevelconfigurations", printer(priority_level)),
];

fn node(object: &Node<'_>, row: &mut Row<'_>) {
    let info = object.path("status.nodeInfo");
    // Of two conditions of a type, Go's map keeps the last.
    let ready = object.path("status.conditions").items().iter().rev().find(|known| known.at("type").text() == "Ready");
    let status = ready.map_or("Unknown", |ready| if ready.at("status").text() == "True" { "Ready" } else { "NotReady" });
    let disabled = if object.path("spec.unschedulable").is_true() { ",SchedulingDisabled" } else { "" };
    row.name(object).text(&format!("{status}{disabled}")).text_or(&roles(object), NONE).age(object).text(info.at("kubeletVersion").text());
    let address = |kind: &str| object.path("status.addresses").items().iter().find(|known| known.at("type").text() == kind);
    for kind in ["InternalIP", "ExternalIP"] {
        row.text(address(kind).map_or(NONE, |address| address.at("address").text()));
    }
    let kernel = info.at("kernelVersion").text_or("<unknown>");
    let kernel = match info.at("architecture").text() {
        "" => kernel.to_owned(),
        architecture => format!("{kernel} ({architecture})"),
    };
    row.text(info.at("osImage").text_or("<unknown>")).text(&kernel).text(info.at("containerRuntimeVersion").text_or("<unknown>"));
}

/// The roles that labels give a node, sorted.
fn roles(node: &Node<'_>) -> String {
    let labels = node.path("metadata.labels").members().iter();
    let roles: BTreeSet<&str> = labels.filter_map(|(key, value)| role(key, value.text())).collect();
    joined(roles, ",")
}

fn role<'n>(key: &'n str, value: &'n str) -> Option<&'n str> {
    let named = key.strip_prefix("node-role.kubernetes.io/");
    named.or((key == "kubernetes.io/role").then_some(value)).filter(|role| !role.is_empty())
}

fn namespace(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).text(object.path("status.phase").text()).age(object);
}

fn component_status(object: &Node<'_>, row: &mut Row<'_>) {
    let healthy = object.path("conditions").items().iter().find(|condition| condition.at("type").text() == "Healthy");
    let of = |name: &str| healthy.map_or("", |condition| condition.at(name).text());
    let status = match (healthy, of("status")) {
        (None, _) => "Unknown",
        (Some(_), "True") => "Healthy",
        (Some(_), _) => "Unhealthy",
    };
    row.name(object).text(status).text(of("message")).text(of("error"));
}

fn config_map(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).count(object.at("data").len() + object.at("binaryData").len()).age(object);
}

fn secret(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).text(object.at("type").text()).count(object.at("data").len()).age(object);
}

fn resource_quota(object: &Node<'_>, row: &mut Row<'_>) {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in object.path("status.hard").sorted() {
        let used = quantity(object.path("status.used").at(resource));
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{}", quantity(hard)));
    }
    row.name(object).text(&requests.join(", ")).text(&limits.join(", ")).age(object);
}

/// A core/v1 Event, in which form those of events.k8s.io are stored too.
fn event(object: &Node<'_>, row: &mut Row<'_>) {
    let (involved, series) = (object.at("involvedObject"), object.at("series"));
    let first = moment(object.at("firstTimestamp")).or_else(|| moment(object.at("eventTime")));
    let first_text = row.elapsed(first);
    let last_text = match moment(object.at("lastTimestamp")) {
        _ if series.is_there() => row.since(series.at("lastObservedTime")),
        Some(last) => row.elapsed(Some(last)),
        None => first_text.clone(),
    };
    let count = match object.at("count").int() {
        _ if series.is_there() => series.at("count").int(),
        0 => 1,
        count => count,
    };
    let kind = involved.at("kind").text().to_lowercase();
    let target = match involved.at("name").text() {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    row.text(&last_text).text(object.at("type").text()).text(object.at("reason").text()).text(&target);
    row.text(involved.at("fieldPath").text()).text(&source(object)).text(object.at("message").text().trim());
    row.text(&first_text).int(count).name(object);
}

fn source(event: &Node<'_>) -> String {
    let component = event.path("source.component").text_or(event.at("reportingComponent").text());
    match event.path("source.host").text_or(event.at("reportingInstance").text()) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}

fn lease(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).text(object.path("spec.holderIdentity").text()).age(object);
}

fn priority_class(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).int(object.at("value").int()).flag(object.at("globalDefault").is_true()).age(object);
    row.text(object.at("preemptionPolicy").text());
}

fn runtime_class(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).text(object.at("handler").text()).age(object);
}

fn api_service(object: &Node<'_>, row: &mut Row<'_>) {
    let service = object.path("spec.service");
    let name = format!("{}/{}", service.at("namespace").text(), service.at("name").text());
    let available = match condition(object.path("status.conditions"), "Available") {
        None => "Unknown".to_owned(),
        Some(known) => match (known.at("status").text(), known.at("reason").text()) {
            ("True", _) => "True".to_owned(),
            (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    };
    row.name(object).text(if service.is_there() { &name } else { "Local" }).text(&available).age(object);
}

fn flow_schema(object: &Node<'_>, row: &mut Row<'_>) {
    let spec = object.at("spec");
    let dangling = condition(object.path("status.conditions"), "Dangling").map_or("?", |known| known.at("status").text());
    let method = spec.at("distinguisherMethod");
    row.name(object).text(spec.path("priorityLevelConfiguration.name").text()).int(spec.at("matchingPrecedence").int());
    row.text(if method.is_there() { method.at("type").text() } else { NONE }).age(object).text(dangling);
}

fn priority_level(object: &Node<'_>, row: &mut Row<'_>) {
    let limited = object.path("spec.limited");
    let queuing = limited.path("limitResponse.queuing");
    row.name(object).text(object.path("spec.type").text());
    number_or_none(row, limited, "nominalConcurrencyShares");
    for member in ["queues", "handSize", "queueLengthLimit"] {
        number_or_none(row, queuing, member);
    }
    row.age(object);
}

/// A number of something that is not limited is told as text.
fn number_or_none(row: &mut Row<'_>, limits: &Node<'_>, member: &str) {
    if limits.is_there() {
        row.int(limits.at(member).int());
    } else {
        row.text(NONE);
    }
}
