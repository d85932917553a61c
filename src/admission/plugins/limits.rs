//! LimitRanger: containers get the requests and limits that their namespace has for those that say none; Pods, containers and claims stay within its limits.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use super::{
    resources::{self, Resources},
    write::{Cluster, Lookup, Verdict, Write},
};
use crate::{Operation, tree};
use go::amount::Amount;

/// Says in a Pod what was filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The largest number of which thousandths can be counted.
const MILLI_MAX: i64 = i64::MAX / 1_000;

pub(super) fn mutate(write: &Write<'_>, object: &mut Value, cluster: &dyn Cluster) {
    if !is_judged(write) || write.resource != "pods" {
        return;
    }
    for range in cluster.list(Lookup::LimitRange, write.namespace).iter() {
        fill(object, range);
    }
}

pub(super) fn validate(write: &Write<'_>, object: &Value, cluster: &dyn Cluster) -> Verdict {
    if !is_judged(write) {
        return Ok(());
    }
    for range in cluster.list(Lookup::LimitRange, write.namespace).iter() {
        let found = if write.resource == "pods" { of_pod(object, range) } else { of_claim(object, range) };
        aggregate(&found)?;
    }
    Ok(())
}

/// Pods are judged when they are new and when they are resized, claims at each change; what is being deleted is left alone.
fn is_judged(write: &Write<'_>) -> bool {
    let is_leaving = write.old.is_some_and(|old| tree::at(old, &["metadata", "deletionTimestamp"]).is_some());
    let is_for_us = match (write.group, write.resource, write.subresource) {
        ("", "pods", "resize") => write.operation == Operation::Update,
        ("", "pods", "") => write.operation == Operation::Create,
        ("", "persistentvolumeclaims", "") => write.operation != Operation::Delete,
        _ => false,
    };
    is_for_us && !is_leaving
}

/// Several texts, each once, as Go prints several errors.
fn aggregate(found: &[String]) -> Verdict {
    let mut seen = HashSet::new();
    let texts: Vec<&str> = found.iter().map(String::as_str).filter(|text| seen.insert(*text)).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [one] => Err((*one).into()),
        many => Err(format!("[{}]", many.join(", ")).into()),
    }
}

/// The limits of a range that are of this type.
fn limits<'r>(range: &'r Value, kind: &'static str) -> impl Iterator<Item = &'r Value> {
    tree::items(range, &["spec", "limits"]).filter(move |limit| tree::text(limit, &["type"]) == kind)
}

/// Fills in what containers do not say, and notes that.
fn fill(pod: &mut Value, range: &Value) {
    let (mut requests, mut most): (BTreeMap<&str, &Value>, BTreeMap<&str, &Value>) = Default::default();
    for limit in limits(range, "Container") {
        for (of, defaults) in [("defaultRequest", &mut requests), ("default", &mut most)] {
            defaults.extend(
                tree::at(limit, &[of]).and_then(Value::as_object).into_iter().flatten().map(|(name, value)| (name.as_str(), value)),
            );
        }
    }
    let mut notes = Vec::new();
    let spec = tree::member(pod, "spec");
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = tree::text(container, &["name"]).to_owned();
            let own = tree::member(container, "resources");
            for (member, defaults, kind) in [("requests", &requests, "request"), ("limits", &most, "limit")] {
                let set = merge(own, member, defaults);
                if !set.is_empty() {
                    notes.push(format!("{} {kind} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let annotations = tree::inner(tree::member(pod, "metadata"), "annotations");
        annotations.insert(ANNOTATION.to_owned(), format!("LimitRanger plugin set: {}", notes.join("; ")).into());
    }
}

/// Adds amounts that are not there, and returns their names.
fn merge<'d>(resources: &mut Map<String, Value>, member: &str, defaults: &BTreeMap<&'d str, &Value>) -> Vec<&'d str> {
    let is_there = |name: &str| resources.get(member).and_then(|known| known.get(name)).is_some();
    let missing: Vec<&str> = defaults.keys().copied().filter(|name| !is_there(name)).collect();
    for name in &missing {
        tree::inner(resources, member).insert((*name).to_owned(), defaults[name].clone());
    }
    missing
}

fn of_claim(claim: &Value, range: &Value) -> Vec<String> {
    let requests = resources::at(claim, &["spec", "resources", "requests"]);
    let mut wrong = Vec::new();
    for limit in limits(range, "PersistentVolumeClaim") {
        let of = |member: &str| resources::at(limit, &[member]);
        let judged = Judged { kind: "PersistentVolumeClaim", requests: &requests, limits: &Resources::new() };
        wrong.extend(of("min").iter().filter_map(|(name, least)| judged.least(name, least)));
        wrong.extend(of("max").iter().filter_map(|(name, most)| judged.most_requested(name, most)));
    }
    wrong
}

fn of_pod(pod: &Value, range: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for limit in tree::items(range, &["spec", "limits"]) {
        match tree::text(limit, &["type"]) {
            "Container" => {
                for container in ["containers", "initContainers"].into_iter().flat_map(|list| tree::items(pod, &["spec", list])) {
                    let of = |member: &str| resources::at(container, &["resources", member]);
                    Judged { kind: "Container", requests: &of("requests"), limits: &of("limits") }.judge(limit, &mut wrong);
                }
            }
            "Pod" => {
                let of = |member: &str| resources::of_pod(pod, member, |name| matches!(name, "cpu" | "memory"));
                Judged { kind: "Pod", requests: &of("requests"), limits: &of("limits") }.judge(limit, &mut wrong);
            }
            _ => {}
        }
    }
    wrong
}

/// What is judged by a limit.
struct Judged<'a> {
    /// The type of the limit.
    kind: &'static str,
    requests: &'a Resources,
    limits: &'a Resources,
}

impl Judged<'_> {
    fn judge(&self, limit: &Value, wrong: &mut Vec<String>) {
        let of = |member: &str| resources::at(limit, &[member]);
        wrong.extend(of("min").iter().filter_map(|(name, least)| self.least(name, least)));
        wrong.extend(of("max").iter().filter_map(|(name, most)| self.most(name, most)));
        wrong.extend(of("maxLimitRequestRatio").iter().filter_map(|(name, most)| self.ratio(name, most)));
    }

    fn least(&self, name: &str, least: &Amount) -> Option<String> {
        let head = format!("minimum {name} usage per {} is {least}", self.kind);
        let (asked, limit) = (self.requests.get(name), self.limits.get(name));
        let Some(request) = asked else { return Some(format!("{head}.  No request is specified")) };
        let (observed, observed_limit, wanted) = comparable(asked, limit, least);
        if observed < wanted {
            return Some(format!("{head}, but request is {request}"));
        }
        limit.filter(|_| observed_limit < wanted).map(|limit| format!("{head}, but limit is {limit}"))
    }

    fn most_requested(&self, name: &str, most: &Amount) -> Option<String> {
        let head = format!("maximum {name} usage per {} is {most}", self.kind);
        let Some(request) = self.requests.get(name) else { return Some(format!("{head}.  No request is specified")) };
        let (observed, _, wanted) = comparable(Some(request), None, most);
        (observed > wanted).then(|| format!("{head}, but request is {request}"))
    }

    fn most(&self, name: &str, most: &Amount) -> Option<String> {
        let head = format!("maximum {name} usage per {} is {most}", self.kind);
        let (asked, limit) = (self.requests.get(name), self.limits.get(name));
        let Some(limit) = limit else { return Some(format!("{head}.  No limit is specified")) };
        let (observed, observed_limit, wanted) = comparable(asked, Some(limit), most);
        if observed_limit > wanted {
            return Some(format!("{head}, but limit is {limit}"));
        }
        asked.filter(|_| observed > wanted).map(|request| format!("{head}, but request is {request}"))
    }

    #[expect(clippy::cast_precision_loss, reason = "kube-apiserver computes the ratio with such numbers")]
    fn ratio(&self, name: &str, most: &Amount) -> Option<String> {
        let head = format!("{name} max limit to request ratio per {} is {most}, but", self.kind);
        let (request, limit, _) = comparable(self.requests.get(name), self.limits.get(name), most);
        if request == 0 {
            return Some(format!("{head} no request is specified or request is 0"));
        }
        if limit == 0 {
            return Some(format!("{head} no limit is specified or limit is 0"));
        }
        let ratio = limit as f64 / request as f64;
        let is_above = match most.value() {
            whole if whole <= MILLI_MAX => ratio * 1_000.0 > most.milli_value() as f64,
            whole => ratio > whole as f64,
        };
        is_above.then(|| format!("{head} provided ratio is {ratio:.6}"))
    }
}

/// A request, a limit and what is enforced as numbers of one unit: thousandths where none is too large for that.
fn comparable(request: Option<&Amount>, limit: Option<&Amount>, enforced: &Amount) -> (i64, i64, i64) {
    let all = [request.unwrap_or(&Amount::ZERO), limit.unwrap_or(&Amount::ZERO), enforced];
    let [request, limit, enforced] =
        if all.iter().all(|amount| amount.value() <= MILLI_MAX) { all.map(Amount::milli_value) } else { all.map(Amount::value) };
    (request, limit, enforced)
}

#[cfg(test)]
mod tests;
