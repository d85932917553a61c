//! FlowSchema and PriorityLevelConfiguration (`pkg/apis/flowcontrol/validation`).

use std::{collections::HashSet, sync::LazyLock};

use serde_json::{Value, json};

use crate::{FieldError, at::At, causes::Causes, equal::same, names};

const PRECEDENCE_MAX: i64 = 10_000;
const DISTINGUISHERS: [&str; 2] = ["ByNamespace", "ByUser"];
const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const QUEUES_MAX: i64 = 10_000_000;
/// Bits of the hash that deals queues to a flow.
const HASH_BITS: f64 = 60.0;
/// Keeps a zero in v1beta3; nowhere else is it taken.
const PRESERVE_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

/// The members of a subject: each is of one kind.
const SUBJECTS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];

/// The specs that nobody may change, by name.
static FIXED: LazyLock<Value> = LazyLock::new(|| {
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]});
    let paths = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
    let rules = |groups: &[&str]| {
        let subjects: Value = groups.iter().map(|group| json!({"kind": "Group", "group": {"name": group}})).collect();
        json!([{"subjects": subjects, "resourceRules": [all], "nonResourceRules": [paths]}])
    };
    json!({
        "schemas": {
            "exempt": {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 1, "rules": rules(&["system:masters"])},
            "catch-all": {
                "priorityLevelConfiguration": {"name": "catch-all"}, "matchingPrecedence": 10_000, "distinguisherMethod": {"type": "ByUser"},
                "rules": rules(&["system:unauthenticated", "system:authenticated"])
            },
        },
        "levels": {
            "exempt": {"type": "Exempt"},
            "catch-all": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}, "lendablePercent": 0}},
        },
    })
});

/// What is wrong with a FlowSchema, new or changed.
pub fn flow_schema(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| {
        let root = At::root(object);
        let (metadata, spec) = (root.member("metadata"), root.member("spec"));
        let name = metadata.member("name").text();
        schema(&spec, name, causes);
        if FIXED["schemas"].get(name).is_some_and(|fixed| !same(spec.value(), fixed)) {
            causes.invalid_shown(&spec, "flowcontrol.FlowSchemaSpec", &format!("spec of '{name}' must equal the fixed value"));
        }
    })
}

/// What is wrong with a PriorityLevelConfiguration, new or changed.
pub fn priority_level(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| {
        let root = At::root(object);
        let (metadata, spec) = (root.member("metadata"), root.member("spec"));
        let (name, annotations) = (metadata.member("name").text(), metadata.member("annotations"));
        if annotations.key(PRESERVE_ZERO).is_present() {
            causes.forbidden(&annotations, &format!("annotation '{PRESERVE_ZERO}' is forbidden"));
        }
        level(&spec, name, causes);
        fixed_level(&spec, name, causes);
    })
}

/// What is wrong with the status of either kind.
pub fn update_status(_: &Value, new: &Value) -> Vec<FieldError> {
    Causes::of(|causes| {
        let (root, mut known) = (At::root(new), HashSet::new());
        let status = root.member("status");
        for condition in status.member("conditions").items() {
            let kind = condition.member("type");
            if !known.insert(kind.text()) {
                causes.duplicate_json(&kind.or_empty());
            }
            if kind.text().is_empty() {
                causes.required(&kind, "");
            }
        }
    })
}

fn schema(at: &At<'_, '_>, name: &str, causes: &mut Causes) {
    let precedence = at.member("matchingPrecedence");
    let mut refuse = |why: &str| causes.invalid_as(&precedence, &precedence.integer().into(), why);
    match precedence.integer() {
        ..=0 => refuse("must be a positive value"),
        number if number > PRECEDENCE_MAX => refuse(&format!("must not be greater than {PRECEDENCE_MAX}")),
        1 if name != "exempt" => refuse("only the schema named 'exempt' may have matchingPrecedence 1"),
        _ => {}
    }
    let distinguisher = at.member("distinguisherMethod");
    if distinguisher.is_present() && !DISTINGUISHERS.contains(&distinguisher.member("type").text()) {
        let kind = distinguisher.member("type");
        causes.not_supported_shown(&kind.with(distinguisher.value()), "flowcontrol.FlowDistinguisherMethod", &DISTINGUISHERS);
    }
    let level = at.member("priorityLevelConfiguration");
    let level = level.member("name");
    match level.text() {
        "" => causes.required(&level, "must reference a priority level"),
        name => causes.each_invalid(&level, names::subdomain(name)),
    }
    at.member("rules").items().for_each(|it| rule(&it, causes));
}

fn rule(at: &At<'_, '_>, causes: &mut Causes) {
    let (subjects, resources, paths) = (at.member("subjects"), at.member("resourceRules"), at.member("nonResourceRules"));
    if subjects.len() == 0 {
        causes.required(&subjects, "subjects must contain at least one value");
    }
    subjects.items().for_each(|it| subject(&it, causes));
    if resources.len() == 0 && paths.len() == 0 {
        causes.required(at, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    resources.items().for_each(|it| resource_rule(&it, causes));
    paths.items().for_each(|it| path_rule(&it, causes));
}

fn subject(at: &At<'_, '_>, causes: &mut Causes) {
    let kind = at.member("kind");
    let Some((_, own)) = SUBJECTS.into_iter().find(|(known, _)| *known == kind.text()) else {
        return causes.not_supported(&kind.or_empty(), &["Group", "ServiceAccount", "User"]);
    };
    let member = at.member(own);
    if member.is_absent() {
        causes.required(&member, &format!("{own} is required when subject kind is '{}'", kind.text()));
    } else if own == "serviceAccount" {
        service_account(&member, causes);
    } else if member.member("name").text().is_empty() {
        causes.required(&member.member("name"), "");
    }
    for (kind, name) in SUBJECTS.into_iter().filter(|(_, name)| *name != own) {
        if at.member(name).is_present() {
            causes.forbidden(&at.member(name), &format!("{name} is forbidden when subject kind is not '{kind}'"));
        }
    }
}

fn service_account(at: &At<'_, '_>, causes: &mut Causes) {
    let (name, namespace) = (at.member("name"), at.member("namespace"));
    match name.text() {
        "" => causes.required(&name, ""),
        "*" => {}
        text => causes.each_invalid(&name, names::subdomain(text)),
    }
    match namespace.text() {
        "" => causes.required(&namespace, "must specify namespace for service account"),
        text => causes.each_invalid(&namespace, names::label(text)),
    }
}

/// Whether a list has `*`, beside which nothing else may stand.
fn wildcard(at: &At<'_, '_>, what: &str, causes: &mut Causes) -> bool {
    let has = at.items().any(|item| item.text() == "*");
    if has && at.len() > 1 {
        causes.invalid(at, &format!("if '*' is present, must not specify other {what}"));
    }
    has
}

fn verbs(at: &At<'_, '_>, causes: &mut Causes) {
    if at.len() == 0 {
        causes.required(at, "verbs must contain at least one value");
    } else if !wildcard(at, "verbs", causes) && at.items().any(|verb| !VERBS.contains(&verb.text())) {
        causes.not_supported(at, &VERBS);
    }
}

fn resource_rule(at: &At<'_, '_>, causes: &mut Causes) {
    verbs(&at.member("verbs"), causes);
    for (name, one, others) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
        let list = at.member(name);
        match list.len() {
            0 => causes.required(&list, &format!("resource rules must supply at least one {one}")),
            _ => drop(wildcard(&list, others, causes)),
        }
    }
    let namespaces = at.member("namespaces");
    if namespaces.len() == 0 && !at.member("clusterScope").is_true() {
        causes.required(&namespaces, "resource rules that are not cluster scoped must supply at least one namespace");
    } else if !wildcard(&namespaces, "namespaces", causes) {
        for namespace in namespaces.items() {
            let wrong = names::label(namespace.text());
            let why = |why: &String| format!("each member of this list must be '*' or a DNS-1123 label; {why}");
            causes.each_invalid(&namespace, wrong.iter().map(why));
        }
    }
}

fn path_rule(at: &At<'_, '_>, causes: &mut Causes) {
    verbs(&at.member("verbs"), causes);
    let paths = at.member("nonResourceURLs");
    if paths.len() == 0 {
        causes.required(&paths, "nonResourceURLs must contain at least one value");
    } else if !wildcard(&paths, "non-resource URLs", causes) {
        for path in paths.items() {
            causes.each_invalid(&path, wrong_path(path.text()));
        }
    }
}

fn wrong_path(path: &str) -> Option<&'static str> {
    let stars = path.matches('*').count();
    match path {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !path.starts_with('/') => Some("must start with slash"),
        _ if path.contains(' ') => Some("must not contain white-space"),
        _ if path.contains("//") => Some("must not contain double slash"),
        _ => (stars > 1 || stars == 1 && !path.ends_with("/*")).then_some("wildcard can only do suffix matching"),
    }
}

fn fixed_level(at: &At<'_, '_>, name: &str, causes: &mut Causes) {
    let Some(fixed) = FIXED["levels"].get(name) else { return };
    let except = if name == "exempt" { " except the 'spec.exempt' field" } else { "" };
    let mut have = at.map().cloned().unwrap_or_default();
    if name == "exempt" {
        have.remove("exempt");
    }
    if !same(&have.into(), fixed) {
        causes.invalid_shown(
            at,
            "flowcontrol.PriorityLevelConfigurationSpec",
            &format!("spec of '{name}'{except} must equal the fixed value"),
        );
    }
}

fn level(at: &At<'_, '_>, name: &str, causes: &mut Causes) {
    let (kind, limited, exempt) = (at.member("type"), at.member("limited"), at.member("exempt"));
    if (name == "exempt") != (kind.text() == "Exempt") {
        causes.invalid_json(&kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    match kind.text() {
        "Exempt" => {
            if limited.is_present() {
                causes.forbidden(&limited, "must be nil if the type is not Limited");
            }
            shares(&exempt, causes);
            lendable(&exempt, causes);
        }
        "Limited" => {
            if exempt.is_present() {
                causes.forbidden(&exempt, "must be nil if the type is Limited");
            }
            match limited.is_present() {
                true => self::limited(&limited, causes),
                false => causes.required(&limited, "must not be empty when type is Limited"),
            }
        }
        "" => causes.required(&kind, ""),
        _ => causes.not_supported(&kind, &["Exempt", "Limited"]),
    }
}

fn limited(at: &At<'_, '_>, causes: &mut Causes) {
    shares(at, causes);
    let response = at.member("limitResponse");
    let (kind, queuing) = (response.member("type"), response.member("queuing"));
    match kind.text() {
        "Reject" if queuing.is_present() => causes.forbidden(&queuing, "must be nil if limited.limitResponse.type is not Limited"),
        "Reject" => {}
        "Queue" if queuing.is_absent() => causes.required(&queuing, "must not be empty if limited.limitResponse.type is Limited"),
        "Queue" => self::queuing(&queuing, causes),
        "" => causes.required(&kind, ""),
        _ => causes.not_supported(&kind, &["Queue", "Reject"]),
    }
    lendable(at, causes);
    let borrowing = at.member("borrowingLimitPercent");
    if borrowing.integer() < 0 {
        causes.invalid(&borrowing, "if specified, must be a non-negative integer");
    }
}

fn shares(at: &At<'_, '_>, causes: &mut Causes) {
    let shares = at.member("nominalConcurrencyShares");
    if shares.integer() < 0 {
        causes.invalid(&shares, "must be a non-negative integer");
    }
}

fn lendable(at: &At<'_, '_>, causes: &mut Causes) {
    let percent = at.member("lendablePercent");
    if !(0..=100).contains(&percent.integer()) {
        causes.invalid(&percent, "must be between 0 and 100, inclusive");
    }
}

fn queuing(at: &At<'_, '_>, causes: &mut Causes) {
    let (length, queues, hand) = (at.member("queueLengthLimit"), at.member("queues"), at.member("handSize"));
    let mut refuse = |at: &At<'_, '_>, why: &str| causes.invalid_as(at, &at.integer().into(), why);
    if length.integer() <= 0 {
        refuse(&length, "must be positive");
    }
    if queues.integer() <= 0 {
        refuse(&queues, "must be positive");
    } else if queues.integer() > QUEUES_MAX {
        refuse(&queues, &format!("must not be greater than {QUEUES_MAX}"));
    }
    let (deck, dealt) = (queues.integer(), hand.integer());
    if dealt <= 0 {
        refuse(&hand, "must be positive");
    } else if dealt > deck {
        refuse(&hand, &format!("should not be greater than queues ({deck})"));
    } else if entropy_bits(deck, dealt) > HASH_BITS {
        let why = format!("required entropy bits of deckSize {deck} and handSize {dealt} should not be greater than {HASH_BITS}");
        refuse(&hand, &why);
    }
}

/// Bits that it takes to deal a hand from a deck.
#[expect(clippy::cast_precision_loss, reason = "both are 32 bits wide")]
fn entropy_bits(deck: i64, hand: i64) -> f64 {
    ((deck as f64).log2() * hand as f64).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_that_a_hash_deals() {
        let cases =
            [(64, 10, true), (64, 11, false), (128, 8, true), (128, 9, false), (1, 1, true), (1_000_000, 3, true), (1_000_001, 4, false)];
        for (deck, hand, right) in cases {
            assert_eq!(entropy_bits(deck, hand) <= HASH_BITS, right, "{deck} {hand}");
        }
    }
}
