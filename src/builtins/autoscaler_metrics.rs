//! The metrics by which a HorizontalPodAutoscaler scales.

use crate::{
    at::At,
    autoscaler::{ReferenceOptions, reference},
    causes::Causes,
    meta, names,
    quantities::{self, Amount},
};

/// The types of metrics, and the member that has what is said of each; in the order in which they are looked at.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const MISSING: &str = "must populate information for the given metric source";
const ONE: &str = "must populate the given metric source only";

/// One metric, which has one source: that of its type. Of several only the first is judged.
pub(crate) fn metric(metric: &At<'_, '_>, options: ReferenceOptions, causes: &mut Causes) {
    let kind = metric.member("type");
    if kind.text().is_empty() {
        causes.required(&kind, "must specify a metric source type");
    }
    let expected = SOURCES.into_iter().find(|(name, _)| *name == kind.text()).map(|(_, member)| member);
    if expected.is_none() {
        causes.not_supported_shown(&kind, "string", &TYPES);
    }
    let present: Vec<&str> = SOURCES.into_iter().map(|(_, member)| member).filter(|member| metric.member(member).is_present()).collect();
    if let Some(first) = present.first() {
        source(first, &metric.member(first), options, causes);
    }
    match expected {
        Some(member) if metric.member(member).is_absent() => causes.required(&metric.member(member), MISSING),
        Some(_) => {}
        None => causes.not_supported_shown(&kind, "string", &TYPES),
    }
    if present.len() != 1 {
        present.iter().filter(|member| Some(**member) != expected).for_each(|member| causes.forbidden(&metric.member(member), ONE));
    }
}

fn source(member: &str, source: &At<'_, '_>, options: ReferenceOptions, causes: &mut Causes) {
    match member {
        "object" => object(source, options, causes),
        "external" => external(source, causes),
        "pods" => pods(source, causes),
        "resource" => resource(source, false, causes),
        _ => resource(source, true, causes),
    }
}

fn object(source: &At<'_, '_>, options: ReferenceOptions, causes: &mut Causes) {
    reference(&source.member("describedObject"), options, causes);
    identifier(&source.member("metric"), causes);
    let goal = source.member("target");
    target(&goal, causes);
    if goal.member("value").is_absent() && goal.member("averageValue").is_absent() {
        causes.required(&goal.member("averageValue"), "must set either a target value or averageValue");
    }
}

fn external(source: &At<'_, '_>, causes: &mut Causes) {
    identifier(&source.member("metric"), causes);
    let goal = source.member("target");
    target(&goal, causes);
    match (goal.member("value").is_present(), goal.member("averageValue").is_present()) {
        (false, false) => {
            causes.required(&goal.member("averageValue"), "must set either a target value for metric or a per-pod target");
        }
        (true, true) => causes.forbidden(&goal.member("value"), "may not set both a target value for metric and a per-pod target"),
        _ => {}
    }
}

fn pods(source: &At<'_, '_>, causes: &mut Causes) {
    identifier(&source.member("metric"), causes);
    let goal = source.member("target");
    target(&goal, causes);
    if goal.member("averageValue").is_absent() {
        causes.required(&goal.member("averageValue"), "must specify a positive target averageValue");
    }
}

/// A resource of all containers of a Pod, or of one of them.
fn resource(source: &At<'_, '_>, of_container: bool, causes: &mut Causes) {
    let (name, container, goal) = (source.member("name"), source.member("container"), source.member("target"));
    if name.text().is_empty() {
        causes.required(&name, "must specify a resource name");
    } else if of_container {
        quantities::container_resource_name(name.text(), &name, causes);
    }
    if of_container {
        if container.text().is_empty() {
            causes.required(&container, "must specify a container");
        } else {
            meta::label(&container, causes);
        }
    }
    target(&goal, causes);
    match (goal.member("averageUtilization").is_present(), goal.member("averageValue").is_present()) {
        (false, false) => {
            causes.required(&goal.member("averageUtilization"), "must set either a target raw value or a target utilization");
        }
        (true, true) => causes.forbidden(&goal.member("averageValue"), "may not set both a target raw value and a target utilization"),
        _ => {}
    }
}

fn identifier(metric: &At<'_, '_>, causes: &mut Causes) {
    let name = metric.member("name");
    if name.text().is_empty() {
        causes.required(&name, "must specify a metric name");
    }
    causes.each_invalid(&name, names::path_segment(name.text()));
}

fn target(target: &At<'_, '_>, causes: &mut Causes) {
    let (kind, utilization) = (target.member("type"), target.member("averageUtilization"));
    if kind.text().is_empty() {
        causes.required(&kind, "must specify a metric target type");
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        causes.invalid_json(&kind, "must be either Utilization, Value, or AverageValue");
    }
    for amount in [target.member("value"), target.member("averageValue")] {
        if amount.is_present() && Amount::at(&amount) <= Amount::ZERO {
            causes.invalid(&amount, "must be positive");
        }
    }
    if utilization.some_integer().is_some_and(|percent| percent < 1) {
        causes.invalid(&utilization, "must be greater than 0");
    }
}
