//! Who asks for a certificate, and who has said what about it (`pkg/registry/certificates/certificates`).

use std::{cmp::Ordering, collections::HashSet};

use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use super::{row::Strategy, signing_spec};
use crate::write::{part::Part, tree};
use admission::hooks::UserInfo;
use go::quote::quoted;
use model::invalid::FieldError;

pub(super) const SIGNING_REQUESTS: Strategy = Strategy {
    storage: "certificatesigningrequests",
    identify,
    prepare_update,
    stamp,
    take: |_, old, wanted| with_conditions(old, wanted),
    validate_create,
    validate_update: |part, old, new| validate_update(new, old, part),
    ..Strategy::COMMON
};

fn prepare_update(part: Part, old: &Value, new: &mut Value) {
    match part {
        Part::Main => tree::take_over(tree::object(new), old.as_object().unwrap_or(&tree::NO_MEMBERS), "spec"),
        Part::Status => keep_verdicts(new, old),
        _ => {}
    }
}

fn stamp(part: Part, old: Option<&Value>, new: &mut Value, now: OffsetDateTime) {
    if let (Part::Status | Part::Approval, Some(old)) = (part, old) {
        time_conditions(new, old, now);
    }
}

/// Conditions that only the approval may change.
const VERDICTS: [&str; 2] = ["Approved", "Denied"];
/// Conditions that are true when they are there, and stay.
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];
/// Members of the spec that say who asks. A signer believes them, so nobody may write them.
const IDENTITY: [&str; 4] = ["username", "uid", "groups", "extra"];

/// Writes the identity of the requester over whatever the new request says of it.
fn identify(request: &mut Value, requester: Option<&UserInfo<'_>>) {
    let spec = tree::member(request, "spec");
    IDENTITY.iter().for_each(|name| drop(spec.remove(*name)));
    let Some(requester) = requester else { return };
    let mut say = |name: &str, value: Value, is_empty: bool| {
        if !is_empty {
            spec.insert(name.to_owned(), value);
        }
    };
    say("username", requester.name.into(), requester.name.is_empty());
    say("uid", requester.uid.into(), requester.uid.is_empty());
    say("groups", json!(requester.groups), requester.groups.is_empty());
    let extra: Map<String, Value> = requester.extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
    let is_empty = extra.is_empty();
    say("extra", Value::Object(extra), is_empty);
}

/// Keeps the verdicts as they are, unless one was added or removed.
fn keep_verdicts(new: &mut Value, old: &Value) {
    for verdict in VERDICTS {
        let known: Vec<Value> = conditions(old).iter().filter(|condition| tree::text(condition, &["type"]) == verdict).cloned().collect();
        let mut told: Vec<&mut Value> = conditions_mut(new).filter(|condition| tree::text(condition, &["type"]) == verdict).collect();
        if told.len() == known.len() {
            told.iter_mut().zip(known).for_each(|(told, known)| **told = known);
        }
    }
}

/// Sets when each condition was updated, and since when it has its status.
fn time_conditions(new: &mut Value, old: &Value, now: OffsetDateTime) {
    let now = tree::rfc3339(now);
    for condition in conditions_mut(new) {
        if tree::at(condition, &["lastUpdateTime"]).is_none() {
            tree::set(condition, &["lastUpdateTime"], now.as_str().into());
        }
        if tree::at(condition, &["lastTransitionTime"]).is_none() {
            let part = |condition: &Value, name: &str| tree::text(condition, &[name]).to_owned();
            let is_same = |known: &&Value| ["type", "status"].iter().all(|name| part(known, name) == part(condition, name));
            let since =
                conditions(old).iter().filter(is_same).map(|known| part(known, "lastTransitionTime")).find(|since| !since.is_empty());
            tree::set(condition, &["lastTransitionTime"], since.unwrap_or_else(|| now.clone()).into());
        }
    }
}

/// The request with other conditions, and with the metadata that was sent.
fn with_conditions(old: &Value, mut wanted: Value) -> Value {
    let sent = tree::at(&wanted, &["status", "conditions"]).cloned();
    let known = old.as_object().unwrap_or(&tree::NO_MEMBERS);
    ["spec", "status"].iter().for_each(|name| tree::take_over(tree::object(&mut wanted), known, name));
    let status = tree::member(&mut wanted, "status");
    match sent {
        Some(conditions) => status.insert("conditions".into(), conditions),
        None => status.remove("conditions"),
    };
    wanted
}

/// What is wrong with a new request.
fn validate_create(request: &Value) -> Vec<FieldError> {
    let mut errors = signing_spec::wrong_spec(request, None);
    errors.extend(validate_conditions(conditions(request), &[]));
    errors.extend(signing_spec::wrong_certificate(request, None));
    errors
}

/// What is wrong with a changed request: what it asks for, its certificate, and the change of its conditions and certificate. Who approves does not sign, who
/// signs does not approve, and what was said stays said.
fn validate_update(new: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    const AT: &str = "status.conditions";
    let mut errors = signing_spec::wrong_spec(new, Some(old));
    errors.extend(validate_conditions(conditions(new), conditions(old)));
    errors.extend(signing_spec::wrong_certificate(new, Some(old)));
    let of = |request, kind: &str| -> Vec<Value> {
        conditions(request).iter().filter(|condition| tree::text(condition, &["type"]) == kind).cloned().collect()
    };
    let each = |kinds: &'static [&'static str]| kinds.iter().map(|kind| (*kind, of(old, kind), of(new, kind)));
    for (kind, known, told) in each(&FINAL) {
        if told.len() < known.len() {
            errors.push(FieldError::forbidden(AT, &format!("updates may not remove a condition of type {}", quoted(kind))));
        }
    }
    for (kind, known, told) in each(&VERDICTS).filter(|_| part != Part::Approval) {
        let what = match told.len().cmp(&known.len()) {
            Ordering::Less => continue,
            Ordering::Greater => "add",
            Ordering::Equal if told == known => continue,
            Ordering::Equal => "modify",
        };
        errors.push(FieldError::forbidden(AT, &format!("updates may not {what} a condition of type {}", quoted(kind))));
    }
    let certificate = |request| tree::text(request, &["status", "certificate"]).to_owned();
    if certificate(new) != certificate(old) {
        let signs = part == Part::Status;
        if !signs {
            errors.push(FieldError::forbidden("status.certificate", "updates may not set certificate content"));
        } else if !certificate(old).is_empty() {
            errors.push(FieldError::forbidden("status.certificate", "updates may not modify existing certificate content"));
        }
    }
    errors
}

/// What is wrong with conditions by themselves. What was wrong already may stay.
fn validate_conditions(new: &[Value], old: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = |condition: &Value| tree::text(condition, &["type"]).to_owned();
    let has = |conditions: &[Value], name: &str| conditions.iter().any(|condition| kind(condition) == name);
    let mut seen = HashSet::new();
    let was_both = VERDICTS.iter().all(|verdict| has(old, verdict));
    let was_twice = !old.iter().all(|condition| seen.insert(kind(condition)));
    let was_empty = has(old, "");
    seen.clear();
    for (i, condition) in new.iter().enumerate() {
        let (kind, status, at) = (kind(condition), tree::text(condition, &["status"]), format!("status.conditions[{i}]"));
        if kind.is_empty() && !was_empty {
            errors.push(FieldError::required(format!("{at}.type"), ""));
        }
        let allowed: &[&str] = if FINAL.contains(&kind.as_str()) { &["True"] } else { &["False", "True", "Unknown"] };
        if status.is_empty() {
            errors.push(FieldError::required(format!("{at}.status"), ""));
        } else if !allowed.contains(&status) {
            errors.push(FieldError::not_supported(format!("{at}.status"), &status.into(), allowed));
        }
        let other = VERDICTS.iter().find(|verdict| VERDICTS.contains(&kind.as_str()) && **verdict != kind);
        if !was_both && other.is_some_and(|other| seen.contains(*other)) {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid("status.conditions", &kind.as_str().into(), why));
        }
        if !seen.insert(kind.clone()) && !was_twice {
            errors.push(FieldError::duplicate(format!("{at}.type"), &kind.as_str().into()));
        }
    }
    errors
}

fn conditions(request: &Value) -> &[Value] {
    tree::at(request, &["status", "conditions"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn conditions_mut(request: &mut Value) -> impl Iterator<Item = &mut Value> {
    request.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_asks_in_the_name_of_another() {
        let forged =
            json!({"username": "system:admin", "uid": "0", "groups": ["system:masters"], "extra": {"k": ["v"]}, "signerName": "s"});
        let (groups, extra) = (["g".to_owned()], [("e".to_owned(), vec!["f".to_owned()])]);
        let requester = UserInfo { name: "u", uid: "1", groups: &groups, extra: &extra };
        let mut request = json!({"spec": forged});
        identify(&mut request, Some(&requester));
        assert_eq!(request["spec"], json!({"username": "u", "uid": "1", "groups": ["g"], "extra": {"e": ["f"]}, "signerName": "s"}));
        let mut request = json!({"spec": forged});
        identify(&mut request, None);
        assert_eq!(request["spec"], json!({"signerName": "s"}), "the server itself asks for nothing");
        let nobody = UserInfo { name: "u", uid: "", groups: &[], extra: &[] };
        let mut request = json!({"spec": forged});
        identify(&mut request, Some(&nobody));
        assert_eq!(request["spec"], json!({"username": "u", "signerName": "s"}));
    }

    #[test]
    fn a_verdict_stays_and_conditions_have_times() {
        let now = tree::parsed("2026-01-02T03:04:05Z").expect("a time");
        let condition = |kind: &str, reason: &str, since: Value| json!({"type": kind, "status": "True", "reason": reason, "lastUpdateTime": since, "lastTransitionTime": since});
        let request = |conditions: Value| json!({"status": {"conditions": conditions}});
        let old = request(json!([condition("Approved", "a", "then".into()), condition("Failed", "f", "then".into())]));
        let mut new = request(json!([condition("Failed", "g", Value::Null), condition("Approved", "forged", Value::Null)]));
        keep_verdicts(&mut new, &old);
        stamp(Part::Status, Some(&old), &mut new, now);
        let failed = json!({"type": "Failed", "status": "True", "reason": "g", "lastUpdateTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "then"});
        assert_eq!(new, request(json!([failed, condition("Approved", "a", "then".into())])));
        let mut new = request(json!([condition("Denied", "d", Value::Null)]));
        keep_verdicts(&mut new, &old);
        stamp(Part::Status, Some(&old), &mut new, now);
        assert_eq!(new, request(json!([condition("Denied", "d", "2026-01-02T03:04:05Z".into())])), "judged by `validate_update`, not here");
        let of_status = |error: &FieldError| error.field.starts_with("status");
        let texts =
            |part| -> Vec<String> { validate_update(&new, &old, part).into_iter().filter(of_status).map(|error| error.message).collect() };
        let removed = ["Approved", "Failed"].map(|kind| format!("Forbidden: updates may not remove a condition of type \"{kind}\""));
        assert_eq!(texts(Part::Approval), removed);
        assert_eq!(texts(Part::Status)[2], "Forbidden: updates may not add a condition of type \"Denied\"");
    }

    #[test]
    fn who_approves_does_not_sign() {
        let old = json!({"metadata": {"name": "r"}, "spec": {"signerName": "s"}, "status": {}});
        let approved = json!([{"type": "Approved", "status": "True"}]);
        let wanted = json!({"metadata": {"name": "r", "labels": {"a": "b"}}, "spec": {"signerName": "other"}, "status": {"conditions": approved, "certificate": "x"}});
        let new = with_conditions(&old, wanted);
        assert_eq!(
            new,
            json!({"metadata": {"name": "r", "labels": {"a": "b"}}, "spec": {"signerName": "s"}, "status": {"conditions": approved}})
        );
        let of_status = |error: &FieldError| error.field.starts_with("status");
        let texts = |new: &Value, old: &Value, part| -> Vec<String> {
            let errors = validate_update(new, old, part).into_iter().filter(of_status);
            errors.map(|error| format!("{}: {}", error.field, error.message)).collect()
        };
        assert_eq!(texts(&new, &old, Part::Approval), [""; 0]);
        assert_eq!(texts(&new, &old, Part::Status), ["status.conditions: Forbidden: updates may not add a condition of type \"Approved\""]);
        let signed = |certificate: &str| json!({"status": {"certificate": certificate}});
        assert_eq!(texts(&signed("x"), &old, Part::Status), [""; 0]);
        assert_eq!(texts(&signed("x"), &old, Part::Main), ["status.certificate: Forbidden: updates may not set certificate content"]);
        assert_eq!(
            texts(&signed("y"), &signed("x"), Part::Status),
            ["status.certificate: Forbidden: updates may not modify existing certificate content"]
        );
        let both = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "False"}, {"type": "", "status": ""}]}});
        assert_eq!(
            texts(&both, &old, Part::Approval),
            [
                "status.conditions[1].status: Unsupported value: \"False\": supported values: \"True\"",
                "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
                "status.conditions[2].type: Required value",
                "status.conditions[2].status: Required value",
            ]
        );
    }
}
