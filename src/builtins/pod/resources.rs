//! Resources that containers ask for and are limited to, by themselves and all together.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Options, Scope};
use crate::{
    at::At,
    causes::Causes,
    meta,
    quantities::{self, Amount},
};
use model::invalid::{FieldError, FieldErrorKind};

/// A rule of the name of a resource.
type NameRule = fn(&str, &At<'_, '_>, &mut Causes);

/// `ValidateContainerResourceRequirements`.
pub(super) fn of_container(at: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    let (limits, requests) = (at.member("limits"), at.member("requests"));
    amounts(at, &limits, &requests, quantities::container_resource_name, &scope.options, causes);
    claims(&at.member("claims"), scope, causes);
}

/// What a Pod costs besides its containers: its amounts are judged as limits (`validateOverhead`).
pub(crate) fn overhead(at: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    let limits = at.member("limits");
    let none = at.with(&serde_json::Value::Null).value();
    amounts(at, &limits.with(at.value()), &at.member("requests").with(none), quantities::container_resource_name, options, causes);
}

/// Limits and requests; `at` is what has them.
fn amounts(at: &At<'_, '_>, limits: &At<'_, '_>, requests: &At<'_, '_>, name_rule: NameRule, options: &Options, causes: &mut Causes) {
    for (name, limit) in limits.entries() {
        amount(name, &limit, name_rule, causes);
        huge_pages(name, &limit, options, causes);
    }
    for (name, request) in requests.entries() {
        amount(name, &request, name_rule, causes);
        beside_limit(name, &request, limits, requests, causes);
        huge_pages(name, &request, options, causes);
    }
    let named = |wanted: &dyn Fn(&str) -> bool| limits.entries().chain(requests.entries()).any(|(name, _)| wanted(name));
    if named(&quantities::is_huge_pages) && !named(&|name| matches!(name, "cpu" | "memory")) {
        causes.forbidden(at, "HugePages require cpu or memory");
    }
}

fn amount(name: &str, at: &At<'_, '_>, name_rule: NameRule, causes: &mut Causes) {
    name_rule(name, at, causes);
    quantities::amount_of(name, at, causes);
}

fn huge_pages(name: &str, at: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    if quantities::is_huge_pages(name) && !options.any_huge_pages && !quantities::is_whole_pages(name, Amount::at(at)) {
        causes.invalid(at, &format!("{} is not positive integer multiple of {name}", at.text()));
    }
}

/// A request beside the limit of the same resource.
fn beside_limit(name: &str, request: &At<'_, '_>, limits: &At<'_, '_>, requests: &At<'_, '_>, causes: &mut Causes) {
    let limit = limits.key(name);
    let may_overcommit = quantities::may_overcommit(name);
    if limit.is_absent() {
        if !may_overcommit {
            causes.required(limits, "Limit must be set for non overcommitable resources");
        }
        return;
    }
    let (asked, most) = (Amount::at(request), Amount::at(&limit));
    let relation = match (may_overcommit, asked == most) {
        (false, false) => "equal to",
        (true, _) if asked > most => "less than or equal to",
        _ => return,
    };
    causes.invalid(&requests.with(request.value()), &format!("must be {relation} {name} limit of {}", limit.text()));
}

/// The claims of a container, which are claims of the Pod (`validateResourceClaimNames`).
fn claims(at: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    let mut taken: HashSet<String> = HashSet::new();
    // The names of claims of which single requests are taken, and how often.
    let mut of_requests: BTreeMap<&str, usize> = BTreeMap::new();
    for claim in at.items() {
        let (name, request) = (claim.member("name").text(), claim.member("request"));
        if name.is_empty() {
            causes.required(&claim, "");
            continue;
        }
        if taken.contains(name) {
            causes.duplicate(&claim.with(&name.into()));
        } else if request.text().is_empty() {
            // Each request of the claim that is taken is an error.
            (0..of_requests.get(name).copied().unwrap_or(0)).for_each(|_| causes.duplicate(&claim.with(&name.into())));
            taken.insert(name.to_owned());
        } else {
            meta::label(&request, causes);
            let key = format!("{name}/{}", request.text());
            if taken.contains(&key) {
                causes.duplicate(&claim.with(&key.as_str().into()));
            } else {
                taken.insert(key);
                *of_requests.entry(name).or_default() += 1;
            }
        }
        if !scope.claims.contains(name) {
            causes.add_with(|| unknown_claim(&claim, name, &scope.claims));
        }
    }
}

fn unknown_claim(at: &At<'_, '_>, name: &str, known: &BTreeSet<&str>) -> FieldError {
    let known = match known.len() {
        0 => " which is empty".to_owned(),
        _ => format!(": {}", known.iter().copied().collect::<Vec<_>>().join(", ")),
    };
    let error = FieldError::not_found(at.to_string(), &name.into());
    debug_assert_eq!(error.kind, FieldErrorKind::NotFound, "its text goes on after the value");
    FieldError { message: format!("{}: must be one of the names in pod.spec.resourceClaims{known}", error.message), ..error }
}

/// The resources of a whole Pod (`validatePodResources`).
pub(super) fn of_pod(spec: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    let at = spec.member("resources");
    if at.is_absent() {
        return;
    }
    if scope.system == Some("windows") {
        return causes.forbidden(&at, "may not be set for a windows pod");
    }
    if at.member("claims").is_present() {
        causes.forbidden(&at.member("claims"), "claims may not be set for Resources at pod-level");
    }
    amounts(&at, &at.member("limits"), &at.member("requests"), pod_resource_name, &scope.options, causes);
    claims(&at.member("claims"), scope, causes);
    beside_containers(spec, &at, causes);
}

/// `validatePodResourceName`.
fn pod_resource_name(name: &str, at: &At<'_, '_>, causes: &mut Causes) {
    let is_right = quantities::resource_name(name, at, causes);
    if is_right && !matches!(name, "cpu" | "memory") && !quantities::is_huge_pages(name) {
        causes.not_supported(&at.with(&name.into()), &["cpu", "hugepages-", "memory"]);
    }
}

/// The resources of the whole Pod are enough for its containers (`validatePodResourceConsistency`).
fn beside_containers(spec: &At<'_, '_>, at: &At<'_, '_>, causes: &mut Causes) {
    let (requests, limits) = (at.member("requests"), at.member("limits"));
    for (name, sum) in together(spec, "requests") {
        let whole = requests.key(name);
        if whole.is_present() && sum.amount > Amount::at(&whole) {
            let why = format!("must be greater than or equal to aggregate container requests of {}", sum.text());
            causes.invalid(&whole, &why);
        }
    }
    for (name, sum) in together(spec, "limits").into_iter().filter(|(name, _)| quantities::is_huge_pages(name)) {
        let whole = limits.key(name);
        if whole.is_present() && sum.amount > Amount::at(&whole) {
            causes.invalid(&whole, &format!("must be greater than or equal to aggregate container limits of {}", sum.text()));
        }
    }
    for (index, container) in spec.member("containers").items().enumerate() {
        for (name, limit) in container.member("resources").member("limits").entries() {
            let whole = limits.key(name);
            if whole.is_present() && Amount::at(&limit) > Amount::at(&whole) {
                // The path goes from the resources of the Pod to the container.
                let (containers, value) = (at.member("containers"), limit.value());
                let container = containers.item(index);
                let key = container.key(name);
                let why = format!("must be less than or equal to pod limits of {}", whole.text());
                causes.invalid(&key.member("limits").with(value), &why);
            }
        }
    }
}

/// A sum of quantities, which is written in the format of its first part.
#[derive(Clone, Debug)]
struct Sum<'v> {
    amount: Amount,
    first: &'v str,
    parts: usize,
}

impl Sum<'_> {
    fn text(&self) -> String {
        if self.parts == 1 { self.first.to_owned() } else { self.amount.text_like(self.first) }
    }
}

/// The amounts of one kind, by resource.
type Sums<'v> = BTreeMap<&'v str, Sum<'v>>;

fn add<'v>(sums: &mut Sums<'v>, more: &Sums<'v>) {
    for (name, part) in more {
        let sum = sums.entry(name).or_insert_with(|| Sum { amount: Amount::ZERO, first: part.first, parts: 0 });
        // Go takes over the format of what is added to nothing.
        if sum.amount == Amount::ZERO {
            sum.first = part.first;
        }
        sum.amount = sum.amount.plus(part.amount);
        sum.parts += part.parts;
    }
}

fn at_least<'v>(sums: &mut Sums<'v>, others: &Sums<'v>) {
    for (name, other) in others {
        if sums.get(name).is_none_or(|sum| other.amount > sum.amount) {
            sums.insert(name, other.clone());
        }
    }
}

/// What all containers need together: those that run side by side, or one that runs before them with those that have begun.
fn together<'v>(spec: &At<'_, 'v>, kind: &str) -> Sums<'v> {
    let own = |container: &At<'_, 'v>| -> Sums<'v> {
        let resources = container.member("resources");
        let list = resources.member(kind);
        list.entries().map(|(name, at)| (name, Sum { amount: Amount::at(&at), first: at.text(), parts: 1 })).collect()
    };
    let mut all = Sums::new();
    spec.member("containers").items().for_each(|container| add(&mut all, &own(&container)));
    let (mut begun, mut before) = (Sums::new(), Sums::new());
    for container in spec.member("initContainers").items() {
        let mut needed = own(&container);
        if container.member("restartPolicy").text() == "Always" {
            add(&mut all, &needed);
            add(&mut begun, &needed);
        } else {
            // Of what it does not need itself, all together need no less than those that have begun.
            let beside = needed.keys().filter_map(|name| Some((*name, begun.get(name)?.clone()))).collect();
            add(&mut needed, &beside);
            at_least(&mut before, &needed);
        }
    }
    at_least(&mut all, &before);
    all
}
